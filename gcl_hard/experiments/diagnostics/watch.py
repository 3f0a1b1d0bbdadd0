"""Looks at one encoder while it trains, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gcl_hard.experiments.diagnostics.look import Look, look_at
from gcl_hard.experiments.diagnostics.sample import Points, Sample
from gcl_hard.functional.hardening import Hardening

M = TypeVar("M")
Sampler = Callable[[M], Sample | None]
"""Gives what a model makes of the samples; None where that is not finite."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What looking at a seed's first encoder gave.

    Attributes:
        looks: one after the other.
        seconds: that they took.
        points: of the last look, or None.
    """

    looks: Sequence[Look] = ()
    seconds: float = 0.0
    points: Points | None = None


@dataclass(eq=False)
class Watch(Generic[M]):
    """Takes looks at one encoder.

    Attributes:
        epochs: of the training.
        sampler: makes the sampler, at the first look.
        looks: so far.
        seconds: so far, the sampler's making included.
        points: of the last look.
    """

    epochs: int
    sampler: Callable[[], Sampler[M]]
    looks: list[Look] = field(default_factory=list)
    seconds: float = 0.0
    points: Points | None = None
    _made: Sampler[M] | None = None

    def look(self, epoch: int, model: M, current: Hardening) -> None:
        """Look at a model.

        Args:
            epoch: after which; one that was there before means that training began anew.
            model: as it is then.
            current: the hardening of its training in this epoch.
        """
        start = time.perf_counter()
        if self.looks and epoch <= self.looks[-1]["epoch"]:
            self.looks.clear()
        sample, last = self.sample(model), epoch == self.epochs
        self.looks.append(look_at(sample, current, epoch, last=last))
        if sample is not None and last:
            self.points = sample.batches[0].points()
        self.seconds += time.perf_counter() - start

    def sample(self, model: M) -> Sample | None:
        """What a model makes of the samples."""
        if self._made is None:
            self._made = self.sampler()
        return self._made(model)

    @property
    def seen(self) -> Seen:
        """What there is so far."""
        return Seen(tuple(self.looks), self.seconds, self.points)
