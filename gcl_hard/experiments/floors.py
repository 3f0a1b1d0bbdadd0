"""Cheap descriptions of graphs, and their scores: what a learnt embedding has to beat."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.evaluation import (
    CrossValidation,
    kernel_cross_validation,
    majority_cross_validation,
    svm_cross_validation,
)
from gcl_hard.evaluation.checks import check_at_least
from gcl_hard.experiments.extras import require
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.graphs import GraphSet


def score(cell: GraphCell, graphs: GraphSet, *, seed: int, n_jobs: int = 1) -> CrossValidation:
    """Accuracy of a floor that trains no encoder, on the folds that methods are scored on.

    Args:
        cell: of ``majority``, ``graph-size``, ``label-histogram``, ``wl`` or ``wl-oa``.
        graphs: the set.
        seed: of the folds.
        n_jobs: folds scored side by side.

    Returns:
        One score per fold.

    Raises:
        MissingExtraError: for a kernel without grakel.
    """
    labels = graphs.y.cpu().numpy()
    if cell.method == "majority":
        return majority_cross_validation(labels, seed=seed, n_folds=cell.folds)
    if cell.method in ("wl", "wl-oa"):
        kernel = _kernel(graphs, optimal_assignment=cell.method == "wl-oa")
        return kernel_cross_validation(kernel, labels, seed=seed, n_folds=cell.folds, n_jobs=n_jobs)
    describe = {"graph-size": graph_size, "label-histogram": label_histogram}[cell.method]
    return svm_cross_validation(
        describe(graphs), labels, seed=seed, n_folds=cell.folds, standardise=cell.standardise,
        n_jobs=n_jobs,
    )  # fmt: skip


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


def wl_kernel(
    graphs: GraphSet, *, optimal_assignment: bool, iterations: int = 5
) -> NDArray[np.float64]:
    """The Weisfeiler-Lehman kernel of subtree patterns, or its optimal assignment kernel.

    With c_g(r, l) the nodes of graph g that carry label l after r rounds of relabelling by the
    neighbours' labels, k(g, h) is the sum over r = 0..``iterations`` and l of c_g(r, l) c_h(r, l),
    or of min(c_g(r, l), c_h(r, l)) for the optimal assignment; divided by √(k(g, g) k(h, h)).

    Args:
        graphs: G graphs. Nodes with equal feature rows start with equal labels: real-valued
            attributes, where hardly two rows are equal, leave next to nothing to compare.
        optimal_assignment: the minimum in place of the product.
        iterations: rounds after round 0, the labels as given; >= 1.

    Returns:
        float64 [G, G], symmetric, ones on the diagonal.

    Raises:
        InputError: ``iterations`` below 1.
        MissingExtraError: grakel is not installed.

    Source: Shervashidze et al., 2011, the subtree kernel; Kriege, Giscard and Wilson, 2016, the
        Weisfeiler-Lehman optimal assignment kernel, every round weighing one. Computed by grakel.

    Example:
        >>> from gcl_hard.graphs import load
        >>> mutag = load("MUTAG", download=False)
        >>> wl_kernel(mutag, optimal_assignment=True).shape  # doctest: +SKIP
        (188, 188)
    """
    check_at_least("iterations", iterations, 1)
    grakel = require("grakel")
    options = {"n_iter": int(iterations), "normalize": True}
    if optimal_assignment:
        kernel = grakel.WeisfeilerLehmanOptimalAssignment(**options)
    else:
        kernel = grakel.WeisfeilerLehman(base_graph_kernel=grakel.VertexHistogram, **options)
    matrix: NDArray[np.float64] = kernel.fit_transform(_labelled(graphs))
    return matrix


def _labelled(graphs: GraphSet) -> Iterator[tuple[dict[int, dict[int, float]], dict[int, int]]]:
    """Each graph as grakel's edge dictionary and node labels.

    Isolated nodes are keys as well: grakel's optimal assignment forgets nodes that are not.
    """
    labels = torch.unique(graphs.x.cpu(), dim=0, return_inverse=True)[1].tolist()
    neighbours: list[dict[int, float]] = [{} for _ in labels]
    for source, target in graphs.edge_index.T.tolist():
        neighbours[source][target] = 1.0
    bounds = graphs.node_ptr.tolist()
    for start, stop in pairwise(bounds):
        nodes = range(start, stop)
        yield {v: neighbours[v] for v in nodes}, {v: labels[v] for v in nodes}
