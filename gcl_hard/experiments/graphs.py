"""Experiments on graphs: TU data sets, GIN or another encoder, the nested SVM."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import DivergenceError
from gcl_hard.evaluation import Fold, FoldScore, svm_cross_validation, svm_fold
from gcl_hard.evaluation.nested import cross_validate, inner_folds
from gcl_hard.experiments import baselines, hardware
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.diagnostics import (
    SALT,
    Batch,
    DiagnosticsCallback,
    Sample,
    Sampler,
    finite,
    snapshot_epochs,
)
from gcl_hard.experiments.ensembles import Encoder, Result, train_encoders
from gcl_hard.experiments.experiment import Clock, Report, RunContext, TrainedRun
from gcl_hard.experiments.protocols import embeddings, folds_of
from gcl_hard.experiments.runs import Run
from gcl_hard.graphs import GraphSet, InfoGraph, Supervised, TwoView, tudataset
from gcl_hard.graphs.data import GraphBatch
from gcl_hard.graphs.models import GraphContrast, GraphModel, encode
from gcl_hard.images.batching import ClassPairs
from gcl_hard.models import evaluating
from gcl_hard.seeds import seed_for, seeded

T = TypeVar("T")


class GraphExperiment:
    """Experiments on graphs; methods as in ``Experiment``."""

    def load(self, config: GraphConfig, context: RunContext) -> GraphSet:
        """The set, on the device."""
        from gcl_hard.graphs.encodings import encoded  # it imports NetworkX

        graphs = tudataset.load(config.dataset, data_dir=context.data_dir, features=config.features)
        return encoded(graphs, config.encodings or ()).to(torch.device(context.device))

    def facts(self, data: GraphSet) -> dict[str, Any]:
        """Sizes, the resolved kind of features, and a digest of the graphs themselves."""
        return graph_facts(data)

    def size(self, data: GraphSet) -> tuple[int, int]:
        """Nodes and graphs."""
        return data.n_nodes, data.n_graphs

    def check(
        self, config: GraphConfig, data: GraphSet, *, inner: bool, device: torch.device
    ) -> None:
        """Refuse a set with a class that has no members in some fold."""
        labels = data.y.cpu().numpy()
        for fold in folds_of(config, labels, seed=0, inner=inner):
            inner_folds(labels[fold.train], n_inner=5, seed=0)

    def train(
        self, runs: Sequence[Run], data: GraphSet, context: RunContext, report: Report
    ) -> Iterator[TrainedRun]:
        """Train encoders, of several runs as ensembles; embed the graphs."""
        config = cast("GraphConfig", runs[0].config)
        use_threads(context, data, config)
        if config.encoders:
            yield from _train_encoders(runs, data, context, report)
            return
        for run in runs:
            yield _untrained(run, data, context)

    def score(
        self, trained: TrainedRun, data: GraphSet, context: RunContext
    ) -> tuple[FoldScore, ...]:
        """Scores of the outer folds by the nested SVM."""
        run, config = trained.run, cast("GraphConfig", trained.run.config)
        folds = folds_of(config, data.y.cpu().numpy(), run.seed, inner=run.inner)
        own = len(trained.embeddings) > 1 or config.train_share < 1 or run.inner
        return score_embeddings(
            config, data, trained.embeddings, folds if own else None,
            seed=run.seed, n_jobs=context.threads or context.cores,
        )  # fmt: skip


def use_threads(context: RunContext, graphs: GraphSet, config: GraphConfig) -> None:
    """Set the threads of this process for the training of a configuration."""
    nodes = graphs.n_nodes / graphs.n_graphs * min(config.batch_size, graphs.n_graphs)
    hardware.use_threads(context.threads, nodes, config.dim * config.layers, context.cores)


def graph_facts(graphs: GraphSet) -> dict[str, Any]:
    """Sizes, the resolved kind of features, and a digest of the graphs themselves."""
    digest = hashlib.sha256()
    for tensor in (graphs.x, graphs.edge_index, graphs.y, graphs.node_ptr):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return {
        "n_graphs": graphs.n_graphs,
        "n_classes": graphs.n_classes,
        "n_features": graphs.n_features,
        "features": graphs.features,
        "digest": digest.hexdigest()[:16],
    }


def score_embeddings(
    config: GraphConfig,
    graphs: GraphSet,
    z: Sequence[NDArray[np.float64]],
    folds: Sequence[Fold] | None,
    *,
    seed: int,
    n_jobs: int = 1,
) -> tuple[FoldScore, ...]:
    """Score embeddings of graphs by the SVM of a configuration.

    Args:
        config: the settings.
        graphs: all that are embedded.
        z: float64 [G, d], one for each fold, or one for all.
        folds: to score on; None for the cross-validation of the configuration.
        seed: of the folds and of those inside them.
        n_jobs: folds scored at a time.

    Returns:
        One score a fold.
    """
    labels = graphs.y.cpu().numpy()
    how: Any = {"standardise": config.standardise, "seed": seed}
    how |= baselines.probe_of(config, graphs)
    if folds is None:
        return svm_cross_validation(z[0], labels, n_folds=config.folds, n_jobs=n_jobs, **how).folds
    of_fold = {id(fold): z[min(k, len(z) - 1)] for k, fold in enumerate(folds)}

    def one(fold: Fold) -> FoldScore:
        return svm_fold(of_fold[id(fold)], labels, fold, **how)

    return cross_validate(one, folds, n_jobs=n_jobs).folds


def _untrained(run: Run, graphs: GraphSet, context: RunContext) -> TrainedRun:
    """A run of a baseline that trains no encoder."""
    config = cast("GraphConfig", run.config)
    clock = Clock()
    if config.method == "untrained":
        model = Encoder(config, graphs, run.seed).build()
        clock.train()
        z = embeddings(model, graphs, config, run.seed)
        clock.evaluate()
        return TrainedRun(run, (), clock.seconds_train, clock.seconds_eval, embeddings=(z,))
    folds = folds_of(config, graphs.y.cpu().numpy(), run.seed, inner=run.inner)
    n_jobs = context.threads or context.cores
    scores = baselines.score(config, graphs, folds, seed=run.seed, n_jobs=n_jobs)
    clock.evaluate()
    return TrainedRun(run, (), 0.0, clock.seconds_eval, scores=scores)


@dataclass(eq=False)
class _InTraining:
    """Runs in training that differ in how their encoders are scored alone."""

    run: Run
    config: GraphConfig
    folds: list[Fold] | None
    runs: list[Run]
    embeddings: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    scores: dict[int, FoldScore] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)
    left: int = 1
    error: DivergenceError | None = None
    seconds_train: float = 0.0
    seconds_eval: float = 0.0
    diagnostics: DiagnosticsCallback[GraphModel] | None = None

    def trained(self, run: Run) -> TrainedRun:
        """One of the runs, all encoders of which are trained."""
        if self.error is not None:
            return TrainedRun(run, error=self.error)
        scores = _in_order(self.scores)
        found = TrainedRun(
            run, _in_order(self.losses), self.seconds_train, self.seconds_eval,
            embeddings=_in_order(self.embeddings), scores=scores or None,
        )  # fmt: skip
        if (diagnostics := self.diagnostics) is not None:
            found.snapshots = tuple(diagnostics.snapshots)
            found.seconds_diagnostics = diagnostics.seconds
            found.points = diagnostics.points
        return found


def _train_encoders(
    runs: Sequence[Run], graphs: GraphSet, context: RunContext, report: Report
) -> Iterator[TrainedRun]:
    """Train the encoders of several runs; yields a run as its last encoder ends."""
    labels = graphs.y.cpu().numpy()
    every = context.options.diagnostics
    parts: list[_InTraining] = []
    encoders: list[Encoder] = []
    owner: list[tuple[_InTraining, int]] = []
    alike: dict[Run, _InTraining] = {}
    for run in runs:
        if (known := alike.get(run.training)) is not None:
            known.runs.append(run)
            continue
        config = cast("GraphConfig", run.config)
        folds = folds_of(config, labels, run.seed, inner=run.inner)
        own = config.encoders == config.folds
        part = _InTraining(run, config, folds if own else None, [run], left=config.encoders)
        alike[run.training] = part
        parts.append(part)
        measured = bool(every) and not run.inner and not config.is_baseline
        epochs = snapshot_epochs(every, config.epochs) if measured else ()
        first = len(encoders)
        for k, fold in enumerate(folds if own else folds[:1]):
            snapshots = epochs if k == 0 else ()
            encoders.append(
                Encoder.of_fold(config, graphs, run.seed, k, fold, snapshots=snapshots)
                if own
                else Encoder(config, graphs, run.seed, snapshots=snapshots)
            )
            owner.append((part, k))
        if measured:
            make = partial(graph_sampler, config, encoders[first].graphs, encoders[first].held_out)
            part.diagnostics = DiagnosticsCallback(config.epochs, every, make)

    def on_epoch(of: Sequence[int], epoch: int, losses: Sequence[float]) -> None:
        means: dict[_InTraining, list[float]] = {}
        for number, loss in zip(of, losses, strict=True):
            part, k = owner[number]
            part.shares[k] = epoch / part.config.epochs
            means.setdefault(part, []).append(loss)
        for part, several in means.items():
            share = sum(part.shares.values()) / part.config.encoders
            for run in part.runs:
                if not report(run, share, sum(several) / len(several)):
                    raise KeyboardInterrupt

    def on_snapshot(epoch: int, models: Mapping[int, GraphModel]) -> tuple[int, ...]:
        for number, model in models.items():
            diagnostics = owner[number][0].diagnostics
            assert diagnostics is not None
            assert isinstance(model, GraphContrast)
            diagnostics(epoch, model, model.loss.sampler.current)
        return ()

    size = context.options.ensemble_size
    for result in train_encoders(encoders, graphs, size=size, on_epoch=on_epoch, see=on_snapshot):
        part, k = owner[result.number]
        _embed(part, k, encoders[result.number], result, labels)
        part.left -= 1
        if not part.left:
            yield from map(part.trained, part.runs)


def _embed(
    part: _InTraining, k: int, encoder: Encoder, result: Result, labels: NDArray[np.int64]
) -> None:
    """Keep the embeddings of a trained encoder; a supervised one is scored at once."""
    part.seconds_train += result.seconds
    trained, start = result.trained, time.perf_counter()
    if isinstance(trained, DivergenceError):
        part.error = part.error or trained
        return
    part.losses[k] = trained.loss
    if isinstance(trained.model, Supervised):
        assert part.folds is not None
        fold = part.folds[k]
        right = trained.model.predict(encoder.graphs.all()).cpu().numpy()[fold.test]
        accuracy = float((right == labels[fold.test]).mean())
        part.scores[k] = FoldScore(accuracy, None, len(fold.train), len(fold.test), None)
    else:
        try:
            z = embeddings(trained.model, encoder.graphs, part.config, part.run.seed)
        except DivergenceError as error:
            part.error = part.error or error
            return
        part.embeddings[k] = z
    part.seconds_eval += time.perf_counter() - start


def _in_order(by_fold: dict[int, T]) -> tuple[T, ...]:
    return tuple(by_fold[k] for k in sorted(by_fold))


ANCHORS = 256
"""Nodes of a snapshot, which on the smallest sets takes as long as an epoch with them."""
GRAPHS = 128
"""Graphs of a snapshot at least, in batches as large as in training."""


def graph_sampler(
    config: GraphConfig, graphs: GraphSet, held_out: Tensor | None
) -> Sampler[GraphModel]:
    """Sampler of batches drawn from the graphs that an encoder is trained on.

    Args:
        config: of the encoder; its ``data_seed`` decides what is drawn: all methods and seeds are
            measured on the same graphs, as far as they train on the same.
        graphs: the set as the encoder sees it.
        held_out: int64 ids of graphs that it does not see.

    Returns:
        A function from a model to a :class:`Sample`.
    """
    draws = seeded(config.data_seed, SALT)
    kept = torch.ones(graphs.n_graphs, dtype=torch.bool)
    if held_out is not None:
        kept[held_out] = False
    trained = kept.nonzero().flatten()
    size = min(config.batch_size, len(trained))
    n = min(max(1, GRAPHS // size), len(trained) // size)
    index = trained[torch.randperm(len(trained), generator=draws)[: n * size]]
    if config.contrast == "local-global":
        return _local_global(config, graphs, torch.split(index, size), draws)
    return _two_view(config, graphs, trained, torch.split(index, size), draws)


def _local_global(
    config: GraphConfig, graphs: GraphSet, parts: Sequence[Tensor], draws: torch.Generator
) -> Sampler[GraphModel]:
    batches = [graphs.batch(index) for index in parts]
    rows = [
        torch.randperm(len(batch.batch), generator=draws)[: ANCHORS // len(parts)].to(
            batch.x.device
        )
        for batch in batches
    ]

    def one(model: GraphModel, number: int) -> tuple[Batch, Tensor] | None:
        assert isinstance(model, InfoGraph)
        batch = batches[number]
        with evaluating(model):
            nodes, z = encode(model.encoder, batch, model.out_dim)
            nodes, heads = model.node_head(nodes), model.graph_head(z)
        if not finite(nodes, heads, z):
            return None
        return Batch.local_global(
            nodes, heads, batch.batch, batch.y, rows[number],
            temperature=model.loss.temperature, objective=model.loss.objective,
        ), z  # fmt: skip

    return _joined(one, batches, config)


def _two_view(
    config: GraphConfig,
    graphs: GraphSet,
    trained: Tensor,
    parts: Sequence[Tensor],
    draws: torch.Generator,
) -> Sampler[GraphModel]:
    """Views of each graph, and of another of its class: positives by augmentation and label."""
    places = torch.full((graphs.n_graphs,), -1)
    places[trained] = torch.arange(len(trained))
    of_class = ClassPairs(graphs.y.cpu()[trained])
    batches = [graphs.batch(index) for index in parts]
    partners = [graphs.batch(trained[of_class.draw(places[index], draws)]) for index in parts]
    device = graphs.x.device
    generator = torch.Generator(device).manual_seed(seed_for(config.data_seed, SALT, 1))
    views: list[tuple[GraphBatch, GraphBatch]] = []

    def one(model: GraphModel, number: int) -> tuple[Batch, Tensor] | None:
        assert isinstance(model, TwoView)
        if not views:
            views.extend(
                (model.view(own, generator), model.view(other, generator))
                for own, other in zip(batches, partners, strict=True)
            )
        batch = batches[number]
        with evaluating(model):
            z1, z2 = (model.project(view) for view in views[number])
        z = model.embed(batch)
        if not finite(z1, z2, z):
            return None
        return Batch.two_view(
            z1, z2, batch.y, temperature=model.loss.temperature, objective=model.loss.objective
        ), z

    return _joined(one, batches, config)


def _joined(
    one: Callable[[GraphModel, int], tuple[Batch, Tensor] | None],
    batches: Sequence[GraphBatch],
    config: GraphConfig,
) -> Sampler[GraphModel]:
    """A sampler of all batches, by what a model makes of one of them, by its number."""
    labels = torch.cat([batch.y for batch in batches])

    def sample(model: GraphModel) -> Sample | None:
        found = []
        for number in range(len(batches)):
            if (made := one(model, number)) is None:
                return None
            found.append(made)
        seen, z = zip(*found, strict=True)
        return Sample(seen, _as_scored(torch.cat(z), config), labels)

    return sample


def _as_scored(z: Tensor, config: GraphConfig) -> Tensor:
    """Embeddings as the SVM sees them; columns that do not vary are 0."""
    z = z.detach().double()
    if not config.standardise:
        return z
    centred = z - z.mean(0)
    deviation = centred.square().mean(0).sqrt()
    return centred / torch.where(deviation > 0, deviation, 1.0)
