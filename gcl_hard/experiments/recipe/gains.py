"""How much a change of settings moves inner scores, on paired hold-outs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcl_hard.evaluation.significance import corrected_t_test

HOLDOUT_SHARE = 0.25
"""n_test / n_train of an inner hold-out: a fifth against four."""
LEVEL_Z = 1.959963984540054
"""Two-sided 95 % of the normal distribution."""

Scores = NDArray[np.float64]
"""Accuracies in percent, of seeds × folds."""


@dataclass(frozen=True)
class Gain:
    """A mean difference in points with its 95 % interval.

    Attributes:
        mean: of the differences.
        low: lower end.
        high: upper end.
    """

    mean: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """A little over one standard error: its t quantile is taken for that of a normal."""
        return (self.high - self.low) / (2 * LEVEL_Z)


def gain(ours: Sequence[Scores], theirs: Sequence[Scores]) -> Gain:
    """Of one data set: the difference of the means over methods, hold-out by hold-out.

    The interval is that of :func:`gcl_hard.evaluation.significance.corrected_t_test`, since
    training parts overlap.

    Args:
        ours: of each method, accuracies of the same hold-outs.
        theirs: the same methods on the same hold-outs.

    Returns:
        The gain, points.

    Example:
        >>> gain([np.array([61.0, 63.0])], [np.array([60.0, 60.0])]).mean
        2.0
    """
    a, b = (np.mean(scores, axis=0).ravel() for scores in (ours, theirs))
    test = corrected_t_test(a, b, test_share=HOLDOUT_SHARE)
    return Gain(test.difference, test.low, test.high)


def over_sets(gains: Sequence[Gain]) -> Gain:
    """The mean gain over data sets, each weighing the same, errors taken as independent.

    Example:
        >>> whole = over_sets([Gain(1.0, 0.0, 2.0), Gain(3.0, 2.0, 4.0)])
        >>> whole.mean, round(whole.high, 2)
        (2.0, 2.71)
    """
    mean = sum(one.mean for one in gains) / len(gains)
    half = math.sqrt(sum(((one.high - one.low) / 2) ** 2 for one in gains)) / len(gains)
    return Gain(mean, mean - half, mean + half)


Look = Callable[[str, str], Scores]
"""Data set and method to accuracies."""


def gains_of(
    ours: Look, theirs: Look, datasets: Sequence[str], methods: Sequence[str]
) -> Mapping[str, Gain]:
    """The gain on every data set."""
    return {
        name: gain([ours(name, m) for m in methods], [theirs(name, m) for m in methods])
        for name in datasets
    }
