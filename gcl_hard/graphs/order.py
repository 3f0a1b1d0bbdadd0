"""Ids of graphs: which are chosen, and in which order they come in an epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.seeds import seeded
from gcl_hard.errors import InputError, check_at_least

Ids = Tensor | Sequence[int] | slice
"""Ids of graphs, or a mask of booleans, as a tensor, a list, a NumPy array or a slice."""


def checked_ids(
    index: Ids, n_graphs: int, what: str, *, least: int = 1, of: str = "graph"
) -> Tensor:
    """Valid ids of graphs, or of nodes, int64 on the CPU."""
    if isinstance(index, slice):
        index = range(*index.indices(n_graphs))
    try:
        given = torch.as_tensor(index)
    except (TypeError, ValueError, RuntimeError):
        given = torch.empty(0, 0)
    if given.dtype == torch.bool and given.shape == (n_graphs,):
        given = given.nonzero().flatten()
    elif not given.numel() and not isinstance(index, Tensor):
        given = given.long()  # an empty list becomes float
    whole = not given.is_floating_point() and not given.is_complex() and given.dtype != torch.bool
    if not whole or given.ndim != 1 or given.numel() < least:
        kind = f"{index.dtype} {list(index.shape)}" if isinstance(index, Tensor) else repr(index)
        raise InputError(f"{what} is {kind}; expected {of} ids, int64 [B], B >= {least}")
    ids = given.cpu().long()
    if ids.numel() and not (ids.min() >= 0 and ids.max() < n_graphs):
        bounds = f"{int(ids.min())}..{int(ids.max())}"
        raise InputError(f"{what} holds {of} ids {bounds}; this set has 0..{n_graphs - 1}")
    return ids


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


def cluster_order(order: NDArray[np.int64], near: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """An order in which similar molecules stand side by side.

    Args:
        order: ids in a random order.
        near: for each id others, the nearest first.
        n: how many of those that have not had their turn follow each id.

    Returns:
        The same ids, in another order.

    Example:
        >>> cluster_order(np.array([2, 0, 1, 3]), np.array([[1], [0], [3], [2]]), 1).tolist()
        [2, 3, 0, 1]
    """
    left = np.zeros(len(near), bool)
    left[order] = True
    found: list[int] = []
    for one in order.tolist():
        if left[one]:
            left[one] = False
            following = near[one][left[near[one]]][:n]
            left[following] = False
            found += [one, *following.tolist()]
    return np.array(found, np.int64)
