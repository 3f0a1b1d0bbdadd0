"""The two protocols: which graphs an encoder sees before its embeddings are scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.evaluation import (
    Fold,
    FoldScore,
    inner_holdout,
    outer_folds,
    svm_cross_validation,
    svm_fold,
)
from gcl_hard.experiments import floors
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.seed_score import Clock, OnEpoch, SeedScore, weights_from
from gcl_hard.graphs import (
    GIN,
    GraphBatch,
    GraphSet,
    InfoGraph,
    Supervised,
    TwoView,
    epoch_batches,
)
from gcl_hard.graphs.contrast import GraphModel
from gcl_hard.training.loop import train


def build(
    cell: GraphCell, n_features: int, seed: int, member: int = 0, *, n_classes: int = 2
) -> GraphModel:
    """The untrained model of a cell; the global random state is left as it was.

    Whatever the method, the encoder starts from the same weights.

    Args:
        cell: the settings.
        n_features: F.
        seed: of the weights and the augmentations.
        member: which encoder of the seed (a fold of the inductive protocol).
        n_classes: C, for ``supervised``.

    Returns:
        The model.
    """
    with weights_from(seed, member) as views:
        gin = GIN(n_features, cell.dim, cell.layers, readout=cell.readout)
        if cell.method == "supervised":
            return Supervised(gin, n_classes)
        if cell.method == "untrained":
            return InfoGraph(gin, method="ucl")
        if cell.contrast == "local-global":
            return InfoGraph(gin, loss=cell.loss())
        return TwoView(
            gin, loss=cell.loss(), augmentations=cell.augmentations or (),
            strength=cell.strength or 0.0, seed=views,
        )  # fmt: skip


def fit(
    cell: GraphCell,
    graphs: GraphSet,
    seed: int,
    *,
    member: int = 0,
    held_out: Tensor | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> tuple[GraphModel, list[float]]:
    """Train one encoder of a cell.

    Args:
        cell: the settings.
        graphs: the set, on the device to train on.
        seed: of weights and augmentations; batch order comes from ``cell.data_seed``.
        member: which encoder of the seed.
        held_out: int64 ids of graphs that training must not see in any role.
        on_epoch: called with epoch and mean loss.

    Returns:
        The model and its mean loss per epoch.
    """
    model = build(cell, graphs.n_features, seed, member, n_classes=graphs.n_classes)

    def batches(epoch: int) -> Iterator[GraphBatch]:
        for index in epoch_batches(
            graphs.n_graphs, cell.batch_size, seed=cell.data_seed, epoch=epoch, held_out=held_out
        ):
            yield graphs.batch(index)

    losses = train(
        model, batches, cell.optimisation(), device=graphs.x.device, on_epoch=on_epoch,
        setting=f"{cell}, seed {seed}" + (f", fold {member}" if held_out is not None else ""),
    )  # fmt: skip
    return model, losses


def run_seed(
    cell: GraphCell,
    graphs: GraphSet,
    seed: int,
    *,
    inner: bool = False,
    n_jobs: int = 1,
    on_epoch: OnEpoch = lambda encoder, epoch, loss: None,
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

    Returns:
        Scores of the outer folds and what they cost.

    Raises:
        DivergenceError: if a loss or an embedding is not finite.
        InputError: if a class has fewer members than there are folds, or ``inner`` is asked of
            a cell that has no training folds to hold out of.
        MissingExtraError: for a kernel without grakel.
    """
    labels = graphs.y.cpu().numpy()
    folds = outer_folds(labels, seed=seed, n_folds=cell.folds)
    if inner:
        if cell.encoders != cell.folds:
            raise InputError(f"an inner hold-out needs an encoder for every fold; {cell} has none")
        folds = [inner_holdout(fold.train, labels, seed=seed) for fold in folds]
    if cell.encoders == cell.folds:
        return _fold_by_fold(cell, graphs, folds, seed, on_epoch)
    clock = Clock()
    losses: list[float] = []
    if cell.is_floor and cell.method != "untrained":
        scores = floors.score(cell, graphs, seed=seed, n_jobs=n_jobs)
    else:
        if cell.method == "untrained":
            model = build(cell, graphs.n_features, seed).to(graphs.x.device)
        else:
            model, losses = fit(
                cell, graphs, seed, on_epoch=lambda epoch, loss: on_epoch(0, epoch, loss)
            )
        clock.train()
        scores = svm_cross_validation(
            embeddings(model, graphs, cell, seed), labels, seed=seed, n_folds=cell.folds,
            standardise=cell.standardise, n_jobs=n_jobs,
        )  # fmt: skip
    clock.evaluate()
    return SeedScore(scores.folds, tuple(losses[-1:]), clock.seconds_train, clock.seconds_eval)


def _fold_by_fold(
    cell: GraphCell,
    graphs: GraphSet,
    folds: list[Fold],
    seed: int,
    on_epoch: OnEpoch,
) -> SeedScore:
    """An encoder for every fold, which sees that fold's training graphs and no other."""
    labels = graphs.y.cpu().numpy()
    clock = Clock()
    scored, last = [], []
    for k, fold in enumerate(folds):
        train_ids = torch.from_numpy(fold.train)
        hidden = torch.ones(graphs.n_graphs, dtype=torch.bool)
        hidden[train_ids] = False
        seen = graphs.standardised_on(train_ids)
        model, losses = fit(
            cell, seen, seed, member=k, held_out=hidden.nonzero().flatten(),
            on_epoch=lambda epoch, loss, k=k: on_epoch(k, epoch, loss),  # type: ignore[misc]
        )  # fmt: skip
        clock.train()
        if isinstance(model, Supervised):
            right = model.predict(seen.all()).cpu().numpy()[fold.test] == labels[fold.test]
            scored.append(
                FoldScore(float(right.mean()), None, len(fold.train), len(fold.test), None)
            )
        else:
            z = embeddings(model, seen, cell, seed)
            scored.append(svm_fold(z, labels, fold, standardise=cell.standardise, seed=seed))
        last.append(losses[-1])
        clock.evaluate()
    return SeedScore(tuple(scored), tuple(last), clock.seconds_train, clock.seconds_eval)


def embeddings(
    model: GraphModel, graphs: GraphSet, cell: GraphCell, seed: int
) -> NDArray[np.float64]:
    """Embeddings of every graph, float64 [G, d], checked to be finite."""
    z: NDArray[np.float64] = model.embed(graphs.all()).double().cpu().numpy()
    if not np.isfinite(z).all():
        raise DivergenceError(
            f"embeddings are not finite after epoch {cell.epochs} ({cell}, seed {seed}); nothing "
            f"of this run was saved. Lower lr or beta, or raise temperature"
        )
    return z
