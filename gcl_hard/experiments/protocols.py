"""The two protocols: which graphs an encoder sees before its embeddings are scored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import nn

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.evaluation import Fold, inner_holdout, outer_folds
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.experiment import seeded_weights
from gcl_hard.graphs import GIN, GraphSet, InfoGraph, Supervised, TwoView
from gcl_hard.graphs.models import GraphModel

SALT = 0x7A17
"""Tells the draw of a part of a training fold from others with its seed."""

EncoderMaker = Callable[[int], nn.Module]
"""Makes an encoder for graphs with so many node features; it has an ``out_dim``."""


def build(
    config: GraphConfig,
    n_features: int,
    seed: int,
    member: int = 0,
    *,
    n_classes: int = 2,
    edge_dim: int | None = None,
    make: EncoderMaker | None = None,
) -> GraphModel:
    """The untrained model of a config; the global random state is left as it was.

    Whatever the method, the encoder starts from the same weights.

    Args:
        config: the settings.
        n_features: F.
        seed: of the weights and the augmentations.
        member: which encoder of the seed (a fold of the inductive protocol).
        n_classes: C, for ``supervised``.
        edge_dim: width of the set's edge features, None if it has none; for ``edge_labels``.
        make: makes another encoder than the config's GIN.

    Returns:
        The model.
    """
    with seeded_weights(seed, member) as views:
        encoder: nn.Module
        if make is None:
            encoder = GIN(
                n_features, config.dim, config.layers, readout=config.readout, jk=config.jk,
                edge_dim=edge_dim if config.edge_labels else None, virtual_node=config.virtual_node,
            )  # fmt: skip
        else:
            encoder = make(n_features)
        if config.method == "supervised":
            return Supervised(encoder, n_classes)
        if config.method == "untrained":
            return InfoGraph(encoder, method="ucl")
        if config.contrast == "local-global":
            return InfoGraph(encoder, loss=config.loss())
        return TwoView(
            encoder, loss=config.loss(), augmentations=config.augmentations or (),
            strength=config.strength or 0.0, seed=views,
        )  # fmt: skip


def setting_of(config: GraphConfig, seed: int, fold: int | None = None) -> str:
    """Name of what is trained, for messages."""
    return f"{config}, seed {seed}" + ("" if fold is None else f", fold {fold}")


def folds_of(
    config: GraphConfig, labels: NDArray[np.int64], seed: int, *, inner: bool = False
) -> list[Fold]:
    """The folds that a seed is scored on.

    Args:
        config: the settings.
        labels: int64 [G].
        seed: of the folds.
        inner: whether a fifth of every training fold is held out of training and scored, so that
            settings can be chosen without the test fold, which is then in neither part.

    Returns:
        One fold after the other.

    Raises:
        InputError: if a class has fewer members than there are folds, or ``inner`` is asked of
            a config that has no encoder of its own for every fold.
    """
    folds = [
        part_of(fold, labels, seed=seed, share=config.train_share)
        for fold in outer_folds(labels, seed=seed, n_folds=config.folds)
    ]
    if not inner:
        return folds
    if not config.is_baseline and config.encoders != config.folds:
        raise InputError(f"an inner hold-out needs an encoder for every fold; {config} has none")
    return [inner_holdout(fold.train, labels, seed=seed) for fold in folds]


def part_of(fold: Fold, labels: NDArray[np.int64], *, seed: int, share: float) -> Fold:
    """A fold with a stratified share of its training graphs; larger shares hold smaller ones.

    Args:
        fold: the whole one.
        labels: int64 [G].
        seed: of the choice.
        share: in (0, 1]; at least one graph of each class stays.

    Returns:
        The fold, training indices ascending, the same test part.

    Example:
        >>> fold, labels = Fold(np.arange(8), np.arange(8, 10)), np.arange(10) % 2
        >>> half = part_of(fold, labels, seed=0, share=0.5)
        >>> half.train.size, labels[half.train].tolist().count(0), half.test
        (4, 2, array([8, 9]))
    """
    if share == 1:
        return fold
    order = np.random.default_rng([seed, SALT]).permutation(fold.train)
    kept = []
    for label in np.unique(labels[fold.train]):
        of_class = order[labels[order] == label]
        kept.append(of_class[: max(1, round(share * len(of_class)))])
    return Fold(np.sort(np.concatenate(kept)), fold.test)


def embeddings(
    model: GraphModel, graphs: GraphSet, config: GraphConfig, seed: int
) -> NDArray[np.float64]:
    """Embeddings of every graph, float64 [G, d], checked to be finite."""
    z: NDArray[np.float64] = model.embed(graphs.all()).double().cpu().numpy()
    if not np.isfinite(z).all():
        raise DivergenceError(
            f"embeddings are not finite after epoch {config.epochs} ({config}, seed {seed}); "
            f"nothing of this run was saved. Lower lr or beta, or raise temperature"
        )
    return z
