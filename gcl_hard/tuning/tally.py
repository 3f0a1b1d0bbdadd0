"""How far a study is, and which of its trials is the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from optuna.trial import FrozenTrial, TrialState

from gcl_hard.tuning.lease import FAILURE, returning

SURPLUS = "surplus"
"""Why a trial was given up that another worker had asked for at the same time."""


@dataclass(frozen=True)
class Tally:
    """How far a study is.

    Attributes:
        complete: trials with a score.
        pruned: trials that left.
        running: trials of living workers.
        failures: reasons of those that failed, counted.
        best: highest score, percent; None without one.
    """

    complete: int
    pruned: int
    running: int
    failures: Counter[str]
    best: float | None

    @classmethod
    def of(cls, trials: Iterable[FrozenTrial], dead: Collection[int] = ()) -> Tally:
        """Count trials, but not those of dead workers.

        Those that are about to be tried again count as running.

        Example:
            >>> Tally.of([]).finished
            0
        """
        states: Counter[TrialState] = Counter()
        failures: Counter[str] = Counter()
        listed = [trial for trial in trials if trial.number not in dead]
        for trial in listed:
            states[trial.state] += 1
            reason = trial.user_attrs.get(FAILURE, SURPLUS)
            if trial.state == TrialState.FAIL and reason != SURPLUS:
                failures[reason] += 1
        best = best_of(listed)
        return cls(
            states[TrialState.COMPLETE], states[TrialState.PRUNED],
            states[TrialState.RUNNING] + len(returning(listed)), failures,
            None if best is None else best.value,
        )  # fmt: skip

    @property
    def finished(self) -> int:
        """Trials that count."""
        return self.complete + self.pruned

    def over(self, asked: int) -> bool:
        """Whether a study that was asked for so many trials is at its end."""
        return self.finished >= asked or self.failures.total() >= asked


def best_of(trials: Iterable[FrozenTrial]) -> FrozenTrial | None:
    """The trial with the highest score, of several the oldest; None without a score.

    Not ``study.best_trial``: of equal ones a database returns any.
    """
    scored = [t for t in trials if t.state == TrialState.COMPLETE and t.value is not None]
    return max(scored, key=lambda trial: (trial.value, -trial.number), default=None)
