"""Baselines on graphs: cheap descriptors and kernels, and the SVM that scores embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.evaluation import (
    Fold,
    FoldScore,
    kernel_fold,
    svm_fold,
)
from gcl_hard.evaluation.folds import cross_validate, majority_fold
from gcl_hard.evaluation.svm import C_GRID, KernelName
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.graphs import GraphSet
from gcl_hard.graphs.refinement import wl_kernel


def score(
    config: GraphConfig, graphs: GraphSet, folds: Sequence[Fold], *, seed: int, n_jobs: int = 1
) -> tuple[FoldScore, ...]:
    """Accuracy of a baseline that trains no encoder, on the folds that methods are scored on.

    Args:
        config: of ``majority``, ``graph-size``, ``label-histogram``, ``wl`` or ``wl-oa``.
        graphs: the set.
        folds: to train and test on.
        seed: of the folds inside them.
        n_jobs: folds scored side by side.

    Returns:
        One score per fold.
    """
    labels = graphs.y.cpu().numpy()
    if config.method == "majority":
        return tuple(majority_fold(labels, fold) for fold in folds)
    C_grid = config.c_grid or C_GRID
    if config.method in ("wl", "wl-oa"):
        kernel = _kernel(graphs, optimal_assignment=config.method == "wl-oa")
        one = partial(kernel_fold, kernel, labels, C_grid=C_grid, seed=seed)
    else:
        describe = {"graph-size": graph_size, "label-histogram": label_histogram}[config.method]
        one = partial(
            svm_fold, describe(graphs), labels, C_grid=C_grid, seed=seed,
            standardise=config.standardise,
        )  # fmt: skip
    return cross_validate(one, folds, n_jobs=n_jobs).folds


class Probe(TypedDict):
    """How an SVM sees embeddings, beside standardisation; arguments of ``svm_fold``."""

    kernel: KernelName
    C_grid: tuple[float, ...]
    added: NDArray[np.float64] | None


def probe_of(config: GraphConfig, graphs: GraphSet) -> Probe:
    """The SVM of a config.

    Args:
        config: the settings.
        graphs: all that are scored; a WL kernel compares their features, without encodings.

    Returns:
        Arguments of ``svm_fold``.
    """
    kernel, _, added = config.kernel.partition("+")
    return {
        "kernel": "linear" if kernel == "linear" else "rbf",
        "C_grid": config.c_grid or C_GRID,
        "added": _kernel(graphs, optimal_assignment=added == "wl-oa") if added else None,
    }


@lru_cache(maxsize=4)
def _kernel(graphs: GraphSet, *, optimal_assignment: bool) -> NDArray[np.float64]:
    """Seeds and folds share it."""
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
        >>> from gcl_hard.graphs import load
        >>> label_histogram(load("MUTAG", download=False))[0]
        array([14.,  1.,  2.,  0.,  0.,  0.,  0.])
    """
    x = graphs.x.cpu().double()
    graph_ids = torch.arange(graphs.n_graphs)
    owner = torch.repeat_interleave(graph_ids, graphs.node_ptr.cpu().diff())
    total: NDArray[np.float64] = (
        x.new_zeros(graphs.n_graphs, graphs.n_features).index_add_(0, owner, x).numpy()
    )
    return total


def graph_size(graphs: GraphSet) -> NDArray[np.float64]:
    """The number of nodes and of edges of each graph.

    An edge is counted as half of each direction, since TU sets store both; a self-loop or an edge
    stored in one direction counts one half.

    Args:
        graphs: G graphs.

    Returns:
        float64 [G, 2]: nodes, edges.

    Example:
        >>> from gcl_hard.graphs import load
        >>> graph_size(load("MUTAG", download=False))[0]
        array([17., 19.])
    """
    nodes, stored = (
        ptr.cpu().diff().double().numpy() for ptr in (graphs.node_ptr, graphs.edge_ptr)
    )
    return np.column_stack([nodes, stored / 2])
