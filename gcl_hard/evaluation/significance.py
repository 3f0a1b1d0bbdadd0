"""Whether methods differ: paired tests on one data set, mean ranks over several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gcl_hard.errors import InputError, check_at_least, check_number
from gcl_hard.evaluation.checks import Floats, check_numbers, check_share

# scipy.stats takes half a second to import: tables of p-values do without it.

ROUNDING = 12  # decimals of the largest value that comparisons use: sums are rounded beyond


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval, in the unit of the values.

    Attributes:
        mean: mean of the values.
        low: lower end; not clipped to the range of an accuracy.
        high: upper end.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedTest:
    """A mean difference, its confidence interval and whether it differs from 0.

    Attributes:
        difference: mean of a − b, in their unit.
        low: lower end of the interval of the difference.
        high: upper end.
        t: the statistic; ±inf if all differences are equal and not 0.
        degrees: degrees of freedom of t.
        p: two-sided p-value.
    """

    difference: float
    low: float
    high: float
    t: float
    degrees: float
    p: float


def corrected_interval(values: ArrayLike, *, test_share: float, level: float = 0.95) -> Interval:
    """The t interval of a mean over resamples that share training samples.

    mean ± t(J − 1) · √((1/J + test_share) · s²), s² being the variance over ``values`` with
    J − 1 in its denominator.

    Args:
        values: accuracies [J] of all seed × fold pairs, J >= 2, in any unit.
        test_share: n_test / n_train of a resample, 1/9 for ten folds; 0 makes it the ordinary
            t, for values that are not resamples (seeds on one split).
        level: level of confidence, in (0, 1).

    Returns:
        Mean and interval in the unit of ``values``.

    Raises:
        InputError: fewer than two finite numbers, or settings out of range.

    Source: Nadeau and Bengio, Inference for the Generalization Error, Machine Learning 52, 2003;
        for J = runs × folds: Bouckaert and Frank, 2004.

    Example:
        >>> interval = corrected_interval([80, 90, 85, 95], test_share=1 / 3)
        >>> round(interval.low, 1), interval.mean, round(interval.high, 1)
        (71.8, 87.5, 103.2)
    """
    x = check_numbers("values", values, "n", least=2)
    _check_spread(test_share, level)
    return _interval(x, _error(x, _rounded(x, x), test_share), level)


def corrected_t_test(
    a: ArrayLike, b: ArrayLike, *, test_share: float, level: float = 0.95
) -> PairedTest:
    """The corrected resampled t-test of paired accuracies, two-sided.

    t = mean(d) / √((1/J + test_share) · var(d)) with d = a − b and J − 1 degrees of freedom.
    Differences that are 0 up to rounding give t = 0 and p = 1; the same difference in all pairs
    gives t = ±inf and p = 0.

    Args:
        a: accuracies [J] of one method, J >= 2: all seed × fold pairs.
        b: accuracies [J] of the other on the same folds, in the same order and unit.
        test_share: n_test / n_train of a resample, 1/9 for ten folds; 0 makes it the ordinary
            t, for values that are not resamples (seeds on one split).
        level: level of confidence of the interval, in (0, 1).

    Returns:
        Mean difference a − b with its interval, t and p. The interval excludes 0 exactly if
        p < 1 − ``level``.

    Raises:
        InputError: different lengths, fewer than two finite numbers, or settings out of range.

    Source: Nadeau and Bengio, Inference for the Generalization Error, Machine Learning 52, 2003;
        for J = runs × folds: Bouckaert and Frank, 2004.

    Example:
        >>> test = corrected_t_test([82, 91, 88, 96], [80, 90, 85, 95], test_share=1 / 3)
        >>> test.difference, round(test.t, 2), round(test.p, 2)
        (1.75, 2.39, 0.1)
    """
    from scipy.special import stdtr

    x, y = _pair(a, b, least=2)
    _check_spread(test_share, level)
    d, settled = x - y, _rounded(x - y, x, y)
    if not settled.any():
        return PairedTest(0.0, 0.0, 0.0, 0.0, len(d) - 1, 1.0)
    error = _error(d, settled, test_share)
    span = _interval(d, error, level)
    t = span.mean / error if error else float(np.copysign(np.inf, span.mean))
    p = float(2 * stdtr(len(d) - 1, -abs(t)))
    return PairedTest(span.mean, span.low, span.high, t, len(d) - 1, p)


def crossed_interval(
    differences: ArrayLike, draws: ArrayLike, *, level: float = 0.95
) -> PairedTest:
    """A mean difference over seeds that were all scored on the same test items, and its interval.

    Two things vary: the training seeds and the test items. With d_s the difference of seed s of S
    and C_st the covariance of d_s and d_t over draws of the items,

        V = max(var(d) / S + max(0, mean of C_st over s ≠ t), mean of C_st over all s, t),
        ν = (S − 1) · (V · S / var(d))²

    and the interval is mean(d) ± t(ν) · √V, var(d) with S − 1 in its denominator. If items matter
    little, it is that of the ordinary t-test of the seeds. With one seed only the items vary:
    V = C_11, ν = ∞.

    Args:
        differences: one per seed, [S], in any unit.
        draws: differences on items drawn with replacement, equally for all seeds, [B, S], B >= 2.
        level: level of confidence, in (0, 1).

    Returns:
        Mean and interval in the unit of ``differences``, t and p.

    Raises:
        InputError: other shapes, values that are not finite numbers, or a level out of range.

    Source: Obuchowski and Rockette, Hypothesis testing of diagnostic accuracy for multiple readers
        and multiple tests, Communications in Statistics 24, 1995, with the degrees of freedom of
        Hillis, Statistics in Medicine 26, 2007; their readers are the seeds.

    Example:
        >>> interval = crossed_interval([1, 2, 3], [[1, 2, 3], [1.5, 2.5, 3.5]])
        >>> round(interval.low, 2), interval.difference, round(interval.high, 2)
        (0.08, 2.0, 3.92)
    """
    d = check_numbers("differences", differences, "S", least=1)
    drawn = check_numbers("draws", draws, ("B", "S"))
    check_share("level", level, usual=0.95)
    n = len(d)
    if drawn.shape[1] != n or len(drawn) < 2:
        raise InputError(f"draws: expected [B, {n}] with B >= 2, got {[*drawn.shape]}")
    return _crossed(d, np.cov(drawn, rowvar=False).reshape(n, n), level)


def crossed_test(a: ArrayLike, b: ArrayLike | None = None, *, level: float = 0.95) -> PairedTest:
    """Whether a mean over random seeds and test items differs from 0, or from another mean.

    As :func:`crossed_interval`, with the covariances of infinitely many draws: for means of n items
    those are the items' own covariances (n in their denominator) divided by n.

    Args:
        a: values [S, n] of seeds and items, n >= 2.
        b: values of another method on the same; None to test the mean of ``a`` itself.
        level: level of confidence of the interval, in (0, 1).

    Returns:
        Mean of a − b with its interval, t and p. With one seed only the items vary. With two seeds
        or more the variance is at least that of the mean over items, as seeds may agree by chance:
        an interval at .95 covered .94 to .98 of the time in simulations.

    Raises:
        InputError: other shapes, values that are not finite numbers, or a level out of range.

    Source: as for :func:`crossed_interval`.

    Example:
        >>> test = crossed_test([[1, 0, 2, 1], [2, 1, 2, 1]])
        >>> test.difference, round(test.low, 2), round(test.high, 2)
        (1.25, 0.27, 2.23)
    """
    x = check_numbers("a", a, ("S", "n"))
    y = np.zeros_like(x) if b is None else check_numbers("b", b, ("S", "n"))
    check_share("level", level, usual=0.95)
    if x.shape[1] < 2 or not len(x) or y.shape != x.shape:
        raise InputError(f"a and b: expected [S, n] with n >= 2, got {[*x.shape]}, {[*y.shape]}")
    settled, x = _rounded(x - y, x, y), x - y
    d = x.mean(axis=1)
    if not settled.any():
        return PairedTest(0.0, 0.0, 0.0, 0.0, np.inf, 1.0)
    return _crossed(d, np.cov(x, bias=True).reshape(len(x), len(x)) / x.shape[1], level)


def _crossed(d: Floats, item_covariance: Floats, level: float) -> PairedTest:
    """Test of a mean over seeds on shared items, whose draws have ``item_covariance``."""
    from scipy.special import stdtr, stdtrit

    n, degrees = len(d), np.inf
    variance = float(item_covariance[0, 0])
    if n > 1:
        seed_variance = float(d.var(ddof=1)) / n
        shared = (item_covariance.sum() - item_covariance.trace()) / (n * (n - 1))
        # Few seeds may agree by chance: their mean varies at least as by its items alone.
        variance = max(seed_variance + max(0.0, float(shared)), float(item_covariance.mean()))
        degrees = (n - 1) * (variance / seed_variance) ** 2 if seed_variance else np.inf
    error = variance**0.5
    mean, half = float(d.mean()), float(-stdtrit(degrees, (1 - level) / 2)) * error
    t = mean / error if error else float(np.copysign(np.inf, mean)) if mean else 0.0
    p = float(2 * stdtr(degrees, -abs(t)))
    return PairedTest(mean, mean - half, mean + half, t, degrees, p)


def wilcoxon(a: ArrayLike, b: ArrayLike) -> float | None:
    """P-value of Wilcoxon's signed-rank test of paired values, two-sided and exact.

    p = min(1, 2 · P(W <= min(W⁺, W⁻))), W⁺ being the sum of the ranks of |a − b| where a > b, and
    W its distribution over all signs of these ranks. Pairs that are equal are left out, as
    Wilcoxon did; tied differences share their mean rank, and P is exact for the ranks so found,
    since a normal approximation is poor for the few seeds of an experiment.

    n pairs cannot give less than 2^(1 − n): 0.0625 for five seeds, which never reach 0.05; six
    can (0.03125).

    Args:
        a: means [n] of one method, one per seed; the time grows as n³, to a second for 1000.
        b: means [n] of the other over the same seeds, in the same order and unit.

    Returns:
        p in (0, 1], or None with fewer than two pairs or where all pairs are equal.

    Raises:
        InputError: vectors of different lengths, or values that are not finite numbers.

    Source: Wilcoxon, Individual Comparisons by Ranking Methods, 1945; same p as
        ``scipy.stats.wilcoxon(zero_method="wilcox", method="exact")`` where nothing is tied.

    Example:
        >>> wilcoxon([81, 84, 86, 88, 90], [80, 82, 83, 84, 85])
        0.0625
    """
    x, y = _pair(a, b, least=0)
    d = _rounded(x - y, x, y)
    d = d[d != 0]
    if len(x) < 2 or not len(d):
        return None
    smaller, same = (f(np.abs(d)[:, None], np.abs(d)).sum(axis=1) for f in (np.greater, np.equal))
    doubled = 2 * smaller + same + 1  # ranks, twice: mean ranks of ties are halves
    total = int(doubled.sum())
    chance = np.zeros(total + 1)  # of each doubled rank sum, under random signs
    chance[0] = 1.0
    for rank in doubled:
        chance[rank:] = chance[rank:] + chance[: total + 1 - rank]
        chance /= 2
    positive = int(doubled[d > 0].sum())
    return min(1.0, float(2 * chance[: min(positive, total - positive) + 1].sum()))


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment of p-values for testing several hypotheses.

    The i-th smallest of m becomes max over j <= i of min(1, (m − j + 1) · p_(j)).

    Args:
        p: in [0, 1]; None where there was no test; it is not counted in m.

    Returns:
        Adjusted p-values in the order given; None stays None.

    Raises:
        InputError: a value outside [0, 1].

    Source: Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979.

    Example:
        >>> holm([0.03, None, 0.01, 0.2])
        [0.06, None, 0.03, 0.2]
    """
    for index, value in enumerate(p):
        if value is not None and not 0 <= value <= 1:
            raise InputError(f"p: [{index}] is {value!r}; expected numbers in [0, 1] or None")
    tested = sorted((float(value), index) for index, value in enumerate(p) if value is not None)
    adjusted: list[float | None] = [None] * len(p)
    least = 0.0
    for rank, (value, index) in enumerate(tested):
        least = min(1.0, max(least, (len(tested) - rank) * value))
        adjusted[index] = least
    return adjusted


def average_ranks(scores: ArrayLike) -> Floats:
    """Mean rank of each method over data sets; the highest score has rank 1, ties share a rank.

    Args:
        scores: accuracies [n_sets, k] of k methods, n_sets >= 1 and k >= 1.

    Returns:
        Mean ranks, float64 [k], in [1, k].

    Raises:
        InputError: not such a matrix, or values that are not finite numbers.

    Source: Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006,
        section 3.2.2; ``scipy.stats.rankdata``.

    Example:
        >>> average_ranks([[0.9, 0.8, 0.8], [0.7, 0.9, 0.6]])
        array([1.5 , 1.75, 2.75])
    """
    from scipy.stats import rankdata

    x = check_numbers("scores", scores, ("n_sets", "k"))
    return rankdata(-_rounded(x, x), axis=1).mean(axis=0)


def friedman(scores: ArrayLike) -> float | None:
    """P-value of Friedman's test that all methods rank alike over data sets.

    Args:
        scores: accuracies [n_sets, k] of k methods, n_sets >= 1 and k >= 1.

    Returns:
        p in [0, 1], by the χ² approximation, which is conservative for few sets; 1 where all
        methods tie in every set; None with k < 3 or n_sets < 2.

    Raises:
        InputError: not such a matrix, or values that are not finite numbers.

    Source: Demšar, JMLR 7, 2006, section 3.2.2; ``scipy.stats.friedmanchisquare``.

    Example:
        >>> round(friedman([[0.9, 0.8, 0.7], [0.8, 0.7, 0.6], [0.9, 0.7, 0.8]]), 3)
        0.097
    """
    from scipy.stats import friedmanchisquare

    x = check_numbers("scores", scores, ("n_sets", "k"))
    n_sets, k = x.shape
    if k < 3 or n_sets < 2:
        return None
    x = _rounded(x, x)
    if not np.ptp(x, axis=1).any():
        return 1.0
    return float(friedmanchisquare(*x.T).pvalue)


def critical_difference(k: int, n_sets: int, level: float = 0.95) -> float:
    """The smallest difference of two mean ranks that is significant by the Nemenyi test.

    q · √(k (k + 1) / (6 n_sets)), q being the ``level`` quantile of the range of k standard
    normal numbers, divided by √2.

    Args:
        k: methods compared, >= 2.
        n_sets: data sets they were ranked on, >= 1.
        level: level of confidence, in (0, 1).

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
    check_share("level", level, usual=0.95)
    from scipy.stats import studentized_range

    q = studentized_range.ppf(level, k, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(k * (k + 1) / (6 * n_sets)))


def cliques(ranks: ArrayLike, cd: float) -> list[tuple[int, int]]:
    """Groups of methods that do not differ significantly, as critical-difference diagrams show.

    A group holds all methods from ``first`` to ``last`` of the ascending order, where
    ranks[last] − ranks[first] <= cd; it has two methods or more and is not part of a larger group.

    Args:
        ranks: mean ranks [k], in any order.
        cd: critical difference, >= 0.

    Returns:
        (first, last) positions in the order of ascending rank, both included, from 0; ascending.

    Raises:
        InputError: ranks that are not finite numbers, or a negative difference.

    Source: Demšar, JMLR 7, 2006, Figure 1.

    Example:
        >>> cliques([3.5, 1.0, 1.5, 2.2], cd=1.3)
        [(0, 2), (2, 3)]
    """
    ascending = np.sort(check_numbers("ranks", ranks, "k", least=0))
    check_number("cd", cd, least=0)
    groups: list[tuple[int, int]] = []
    reached = 0
    for first, rank in enumerate(ascending):
        last = int(np.count_nonzero(ascending - rank <= cd)) - 1
        if last > max(first, reached):
            groups.append((first, last))
            reached = last
    return groups


def _error(x: Floats, settled: Floats, test_share: float) -> float:
    """Standard error of the mean, corrected for shared training samples; 0 if only rounding."""
    if not np.ptp(settled):
        return 0.0
    return float(np.sqrt((1 / len(x) + test_share) * x.var(ddof=1)))


def _interval(x: Floats, error: float, level: float) -> Interval:
    from scipy.special import stdtrit

    mean = float(x.mean())
    half = float(-stdtrit(len(x) - 1, (1 - level) / 2)) * error
    return Interval(mean, mean - half, mean + half)


def _pair(a: ArrayLike, b: ArrayLike, *, least: int) -> tuple[Floats, Floats]:
    x, y = (check_numbers(name, v, "n", least=least) for name, v in (("a", a), ("b", b)))
    if len(x) != len(y):
        raise InputError(f"b: expected {len(x)} numbers, paired with those of a, got {len(y)}")
    return x, y


def _check_spread(test_share: float, level: float) -> None:
    if not 0 <= test_share < np.inf:
        raise InputError(f"test_share={test_share!r}: expected n_test / n_train, such as 1/9, or 0")
    check_share("level", level, usual=0.95)


def _rounded(d: Floats, *sources: Floats) -> Floats:
    """Differences relative to the largest source, so that 0.9 − 0.8 ties with 0.8 − 0.7."""
    largest = max(float(np.abs(x).max(initial=0.0)) for x in sources)
    return np.round(d / largest, ROUNDING).astype(np.float64) if largest else d
