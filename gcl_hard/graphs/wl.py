"""Weisfeiler-Lehman graph kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from gcl_hard.errors import InputError
from gcl_hard.graphs.compression import Integers, refined
from gcl_hard.graphs.data import GraphSet


def wl_kernel(
    graphs: GraphSet, *, optimal_assignment: bool, iterations: int = 5
) -> NDArray[np.float64]:
    """The Weisfeiler-Lehman kernel of subtree patterns, or its optimal assignment kernel.

    Let c_g(r, l) be the number of nodes of graph g with label l after r rounds of relabelling by
    the neighbours' labels. k(g, h) is the sum over r = 0..``iterations`` and l of
    c_g(r, l) c_h(r, l), or of min(c_g(r, l), c_h(r, l)) for the optimal assignment, divided by
    √(k(g, g) k(h, h)).

    Args:
        graphs: G graphs. Nodes with equal features start with equal labels, whatever their
            structural encodings. Real-valued attributes are of little use: hardly two rows
            are equal.
        optimal_assignment: whether to take the minimum instead of the product.
        iterations: rounds after round 0, in which labels are as given; >= 1.

    Returns:
        float64 [G, G], symmetric, ones on the diagonal.

    Raises:
        InputError: if ``iterations`` is below 1.

    Source:
        Shervashidze et al. (2011), the subtree kernel; Kriege, Giscard and Wilson (2016), the
        Weisfeiler-Lehman optimal assignment kernel, with weight 1 for every round.

    Example:
        >>> from gcl_hard.graphs import load
        >>> mutag = load("MUTAG", download=False)
        >>> wl_kernel(mutag, optimal_assignment=True).shape
        (188, 188)
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise InputError(f"iterations={iterations!r}: expected an integer >= 1")
    plain = graphs.x[:, : graphs.n_features - graphs.n_encoded]
    known = replace(graphs, x=plain, n_encoded=0).to("cpu")
    owner = np.repeat(np.arange(graphs.n_graphs), known.node_ptr.diff().numpy())
    total = np.zeros((graphs.n_graphs, graphs.n_graphs))
    for colours in refined(known, iterations):
        if (
            optimal_assignment
        ):  # min(a, b) counts the ranks (1st, 2nd, … node of a colour) that both graphs have
            ranked = _rank(owner, colours) * (colours.max() + 1) + colours
            columns = np.unique(ranked, return_inverse=True)[1].reshape(-1)
        else:
            columns = colours
        counts = csr_matrix((np.ones(len(owner)), (owner, columns)))
        total += (counts @ counts.T).toarray()
    own = total.diagonal()
    found: NDArray[np.float64] = total / np.sqrt(np.outer(own, own))
    return found


def _rank(owner: Integers, colours: Integers) -> Integers:
    """For each node, how many nodes of its colour come before it in its graph."""
    order = np.lexsort((colours, owner))
    new = np.diff(owner[order], prepend=-1) | np.diff(colours[order], prepend=-1)
    first = np.flatnonzero(new)
    rank = np.empty_like(colours)
    rank[order] = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    return rank
