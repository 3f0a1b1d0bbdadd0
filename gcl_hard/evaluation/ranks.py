"""Whether methods differ over data sets: mean ranks and how far apart they must lie."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import (
    Floats,
    check_at_least,
    check_level,
    check_numbers,
    check_vector,
    rounded,
)

# scipy.stats takes half a second to import, and only drawings of ranks need it.


def average_ranks(scores: ArrayLike) -> Floats:
    """Mean rank of each method over data sets; the highest score has rank 1, ties share a rank.

    Args:
        scores: accuracies [n_sets, k] of k methods, n_sets >= 1 and k >= 1.

    Returns:
        Mean ranks, float64 [k], in [1, k].

    Raises:
        InputError: no such matrix, or values that are no finite numbers.

    Source: Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006,
        section 3.2.2; ``scipy.stats.rankdata``.

    Example:
        >>> average_ranks([[0.9, 0.8, 0.8], [0.7, 0.9, 0.6]])
        array([1.5 , 1.75, 2.75])
    """
    from scipy.stats import rankdata

    x = _scores(scores)
    ranks: Floats = rankdata(-rounded(x, x), axis=1).mean(axis=0)
    return ranks


def friedman(scores: ArrayLike) -> float | None:
    """P-value of Friedman's test that all methods rank alike over data sets.

    Args:
        scores: accuracies [n_sets, k] of k methods, n_sets >= 1 and k >= 1.

    Returns:
        p in [0, 1], by the χ² approximation, which is conservative for few sets; 1 where all
        methods tie in every set; None with k < 3 or n_sets < 2.

    Raises:
        InputError: no such matrix, or values that are no finite numbers.

    Source: Demšar, JMLR 7, 2006, section 3.2.2; ``scipy.stats.friedmanchisquare``.

    Example:
        >>> round(friedman([[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.9, 0.7, 0.8]]), 3)
        0.097
    """
    from scipy.stats import friedmanchisquare

    x = _scores(scores)
    n_sets, k = x.shape
    if k < 3 or n_sets < 2:
        return None
    x = rounded(x, x)
    if not np.ptp(x, axis=1).any():
        return 1.0
    return float(friedmanchisquare(*x.T).pvalue)


def critical_difference(k: int, n_sets: int, level: float = 0.95) -> float:
    """How far two mean ranks must lie apart for the Nemenyi test to tell the methods apart.

    q · √(k (k + 1) / (6 n_sets)), q being the ``level`` quantile of the range of k standard
    normal numbers, divided by √2.

    Args:
        k: methods compared, >= 2.
        n_sets: data sets they were ranked on, >= 1.
        level: of confidence, in (0, 1).

    Returns:
        The difference, in ranks.

    Raises:
        InputError: a count that is too small, or a level out of range.

    Source: Demšar, JMLR 7, 2006, section 3.2.2 and Table 5; ``scipy.stats.studentized_range``.

    Example:
        >>> round(critical_difference(5, 30), 3)
        1.114
    """
    check_at_least("k", k, 2)
    check_at_least("n_sets", n_sets, 1)
    check_level(level)
    from scipy.stats import studentized_range

    q = studentized_range.ppf(level, k, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(k * (k + 1) / (6 * n_sets)))


def cliques(ranks: ArrayLike, cd: float) -> list[tuple[int, int]]:
    """Groups of methods that a critical difference does not tell apart, for its drawing.

    A group holds all methods from ``first`` to ``last`` of the ascending order, where
    ranks[last] − ranks[first] <= cd; it has two members or more and lies in no larger group.

    Args:
        ranks: mean ranks [k], in any order.
        cd: critical difference, >= 0.

    Returns:
        (first, last) positions in the order of ascending rank, both included, from 0; ascending.

    Raises:
        InputError: ranks that are no finite numbers, or a negative difference.

    Source: Demšar, JMLR 7, 2006, Figure 1.

    Example:
        >>> cliques([3.5, 1.0, 1.5, 2.2], cd=1.3)
        [(0, 2), (2, 3)]
    """
    ascending = np.sort(check_vector("ranks", ranks, least=0))
    if not 0 <= cd < np.inf:
        raise InputError(f"cd={cd!r}: expected a finite number >= 0")
    groups: list[tuple[int, int]] = []
    reached = 0
    for first, rank in enumerate(ascending):
        last = int(np.count_nonzero(ascending - rank <= cd)) - 1
        if last > max(first, reached):
            groups.append((first, last))
            reached = last
    return groups


def _scores(scores: ArrayLike) -> Floats:
    array = np.asarray(scores)
    fits = array.ndim == 2 and array.size > 0
    expected = "real numbers [n_sets, k] with n_sets >= 1 and k >= 1"
    return check_numbers("scores", array, fits, expected)
