"""Tests of statistics against loops, every sign flip, SciPy and Demšar's printed tables."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gcl_hard.errors import InputError
from gcl_hard.evaluation import (
    Interval,
    average_ranks,
    cliques,
    corrected_interval,
    corrected_t_test,
    critical_difference,
    crossed_interval,
    crossed_test,
    friedman,
    holm,
    wilcoxon,
)

TEN_FOLDS = 1 / 9


def paired(n: int, seed: int, scale: float = 1.0):
    rng = np.random.default_rng(seed)
    a = scale * rng.uniform(0.6, 0.9, n)
    return a, a + scale * rng.normal(0.02, 0.05, n)


@pytest.mark.parametrize("test_share", [TEN_FOLDS, 0.25, 1.0])
@pytest.mark.parametrize(("n", "scale"), [(2, 1.0), (10, 100.0), (50, 1.0)])
def test_t_test_equals_a_loop_in_plain_python(n, scale, test_share):
    a, b = paired(n, seed=n, scale=scale)
    d = [float(x) - float(y) for x, y in zip(a, b, strict=True)]
    mean = sum(d) / n
    variance = sum((value - mean) ** 2 for value in d) / (n - 1)
    error = math.sqrt(variance / n + variance * test_share)
    t = stats.t(n - 1)
    test = corrected_t_test(a, b, test_share=test_share, level=0.9)
    assert test.degrees == n - 1
    assert test.difference == pytest.approx(mean, rel=1e-12)
    assert test.t == pytest.approx(mean / error, rel=1e-12)
    assert test.p == pytest.approx(2 * t.sf(abs(mean / error)), rel=1e-9)
    assert test.low == pytest.approx(mean - t.ppf(0.95) * error, rel=1e-9)
    assert test.high == pytest.approx(mean + t.ppf(0.95) * error, rel=1e-9)


@pytest.mark.parametrize("seed", range(2))
def test_without_shared_samples_it_is_the_paired_t_test(seed):
    a, b = paired(12, seed)
    ours, theirs = corrected_t_test(a, b, test_share=0), stats.ttest_rel(a, b)
    interval = theirs.confidence_interval(0.95)
    assert ours.t == pytest.approx(theirs.statistic, rel=1e-9)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-9)
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high), rel=1e-9)


def crossed(rng, n, seed_spread, item_spread, joint_spread):
    """Differences of n seeds on 100 items whose true mean is 0, and their item draws."""
    items = 10 * item_spread * rng.normal(size=100) + 10 * joint_spread * rng.normal(size=(n, 100))
    values = seed_spread * rng.normal(size=(n, 1)) + items
    weights = rng.multinomial(100, np.full(100, 0.01), size=60) / 100
    return values.mean(1), weights @ values.T


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize(
    "spread", [(1, 1, 1), (2, 1, 0.5), (0, 1, 1), (1, 0, 0)], ids=lambda spread: f"spread {spread}"
)
def test_intervals_over_seeds_and_items_cover_the_true_difference(n, spread):
    rng = np.random.default_rng(0)
    intervals = [crossed_interval(*crossed(rng, n, *spread)) for _ in range(500)]
    covered = np.mean([interval.low <= 0 <= interval.high for interval in intervals])
    assert covered == pytest.approx(0.95, abs=0.03)


def test_where_items_do_not_matter_it_is_the_t_test_of_the_seeds():
    d = [1.0, 2.0, 4.0]
    ours, theirs = crossed_interval(d, [d] * 5), corrected_interval(d, test_share=0)
    assert (ours.difference, ours.low, ours.high) == pytest.approx(
        (theirs.mean, theirs.low, theirs.high)
    )


def test_of_seeds_that_agree_and_of_one_seed_the_draws_alone_count():
    draws = np.random.default_rng(0).normal(size=20)
    half = stats.norm.ppf(0.975) * draws.std(ddof=1)
    for seeds in (1, 3):
        interval = crossed_interval([0.5] * seeds, np.tile(draws[:, None], seeds))
        assert (interval.low, interval.high) == pytest.approx((0.5 - half, 0.5 + half))


def test_draws_that_move_seeds_apart_are_not_counted_twice():
    """Item draws that move two seeds in opposite ways leave their mean where it is."""
    draws = np.array([[0.0, 4.0], [2.0, 2.0], [4.0, 0.0]])
    interval, seed_spread = (
        crossed_interval([1, 3], draws),
        corrected_interval([1, 3], test_share=0),
    )
    assert (interval.low, interval.high) == pytest.approx((seed_spread.low, seed_spread.high))


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(2, 30),
    seed=st.integers(0, 10**6),
    share=st.floats(0.01, 2),
    level=st.floats(0.01, 0.999),
)
def test_swapping_the_methods_turns_the_sign_and_the_interval_agrees_with_p(n, seed, share, level):
    a, b = paired(n, seed)
    test = corrected_t_test(a, b, test_share=share, level=level)
    swapped = corrected_t_test(b, a, test_share=share, level=level)
    assert (swapped.difference, swapped.t, swapped.p) == (-test.difference, -test.t, test.p)
    assert (swapped.low, swapped.high) == (-test.high, -test.low)
    if abs(test.p - (1 - level)) > 1e-9:
        assert (test.low > 0 or test.high < 0) == (test.p < 1 - level)
    smaller = corrected_t_test(a, b, test_share=share / 2, level=level)
    assert smaller.p < test.p or test.p == 1


def test_equal_differences_are_certain_and_no_differences_are_none():
    a = np.array([0.9, 0.8, 0.7, 0.65])
    same = corrected_t_test(a, a, test_share=TEN_FOLDS)
    assert (same.difference, same.low, same.high, same.t, same.p) == (0, 0, 0, 0, 1)
    third = np.array([0.1 + 0.2, 0.3, 0.6])  # 0.1 + 0.2 is 0.3 but for its last bit
    assert corrected_t_test(third, [0.3, 0.1 + 0.2, 0.6], test_share=TEN_FOLDS).p == 1
    tenths = np.array([0.9, 0.8, 0.7, 0.6])  # 0.9 − 0.8 and 0.8 − 0.7 differ in their last bits
    for sign in (1, -1):
        pair = (tenths[:-1], tenths[1:])[::sign]
        test = corrected_t_test(*pair, test_share=TEN_FOLDS)
        assert (test.t, test.p) == (sign * math.inf, 0)
        assert test.low == test.difference == test.high == pytest.approx(sign * 0.1)
    zeros = corrected_t_test([0, 0], [0, 0], test_share=TEN_FOLDS)
    assert (zeros.t, zeros.p, zeros.degrees) == (0, 1, 1)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("n", [2, 5, 100])
def test_interval_equals_its_closed_form(n, level):
    values, _ = paired(n, seed=n, scale=100)
    mean, std = statistics.fmean(values), statistics.stdev(values)
    half = stats.t.ppf((1 + level) / 2, n - 1) * std * math.sqrt(1 / n + TEN_FOLDS)
    ours = corrected_interval(values, test_share=TEN_FOLDS, level=level)
    assert (ours.mean, ours.low, ours.high) == pytest.approx((mean, mean - half, mean + half))


def test_interval_of_two_values_by_hand_and_of_constants():
    # t(1) is Cauchy's: its 75 % quantile is 1; s² = 2, 1/J + share = 1 ⇒ half = √2
    by_hand = corrected_interval([1, 3], test_share=0.5, level=0.5)
    assert by_hand.mean == 2
    assert by_hand.high - 2 == pytest.approx(math.sqrt(2))
    assert 2 - by_hand.low == pytest.approx(math.sqrt(2))
    assert corrected_interval([0.1] * 7, test_share=TEN_FOLDS) == Interval(
        *3 * (np.mean([0.1] * 7),)
    )


def test_p_values_are_uniform_where_resamples_share_what_the_correction_assumes():
    rng = np.random.default_rng(0)
    n, share, trials = 10, TEN_FOLDS, 2000
    rho = share / (1 + share)  # the correlation between resamples that makes the test exact
    common = math.sqrt(rho) * rng.standard_normal((trials, 1))
    d = common + math.sqrt(1 - rho) * rng.standard_normal((trials, n))
    p = [corrected_t_test(row, np.zeros(n), test_share=share).p for row in d]
    assert stats.kstest(p, "uniform").pvalue > 0.01
    uncorrected = [corrected_t_test(row, np.zeros(n), test_share=1e-9).p for row in d]
    assert np.mean(np.array(uncorrected) < 0.05) > 0.1


def every_sign(a, b):
    """P-value of the signed-rank test over all 2^n signs of the differences that are not 0."""
    d = [round(x - y, 9) for x, y in zip(a, b, strict=True) if round(x - y, 9) != 0]
    sizes = sorted(abs(value) for value in d)
    ranks = [sizes.index(abs(v)) + (sizes.count(abs(v)) + 1) / 2 for v in d]
    sums = [
        sum(rank for rank, up in zip(ranks, ups, strict=True) if up)
        for ups in itertools.product([False, True], repeat=len(d))
    ]
    observed = sum(rank for rank, v in zip(ranks, d, strict=True) if v > 0)
    below = sum(s <= observed for s in sums) / len(sums)
    above = sum(s >= observed for s in sums) / len(sums)
    return min(1.0, 2 * min(below, above))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=9))
def test_wilcoxon_with_ties_and_zeros_equals_every_sign(pairs):
    a, b = np.array(pairs).T / 10  # tenths, whose differences tie but for rounding
    expected = None if np.array_equal(a, b) else pytest.approx(every_sign(a, b), rel=1e-12)
    assert wilcoxon(a, b) == expected
    assert wilcoxon(b, a) == expected


@pytest.mark.parametrize("n", [2, 5, 10, 40, 100])
def test_wilcoxon_without_ties_equals_scipy(n):
    a, b = paired(n, seed=n)
    expected = stats.wilcoxon(a, b, method="exact").pvalue
    assert wilcoxon(a, b) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 6, 10])
def test_wilcoxon_of_n_pairs_gives_no_less_than_two_to_one_minus_n(n):
    b = np.linspace(0.5, 0.6, n)
    assert wilcoxon(b + np.linspace(0.01, 0.05, n), b) == 2.0 ** (1 - n)


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [
        ([], [], None),
        ([0.8], [0.7], None),
        ([0.8, 0.7], [0.8, 0.7], None),
        ([0.1 + 0.2, 0.5], [0.3, 0.5], None),
        ([0, 0], [0, 0], None),
        ([0.8, 0.7], [0.7, 0.7], 1.0),
    ],
)
def test_wilcoxon_of_too_little_is_none(a, b, p):
    assert wilcoxon(a, b) == p


def holm_by_definition(p):
    """Largest, over all hypotheses at least as significant, of p times those still standing."""
    tested = [value for value in p if value is not None]
    order = sorted(tested)

    def adjusted(value):
        last = max(i for i, other in enumerate(order) if other == value)
        return min(1.0, max((len(order) - i) * order[i] for i in range(last + 1)))

    return [None if value is None else adjusted(value) for value in p]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.02, 1.0])))
def test_holm_equals_its_definition(p):
    adjusted = holm(p)
    assert adjusted == holm_by_definition(p)
    for level in (0.01, 0.05, 0.2):  # Holm's procedure itself: reject until one is kept
        ascending = sorted(value for value in p if value is not None)
        standing = len(ascending)
        while standing and ascending[-standing] * standing <= level:
            standing -= 1
        rejected = sum(value is not None and value <= level for value in adjusted)
        assert rejected == len(ascending) - standing


def scores_with_ties(n_sets: int, k: int, seed: int):
    return np.random.default_rng(seed).integers(60, 66, (n_sets, k)) / 100


@pytest.mark.parametrize(("n_sets", "k"), [(1, 1), (1, 4), (5, 3), (20, 8)])
def test_ranks_and_friedman_equal_scipy(n_sets, k):
    for seed in range(5):
        scores = scores_with_ties(n_sets, k, seed)
        ranks = stats.rankdata(-scores, axis=1).mean(axis=0)
        np.testing.assert_allclose(average_ranks(scores), ranks, rtol=1e-14)
        np.testing.assert_allclose(average_ranks(7 * scores), ranks, rtol=1e-14)
        if k >= 3 and n_sets >= 2:
            expected = stats.friedmanchisquare(*scores.T).pvalue
            assert friedman(scores) == pytest.approx(expected, rel=1e-9)
        else:
            assert friedman(scores) is None


def test_scores_that_differ_by_rounding_alone_share_a_rank():
    assert average_ranks([[0.1 + 0.2, 0.3, 0.1]]).tolist() == [1.5, 1.5, 3.0]
    assert friedman(np.full((4, 3), 0.7)) == 1.0
    assert friedman(np.zeros((4, 3))) == 1.0
    assert friedman([[0.9, 0.8]] * 5) is None


# Demšar 2006, Table 5a: q of the two-tailed Nemenyi test
Q_05 = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
Q_10 = {2: 1.645, 3: 2.052, 4: 2.291, 5: 2.459, 6: 2.589, 7: 2.693, 8: 2.780, 9: 2.855, 10: 2.920}


@pytest.mark.parametrize(("table", "level"), [(Q_05, 0.95), (Q_10, 0.9)])
def test_critical_difference_equals_demsars_table(table, level):
    for k, q in table.items():
        for n_sets in (1, 14):
            cd = critical_difference(k, n_sets, level)
            unit = math.sqrt(k * (k + 1) / (6 * n_sets))
            assert cd / unit == pytest.approx(q, abs=1.1e-3)  # printed with three decimals


def test_critical_difference_of_two_methods_is_the_normal_quantile():
    assert critical_difference(2, 9, 0.99) == pytest.approx(stats.norm.ppf(0.995) / 3, rel=1e-6)


def test_demsars_worked_example():
    # Section 3.2.2: four variants of C4.5 on 14 sets, mean ranks as printed
    cd = critical_difference(4, 14, 0.9)
    assert cd == pytest.approx(1.12, abs=5e-3)
    assert cliques([3.143, 2.000, 2.893, 1.964], cd) == [(0, 2), (2, 3)]


def cliques_by_definition(ranks, cd):
    order = sorted(ranks)
    spans = [
        (i, j) for i, j in itertools.combinations(range(len(order)), 2) if order[j] - order[i] <= cd
    ]
    return [
        (i, j)
        for i, j in spans
        if not any((x, y) != (i, j) and x <= i and j <= y for x, y in spans)
    ]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(2, 20).map(lambda rank: rank / 2), max_size=9),
    st.floats(0, 9) | st.integers(0, 12).map(lambda cd: cd / 2),
)
def test_cliques_equal_their_definition(ranks, cd):
    assert cliques(ranks, cd) == cliques_by_definition(ranks, cd)


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_the_interval_over_seeds_and_items_is_that_of_many_draws(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    values = rng.gamma(0.3, 1.0, (1, 400)) + rng.normal(0.1, 0.3, (seeds, 400))
    values += rng.normal(0, 0.02, (seeds, 1))
    test = crossed_test(values)
    draws = np.stack([values[:, rng.integers(400, size=400)].mean(1) for _ in range(20_000)])
    expected = crossed_interval(values.mean(1), draws)
    assert test.difference == pytest.approx(expected.difference)
    assert [test.low, test.high] == pytest.approx([expected.low, expected.high], rel=0.01)


def test_the_p_value_is_that_of_its_interval() -> None:
    values = np.random.default_rng(0).normal(0.06, 1, (3, 300))
    test = crossed_test(values)
    edge = crossed_test(values, level=1 - test.p)
    assert min(abs(edge.low), abs(edge.high)) == pytest.approx(0, abs=1e-12)
    nothing = crossed_test(np.zeros((2, 5)))
    assert (nothing.difference, nothing.p) == (0, 1)
    rounded = crossed_test(np.full((2, 5), 0.1 * 3), np.full((2, 5), 0.3))
    assert (rounded.difference, rounded.p) == (0, 1)
    with pytest.raises(InputError):
        crossed_test([[1.0]])


@pytest.mark.parametrize("seeds", [2, 3])
def test_seeds_that_agree_by_chance_make_no_difference_certain(seeds: int) -> None:
    """Of 1,000 differences that are 0 about a twentieth is found, as p says."""
    rng = np.random.default_rng(0)
    p = [
        crossed_test(0.3 * rng.normal(size=600) + rng.normal(size=(seeds, 600))).p
        for _ in range(1000)
    ]
    assert np.mean(np.less(p, 0.05)) < 0.07
