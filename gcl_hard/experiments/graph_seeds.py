"""Seeds of graph cells: their encoders trained side by side, their folds scored."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import DivergenceError
from gcl_hard.evaluation import Fold, FoldScore
from gcl_hard.experiments import floors
from gcl_hard.experiments.diagnostics.graphs import graph_sampler
from gcl_hard.experiments.diagnostics.settings import looked_at
from gcl_hard.experiments.diagnostics.watch import Watch
from gcl_hard.experiments.ensembles import Encoder, Result, train_encoders
from gcl_hard.experiments.floors import probe_of
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.protocols import embeddings, folds_of
from gcl_hard.experiments.scoring import Scoring, score
from gcl_hard.experiments.seed_score import Clock, OnEpoch, SeedScore, Unscored
from gcl_hard.graphs import GraphSet, Supervised
from gcl_hard.graphs.contrast import GraphContrast, GraphModel

T = TypeVar("T")


@dataclass(eq=False)
class _Seed:
    """A seed in training, of all cells that differ in how its encoders are scored alone."""

    job: Job
    cell: GraphCell
    folds: list[Fold] | None
    told: dict[Job, OnEpoch] = field(default_factory=dict)
    embeddings: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    scores: dict[int, FoldScore] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)
    left: int = 1
    error: DivergenceError | None = None
    seconds_train: float = 0.0
    seconds_eval: float = 0.0
    watch: Watch[GraphModel] | None = None


def train_seeds(
    jobs: Sequence[Job],
    graphs: GraphSet,
    on_epochs: Sequence[OnEpoch],
    *,
    size: int | None = None,
    diagnostics: int = 0,
) -> Iterator[Unscored]:
    """Train the encoders of several seeds side by side.

    Args:
        jobs: seeds of cells that share ``GraphCell.together``, or one seed of any that trains.
        graphs: the set, on the device to train on.
        on_epochs: progress of each.
        size: most models of an ensemble, None for the usual number.
        diagnostics: epochs between two looks at each seed's first encoder, 0 for none.

    Yields:
        Seeds as their last encoder ends, with embeddings to score; where one diverged the error.

    Raises:
        InputError: if a class has fewer members than there are folds, or an inner hold-out is
            asked of a cell that has no training folds to hold out of.
        OutOfMemory: if memory runs out; says what to lower.
    """
    labels = graphs.y.cpu().numpy()
    seeds, encoders, owner = list[_Seed](), list[Encoder](), list[tuple[int, int]]()
    alike: dict[Job, _Seed] = {}
    for job, on_epoch in zip(jobs, on_epochs, strict=True):
        if (known := alike.get(job.trained)) is not None:
            known.told[job] = on_epoch
            continue
        cell = cast("GraphCell", job.cell)
        folds = folds_of(cell, labels, job.seed, inner=job.inner)
        own = cell.encoders == cell.folds
        seed = _Seed(job, cell, folds if own else None, {job: on_epoch}, left=cell.encoders)
        alike[job.trained] = seed
        seeds.append(seed)
        watched = not job.inner and not cell.is_floor
        looks = looked_at(diagnostics, cell.epochs) if watched else ()
        for k, fold in enumerate(folds if own else folds[:1]):
            seen = looks if k == 0 else ()
            encoders.append(
                Encoder.of_fold(cell, graphs, job.seed, k, fold, snapshots=seen)
                if own
                else Encoder(cell, graphs, job.seed, snapshots=seen)
            )
            owner.append((len(seeds) - 1, k))
        if looks:
            first = encoders[-cell.encoders]
            make = partial(graph_sampler, cell, first.graphs, first.held_out)
            seed.watch = Watch(cell.epochs, make)

    def told(of: Sequence[int], epoch: int, losses: Sequence[float]) -> None:
        beside: dict[int, list[float]] = {}
        for number, loss in zip(of, losses, strict=True):
            beside.setdefault(owner[number][0], []).append(loss)
        for number, means in beside.items():
            seed = seeds[number]
            done = seed.cell.encoders - seed.left
            for on_epoch in seed.told.values():
                on_epoch(done, epoch, sum(means) / len(means), len(means))

    def see(epoch: int, models: Mapping[int, GraphModel]) -> tuple[int, ...]:
        for number, model in models.items():
            watch = seeds[owner[number][0]].watch
            assert watch is not None
            assert isinstance(model, GraphContrast)
            watch.look(epoch, model, model.loss.sampler.current)
        return ()

    for result in train_encoders(encoders, graphs, size=size, on_epoch=told, see=see):
        number, k = owner[result.number]
        seed = seeds[number]
        _embed(seed, k, encoders[result.number], result, labels)
        seed.left -= 1
        if not seed.left:
            for job in seed.told:
                yield _unscored(seed, job, graphs)


def _embed(
    seed: _Seed, k: int, encoder: Encoder, result: Result, labels: NDArray[np.int64]
) -> None:
    """Keep of a trained encoder what its fold is scored by."""
    seed.seconds_train += result.seconds
    trained, before = result.trained, time.perf_counter()
    if isinstance(trained, DivergenceError):
        seed.error = seed.error or trained
        return
    seed.losses[k] = trained.loss
    if isinstance(trained.model, Supervised):
        assert seed.folds is not None
        fold = seed.folds[k]
        right = trained.model.predict(encoder.graphs.all()).cpu().numpy()[fold.test]
        accuracy = float((right == labels[fold.test]).mean())
        seed.scores[k] = FoldScore(accuracy, None, len(fold.train), len(fold.test), None)
    else:
        try:
            z = embeddings(trained.model, encoder.graphs, seed.cell, seed.job.seed)
        except DivergenceError as error:
            seed.error = seed.error or error
            return
        seed.embeddings[k] = z
    seed.seconds_eval += time.perf_counter() - before


def _unscored(seed: _Seed, job: Job, graphs: GraphSet) -> Unscored:
    if seed.error is not None:
        return Unscored(job, error=seed.error)
    scores, losses = _in_order(seed.scores), _in_order(seed.losses)
    seen = None if seed.watch is None else seed.watch.seen
    scored = SeedScore(scores, losses, seed.seconds_train, seed.seconds_eval, seen=seen)
    if scores:
        return Unscored(job, scored)
    folds = None if seed.folds is None else tuple(seed.folds)
    return Unscored(job, scored, _scoring(job, graphs, _in_order(seed.embeddings), folds))


def _scoring(
    job: Job, graphs: GraphSet, z: tuple[NDArray[np.float64], ...], folds: tuple[Fold, ...] | None
) -> Scoring:
    """How a cell scores embeddings."""
    cell = cast("GraphCell", job.cell)
    return Scoring(
        z, graphs.y.cpu().numpy(), folds, job.seed, cell.folds, cell.standardise,
        **probe_of(cell, graphs),
    )  # fmt: skip


def _in_order(of_folds: dict[int, T]) -> tuple[T, ...]:
    return tuple(of_folds[k] for k in sorted(of_folds))


def run_seed(
    cell: GraphCell,
    graphs: GraphSet,
    seed: int,
    *,
    inner: bool = False,
    n_jobs: int = 1,
    on_epoch: OnEpoch = lambda encoder, epoch, loss, beside=1: None,
    size: int | None = None,
) -> SeedScore:
    """Train and score one seed of a cell under its protocol.

    Args:
        cell: the settings.
        graphs: the set, on the device to train on.
        seed: of encoder and folds.
        inner: of the inductive protocol: hold a fifth of every training fold out of training and
            score on it, so that settings can be chosen without the test fold, which is not seen.
        n_jobs: folds scored side by side.
        on_epoch: progress.
        size: folds trained side by side, None for the usual number.

    Returns:
        Scores of the outer folds and what they cost.

    Raises:
        DivergenceError: if a loss or an embedding is not finite.
        InputError: if a class has fewer members than there are folds, or ``inner`` is asked of
            a cell that has no training folds to hold out of.
    """
    job = Job(cell, seed, inner)
    if not cell.encoders:
        return run_floor(job, graphs, n_jobs)
    (trained,) = train_seeds([job], graphs, [on_epoch], size=size)
    if trained.score is None:
        assert trained.error is not None
        raise trained.error
    if trained.scoring is None:
        return trained.score
    return trained.finished(*score(trained.scoring, n_jobs))


def run_floor(job: Job, graphs: GraphSet, n_jobs: int = 1) -> SeedScore:
    """Score one seed of a floor that trains no encoder; arguments as in :func:`run_seed`."""
    cell = cast("GraphCell", job.cell)
    folds = tuple(folds_of(cell, graphs.y.cpu().numpy(), job.seed, inner=job.inner))
    clock = Clock()
    if cell.method == "untrained":
        model = Encoder(cell, graphs, job.seed).build()
        clock.train()
        z = embeddings(model, graphs, cell, job.seed)
        whole = cell.train_share == 1 and not job.inner
        what = _scoring(job, graphs, (z,) if whole else (z,) * len(folds), None if whole else folds)
        found = score(what, n_jobs)[0]
    else:
        found = floors.score(cell, graphs, folds, seed=job.seed, n_jobs=n_jobs)
    clock.evaluate()
    return SeedScore(found, (), clock.seconds_train, clock.seconds_eval)
