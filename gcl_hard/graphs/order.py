"""Ids of graphs: selection, and the order of an epoch."""

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
    index: Ids, n_graphs: int, name: str, *, least: int = 1, unit: str = "graph"
) -> Tensor:
    """Ids of the graphs or nodes that an index selects, int64 on the CPU.

    Raises:
        InputError: for fewer than ``least``, or what is neither ids nor a mask.
        IndexError: for ids out of range.
    """
    every = torch.arange(n_graphs)
    if isinstance(index, slice):
        ids = every[index]
    else:
        values = torch.as_tensor(index).cpu()
        whole = not values.is_floating_point() or not values.numel()  # [] is a list of floats
        if values.ndim != 1 or not whole or (values < 0).any():
            raise InputError(f"{name} is {index!r:.60}; expected {unit} ids from 0, or a mask")
        ids = every[values if values.dtype == torch.bool else values.long()]
    if len(ids) < least:
        raise InputError(f"{name} selects {len(ids)} {unit}s; expected {least} at least")
    return ids


def epoch_batches(
    n_graphs: int, batch_size: int, *, seed: int, epoch: int, held_out: Tensor | None = None
) -> list[Tensor]:
    """A permutation of all graphs, split into the batches of an epoch, without held-out graphs.

    Held-out graphs are removed from their batches, so models trained on different folds see the
    remaining graphs in the same order. A batch left with fewer than two graphs has no negatives
    and joins its neighbour.

    Args:
        n_graphs: G.
        batch_size: graphs per batch, >= 2, before held-out graphs are removed.
        seed: seed of the order, >= 0.
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
    """The batches of an epoch before held-out graphs are removed, for several models at once.

    Args:
        n_graphs: G.
        batch_size: as in :func:`epoch_batches`, like seed and epoch.
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
    check_at_least("batch_size", batch_size, 2)
    check_at_least("seed", seed, 0)
    check_at_least("epoch", epoch, 0)
    kept = torch.ones(1, n_graphs, dtype=torch.bool) if kept is None else kept
    if (least := int(kept.sum(1).min())) < 2:
        raise InputError(f"{least} of {n_graphs} graphs to train on; expected >= 2")
    order = torch.randperm(n_graphs, generator=seeded(seed, epoch))
    chunks = torch.split(order, batch_size)
    remaining = torch.stack([part.sum(1) for part in torch.split(kept[:, order], batch_size, 1)], 1)
    if int(remaining.min()) >= 2:
        return list(chunks)
    joined = {tuple(_joined(row)) for row in remaining.tolist()}
    if len(joined) > 1:
        raise InputError(
            f"held-out graphs leave the models different batches in epoch {epoch}: train them in "
            f"separate ensembles"
        )
    return [torch.cat([chunks[i] for i in group]) for group in joined.pop()]


def _joined(remaining: list[int]) -> list[tuple[int, ...]]:
    """Chunks joined with their neighbours, so that each has at least two graphs."""
    groups: list[tuple[int, ...]] = []
    for i, n in enumerate(remaining):
        if groups and min(n, sum(remaining[j] for j in groups[-1])) < 2:
            groups[-1] += (i,)
        else:
            groups.append((i,))
    return groups


def cluster_order(order: NDArray[np.int64], near: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """An order with similar molecules next to each other.

    Args:
        order: ids in a random order.
        near: neighbours of each id, nearest first.
        n: most neighbours that follow each id, among those not yet placed.

    Returns:
        The same ids, in another order.

    Example:
        >>> cluster_order(np.array([2, 0, 1, 3]), np.array([[1], [0], [3], [2]]), 1).tolist()
        [2, 3, 0, 1]
    """
    left = np.zeros(len(near), bool)
    left[order] = True
    ordered: list[int] = []
    for start in order.tolist():
        if left[start]:
            left[start] = False
            following = near[start][left[near[start]]][:n]
            left[following] = False
            ordered += [start, *following.tolist()]
    return np.array(ordered, np.int64)
