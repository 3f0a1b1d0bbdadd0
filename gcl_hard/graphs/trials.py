"""The trials of a search on graphs: the outer-training graphs, and the splits inside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.errors import DivergenceError, InputError, OutOfMemory
from gcl_hard.evaluation import Fold
from gcl_hard.evaluation.folds import inner_folds
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.record import Scored
from gcl_hard.experiments.trials import Candidate, Inner, Part, Score, Scoring, Trial, split
from gcl_hard.graphs import GraphSet, protocols, training
from gcl_hard.graphs.experiment import GraphExperiment
from gcl_hard.graphs.models import GraphModel
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.training import Encoder, TrainedEncoder, use_threads

OUTER_SHARE = 0.3
"""Share of the graphs that is held out of a search with one study."""


def outer_parts(
    config: GraphConfig, data: GraphSet, context: RunContext, inner: Inner, n_folds: int
) -> Sequence[GraphOuter]:
    """A hold-out or folds of the graphs; under the protocol ``transductive`` none is held out."""
    data = data.to(torch.device(context.device))
    protocols.check_classes(data)
    if config.protocol == "transductive":
        GraphExperiment().check(config, data, context, inner=False)
        return (GraphOuter(data, None),)
    return [GraphOuter(data, fold) for fold in cut_graphs(data, n_folds, inner.seed)]


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

    def name(self, inner: Inner) -> str:
        """What scores trials, in words."""
        if self._on_test_folds:
            return "the test folds"
        return super().name(inner) if inner.folds == 1 else f"{inner.folds} folds"

    def _train(self, trials: list[Trial], k: int, fold: Fold | None) -> None:
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
    trials: Sequence[Trial],
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
    context = trials[0].scoring.context
    use_threads(context, graphs, trials[0].config)
    trained: dict[Trial, GraphModel] = {}

    def on_epoch(of: Sequence[int], epoch: int, losses: Sequence[float]) -> None:
        for trial in (trials[n] for n in of):
            trial.progress(epoch / trial.config.epochs)

    def on_snapshot(epoch: int, models: Mapping[int, GraphModel]) -> list[int]:
        seen = {trials[n]: model for n, model in models.items()}
        for trial, value in _values(seen, embedded, fold).items():
            trial.intermediate(epoch, value)
        return [n for n in models if not trials[n].goes_on]

    try:
        for result in training.train_encoders(
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
    for trial, value in _values(done, embedded, fold).items():
        trial.values.append(value)


def _values(
    models: Mapping[Trial, GraphModel], graphs: GraphSet, fold: Fold | None
) -> dict[Trial, float]:
    """The metric of what the SVM predicts; a model without finite embeddings has failed."""
    found: dict[Trial, NDArray[np.float64]] = {}
    for trial, model in models.items():
        try:
            found[trial] = protocols.embeddings(
                model, graphs, trial.config, trial.scoring.inner.seed
            )
        except DivergenceError as error:
            trial.error = error
    if not found:
        return {}

    def score(trial: Trial) -> float:
        return value_of(found[trial], trial.config, graphs, trial.scoring.inner, fold)

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
        assert self._fold is not None
        train_ids = torch.from_numpy(self._fold.train)
        graphs, part = self._graphs.standardised_on(train_ids), self.part.graphs
        if graphs is not self._graphs:
            part = graphs.take(train_ids)
        trial = Trial(candidate, scoring)
        # The part by itself, as in the trials: an epoch has as many steps as theirs.
        encoder = Encoder(trial.config, part, scoring.inner.seed, parts=candidate.parts)
        _train_graphs([trial], [encoder], part, graphs, self._fold)
        return trial.score()

    def name(self, n_folds: int) -> str:
        """What scores the best settings, in words."""
        if self._fold is None:
            return "nothing"
        return "a hold-out of 30 %" if n_folds == 1 else f"{n_folds} folds"


def cut_graphs(graphs: GraphSet, n_folds: int, seed: int) -> list[Fold]:
    """The outer parts of a search.

    Args:
        graphs: the whole set.
        n_folds: 1 for a stratified hold-out of 30 %, else of a stratified cross-validation.
        seed: seed of the split.

    Raises:
        InputError: for a class that is too small.
    """
    return split(graphs.y.cpu().numpy(), n_folds, seed, OUTER_SHARE)


def value_of(
    z: NDArray[np.float64], config: GraphConfig, graphs: GraphSet, inner: Inner, fold: Fold | None
) -> float:
    """The metric of what the SVM predicts of a fold's test part, or in the cross-validation.

    Args:
        z: float64 [G, d], embeddings of all graphs.
        config: the settings.
        graphs: the set.
        inner: names the metric, and the seed of the folds inside.
        fold: fold for the SVM; None for the cross-validation of the configuration.
    """
    folds = None if fold is None else [fold]
    scores = protocols.score_embeddings(config, graphs, [z], folds, seed=inner.seed)
    return inner.value(Scored.of(scores, graphs.y.cpu().numpy()))
