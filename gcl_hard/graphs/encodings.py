"""Structural encodings: columns that say where in its graph a node sits, behind its features.

Degree, random walk and cycles are fixed functions of a node's own graph, so nothing of held-out
graphs is in them; the WL colours say below what they take from the set. Graphs are simple and
undirected for the first three: an edge counts once, whatever its direction, a self loop not at
all. No value depends on the order of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import InputError, unknown
from gcl_hard.graphs.batches import GraphSet
from gcl_hard.graphs.compression import refined

STEPS = range(2, 9)
"""Of a random walk; after a single one it is never back."""
LENGTHS = range(3, 7)
"""Of the cycles that are counted."""

Adjacency = NDArray[np.bool_]
Columns = NDArray[np.float64]


def degree(graphs: GraphSet) -> Tensor:
    """How many neighbours a node has, on a scale that hubs do not stretch.

        degree(v) = log(1 + d_v)

    Args:
        graphs: the set, N nodes.

    Returns:
        float32 [N, 1], on the set's device.

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> degree(load("MUTAG", download=False)).expm1().max()
        tensor(4.)
    """
    return _by_graph(graphs, lambda adjacency: np.log1p(adjacency.sum(1, keepdims=True)))


def random_walk(graphs: GraphSet) -> Tensor:
    """How likely a random walk is to be back where it began after 2 … 8 steps.

        random_walk(v)_k = ((D⁻¹ A)^k)_vv

    with the adjacency matrix A and the diagonal matrix of degrees D. A node without neighbours
    has zeros.

    Args:
        graphs: the set, N nodes; a graph of n nodes takes about 3 n³ multiplications.

    Returns:
        float32 [N, 7], in [0, 1], on the set's device.

    Source:
        Dwivedi, Luu, Laurent, Bengio, Bresson (2022), *Graph Neural Networks with Learnable
        Structural and Positional Representations*, the random-walk encoding.

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> walks = random_walk(load("MUTAG", download=False))
        >>> walks.shape, int(walks[:, 1].count_nonzero())  # none of its molecules has a triangle
        (torch.Size([3371, 7]), 0)
    """
    return _by_graph(graphs, _returns)


def cycles(graphs: GraphSet) -> Tensor:
    """How many chordless cycles of 3 … 6 nodes a node lies on.

        cycles(v)_k = log(1 + c_k(v))

    where c_k(v) counts the sets of k nodes, v among them, whose only edges are those of a cycle.

    Args:
        graphs: the set, N nodes; time grows with the number of such cycles and of chordless
            paths of as many nodes.

    Returns:
        float32 [N, 4], on the set's device.

    Source:
        Bouritsas, Frasca, Zafeiriou, Bronstein (2022), *Improving Graph Neural Network
        Expressivity via Subgraph Isomorphism Counting*: induced subgraphs of these shapes.

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> cycles(load("MUTAG", download=False)).count_nonzero(dim=0)  # rings of five and of six
        tensor([   0,    0,  340, 2300])
    """
    return _by_graph(graphs, _cycles)


def wl(graphs: GraphSet) -> Tensor:
    """What a node and its neighbours are, one-hot: its colour after one round of refinement.

    A colour is a row of features (encodings left out) with the multiset of the neighbours' rows.
    Each that occurs in at least 1 % of the graphs has a column of its own; the last column is for
    all others. Which colours have columns is read off all graphs of the set, without their
    labels, as the columns of one-hot degrees are.

    Args:
        graphs: the set, N nodes; an edge says to its target what its source is.

    Returns:
        float32 [N, W + 1] for W such colours, on the set's device.

    Source:
        Shervashidze, Schweitzer, van Leeuwen, Mehlhorn, Borgwardt (2011), *Weisfeiler-Lehman
        Graph Kernels*, Algorithm 1.

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> wl(load("MUTAG", download=False)).shape
        torch.Size([3371, 27])
    """
    features = graphs.x[:, : graphs.n_features - graphs.n_encoded]
    _, colour = refined(replace(graphs, x=features, n_encoded=0).to("cpu"), 1)
    n = graphs.n_graphs
    owner = np.repeat(np.arange(n), graphs.node_ptr.diff().cpu().numpy())
    occurs_in = np.bincount(np.unique(colour * n + owner) // n)
    common = np.flatnonzero(100 * occurs_in >= n)
    column = np.full(len(occurs_in), len(common))
    column[common] = np.arange(len(common))
    of_nodes = torch.from_numpy(column[colour]).to(graphs.x.device)
    return torch.nn.functional.one_hot(of_nodes, len(common) + 1).float()


ENCODINGS: dict[str, Callable[[GraphSet], Tensor]] = {
    "degree": degree,
    "random-walk": random_walk,
    "cycles": cycles,
    "wl": wl,
}
"""Columns of all nodes of a set, by name."""


def check_encodings(names: Iterable[str]) -> tuple[str, ...]:
    """The names themselves when each is one of ``ENCODINGS``, once.

    Raises:
        InputError: one is not, and the message offers the nearest; or it is there twice.

    Example:
        >>> check_encodings(["wl", "degree"])
        ('wl', 'degree')
    """
    checked: list[str] = []
    for name in names:
        if name not in ENCODINGS:
            raise unknown("encoding", name, ENCODINGS)
        if name in checked:
            raise InputError(f"encoding {name!r} is named twice; expected each at most once")
        checked.append(name)
    return tuple(checked)


def encoded(graphs: GraphSet, names: Sequence[str]) -> GraphSet:
    """The set with encodings of its nodes behind their features, all read off the set as it is.

    Args:
        graphs: the set, x float32 [N, F].
        names: of ``ENCODINGS``, in the order that their columns take.

    Returns:
        A set with more columns in x, counted in n_encoded, and all else as it was; the set
        itself for no names.

    Raises:
        InputError: as :func:`check_encodings`, or the features are ``degree-scalar``, which every
            fold scales anew.

    Example:
        >>> from gcl_hard.graphs.datasets import load
        >>> encoded(load("MUTAG", download=False), ["cycles", "degree"]).n_features  # 7 + 4 + 1
        12
    """
    names = check_encodings(names)
    if not names:
        return graphs
    if graphs.features == "degree-scalar":
        raise InputError(
            f"encodings {', '.join(names)} cannot stand behind features 'degree-scalar'; "
            "expected features of another kind, say 'constant' and the encoding 'degree'"
        )
    added = torch.cat([ENCODINGS[name](graphs) for name in names], dim=1)
    return replace(
        graphs,
        x=torch.cat([graphs.x, added], dim=1),
        n_encoded=graphs.n_encoded + added.shape[1],
    )


def _by_graph(graphs: GraphSet, columns: Callable[[Adjacency], Columns]) -> Tensor:
    """Columns of all graphs, in double precision on the CPU up to their end.

    Nodes that are alike come out as the same float32 then, in whatever order they were added up.
    """
    table = np.concatenate([columns(adjacency) for adjacency in _adjacencies(graphs)])
    return torch.from_numpy(table).float().to(graphs.x.device)


def _adjacencies(graphs: GraphSet) -> Iterator[Adjacency]:
    """Of each graph [n, n], symmetric, without self loops."""
    nodes, edges = graphs.node_ptr.tolist(), graphs.edge_ptr.tolist()
    edge_index = graphs.edge_index.cpu().numpy()
    for g in range(graphs.n_graphs):
        source, target = edge_index[:, edges[g] : edges[g + 1]] - nodes[g]
        n = nodes[g + 1] - nodes[g]
        adjacency = np.zeros((n, n), dtype=bool)
        adjacency[source, target] = adjacency[target, source] = True
        np.fill_diagonal(adjacency, False)
        yield adjacency


def _returns(adjacency: Adjacency) -> Columns:
    """Diagonals of powers of one step, each as the product of two lower powers."""
    powers = [np.eye(len(adjacency)), adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)]
    while 2 * (len(powers) - 1) < STEPS[-1]:
        powers.append(powers[-1] @ powers[1])
    return np.stack([np.einsum("ij,ji->i", powers[k // 2], powers[-(-k // 2)]) for k in STEPS], 1)


def _cycles(adjacency: Adjacency) -> Columns:
    """log(1 + how many cycles of each length go through a node)."""
    graph = nx.from_edgelist(np.argwhere(np.triu(adjacency)).tolist())
    counts = np.zeros((len(adjacency), len(LENGTHS)))
    for cycle in nx.chordless_cycles(graph, length_bound=LENGTHS[-1]):
        counts[cycle, len(cycle) - LENGTHS[0]] += 1
    return np.log1p(counts)
