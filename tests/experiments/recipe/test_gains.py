"""Gains against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest

from gcl_hard.experiments.recipe.gains import Gain, gain, gains_of, over_sets
from tests.experiments.recipe.made_up import interval


def scores(seed: int, *, seeds: int = 3, folds: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).uniform(40, 80, (seeds, folds))


@pytest.mark.parametrize("n_methods", [1, 2, 3])
@pytest.mark.parametrize("shape", [(1, 2), (3, 3), (2, 10)])
def test_a_gain_is_the_corrected_interval_of_paired_means(
    n_methods: int, shape: tuple[int, int]
) -> None:
    ours, theirs = (
        [scores(10 * k + m, seeds=shape[0], folds=shape[1]) for m in range(n_methods)]
        for k in (1, 2)
    )
    found = gain(ours, theirs)
    difference = sum(a - b for a, b in zip(ours, theirs, strict=True)) / n_methods
    assert (found.mean, found.low, found.high) == pytest.approx(interval(difference), abs=1e-9)
    assert found.error == pytest.approx((found.high - found.mean) / 1.96, rel=1e-4)


def test_what_is_added_to_a_hold_out_of_both_changes_nothing() -> None:
    ours, theirs, hardness = scores(1), scores(2), 100 * scores(3)
    before, after = gain([ours], [theirs]), gain([ours + hardness], [theirs + hardness])
    assert (after.mean, after.low, after.high) == pytest.approx(
        (before.mean, before.low, before.high), abs=1e-9
    )


def test_the_same_scores_gain_exactly_nothing() -> None:
    ours = [scores(1), scores(2)]
    assert gain(ours, ours) == Gain(0.0, 0.0, 0.0)


def test_the_same_difference_everywhere_has_no_width() -> None:
    found = gain([scores(1) + 2.5], [scores(1)])
    assert (found.mean, found.low, found.high) == pytest.approx((2.5, 2.5, 2.5), abs=1e-9)
    assert found.error == pytest.approx(0, abs=1e-9)


def test_sets_weigh_the_same_and_their_errors_are_independent() -> None:
    gains = [Gain(1.0, -3.0, 5.0), Gain(-2.0, -3.0, -1.0), Gain(4.0, 4.0, 4.0)]
    whole = over_sets(gains)
    half = np.sqrt(4.0**2 + 1.0**2 + 0.0**2) / 3
    assert (whole.mean, whole.low, whole.high) == pytest.approx((1.0, 1.0 - half, 1.0 + half))


def test_one_set_is_all_sets() -> None:
    one = Gain(1.5, -0.5, 3.5)
    assert over_sets([one]) == one


def test_every_set_is_looked_up_with_every_method() -> None:
    table = {(n, m, k): scores(hash_) for hash_, (n, m, k) in enumerate(
        (n, m, k) for n in "AB" for m in ("x", "y", "z") for k in (0, 1))}  # fmt: skip
    found = gains_of(
        lambda n, m: table[n, m, 0], lambda n, m: table[n, m, 1], ["A", "B"], ["x", "z"]
    )
    assert list(found) == ["A", "B"]
    for n in "AB":
        difference = sum((table[n, m, 0] - table[n, m, 1]) / 2 for m in "xz")
        got = found[n]
        assert (got.mean, got.low, got.high) == pytest.approx(interval(difference), abs=1e-9)
