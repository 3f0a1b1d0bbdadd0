"""One worker on one study: ask for trials, train them side by side, tell their scores."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from optuna import Study
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from gcl_hard.errors import DivergenceError, GclHardError, InputError, OutOfMemory
from gcl_hard.tuning.lease import (
    DEATHS,
    FAILURE,
    FIXED,
    Lease,
    Watchman,
    enqueue_again,
    take_over,
    told_by_another,
)
from gcl_hard.tuning.part import Inner, Part, Score
from gcl_hard.tuning.space import Base, Space
from gcl_hard.tuning.tally import SURPLUS, Tally

COUNTED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
MOST_LETTERS = 500  # of a reason
PAUSE = 0.5  # seconds between two looks at what other workers do


OnMove = Callable[[Tally, float], None]
"""Called as trials go on: with the count and how many trials' worth of work is under way."""


def _nothing(tally: Tally, under_way: float) -> None:
    """Nobody looks on."""


@dataclass
class Search:
    """A worker.

    Attributes:
        study: with sampler and pruner.
        space: fitted to the base.
        base: the settings that are not searched.
        part: what it may see of the data.
        inner: how trials are scored.
        trials: that the study shall have, complete or pruned, of all workers.
        batch: asked for at once.
        peers: workers of this command; they share what is left in the end.
        on_move: progress.
    """

    study: Study
    space: Space
    base: Base
    part: Part
    inner: Inner
    trials: int
    batch: int
    peers: int = 1
    on_move: OnMove = _nothing
    _shares: dict[int, float] = field(default_factory=dict)
    _tally: Tally = field(default_factory=lambda: Tally.of([]))
    _watchman: Watchman = field(default_factory=Watchman)

    def run(self) -> Tally:
        """Work until the study has its trials, whoever ends them.

        Returns:
            The last count.
        """
        with Lease() as lease:
            while True:
                take_over(self.study, self._all(), self._watchman)
                trials = self._all()
                self._tally = Tally.of(trials, self._watchman.dead(trials))
                self.on_move(self._tally, sum(self._shares.values()))
                if self._tally.over(self.trials):
                    return self._tally
                left = self.trials - self._tally.finished - self._tally.running
                n = min(self.batch, math.ceil(left / self.peers))
                if n <= 0:
                    time.sleep(PAUSE)  # others are at the rest; should they die, it is ours
                    continue
                try:
                    self._work(self._ask(n, lease), lease)
                except BaseException:
                    self._give_back(lease.trials, lease)
                    raise

    def _all(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _ask(self, n: int, lease: Lease) -> list[Trial]:
        """Trials with their settings; none that would be more than the study shall have."""
        asked: list[Trial] = []
        for _ in range(n):
            trial = self.study.ask()
            try:
                lease.take(trial)
                self.space.draw(trial, self.base)
            except UpdateFinishedTrialError:  # this process slept, and it is another's by now
                lease.drop(trial)
                continue
            alone = DEATHS in trial.user_attrs  # its settings have cost a worker
            if alone and asked:
                self._give_back([trial], lease)
                break
            asked.append(trial)
            if alone:
                break
        listed = self._all()
        dead = self._watchman.dead(listed)
        counted = [t.number for t in listed if t.state in COUNTED and t.number not in dead]
        kept = []
        for trial in asked:
            if sum(number < trial.number for number in counted) < self.trials:
                kept.append(trial)
                continue
            self._fail(trial, SURPLUS, lease)
            stored = listed[trial.number]
            if FIXED in stored.system_attrs:  # for when more trials are asked for
                enqueue_again(self.study, stored)
        return kept

    def _work(self, asked: list[Trial], lease: Lease) -> None:
        trials = {trial.number: trial for trial in asked}
        candidates = []
        for number, trial in trials.items():
            try:
                candidates.append(self.base.candidate(number, trial.params))
            except InputError as error:
                self._fail(trial, f"no cell: {error}", lease)
        self._shares = {candidate.number: 0.0 for candidate in candidates}
        for score in self.part.scores(candidates, self.inner, _Reporting(self, trials)):
            self._tell(trials[score.number], score, lease)
            self._shares.pop(score.number)
        self._shares = {}

    def _tell(self, trial: Trial, score: Score, lease: Lease) -> None:
        if score.error is not None:
            self._fail(trial, _reason(score.error), lease)
            return
        state = TrialState.PRUNED if score.accuracy is None else TrialState.COMPLETE
        with told_by_another():
            self.study.tell(trial, score.accuracy, state=state)
        lease.drop(trial)

    def _fail(self, trial: Trial, reason: str, lease: Lease) -> None:
        with told_by_another():
            trial.set_user_attr(FAILURE, reason)
            self.study.tell(trial, state=TrialState.FAIL)
        lease.drop(trial)

    def _give_back(self, trials: Sequence[Trial], lease: Lease) -> None:
        """Into the queue again: who goes on with them does not wait for the leases to end."""
        numbers = {trial.number for trial in trials}
        for trial in trials:
            lease.drop(trial)
        for stored in self._all():
            if stored.number in numbers and stored.state == TrialState.RUNNING:
                with told_by_another():
                    self.study.tell(stored.number, state=TrialState.FAIL)
                    enqueue_again(self.study, stored)

    def moved(self, number: int, share: float) -> None:
        """A part of a trial's work is done."""
        self._shares[number] = share
        self.on_move(self._tally, sum(self._shares.values()))


@dataclass(frozen=True)
class _Reporting:
    """Tells Optuna what a trial scores on its way."""

    search: Search
    trials: dict[int, Trial]

    def progress(self, number: int, share: float) -> None:
        self.search.moved(number, share)

    def report(self, number: int, step: int, score: float) -> bool:
        trial = self.trials[number]
        try:
            trial.report(score, step)
            return not trial.should_prune()
        except UpdateFinishedTrialError:  # it is another worker's by now
            return False


def _reason(error: Exception) -> str:
    """In few words, so that reasons can be counted."""
    if isinstance(error, DivergenceError):
        return "diverged"
    if isinstance(error, OutOfMemory):
        return "out of memory"
    kind = "" if isinstance(error, GclHardError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"[:MOST_LETTERS]
