"""Batches of graphs: their order in an epoch, and two views of the same graphs as one batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gcl_hard.errors import InputError, check_at_least
from gcl_hard.graphs.data import GraphBatch, checked_ids
from gcl_hard.graphs.layers import Sums
from gcl_hard.seeds import seeded


def epoch_batches(
    n_graphs: int, batch_size: int, *, seed: int, epoch: int, held_out: Tensor | None = None
) -> list[Tensor]:
    """A permutation of all graphs, cut into the batches of an epoch, without held-out graphs.

    Held-out graphs leave the batches they fell in, so models trained on different folds see the
    remaining graphs in the same order. A batch left with fewer than two graphs has no negatives
    and joins its neighbour.

    Args:
        n_graphs: G.
        batch_size: graphs per batch, >= 2, before any is dropped.
        seed: >= 0, of the order.
        epoch: >= 0; each has its own permutation.
        held_out: int64 ids of the graphs to leave out.

    Returns:
        CPU int64 index tensors of at least two graphs each.

    Raises:
        InputError: a size or seed out of range, or fewer than two graphs remain.

    Example:
        >>> batches = epoch_batches(5, 2, seed=0, epoch=1, held_out=torch.tensor([3]))
        >>> sorted(torch.cat(batches).tolist())
        [0, 1, 2, 4]
    """
    kept = torch.ones(n_graphs, dtype=torch.bool)
    if held_out is not None:
        kept[checked_ids(held_out, n_graphs, "held_out", least=0)] = False
    chunks = epoch_chunks(n_graphs, batch_size, seed=seed, epoch=epoch, kept=kept[None])
    return [chunk[kept[chunk]] for chunk in chunks]


def epoch_chunks(
    n_graphs: int, batch_size: int, *, seed: int, epoch: int, kept: Tensor | None = None
) -> list[Tensor]:
    """The batches of one epoch before held-out graphs are dropped, for several models at once.

    Args:
        n_graphs: G.
        batch_size: as in :func:`epoch_batches`; so are seed and epoch.
        seed: seed of the order.
        epoch: epoch of the order.
        kept: bool [P, G], graphs that each model trains on; None if all do.

    Returns:
        CPU int64 index tensors.

    Raises:
        InputError: a size or seed out of range, a model with fewer than two graphs, or models
            whose held-out graphs would join different batches.

    Example:
        >>> sum(len(chunk) for chunk in epoch_chunks(5, 2, seed=0, epoch=1))
        5
    """
    for what, got, least in (("batch_size", batch_size, 2), ("seed", seed, 0), ("epoch", epoch, 0)):
        check_at_least(what, got, least)
    kept = torch.ones(1, n_graphs, dtype=torch.bool) if kept is None else kept
    if (least := int(kept.sum(1).min())) < 2:
        raise InputError(f"{least} of {n_graphs} graphs to train on; expected >= 2")
    order = torch.randperm(n_graphs, generator=seeded(seed, epoch))
    chunks = torch.split(order, batch_size)
    left = torch.stack([part.sum(1) for part in torch.split(kept[:, order], batch_size, 1)], 1)
    if int(left.min()) >= 2:
        return list(chunks)
    joined = {tuple(_joined(row)) for row in left.tolist()}
    if len(joined) > 1:
        raise InputError(
            f"held-out graphs leave the models different batches in epoch {epoch}: train them in "
            f"ensembles of their own"
        )
    return [torch.cat([chunks[i] for i in group]) for group in joined.pop()]


def _joined(left: list[int]) -> list[tuple[int, ...]]:
    """Chunks joined with their neighbours, so that each has at least two graphs."""
    groups: list[tuple[int, ...]] = []
    for i, n in enumerate(left):
        if groups and min(n, sum(left[j] for j in groups[-1])) < 2:
            groups[-1] += (i,)
        else:
            groups.append((i,))
    return groups


@dataclass(frozen=True, eq=False)
class PairedViews:
    """Both views of some graphs, and the sparse matrices for message passing on them.

    Attributes:
        graphs: the first views, followed by the second ones.
        y: int64 [B], of the graphs.
        neighbours: adjacency with self loops [n, n], or the incidence [n, e] of targets and
            edges where edges have features.
        readout: membership of nodes in graphs, [2B, n].
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
    def of(cls, first: GraphBatch, second: GraphBatch, *, by_edge: bool) -> PairedViews:
        """Pair two views of the same graphs."""
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
    """The matrix that counts pairs of row and column, and its transpose."""
    return Sums(_csr(row, column, shape, dtype), _csr(column, row, shape[::-1], dtype))


def _csr(row: Tensor, column: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    order = torch.argsort(row * shape[1] + column)
    starts = torch.bincount(row, minlength=shape[0]).cumsum(0)
    starts = torch.cat([starts.new_zeros(1), starts])
    times = torch.ones(len(row), dtype=dtype, device=row.device)
    return torch.sparse_csr_tensor(starts, column[order], times, shape, check_invariants=False)
