"""Schedules of a parameter over epochs, which count from 1."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real

from gcl_hard.errors import InputError, check_at_least


class Schedule(ABC):
    """A parameter as a function of the epoch.

    Subclasses define its value in every epoch and its bounds.
    """

    @abstractmethod
    def at(self, epoch: int, epochs: int) -> float:
        """Value in ``epoch`` (1 … ``epochs``) of a run of ``epochs`` epochs."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value over any run."""


def _progress(epoch: int, epochs: int) -> float:
    return (epoch - 1) / (epochs - 1) if epochs > 1 else 0.0


@dataclass(frozen=True)
class Constant(Schedule):
    """The same value in every epoch.

    Args:
        value: the value.

    Example:
        >>> Constant(2.0).at(epoch=7, epochs=10)
        2.0
    """

    value: float

    def at(self, epoch: int, epochs: int) -> float:
        """Value in ``epoch`` of ``epochs``."""
        return self.value

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value."""
        return self.value, self.value


@dataclass(frozen=True)
class _FromStartToEnd(Schedule):
    start: float
    end: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value."""
        return min(self.start, self.end), max(self.start, self.end)


@dataclass(frozen=True)
class Linear(_FromStartToEnd):
    r"""Linear from ``start`` in epoch 1 to ``end`` in the last, Eq. 4 of the H-SCL paper.

    .. math:: l(\text{epoch}) = \text{start}
              + \frac{\text{epoch} - 1}{\text{epochs} - 1} (\text{end} - \text{start})

    Args:
        start: value in epoch 1.
        end: value in the last epoch; a run of one epoch stays at ``start``.

    Source:
        Jiang, Nguyen, Ishwar, Aeron, *Supervised Contrastive Learning with Hard Negative
        Samples*, Eq. 4 (there with 199 for 200 epochs).

    Example:
        >>> Linear(-0.5, 0.0).at(epoch=1, epochs=200), Linear(-0.5, 0.0).at(epoch=200, epochs=200)
        (-0.5, 0.0)
    """

    def at(self, epoch: int, epochs: int) -> float:
        """Value in ``epoch`` of ``epochs``."""
        return self.start + _progress(epoch, epochs) * (self.end - self.start)


@dataclass(frozen=True)
class Cosine(_FromStartToEnd):
    r"""Half a cosine from ``start`` in epoch 1 to ``end`` in the last.

    .. math:: \text{end} + (\text{start} - \text{end})
              \frac{1 + \cos(\pi (\text{epoch} - 1) / (\text{epochs} - 1))}{2}

    Args:
        start: value in epoch 1.
        end: value in the last epoch.

    Example:
        >>> Cosine(2.0, 0.0).at(epoch=3, epochs=5)
        1.0
    """

    def at(self, epoch: int, epochs: int) -> float:
        """Value in ``epoch`` of ``epochs``."""
        share = 0.5 * (1.0 + math.cos(math.pi * _progress(epoch, epochs)))
        return self.end + (self.start - self.end) * share


@dataclass(frozen=True)
class Annealed(Schedule):
    r"""HCL's annealing: from ``start`` to 0 in ``changes`` equal steps, the last in the last epoch.

    .. math:: \beta \left(1 - \frac{1}{\ell}
              \left\lfloor \frac{\text{epoch} \cdot \ell}{\text{epochs}} \right\rfloor \right)

    Args:
        start: β before the first step, ≥ 0.
        changes: ℓ ≥ 1, the number of steps; step i is taken in epoch i · epochs / ℓ, rounded up.
            A run of one epoch stays at ``start``.

    Source:
        Robinson, Chuang, Sra, Jegelka (2021), *Contrastive Learning with Hard Negative Samples*,
        appendix C.

    Example:
        >>> [Annealed(1.0, changes=2).at(epoch, epochs=4) for epoch in (1, 2, 3, 4)]
        [1.0, 0.5, 0.5, 0.0]
    """

    start: float
    changes: int

    def __post_init__(self) -> None:
        check_at_least("changes", self.changes, 1)

    def at(self, epoch: int, epochs: int) -> float:
        """Value in ``epoch`` of ``epochs``."""
        steps = epoch * self.changes // epochs if epochs > 1 else 0
        return self.start * (1.0 - steps / self.changes)

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest value."""
        return min(self.start, 0.0), max(self.start, 0.0)


def as_schedule(value: float | Schedule, name: str = "a scheduled value") -> Schedule:
    """Convert a number to a constant schedule; keep a schedule.

    Args:
        value: a number or a schedule.
        name: name of the parameter, for the message.

    Returns:
        A schedule.

    Raises:
        InputError: unless it is a number or a schedule, and for NaN in it or its bounds.

    Example:
        >>> as_schedule(1.0)
        Constant(value=1.0)
    """
    schedule = value if isinstance(value, Schedule) else Constant(value)
    for bound in schedule.bounds:
        if not isinstance(bound, Real) or isinstance(bound, bool) or math.isnan(bound):
            raise InputError(f"{name} must be a number or a Schedule, got {value!r}")
    return schedule
