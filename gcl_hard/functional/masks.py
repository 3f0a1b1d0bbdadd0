"""Boolean masks, anchors × candidates, and reductions over their marked entries."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gcl_hard.errors import InputError


def two_view_others(n_items: int, device: torch.device | None = None) -> Tensor:
    """The ``others`` of every embedding of two stacked views: all but itself and its other view.

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
    """The labels themselves, once they are known to be class labels.

    Args:
        labels: class of each item, integer tensor [n_items], ≥ 0.
        n_items: number of items.
        needed_by: what needs the labels, for the message.

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


def check_local_global(nodes: Tensor, graphs: Tensor, batch: Tensor) -> None:
    """Check that embeddings of nodes and graphs fit together.

    Args:
        nodes: must be [N, d].
        graphs: must be [G, d].
        batch: must be [N].

    Raises:
        InputError: if they do not; names the shapes.

    Example:
        >>> check_local_global(torch.ones(3, 2), torch.ones(2, 2), torch.tensor([0, 0, 1]))
    """
    if nodes.dim() != 2 or graphs.dim() != 2 or nodes.shape[1] != graphs.shape[1]:
        raise InputError(
            f"nodes and graphs must be [N, d] and [G, d], got {list(nodes.shape)} and "
            f"{list(graphs.shape)}"
        )
    if batch.shape != nodes.shape[:1]:
        raise InputError(
            f"batch must name the graph of each of {len(nodes)} nodes, got {list(batch.shape)}"
        )


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the marked entries; an attached 0 if there are none.

    Args:
        values: float, any shape.
        mask: bool, the same shape.

    Returns:
        float [].

    Example:
        >>> masked_mean(torch.tensor([1.0, 3.0, math.nan]), torch.tensor([True, True, False]))
        tensor(2.)
    """
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)


def mean_or_nan(values: Tensor, mask: Tensor) -> float:
    """Mean of the marked entries as a Python number; NaN if there are none.

    Args:
        values: float, any shape.
        mask: bool, the same shape.

    Example:
        >>> mean_or_nan(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([True, True, False]))
        2.0
    """
    return values[mask].mean().item()


def masked_logsumexp(values: Tensor, mask: Tensor) -> Tensor:
    """Log-sum-exp of the marked entries of each row, with a finite gradient in empty rows.

    Args:
        values: float [A, C].
        mask: bool [A, C].

    Returns:
        float [A, 1]; log C, a meaningless number, in rows without a marked entry.

    Example:
        >>> masked_logsumexp(torch.tensor([[0.0, 0.0, 9.0]]), torch.tensor([[True, True, False]]))
        tensor([[0.6931]])
    """
    none = ~mask.any(1, keepdim=True)
    return torch.where(mask, values, -math.inf).masked_fill(none, 0.0).logsumexp(1, keepdim=True)
