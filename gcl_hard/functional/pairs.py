"""Who may be whose negative, and who is whose positive: boolean masks, anchors × candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from gcl_hard.errors import InputError


def two_view_others(n_items: int, device: torch.device | None = None) -> Tensor:
    """The ``others`` of every embedding of two stacked views: all but itself and its own view.

    Args:
        n_items: B, number of items; rows i and i + B are the views of item i.
        device: where the mask is made.

    Returns:
        bool [2B, 2B]; row sums are 2B − 2.

    Example:
        >>> two_view_others(2).int()
        tensor([[0, 1, 0, 1],
                [1, 0, 1, 0],
                [0, 1, 0, 1],
                [1, 0, 1, 0]], dtype=torch.int32)
    """
    own = torch.eye(n_items, dtype=torch.bool, device=device)
    return ~own.tile(2, 2)


def local_global_others(batch: Tensor, n_graphs: int) -> Tensor:
    """The ``others`` of every node: all graphs but its own.

    Args:
        batch: int64 [N], graph of each node, 0 … n_graphs − 1.
        n_graphs: G.

    Returns:
        bool [N, G]; row sums are G − 1.

    Example:
        >>> local_global_others(torch.tensor([0, 0, 1]), 2).int()
        tensor([[0, 1],
                [0, 1],
                [1, 0]], dtype=torch.int32)
    """
    return batch[:, None] != torch.arange(n_graphs, device=batch.device)


def same_label(anchor_labels: Tensor, candidate_labels: Tensor) -> Tensor:
    """Which candidates carry their anchor's label.

    Args:
        anchor_labels: int [A].
        candidate_labels: int [C].

    Returns:
        bool [A, C].

    Example:
        >>> same_label(torch.tensor([0, 1]), torch.tensor([1, 1, 0])).int()
        tensor([[0, 0, 1],
                [1, 1, 0]], dtype=torch.int32)
    """
    return anchor_labels[:, None] == candidate_labels


def check_labels(labels: Tensor | None, n_items: int, needed_by: str) -> Tensor:
    """Labels as they came, or an error that says what is wrong with them.

    Args:
        labels: class of each item, integer tensor [n_items], ≥ 0.
        n_items: how many items there are.
        needed_by: who asks, for the message.

    Returns:
        The labels.

    Raises:
        InputError: if they are missing, of another length or dtype, or negative (the −1 of
            unlabelled splits would make one class of all unlabelled items).

    Example:
        >>> check_labels(torch.tensor([0, 1]), 2, needed_by="scl")
        tensor([0, 1])
    """
    if labels is None:
        raise InputError(f"{needed_by} needs labels: pass an integer tensor of shape [{n_items}]")
    if labels.shape != (n_items,):
        raise InputError(
            f"labels must have shape [{n_items}], one per item, got {list(labels.shape)}"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise InputError(f"labels must be integers (torch.int64), got {labels.dtype}")
    if n_items and int(labels.min()) < 0:
        raise InputError(
            f"labels must be at least 0, got {int(labels.min())}: {needed_by} cannot use "
            f"unlabelled items"
        )
    return labels
