"""Trials: candidates that are scored inside training data; what a search is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gcl_hard.core.seeds import seed_for
from gcl_hard.errors import DivergenceError, InputError, OutOfMemory
from gcl_hard.evaluation import Fold, inner_holdout, outer_folds
from gcl_hard.experiments.experiment import Experiment, Parts, RunContext
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
        make: makes the encoder, if it is the user's own.
    """

    number: int
    config: RunConfig
    make: Callable[..., Any] | None = None

    @property
    def parts(self) -> Parts:
        """The maker by its name in the configuration."""
        named = getattr(self.config, "encoder", None)
        return {} if self.make is None or named is None else {named: self.make}


@dataclass(frozen=True)
class Inner:
    """Inner splits and intermediate scores of a study.

    Attributes:
        folds: 1 for a stratified hold-out of a fifth; else of a stratified cross-validation.
        steps: what a trial has intermediate scores after: nothing, some epochs, or every fold.
        seed: seed of the split, and of the encoders.
        metric: name of what trials are scored by.
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
        report: called with what is reported, the study's number and the trial's; returns whether
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
        """Report the share of a fold's work that is done; KeyboardInterrupt if all is stopped."""
        share = (len(self.values) + share) / self.n_folds
        if not self.scoring.report("progress", self.scoring.study, self.candidate.number, share):
            raise KeyboardInterrupt

    def intermediate(self, step: int, value: float) -> None:
        """Report an intermediate score, after which the trial may be pruned."""
        at = self.scoring.study, self.candidate.number, step
        self.pruned = not self.scoring.report("intermediate", *at, value, wait=True)

    def score(self) -> Score:
        """The mean of its values, if it has been scored."""
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


class Part(ABC):
    """Data that a search may use: trials are scored on splits of them.

    Attributes:
        by_epochs: whether trials have scores after some epochs, if they are asked for.
    """

    by_epochs = True

    def n_scored(self, inner: Inner) -> int | None:
        """Number of items that an inner score is over; None where that is not known before."""
        return None

    def name(self, inner: Inner) -> str:
        """What scores trials, in words."""
        return "a hold-out of 20 %" if inner.folds == 1 else f"{inner.folds} hold-outs of 20 %"

    @abstractmethod
    def _folds(self, inner: Inner) -> Sequence[Any]:
        """The splits."""

    @abstractmethod
    def _train(self, trials: list[Trial], k: int, fold: Any) -> None:
        """Train and score trials that :meth:`_groups` has put together on the k-th split."""

    def _groups(self, trials: Sequence[Trial]) -> list[list[Trial]]:
        """Trials that can train as one ensemble."""
        groups: dict[object, list[Trial]] = {}
        for trial in trials:
            key = trial.config.group_key
            groups.setdefault(trial if key is None else key, []).append(trial)
        return list(groups.values())

    def scores(self, candidates: Sequence[Candidate], scoring: Scoring) -> Iterator[Score]:
        """Inner scores as they come: candidates train as ensembles where they can.

        Args:
            candidates: settings of trials.
            scoring: how candidates are scored.

        Yields:
            Scores; a candidate whose settings do not work has an error.
        """
        folds = self._folds(scoring.inner)
        trials = [Trial(one, scoring, len(folds)) for one in candidates]
        for k, fold in enumerate(folds):
            for group in self._groups([trial for trial in trials if trial.goes_on]):
                self._train(group, k, fold)
                for trial in group:
                    if scoring.inner.steps == "folds" and trial.goes_on:
                        trial.intermediate(k, trial.values[-1])
                    if k == len(folds) - 1 or not trial.goes_on:
                        yield trial.score()


class Outer(Protocol):
    """A data set split into a part to search in and a part to score on.

    Attributes:
        part: what may be searched in.
        n_test: items of the other; 0 if there is none, None where that is not known before.
    """

    part: Any
    n_test: int | None

    def score(self, candidate: Candidate, scoring: Scoring) -> Score:
        """Train on the whole part, score on the other."""

    def name(self, n_folds: int) -> str:
        """What scores the best settings, in words; ``n_folds`` as of the search."""


class RunPart(Part):
    """The training part of a domain with one test part: trials are runs on hold-outs inside it.

    Args:
        experiment: trains and scores them.
        data: the whole data.
        inner: number and seeds of the hold-outs, each drawn afresh.
    """

    by_epochs = False

    def __init__(self, experiment: Experiment[Any, Any], data: Any, inner: Inner) -> None:
        self._experiment, self._data = experiment, data
        self._seeds = hold_out_seeds(inner)

    def name(self, inner: Inner) -> str:
        """What scores trials, in words; the experiment decides the size of a hold-out."""
        n = len(self._seeds)
        return f"{n} hold-outs of the training part" if n > 1 else "a hold-out of the training part"

    def _folds(self, inner: Inner) -> Sequence[int]:
        return self._seeds

    def _train(self, trials: list[Trial], k: int, fold: int) -> None:
        for trial in trials:
            score_by_run(self._experiment, self._data, trial, Run(trial.config, fold, inner=True))


class RunOuter:
    """The training part of a domain with one test part, and that test part.

    Args:
        experiment: trains and scores.
        data: the whole data.
        inner: the hold-outs.
    """

    def __init__(self, experiment: Experiment[Any, Any], data: Any, inner: Inner) -> None:
        self._experiment, self._data = experiment, data
        self.part = RunPart(experiment, data, inner)
        self.n_test = experiment.facts(data).get("n_test")

    def score(self, candidate: Candidate, scoring: Scoring) -> Score:
        """Train on the whole training part, score on the test part."""
        trial = Trial(candidate, scoring)
        run = Run(trial.config, scoring.inner.seed)
        score_by_run(self._experiment, self._data, trial, run)
        return trial.score()

    def name(self, n_folds: int) -> str:
        """What scores the best settings, in words."""
        return "the test part"


def hold_out_seeds(inner: Inner) -> list[int]:
    """A seed for each hold-out of a study."""
    return [inner.seed, *(seed_for(inner.seed, k) % 2**32 for k in range(1, inner.folds))]


def score_by_run(experiment: Experiment[Any, Any], data: Any, trial: Trial, run: Run) -> None:
    """Score a trial by a run, which is not stored."""

    def report(run: Run, share: float, loss: float) -> bool:
        trial.progress(share)
        return True

    context = replace(trial.scoring.context, parts=trial.candidate.parts)
    try:
        (trained,) = experiment.train([run], data, context, report)
        if trained.error is not None:
            raise trained.error
        scored = experiment.score(trained, data, context)
    except (DivergenceError, OutOfMemory) as error:
        trial.error = error
    else:
        trial.values.append(trial.scoring.inner.value(scored))
