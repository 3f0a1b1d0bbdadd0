"""Batches of graphs as pointers to their first nodes: encoders of graphs as they are exported."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn


class PointerEncoder(nn.Module):
    r"""A graph encoder that reads where graphs begin, from which their number is known.

    .. math:: \text{batch}_v = |\{i : \text{ptr}_i \le v\}| - 1, \qquad G = |\text{ptr}| - 1

    ``torch.export`` has no sizes that are read from values, as G is from ``batch``.

    Args:
        encoder: a graph encoder ``(x, edge_index, batch) -> (nodes, graphs)``; one whose
            ``forward`` has a parameter ``n_graphs`` is given G.

    Example:
        >>> from gcl_hard.graphs import GIN
        >>> given = {"x": torch.ones(3, 7), "edge_index": torch.tensor([[0, 1], [1, 0]])}
        >>> PointerEncoder(GIN(7))(**given, ptr=torch.tensor([0, 2, 3]))[1].shape
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
            edge_attr: [E, K], for encoders that read it.

        Returns:
            Embeddings of nodes [N, d] and of graphs [G, d].
        """
        n_nodes = x.shape[0]
        begun = ptr.new_zeros(n_nodes + 1).scatter_add(0, ptr, torch.ones_like(ptr))
        batch = begun.cumsum(0)[:n_nodes] - 1
        given: dict[str, Any] = {} if edge_attr is None else {"edge_attr": edge_attr}
        if self.counts:
            # A number that a tensor holds may be 1, where a program refuses axes of one.
            given["n_graphs"] = torch.full((), ptr.shape[0] - 1).item()
            torch._check(given["n_graphs"] >= 1)
        found: tuple[Tensor, Tensor] = self.encoder(x, edge_index, batch, **given)
        return found


def paths(n: int) -> tuple[Tensor, Tensor]:
    """Paths of 1, 2, …, n nodes: the edges int64 [2, E], and the pointers int64 [n + 1].

    Example:
        >>> paths(2)
        (tensor([[1, 2],
                [2, 1]]), tensor([0, 1, 3]))
    """
    sizes = torch.arange(1, n + 1)
    of = torch.repeat_interleave(sizes)
    left = (of[:-1] == of[1:]).nonzero().flatten()
    edges = torch.stack([torch.cat([left, left + 1]), torch.cat([left + 1, left])])
    return edges, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
