"""Weisfeiler-Lehman kernels of whole sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from gcl_hard.errors import InputError
from gcl_hard.graphs.batches import GraphSet
from gcl_hard.graphs.compression import Integers, refined


def wl_kernel(
    graphs: GraphSet, *, optimal_assignment: bool, iterations: int = 5
) -> NDArray[np.float64]:
    """The Weisfeiler-Lehman kernel of subtree patterns, or its optimal assignment kernel.

    With c_g(r, l) the nodes of graph g that carry label l after r rounds of relabelling by the
    neighbours' labels, k(g, h) is the sum over r = 0..``iterations`` and l of c_g(r, l) c_h(r, l),
    or of min(c_g(r, l), c_h(r, l)) for the optimal assignment; divided by √(k(g, g) k(h, h)).

    Args:
        graphs: G graphs. Nodes with equal features start with equal labels, whatever their
            structural encodings: real-valued attributes, where hardly two rows are equal, leave
            next to nothing to compare.
        optimal_assignment: the minimum in place of the product.
        iterations: rounds after round 0, the labels as given; >= 1.

    Returns:
        float64 [G, G], symmetric, ones on the diagonal.

    Raises:
        InputError: ``iterations`` below 1.

    Source: Shervashidze et al., 2011, the subtree kernel; Kriege, Giscard and Wilson, 2016, the
        Weisfeiler-Lehman optimal assignment kernel, every round weighing one.

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
        if optimal_assignment:  # min(a, b) is how many of 1st, 2nd, … node of a colour both have
            columns = _numbered(_rank(owner, colours) * (colours.max() + 1) + colours)
        else:
            columns = colours
        counts = csr_matrix((np.ones(len(owner)), (owner, columns)))
        total += (counts @ counts.T).toarray()
    own = total.diagonal()
    found: NDArray[np.float64] = total / np.sqrt(np.outer(own, own))
    return found


def _rank(owner: Integers, colours: Integers) -> Integers:
    """Of each node, how many of its colour stand before it in its graph."""
    order = np.lexsort((colours, owner))
    new = np.diff(owner[order], prepend=-1) | np.diff(colours[order], prepend=-1)
    first = np.flatnonzero(new)
    rank = np.empty_like(colours)
    rank[order] = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    return rank


def _numbered(values: Integers) -> Integers:
    """0 … n − 1 for n different values."""
    numbers: Integers = np.unique(values, return_inverse=True)[1].reshape(-1)
    return numbers
