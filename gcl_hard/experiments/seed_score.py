"""What one seed of a cell gives, and what its making needs on every backend."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from gcl_hard.errors import GclHardError
from gcl_hard.experiments.jobs import Job

if TYPE_CHECKING:
    from gcl_hard.evaluation import FoldScore
    from gcl_hard.experiments.diagnostics.watch import Seen
    from gcl_hard.experiments.scoring import Scoring


class OnEpoch(Protocol):
    """Called as epochs end, of one encoder of a seed or of several side by side."""

    def __call__(self, encoder: int, epoch: float, loss: float, beside: int = 1) -> None:
        """Progress.

        Args:
            encoder: the first of those that train, from 0.
            epoch: epochs done; a part of one too.
            loss: mean.
            beside: how many train side by side, from ``encoder`` on.
        """


@dataclass(frozen=True)
class SeedScore:
    """What one seed of a cell gave.

    Attributes:
        folds: score of every outer fold, in order; of its inner hold-out if that was asked for.
        final_losses: mean loss of the last epoch of every encoder trained, nats.
        seconds_train: time in training, all encoders together.
        seconds_eval: time in embedding and scoring.
        curve: monitoring: epoch and accuracy in percent.
        seen: what was measured while it trained, or None; in none of the times.
    """

    folds: tuple[FoldScore, ...]
    final_losses: tuple[float, ...]
    seconds_train: float
    seconds_eval: float
    curve: tuple[tuple[int, float], ...] = ()
    seen: Seen | None = None


@dataclass(frozen=True, eq=False)
class Unscored:
    """A seed that is trained, and perhaps scored.

    Attributes:
        job: which seed.
        score: what it gave; without folds where they are still to be scored.
        scoring: what that needs, or None.
        error: why there is no score.
    """

    job: Job
    score: SeedScore | None = None
    scoring: Scoring | None = None
    error: GclHardError | None = None

    def finished(self, folds: tuple[FoldScore, ...], seconds: float) -> SeedScore:
        """The score with its folds, which took some seconds."""
        assert self.score is not None
        seconds += self.score.seconds_eval
        return replace(self.score, folds=folds, seconds_eval=seconds)


@contextmanager
def weights_from(seed: int, member: int) -> Iterator[int]:
    """Weights made inside come from this seed; yields another for augmentations.

    The global random state is left as it was.
    """
    weights, views = np.random.SeedSequence([seed, member]).generate_state(2, np.uint64)
    with torch.random.fork_rng(devices=[]):
        # The CPU's alone: torch.manual_seed would reseed every GPU for good.
        torch.default_generator.manual_seed(int(weights))
        yield int(views >> 1)


class Clock:
    """Adds up the time since the last call to one of two accounts."""

    def __init__(self, seconds_train: float = 0.0, seconds_eval: float = 0.0) -> None:
        self.seconds_train, self.seconds_eval = seconds_train, seconds_eval
        self._last = time.perf_counter()

    def _lap(self) -> float:
        now = time.perf_counter()
        elapsed, self._last = now - self._last, now
        return elapsed

    def hand_over(self, notes: dict[str, Any]) -> None:
        """Add both accounts to ``notes["seconds"]``, which may be older, and begin them anew."""
        total = notes.get("seconds", [0.0, 0.0])
        notes["seconds"] = [total[0] + self.seconds_train, total[1] + self.seconds_eval]
        self.seconds_train = self.seconds_eval = 0.0

    def train(self) -> None:
        """What has passed was training."""
        self.seconds_train += self._lap()

    def pause(self) -> None:
        """What has passed is in neither account."""
        self._lap()

    def evaluate(self) -> None:
        """What has passed was scoring."""
        self.seconds_eval += self._lap()
