"""Colour refinement of a graph set: merging equal nodes, and Weisfeiler-Lehman kernels.

Two nodes with the same features and, layer after layer, the same multisets of neighbours have the
same embedding in any network like GIN. K layers can therefore be computed on the colours of K
rounds of refinement, with their multiplicities, instead of on all nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import check_at_least
from gcl_hard.functional.jsd import BLOCK, Classes, Pairs
from gcl_hard.graphs.copies import on_device
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.layers import Sums
from gcl_hard.graphs.sparse import csr

ROWS_AT_A_TIME = 1024
"""Rows of a kernel that are computed at a time."""

Integers = NDArray[np.int64]
SALTS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03))
"""Salts of the two halves of a colour's hash."""


@dataclass(frozen=True, eq=False)
class ColouredBatch:
    """Graphs as multisets of node colours.

    Attributes:
        features: int64 [C₀], rows of the set's distinct features.
        sums: for each layer, the matrix that sums a colour and its neighbours, [C_k, C_{k−1}].
        parents: for each level from 0 to K − 1, int64 [C_K]: the colour of each last colour there.
        pairs: multiplicity of each last colour in each graph.
        readout: the same as a matrix [G, C_K].
        sizes: float [G], nodes of each graph.
        y: int64 [G].
        classes: ``y`` renumbered 0 … n − 1 without gaps.
        graphs: int64 [G], ids in the set.
    """

    features: Tensor
    sums: tuple[Sums, ...]
    parents: tuple[Tensor, ...]
    pairs: Pairs
    readout: Sums
    sizes: Tensor
    y: Tensor
    classes: Classes
    graphs: Tensor

    @property
    def n_colours(self) -> tuple[int, ...]:
        """Colours by level, from 0."""
        return len(self.features), *(matrix.forward.shape[0] for matrix in self.sums)

    def to(self, device: torch.device, dtype: torch.dtype) -> ColouredBatch:
        """The batch on a device, counts in the precision of the embeddings."""
        return on_device(self, device, dtype)


class _Table(NamedTuple):
    """Sparse counts (CSR) of columns in rows, over the whole set."""

    starts: Integers
    column: Integers
    times: NDArray[np.float32]

    @classmethod
    def of(cls, row: Integers, column: Integers, shape: tuple[int, int]) -> tuple[_Table, _Table]:
        """Count pairs, which may repeat; also returns the transpose."""
        from scipy.sparse import csr_array

        counts = csr_array((np.ones(len(row), np.float32), (row, column)), shape=shape)
        return tuple(  # type: ignore[return-value]
            cls(table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data)
            for table in (counts, counts.T.tocsr())
        )

    def rows(self, rows: Integers) -> _Table:
        """Some rows, in order."""
        sizes = self.starts[rows + 1] - self.starts[rows]
        starts = _starts(sizes)
        at = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], sizes)
        return _Table(starts, self.column[at], self.times[at])

    def within(self, columns: Integers) -> _Table:
        """The kept columns, renumbered: ``columns`` is −1 for the others."""
        new = columns[self.column]
        stay = new >= 0
        if stay.all():
            return _Table(self.starts, new, self.times)
        before = np.concatenate([[0], np.cumsum(stay)])
        return _Table(before[self.starts], new[stay], self.times[stay])

    def csr(self, n_columns: int) -> Tensor:
        """As a PyTorch CSR tensor."""
        starts, column, times = map(torch.from_numpy, self)
        return csr(starts, column, times, (len(self.starts) - 1, n_columns))


class ColouredSet:
    """A graph set with the colours of its nodes after 0 … K rounds of refinement.

    A round sums the 128-bit hashes of the neighbours' colours: two colours collide with a
    probability of about n² / 2¹²⁹ for n nodes.

    Args:
        graphs: the set; features decide the colours of level 0.
        layers: K ≥ 1, layers of the network.

    Attributes:
        n_colours: by level, from 0.
        representatives: int64 [C₀], a node of each colour of level 0.

    Source:
        Xu, Hu, Leskovec, Jegelka (2019), *How Powerful are Graph Neural Networks?*, Lemma 2: what
        refinement cannot tell apart, no such network can.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> ColouredSet(load_graphs("MUTAG", download=False), layers=3).n_colours
        (7, 33, 174, 572)
    """

    def __init__(self, graphs: GraphSet, layers: int) -> None:
        self.graphs = graphs.to("cpu")
        self.layers = layers
        colours = refined(self.graphs, layers)
        self.n_colours = tuple(int(colour.max()) + 1 for colour in colours)
        nodes = [np.unique(colour, return_index=True)[1] for colour in colours]
        self.representatives = torch.from_numpy(nodes[0])
        self._below = [colours[k][nodes[k + 1]] for k in range(layers)]
        self._sums = [self._layer(colours[k], colours[k + 1], nodes[k + 1]) for k in range(layers)]
        self._sizes = self.graphs.node_ptr.diff()
        owner = np.repeat(np.arange(graphs.n_graphs), self._sizes.numpy())
        shape = graphs.n_graphs, self.n_colours[-1]
        self._by_graph, self._by_colour = _Table.of(owner, colours[-1], shape)

    def _layer(self, below: Integers, colour: Integers, nodes: Integers) -> tuple[_Table, _Table]:
        """Neighbour counts of a level's colours, from one node per colour."""
        source, target = self.graphs.edge_index.numpy()
        chosen = np.zeros(len(colour), dtype=bool)
        chosen[nodes] = True
        edges = chosen[target]
        row = np.concatenate([colour[target[edges]], colour[nodes]])
        column = np.concatenate([below[source[edges]], below[nodes]])
        return _Table.of(row, column, (len(nodes), int(below.max()) + 1))

    def batch(self, index: Tensor) -> ColouredBatch:
        """Graphs of the set as colours.

        Args:
            index: int64 [G], ids without repeats, on the CPU.
        """
        ids = index.numpy()
        by_graph = self._by_graph.rows(ids)
        present, at = _renumbered(by_graph.column, self.n_colours[-1])
        readout = by_graph.within(at)
        position = np.full(self.graphs.n_graphs, -1)
        position[ids] = np.arange(len(ids))
        by_colour = self._by_colour.rows(present).within(position)
        n_last, ancestors = len(present), np.arange(len(present))
        sums, parents = [], []
        for k in range(len(self._sums) - 1, -1, -1):
            lower = self._below[k][present]
            below, at_below = _renumbered(lower, self.n_colours[k])
            table, transposed = self._sums[k]
            forward = table.rows(present).within(at_below).csr(len(below))
            backward = transposed.rows(below).within(at).csr(len(present))
            sums.append(Sums(forward, backward))
            ancestors = at_below[lower][ancestors]
            parents.append(torch.from_numpy(ancestors))
            present, at = below, at_below
        labels, classes = np.unique(self.graphs.y[index].numpy(), return_inverse=True)
        colour = np.repeat(np.arange(n_last), np.diff(by_colour.starts))
        edges = by_colour.starts[np.minimum(np.arange(0, n_last + BLOCK, BLOCK), n_last)]
        return ColouredBatch(
            features=torch.from_numpy(present),
            sums=tuple(reversed(sums)),
            parents=tuple(reversed(parents)),
            pairs=Pairs(
                torch.from_numpy(colour), torch.from_numpy(by_colour.column),
                torch.from_numpy(by_colour.times), edges.tolist(),
            ),
            readout=Sums(readout.csr(n_last), by_colour.csr(len(ids))),
            sizes=self._sizes[index].float(),
            y=self.graphs.y[index],
            classes=Classes(torch.from_numpy(classes), len(labels)),
            graphs=index,
        )  # fmt: skip


def refined(graphs: GraphSet, layers: int) -> list[Integers]:
    """Colours of all nodes, 0 … n − 1, after each round.

    Colours are ordered by hash, so the colours of some graphs keep their order whatever the other
    graphs of the set are.
    """
    source, target = graphs.edge_index.numpy()
    x = np.ascontiguousarray(graphs.x.numpy())
    if graphs.features == "degree-scalar":  # raw degrees are the same in every fold
        x = np.bincount(source, minlength=len(x))[:, None].astype(np.float64)
    x = x + 0.0  # −0.0 becomes 0.0
    bits = x.view(np.uint32 if x.itemsize == 4 else np.uint64).astype(np.uint64)
    columns = np.arange(1, bits.shape[1] + 1, dtype=np.uint64)
    names = [_mixed(bits ^ _mixed(columns, salt), salt).sum(1) for salt in SALTS]
    colours = [_numbered(names)]
    for _ in range(layers):
        around = []
        for name, salt in zip(names, SALTS, strict=True):
            added = np.zeros_like(name)
            np.add.at(added, target, _mixed(name, salt)[source])
            around.append(_mixed(name ^ salt, salt) * salt + added)
        names = around
        colours.append(_numbered(names))
    return colours


def _mixed(x: NDArray[np.uint64], salt: np.uint64) -> NDArray[np.uint64]:
    """Hash of each number."""
    x = (x + salt) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(29))


def _numbered(names: list[NDArray[np.uint64]]) -> Integers:
    """Ranks 0 … n − 1 of the distinct hashes."""
    order = np.lexsort(names)
    first, second = (name[order] for name in names)
    new = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    colours = np.empty(len(order), dtype=np.int64)
    colours[order] = np.concatenate([[0], np.cumsum(new)])
    return colours


def _renumbered(values: Integers, n: int) -> tuple[Integers, Integers]:
    """The distinct values, ascending, and the rank of each number below n, −1 if absent."""
    occurs = np.zeros(n, dtype=bool)
    occurs[values] = True
    present = np.flatnonzero(occurs)
    rank = np.full(n, -1)
    rank[present] = np.arange(len(present))
    return present, rank


def _starts(sizes: Integers) -> Integers:
    starts = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


_COLOURED: WeakKeyDictionary[GraphSet, dict[int, ColouredSet]] = WeakKeyDictionary()


def coloured(graphs: GraphSet, layers: int) -> ColouredSet:
    """The coloured set, cached while the set exists.

    Args:
        graphs: the set.
        layers: K ≥ 1.
    """
    known = _COLOURED.setdefault(graphs, {})
    if layers not in known:
        known[layers] = ColouredSet(graphs, layers)
    return known[layers]


FEATURES = "features"
"""Start of Weisfeiler-Lehman refinement with discrete features."""


def wl_start(graphs: GraphSet) -> tuple[GraphSet, str]:
    """The set with the features that Weisfeiler-Lehman refinement starts from, and their name.

    For a set with ``attributes`` these are the first of the following whose values most nodes share
    with a node of another graph: ``features``, all; ``whole-numbered features``; ``features of 0
    and 1``, such as one-hot labels; ``degrees``. Otherwise, and for every other set, all features.

    Args:
        graphs: the set, on any device; structural encodings are left out.

    Returns:
        The set on the CPU, and the name.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> mutag = load_graphs("MUTAG", download=False)
        >>> noisy = replace(mutag, x=torch.rand(mutag.n_nodes, 2), features="attributes")
        >>> wl_start(mutag)[1], wl_start(noisy)[1]
        ('features', 'degrees')
    """
    x = graphs.x[:, : graphs.n_features - graphs.n_encoded].cpu()
    plain = replace(graphs.to("cpu"), x=x, n_encoded=0)
    if graphs.features != "attributes":
        return plain, FEATURES
    whole = (x == x.round()).all(0) & (x != x[0]).any(0)
    binary = whole & ((x == 0) | (x == 1)).all(0)
    starts = {FEATURES: plain}
    for name, columns in (("whole-numbered features", whole), ("features of 0 and 1", binary)):
        if columns.any():
            starts[name] = replace(plain, x=x[:, columns])
    starts["degrees"] = replace(plain, features="degree-scalar")
    name = next((name for name, start in starts.items() if _shared(start)), FEATURES)
    return starts[name], name


def _shared(graphs: GraphSet) -> bool:
    """Whether most nodes have the features of a node of another graph."""
    (colours,) = refined(graphs, 0)
    owner = np.repeat(np.arange(graphs.n_graphs), graphs.node_ptr.diff().numpy())
    n_graphs = np.bincount(np.unique(colours * graphs.n_graphs + owner) // graphs.n_graphs)
    return bool((n_graphs[colours] > 1).mean() > 0.5)


def wl_kernel(
    graphs: GraphSet, *, optimal_assignment: bool, iterations: int = 5
) -> NDArray[np.float64]:
    """The Weisfeiler-Lehman kernel of subtree patterns, or its optimal assignment kernel.

    Let c_g(r, l) be the number of nodes of graph g with label l after r rounds of relabelling by
    the neighbours' labels. k(g, h) is the sum over r = 0..``iterations`` and l of
    c_g(r, l) c_h(r, l), or of min(c_g(r, l), c_h(r, l)) for the optimal assignment, divided by
    √(k(g, g) k(h, h)).

    Args:
        graphs: G graphs. Nodes with equal features by :func:`wl_start` start with equal labels.
        optimal_assignment: whether to use the minimum instead of the product.
        iterations: rounds after round 0, which has the initial labels; >= 1.

    Returns:
        float64 [G, G], symmetric, ones on the diagonal.

    Raises:
        InputError: if ``iterations`` is below 1.

    Source:
        Shervashidze et al. (2011), the subtree kernel; Kriege, Giscard and Wilson (2016), the
        Weisfeiler-Lehman optimal assignment kernel, with weight 1 for every round.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> mutag = load_graphs("MUTAG", download=False)
        >>> wl_kernel(mutag, optimal_assignment=True).shape
        (188, 188)
    """
    from scipy.sparse import csr_matrix

    check_at_least("iterations", iterations, 1)
    start, _ = wl_start(graphs)
    owner = np.repeat(np.arange(graphs.n_graphs), start.node_ptr.diff().numpy())
    total = np.zeros((graphs.n_graphs, graphs.n_graphs))
    blocks = [
        slice(first, first + ROWS_AT_A_TIME) for first in range(0, len(total), ROWS_AT_A_TIME)
    ]
    for colours in refined(start, iterations):
        if optimal_assignment:
            # min(a, b) is the number of ranks (1st, 2nd, … node of a colour) in both graphs
            ranked = _rank(owner, colours) * (colours.max() + 1) + colours
            columns = np.unique(ranked, return_inverse=True)[1].reshape(-1)
        else:
            columns = colours
        counts = csr_matrix((np.ones(len(owner)), (owner, columns)))
        for rows in blocks:
            total[rows] += (counts[rows] @ counts.T).toarray()
    norms = total.diagonal().copy()
    for rows in blocks:
        total[rows] /= np.sqrt(np.outer(norms[rows], norms))
    return total


def _rank(owner: Integers, colours: Integers) -> Integers:
    """Rank of each node among the nodes of its colour in its graph."""
    order = np.lexsort((colours, owner))
    new = np.diff(owner[order], prepend=-1) | np.diff(colours[order], prepend=-1)
    first = np.flatnonzero(new)
    rank = np.empty_like(colours)
    rank[order] = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    return rank
