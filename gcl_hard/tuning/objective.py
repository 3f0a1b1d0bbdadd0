"""The objective of trials: the outer-training part of a data set, and the splits inside it."""

from __future__ import annotations

import inspect
import math
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.errors import DivergenceError, GclHardError, InputError, OutOfMemory, unknown
from gcl_hard.evaluation import Fold, FoldScore, inner_holdout, outer_folds
from gcl_hard.evaluation.folds import inner_folds
from gcl_hard.experiments.custom import check_call, edge_argument
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.runs import hardware
from gcl_hard.runs.experiment import RunContext
from gcl_hard.runs.plan import Run
from gcl_hard.runs.runner import data_sets
from gcl_hard.seeds import seed_for
from gcl_hard.settings.base import RunConfig
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.images import ImageConfig
from gcl_hard.tuning.space import Base, Candidate, Space

if TYPE_CHECKING:
    from gcl_hard.experiments.ensembles import Encoder
    from gcl_hard.experiments.image_data import ImageData
    from gcl_hard.experiments.images import OnEpochEnd
    from gcl_hard.graphs import GraphSet
    from gcl_hard.graphs.models import GraphModel

Steps = Literal["none", "epochs", "folds"]
INNER_SHARE, OUTER_SHARE = 0.2, 0.3
"""Shares of the graphs held out: of the training of a trial, and of a search with one study."""
REPORTS = 5
"""Maximum number of intermediate scores of a trial: storing one in SQLite takes milliseconds."""
MOST_CHARACTERS = 500  # in a reason for a failure


@dataclass(frozen=True)
class Inner:
    """Inner splits and intermediate scores of a study.

    Attributes:
        folds: 1 for a stratified hold-out of a fifth; else of a stratified cross-validation.
        steps: what a trial has intermediate scores after: nothing, some epochs, or every fold.
        seed: seed of the split, and of the encoders.
    """

    folds: int = 1
    steps: Steps = "none"
    seed: int = 0

    def split(self, labels: NDArray[np.int64]) -> list[Fold]:
        """Inner folds, as indices into the labels.

        Raises:
            InputError: for a class that is too small.
        """
        return _split(labels, self.folds, self.seed, INNER_SHARE)

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

    number: number of its trial.
        number: number of its trial.
        accuracy: percent; None where it was pruned or failed.
        error: why it failed.
    """

    number: int
    accuracy: float | None
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
class _Trial:
    """A candidate while it is scored."""

    candidate: Candidate
    scoring: Scoring
    n_folds: int = 1
    accuracies: list[float] = field(default_factory=list)
    error: Exception | None = None
    pruned: bool = False

    @property
    def config(self) -> Any:
        return self.candidate.config

    @property
    def goes_on(self) -> bool:
        return self.error is None and not self.pruned

    def progress(self, share: float) -> None:
        """Report the share of a fold's work that is done; KeyboardInterrupt if all is stopped."""
        share = (len(self.accuracies) + share) / self.n_folds
        if not self.scoring.report("progress", self.scoring.study, self.candidate.number, share):
            raise KeyboardInterrupt

    def intermediate(self, step: int, accuracy: float) -> None:
        """Report an intermediate score, percent, after which the trial may be pruned."""
        at = self.scoring.study, self.candidate.number, step
        self.pruned = not self.scoring.report("intermediate", *at, accuracy, wait=True)

    def score(self) -> Score:
        mean = float(np.mean(self.accuracies)) if self.goes_on else None
        return Score(self.candidate.number, mean, self.error)


def failure_reason(error: Exception) -> str:
    """A short, countable reason for a failure."""
    if isinstance(error, DivergenceError):
        return "diverged"
    if isinstance(error, OutOfMemory):
        return "out of memory"
    return _in_words(error)[:MOST_CHARACTERS]


def _in_words(error: Exception) -> str:
    kind = "" if isinstance(error, GclHardError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"


class Part(ABC):
    """Data that a search may use: trials are scored on splits of them."""

    @abstractmethod
    def n_scored(self, inner: Inner) -> int:
        """Number of samples in an inner score."""

    @abstractmethod
    def _folds(self, inner: Inner) -> Sequence[Any]:
        """The splits."""

    @abstractmethod
    def _train(self, trials: list[_Trial], k: int, fold: Any) -> None:
        """Train and score trials that :meth:`_groups` has put together on the k-th split."""

    def _groups(self, trials: Sequence[_Trial]) -> list[list[_Trial]]:
        """Trials that can train as one ensemble."""
        groups: dict[object, list[_Trial]] = {}
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
        trials = [_Trial(one, scoring, len(folds)) for one in candidates]
        for k, fold in enumerate(folds):
            for group in self._groups([trial for trial in trials if trial.goes_on]):
                self._train(group, k, fold)
                for trial in group:
                    if scoring.inner.steps == "folds" and trial.goes_on:
                        trial.intermediate(k, trial.accuracies[-1])
                    if k == len(folds) - 1 or not trial.goes_on:
                        yield trial.score()


def _percent(scores: Sequence[FoldScore]) -> float:
    return 100 * float(np.mean([score.accuracy for score in scores]))


# Graphs


class GraphPart(Part):
    """The outer-training graphs, as a set without references to the others.

    Args:
        graphs: on the device to train on.
        on_test_folds: whether to score as the protocol ``transductive`` does: encoders see all
            graphs, and accuracy is taken on the test folds of its cross-validation.
    """

    def __init__(self, graphs: GraphSet, *, on_test_folds: bool = False) -> None:
        self.graphs, self._on_test_folds = graphs, on_test_folds

    def _folds(self, inner: Inner) -> Sequence[Fold | None]:
        return [None] if self._on_test_folds else inner.split(self.graphs.y.cpu().numpy())

    def n_scored(self, inner: Inner) -> int:
        """Graphs that an inner score is over; refuses a class too small to choose C inside."""
        if self._on_test_folds:
            return self.graphs.n_graphs
        labels = self.graphs.y.cpu().numpy()
        folds = inner.split(labels)
        for fold in folds:
            inner_folds(labels[fold.train], n_inner=5, seed=inner.seed)
        return sum(len(fold.test) for fold in folds)

    def _train(self, trials: list[_Trial], k: int, fold: Fold | None) -> None:
        from gcl_hard.experiments.ensembles import Encoder

        encoders, inner = [], trials[0].scoring.inner
        for trial in trials:
            epochs = inner.report_epochs(trial.config.epochs)
            given = trial.config, self.graphs, inner.seed, k
            parts = trial.candidate.parts
            encoders.append(
                Encoder(*given, parts=parts, snapshots=epochs)
                if fold is None
                else Encoder.of_fold(*given, fold, parts=parts, snapshots=epochs)
            )
        # Scaled by the fold's training graphs alone.
        _train_graphs(trials, encoders, self.graphs, encoders[0].graphs, fold)


def _train_graphs(
    trials: Sequence[_Trial],
    encoders: Sequence[Encoder],
    graphs: GraphSet,
    embedded: GraphSet,
    fold: Fold | None,
) -> None:
    """Train an encoder for each trial, as one ensemble if there are several, and score them.

    Args:
        trials: trials that share ``GraphConfig.group_key``, or one.
        encoders: the encoders of the trials.
        graphs: graphs to train on, without any fold's scaling.
        embedded: graphs to embed.
        fold: fold of the embedded graphs for the SVM; None for the cross-validation
            of the configuration.
    """
    from gcl_hard.experiments.ensembles import TrainedEncoder, train_encoders
    from gcl_hard.experiments.graphs import use_threads

    context = trials[0].scoring.context
    use_threads(context, graphs, trials[0].config)
    trained: dict[_Trial, GraphModel] = {}

    def on_epoch(of: Sequence[int], epoch: int, losses: Sequence[float]) -> None:
        for trial in (trials[n] for n in of):
            trial.progress(epoch / trial.config.epochs)

    def on_snapshot(epoch: int, models: Mapping[int, GraphModel]) -> list[int]:
        seen = {trials[n]: model for n, model in models.items()}
        for trial, accuracy in _svm_accuracies(seen, embedded, fold).items():
            trial.intermediate(epoch, accuracy)
        return [n for n in models if not trials[n].goes_on]

    try:
        for result in train_encoders(
            encoders, graphs, size=context.options.ensemble_size, on_epoch=on_epoch,
            see=on_snapshot,
        ):  # fmt: skip
            trial = trials[result.number]
            if isinstance(result.trained, TrainedEncoder):
                trained[trial] = result.trained.model
            else:
                trial.error = trial.error or result.trained
    except Exception as error:
        # The user's own encoder may raise anything; settings cause only these two.
        own = trials[0].candidate.make is not None
        if not own and not isinstance(error, OutOfMemory | InputError):
            raise
        for trial in trials:
            trial.error = trial.error or (None if trial in trained else error)
    done = {trial: model for trial, model in trained.items() if trial.goes_on}
    for trial, accuracy in _svm_accuracies(done, embedded, fold).items():
        trial.accuracies.append(accuracy)


def _svm_accuracies(
    models: Mapping[_Trial, GraphModel], graphs: GraphSet, fold: Fold | None
) -> dict[_Trial, float]:
    """Accuracies in percent; a model without finite embeddings has failed."""
    from gcl_hard.experiments.protocols import embeddings

    found: dict[_Trial, NDArray[np.float64]] = {}
    for trial, model in models.items():
        try:
            found[trial] = embeddings(model, graphs, trial.config, trial.scoring.inner.seed)
        except DivergenceError as error:
            trial.error = error
    if not found:
        return {}

    def score(trial: _Trial) -> float:
        return accuracy_of(found[trial], trial.config, graphs, trial.scoring.inner.seed, fold)

    context = next(iter(found)).scoring.context
    with ThreadPoolExecutor(context.threads or context.cores) as pool:
        return dict(zip(found, pool.map(score, found), strict=True))


class GraphOuter:
    """Graphs split into a part to search in and a part to score on.

    Args:
        graphs: the whole set, on the device to train on.
        fold: the graphs to search in, and those to score on; None for settings that are chosen on
            the test folds as the paper does, which leaves no graphs to score on.
    """

    def __init__(self, graphs: GraphSet, fold: Fold | None) -> None:
        self._graphs, self._fold = graphs, fold
        if fold is None:
            self.part, self.n_test = GraphPart(graphs, on_test_folds=True), 0
        else:
            self.part = GraphPart(graphs.take(torch.from_numpy(fold.train)))
            self.n_test = len(fold.test)

    def score(self, candidate: Candidate, scoring: Scoring) -> Score:
        """Train on all graphs of the part, C of the SVM chosen inside it; score on the others.

        Args:
            candidate: the settings.
            scoring: with the seed of the encoder.

        Returns:
            The score on the test part, or why the settings failed.
        """
        from gcl_hard.experiments.ensembles import Encoder

        assert self._fold is not None
        train_ids = torch.from_numpy(self._fold.train)
        graphs, part = self._graphs.standardised_on(train_ids), self.part.graphs
        if graphs is not self._graphs:
            part = graphs.take(train_ids)
        trial = _Trial(candidate, scoring)
        # The part by itself, as in the trials: an epoch has as many steps as theirs.
        encoder = Encoder(trial.config, part, scoring.inner.seed, parts=candidate.parts)
        _train_graphs([trial], [encoder], part, graphs, self._fold)
        return trial.score()


def cut_graphs(graphs: GraphSet, n_folds: int, seed: int) -> list[Fold]:
    """The outer parts of a search.

    Args:
        graphs: the whole set.
        n_folds: 1 for a stratified hold-out of 30 %, else of a stratified cross-validation.
        seed: seed of the split.

    Raises:
        InputError: for a class that is too small.
    """
    return _split(graphs.y.cpu().numpy(), n_folds, seed, OUTER_SHARE)


def _split(labels: NDArray[np.int64], n_folds: int, seed: int, share: float) -> list[Fold]:
    """A stratified cross-validation, or a stratified hold-out of a share if there is one fold."""
    if n_folds == 1:
        return [inner_holdout(np.arange(len(labels)), labels, seed=seed, fraction=share)]
    return outer_folds(labels, seed=seed, n_folds=n_folds)


def accuracy_of(
    z: NDArray[np.float64], config: GraphConfig, graphs: GraphSet, seed: int, fold: Fold | None
) -> float:
    """Accuracy of the SVM in percent, on a fold's test part or by the cross-validation.

    Args:
        z: float64 [G, d], embeddings of all graphs.
        config: the settings.
        graphs: the set.
        seed: seed of the folds inside.
        fold: fold for the SVM; None for the cross-validation of the configuration.
    """
    from gcl_hard.experiments.protocols import score_embeddings

    return _percent(
        score_embeddings(config, graphs, [z], None if fold is None else [fold], seed=seed)
    )


# Images


class _Pruned(Exception):  # noqa: N818
    """Raised to end the training of a pruned trial."""


class ImagePart(Part):
    """Training images, of which a fifth serves as test images.

    Args:
        data: the images; their test images are not kept.
        inner: seed and number of hold-outs, each drawn afresh.
    """

    def __init__(self, data: ImageData, inner: Inner) -> None:
        seeds = [inner.seed, *(seed_for(inner.seed, k) % 2**32 for k in range(1, inner.folds))]
        self.folds = [data.held_out(seed) for seed in seeds]
        labels = data.probe.labels.cpu().numpy()
        held = [inner_holdout(np.arange(len(labels)), labels, seed=seed).test for seed in seeds]
        self._n_held = len(np.unique(np.concatenate(held)))

    def _folds(self, inner: Inner) -> Sequence[ImageData]:
        return self.folds

    def n_scored(self, inner: Inner) -> int:
        """Images that an inner score is over; those of several hold-outs once."""
        return self._n_held

    def scores(self, candidates: Sequence[Candidate], scoring: Scoring) -> Iterator[Score]:
        """Inner scores, one candidate after the other: a single network fills the device."""
        for candidate in candidates:
            yield from super().scores([candidate], scoring)

    def _train(self, trials: list[_Trial], k: int, fold: ImageData) -> None:
        (trial,) = trials
        epochs = trial.scoring.inner.report_epochs(trial.config.epochs)

        def on_epoch_end(epoch: int, score: Callable[[], FoldScore]) -> None:
            if epoch in epochs:
                trial.intermediate(epoch, _percent([score()]))
                if trial.pruned:
                    raise _Pruned

        _train_images(trial, fold, on_epoch_end)


class ImageOuter:
    """Training images to search in, and the official test images.

    Args:
        data: the images, on the device to train on.
        inner: the hold-outs, made once.
    """

    def __init__(self, data: ImageData, inner: Inner) -> None:
        self._data = data
        self.part = ImagePart(data, inner)
        self.n_test = len(data.test)

    def score(self, candidate: Candidate, scoring: Scoring) -> Score:
        """Train on all training images, score on the test images; see :class:`GraphOuter`."""
        trial = _Trial(candidate, scoring)
        _train_images(trial, self._data)
        return trial.score()


def _train_images(trial: _Trial, data: ImageData, on_epoch_end: OnEpochEnd | None = None) -> None:
    """Train an encoder and its probe."""
    from gcl_hard.experiments.images import score_run, train_run

    def report(run: Run, share: float, loss: float) -> bool:
        trial.progress(share)
        return True

    context, run = trial.scoring.context, Run(trial.config, trial.scoring.inner.seed)
    hardware.use_threads(context.threads, math.inf, 1, context.cores)
    try:
        with tempfile.TemporaryDirectory() as folder:
            context = replace(context, output=Path(folder))
            trained = train_run(run, data, context, report, on_epoch_end)
            trial.accuracies.append(_percent([score_run(trained, data)]))
    except _Pruned:
        pass
    except (DivergenceError, OutOfMemory) as error:
        trial.error = error


# The user's own encoders


def check_encoder(base: Base, space: Space) -> None:
    """Check that a user's own encoder can be searched.

    Args:
        base: with an encoder.
        space: fitted to it.

    Raises:
        InputError: for images, or settings that it does not take.
    """
    make = base.make
    assert make is not None
    if base.config.domain == "images":
        raise InputError("your own encoder can be searched on graphs only: leave it out")
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):  # of C code
        return
    parameters = signature.parameters.values()
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    for name in space.of_encoder:
        if name not in signature.parameters and not anything:
            raise unknown("setting of the encoder", name, signature.parameters)
    call = "encoder(n_features, **searched as encoder.NAME)"
    given = edge_argument(make, None) | dict.fromkeys(space.of_encoder)
    check_call(make, call, 1, **given)


def check_output(base: Base, space: Space, graphs: GraphSet) -> None:
    """Check an encoder's output on two graphs, with the first values of what is searched.

    Args:
        base: with the user's own encoder.
        space: fitted to it.
        graphs: the set, on the CPU.

    Raises:
        InputError: if the encoder has no width or gives another shape.
    """
    from gcl_hard.experiments import protocols

    assert base.make is not None
    first = {name: dimension.ends[0] for name, dimension in space.of_encoder.items()}
    protocols.check_encoder(partial(base.make, **first), graphs)


Outer = GraphOuter | ImageOuter
"""A data set split in two."""

# Objectives, and the tasks that score trials: these run in this process, or in a Dask worker.


@dataclass(frozen=True)
class Objective:
    """Scores the trials of a search; picklable.

    Attributes:
        config: settings that are not searched; its ``dataset`` is spelt canonically.
        inner: how trials are scored.
        outer_folds: outer parts, a study each; 1 is a hold-out.
        digest: digest of the data.
    """

    config: RunConfig
    inner: Inner
    outer_folds: int
    digest: str

    def load(self, context: RunContext, graphs: GraphSet | None) -> tuple[Outer, ...]:
        """The outer parts; loaded and cut once in a process.

        Args:
            context: names the folder of the data and the device.
            graphs: the user's own set, in place of a named one.

        Raises:
            InputError: if the data are missing, cannot be split or differ from the driver's.
        """
        key = self, context.data_dir, context.device
        if key not in _CUT or _CUT[key][0] is not graphs:
            _CUT.clear()
            _CUT[key] = graphs, tuple(self._cut(context, graphs))
        return _CUT[key][1]

    def _cut(self, context: RunContext, graphs: GraphSet | None) -> Iterator[Outer]:
        config, device = self.config, torch.device(context.device)
        data: Any
        if graphs is not None:
            data = graphs.to(device)
        else:
            sets = data_sets(context)
            data = sets.load(config)
            if sets.facts(config)["digest"] != self.digest:
                raise InputError(
                    f"{config.dataset} differs between the machines of this search: give all of "
                    f"them the same files"
                )
        if graphs is not None:
            from gcl_hard.experiments.protocols import check_classes

            check_classes(graphs)
        if isinstance(config, ImageConfig) or config.protocol == "transductive":
            inner = isinstance(config, ImageConfig)
            experiment_of(config).check(config, data, context, inner=inner)
        if isinstance(config, ImageConfig):
            yield ImageOuter(data, self.inner)
        elif config.protocol == "transductive":
            yield GraphOuter(data, None)
        else:
            for fold in cut_graphs(data, self.outer_folds, self.inner.seed):
                yield GraphOuter(data, fold)


_CUT: dict[tuple[Objective, Path | None, str], tuple[GraphSet | None, tuple[Outer, ...]]] = {}
"""The outer parts of the latest search in this process, with the user's own graphs."""


def score_trials(
    context: RunContext,
    objective: Objective,
    study: int,
    graphs: GraphSet | None,
    candidates: Sequence[Candidate],
    *,
    report: Callable[..., bool],
) -> None:
    """Task: score the trials of a group; every score is reported as it comes.

    Args:
        context: where and how runs are executed.
        objective: objective of the search.
        study: number of the study, whose outer part is searched in.
        graphs: the user's own, or None.
        candidates: settings of the trials.
        report: see :class:`Scoring`.
    """
    scoring = Scoring(context, objective.inner, study, report)
    # A task may be repeated after its worker died: some of its trials have their scores.
    wanted = [one for one in candidates if report("begin", study, one.number, wait=True)]
    if wanted:
        part = objective.load(context, graphs)[study].part
        for score in part.scores(wanted, scoring):
            reason = None if score.error is None else failure_reason(score.error)
            report("scored", study, score.number, score.accuracy, reason, wait=True)


def score_outside(
    context: RunContext,
    objective: Objective,
    study: int,
    graphs: GraphSet | None,
    candidate: Candidate,
    *,
    report: Callable[..., bool],
) -> float | str | None:
    """Task: score the best settings of a study on its outer test part.

    Returns:
        Accuracy in percent, or a sentence if the settings failed.
    """
    outer = objective.load(context, graphs)[study]
    score = outer.score(candidate, Scoring(context, objective.inner, study, report))
    if score.error is not None:
        return f"on the whole part its settings failed: {_in_words(score.error)}"
    return score.accuracy
