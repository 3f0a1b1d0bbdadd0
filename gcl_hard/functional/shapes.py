"""Shapes that go together, for everything that takes nodes and graphs."""

from __future__ import annotations

from torch import Tensor

from gcl_hard.errors import InputError


def check_local_global(nodes: Tensor, graphs: Tensor, batch: Tensor) -> None:
    """Refuse embeddings and owners whose shapes do not go together.

    Args:
        nodes: must be [N, d].
        graphs: must be [G, d].
        batch: must be [N].

    Raises:
        InputError: names the shapes.

    Example:
        >>> import torch
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
