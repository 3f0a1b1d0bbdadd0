"""One worker on one study: ask for trials, train them side by side, tell their scores."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from optuna import Study
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from gcl_hard.errors import DivergenceError, GclHardError, InputError, OutOfMemory
from gcl_hard.tuning.lease import FAILURE, GRID, Lease, enqueue_again, expired, take_over
from gcl_hard.tuning.part import Inner, Part, Score
from gcl_hard.tuning.space import Base, Space

SURPLUS = "surplus"
"""Why a trial was given up that another worker had asked for at the same time."""
PAUSE = 0.5  # seconds between two looks at what other workers do


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
    def of(cls, trials: Iterable[FrozenTrial]) -> Tally:
        """Count trials.

        Example:
            >>> Tally.of([]).finished
            0
        """
        states: Counter[TrialState] = Counter()
        failures: Counter[str] = Counter()
        best, now = None, time.time()
        for trial in trials:
            if trial.state == TrialState.RUNNING and expired(trial, now):
                continue
            states[trial.state] += 1
            reason = trial.user_attrs.get(FAILURE, SURPLUS)
            if trial.state == TrialState.FAIL and reason != SURPLUS:
                failures[reason] += 1
            if trial.state == TrialState.COMPLETE and trial.value is not None:
                best = trial.value if best is None else max(best, trial.value)
        return cls(
            states[TrialState.COMPLETE], states[TrialState.PRUNED], states[TrialState.RUNNING],
            failures, best,
        )  # fmt: skip

    @property
    def finished(self) -> int:
        """Trials that count."""
        return self.complete + self.pruned

    def over(self, asked: int) -> bool:
        """Whether a study that was asked for so many trials is at its end."""
        return self.finished >= asked or self.failures.total() >= asked


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

    def run(self) -> Tally:
        """Work until the study has its trials, whoever ends them.

        Returns:
            The last count.
        """
        with Lease() as lease:
            while True:
                take_over(self.study, self._all())
                self._tally = Tally.of(self._all())
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
                    self._give_back(lease)
                    raise

    def _all(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False)

    def _ask(self, n: int, lease: Lease) -> list[Trial]:
        """Trials with their settings; none that would be more than the study shall have."""
        asked = []
        for _ in range(n):
            trial = self.study.ask()
            lease.take(trial)
            self.space.draw(trial, self.base)
            asked.append(trial)
        listed, now = self._all(), time.time()
        kept = []
        for trial in asked:
            before = [t for t in listed if t.number < trial.number]
            counted = sum(
                t.state in (TrialState.COMPLETE, TrialState.PRUNED)
                or (t.state == TrialState.RUNNING and not expired(t, now))
                for t in before
            )
            if counted < self.trials:
                kept.append(trial)
            else:
                self._fail(trial, SURPLUS, lease)
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
        lease.drop(trial)
        state = TrialState.PRUNED if score.accuracy is None else TrialState.COMPLETE
        # A worker that slept longer than its lease finds its trials told FAIL by another.
        self.study.tell(trial, score.accuracy, state=state, skip_if_finished=True)

    def _fail(self, trial: Trial, reason: str, lease: Lease) -> None:
        lease.drop(trial)
        trial.set_user_attr(FAILURE, reason)
        self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)

    def _give_back(self, lease: Lease) -> None:
        """Whoever goes on with the study does not wait for the leases to end."""
        for trial in lease.trials:
            lease.drop(trial)
            self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
            grid = bool(trial.user_attrs.get(GRID))
            enqueue_again(self.study, trial.number, trial.params, grid=grid)

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
            with warnings.catch_warnings():
                # After running out of memory a batch is begun again in halves.
                warnings.filterwarnings("ignore", message=".*already reported.*")
                trial.report(score, step)
            return not trial.should_prune()
        except UpdateFinishedTrialError:  # it is another worker's by now
            return False


def _reason(error: GclHardError) -> str:
    """In few words, so that reasons can be counted."""
    if isinstance(error, DivergenceError):
        return "diverged"
    return "out of memory" if isinstance(error, OutOfMemory) else str(error)
