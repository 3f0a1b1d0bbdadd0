"""Batches sliced from a pre-collated set against PyTorch Geometric's reader and collation."""

from __future__ import annotations

import itertools
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gcl_hard.errors import InputError
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.order import epoch_batches, epoch_chunks
from gcl_hard.graphs.tudataset import MANIFEST, PACKAGED, load

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
    from torch_geometric.data import Data
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
    from torch_geometric.data import Batch

    graphs = pyg_graphs(name, tmp_path)
    ours = load(name, data_dir=zip_of(name).parent)
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
    ours, theirs = load("MUTAG", download=False), GraphSet.from_graphs(graphs, name="mine")
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
    ("bad", "message"),
    [
        (graph(y=None), "graph 1 has no y"),
        (graph(y=1.0), r"graph 1 has y of torch.float32 \[\]; expected one integer label"),
        (graph(y=torch.tensor([1, 2])), r"graph 1 has y of torch.int64 \[2\]"),
        (graph(y=torch.tensor([True])), "graph 1 has y of torch.bool"),
        (graph(0), "graph 1 has no nodes"),
        (graph(edge_index=PAIR + 1), r"edge_index of graph 1 names nodes outside 0..1"),
        (graph(edge_index=PAIR.float()), r"edge_index of graph 1 is torch.float32 \[2, 2\]"),
        (graph(edge_index=None), "edge_index of graph 1 is None"),
        (graph(x=torch.ones(2, 3)), "x of graph 0 is None; every graph needs the same columns"),
        (graph(edge_attr=torch.ones(2)), "edge_attr of graph 0 is None"),
    ],
)
def test_from_graphs_names_the_graph_that_is_wrong(bad: SimpleNamespace, message: str) -> None:
    with pytest.raises(InputError, match=message):
        GraphSet.from_graphs([graph(), bad])


def test_from_graphs_refuses_what_no_single_graph_shows() -> None:
    with pytest.raises(InputError, match="graphs is empty"):
        GraphSet.from_graphs([])
    with pytest.raises(InputError, match=r"x of graph 1 is \[2, 4\]"):
        GraphSet.from_graphs([graph(x=torch.ones(2, 3)), graph(x=torch.ones(2, 4))])
    with pytest.raises(InputError, match="x holds NaN or infinite"):
        GraphSet.from_graphs([graph(x=torch.full((2, 1), float("nan")))])
    with pytest.raises(InputError, match="edge_attr of graph 0 has 3 rows for 2 edges"):
        GraphSet.from_graphs([graph(edge_attr=torch.ones(3, 1))])


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (torch.tensor([0.0]), r"index is torch.float32 \[1\]"),
        (torch.tensor(3), r"index is torch.int64 \[\]"),
        (torch.tensor([], dtype=torch.int64), r"index is torch.int64 \[0\]"),
        (torch.tensor([-1, 2]), r"graph ids -1..2; this set has 0..187"),
        (torch.tensor([188]), r"graph ids 188..188; this set has 0..187"),
    ],
)
def test_batch_refuses_a_wrong_index(index: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load("MUTAG", download=False).batch(index)


def test_to_moves_every_tensor() -> None:
    moved = load("MUTAG", download=False).to("meta")
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
    views = [one.standardised_on(train).batch(train).x for one in sets]
    assert torch.equal(views[0], views[1])
    degrees = torch.tensor([1, 2, 1, 1, 1, 0, 0], dtype=torch.float64)
    expected = (degrees - degrees.mean()) / degrees.std(correction=0)
    torch.testing.assert_close(views[1][:, 0].double(), expected, rtol=1e-5, atol=1e-6)
    onehot = load("MUTAG", download=False)
    assert onehot.standardised_on(train) is onehot


@pytest.mark.parametrize("batch_size", [2, 3, 50, 500])
def test_every_epoch_visits_every_graph_once_in_its_own_order(batch_size: int) -> None:
    epochs = [epoch_batches(101, batch_size, seed=3, epoch=e) for e in (1, 2)]
    for batches in epochs:
        assert sorted(torch.cat(batches).tolist()) == list(range(101))
        assert min(len(batch) for batch in batches) >= 2
        assert all(len(batch) == batch_size for batch in batches[:-1])
    assert not torch.equal(torch.cat(epochs[0]), torch.cat(epochs[1]))
    again = epoch_batches(101, batch_size, seed=3, epoch=2)
    assert all(torch.equal(a, b) for a, b in zip(again, epochs[1], strict=True))
    other = epoch_batches(101, batch_size, seed=4, epoch=2)
    assert not torch.equal(torch.cat(other), torch.cat(again))


def test_held_out_graphs_leave_the_order_of_the_others_alone() -> None:
    everything = torch.cat(epoch_batches(60, 8, seed=0, epoch=5))
    for fold in range(10):
        held_out = torch.arange(fold, 60, 10)
        batches = epoch_batches(60, 8, seed=0, epoch=5, held_out=held_out)
        left = [g for g in everything.tolist() if g not in held_out.tolist()]
        assert torch.cat(batches).tolist() == left
        assert min(len(batch) for batch in batches) >= 2


@pytest.mark.parametrize("n_kept", [2, 3, 5])
def test_batches_too_small_for_negatives_join_a_neighbour(n_kept: int) -> None:
    for epoch in range(20):
        batches = epoch_batches(40, 4, seed=1, epoch=epoch, held_out=torch.arange(n_kept, 40))
        assert sorted(torch.cat(batches).tolist()) == list(range(n_kept))
        assert min(len(batch) for batch in batches) >= 2


def test_epoch_batches_refuses_what_cannot_be_trained_on() -> None:
    with pytest.raises(InputError, match="1 of 3 graphs to train on"):
        epoch_batches(3, 2, seed=0, epoch=1, held_out=torch.tensor([0, 2]))
    with pytest.raises(InputError, match="batch_size=1; expected an integer >= 2"):
        epoch_batches(3, 1, seed=0, epoch=1)
    with pytest.raises(InputError, match="seed=-1"):
        epoch_batches(3, 2, seed=-1, epoch=1)
    with pytest.raises(InputError, match=r"held_out holds graph ids 3..3; this set has 0..2"):
        epoch_batches(3, 2, seed=0, epoch=1, held_out=torch.tensor([3]))


def trained_on_by_each(n_graphs: int, members: int, seed: int, share: float) -> torch.Tensor:
    """Graphs that each of some models trains on, at least two."""
    g = torch.Generator().manual_seed(seed)
    kept = torch.rand(members, n_graphs, generator=g) >= share
    kept[:, :2] = True
    return kept


@pytest.mark.parametrize("batch_size", [2, 4, 7, 100])
def test_chunks_without_held_out_graphs_are_the_batches(batch_size: int) -> None:
    for epoch in range(3):
        how = {"seed": 5, "epoch": epoch}
        batches = epoch_batches(41, batch_size, **how)
        for kept in (None, torch.ones(3, 41, dtype=torch.bool)):
            chunks = epoch_chunks(41, batch_size, kept=kept, **how)
            assert [c.tolist() for c in chunks] == [b.tolist() for b in batches]


def test_chunks_are_each_models_batches_before_its_graphs_are_dropped() -> None:
    """Where models join their chunks differently they are refused, and nowhere else."""
    shared = refused = 0
    for batch_size, share, epoch in itertools.product((2, 4, 10), (0.1, 0.5, 0.8), range(10)):
        how = {"seed": 2, "epoch": epoch}
        kept = trained_on_by_each(40, 2, epoch, share)
        single = [epoch_chunks(40, batch_size, kept=row[None], **how) for row in kept]
        if [len(c) for c in single[0]] != [len(c) for c in single[1]]:
            refused += 1
            with pytest.raises(InputError, match=f"different batches in epoch {epoch}"):
                epoch_chunks(40, batch_size, kept=kept, **how)
            continue
        shared += 1
        chunks = epoch_chunks(40, batch_size, kept=kept, **how)
        assert torch.equal(torch.cat(chunks), torch.cat(epoch_batches(40, batch_size, **how)))
        for row in kept:
            held_out = (~row).nonzero().flatten()
            batches = epoch_batches(40, batch_size, held_out=held_out, **how)
            assert [c[row[c]].tolist() for c in chunks] == [b.tolist() for b in batches]
    assert min(shared, refused) > 20


def chunk_lengths(left_out: list[list[int]], seed: int = 0) -> list[int]:
    """Lengths of chunks of 3 of 12 graphs, of which models hold out some by place in the order."""
    order = torch.cat(epoch_batches(12, 3, seed=seed, epoch=1))
    kept = torch.ones(len(left_out), 12, dtype=torch.bool)
    for row, places in zip(kept, left_out, strict=True):
        row[order[places]] = False
    return [len(chunk) for chunk in epoch_chunks(12, 3, seed=seed, epoch=1, kept=kept)]


def test_a_chunk_left_with_one_graph_joins_with_its_held_out_ones() -> None:
    assert chunk_lengths([[0], [4]]) == [3, 3, 3, 3]
    assert chunk_lengths([[3, 4]]) == [6, 3, 3]
    assert chunk_lengths([[0, 1]]) == [6, 3, 3]  # the first joins the next
    assert chunk_lengths([[0, 1, 2, 3, 4]]) == [9, 3]
    assert chunk_lengths([[9, 10, 11]]) == [3, 3, 6]
    assert chunk_lengths([[3, 4], [4, 5]]) == [6, 3, 3]  # other graphs, the same join


def test_models_that_would_join_different_chunks_are_refused() -> None:
    for left_out in ([[3, 4], []], [[3, 4], [9, 10]], [[0, 1], [0, 1, 2, 3, 4]]):
        with pytest.raises(InputError, match="leave the models different batches in epoch 1: tra"):
            chunk_lengths(left_out)


def test_epoch_chunks_refuses_what_cannot_be_trained_on() -> None:
    kept = torch.ones(3, 5, dtype=torch.bool)
    kept[1, 1:] = False
    with pytest.raises(InputError, match="1 of 5 graphs to train on; expected >= 2"):
        epoch_chunks(5, 2, seed=0, epoch=1, kept=kept)
    with pytest.raises(InputError, match="1 of 1 graphs to train on"):
        epoch_chunks(1, 2, seed=0, epoch=1)
    for what, value in (("batch_size", 1), ("seed", -1), ("epoch", -1)):
        how = {"batch_size": 2, "seed": 0, "epoch": 1, what: value}
        with pytest.raises(InputError, match=f"{what}={value}; expected an integer >= "):
            epoch_chunks(5, **how)
