"""Structural encodings: columns that describe a node's position in its graph.

Degree, random walk and cycles are fixed functions of a node's graph, so no information of held-out
graphs enters; WL colours take their columns from the whole set. The first three treat graphs as
simple and undirected: an edge counts once in either direction, self loops not at all. No value
depends on the order of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import InputError, check_option
from gcl_hard.graphs.data import GraphSet

STEPS = range(2, 9)
"""Steps of the random walk; it cannot return after one."""
LENGTHS = range(3, 7)
"""Lengths of counted cycles."""

Adjacency = NDArray[np.bool_]
Columns = NDArray[np.float64]


def degree(graphs: GraphSet) -> Tensor:
    """Log degree.

        degree(v) = log(1 + d_v)

    Args:
        graphs: the set, N nodes.

    Returns:
        float32 [N, 1], on the set's device.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> degree(load_graphs("MUTAG", download=False)).expm1().max()
        tensor(4.)
    """
    return _by_graph(graphs, lambda adjacency: np.log1p(adjacency.sum(1, keepdims=True)))


def random_walk(graphs: GraphSet) -> Tensor:
    """Return probabilities of a random walk after 2 … 8 steps.

        random_walk(v)_k = ((D⁻¹ A)^k)_vv

    with the adjacency matrix A and the diagonal matrix of degrees D. Isolated nodes have zeros.

    Args:
        graphs: the set, N nodes; a graph of n nodes takes about 3 n³ multiplications.

    Returns:
        float32 [N, 7], in [0, 1], on the set's device.

    Source:
        Dwivedi, Luu, Laurent, Bengio, Bresson (2022), *Graph Neural Networks with Learnable
        Structural and Positional Representations*, the random-walk encoding.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> walks = random_walk(load_graphs("MUTAG", download=False))
        >>> walks.shape, int(walks[:, 1].count_nonzero())  # none of its molecules has a triangle
        (torch.Size([3371, 7]), 0)
    """
    return _by_graph(graphs, _returns)


def cycles(graphs: GraphSet) -> Tensor:
    """Numbers of chordless cycles of 3 … 6 nodes through a node.

        cycles(v)_k = log(1 + c_k(v))

    where c_k(v) counts the sets of k nodes with v among them whose induced subgraph is a cycle.

    Args:
        graphs: the set, N nodes; time grows with the number of such cycles and of chordless
            paths of the same length.

    Returns:
        float32 [N, 4], on the set's device.

    Source:
        Bouritsas, Frasca, Zafeiriou, Bronstein (2022), *Improving Graph Neural Network
        Expressivity via Subgraph Isomorphism Counting*: induced subgraphs of these shapes.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> rings = cycles(load_graphs("MUTAG", download=False))
        >>> rings.count_nonzero(dim=0)  # nodes in rings of five and of six
        tensor([   0,    0,  340, 2300])
    """
    return _by_graph(graphs, _cycles)


def wl(graphs: GraphSet) -> Tensor:
    """Weisfeiler-Lehman colour of a node after one round of refinement, one-hot.

    A colour is a row of features (without encodings; for real-valued features those of
    :func:`gcl_hard.graphs.refinement.wl_start`) with the multiset of the neighbours' rows. Each
    colour in at least 1 % of the graphs has a column; the last column is for all others. Like the
    columns of one-hot degrees, these come from all graphs of the set, without class labels.

    Args:
        graphs: the set, N nodes; edges pass messages from source to target.

    Returns:
        float32 [N, W + 1] for W such colours, on the set's device.

    Source:
        Shervashidze, Schweitzer, van Leeuwen, Mehlhorn, Borgwardt (2011), *Weisfeiler-Lehman
        Graph Kernels*, Algorithm 1.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> wl(load_graphs("MUTAG", download=False)).shape
        torch.Size([3371, 27])
    """
    from gcl_hard.graphs.refinement import refined, wl_start  # SciPy

    _, colour = refined(wl_start(graphs)[0], 1)
    n = graphs.n_graphs
    owner = np.repeat(np.arange(n), graphs.node_ptr.diff().cpu().numpy())
    occurs_in = np.bincount(np.unique(colour * n + owner) // n)
    common = np.flatnonzero(100 * occurs_in >= n)
    column = np.full(len(occurs_in), len(common))
    column[common] = np.arange(len(common))
    node_columns = torch.from_numpy(column[colour]).to(graphs.x.device)
    return torch.nn.functional.one_hot(node_columns, len(common) + 1).float()


ENCODINGS: dict[str, Callable[[GraphSet], Tensor]] = {
    "degree": degree,
    "random-walk": random_walk,
    "cycles": cycles,
    "wl": wl,
}
"""Functions that compute the columns of all nodes of a set, by name."""


def check_encodings(names: Iterable[str]) -> tuple[str, ...]:
    """The names, each valid and unique.

    Raises:
        InputError: if a name is unknown (offers the closest) or repeated.

    Example:
        >>> check_encodings(["wl", "degree"])
        ('wl', 'degree')
    """
    checked: list[str] = []
    for name in names:
        if check_option("encoding", name, ENCODINGS) in checked:
            raise InputError(f"encoding {name!r} is named twice; expected each at most once")
        checked.append(name)
    return tuple(checked)


def encoded(graphs: GraphSet, names: Sequence[str]) -> GraphSet:
    """The set with structural encodings appended to its node features.

    Args:
        graphs: the set, x float32 [N, F].
        names: names in ``ENCODINGS``, in the order of their columns.

    Returns:
        The set with more columns in x, counted in n_encoded; the set itself without names.

    Raises:
        InputError: as for :func:`check_encodings`, or if the features are ``degree-scalar``,
            which every fold rescales.

    Example:
        >>> from gcl_hard.graphs import load_graphs
        >>> mutag = load_graphs("MUTAG", download=False)
        >>> encoded(mutag, ["cycles", "degree"]).n_features  # 7 + 4 + 1
        12
    """
    names = check_encodings(names)
    if not names:
        return graphs
    if graphs.features == "degree-scalar":
        raise InputError(
            f"encodings {', '.join(names)} cannot be added to features 'degree-scalar'; "
            "expected another kind of features, such as 'constant' with the encoding 'degree'"
        )
    blocks = {name: ENCODINGS[name](graphs) for name in names}
    columns = [f"{name} {i}" for name, block in blocks.items() for i in range(block.shape[1])]
    added = torch.cat([*blocks.values()], dim=1)
    return replace(
        graphs,
        x=torch.cat([graphs.x, added], dim=1),
        n_encoded=graphs.n_encoded + added.shape[1],
        columns=graphs.columns and (*graphs.columns, *columns),
    )


def _by_graph(graphs: GraphSet, columns: Callable[[Adjacency], Columns]) -> Tensor:
    """Columns of all graphs, computed in double precision on the CPU and then rounded.

    So equivalent nodes get the same float32, whatever the order of summation.
    """
    table = np.concatenate([columns(adjacency) for adjacency in _adjacencies(graphs)])
    return torch.from_numpy(table).float().to(graphs.x.device)


def _adjacencies(graphs: GraphSet) -> Iterator[Adjacency]:
    """Adjacency matrix of each graph [n, n], symmetric, without self loops."""
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
    """Return probabilities [n, steps]; each diagonal is that of a product of two lower powers."""
    powers = [np.eye(len(adjacency)), adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)]
    while 2 * (len(powers) - 1) < STEPS[-1]:
        powers.append(powers[-1] @ powers[1])
    return np.stack([np.einsum("ij,ji->i", powers[k // 2], powers[-(-k // 2)]) for k in STEPS], 1)


def _cycles(adjacency: Adjacency) -> Columns:
    """Log-counts of cycles [n, lengths]."""
    import networkx as nx  # half a second, and no other encoding needs it

    graph = nx.from_edgelist(np.argwhere(np.triu(adjacency)).tolist())
    counts = np.zeros((len(adjacency), len(LENGTHS)))
    for cycle in nx.chordless_cycles(graph, length_bound=LENGTHS[-1]):
        counts[cycle, len(cycle) - LENGTHS[0]] += 1
    return np.log1p(counts)
