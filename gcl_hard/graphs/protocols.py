"""Protocols on graphs: training data of encoders, and scoring of embeddings and baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gcl_hard.errors import InputError
from gcl_hard.evaluation.folds import (
    Fold,
    FoldScore,
    cross_validate,
    inner_holdout,
    majority_fold,
    outer_folds,
)
from gcl_hard.evaluation.probing import PROBES
from gcl_hard.evaluation.svm import C_GRID, kernel_fold, svm_cross_validation, svm_fold
from gcl_hard.experiments.custom import EncoderMaker, make_encoder, own_part
from gcl_hard.experiments.domains import lent_encoders
from gcl_hard.experiments.experiment import Parts, check_finite, seeded_weights
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.encoders import GIN
from gcl_hard.graphs.models import GraphClassifier, GraphModel, InfoGraph, TwoView
from gcl_hard.graphs.refinement import wl_kernel
from gcl_hard.graphs.settings import MOLECULE_GIN, GraphConfig

SALT = 0x7A17
"""Separates the draw of a share of a training fold from others with the same seed."""
ROUNDING = 1e-12
"""Largest difference of equal values of a normalised kernel."""


def build(
    config: GraphConfig,
    n_features: int,
    seed: int,
    member: int = 0,
    *,
    n_classes: int = 2,
    edge_dim: int | None = None,
    parts: Parts | None = None,
) -> GraphModel:
    """The untrained model of a config; the global random state is unchanged.

    The encoder starts from the same weights for every method.

    Args:
        config: the settings.
        n_features: F.
        seed: seed of the weights and the augmentations.
        member: index of the encoder of the seed (a fold of the inductive protocol).
        n_classes: C, for ``supervised``.
        edge_dim: width of the edge features, or None; used with ``edge_labels``.
        parts: user-defined encoders and augmentations.

    Returns:
        The model.

    Raises:
        InputError: if a user-defined part is missing.
    """
    with seeded_weights(seed, member) as views:
        encoder = new_encoder(config, n_features, edge_dim, parts)
        if config.method == "supervised":
            return GraphClassifier(encoder, n_classes)
        if config.method == "untrained":
            return InfoGraph(encoder, method="ucl")
        if config.contrast == "local-global":
            return InfoGraph(encoder, loss=config.loss(views))
        return TwoView(
            encoder, loss=config.loss(views), n_views=config.views or 2,
            strength=config.strength or 0.0, seed=views,
            augmentations=[own_part(name, parts) or name for name in config.augmentations or ()],
        )  # fmt: skip


def new_encoder(
    config: GraphConfig, n_features: int, edge_dim: int | None, parts: Parts | None
) -> nn.Module:
    """A new encoder of a config; arguments as of :func:`build`."""
    if (make := own_part(config.encoder, parts)) is not None:
        return make_encoder(make, n_features, edge_dim)
    if config.encoder == MOLECULE_GIN:
        return lent_encoders().MoleculeGIN(
            config.dim, config.layers, readout=config.readout, jk=config.jk
        )
    return GIN(
        n_features, config.dim, config.layers, readout=config.readout, jk=config.jk,
        edge_dim=edge_dim if config.edge_labels else None, virtual_node=config.virtual_node,
    )  # fmt: skip


def setting_of(config: GraphConfig, seed: int, fold: int | None = None) -> str:
    """Name of the trained model, for messages."""
    return f"{config}, seed {seed}" + ("" if fold is None else f", fold {fold}")


def check_classes(graphs: GraphSet) -> None:
    """Refuse a set without class labels, whose embeddings have no accuracy.

    Raises:
        InputError: names the set.
    """
    if graphs.y.is_floating_point():
        raise InputError(f"the y of {graphs.name} are floats, not classes: give integers or words")
    if not graphs.n_classes:
        raise InputError(
            f"{graphs.name} has no class labels, and accuracy needs them: give every graph a y"
        )


def check_encoder(make: EncoderMaker, graphs: GraphSet) -> None:
    """Check a user-defined encoder on two graphs.

    Raises:
        InputError: if it has no width, or returns another shape.
    """
    with torch.random.fork_rng(devices=[]):
        encoder = make_encoder(make, graphs.n_features, graphs.edge_dim)
        InfoGraph(encoder, method="ucl").to(graphs.x.device).embed(graphs.batch([0, 1]))


def folds_of(
    config: GraphConfig, labels: NDArray[np.int64], seed: int, *, inner: bool = False
) -> list[Fold]:
    """The folds that a seed is scored on.

    Args:
        config: the settings.
        labels: int64 [G].
        seed: seed of the folds.
        inner: whether a fifth of every training fold is held out and scored, so that settings can
            be chosen without the test fold, which is then in neither part.

    Returns:
        The folds.

    Raises:
        InputError: if a class has fewer members than there are folds, or ``inner`` is set for a
            config without an encoder for every fold.
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
    """A fold with a stratified share of its training graphs; larger shares contain smaller ones.

    Args:
        fold: the full fold.
        labels: int64 [G].
        seed: seed of the draw.
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
        members = order[labels[order] == label]
        kept.append(members[: max(1, round(share * len(members)))])
    return Fold(np.sort(np.concatenate(kept)), fold.test)


def embeddings(
    model: GraphModel, graphs: GraphSet, config: GraphConfig, seed: int
) -> NDArray[np.float64]:
    """Embeddings of every graph, float64 [G, d], checked to be finite."""
    z = model.embed(graphs).astype(np.float64)
    check_finite(z, f"{config}, seed {seed}")
    return z


def score_baseline(
    config: GraphConfig, graphs: GraphSet, folds: Sequence[Fold], *, seed: int, n_jobs: int = 1
) -> tuple[FoldScore, ...]:
    """Accuracy of a baseline without a trained encoder, on the same folds as the methods.

    If it cannot tell any two graphs apart, it predicts the most frequent class and chooses no C.

    Args:
        config: config of ``majority``, ``graph-size``, ``label-histogram``, ``wl`` or ``wl-oa``.
        graphs: the set.
        folds: folds to train and test on.
        seed: seed of the inner folds.
        n_jobs: folds scored in parallel.

    Returns:
        One score per fold.
    """
    labels = graphs.y.cpu().numpy()
    if config.method == "majority":
        return tuple(majority_fold(labels, fold) for fold in folds)
    score: Callable[[Fold], FoldScore] = partial(_blind_fold, labels)
    options: Any = {"C_grid": config.c_grid or C_GRID, "seed": seed}
    if config.method in ("wl", "wl-oa"):
        kernel = _kernel(graphs, optimal_assignment=config.method == "wl-oa")
        off_diagonal = kernel.ravel()[1:].reshape(len(kernel) - 1, -1)[:, :-1]
        if np.ptp(off_diagonal) > ROUNDING:
            score = partial(kernel_fold, kernel, labels, **options)
    else:
        describe = {"graph-size": graph_size, "label-histogram": label_histogram}[config.method]
        if np.ptp(x := describe(graphs), axis=0).any():
            score = partial(svm_fold, x, labels, standardise=config.standardise, **options)
    return cross_validate(score, folds, n_jobs=n_jobs).folds


def _blind_fold(labels: NDArray[np.int64], fold: Fold) -> FoldScore:
    """The score of a baseline that cannot tell graphs apart."""
    return replace(majority_fold(labels, fold), chosen=None)


def score_embeddings(
    config: GraphConfig,
    graphs: GraphSet,
    z: Sequence[NDArray[np.float64]],
    folds: Sequence[Fold] | None,
    *,
    seed: int,
    n_jobs: int = 1,
) -> tuple[FoldScore, ...]:
    """Score embeddings of graphs by the SVM or probe of a configuration.

    Args:
        config: the settings.
        graphs: the embedded graphs.
        z: float64 [G, d], one per fold, or one for all.
        folds: folds to score on; None for the cross-validation of the configuration.
        seed: seed of the folds and of the inner folds.
        n_jobs: folds scored in parallel.

    Returns:
        One score per fold.
    """
    labels = graphs.y.cpu().numpy()
    options: Any = {"standardise": config.standardise, "seed": seed}
    options |= probe_of(config, graphs)
    if folds is None and config.probe == "svm":
        options |= {"n_folds": config.folds, "n_jobs": n_jobs}
        return svm_cross_validation(z[0], labels, **options).folds
    folds = folds_of(config, labels, seed) if folds is None else folds
    fold_embeddings = {id(fold): z[min(k, len(z) - 1)] for k, fold in enumerate(folds)}

    def score(fold: Fold) -> FoldScore:
        return PROBES[config.probe].score(fold_embeddings[id(fold)], labels, fold, **options)

    return cross_validate(score, folds, n_jobs=n_jobs).folds


def probe_of(config: GraphConfig, graphs: GraphSet) -> dict[str, Any]:
    """Arguments of the SVM or probe of a configuration, except standardisation.

    Args:
        config: the settings.
        graphs: the scored graphs; a WL kernel compares their features, without encodings.

    Returns:
        Arguments of the probe's ``score``.
    """
    options = {"C_grid": config.c_grid or C_GRID}
    if config.probe != "svm":
        return options
    kernel, _, added = config.kernel.partition("+")
    return options | {
        "kernel": "linear" if kernel == "linear" else "rbf",
        "added": _kernel(graphs, optimal_assignment=added == "wl-oa") if added else None,
    }


@lru_cache(maxsize=4)
def _kernel(graphs: GraphSet, *, optimal_assignment: bool) -> NDArray[np.float64]:
    """Cached kernel, the same for all seeds and folds."""
    return wl_kernel(graphs, optimal_assignment=optimal_assignment)


def label_histogram(graphs: GraphSet) -> NDArray[np.float64]:
    """The sum of each graph's node features.

    One-hot node labels give the label histogram, one-hot degrees the degree histogram.

    Args:
        graphs: G graphs with F node features.

    Returns:
        float64 [G, F].

    Source: the graph-level form of the vertex histogram kernel (Sugiyama and Borgwardt, 2015).

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> label_histogram(load_graphs("MUTAG", download=False))[0]
        array([14.,  1.,  2.,  0.,  0.,  0.,  0.])
    """
    x = graphs.x.cpu().double()
    graph_ids = torch.arange(graphs.n_graphs)
    owner = torch.repeat_interleave(graph_ids, graphs.node_ptr.cpu().diff())
    return x.new_zeros(graphs.n_graphs, graphs.n_features).index_add_(0, owner, x).numpy()


def graph_size(graphs: GraphSet) -> NDArray[np.float64]:
    """The number of nodes and of edges of each graph.

    An edge is counted as half of each direction, since TU sets store both; a self-loop or an edge
    stored in one direction counts one half.

    Args:
        graphs: G graphs.

    Returns:
        float64 [G, 2]: nodes, edges.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> graph_size(load_graphs("MUTAG", download=False))[0]
        array([17., 19.])
    """
    nodes, stored = (
        ptr.cpu().diff().double().numpy() for ptr in (graphs.node_ptr, graphs.edge_ptr)
    )
    return np.column_stack([nodes, stored / 2])
