"""A graph with classes of nodes: made of others' graphs, checked, and what was done counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from torch import Tensor
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import NormalizeFeatures, ToSparseTensor

from gcl_hard import InputError, fit
from gcl_hard.files.io import digest_of_arrays
from gcl_hard.nodes import GCN, NodeContrast, NodeSet
from tests.said import says

NAN = float("nan")


def path_graph(**fields: Any) -> Data:
    """Four nodes in a row, of two classes."""
    defaults: dict[str, Any] = {
        "x": torch.arange(8.0).view(4, 2), "y": torch.tensor([0, 0, 1, 1]),
        "edge_index": torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]]),
    }  # fmt: skip
    return Data(**(defaults | fields))


def random_ends(n: int, e: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, n, (2, e))


def edges_of(nodes: NodeSet) -> list[tuple[int, int]]:
    return [(int(u), int(v)) for u, v in nodes.edge_index.T]


def node_set(ends: Any, n: int, **fields: Any) -> NodeSet:
    y = torch.arange(n) % 2
    return NodeSet.from_graph(path_graph(x=torch.ones(n, 1), y=y, edge_index=ends, **fields))


@pytest.mark.parametrize("seed", range(5))
def test_edges_are_those_of_an_undirected_simple_graph(seed: int) -> None:
    ends = random_ends(12, 40, seed)
    simple = nx.Graph()
    simple.add_nodes_from(range(12))
    simple.add_edges_from((u, v) for u, v in ends.T.tolist() if u != v)
    nodes = node_set(torch.from_numpy(ends), 12)
    assert edges_of(nodes) == sorted(nx.DiGraph(simple).edges)
    assert nodes.degree.tolist() == [simple.degree[u] for u in range(12)]


@pytest.mark.parametrize("seed", range(5))
def test_the_notes_count_what_was_done(seed: int) -> None:
    ends = random_ends(30, 40, seed)
    pairs = [tuple(pair) for pair in ends.T.tolist()]
    other = [pair for pair in pairs if pair[0] != pair[1]]
    done = {
        "made symmetric": sum((v, u) not in other for u, v in set(other)),
        "self-loop": len(pairs) - len(other),
        "repeated": len(other) - len(set(other)),
        "isolated": 30 - len({node for pair in other for node in pair}),
    }
    notes = node_set(torch.from_numpy(ends), 30).notes
    assert len(notes) == sum(n > 0 for n in done.values())
    for change, n in done.items():
        assert not n or any(change in note and says(note, n) for note in notes)


def test_scaled_features_have_a_note_once() -> None:
    nodes = node_set(torch.tensor([[0, 1], [1, 2]]), 4)
    scaled = nodes.normalised()
    (note,) = {*scaled.notes} - {*nodes.notes}
    assert says(note, 1, "features")
    assert scaled.normalised().notes == scaled.notes


@pytest.mark.parametrize("gap", [None, NAN, np.float64(NAN)])
def test_attributes_with_gaps_are_refused_with_what_fills_them(gap: float | None) -> None:
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: 3.0, 1: gap, 2: 4.0}, "age")
    for x in ("age", ["age"]):
        with pytest.raises(InputError) as refusal:
            NodeSet.from_graph(graph, x=x)
        assert says(str(refusal.value), 1, 3, "age", "NodeSet.from_tables")


@pytest.mark.parametrize("seed", range(5))
def test_an_edge_of_one_direction_has_its_weight_in_both(seed: int) -> None:
    ends = random_ends(9, 25, seed)
    weight_of = {pair: 1 + abs(hash(pair)) % 7 / 4 for pair in map(frozenset, ends.T.tolist())}
    weight = torch.tensor([weight_of[frozenset(pair)] for pair in ends.T.tolist()])
    nodes = node_set(torch.from_numpy(ends), 9, edge_weight=weight)
    expected = [weight_of[frozenset(pair)] for pair in edges_of(nodes)]
    assert nodes.edge_weight is not None
    assert nodes.edge_weight.tolist() == expected


def test_weights_that_differ_by_rounding_are_the_same() -> None:
    weight = torch.tensor([0.1 + 0.2, 2, 3, 0.3, 2, 3], dtype=torch.float64) * (1 + 1e-7)
    weight[3] = 0.3
    nodes = NodeSet.from_graph(path_graph(edge_weight=weight))
    assert nodes.edge_weight is not None
    assert nodes.edge_weight[0] == nodes.edge_weight[1] == pytest.approx(0.3)


def test_weights_that_differ_between_directions_are_refused() -> None:
    weight = torch.tensor([1.0, 2, 3, 1, 5, 3])
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(edge_weight=weight))
    assert says(str(error.value), "edge 2 to 1", "weights")


@pytest.mark.parametrize("bad", [0.0, -1.0, NAN, float("inf"), 1e39])
def test_weights_are_finite_and_above_0(bad: float) -> None:
    weight = torch.tensor([1, 1, bad, 1, 1, bad], dtype=torch.float64)
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(edge_weight=weight))
    assert says(str(error.value), "weights")


@pytest.mark.filterwarnings("ignore:Sparse")  # of PyTorch, when its tensors are made
def test_adjacency_matrices_of_pytorch_geometric_and_scipy_give_the_same_graph() -> None:
    data = path_graph(edge_weight=torch.tensor([0.5, 2, 3, 0.5, 2, 3]))
    matrix = sparse.coo_matrix(
        (data.edge_weight.numpy(), tuple(data.edge_index.numpy())), shape=(4, 4)
    )
    adjacency = ToSparseTensor(attr="edge_weight")(data.clone())
    assert "edge_index" not in adjacency
    sets = [NodeSet.from_graph(graph) for graph in (data, adjacency)]
    sets += [NodeSet.from_graph(m, x=data.x, y=data.y) for m in (matrix, matrix.tolil())]
    assert len({nodes.digest for nodes in sets}) == 1
    assert sets[0].edge_weight is not None


def test_zeros_that_an_adjacency_stores_are_no_edges_and_counted() -> None:
    ring = sparse.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(5)))
    zeros = ring.copy()
    zeros.setdiag(0)
    zeros[0, 1] = zeros[1, 0] = 0
    assert zeros.nnz == 15
    stored = torch.sparse_coo_tensor(np.stack(zeros.tocoo().coords), zeros.tocoo().data, (5, 5))
    fields = {"x": torch.ones(5, 1), "y": torch.arange(5) % 2}
    for nodes in (
        NodeSet.from_graph(zeros, **fields),
        NodeSet.from_graph(Data(adj_t=stored.coalesce(), **fields)),
    ):
        assert edges_of(nodes) == [(u, v) for u, v in sorted(nx.DiGraph(nx.cycle_graph(5)).edges)
                                  if {u, v} != {0, 1}]  # fmt: skip
        assert nodes.edge_weight is None
        assert says(nodes.notes[0], 7, "zeros")
    zeros.data[zeros.data == 1] = 2
    weighted = NodeSet.from_graph(zeros, **fields)
    assert weighted.edge_weight is not None
    assert weighted.edge_weight.unique().tolist() == [2]


def test_two_kinds_of_edges_in_a_graph_are_refused() -> None:
    for beside in ({}, {"edge_index": None, "edge_weight": torch.ones(4)}):
        graph = path_graph(adj_t=torch.eye(4).to_sparse(), **beside)
        with pytest.raises(InputError) as error:
            NodeSet.from_graph(graph)
        assert says(str(error.value), "edge_index", "edge_weight", "adj_t")


def test_a_networkx_graph_keeps_the_order_and_names_of_its_nodes() -> None:
    graph = nx.Graph([("c", "a"), ("a", "b")])
    for i, node in enumerate("cab"):
        graph.nodes[node].update(x=[i, 1.5], y="odd" if i % 2 else "even")
    nodes = NodeSet.from_graph(graph, name="letters")
    assert nodes.ids == ("c", "a", "b")
    assert nodes.x.tolist() == [[0, 1.5], [1, 1.5], [2, 1.5]]
    assert nodes.y.tolist() == [0, 1, 0]
    assert nodes.class_names == ("even", "odd")
    assert edges_of(nodes) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert (nodes.name, nodes.edge_weight, nodes.notes) == ("letters", None, ())


def test_directed_graphs_and_multigraphs_of_networkx_are_merged_and_said() -> None:
    for graph, count, word in (
        (nx.DiGraph([(0, 1), (1, 0), (1, 2)]), 1, "symmetric"),
        (nx.MultiGraph([(0, 1), (1, 0), (1, 2)]), 1, "merged"),
    ):
        nodes = NodeSet.from_graph(graph, x=torch.ones(3, 1), y=[0, 1, 1])
        assert edges_of(nodes) == [(0, 1), (1, 0), (1, 2), (2, 1)]
        (note,) = nodes.notes
        assert says(note, count, "edge") or says(note, count, "repeated edge")
        assert word in note


def test_networkx_edges_of_which_some_have_a_weight_are_refused() -> None:
    graph = nx.path_graph(3)
    graph.edges[1, 2]["weight"] = 2.0
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(graph, x=torch.ones(3, 1), y=[0, 1, 1])
    assert says(str(error.value), "weight", "1 of 2")


def shuffled(values: pd.DataFrame | pd.Series) -> Any:
    """Its rows, with their index, in another order."""
    return values.iloc[np.random.default_rng(1).permutation(len(values))]


@pytest.mark.parametrize("kind", ["plain", "sparse"])
def test_what_pandas_holds_is_found_by_the_names_of_the_nodes(kind: str) -> None:
    graph = nx.Graph([("c", "a"), ("a", "d"), ("d", "b"), ("e", "a")])
    age = {"a": 3, "b": 0, "c": 0, "d": 4, "e": 0}
    group = dict(zip("abcde", ("old", "new", "old", "old", "new"), strict=True))
    frame = pd.DataFrame({"age": age, "is_new": {k: v == "new" for k, v in group.items()}})
    if kind == "sparse":
        frame = frame.astype(pd.SparseDtype("float32", 0))
    part = pd.Series([*"tveet"], index=[*"abcde"])
    nodes = NodeSet.from_graph(
        graph, x=shuffled(frame), y=shuffled(pd.Series(group)),
        train=shuffled(part == "t"), val=shuffled(part == "v"), test=shuffled(part == "e"),
    )  # fmt: skip
    assert nodes.ids == ("c", "a", "d", "b", "e")
    assert nodes.columns == ("age", "is_new")
    assert nodes.dense().x.tolist() == [[age[k], group[k] == "new"] for k in "cadbe"]
    assert [nodes.class_names[c] for c in nodes.y] == [group[k] for k in "cadbe"]
    for letter, mask in zip("tve", (nodes.train, nodes.val, nodes.test), strict=True):
        assert mask is not None
        assert mask.tolist() == [[part[k] == letter for k in "cadbe"]]


def test_pandas_rows_of_a_graph_without_names_are_found_by_their_numbers() -> None:
    frame = pd.DataFrame([[0.0, 5], [1, 6], [2, 7], [3, 8]])
    for x in (frame, shuffled(frame)):
        nodes = NodeSet.from_graph(path_graph(), x=x, y=shuffled(pd.Series([0, 0, 1, 1])))
        assert nodes.x.tolist() == frame.to_numpy().tolist()
        assert nodes.y.tolist() == [0, 0, 1, 1]
        assert nodes.columns == ()  # numbers are no names
    assert NodeSet.from_graph(path_graph(y=shuffled(pd.Series([0, 0, 1, 1])))).y.tolist() == [
        0, 0, 1, 1
    ]  # fmt: skip


@pytest.mark.parametrize("index", [[*"abcz"], [*"abc"], [*"abcdxw"], [*"abbd"], [0, 1, 2, 3]])
def test_an_index_of_other_names_than_the_nodes_is_refused(index: list[Any]) -> None:
    graph = nx.Graph([("d", "a"), ("a", "c"), ("c", "b")])
    x = pd.DataFrame(np.eye(4), index=[*"abcd"])
    assert NodeSet.from_graph(graph, x=x).n_nodes == 4
    values = np.arange(len(index)) % 2
    for options in ({"x": pd.DataFrame({"age": values}, index)}, {"y": pd.Series(values, index)}):
        with pytest.raises(InputError) as error:
            NodeSet.from_graph(graph, **{"x": x, **options})
        assert says(str(error.value), "index", "to_numpy")
    with pytest.raises(InputError, match="index"):
        NodeSet.from_graph(path_graph(), x=x)


def test_arrays_beside_names_are_said_to_be_in_the_graphs_order() -> None:
    graph = nx.Graph([(2, 0), (0, 1)])
    with pytest.warns(UserWarning, match=r"y and train.*2 first"):
        NodeSet.from_graph(
            graph, x=pd.DataFrame(np.eye(3)), y=[0, 1, 0],
            train=[True, False, False], val=pd.Series([True, False, False]),
            test=pd.Series([False, True, False]),
        )  # fmt: skip
    numbered = nx.path_graph(3)
    assert NodeSet.from_graph(numbered, x=np.eye(3), y=[0, 1, 0]).x.tolist() == np.eye(3).tolist()


def test_columns_of_a_frame_that_are_no_numbers_are_named() -> None:
    frame = pd.DataFrame({"age": [1, 2.5, 3, 4], "is_new": [True, False, True, True]})
    nodes = NodeSet.from_graph(path_graph(), x=frame)
    assert nodes.x.tolist() == [[1, 1], [2.5, 0], [3, 1], [4, 1]]
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(), x=frame.assign(segment=[*"abca"]), name="mine")
    assert says(str(error.value), "mine", "'segment'", "get_dummies")
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(), x=frame.assign(age=pd.array([1, None, 3, 4], "Int64")))
    assert says(str(error.value), "node 1", "NaN")
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(), x=pd.concat([frame, frame], axis=1))
    assert says(str(error.value), "columns", 4)


def test_a_node_without_an_attribute_y_has_no_known_class() -> None:
    graph = nx.path_graph(4)
    for node, y in enumerate([5, None, 7, 5]):
        graph.nodes[node].update({"x": [1.0]} | ({} if y is None else {"y": y}))
    nodes = NodeSet.from_graph(graph)
    assert nodes.y.tolist() == [0, -1, 1, 0]
    assert nodes.class_names == ("5", "7")
    assert says(nodes.notes[0], 1, "label")


@pytest.mark.parametrize(
    ("y", "expected", "names"),
    [
        (torch.tensor([2, 1, 0, 2]), [2, 1, 0, 2], ("0", "1", "2")),
        (torch.tensor([[9], [4], [9], [4]]), [1, 0, 1, 0], ("4", "9")),
        (torch.tensor([0.0, NAN, 1.0, NAN]), [0, -1, 1, -1], ("0", "1")),
        (np.array(["b", "", "a", "b"]), [1, -1, 0, 1], ("a", "b")),
        (["b", None, "a", "b"], [1, -1, 0, 1], ("a", "b")),
        ([3, None, NAN, 1], [1, -1, -1, 0], ("1", "3")),
        (torch.tensor([True, False, True, True]), [1, 0, 1, 1], ("False", "True")),
        (np.array([-2, 5, -2, 5], np.int8), [0, 1, 0, 1], ("-2", "5")),
        (torch.tensor([2, -1, 1, -1]), [1, -1, 0, -1], ("1", "2")),
        (pd.Series(["b", pd.NA, "a", "b"], dtype="string"), [1, -1, 0, 1], ("a", "b")),
        (pd.Series(pd.Categorical(["b", None, "a", "b"])), [1, -1, 0, 1], ("a", "b")),
        (pd.Series([3, None, 1, 3], dtype="Int64"), [1, -1, 0, 1], ("1", "3")),
    ],
)
def test_classes_are_numbered_and_keep_their_names(
    y: Any, expected: list[int], names: tuple[str, ...]
) -> None:
    nodes = NodeSet.from_graph(path_graph(), y=y)
    assert nodes.y.dtype == torch.int64
    assert nodes.y.tolist() == expected
    assert nodes.class_names == names


@pytest.mark.parametrize(
    ("y", "facts"),
    [
        (torch.tensor([1, -1, 1, -1]), ["−1", "NaN"]),
        (torch.tensor([-2.0, -1.0, 1.0, NAN]), ["−1", "NaN"]),
        (torch.tensor([0.0, 1.5, 0.25, 1.0]), [1.5]),
        (torch.tensor([0.0, float("inf"), 0, 1]), ["inf"]),
        (torch.eye(4), ["[4, 4]", "[4]"]),
        (torch.tensor([0, 1]), ["[2]", "[4]"]),
        (["a", 1, "b", 2], ["words", "numbers"]),
        (np.array(["a", NAN, "b", "a"]), ["'nan'", "class", "unknown"]),
        ([object(), 1, 2, 3], ["integers", "words"]),
        (np.array([1j, 2, 3, 4]), ["complex128"]),
    ],
)
def test_labels_that_are_no_classes_are_refused(y: Any, facts: list[Any]) -> None:
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(), y=y, name="mine")
    assert says(str(error.value), "mine", *facts)


@pytest.mark.parametrize(
    ("x", "facts"),
    [
        (torch.tensor([[1.0], [NAN], [float("inf")], [2.0]]), ["node 1"]),
        (torch.tensor([[1.0], [2.0], [1e39], [2.0]], dtype=torch.float64), ["node 2"]),
        (sparse.csr_array(np.diag([1, 1, NAN, NAN])), ["node 2"]),
        (torch.ones(4), ["[4]", "[N, F]"]),
        (torch.ones(4, 0), ["[4, 0]", "[N, F]"]),
        (np.array([["a"]] * 4), ["[4, 1]", "numbers"]),
        (torch.ones(4, 1, dtype=torch.complex64), ["complex64"]),
    ],
)
def test_features_that_are_no_finite_numbers_are_refused(x: Any, facts: list[Any]) -> None:
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(), x=x, name="mine")
    assert says(str(error.value), "mine", "x", *facts)


@pytest.mark.parametrize(
    ("ends", "facts"),
    [
        (torch.tensor([[0, 4], [1, 0]]), ["0..3"]),
        (torch.tensor([[0, -1, -2], [1, 0, 1]]), ["0..3"]),
        (torch.tensor([[0.0], [1.0]]), ["float32", "[2, E]"]),
        (torch.tensor([[0, 1, 2]]), ["[1, 3]", "[2, E]"]),
    ],
)
def test_edges_that_do_not_fit_are_refused(ends: Tensor, facts: list[Any]) -> None:
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(edge_index=ends), name="mine")
    assert says(str(error.value), "mine", *facts)


def test_a_graph_without_edges_is_one() -> None:
    nodes = NodeSet.from_graph(path_graph(edge_index=torch.empty(2, 0, dtype=torch.long)))
    assert nodes.degree.tolist() == [0, 0, 0, 0]
    assert says(nodes.notes[0], 4, "isolated")


def masks(*columns: str) -> dict[str, Tensor]:
    """The masks of a graph of PyTorch Geometric; a letter for each node of each split."""
    letters = np.array([list(column) for column in columns]).T
    parts = {"train": "t", "val": "v", "test": "e"}
    return {f"{part}_mask": torch.from_numpy(letters == letter) for part, letter in parts.items()}


def test_masks_of_pytorch_geometric_are_the_given_splits() -> None:
    several = masks("tvee", "etv.", "vete")
    nodes = NodeSet.from_graph(path_graph(**several))
    for part in ("train", "val", "test"):
        assert torch.equal(getattr(nodes, part), several[f"{part}_mask"].T)
    once = NodeSet.from_graph(path_graph(**{k: mask[:, 0] for k, mask in several.items()}))
    assert once.test is not None
    assert once.test.tolist() == [[False, False, True, True]]


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"val_mask": torch.tensor([True, True, False, True])}, ["split 0", "node 0"]),
        ({"val_mask": torch.zeros(4, dtype=torch.bool)}, ["val", "split"]),
        ({"val_mask": None}, ["val", "train", "test"]),
        ({"val_mask": torch.ones(3, dtype=torch.bool)}, ["val", "[3]", "[4]"]),
        ({"val_mask": torch.tensor([0, 2, 0, 0])}, ["val", "int64", "[4]"]),
        ({"y": torch.tensor([0.0, NAN, 1, 1])}, ["split 0", "node 1", "label"]),
    ],
)
def test_masks_that_do_not_fit_are_refused(change: dict[str, Any], facts: list[Any]) -> None:
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(**(masks("tvee") | change)), name="mine")
    assert says(str(error.value), "mine", *facts)


def test_masks_of_different_numbers_of_splits_are_refused() -> None:
    stored = masks("tvee", "tvee") | {"test_mask": masks("tvee", "tvee", "tvee")["test_mask"]}
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(path_graph(**stored))
    assert says(str(error.value), "splits", 2, 3)


@pytest.mark.parametrize(
    ("graph", "facts"),
    [
        (path_graph(x=None), ["x", "torch_geometric.transforms"]),
        (path_graph(num_nodes=6), ["x", 4, 6]),
        (path_graph(edge_index=None), ["edge_index", "adj_t"]),
        (nx.path_graph(3), ["x", "torch_geometric.transforms"]),
        (sparse.eye_array(3), ["x", "torch_geometric.transforms"]),
        (HeteroData({"author": {"x": torch.ones(2, 1)}}), ["to_homogeneous"]),
        ([1, 2], ["list", "Data", "NetworkX", "SciPy"]),
    ],
)
def test_a_graph_that_lacks_something_is_refused(graph: Any, facts: list[Any]) -> None:
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(graph)
    assert says(str(error.value), *facts)


@pytest.mark.parametrize("y", [None, torch.full((4,), NAN)])
def test_a_graph_without_labels_is_trained_on_and_embedded(y: Any) -> None:
    nodes = NodeSet.from_graph(path_graph(y=y))
    assert nodes.class_names == ()
    assert nodes.y.tolist() == [-1] * 4
    assert says(nodes.notes[-1], 4, "without a label")
    values = {}
    for method in ("hucl", "hscl"):  # which is hucl where no label is known
        torch.manual_seed(0)
        model = NodeContrast(GCN(2, dim=3), method=method, beta=1.0)
        values[method] = fit(model, nodes, epochs=2)
    assert values["hscl"] == pytest.approx(values["hucl"])
    assert model.embed(nodes).shape == (4, 3)
    assert NodeSet.from_graph(path_graph(y=torch.full((4,), 3.0))).class_names == ("3",)


def test_labels_outside_training_change_nothing() -> None:
    train, losses = torch.tensor([True, True, False, False]), []
    for y in ([0, 0, 0, 1], [0, 0, 1, 0]):
        graph = path_graph(y=torch.tensor(y))
        val, test = torch.eye(4, dtype=torch.bool)[2:]
        nodes = NodeSet.from_graph(graph, train=train, val=val, test=test)
        graph.train_mask = train
        for data in (nodes, DataLoader([graph])):
            torch.manual_seed(0)
            model = NodeContrast(GCN(2, dim=3), method="hscl", beta=1.0)
            losses.append(fit(model, data, epochs=2))
    assert losses[:2] == losses[2:]


def test_names_of_nodes_belong_to_the_data_and_may_be_alike() -> None:
    plain = NodeSet.from_graph(path_graph())
    named = [replace(plain, ids=ids) for ids in (("a", "b", "c", "d"), ("a", "b", "c", "e"))]
    assert len({nodes.digest for nodes in (plain, *named)}) == 3
    graph = nx.Graph([(1, "1"), ("1", 2)])
    with pytest.warns(UserWarning, match="order"):
        nodes = NodeSet.from_graph(graph, x=np.eye(3), y=[0, 1, 0])
    assert any(says(note, 1, "called as another") for note in nodes.notes)


class SomeGraphs(InMemoryDataset):  # type: ignore[misc]
    def __init__(self, graphs: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def test_a_data_set_of_one_graph_is_that_graph_and_one_of_several_is_refused() -> None:
    graph = path_graph()
    alone = NodeSet.from_graph(SomeGraphs([graph]))
    assert alone.digest == NodeSet.from_graph(graph).digest
    with pytest.raises(InputError) as error:
        NodeSet.from_graph(SomeGraphs([graph, graph]))
    assert says(str(error.value), 2, "graphs")


def test_attributes_that_are_not_read_are_named() -> None:
    with pytest.warns(UserWarning, match="edge_attr.*time"):
        NodeSet.from_graph(path_graph(edge_attr=torch.ones(6, 2), time=torch.ones(4)))
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, 1.0, "age")
    nx.set_edge_attributes(graph, 1.0, "length")
    with pytest.warns(UserWarning, match="age.*length"):
        NodeSet.from_graph(graph, x=torch.ones(3, 1), y=[0, 1, 1])


def test_sparse_features_stay_sparse_where_few_are_not_0() -> None:
    generator = np.random.default_rng(0)
    for share, from_sparse, from_dense in ((0.05, True, True), (0.2, True, False), (0.3, 0, 0)):
        x = np.zeros(400)
        x[generator.permutation(400)[: int(400 * share)]] = 1
        x = x.reshape(20, 20)
        ends, y = torch.empty(2, 0, dtype=torch.long), np.arange(20) % 2
        graph = path_graph(edge_index=ends, y=y, x=None)
        stored = [sparse.csr_array(x), sparse.coo_matrix(x), torch.from_numpy(x).to_sparse_csr()]
        sets = [NodeSet.from_graph(graph, x=features) for features in stored]
        assert [nodes.is_sparse for nodes in sets] == [from_sparse] * 3
        dense = NodeSet.from_graph(graph, x=x)
        assert dense.is_sparse == from_dense
        for nodes in (*sets, dense):
            assert nodes.dense().x.tolist() == x.tolist()
            assert nodes.x.dtype == torch.float32


def test_zeros_that_are_stored_are_left_out_and_the_given_matrix_stays() -> None:
    x = sparse.csr_array(np.eye(20, dtype=np.float32))
    x.data[3] = 0
    graph = path_graph(edge_index=torch.tensor([[0], [1]]), y=torch.arange(20) % 2)
    nodes = NodeSet.from_graph(graph, x=x)
    assert nodes.x.values().numel() == 19
    assert x.nnz == 20
    assert nodes.dense().x.tolist() == x.toarray().tolist()


def test_repeated_entries_of_a_matrix_are_added_and_the_given_one_stays() -> None:
    weights, columns, starts = np.ones(6), np.array([1, 1, 0, 0, 3, 2]), np.array([0, 2, 4, 5, 6])
    matrix = sparse.csr_array((weights, columns, starts), shape=(4, 4))
    nodes = NodeSet.from_graph(matrix, x=matrix, y=[0, 1, 0, 1])
    assert nodes.edge_weight is not None
    assert nodes.edge_weight.tolist() == [2, 2, 1, 1]
    assert nodes.dense().x.tolist() == [[0, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert matrix.data.tolist() == [1] * 6
    assert matrix.indices.tolist() == columns.tolist()
    assert matrix.indptr.tolist() == [0, 2, 4, 5, 6]


def wide(*, stored_sparse: bool) -> NodeSet:
    """Ten nodes with 30 features, of which few are not 0; node 4 has none."""
    x = sparse.random_array((10, 30), density=0.09, rng=np.random.default_rng(1)).toarray()
    x[4] = 0
    y, ends = torch.arange(10) % 3, torch.tensor([[0, 4, 8], [3, 1, 9]])
    nodes = NodeSet.from_graph(path_graph(x=torch.from_numpy(x), y=y, edge_index=ends))
    assert nodes.is_sparse
    return nodes if stored_sparse else nodes.dense()


@pytest.mark.parametrize("stored_sparse", [True, False])
def test_rows_are_the_features_of_some_nodes(stored_sparse: bool) -> None:
    nodes = wide(stored_sparse=stored_sparse)
    mask = torch.arange(10) > 6
    for ids in ([4, 0, 0, 9], torch.tensor([7]), mask):
        rows = nodes.rows(ids)
        assert rows.layout == nodes.x.layout
        assert torch.equal(rows.to_dense(), nodes.dense().x[torch.as_tensor(ids)])
    for wrong in ([10], [], [0.5]):
        with pytest.raises((InputError, IndexError)):
            nodes.rows(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("stored_sparse", [True, False])
def test_normalised_rows_are_those_of_pytorch_geometric(stored_sparse: bool) -> None:
    nodes = wide(stored_sparse=stored_sparse)
    scaled = torch.where(nodes.dense().x > 0, nodes.dense().x + 1, 0)  # it divides by no less
    expected = NormalizeFeatures()(Data(x=scaled)).x
    normalised = NodeSet.from_graph(path_graph(), x=scaled, y=nodes.y).normalised()
    assert torch.allclose(normalised.dense().x, expected)
    assert nodes.normalised().is_sparse == stored_sparse
    sums = nodes.normalised().dense().x.sum(dim=1)
    assert torch.allclose(sums, (nodes.dense().x.sum(dim=1) > 0).float())


@pytest.mark.parametrize("stored_sparse", [True, False])
def test_negative_features_are_not_normalised(stored_sparse: bool) -> None:
    x = wide(stored_sparse=stored_sparse).x
    nodes = NodeSet.from_graph(path_graph(), x=-x, y=torch.arange(10) % 2, name="mine")
    with pytest.raises(InputError) as error:
        nodes.normalised()
    assert says(str(error.value), "mine", "negative")


@pytest.mark.parametrize("stored_sparse", [True, False])
def test_columns_are_found_by_their_names(stored_sparse: bool) -> None:
    nodes = wide(stored_sparse=stored_sparse)
    x = nodes.dense().x
    names = tuple(f"word={k}" for k in range(30))
    named = replace(nodes, columns=names)
    order = np.random.default_rng(0).permutation(30)
    wanted = [names[k] for k in order]
    moved = named.aligned([*wanted[:7], "word=new", *wanted[7:]])
    assert moved.columns == (*wanted[:7], "word=new", *wanted[7:])
    assert moved.is_sparse == stored_sparse
    expected = torch.cat([x[:, order[:7]], torch.zeros(10, 1), x[:, order[7:]]], 1)
    assert torch.equal(moved.dense().x, expected)
    assert named.aligned(names) is named
    used = int((x != 0).any(0).nonzero()[0])
    with pytest.raises(InputError) as error:
        named.aligned([name for name in names if name != f"word={used}"])
    assert says(str(error.value), f"word={used}")
    with pytest.raises(InputError) as error:
        named.aligned([*names, "age"])
    assert says(str(error.value), "age")


def test_the_digest_tells_any_change_and_sets_without_names_of_columns_keep_theirs() -> None:
    nodes = NodeSet.from_graph(
        path_graph(edge_weight=torch.tensor([0.5, 2, 3, 0.5, 2, 3]), **masks("tvee"))
    )
    changes: list[dict[str, Any]] = [{"edge_weight": None}, {"columns": ("a", "b")}]
    for name in ("x", "edge_index", "y", "edge_weight", "train", "val", "test"):
        changes.append({name: getattr(nodes, name).flip(-1)})
    digests = {replace(nodes, **change).digest for change in ({}, *changes)}
    assert len(digests) == 1 + len(changes)
    assert replace(nodes, name="another").to("cpu").digest == nodes.digest
    plain = NodeSet.from_graph(path_graph())
    x, ends, y = (tensor.numpy() for tensor in (plain.x, plain.edge_index, plain.y))
    assert plain.digest == digest_of_arrays(x, [4, 2], ends, y, [], [], [], [])


def test_a_set_moves_with_all_its_tensors() -> None:
    nodes = NodeSet.from_graph(
        path_graph(edge_weight=torch.tensor([1.0, 2, 3, 1, 2, 3]), **masks("tvee"))
    )
    assert nodes.degree.device.type == "cpu"
    moved = nodes.to("meta")
    tensors = [value for value in vars(moved).values() if isinstance(value, Tensor)]
    assert len(tensors) == 7
    assert {value.device.type for value in tensors} == {"meta"}
    assert moved.class_names == nodes.class_names


def test_a_column_that_hides_the_others_is_warned_of() -> None:
    ring = nx.cycle_graph(12)
    rng = np.random.default_rng(0)
    nx.set_node_attributes(ring, dict(enumerate(rng.random(12))), "age")
    nx.set_node_attributes(ring, dict(enumerate(10_000 + rng.random(12))), "postcode")
    with pytest.warns(UserWarning, match="postcode"):
        NodeSet.from_graph(ring, x=["age", "postcode"])
    nx.set_node_attributes(ring, dict(enumerate(rng.random(12))), "postcode")
    NodeSet.from_graph(ring, x=["age", "postcode"])  # warnings are errors in these tests
