"""Views of the same graphs as one batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from gcl_hard.graphs.data import GraphBatch
from gcl_hard.graphs.layers import Sums
from gcl_hard.graphs.sparse import csr


@dataclass(frozen=True, eq=False)
class PairedViews:
    """All views of a batch of graphs, with the sparse matrices for message passing.

    Attributes:
        graphs: the first views, followed by the second ones and so on.
        y: int64 [B], labels of the graphs.
        neighbours: adjacency with self loops [n, n], or the incidence [n, e] of targets and
            edges where edges have features.
        readout: membership of nodes in graphs, [VB, n].
        sizes: int64 [VB], nodes of each graph.
    """

    graphs: GraphBatch
    y: Tensor
    neighbours: Sums
    readout: Sums
    sizes: Tensor

    @classmethod
    def of(cls, *views: GraphBatch, by_edge: bool) -> PairedViews:
        """Join views of the same graphs."""
        joined = reduce(GraphBatch.followed_by, views)
        n, device = len(joined.x), joined.x.device
        nodes = torch.arange(n, device=device)
        source, target = joined.edge_index
        if by_edge:
            edges = torch.arange(len(source), device=device)
            neighbours = _sums(target, edges, (n, len(source)), joined.x.dtype)
        else:
            receivers, senders = torch.cat([target, nodes]), torch.cat([source, nodes])
            neighbours = _sums(receivers, senders, (n, n), joined.x.dtype)
        readout = _sums(joined.batch, nodes, (joined.n_graphs, n), joined.x.dtype)
        sizes = torch.bincount(joined.batch, minlength=joined.n_graphs)
        return cls(joined, views[0].y, neighbours, readout, sizes)


def _sums(row: Tensor, column: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Sums:
    """The matrix that counts pairs of row and column, and its transpose."""
    return Sums(_csr(row, column, shape, dtype), _csr(column, row, shape[::-1], dtype))


def _csr(row: Tensor, column: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    order = torch.argsort(row * shape[1] + column)
    starts = torch.bincount(row, minlength=shape[0]).cumsum(0)
    starts = torch.cat([starts.new_zeros(1), starts])
    return csr(starts, column[order], torch.ones(len(row), dtype=dtype, device=row.device), shape)
