"""Trials of a search: candidates that are scored inside training data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcl_hard.core.seeds import seed_for
from gcl_hard.errors import DivergenceError, InputError, OutOfMemory
from gcl_hard.evaluation import Fold, inner_holdout, outer_folds
from gcl_hard.experiments.experiment import (
    Experiment,
    Interim,
    Parts,
    Pruned,
    RunContext,
    TrainedRun,
)
from gcl_hard.experiments.record import ACCURACY, Scored
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig

Steps = Literal["none", "epochs", "folds"]
INNER_SHARE = 0.2
"""Share of the items that is held out of the training of a trial."""
REPORTS = 5
"""Maximum number of intermediate scores of a trial: storing one in SQLite takes milliseconds."""


@dataclass(frozen=True)
class Candidate:
    """The settings of a trial.

    Attributes:
        number: number of the trial.
        config: the configuration to train.
        make: makes the user's own encoder; None for ours.
    """

    number: int
    config: RunConfig
    make: Callable[..., Any] | None = None

    @property
    def parts(self) -> Parts:
        """The maker by its name in the configuration."""
        encoder = getattr(self.config, "encoder", None)
        return {} if self.make is None or encoder is None else {encoder: self.make}


@dataclass(frozen=True)
class Inner:
    """Inner splits and intermediate scores of a study.

    Attributes:
        folds: 1 for a stratified hold-out of a fifth; else of a stratified cross-validation.
        steps: when a trial has intermediate scores: never, after some epochs, or after every fold.
        seed: seed of the split, and of the encoders.
        metric: name of the metric that trials are scored by.
    """

    folds: int = 1
    steps: Steps = "none"
    seed: int = 0
    metric: str = ACCURACY

    def split(self, labels: NDArray[np.int64]) -> list[Fold]:
        """Inner folds, as indices into the labels.

        Raises:
            InputError: for a class that is too small.
        """
        return split(labels, self.folds, self.seed, INNER_SHARE)

    def value(self, scored: Scored) -> float:
        """The mean of the metric over folds."""
        return float(np.mean(scored.scores([self.metric])[self.metric]))

    def report_epochs(self, epochs: int) -> tuple[int, ...]:
        """Epochs before the last after which a trial has an intermediate score.

        Example:
            >>> Inner(steps="epochs").report_epochs(50), Inner(steps="epochs").report_epochs(2)
            ((10, 20, 30, 40), (1,))
        """
        if self.steps != "epochs":
            return ()
        marks = {round(epochs * k / REPORTS) for k in range(1, REPORTS)}
        return tuple(sorted(marks - {0, epochs}))


@dataclass(frozen=True)
class Score:
    """The score of a candidate, or why it has none.

    Attributes:
        number: number of its trial.
        value: of the metric, such as an accuracy in percent; None where it was pruned or failed.
        error: why it failed.
    """

    number: int
    value: float | None
    error: Exception | None = None


@dataclass(frozen=True)
class Scoring:
    """How a task scores the trials of one study, and reports to the driver.

    Attributes:
        context: where and how runs are executed.
        inner: the inner splits.
        study: number of the study in the search.
        report: called with the kind of report, the study's number and the trial's; returns whether
            the trial goes on.
    """

    context: RunContext
    inner: Inner
    study: int
    report: Callable[..., bool]


@dataclass(eq=False)
class Trial:
    """A candidate while it is scored."""

    candidate: Candidate
    scoring: Scoring
    n_folds: int = 1
    values: list[float] = field(default_factory=list)
    error: Exception | None = None
    pruned: bool = False

    @property
    def config(self) -> Any:
        """Its settings."""
        return self.candidate.config

    @property
    def goes_on(self) -> bool:
        """Whether it has neither failed nor been pruned."""
        return self.error is None and not self.pruned

    def progress(self, share: float) -> None:
        """Report the share of a fold's work that is done; KeyboardInterrupt if the search stops."""
        share = (len(self.values) + share) / self.n_folds
        if not self.scoring.report("progress", self.scoring.study, self.candidate.number, share):
            raise KeyboardInterrupt

    def intermediate(self, step: int, value: float) -> None:
        """Report an intermediate score, after which the trial may be pruned."""
        number = self.candidate.number
        self.pruned = not self.scoring.report(
            "intermediate", self.scoring.study, number, step, value, wait=True
        )

    def score(self) -> Score:
        """The mean of its values; no value if it was pruned or failed."""
        mean = float(np.mean(self.values)) if self.goes_on else None
        if mean is not None and not np.isfinite(mean):
            name, mean = self.scoring.inner.metric, None
            self.error = InputError(f"{name} is not defined on what this trial is scored on")
        return Score(self.candidate.number, mean, self.error)


def split(labels: NDArray[np.int64], n_folds: int, seed: int, share: float) -> list[Fold]:
    """A stratified cross-validation, or a stratified hold-out of a share if there is one fold."""
    if n_folds == 1:
        return [inner_holdout(np.arange(len(labels)), labels, seed=seed, fraction=share)]
    return outer_folds(labels, seed=seed, n_folds=n_folds)


class TrialSplit(NamedTuple):
    """Data that trials are trained and scored on, with the settings of their runs.

    Attributes:
        data: as the experiment loads or splits them.
        seed: seed of the runs.
        inner: whether the runs hold out a part of the training data themselves.
    """

    data: Any
    seed: int
    inner: bool = False


class Part:
    """Data that a search may use: trials are runs on hold-outs inside them, and are not stored.

    Args:
        experiment: trains and scores the runs.
        data: the data; of a domain with one test part all of them: inner runs score a hold-out of
            the training part.

    Attributes:
        by_epochs: whether trials can be scored after some epochs, on request.
        searched: what hold-outs are taken from, in words.
        failures: errors that bad settings cause.
    """

    by_epochs: ClassVar[bool] = False
    searched: ClassVar[str] = "the training part"
    failures: ClassVar[tuple[type[Exception], ...]] = (DivergenceError, OutOfMemory)

    def __init__(self, experiment: Experiment[Any, Any], data: Any) -> None:
        self.experiment, self.data = experiment, data

    def n_scored(self, inner: Inner) -> int | None:
        """Number of items that an inner score is over; None if not known in advance."""
        return None

    def name(self, inner: Inner) -> str:
        """What scores trials, in words."""
        n = inner.folds
        if self.experiment.has_validation:
            return "the validation part"
        return f"a hold-out of {self.searched}" if n == 1 else f"{n} hold-outs of {self.searched}"

    def splits(self, inner: Inner) -> Sequence[TrialSplit]:
        """The splits, each with a seed of its own."""
        return [TrialSplit(self.data, seed, inner=True) for seed in hold_out_seeds(inner)]

    def scores(self, candidates: Sequence[Candidate], scoring: Scoring) -> Iterator[Score]:
        """Inner scores as they come: candidates train as ensembles where they can.

        Args:
            candidates: settings of trials.
            scoring: how candidates are scored.

        Yields:
            Scores; a candidate whose settings fail has an error.
        """
        splits = self.splits(scoring.inner)
        trials = [Trial(candidate, scoring, len(splits)) for candidate in candidates]
        for k, trial_split in enumerate(splits):
            for group in _groups([trial for trial in trials if trial.goes_on]):
                self.train(group, trial_split)
                for trial in group:
                    if scoring.inner.steps == "folds" and trial.goes_on:
                        trial.intermediate(k, trial.values[-1])
                    if k == len(splits) - 1 or not trial.goes_on:
                        yield trial.score()

    def train(self, trials: Sequence[Trial], trial_split: TrialSplit) -> None:
        """Train and score trials that share ``RunConfig.group_key``, or one."""
        group, trained = TrialGroup(self, trials, trial_split), list[TrainedRun]()
        runs, context = list(group.runs), group.context
        try:
            for run in self.experiment.train(runs, trial_split.data, context, group.report):
                trained.append(run)
        except Pruned:
            pass
        except Exception as error:
            # The user's own encoder may raise anything.
            if trials[0].candidate.make is None and not isinstance(error, self.failures):
                raise
            for unfinished in {*runs} - {run.run for run in trained}:
                group.fail(unfinished, error)
        for trial, value in group.values(trained):
            trial.values.append(value)


class TrialGroup:
    """Trials that train together on a split, and their runs.

    Attributes:
        runs: the trials of each run; trials of the same settings share one.
        context: where and how runs are trained, with their pruning.
    """

    def __init__(self, part: Part, trials: Sequence[Trial], trial_split: TrialSplit) -> None:
        self._part, self._data, self._scoring = part, trial_split.data, trials[0].scoring
        self.runs: dict[Run, list[Trial]] = {}
        for trial in trials:
            run = Run(trial.config, trial_split.seed, trial_split.inner)
            self.runs.setdefault(run, []).append(trial)
        self.context = replace(
            self._scoring.context, parts=trials[0].candidate.parts,
            interim=Interim(self._scoring.inner.report_epochs, self._pruned),
        )  # fmt: skip

    def report(self, run: Run, share: float, loss: float) -> bool:
        """Report the progress of the trials of a run."""
        for trial in self._going(run):
            trial.progress(share)
        return True

    def fail(self, run: Run, error: Exception) -> None:
        """Note why the trials of a run have no score."""
        for trial in self._going(run):
            trial.error = error

    def values(self, trained: Sequence[TrainedRun]) -> list[tuple[Trial, float]]:
        """The scores of the trials that go on; an ensemble is scored in parallel."""
        trained = [run for run in trained if self._going(run.run)]
        if len(trained) > 1:
            context = replace(self.context, threads=1)
            with ThreadPoolExecutor(self.context.threads or self.context.cores) as pool:
                values = [*pool.map(self._value, trained, repeat(context))]
        else:
            values = [self._value(run, self.context) for run in trained]
        scored = zip(trained, values, strict=True)
        return [(trial, value) for run, value in scored for trial in self._going(run.run)]

    def _value(self, trained: TrainedRun, context: RunContext) -> float:
        try:
            if trained.error is not None:
                raise trained.error
            scored = self._part.experiment.score(trained, self._data, context)
        except self._part.failures as error:
            self.fail(trained.run, error)
            return np.nan
        return self._scoring.inner.value(scored)

    def _going(self, run: Run) -> list[Trial]:
        return [trial for trial in self.runs[run] if trial.goes_on]

    def _pruned(self, epoch: int, trained: Sequence[TrainedRun]) -> list[Run]:
        for trial, value in self.values(trained):
            trial.intermediate(epoch, value)
        return [run for run in self.runs if not self._going(run)]


def _groups(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials that can train as one ensemble."""
    groups: dict[object, list[Trial]] = {}
    for trial in trials:
        key = trial.config.group_key
        groups.setdefault(trial if key is None else key, []).append(trial)
    return list(groups.values())


class Outer:
    """A data set split into a part to search in and a part to score on.

    Args:
        part: the data to search in.
        data: all of the data, as runs are trained and scored on them.
        n_test: items of the other part; 0 if there is none, None if not known in advance.

    Attributes:
        scored_on: the other part, in words.
    """

    scored_on: ClassVar[str] = "the test part"

    def __init__(self, part: Part, data: Any, n_test: int | None) -> None:
        self.part, self._data, self.n_test = part, data, n_test

    def score(self, candidate: Candidate, scoring: Scoring) -> Score:
        """Train on the whole part, score on the other."""
        trial = Trial(candidate, replace(scoring, inner=replace(scoring.inner, steps="none")))
        self.part.train([trial], TrialSplit(self._whole(), scoring.inner.seed))
        return trial.score()

    def name(self, n_folds: int) -> str:
        """What scores the best settings, in words; ``n_folds`` is that of the search."""
        return self.scored_on

    def _whole(self) -> Any:
        """The data that are trained and scored on."""
        return self._data


def hold_out_seeds(inner: Inner) -> list[int]:
    """A seed for each hold-out of a study."""
    return [inner.seed, *(seed_for(inner.seed, k) % 2**32 for k in range(1, inner.folds))]
