"""Graphs with classes of nodes: read as PyTorch Geometric reads them, checked, and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.io import read_npz as read_by_pyg

from gcl_hard.graphs import NodeSet, load_nodes
from gcl_hard.graphs.node_files import KNOWN

REAL = Path(__file__).parents[3] / "shared" / "data" / "nodes"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="no ../shared/data/nodes")
FILES = {
    "Cora": "cora.npz", "CiteSeer": "citeseer.npz", "Photo": "amazon_electronics_photo.npz",
    "CS": "ms_academic_cs.npz",
}  # fmt: skip


@needs_real
@pytest.mark.parametrize("name", FILES)
def test_files_of_shchur_are_read_as_pytorch_geometric_reads_them(name: str) -> None:
    theirs = read_by_pyg(str(REAL / FILES[name]))
    ours = load_nodes(name, data_dir=REAL)
    assert ours.name == name
    assert ours.train is None
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.dense().x, theirs.x)
    assert torch.equal(ours.y, theirs.y)


@needs_real
def test_the_file_of_minesweeper_is_read_as_pytorch_geometric_reads_it(tmp_path: Path) -> None:
    from torch_geometric.datasets import HeterophilousGraphDataset

    raw = tmp_path / "minesweeper" / "raw"
    raw.mkdir(parents=True)
    (raw / "minesweeper.npz").symlink_to(REAL / "minesweeper.npz")
    theirs: Any = HeterophilousGraphDataset(str(tmp_path), "Minesweeper")[0]
    ours = load_nodes("minesweeper", data_dir=REAL)
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.y, theirs.y)
    for part in ("train", "val", "test"):
        assert torch.equal(getattr(ours, part), theirs[f"{part}_mask"].T)


@needs_real
def test_sparse_features_stay_sparse_below_a_quarter() -> None:
    sparse = {name: load_nodes(name, data_dir=REAL).is_sparse for name in (*FILES, "Minesweeper")}
    assert sparse == {
        "Cora": True, "CiteSeer": True, "Photo": False, "CS": True, "Minesweeper": False
    }  # fmt: skip


def test_a_graph_of_pytorch_geometric_is_made_symmetric_and_said() -> None:
    graph = Data(
        torch.ones(5, 2), torch.tensor([[0, 1, 2, 0, 3], [1, 2, 2, 1, 2]]),
        y=torch.tensor([4, 4, 9, 9, float("nan")]),
    )  # fmt: skip
    nodes = NodeSet.from_graph(graph)
    assert nodes.edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    assert nodes.y.tolist() == [0, 0, 1, 1, -1]
    assert nodes.class_names == ("4", "9")
    assert nodes.degree.tolist() == [1, 2, 2, 1, 0]
    assert nodes.n_edges == 6
    assert [note.split()[0] for note in nodes.notes] == ["made", "1", "1", "1", "1"]


def test_all_sets_have_a_class_of_pytorch_geometric() -> None:
    from torch_geometric import datasets

    assert all(hasattr(datasets, known.reader) for known in KNOWN.values())


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "mine.npz", node_features=np.eye(3), node_labels=[0, 1, 1],
        edges=[[0, 1], [1, 2]],
    )  # fmt: skip
    nodes = load_nodes("mine", data_dir=tmp_path)
    assert nodes.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert torch.equal(nodes.x, torch.eye(3))
