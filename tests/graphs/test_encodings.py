"""Structural encodings against closed forms, slow counts and what no order may change."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from math import comb, log
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.encodings import ENCODINGS, check_encodings, encoded
from gcl_hard.graphs.tudataset import load

TU = Path(__file__).parents[3] / "shared" / "data" / "tu"
STRUCTURAL = ("degree", "random-walk", "cycles")
PETERSEN = nx.petersen_graph()


def real(name: str) -> GraphSet:
    if name != "MUTAG" and not TU.is_dir():
        pytest.skip(f"{TU} is not there")
    return load(name, data_dir=TU if name != "MUTAG" else None, download=False)


def edge_graph(edges, n, x=None, y=0):
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    x = torch.ones(n, 1) if x is None else torch.tensor(x, dtype=torch.float32)[:, None]
    return SimpleNamespace(x=x, edge_index=edge_index, edge_attr=None, y=y, num_nodes=n)


def set_of(*graphs: nx.Graph) -> GraphSet:
    return GraphSet.from_graphs(
        [edge_graph(sorted(graph.to_directed().edges), len(graph)) for graph in graphs]
    )


def networkx_graphs(graphs: GraphSet) -> list[nx.Graph]:
    """With nodes 0 … n − 1 in each."""
    converted = []
    for g in range(graphs.n_graphs):
        graph = graphs.batch(torch.tensor([g]))
        converted.append(nx.empty_graph(len(graph.x)))
        converted[-1].add_edges_from(graph.edge_index.T.tolist())
    return converted


RANDOM = [
    nx.gnp_random_graph(n, p, seed=seed)
    for n, p, seed in itertools.product((1, 6, 9), (0.25, 0.4, 0.7), range(2))
]


def induced_cycles(graph: nx.Graph) -> torch.Tensor:
    """All sets of three to six nodes, tried one by one."""
    counts = torch.zeros(len(graph), 4)
    for size in range(3, 7):
        for nodes in itertools.combinations(range(len(graph)), size):
            part = graph.subgraph(nodes)
            if all(d == 2 for _, d in part.degree) and nx.is_connected(part):
                counts[list(nodes), size - 3] += 1
    return counts


def exact_returns(graph: nx.Graph) -> torch.Tensor:
    """Walks step by step, from every node, in fractions."""
    rows = []
    for start in range(len(graph)):
        at, back = {start: Fraction(1)}, []
        for _ in range(8):
            after: dict[int, Fraction] = defaultdict(Fraction)
            for node, p in at.items():
                for other in graph[node]:
                    after[other] += p / graph.degree[node]
            at = after
            back.append(float(at.get(start, 0)))
        rows.append(back[1:])
    return torch.tensor(rows)


def test_cycles_equal_those_among_all_sets_of_nodes() -> None:
    expected = torch.cat([induced_cycles(graph) for graph in RANDOM])
    assert (expected.sum(0) > 0).all()
    torch.testing.assert_close(ENCODINGS["cycles"](set_of(*RANDOM)), expected.log1p())


def test_random_walks_equal_exact_ones() -> None:
    expected = torch.cat([exact_returns(graph) for graph in RANDOM])
    ours = ENCODINGS["random-walk"](set_of(*RANDOM))
    torch.testing.assert_close(ours, expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (nx.cycle_graph(3), [1, 0, 0, 0]),
        (nx.cycle_graph(6), [0, 0, 0, 1]),
        (nx.cycle_graph(7), [0, 0, 0, 0]),
        (nx.path_graph(6), [0, 0, 0, 0]),
        (nx.complete_graph(40), [comb(39, 2), 0, 0, 0]),
        (nx.complete_bipartite_graph(5, 5), [0, 4 * comb(5, 2), 0, 0]),
        (PETERSEN, [0, 0, 6, 6]),  # 12 pentagons and 10 hexagons, alike around every node
        (nx.dodecahedral_graph(), [0, 0, 3, 0]),
        (nx.empty_graph(2), [0, 0, 0, 0]),
    ],
)
def test_cycles_of_graphs_whose_nodes_are_alike(graph: nx.Graph, expected: list[int]) -> None:
    rows = torch.tensor([[log(1 + count) for count in expected]] * len(graph))
    torch.testing.assert_close(ENCODINGS["cycles"](set_of(graph)), rows)


def test_random_walks_in_closed_form() -> None:
    """On cycles longer than the walk, complete graphs and stars; nowhere to go gives zeros."""
    n, steps = 12, range(2, 9)
    cycle = [comb(k, k // 2) / 2**k if k % 2 == 0 else 0.0 for k in steps]
    complete = [(1 + (n - 1) * (-1 / (n - 1)) ** k) / n for k in steps]
    hub = [float(k % 2 == 0) for k in steps]
    leaf = [p / n for p in hub]
    graphs = nx.cycle_graph(n), nx.complete_graph(n), nx.star_graph(n), nx.empty_graph(1)
    expected = torch.tensor([cycle] * n + [complete] * n + [hub] + [leaf] * n + [[0.0] * 7])
    torch.testing.assert_close(ENCODINGS["random-walk"](set_of(*graphs)), expected)


@pytest.mark.parametrize("name", ["MUTAG", "PTC_MR", "IMDB-BINARY"])
def test_real_graphs_against_networkx(name: str) -> None:
    graphs = real(name)
    graphs = graphs.take(torch.arange(0, graphs.n_graphs, 12))
    each = networkx_graphs(graphs)
    degrees = torch.tensor([d for graph in each for _, d in graph.degree])
    torch.testing.assert_close(ENCODINGS["degree"](graphs)[:, 0], degrees.log1p())
    triangles = torch.tensor([t for graph in each for t in nx.triangles(graph).values()])
    torch.testing.assert_close(ENCODINGS["cycles"](graphs)[:, 0], triangles.log1p())
    walks = ENCODINGS["random-walk"](graphs).double()
    # Of k steps that return: one for every eigenvalue, summed over a graph's nodes.
    for graph, rows in zip(each, walks.split(graphs.node_ptr.diff().tolist()), strict=True):
        eigenvalues = torch.as_tensor(nx.normalized_laplacian_spectrum(graph))
        lonely = sum(d == 0 for _, d in graph.degree)  # these have eigenvalue 0 and do not walk
        expected = [((1 - eigenvalues) ** k).sum() - lonely for k in range(2, 9)]
        torch.testing.assert_close(rows.sum(0), torch.stack(expected), rtol=1e-5, atol=1e-5)


def test_rings_of_molecules() -> None:
    """What chordless cycles of MUTAG are: its smallest rings, a basis of all cycles."""
    graphs = real("MUTAG")
    counts = [[0.0] * 4 for _ in range(graphs.n_nodes)]
    starts = graphs.node_ptr.tolist()
    for start, graph in zip(starts, networkx_graphs(graphs), strict=False):
        for ring in nx.minimum_cycle_basis(graph):
            for node in ring:
                counts[start + node][len(ring) - 3] += 1
    torch.testing.assert_close(ENCODINGS["cycles"](graphs), torch.tensor(counts).log1p())


def nested_tuples(graphs: GraphSet) -> list[tuple]:
    """Colours spelt out: a node's row, and those of the nodes that it hears of."""
    rows = graphs.x.unique(dim=0, return_inverse=True)[1].tolist()
    heard: list[list[int]] = [[] for _ in rows]
    for source, target in graphs.edge_index.T.tolist():
        heard[target].append(rows[source])
    return [(row, tuple(sorted(around))) for row, around in zip(rows, heard, strict=True)]


@pytest.mark.parametrize("name", ["MUTAG", "PTC_MR", "IMDB-BINARY"])
def test_wl_columns_are_the_colours_that_lie_in_a_hundredth_of_the_graphs(name: str) -> None:
    graphs = real(name)
    colours, columns = nested_tuples(graphs), ENCODINGS["wl"](graphs)
    owners = graphs.all().batch.tolist()
    occurs_in = Counter(colour for colour, _ in set(zip(colours, owners, strict=True)))
    common = {colour for colour, n in occurs_in.items() if n >= graphs.n_graphs / 100}
    assert 0 < len(common) < len(occurs_in)
    assert columns.shape == (graphs.n_nodes, len(common) + 1)
    assert torch.equal(columns.sum(1), torch.ones(graphs.n_nodes))
    matches = set(zip(columns.argmax(1).tolist(), colours, strict=True))
    column_of = {colour: column for column, colour in matches if colour in common}
    assert sorted(column_of.values()) == list(range(len(common)))
    assert {column for column, colour in matches if colour not in common} == {len(common)}


def test_wl_counts_graphs_not_nodes() -> None:
    """Of 200 graphs a colour must lie in two, however many nodes have it in one."""
    pairs = [edge_graph([(0, 1), (1, 0)], 2) for _ in range(197)]
    many = edge_graph([], 9, [2] * 9)
    twice = [edge_graph([], 1, [3]) for _ in range(2)]
    columns = ENCODINGS["wl"](GraphSet.from_graphs([*pairs, many, *twice])).argmax(1)
    in_pairs, rare, in_two = (set(part.tolist()) for part in columns.split([394, 9, 2]))
    assert rare == {2}
    assert in_pairs | in_two == {0, 1}


def test_wl_of_fewer_than_a_hundred_graphs_has_every_colour() -> None:
    columns = ENCODINGS["wl"](set_of(nx.path_graph(4), nx.star_graph(3)))
    assert columns.sum(0).sort().values.tolist() == [0, 1, 2, 5]  # ends, middles, the hub; others


def reordered(graphs: GraphSet, seed: int) -> tuple[GraphSet, torch.Tensor]:
    """Nodes in another order within each graph, edges too; and where each new node was."""
    g = torch.Generator().manual_seed(seed)
    owner, source = graphs.all().batch, graphs.edge_index[0]
    order = torch.rand(graphs.n_nodes, generator=g).add(owner).argsort()
    edges = torch.rand(source.numel(), generator=g).add(owner[source]).argsort()
    edge_index = order.argsort()[graphs.edge_index[:, edges]]
    return replace(graphs, x=graphs.x[order], edge_index=edge_index, edge_attr=None), order


@pytest.mark.parametrize("name", ["MUTAG", "PTC_MR", "IMDB-BINARY"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_nodes_in_another_order_have_the_same_rows(name: str, encoding: str) -> None:
    graphs = real(name)
    graphs = graphs.take(torch.arange(60))
    other, order = reordered(graphs, seed=3)
    assert not torch.equal(order, torch.arange(graphs.n_nodes))
    rows = ENCODINGS[encoding](graphs)
    assert torch.equal(ENCODINGS[encoding](other), rows[order])
    assert (rows.dtype, len(rows.unique(dim=0)) > 1) == (torch.float32, True)


@pytest.mark.parametrize("encoding", STRUCTURAL)
def test_other_graphs_of_the_set_change_nothing(encoding: str) -> None:
    graphs, some = real("MUTAG"), torch.tensor([150, 3, 77])
    whole = encoded(graphs, [encoding]).take(some)
    assert torch.equal(encoded(graphs.take(some), [encoding]).x, whole.x)


@pytest.mark.parametrize("encoding", STRUCTURAL)
def test_repeated_and_directed_edges_are_edges_and_self_loops_are_not(encoding: str) -> None:
    plain = set_of(nx.diamond_graph())
    edges = [(1, 0), (0, 2), (0, 2), (2, 0), (1, 2), (3, 1), (2, 3), (0, 0), (3, 3)]
    odd = GraphSet.from_graphs([edge_graph(edges, 4)], directed=True)
    assert torch.equal(ENCODINGS[encoding](odd), ENCODINGS[encoding](plain))


def test_wl_hears_along_the_direction_of_every_edge() -> None:
    graphs = GraphSet.from_graphs([edge_graph([(0, 1), (0, 2), (0, 2), (0, 3)], 4)], directed=True)
    columns = ENCODINGS["wl"](graphs).argmax(1).tolist()
    assert len(set(columns)) == 3
    assert columns[1] == columns[3]


def test_columns_stand_behind_the_features_in_the_order_given() -> None:
    graphs = real("MUTAG")
    both = encoded(graphs, ["wl", "random-walk"])
    parts = [graphs.x, ENCODINGS["wl"](graphs), ENCODINGS["random-walk"](graphs)]
    assert torch.equal(both.x, torch.cat(parts, dim=1))
    assert both.x.dtype == torch.float32
    assert (graphs.n_features, graphs.n_encoded) == (7, 0)
    assert both.n_encoded == both.n_features - 7
    for name, value in vars(replace(graphs)).items():
        assert name in {"x", "n_encoded", "columns"} or getattr(both, name) is value


def test_encodings_one_after_the_other_are_those_at_once() -> None:
    graphs = real("MUTAG")
    after, once = encoded(encoded(graphs, ["cycles"]), ["wl"]), encoded(graphs, ["cycles", "wl"])
    assert torch.equal(after.x, once.x)
    assert after.n_encoded == once.n_encoded


def test_no_names_are_the_set_itself() -> None:
    graphs = real("MUTAG")
    assert encoded(graphs, ()) is graphs
    assert encoded(graphs, []) is graphs


def test_names_are_checked() -> None:
    assert check_encodings(iter(ENCODINGS)) == ("degree", "random-walk", "cycles", "wl")
    with pytest.raises(InputError, match=r"'cycle'.*\bcycles\b.*\bcycles\b"):
        encoded(real("MUTAG"), ["degree", "cycle"])
    with pytest.raises(InputError, match=r"'wl'.*\btwice\b"):
        check_encodings(["wl", "degree", "wl"])


def test_features_that_folds_scale_anew_take_no_encodings() -> None:
    graphs = load("MUTAG", features="degree-scalar", download=False)
    assert encoded(graphs, []) is graphs
    with pytest.raises(InputError, match=r"cycles .* 'degree-scalar'"):
        encoded(graphs, ["cycles"])


@pytest.mark.gpu
def test_encodings_stay_on_the_device() -> None:
    graphs = real("MUTAG")
    on_gpu = encoded(graphs.to("cuda"), list(ENCODINGS))
    assert on_gpu.x.is_cuda
    assert torch.equal(on_gpu.x.cpu(), encoded(graphs, list(ENCODINGS)).x)
