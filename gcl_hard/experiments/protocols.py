"""The two protocols: which graphs an encoder sees before its embeddings are scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.evaluation import Fold, inner_holdout, outer_folds
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.seed_score import weights_from
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
    """Train one encoder of a cell by itself, node by node and not colour by colour.

    What ``side_by_side`` trains is this up to rounding; what it cannot train is trained here.

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
        setting=setting_of(cell, seed, None if held_out is None else member),
    )  # fmt: skip
    return model, losses


def setting_of(cell: GraphCell, seed: int, fold: int | None = None) -> str:
    """How messages call what is trained."""
    return f"{cell}, seed {seed}" + ("" if fold is None else f", fold {fold}")


def folds_of(
    cell: GraphCell, labels: NDArray[np.int64], seed: int, *, inner: bool = False
) -> list[Fold]:
    """The folds that a seed is scored on.

    Args:
        cell: the settings.
        labels: int64 [G].
        seed: of the folds.
        inner: whether a fifth of every training fold is held out of training and scored, so that
            settings can be chosen without the test fold, which is then in neither part.

    Returns:
        One fold after the other.

    Raises:
        InputError: if a class has fewer members than there are folds, or ``inner`` is asked of
            a cell that has no encoder of its own for every fold.
    """
    folds = outer_folds(labels, seed=seed, n_folds=cell.folds)
    if not inner:
        return folds
    if cell.encoders != cell.folds:
        raise InputError(f"an inner hold-out needs an encoder for every fold; {cell} has none")
    return [inner_holdout(fold.train, labels, seed=seed) for fold in folds]


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
