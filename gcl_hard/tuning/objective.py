"""What trials are scored on: the outer-training part of a data set, and the splits inside it."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gcl_hard.errors import DivergenceError, GclHardError, InputError, OutOfMemory, unknown
from gcl_hard.evaluation import Fold, FoldScore, inner_holdout, outer_folds
from gcl_hard.evaluation.nested import inner_folds
from gcl_hard.experiments import hardware
from gcl_hard.experiments.config import GraphConfig, ImageConfig, RunConfig, defaults
from gcl_hard.experiments.domains import experiment_of
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.runner import data_sets
from gcl_hard.experiments.runs import Run
from gcl_hard.seeds import seed_for
from gcl_hard.tuning.space import Base, Candidate, Space

if TYPE_CHECKING:
    from gcl_hard.experiments.ensembles import Encoder
    from gcl_hard.experiments.image_data import ImageData
    from gcl_hard.graphs import GraphSet
    from gcl_hard.graphs.models import GraphModel

Steps = Literal["none", "epochs", "folds"]
OUTER_SHARE = 0.3
"""Of the graphs, held out of a search that is one study."""
REPORTS = 5
"""Intermediate scores of a trial at most: storing one in SQLite takes milliseconds."""
OF_GIN = ("layers", "dim", "readout")
"""Settings of the GIN, which an encoder of the user's own replaces."""
MOST_LETTERS = 500  # of a reason


class OwnError(GclHardError):
    """Something in the user's own encoder went wrong."""


@dataclass(frozen=True)
class Inner:
    """How settings are scored inside the outer-training part.

    Attributes:
        folds: 1 for a stratified hold-out of a fifth; else of a stratified cross-validation.
        steps: after what a trial has an intermediate score: nothing, some epochs, or every fold.
        seed: of the split, and of the encoders.
    """

    folds: int = 1
    steps: Steps = "none"
    seed: int = 0

    def split(self, labels: NDArray[np.int64]) -> list[Fold]:
        """The folds, ids among the labels.

        Raises:
            InputError: for a class that is too small.
        """
        if self.folds == 1:
            return [inner_holdout(np.arange(len(labels)), labels, seed=self.seed)]
        return outer_folds(labels, seed=self.seed, n_folds=self.folds)

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
    """What came of a candidate.

    Attributes:
        number: of its trial.
        accuracy: percent; None where it was pruned or failed.
        error: why it failed.
    """

    number: int
    accuracy: float | None
    error: Exception | None = None


@dataclass(frozen=True)
class Scoring:
    """How a task scores trials of one study, and what it reports to the driver of the search.

    Attributes:
        context: where and how.
        inner: on which splits.
        study: number of the study in the search.
        report: called with what is reported, the study's number and the trial's.
    """

    context: RunContext
    inner: Inner
    study: int
    report: Callable[..., bool]

    def begin(self, number: int) -> bool:
        """Whether a trial is still to be scored: a task may be repeated after its worker died."""
        return self.report("begin", self.study, number, wait=True)

    def progress(self, number: int, share: float) -> None:
        """Report the share of a trial's work that is done, in [0, 1].

        Raises:
            KeyboardInterrupt: if the search is being stopped.
        """
        if not self.report("progress", self.study, number, share):
            raise KeyboardInterrupt

    def intermediate(self, number: int, step: int, accuracy: float) -> bool:
        """Report an intermediate score, percent; returns whether the trial goes on."""
        return self.report("intermediate", self.study, number, step, accuracy, wait=True)

    def scored(self, score: Score) -> None:
        """Report the score of a trial, which the driver stores at once."""
        reason = None if score.error is None else failure_reason(score.error)
        self.report("scored", self.study, score.number, score.accuracy, reason, wait=True)


def failure_reason(error: Exception) -> str:
    """Why a trial failed, in few words, so that reasons can be counted."""
    if isinstance(error, DivergenceError):
        return "diverged"
    if isinstance(error, OutOfMemory):
        return "out of memory"
    kind = "" if isinstance(error, GclHardError) else f"{type(error).__name__}: "
    return f"{kind}{' '.join(str(error).split())}"[:MOST_LETTERS]


# Graphs


@dataclass(eq=False)
class _Trial:
    """A candidate on its way through the inner folds."""

    candidate: Candidate
    config: GraphConfig
    accuracies: list[float] = field(default_factory=list)
    error: Exception | None = None
    pruned: bool = False

    @property
    def goes_on(self) -> bool:
        return self.error is None and not self.pruned

    def intermediate(self, scoring: Scoring, step: int, accuracy: float) -> None:
        self.pruned = not scoring.intermediate(self.candidate.number, step, accuracy)

    def score(self) -> Score:
        mean = float(np.mean(self.accuracies)) if self.goes_on else None
        return Score(self.candidate.number, mean, self.error)


class GraphPart:
    """The outer-training part of graphs, a set by itself: from it no way leads to the others.

    Args:
        graphs: on the device to train on.
        on_test_folds: whether scores are those of the protocol ``transductive``: encoders see all
            graphs, and accuracy is that of the test folds of its cross-validation.
    """

    def __init__(self, graphs: GraphSet, *, on_test_folds: bool = False) -> None:
        self.graphs, self._on_test_folds = graphs, on_test_folds

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """int64 [G]."""
        found: NDArray[np.int64] = self.graphs.y.cpu().numpy()
        return found

    def n_scored(self, inner: Inner) -> int:
        """Graphs that an inner score is over; refuses a class too small to choose C inside."""
        if self._on_test_folds:
            return self.graphs.n_graphs
        folds = inner.split(self.labels)
        for fold in folds:
            inner_folds(self.labels[fold.train], n_inner=5, seed=inner.seed)
        return sum(len(fold.test) for fold in folds)

    def scores(self, candidates: Sequence[Candidate], scoring: Scoring) -> Iterator[Score]:
        """Inner scores as they come: candidates train as ensembles where they can be.

        Args:
            candidates: settings of trials.
            scoring: how.

        Yields:
            Scores; a candidate whose settings do not work has an error.
        """
        inner = scoring.inner
        runs = [_Trial(one, cast("GraphConfig", one.config)) for one in candidates]
        folds = [None] if self._on_test_folds else inner.split(self.labels)
        for k, fold in enumerate(folds):
            last = k == len(folds) - 1
            for group in _groups([run for run in runs if run.goes_on]):
                self._train(group, scoring, (k, len(folds)), fold)
                for run in group:
                    if inner.steps == "folds" and run.goes_on:
                        run.intermediate(scoring, k, run.accuracies[-1])
                    if last or not run.goes_on:
                        yield run.score()

    def _train(
        self,
        group: list[_Trial],
        scoring: Scoring,
        position: tuple[int, int],
        fold: Fold | None,
    ) -> None:
        """Train and score one fold of candidates that can be one ensemble."""
        from gcl_hard.experiments.ensembles import TrainedEncoder, train_encoders
        from gcl_hard.experiments.graphs import use_threads

        context, inner, (k, n_folds) = scoring.context, scoring.inner, position
        use_threads(context, self.graphs, group[0].config)
        encoders = [
            _encoder(run.candidate, self.graphs, (inner.seed, k), fold,
                     snapshots=inner.report_epochs(run.config.epochs))
            for run in group
        ]  # fmt: skip
        seen = encoders[0].graphs  # scaled by the fold's training graphs alone
        trained: dict[_Trial, GraphModel] = {}

        def on_epoch(of: Sequence[int], epoch: int, losses: Sequence[float]) -> None:
            for run in (group[n] for n in of):
                share = (k + epoch / run.config.epochs) / n_folds
                scoring.progress(run.candidate.number, share)

        def on_snapshot(epoch: int, models: Mapping[int, GraphModel]) -> list[int]:
            of_runs = {group[n]: model for n, model in models.items()}
            for run, accuracy in self._score(of_runs, seen, scoring, fold).items():
                run.intermediate(scoring, epoch, accuracy)
            return [n for n in models if not group[n].goes_on]

        try:
            for result in train_encoders(
                encoders, self.graphs, size=context.options.ensemble_size, on_epoch=on_epoch,
                see=on_snapshot,
            ):  # fmt: skip
                run = group[result.number]
                if isinstance(result.trained, TrainedEncoder):
                    trained[run] = result.trained.model
                else:
                    run.error = run.error or result.trained
        except Exception as error:
            # The user's own encoder may raise anything; settings cause only these two.
            own = group[0].candidate.make is not None
            if not own and not isinstance(error, OutOfMemory | InputError):
                raise
            for run in group:
                run.error = run.error or (None if run in trained else error)
        done = {run: model for run, model in trained.items() if run.goes_on}
        for run, accuracy in self._score(done, seen, scoring, fold).items():
            run.accuracies.append(accuracy)

    def _score(
        self,
        models: Mapping[_Trial, GraphModel],
        graphs: GraphSet,
        scoring: Scoring,
        fold: Fold | None,
    ) -> dict[_Trial, float]:
        """Accuracies in percent; a model without finite embeddings has failed."""
        from gcl_hard.experiments.protocols import embeddings

        embedded: dict[_Trial, NDArray[np.float64]] = {}
        context, seed = scoring.context, scoring.inner.seed
        for run, model in models.items():
            try:
                embedded[run] = embeddings(model, graphs, run.config, seed)
            except DivergenceError as error:
                run.error = error

        def score(run: _Trial) -> float:
            return accuracy_of(embedded[run], run.config, self.graphs, seed, fold)

        with ThreadPoolExecutor(context.threads or context.cores) as pool:
            return dict(zip(embedded, pool.map(score, embedded), strict=True))


class GraphOuter:
    """Graphs cut in two: a part to search in, and a part to score the best settings on.

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

    def score(
        self,
        candidate: Candidate,
        seed: int,
        context: RunContext,
        progress: Callable[[float], None] = lambda share: None,
    ) -> float | None:
        """Train on all graphs of the part, C of the SVM chosen inside it; score on the others.

        Args:
            candidate: the settings.
            seed: of the encoder.
            context: where and how.
            progress: called with the share of the training that is done.

        Returns:
            Accuracy in percent; None without other graphs.

        Raises:
            DivergenceError: if a loss or an embedding is not finite.
            OutOfMemory: if the device's memory does not hold a batch.
            OwnError: if the user's own encoder raises anything.
        """
        if self._fold is None:
            return None
        from gcl_hard.experiments.ensembles import train_encoders
        from gcl_hard.experiments.graphs import use_threads
        from gcl_hard.experiments.protocols import embeddings

        train_ids = torch.from_numpy(self._fold.train)
        graphs, part = self._graphs.standardised_on(train_ids), self.part.graphs
        if graphs is not self._graphs:
            part = graphs.take(train_ids)
        # The part by itself, as in the trials: an epoch has as many steps as theirs.
        encoder = _encoder(candidate, part, (seed, 0), None)
        config = cast("GraphConfig", candidate.config)
        use_threads(context, part, config)

        def on_epoch(of: Sequence[int], epoch: int, losses: Sequence[float]) -> None:
            progress(epoch / config.epochs)

        try:
            (result,) = train_encoders([encoder], part, on_epoch=on_epoch)
        except Exception as error:
            if candidate.make is None:
                raise
            raise OwnError(f"{type(error).__name__}: {error}") from error
        if isinstance(result.trained, DivergenceError):
            raise result.trained
        z = embeddings(result.trained.model, graphs, config, seed)
        return accuracy_of(z, config, graphs, seed, self._fold)


def _groups(runs: Sequence[_Trial]) -> list[list[_Trial]]:
    """Candidates that can be one ensemble."""
    groups: dict[object, list[_Trial]] = {}
    for run in runs:
        key = run.config.group_key if run.candidate.make is None else None
        groups.setdefault(run if key is None else key, []).append(run)
    return list(groups.values())


def cut_graphs(graphs: GraphSet, n_folds: int, seed: int) -> list[Fold]:
    """The outer parts of a search.

    Args:
        graphs: the whole set.
        n_folds: 1 for a stratified hold-out of 30 %, else of a stratified cross-validation.
        seed: of the split.

    Raises:
        InputError: for a class that is too small.
    """
    labels = graphs.y.cpu().numpy()
    if n_folds == 1:
        ids = np.arange(len(labels))
        return [inner_holdout(ids, labels, seed=seed, fraction=OUTER_SHARE)]
    return outer_folds(labels, seed=seed, n_folds=n_folds)


def _encoder(
    candidate: Candidate,
    graphs: GraphSet,
    seeds: tuple[int, int],
    fold: Fold | None,
    *,
    snapshots: Sequence[int] = (),
) -> Encoder:
    """A candidate's encoder; with a fold it sees that fold's training graphs alone."""
    from gcl_hard.experiments.ensembles import Encoder

    config, (seed, k) = cast("GraphConfig", candidate.config), seeds
    if fold is None:
        return Encoder(config, graphs, seed, k, make=candidate.make, snapshots=snapshots)
    return Encoder.of_fold(config, graphs, seed, k, fold, make=candidate.make, snapshots=snapshots)


def accuracy_of(
    z: NDArray[np.float64], config: GraphConfig, graphs: GraphSet, seed: int, fold: Fold | None
) -> float:
    """Accuracy of the SVM in percent, on a fold's test part or by the cross-validation.

    Args:
        z: float64 [G, d], embeddings of all graphs.
        config: the settings.
        graphs: the set.
        seed: of the folds inside.
        fold: to train and test the SVM on; None for the cross-validation of the configuration.
    """
    from gcl_hard.experiments.protocols import score_embeddings

    scores = score_embeddings(config, graphs, [z], None if fold is None else [fold], seed=seed)
    return _percent(scores)


def _percent(scores: Sequence[FoldScore]) -> float:
    return 100 * float(np.mean([score.accuracy for score in scores]))


# Images


class _Pruned(Exception):  # noqa: N818
    """Ends the training of a trial."""


class ImagePart:
    """Training images, a fifth of them at a time in the place of the test images.

    Args:
        data: the images; their test images are not kept.
        inner: seed and number of hold-outs, each drawn anew.
    """

    def __init__(self, data: ImageData, inner: Inner) -> None:
        seeds = [inner.seed, *(seed_for(inner.seed, k) % 2**32 for k in range(1, inner.folds))]
        self.folds = [data.held_out(seed) for seed in seeds]
        labels = data.probe.labels.cpu().numpy()
        held = [inner_holdout(np.arange(len(labels)), labels, seed=seed).test for seed in seeds]
        self._n_held = len(np.unique(np.concatenate(held)))

    def n_scored(self, inner: Inner) -> int:
        """Images that an inner score is over; those of several hold-outs once."""
        return self._n_held

    def scores(self, candidates: Sequence[Candidate], scoring: Scoring) -> Iterator[Score]:
        """Inner scores, one candidate after the other: a network fills a device by itself."""
        for candidate in candidates:
            try:
                accuracies = self._accuracies(candidate, scoring)
            except _Pruned:
                yield Score(candidate.number, None)
            except (DivergenceError, OutOfMemory) as error:
                yield Score(candidate.number, None, error)
            else:
                yield Score(candidate.number, float(np.mean(accuracies)))

    def _accuracies(self, candidate: Candidate, scoring: Scoring) -> list[float]:
        number, n, inner = candidate.number, len(self.folds), scoring.inner
        epochs, found = inner.report_epochs(candidate.config.epochs), list[float]()

        def intermediate(step: int, accuracy: float) -> None:
            if not scoring.intermediate(number, step, accuracy):
                raise _Pruned

        for k, data in enumerate(self.folds):

            def progress(share: float, k: int = k) -> None:
                scoring.progress(number, (k + share) / n)

            def on_epoch_end(epoch: int, score: Callable[[], FoldScore]) -> None:
                if epoch in epochs:
                    intermediate(epoch, _percent([score()]))

            found.append(_image_accuracy(
                candidate, data, inner.seed, scoring.context, progress, on_epoch_end=on_epoch_end
            ))  # fmt: skip
            if inner.steps == "folds":
                intermediate(k, found[-1])
        return found


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

    def score(
        self,
        candidate: Candidate,
        seed: int,
        context: RunContext,
        progress: Callable[[float], None] = lambda share: None,
    ) -> float:
        """Train on all training images, score on the test images; as of :class:`GraphOuter`."""
        return _image_accuracy(candidate, self._data, seed, context, progress)


def _image_accuracy(
    candidate: Candidate,
    data: ImageData,
    seed: int,
    context: RunContext,
    progress: Callable[[float], None],
    *,
    on_epoch_end: Callable[[int, Callable[[], FoldScore]], None] | None = None,
) -> float:
    """Train and probe, in percent."""
    from gcl_hard.experiments.images import score_run, train_run

    def report(run: Run, share: float, loss: float) -> bool:
        progress(share)
        return True

    hardware.use_threads(context.threads or context.cores, 0, 0)
    run = Run(candidate.config, seed)
    with tempfile.TemporaryDirectory() as folder:
        context = replace(context, output=Path(folder))
        return _percent([score_run(train_run(run, data, context, report, on_epoch_end), data)])


# Encoders of the user's own


def check_encoder(base: Base, space: Space) -> None:
    """Check that an encoder of the user's own can be searched.

    Args:
        base: with an encoder.
        space: fitted to it.

    Raises:
        InputError: for images, an encoder that is no maker of one, settings that it does not
            take, or settings of the GIN.
    """
    make = base.make
    assert make is not None
    if base.config.domain == "images":
        raise InputError("an encoder of your own can be searched on graphs only: leave it out")
    if isinstance(make, nn.Module) or not callable(make):
        raise InputError(
            f"encoder is called as encoder(n_features, **searched) for every trial, so give the "
            f"class or a function, got {make!r}"[:300]
        )
    usual = defaults(base.kind)
    named = [dimension.name for dimension in space.dimensions]
    named += [name for name, value in base.settings.items() if value != usual.get(name)]
    for name in OF_GIN:
        if name in named:
            raise InputError(
                f"{name} is a setting of the GIN, which your encoder replaces: give yours a "
                f"setting of its own, and search it as encoder.NAME"
            )
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):  # of C code
        return
    parameters = signature.parameters.values()
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    for name in space.of_encoder:
        if name not in signature.parameters and not anything:
            raise unknown("setting of the encoder", name, signature.parameters)
    try:
        signature.bind(1, **dict.fromkeys(space.of_encoder))
    except TypeError as error:
        raise InputError(
            f"encoder is called as encoder(n_features, **searched), and cannot be: {error}; give "
            f"its other arguments defaults, or search them as encoder.NAME"
        ) from error


def check_output(base: Base, space: Space, graphs: GraphSet) -> None:
    """Encode two graphs, with the first values of what is searched.

    Args:
        base: with an encoder of the user's own.
        space: fitted to it.
        graphs: the set, on the CPU.

    Raises:
        InputError: if the encoder has no width or gives another shape.
    """
    from gcl_hard.graphs import InfoGraph

    assert base.make is not None
    first = {name: dimension.ends[0] for name, dimension in space.of_encoder.items()}
    with torch.random.fork_rng(devices=[]):
        model = InfoGraph(base.make(graphs.n_features, **first), method="ucl")
        model.embed(graphs.batch(torch.arange(2)))


Outer = GraphOuter | ImageOuter
"""A data set cut in two."""

# Objectives, and the tasks that score trials: these run in this process, or in a Dask worker.


@dataclass(frozen=True)
class Objective:
    """What the studies of a search score trials on; small enough to travel to other processes.

    Attributes:
        config: settings that are not searched; its ``dataset`` is spelt canonically.
        inner: how trials are scored.
        outer_folds: outer parts, a study each; 1 is a hold-out.
        digest: of the data.
    """

    config: RunConfig
    inner: Inner
    outer_folds: int
    digest: str

    def load(self, context: RunContext, graphs: GraphSet | None) -> tuple[Outer, ...]:
        """The outer parts; loaded and cut once in a process.

        Args:
            context: names the folder of the data and the device.
            graphs: the user's own set, in the place of a named one.

        Raises:
            InputError: if the data cannot be had or cut, or differ from those of the driver.
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
        if isinstance(config, ImageConfig) or config.protocol == "transductive":
            inner = isinstance(config, ImageConfig)
            experiment_of(config).check(config, data, inner=inner, device=device)
        if isinstance(config, ImageConfig):
            yield ImageOuter(data, self.inner)
        elif config.protocol == "transductive":
            yield GraphOuter(data, None)
        else:
            for fold in cut_graphs(data, self.outer_folds, self.inner.seed):
                yield GraphOuter(data, fold)


_CUT: dict[tuple[Objective, Path | None, str], tuple[GraphSet | None, tuple[Outer, ...]]] = {}
"""The outer parts of the latest search in this process, with the user's own graphs."""


def own_graphs(graphs: GraphSet, *, report: Callable[..., bool]) -> GraphSet:
    """Task: keep the user's own graphs where trials are scored."""
    return graphs


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
        context: where and how.
        objective: of the search.
        study: number of the study, whose outer part is searched in.
        graphs: the user's own, or None.
        candidates: settings of the trials.
        report: see :class:`Scoring`.
    """
    scoring = Scoring(context, objective.inner, study, report)
    wanted = [one for one in candidates if scoring.begin(one.number)]
    if wanted:
        part = objective.load(context, graphs)[study].part
        for score in part.scores(wanted, scoring):
            scoring.scored(score)


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
        Accuracy in percent; a sentence if the settings failed; None without an outer test part.
    """

    def progress(share: float) -> None:
        if not report("outside", study, candidate.number, share):
            raise KeyboardInterrupt

    outer = objective.load(context, graphs)[study]
    try:
        return outer.score(candidate, objective.inner.seed, context, progress)
    except (DivergenceError, OutOfMemory, OwnError) as error:
        return f"on the whole part its settings failed: {error}"
