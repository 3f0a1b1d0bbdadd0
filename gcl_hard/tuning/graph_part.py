"""Graphs to search in, and graphs that the best settings are scored on once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.errors import DivergenceError, InputError, OutOfMemory
from gcl_hard.evaluation import Fold, inner_holdout, outer_folds, svm_cross_validation, svm_fold
from gcl_hard.evaluation.nested import inner_folds
from gcl_hard.experiments import hardware, protocols
from gcl_hard.experiments.baselines import probe_of
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.ensembles import Encoder, Trained, train_encoders
from gcl_hard.graphs import GraphSet
from gcl_hard.graphs.models import GraphModel
from gcl_hard.tuning.part import Candidate, Inner, Local, Maker, OwnError, Score, Watch

OUTER_SHARE = 0.3
"""Of the graphs, held out of a search that is one study."""


@dataclass(eq=False)
class _Run:
    """A candidate on its way through the inner folds."""

    candidate: Candidate
    cell: GraphConfig
    accuracies: list[float] = field(default_factory=list)
    error: Exception | None = None
    left: bool = False

    @property
    def goes_on(self) -> bool:
        return self.error is None and not self.left

    def told(self, watch: Watch, step: int, accuracy: float) -> None:
        self.left = not watch.report(self.candidate.number, step, accuracy)

    def score(self) -> Score:
        mean = float(np.mean(self.accuracies)) if self.goes_on else None
        return Score(self.candidate.number, mean, self.error)


class GraphPart:
    """Graphs that a search may see, whole; methods as in ``Part``.

    Args:
        graphs: on the device to train on.
        local: the machine.
        make: makes an encoder of the user's own.
        on_test_folds: whether scores are those of the protocol ``paper``: encoders see all
            graphs, and accuracy is that of the test folds of its cross-validation.
    """

    def __init__(
        self,
        graphs: GraphSet,
        local: Local,
        *,
        make: Maker | None = None,
        on_test_folds: bool = False,
    ) -> None:
        self.graphs, self._local, self._make = graphs, local, make
        self._on_test_folds = on_test_folds

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

    def scores(
        self, candidates: Sequence[Candidate], inner: Inner, watch: Watch
    ) -> Iterator[Score]:
        """Train candidates side by side, fold after fold."""
        runs = [_Run(one, cast("GraphConfig", one.cell)) for one in candidates]
        folds = [None] if self._on_test_folds else inner.split(self.labels)
        for k, fold in enumerate(folds):
            last = k == len(folds) - 1
            for group in self._groups([run for run in runs if run.goes_on]):
                self._train(group, inner, (k, len(folds)), fold, watch)
                for run in group:
                    if inner.steps == "folds" and run.goes_on:
                        run.told(watch, k, run.accuracies[-1])
                    if last or not run.goes_on:
                        yield run.score()

    def _groups(self, runs: Sequence[_Run]) -> list[list[_Run]]:
        """Those together that can share their steps."""
        groups: dict[object, list[_Run]] = {}
        for run in runs:
            shared = run.cell.group_key if self._make is None else None
            groups.setdefault(run if shared is None else shared, []).append(run)
        return list(groups.values())

    def _train(
        self,
        group: list[_Run],
        inner: Inner,
        place: tuple[int, int],
        fold: Fold | None,
        watch: Watch,
    ) -> None:
        """Train one fold of candidates and score it."""
        use_threads(self._local, self.graphs, group[0].cell)
        k, n_folds = place
        encoders = [
            encoder_of(run.candidate, self.graphs, self._make, (inner.seed, k), fold,
                       snapshots=inner.looks(run.cell.epochs))
            for run in group
        ]  # fmt: skip
        seen = encoders[0].graphs  # scaled by the fold's training graphs alone
        trained: dict[_Run, GraphModel] = {}

        def told(of: Sequence[int], epoch: int, losses: Sequence[float]) -> None:
            for run in (group[n] for n in of):
                watch.progress(run.candidate.number, (k + epoch / run.cell.epochs) / n_folds)

        def see(epoch: int, models: Mapping[int, GraphModel]) -> list[int]:
            looked = {group[n]: model for n, model in models.items()}
            for run, accuracy in self._score(looked, seen, inner.seed, fold).items():
                run.told(watch, epoch, accuracy)
            return [n for n in models if not group[n].goes_on]

        try:
            for result in train_encoders(
                encoders, self.graphs, size=self._local.members, on_epoch=told, see=see
            ):
                run = group[result.number]
                if isinstance(result.trained, Trained):
                    trained[run] = result.trained.model
                else:
                    run.error = run.error or result.trained
        except Exception as error:
            # Anything may come of an encoder of the user's own; of ours, what settings can cause.
            if self._make is None and not isinstance(error, OutOfMemory | InputError):
                raise
            for run in group:
                run.error = run.error or (None if run in trained else error)
        done = {run: model for run, model in trained.items() if run.goes_on}
        for run, accuracy in self._score(done, seen, inner.seed, fold).items():
            run.accuracies.append(accuracy)

    def _score(
        self, models: Mapping[_Run, GraphModel], graphs: GraphSet, seed: int, fold: Fold | None
    ) -> dict[_Run, float]:
        """Accuracies in percent; a model without finite embeddings has failed."""
        embedded: dict[_Run, NDArray[np.float64]] = {}
        for run, model in models.items():
            try:
                embedded[run] = protocols.embeddings(model, graphs, run.cell, seed)
            except DivergenceError as error:
                run.error = error
        score = partial(accuracy_of, graphs=self.graphs, seed=seed, fold=fold)
        with ThreadPoolExecutor(self._local.threads or self._local.cores) as pool:
            cells = [run.cell for run in embedded]
            return dict(zip(embedded, pool.map(score, embedded.values(), cells), strict=True))


class GraphOuter:
    """Graphs cut in two; methods as in ``Outer``.

    Args:
        graphs: the whole set, on the device to train on.
        fold: the graphs to search in, and those to score on.
        local: the machine.
        make: makes an encoder of the user's own.
    """

    def __init__(
        self, graphs: GraphSet, fold: Fold, local: Local, make: Maker | None = None
    ) -> None:
        self._graphs, self._fold, self._local, self._make = graphs, fold, local, make
        self.part = GraphPart(graphs.take(torch.from_numpy(fold.train)), local, make=make)
        self.n_test = len(fold.test)

    def score(self, candidate: Candidate, seed: int) -> float:
        """Train on all graphs of the part, C of the SVM chosen inside it; score on the others."""
        train_ids = torch.from_numpy(self._fold.train)
        graphs, part = self._graphs.standardised_on(train_ids), self.part.graphs
        if graphs is not self._graphs:
            part = graphs.take(train_ids)
        # The part by itself, as in the trials: an epoch has as many steps as theirs.
        encoder = encoder_of(candidate, part, self._make, (seed, 0), None)
        use_threads(self._local, part, encoder.cell)
        try:
            (result,) = train_encoders([encoder], part)
        except Exception as error:
            if self._make is None:
                raise
            raise OwnError(f"{type(error).__name__}: {error}") from error
        if isinstance(result.trained, DivergenceError):
            raise result.trained
        z = protocols.embeddings(result.trained.model, graphs, encoder.cell, seed)
        return accuracy_of(z, encoder.cell, graphs, seed=seed, fold=self._fold)


class GraphPaper:
    """All graphs, for settings chosen on the test folds as the paper does; as in ``Outer``."""

    def __init__(self, graphs: GraphSet, local: Local, make: Maker | None = None) -> None:
        self.part = GraphPart(graphs, local, make=make, on_test_folds=True)
        self.n_test = 0

    def score(self, candidate: Candidate, seed: int) -> None:
        """Nothing is left to score on."""


def use_threads(local: Local, graphs: GraphSet, cell: GraphConfig) -> None:
    """As many as pay for one trial: the same whatever is beside it, so that its score is too."""
    nodes = graphs.n_nodes / graphs.n_graphs * min(cell.batch_size, graphs.n_graphs)
    hardware.use_threads(local.threads, nodes, cell.dim * cell.layers, local.cores)


def cut(graphs: GraphSet, n_folds: int, seed: int) -> list[Fold]:
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


def encoder_of(
    candidate: Candidate,
    graphs: GraphSet,
    make: Maker | None,
    seeds: tuple[int, int],
    fold: Fold | None,
    *,
    snapshots: Sequence[int] = (),
) -> Encoder:
    """A candidate's encoder; with a fold it sees that fold's training graphs alone.

    Args:
        candidate: the settings.
        graphs: with everything that the fold names.
        make: makes an encoder of the user's own.
        seeds: of the weights: a seed and a number beside it.
        fold: what it is trained on, None for all graphs.
        snapshots: epochs after which it is seen.
    """
    cell, (seed, k) = cast("GraphConfig", candidate.cell), seeds
    own = None if make is None else partial(make, **candidate.encoder)
    if fold is None:
        return Encoder(cell, graphs, seed, k, make=own, snapshots=snapshots)
    return Encoder.of_fold(cell, graphs, seed, k, fold, make=own, snapshots=snapshots)


def accuracy_of(
    z: NDArray[np.float64], cell: GraphConfig, graphs: GraphSet, *, seed: int, fold: Fold | None
) -> float:
    """Accuracy in percent of an SVM: on a fold's test part, or by the cell's cross-validation."""
    labels = graphs.y.cpu().numpy()
    how: Any = {"standardise": cell.standardise, "seed": seed, **probe_of(cell, graphs)}
    if fold is None:
        return 100 * svm_cross_validation(z, labels, n_folds=cell.folds, **how).accuracy
    return 100 * svm_fold(z, labels, fold, **how).accuracy
