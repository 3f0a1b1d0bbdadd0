"""Two views of the same graphs as one batch, and what several models add up in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gcl_hard.graphs.batches import GraphBatch
from gcl_hard.graphs.layers import Sums


@dataclass(frozen=True, eq=False)
class Views:
    """Both views of some graphs, and what every model adds up in them.

    Attributes:
        graphs: the first views, then the second ones.
        y: int64 [B], of the graphs.
        neighbours: who sends to whom, itself included: [n, n]; edges [n, e] where they carry
            features.
        readout: which nodes a graph has, [2B, n].
    """

    graphs: GraphBatch
    y: Tensor
    neighbours: Sums
    readout: Sums

    @property
    def sizes(self) -> Tensor:
        """Nodes of each graph, int64 [2B]."""
        return torch.bincount(self.graphs.batch, minlength=self.graphs.n_graphs)

    @classmethod
    def of(cls, first: GraphBatch, second: GraphBatch, *, by_edge: bool) -> Views:
        """Of two views of the same graphs."""
        both = first.followed_by(second)
        n, device = len(both.x), both.x.device
        nodes = torch.arange(n, device=device)
        source, target = both.edge_index
        if by_edge:
            edges = torch.arange(len(source), device=device)
            neighbours = _sums(target, edges, (n, len(source)), both.x.dtype)
        else:
            to, of = torch.cat([target, nodes]), torch.cat([source, nodes])
            neighbours = _sums(to, of, (n, n), both.x.dtype)
        readout = _sums(both.batch, nodes, (both.n_graphs, n), both.x.dtype)
        return cls(both, first.y, neighbours, readout)


def _sums(row: Tensor, column: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Sums:
    """A matrix that counts pairs of row and column, and its transpose."""
    return Sums(_csr(row, column, shape, dtype), _csr(column, row, shape[::-1], dtype))


def _csr(row: Tensor, column: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    order = torch.argsort(row * shape[1] + column)
    starts = torch.bincount(row, minlength=shape[0]).cumsum(0)
    starts = torch.cat([starts.new_zeros(1), starts])
    times = torch.ones(len(row), dtype=dtype, device=row.device)
    return torch.sparse_csr_tensor(
        starts, column[order], times, tuple(shape), check_invariants=False
    )
