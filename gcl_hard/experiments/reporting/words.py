"""Numbers and settings as words, the same in every format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.lines import Line

NBSP = "\u00a0"
"""Keeps a number in one piece."""


def accuracy(line: Line) -> str:
    """Mean ± deviation over seeds, percent."""
    if line.scores is None:
        return "open"
    std = line.scores.std
    return f"{line.scores.mean:.1f}" + ("" if std is None else f" ± {std:.1f}")


def of_images(protocol: str) -> bool:
    """Whether a protocol is that of images: one split, no folds."""
    return protocol == "split"


def test_part(protocol: str) -> str:
    """What accuracies are of, in words."""
    return "test images" if of_images(protocol) else "test folds"


def training_part(protocol: str) -> str:
    """What is trained on, in words."""
    return "training images" if of_images(protocol) else "training folds"


def test_name(protocol: str) -> str:
    """Of the test whose p-values stand first."""
    return "paired t-test over seeds" if of_images(protocol) else "corrected resampled t-test"


def points(value: float) -> str:
    """A difference, with its sign."""
    return f"{value:+z.1f}"


class Ranged(Protocol):
    """A mean difference with its interval, all in points."""

    @property
    def mean(self) -> float:
        """The difference."""

    @property
    def low(self) -> float:
        """Lower end."""

    @property
    def high(self) -> float:
        """Upper end."""


def interval(one: Ranged) -> str:
    """A difference with its interval, in one piece.

    Example:
        >>> from gcl_hard.evaluation.significance import Interval
        >>> interval(Interval(1.25, -0.01, 3.0)).replace(NBSP, " ")
        '+1.2 [+0.0, +3.0]'
    """
    return f"{points(one.mean)} [{points(one.low)},{NBSP}{points(one.high)}]"


def count(n: int, word: str) -> str:
    """How many there are, in words."""
    return f"{n} {word}{'s' * (n != 1)}"


def values(cells: Iterable[RunConfig], name: str) -> str:
    """The different values of a setting, in their order."""
    found = dict.fromkeys(getattr(cell, name) for cell in cells)
    return ", ".join(_value(value) for value in found if value is not None)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(map(_value, value))
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
