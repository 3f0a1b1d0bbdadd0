"""Graph encoders for export: batches as pointers to the first node of each graph."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn


class PointerEncoder(nn.Module):
    r"""A graph encoder whose batch is given by pointers, so that G is a shape.

    .. math:: \text{batch}_v = |\{i : \text{ptr}_i \le v\}| - 1, \qquad G = |\text{ptr}| - 1

    ``torch.export`` does not support sizes read from values, as G is from ``batch``.

    Args:
        encoder: a graph encoder ``(x, edge_index, batch) -> (nodes, graphs)``; it gets G if its
            ``forward`` has a parameter ``n_graphs``.

    Example:
        >>> from gcl_hard.graphs import GIN
        >>> inputs = {"x": torch.ones(3, 7), "edge_index": torch.tensor([[0, 1], [1, 0]])}
        >>> PointerEncoder(GIN(7))(**inputs, ptr=torch.tensor([0, 2, 3]))[1].shape
        torch.Size([2, 96])
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.counts = "n_graphs" in inspect.signature(encoder.forward).parameters

    def forward(
        self, x: Tensor, edge_index: Tensor, ptr: Tensor, edge_attr: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Embed a batch of graphs.

        Args:
            x: [N, F], node features.
            edge_index: int64 [2, E], both directions of every edge.
            ptr: int64 [G + 1], the first node of each graph, and N.
            edge_attr: [E, K], for encoders that use it.

        Returns:
            Embeddings of nodes [N, d] and of graphs [G, d].
        """
        n_nodes = x.shape[0]
        starts = ptr.new_zeros(n_nodes + 1).scatter_add(0, ptr, torch.ones_like(ptr))
        batch = starts.cumsum(0)[:n_nodes] - 1
        keywords: dict[str, Any] = {} if edge_attr is None else {"edge_attr": edge_attr}
        if self.counts:
            # Read from a tensor, the number may be 1, whereas exported axes of size 1 are refused.
            keywords["n_graphs"] = torch.full((), ptr.shape[0] - 1).item()
            torch._check(keywords["n_graphs"] >= 1)
        return self.encoder(x, edge_index, batch, **keywords)


def paths(n: int) -> tuple[Tensor, Tensor]:
    """Path graphs of 1, 2, …, n nodes: edges int64 [2, E] and pointers int64 [n + 1].

    Example:
        >>> paths(2)
        (tensor([[1, 2],
                [2, 1]]), tensor([0, 1, 3]))
    """
    sizes = torch.arange(1, n + 1)
    path_ids = torch.repeat_interleave(sizes)
    left = (path_ids[:-1] == path_ids[1:]).nonzero().flatten()
    edges = torch.stack([torch.cat([left, left + 1]), torch.cat([left + 1, left])])
    return edges, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
