"""Rankings of items by cosine: recall at k and mean average precision at R."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gcl_hard.errors import InputError, check_at_least
from gcl_hard.evaluation.checks import Floats, Indices, check_classes, check_numbers

KS = (1, 2, 4, 8)
"""The k of R@k."""
TIE = 12
"""Decimals of a cosine: what differs beyond them is rounding, which depends on the machine."""
BLOCK, PART = 2**25, 2**22
"""Cosines in memory at a time, 256 MiB, and those that are sorted at a time."""


@dataclass(frozen=True)
class Retrieval:
    """Rankings of queries, summarised.

    Attributes:
        ids: int64 [q], the queries, ascending: the items that are not alone in their class.
        rank: float64 [q], from 1: of the nearest item of the same class; infinite if it is beyond
            the largest k and beyond the number of such items.
        average_precision: float64 [q], AP@R, from 0 to 1.
        n_tied: int64 [q], ranked items whose cosine another item has, too.
        n_alone: number of items alone in their class, which are candidates and no queries.
        k: largest k of :meth:`recall`.
    """

    ids: Indices
    rank: Floats
    average_precision: Floats
    n_tied: Indices
    n_alone: int
    k: int

    def recall(self, k: int) -> float:
        """R@k, the share of queries with an item of their class among the k nearest.

        Args:
            k: at least 1, and at most the largest k that was ranked.
        """
        check_at_least("k", k, 1)
        if k > self.k:
            raise InputError(f"k={k}: ranked were the {self.k} nearest items")
        return float(np.mean(self.rank <= k))

    @property
    def map_at_r(self) -> float:
        """MAP@R, the mean of AP@R."""
        return float(np.mean(self.average_precision))

    @property
    def predicted(self) -> Floats:
        """Rank and AP@R of each query, float64 [q, 2], which the metrics ``recall_1`` to
        ``recall_8`` and ``map_at_r`` take.
        """
        return np.stack([self.rank, self.average_precision], axis=1)

    @property
    def targets(self) -> Indices:
        """The best rank and AP@R, int64 [q, 2]: ones."""
        return np.ones((len(self.ids), 2), dtype=np.int64)


def retrieve(z: ArrayLike, y: ArrayLike, *, ks: Sequence[int] = KS) -> Retrieval:
    r"""Rank all items for each item by cosine, and look for those of its class.

    .. math:: \text{AP@R}_i = \frac{1}{R_i} \sum_{r=1}^{R_i}
              \mathbb{1}[y_{i(r)} = y_i] \, \frac{\#\{s \le r : y_{i(s)} = y_i\}}{r}

    where i(r) is the r-th nearest other item, and R_i the number of others of i's class. Of items
    with one cosine, that of the lower index comes first. Zero vectors have the cosine 0 with all.

    Args:
        z: real numbers [n, d].
        y: integers [n], classes.
        ks: the k of R@k, each at least 1.

    Returns:
        The ranks and average precisions. Beside ``z`` they take a copy in double precision and
        less than 600 MB.

    Raises:
        InputError: for invalid numbers or classes, no class of two items, or fewer than k + 1
            items.

    Source:
        Musgrave, Belongie and Lim, *A Metric Learning Reality Check*, 2020; its
        ``AccuracyCalculator`` calls R@1 ``precision_at_1``.

    Example:
        >>> z = [[1, 0], [1, 0.1], [0.1, 1], [0, 1], [1, 1]]
        >>> ranked = retrieve(z, [0, 0, 1, 1, 2], ks=[1])
        >>> ranked.recall(1), ranked.map_at_r, ranked.n_alone
        (1.0, 1.0, 1)
    """
    x = _units(check_numbers("z", z, dtype=None))
    classes, largest = check_classes("y", y, len(x)), max(ks)
    check_at_least("the smallest k", min(ks), 1)
    if len(x) <= largest:
        raise InputError(f"R@{largest} needs {largest + 1} items or more, got {len(x)}")
    _, classes, sizes = np.unique(classes, return_inverse=True, return_counts=True)
    relevant = sizes[classes] - 1
    ids = np.flatnonzero(relevant)
    if not len(ids):
        raise InputError("y: no class has two items, so that none can be found")
    rank, precision, n_tied = np.zeros(len(x)), np.zeros(len(x)), np.zeros(len(x), np.int64)
    order = ids[np.argsort(relevant[ids], kind="stable")]  # queries of a block need as many items
    blocks = np.array_split(order, -(-len(order) * len(x) // BLOCK))
    buffer = x.new_empty(len(blocks[0]), len(x))
    for block in blocks:
        cosines = torch.mm(x[block], x.T, out=buffer[: len(block)])
        cosines[np.arange(len(block)), block] = -torch.inf
        size = max(1, PART // len(x))
        for start in range(0, len(block), size):
            queries = block[start : start + size]
            rank[queries], precision[queries], n_tied[queries] = _ranked(
                cosines[start : start + size], classes[queries], classes, relevant[queries], largest
            )
    return Retrieval(ids, rank[ids], precision[ids], n_tied[ids], len(x) - len(ids), largest)


def _units(x: NDArray[Any]) -> torch.Tensor:
    rows = x.astype(np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    rows /= np.where(norms == 0, 1, norms)
    return torch.from_numpy(rows)


def _ranked(
    cosines: torch.Tensor, asked: Indices, classes: Indices, relevant: Indices, k: int
) -> tuple[Floats, Floats, Indices]:
    """Rank, AP@R and number of tied items of queries from their cosines with all items."""
    depth, numbers = np.maximum(relevant, k), np.arange(len(asked))
    row, column, cosine = _nearest(cosines, int(depth.max()))
    starts = np.searchsorted(row, numbers)
    place = 1 + np.arange(len(row)) - starts[row]
    same, ranked = classes[column] == asked[row], place <= depth[row]
    rank = np.full(len(asked), np.inf)
    hits = same & ranked
    np.minimum.at(rank, row[hits], place[hits])
    before = np.cumsum(same) - same
    hits &= place <= relevant[row]
    share = (1 + before - before[starts][row]) / place
    precision = np.bincount(row[hits], share[hits], len(asked)) / relevant
    level = np.concatenate([[False], (np.diff(row) == 0) & (np.diff(cosine) == 0), [False]])
    tied = (level[1:] | level[:-1]) & ranked
    return rank, precision, np.bincount(row[tied], minlength=len(asked))


def _nearest(cosines: torch.Tensor, depth: int) -> tuple[Indices, Indices, Floats]:
    """Rows, columns and cosines of at least the ``depth`` nearest items of each row, in order, and
    of all that are level with these.
    """
    n = cosines.shape[1]
    # The depth-th largest of the maxima of runs of columns is at most the depth-th largest cosine.
    run = max(1, n // (4 * depth))
    maxima = cosines.unfold(1, run, run).amax(2).numpy()
    place = maxima.shape[1] - depth
    least = np.partition(maxima, place, axis=1)[:, place] - 2 * 10.0**-TIE
    near = np.flatnonzero(cosines.numpy() >= least[:, None])
    row, column = np.divmod(near, n)
    cosine = cosines.numpy().ravel()[near].round(TIE)
    order = np.lexsort((-cosine, row))
    return row[order], column[order], cosine[order]
