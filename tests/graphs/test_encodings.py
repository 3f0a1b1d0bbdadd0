"""Structural encodings against closed forms, slow counts and what no order may change."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.encodings import ENCODINGS, check_encodings, encoded
from gcl_hard.graphs.tudataset import load_graphs

TU = Path(__file__).parents[3] / "shared" / "data" / "tu"
STRUCTURAL = ("degree", "random-walk", "cycles")
PETERSEN = nx.petersen_graph()


def real(name: str) -> GraphSet:
    if name != "MUTAG" and not TU.is_dir():
        pytest.skip(f"{TU} is not there")
    return load_graphs(name, data_dir=TU if name != "MUTAG" else None, download=False)


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


@pytest.mark.parametrize("name", ["MUTAG", "PTC_MR", "IMDB-BINARY"])
def test_degrees_are_networkxs(name: str) -> None:
    graphs = real(name)
    graphs = graphs.take(torch.arange(0, graphs.n_graphs, 12))
    each = networkx_graphs(graphs)
    degrees = torch.tensor([d for graph in each for _, d in graph.degree])
    torch.testing.assert_close(ENCODINGS["degree"](graphs)[:, 0], degrees.log1p())


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


def test_names_are_checked() -> None:
    assert check_encodings(iter(ENCODINGS)) == ("degree", "random-walk", "cycles", "wl")
    with pytest.raises(InputError, match=r"'cycle'.*\bcycles\b.*\bcycles\b"):
        encoded(real("MUTAG"), ["degree", "cycle"])
    with pytest.raises(InputError, match=r"'wl'.*\btwice\b"):
        check_encodings(["wl", "degree", "wl"])


def test_features_that_folds_scale_anew_take_no_encodings() -> None:
    graphs = load_graphs("MUTAG", features="degree-scalar", download=False)
    assert encoded(graphs, []) is graphs
    with pytest.raises(InputError, match=r"cycles .* 'degree-scalar'"):
        encoded(graphs, ["cycles"])


@pytest.mark.gpu
def test_encodings_stay_on_the_device() -> None:
    graphs = real("MUTAG")
    on_gpu = encoded(graphs.to("cuda"), list(ENCODINGS))
    assert on_gpu.x.is_cuda
    assert torch.equal(on_gpu.x.cpu(), encoded(graphs, list(ENCODINGS)).x)
