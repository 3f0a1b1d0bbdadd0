"""Batches sliced from a pre-collated set against PyTorch Geometric's reader and collation."""

from __future__ import annotations

import math
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset, random_split
from torch_geometric import transforms
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gcl_hard.errors import InputError
from gcl_hard.graphs import GIN, MANIFEST, PACKAGED, InfoGraph
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.tudataset import load_graphs
from tests.said import says

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:FutureWarning")

TU = Path(__file__).parents[3] / "shared" / "data" / "tu"
PAIR = torch.tensor([[0, 1], [1, 0]])


def zip_of(name: str) -> Path:
    path = (PACKAGED if name == "MUTAG" else TU) / f"{name}.zip"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return path


def pyg_graphs(name: str, folder: Path) -> list:
    """The set as PyTorch Geometric reads it: one Data per graph, degrees where no labels."""
    from torch_geometric.io import read_tu_data
    from torch_geometric.transforms import OneHotDegree

    with zipfile.ZipFile(zip_of(name)) as archive:
        archive.extractall(folder)
    data, slices, sizes = read_tu_data(str(folder / name), name)
    edges = slices["edge_index"].tolist()
    if data.x is None:
        counts = data._num_nodes
    else:
        counts = slices["x"].diff().tolist()
        nodes = data.x[:, sizes["num_node_attributes"] :].split(counts)
    graphs = []
    for g, n in enumerate(counts):
        span = slice(edges[g], edges[g + 1])
        graphs.append(Data(edge_index=data.edge_index[:, span], y=data.y[g : g + 1], num_nodes=n))
        if data.x is not None:
            graphs[-1].x = nodes[g]
        if data.edge_attr is not None:
            graphs[-1].edge_attr = data.edge_attr[span]
    if data.x is None:
        degree = max(int(torch.bincount(g.edge_index[0]).max()) for g in graphs if g.num_edges)
        graphs = [OneHotDegree(degree)(graph) for graph in graphs]
    return graphs


@pytest.mark.parametrize("name", MANIFEST)
def test_batch_equals_pyg_reader_and_collation(name: str, tmp_path: Path) -> None:
    graphs = pyg_graphs(name, tmp_path)
    ours = load_graphs(name, data_dir=zip_of(name).parent)
    assert ours.n_graphs == len(graphs)
    shuffled = torch.randperm(ours.n_graphs, generator=torch.Generator().manual_seed(0))
    for index in (torch.arange(ours.n_graphs), shuffled[:128], shuffled[:1], shuffled[[3, 3, 1]]):
        expected = Batch.from_data_list([graphs[i] for i in index])
        got = ours.batch(index)
        for field in ("x", "edge_index", "batch", "y"):
            assert torch.equal(getattr(got, field), getattr(expected, field)), field
        assert got.num_graphs == expected.num_graphs
        if expected.edge_attr is None:
            assert got.edge_attr is None
        else:
            assert torch.equal(got.edge_attr, expected.edge_attr)


def test_from_graphs_of_pyg_data_equals_load(tmp_path: Path) -> None:
    graphs = pyg_graphs("MUTAG", tmp_path)
    ours, theirs = load_graphs("MUTAG"), GraphSet.from_graphs(graphs, name="mine")
    assert (theirs.name, theirs.features, theirs.n_classes) == ("mine", "attributes", 2)
    for field in ("x", "edge_index", "y", "node_ptr", "edge_ptr", "edge_attr"):
        assert torch.equal(getattr(theirs, field), getattr(ours, field)), field


def graph(n: int = 2, **changed: object) -> SimpleNamespace:
    fields = {"x": None, "edge_index": PAIR, "edge_attr": None, "y": 0, "num_nodes": n}
    return SimpleNamespace(**{**fields, **changed})


def test_from_graphs_renumbers_labels_and_counts_nodes_without_features() -> None:
    ours = GraphSet.from_graphs([graph(3, y=torch.tensor([7])), graph(2, y=-1), graph(4, y=7)])
    assert ours.y.tolist() == [1, 0, 1]
    assert ours.class_counts.tolist() == [1, 2]
    assert ours.node_ptr.tolist() == [0, 3, 5, 9]
    assert ours.features == "degree-onehot"
    assert ours.x.argmax(1).tolist() == [1, 1, 0, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    "bad",
    [
        graph(y=None), graph(y=1j), graph(y=torch.tensor([1, 2])), graph(y="a"),
        graph(y=torch.empty(0)), graph(edge_index=PAIR[:, :1]), graph(0),
        graph(edge_index=PAIR + 1), graph(edge_index=PAIR.float()), graph(edge_index=None),
        graph(x=torch.ones(2, 3)), graph(edge_attr=torch.ones(2)),
        graph(x=torch.full((2, 1), math.nan)), graph(x="CC"), 3,
    ],
)  # fmt: skip
def test_a_graph_that_fits_no_set_is_refused(bad: Any) -> None:
    with pytest.raises(InputError):
        GraphSet.from_graphs([graph(), bad])


def test_rows_and_columns_of_features_fit() -> None:
    for graphs in (
        [], [graph(x=torch.ones(2, 3)), graph(x=torch.ones(2, 4))],
        [graph(x=torch.full((2, 1), math.nan))], [graph(edge_attr=torch.ones(3, 1))],
    ):  # fmt: skip
        with pytest.raises(InputError):
            GraphSet.from_graphs(graphs)


@pytest.mark.parametrize(
    "index", [3, [1.5], [], [[1]], [188], [-1], torch.ones(3) > 0, torch.tensor(3)]
)
def test_what_selects_no_graphs_is_refused(index: Any) -> None:
    with pytest.raises((InputError, IndexError)):
        load_graphs("MUTAG").batch(index)


def test_to_moves_every_tensor() -> None:
    moved = load_graphs("MUTAG").to("meta")
    fields = ("x", "edge_index", "y", "node_ptr", "edge_ptr", "edge_attr")
    assert {getattr(moved, field).device.type for field in fields} == {"meta"}


def test_degree_scalars_of_a_fold_ignore_other_graphs() -> None:
    train = torch.tensor([2, 0])
    ring = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
    garbage = torch.cat([ring, ring.flip(0)], dim=1).repeat(1, 5)
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    sets = [
        GraphSet.from_graphs(
            [graph(4), graph(9, edge_index=held_out, y=1), graph(3, edge_index=path)],
            features="degree-scalar",
        )
        for held_out in (PAIR, garbage)
    ]
    views = [subset.standardised_on(train).batch(train).x for subset in sets]
    assert torch.equal(views[0], views[1])
    degrees = torch.tensor([1, 2, 1, 1, 1, 0, 0], dtype=torch.float64)
    expected = (degrees - degrees.mean()) / degrees.std(correction=0)
    torch.testing.assert_close(views[1][:, 0].double(), expected, rtol=1e-5, atol=1e-6)
    onehot = load_graphs("MUTAG")
    assert onehot.standardised_on(train) is onehot


def same(ours: GraphSet, theirs: GraphSet) -> bool:
    fields = ("x", "edge_index", "edge_attr", "y", "node_ptr", "edge_ptr")
    return all(torch.equal(getattr(ours, name), getattr(theirs, name)) for name in fields)


def test_a_set_has_a_length_and_gives_its_graphs_and_parts() -> None:
    mutag = load_graphs("MUTAG")
    assert len(mutag) == len([*mutag]) == 188
    for number, actual in ((0, mutag[0]), (187, mutag[-1]), (5, [*mutag][5])):
        expected = mutag.batch(torch.tensor([number]))
        for field in ("x", "edge_index", "edge_attr", "y"):
            assert torch.equal(actual[field], getattr(expected, field))
    with pytest.raises(IndexError):
        mutag[188]
    few = mutag.take(torch.tensor([2, 3, 4]))
    mask = torch.zeros(188, dtype=torch.bool)
    mask[2:5] = True
    for index in (slice(2, 5), [2, 3, 4], np.array([2, 3, 4]), range(2, 5), mask, mask.tolist()):
        assert same(mutag[index], few)
    assert mutag.batch([3, 3]).y.tolist() == mutag.y[[3, 3]].tolist()
    assert "188 graphs" in repr(mutag)
    assert len(repr(mutag)) < 120


def test_data_sets_batches_and_networkx_graphs_make_the_same_set() -> None:
    mutag = load_graphs("MUTAG")[:6]
    drawn = []
    for molecule in mutag:
        graph = nx.Graph(y=int(molecule.y))
        graph.add_nodes_from((v, {"x": row.tolist()}) for v, row in enumerate(molecule.x))
        for (u, v), row in zip(molecule.edge_index.T.tolist(), molecule.edge_attr, strict=True):
            graph.add_edge(u, v, edge_attr=row.tolist())
        drawn.append(graph)
    assert same(GraphSet.from_graphs(mutag), mutag)
    assert same(GraphSet.from_graphs(Batch.from_data_list([*mutag])), mutag)
    theirs = GraphSet.from_graphs(drawn)
    assert torch.equal(theirs.x, mutag.x)
    assert torch.equal(theirs.y, mutag.y)
    for number in range(6):  # NetworkX has its own order of edges
        edges = [
            sorted(zip(g.edge_index.T.tolist(), g.edge_attr.tolist(), strict=True))
            for g in (theirs[number], mutag[number])
        ]
        assert edges[0] == edges[1]


@pytest.mark.parametrize("bad", [nx.path_graph(3), 3, GraphSet])
def test_what_is_no_list_of_graphs_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match=rf"graphs\b.*\blist\b.*\b{type(bad).__name__}$"):
        GraphSet.from_graphs(bad)


@pytest.mark.parametrize(
    ("targets", "y", "n_classes"),
    [
        ([None, None, None], [-1, -1, -1], 0),
        (["b", "a", "b"], [1, 0, 1], 2),
        ([np.int32(7), torch.tensor([7]), 2], [1, 1, 0], 2),
        ([True, False, True], [1, 0, 1], 2),
        ([0.5, 1, torch.tensor(2.0)], [0.5, 1.0, 2.0], 0),
        ([[[0.0, math.nan]], [1, 1], torch.ones(1, 2)], [[0.0, math.nan], [1, 1], [1, 1]], 0),
    ],
)
def test_classes_words_targets_or_none(targets: list[Any], y: list[Any], n_classes: int) -> None:
    ours = GraphSet.from_graphs([graph(y=y) for y in targets])
    expected = torch.tensor(y)
    if expected.is_floating_point():
        expected = torch.tensor(y, dtype=torch.float64)
    torch.testing.assert_close(ours.y, expected, equal_nan=True)
    assert ours.n_classes == n_classes
    assert ours.class_counts.sum() == (3 if n_classes else 0)
    torch.testing.assert_close(ours[[2, 0]].y, ours.y[[2, 0]], equal_nan=True)


# Batches in place of graphs, and what is not read


def paths(n: int = 7) -> list[Data]:
    """Paths of two to n + 1 nodes."""
    return [
        Data(
            x=torch.randn(k, 3, generator=torch.Generator().manual_seed(k)), y=k % 2,
            edge_index=torch.stack([torch.arange(k - 1), torch.arange(1, k)]),
        )
        for k in range(2, n + 2)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [list, iter, lambda loader: loader])
def test_batches_of_a_loader_are_taken_graph_by_graph(kind: Any) -> None:
    graphs = paths()
    loader = DataLoader(graphs, batch_size=3)
    collected = GraphSet.from_graphs(kind(loader), directed=True)
    expected = GraphSet.from_graphs(graphs, directed=True)
    assert len(collected) == len(graphs)
    assert torch.equal(collected.x, expected.x)
    assert torch.equal(collected.edge_index, expected.edge_index)
    assert torch.equal(collected.y, expected.y)
    model = InfoGraph(GIN(3, dim=4, layers=1), method="ucl")
    np.testing.assert_allclose(model.embed(kind(loader)), model.embed(graphs), rtol=1e-5, atol=1e-6)


def test_what_is_not_read_of_graphs_is_named() -> None:
    as_data = Data(edge_index=PAIR, num_nodes=2, pos=np.ones((2, 3)), smiles="C")
    drawn = nx.path_graph(3)
    nx.set_node_attributes(drawn, 1.0, "pos")
    for source in (
        as_data, graph(pos=torch.ones(2, 3)), next(iter(DataLoader([as_data] * 2))), drawn
    ):  # fmt: skip
        with pytest.warns(UserWarning, match=r"not read: pos;") as warned:
            GraphSet.from_graphs([source])
        assert len(warned) == 1
    followed = DataLoader(paths(), batch_size=3, follow_batch=["x"])
    assert len(GraphSet.from_graphs(followed, directed=True)) == 7  # warns of nothing


def test_a_list_of_sets_holds_their_graphs() -> None:
    mutag = load_graphs("MUTAG")[:9]
    for parts in ([mutag], [mutag[:4], mutag[4:]], [*mutag[:4], mutag[4:]]):
        assert same(GraphSet.from_graphs(parts), mutag)
    unlabelled = GraphSet.from_graphs([graph(y=None)] * 3)
    again = GraphSet.from_graphs([unlabelled, unlabelled])
    assert (again.n_graphs, again.n_classes, again.y.tolist()) == (6, 0, [-1] * 6)
    assert unlabelled[0].y is None
    with pytest.raises(InputError, match=r"\bgraph 3\b.*\by\b"):
        GraphSet.from_graphs([GraphSet.from_graphs([graph(y=y) for y in (1, 2, 1)]), unlabelled])


def test_a_subset_is_read_as_the_graphs_it_holds() -> None:
    mutag = load_graphs("MUTAG")[:9]
    drawn = random_split([*mutag], [5, 4], torch.Generator().manual_seed(0))[0]
    for subset, ids in (
        (Subset(mutag, [3, 1]), [3, 1]), (Subset(mutag, torch.tensor([3, 1])), [3, 1]),
        (Subset([*mutag], torch.tensor([3, 1])), [3, 1]), (drawn, drawn.indices),
        (ConcatDataset([mutag, Subset(mutag, [0])]), [*range(9), 0]),
    ):  # fmt: skip
        assert same(GraphSet.from_graphs(subset), GraphSet.from_graphs([mutag[i] for i in ids]))


# Batches that were changed after they were made


def attributed() -> list[Data]:
    """Paths in both directions, with features of edges."""
    graphs = [transforms.ToUndirected()(path) for path in paths()]
    for path in graphs:
        path.edge_attr = path.edge_index.T.float()
    return graphs


def test_features_of_a_batch_may_change() -> None:
    batch = Batch.from_data_list(attributed())
    batch.x = batch.x * 2
    whole = GraphSet.from_graphs(attributed())
    assert same(GraphSet.from_graphs([batch]), replace(whole, x=whole.x * 2))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("edge_index", lambda old: old[:, :-1]),
        ("edge_index", lambda old: torch.cat([old, old[:, -2:]], 1)),
        ("edge_index", lambda old: old + 1),
        ("edge_index", lambda old: torch.where(old == 4, 0, old)),
        ("edge_index", lambda old: old.flip(1)),
        ("x", lambda old: torch.cat([old, old])),
        ("edge_attr", lambda old: torch.cat([old, old])),
        ("batch", lambda old: old[1:]),
        ("batch", lambda old: old.flip(0)),
        ("y", lambda _: torch.tensor([0, 1, 1])),
    ],
)
def test_a_batch_whose_parts_no_longer_fit_is_refused(field: str, change: Any) -> None:
    batch = Batch.from_data_list(attributed()[:2])  # of 2 and 3 nodes, 2 and 4 edges
    batch[field] = change(batch[field])
    with pytest.raises((InputError, RuntimeError)):  # ours, or PyTorch Geometric's
        GraphSet.from_graphs([batch])


def test_a_batch_that_pyg_cannot_take_apart_is_refused() -> None:
    whole = GraphSet.from_graphs(paths(), directed=True)
    by_hand = Data(x=torch.ones(4, 3), edge_index=torch.tensor([[0, 2], [1, 3]]),
                   batch=torch.tensor([0, 0, 1, 1]))  # fmt: skip
    for batches in ([whole.batch(torch.arange(3))], [by_hand]):
        with pytest.raises(InputError, match="batch"):
            GraphSet.from_graphs(batches, directed=True)


def test_a_graph_without_an_edge_needs_no_edge_features() -> None:
    line = nx.path_graph(3)
    nx.set_edge_attributes(line, [1.0, 2.0], "edge_attr")
    for graphs in (
        [line, nx.empty_graph(1)],
        [nx.empty_graph(2), line],
        *([Data(edge_index=PAIR, edge_attr=torch.ones(2, 2), num_nodes=2),
           Data(edge_index=PAIR[:, :0], num_nodes=1, edge_attr=none)]
          for none in (None, torch.empty(0), torch.empty(0, 0))),
    ):  # fmt: skip
        collected = GraphSet.from_graphs(graphs)
        assert collected.edge_attr is not None
        assert collected.edge_attr.shape == (collected.edge_index.shape[1], 2)
    with pytest.raises(InputError, match=r"edge_attr\b.*\bgraph 1\b"):
        GraphSet.from_graphs([graphs[0], Data(edge_index=PAIR, num_nodes=2)])


def test_sparse_features_are_told_to_be_dense() -> None:
    with pytest.raises(InputError, match=r"\bx\b.*\bgraph 0\b.*to_dense"):
        GraphSet.from_graphs([Data(x=torch.eye(2).to_sparse(), edge_index=PAIR, y=0)])


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (lambda y: torch.tensor([y]), torch.float32),
        (lambda y: torch.tensor([y]).half(), torch.float32),
        (lambda y: torch.tensor(y).bfloat16(), torch.float32),
        (np.float32, torch.float32),
        (lambda y: y, torch.float64),
        (np.float64, torch.float64),
        (lambda y: torch.tensor([y], dtype=torch.float64), torch.float64),
        (lambda y: torch.tensor([y]) if y else 0, torch.float64),
    ],
)
def test_targets_have_the_precision_they_are_given_in(convert: Any, dtype: torch.dtype) -> None:
    collected = GraphSet.from_graphs([graph(y=convert(k / 8)) for k in range(4)])
    assert collected.y.dtype == dtype
    assert collected.y.tolist() == [0, 0.125, 0.25, 0.375]


def test_targets_keep_double_precision_and_none_is_beyond_single() -> None:
    energies = [1e9 + 1, 1e9 + 2, math.nan]
    assert GraphSet.from_graphs([graph(y=y) for y in energies]).y[:2].tolist() == energies[:2]
    for bad in (1e39, math.inf):
        with pytest.raises(InputError) as caught:
            GraphSet.from_graphs([graph(y=1.0), graph(y=bad)])
        assert says(str(caught.value), "graph", 1, f"{bad:g}")


# Attributes by their names


def named(values: dict[str, list[Any]], edges: list[tuple[int, int]] | None = None) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(len(next(iter(values.values())))))
    graph.add_edges_from(edges or [])
    for name, column in values.items():
        nx.set_node_attributes(graph, dict(enumerate(column)), name)
    return graph


def test_words_and_whole_numbers_become_columns_of_their_values() -> None:
    graphs = [
        named({"kind": ["b", "a"], "n": [3, 1], "w": [0.5, 2.0]}),
        named({"kind": ["c"], "n": [1], "w": [1.0]}),
    ]
    collected = GraphSet.from_graphs(graphs, node_attrs=["kind", "n", "w"])
    rows = [dict(zip(collected.columns, row, strict=True)) for row in collected.x.tolist()]
    for row, kind, n, w in zip(rows, "bac", (3, 1, 1), (0.5, 2.0, 1.0), strict=True):
        assert row["w"] == w
        assert {name for name, value in row.items() if value and name != "w"} == {
            f"kind={kind}",
            f"n={n}",
        }


@pytest.mark.parametrize(
    ("graphs", "attrs"),
    [
        ([{"v": ["a", 1]}], ["v"]),
        ([{"v": ["a"]}, {"v": [1]}], ["v"]),
        ([{"v": [True]}, {"v": [1]}], ["v"]),
        ([{"v": [float("nan")]}], ["v"]),
        ([{"v": [1.0]}, {"v": [[1.0, 2.0]]}], ["v"]),
        ([{"v": [["a", "b"]]}], ["v"]),
    ],
)
def test_attributes_that_can_be_read_in_two_ways_are_refused(graphs: Any, attrs: Any) -> None:
    with pytest.raises(InputError, match="v"):
        GraphSet.from_graphs([named(attributes) for attributes in graphs], node_attrs=attrs)


def test_graphs_without_edges_need_no_attributes_of_them() -> None:
    linked, alone = named({"x": [1.0, 2.0]}, [(0, 1)]), named({"x": [1.0]})
    linked.edges[0, 1]["bond"] = "single"
    for graphs in ([linked, alone], [alone, linked]):
        collected = GraphSet.from_graphs(graphs, node_attrs=["x"], edge_attrs=["bond"])
        assert collected.edge_columns == ("bond=single",)
        assert collected.edge_attr is not None
        assert collected.edge_attr.tolist() == [[1.0], [1.0]]


def test_classes_keep_the_words_that_the_graphs_had() -> None:
    pair = torch.tensor([[0, 1], [1, 0]])
    words = ["toxic", "safe", "toxic", "harmless"]
    graphs = [
        SimpleNamespace(x=None, edge_attr=None, edge_index=pair, y=word, num_nodes=2)
        for word in words
    ]
    collected = GraphSet.from_graphs(graphs)
    assert [collected.class_names[k] for k in collected.y.tolist()] == words
    part = collected[:2]
    assert [part.class_names[k] for k in part.y.tolist()] == words[:2]
    numbers = [
        SimpleNamespace(**{**vars(single), "y": float(k)}) for k, single in enumerate(graphs)
    ]
    assert GraphSet.from_graphs(numbers).class_names == ()
