"""Graphs with classes of nodes by name: found or downloaded, read as PyTorch Geometric does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from torch_geometric import datasets
from torch_geometric.io.npz import parse_npz

from gcl_hard import InputError
from gcl_hard.images import has_dataset as has_images
from gcl_hard.images import load_images
from gcl_hard.nodes import KNOWN, NodeSet, canonical_name, load_nodes
from gcl_hard.nodes import has_dataset as has_nodes
from gcl_hard.nodes.files import paths
from tests.said import says

REAL = Path(__file__).parents[3] / "shared" / "data" / "nodes"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="no ../shared/data/nodes")
SHCHUR = {
    "Cora": ("cora.npz", 2_708, 5_429, 1_433, 7),
    "CiteSeer": ("citeseer.npz", 3_312, 4_715, 3_703, 6),
    "Photo": ("amazon_electronics_photo.npz", 7_650, 143_663, 745, 8),
    "CS": ("ms_academic_cs.npz", 18_333, 163_788, 6_805, 15),
}
"""The published file of a set; its nodes, stored entries of the adjacency, features and classes."""


@needs_real
@pytest.mark.parametrize("name", SHCHUR)
def test_files_of_shchur_are_read_as_pytorch_geometric_reads_them(name: str) -> None:
    file, n_nodes, _, n_features, n_classes = SHCHUR[name]
    stored = dict(np.load(REAL / file))
    few = sparse.csr_array(
        tuple(stored[f"attr_{field}"] for field in ("data", "indices", "indptr"))
    )
    few = few[:, :500]  # it makes them dense
    stored |= {f"attr_{field}": getattr(few, field) for field in ("data", "indices", "indptr")}
    theirs = parse_npz(stored | {"attr_shape": few.shape})
    ours = load_nodes(name.lower(), data_dir=REAL)
    assert (ours.name, ours.train) == (name, None)
    assert (ours.n_nodes, ours.n_features, ours.n_classes) == (n_nodes, n_features, n_classes)
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.dense().x[:, :500], theirs.x)
    assert torch.equal(ours.y, theirs.y)
    assert ours.edge_weight is None
    assert ours.is_sparse == (name != "Photo")  # of whose entries 35 % are not 0


@needs_real
def test_the_file_of_minesweeper_is_read_and_downloaded_alike(
    site: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = site
    (folder / "minesweeper.npz").symlink_to(REAL / "minesweeper.npz")
    monkeypatch.setattr(datasets.HeterophilousGraphDataset, "url", url)
    theirs = datasets.HeterophilousGraphDataset(str(tmp_path / "theirs"), "Minesweeper")[0]
    cache = tmp_path / "cache"
    downloaded = load_nodes("minesweeper", data_dir=tmp_path, cache_dir=cache)
    read = load_nodes("minesweeper", data_dir=REAL)
    for ours in (downloaded, read):
        assert ours.name == "Minesweeper"
        assert torch.equal(ours.edge_index, theirs.edge_index)
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.y, theirs.y)
        for part in ("train", "val", "test"):
            assert torch.equal(getattr(ours, part), theirs[f"{part}_mask"].T)
    assert read.notes == ()
    assert read.digest == downloaded.digest


@needs_real
def test_a_set_is_downloaded_once_and_found_without_the_network(
    site: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = site
    file = folder / SHCHUR["Photo"][0]
    file.symlink_to(REAL / file.name)
    monkeypatch.setattr(datasets.Amazon, "url", f"{url}/")
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    first = load_nodes("Photo")
    file.unlink()
    again = load_nodes("amazon-photo", download=False)
    assert first.digest == again.digest == load_nodes("Photo", data_dir=REAL).digest
    assert has_nodes("photo")
    assert any(path.suffix == ".pt" for path in paths("Photo"))
    assert paths("Photo", data_dir=REAL) == [(REAL / file.name).resolve()]


def test_wikics_has_its_splits_and_says_what_is_in_none(
    site: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = site
    random, n = np.random.default_rng(0), 40
    part = random.integers(0, 3, (2, n))
    part[:, :3] = 0, 1, 2
    test = np.arange(n) >= 30
    content = {
        "features": random.random((n, 300)).tolist(),
        "labels": (np.arange(n) % 10).tolist(),
        "links": [[(i + 1) % n, (i + 2) % n] for i in range(n)],
        "train_masks": ((part == 0) & ~test).tolist(),
        "val_masks": ((part == 1) & ~test).tolist(),
        "stopping_masks": ((part == 2) & ~test).tolist(),
        "test_mask": test.tolist(),
    }
    (folder / "data.json").write_text(json.dumps(content))
    monkeypatch.setattr(datasets.WikiCS, "url", url)
    nodes = load_nodes("wiki-cs", cache_dir=tmp_path)
    assert nodes.train is not None
    assert nodes.val is not None
    assert nodes.test is not None
    assert nodes.train.tolist() == content["train_masks"]
    assert nodes.val.tolist() == content["val_masks"]
    assert nodes.test.tolist() == [content["test_mask"]] * 2
    assert any("stopping_mask" in note for note in nodes.notes)
    assert any(says(note, "symmetric", 80) for note in nodes.notes)
    assert nodes.degree.tolist() == [4] * n


def test_what_cannot_be_downloaded_is_told_with_its_url_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(root: str, name: str) -> None:
        raise OSError(f"no network for {name}")

    monkeypatch.setattr(datasets, "Coauthor", fails)
    with pytest.raises(InputError) as error:
        load_nodes("physics", data_dir=tmp_path, cache_dir=tmp_path / "cache")
    url = f"{KNOWN['Physics'].url}/ms_academic_phy.npz"
    assert says(str(error.value), url, str(tmp_path / "ms_academic_phy.npz"))
    assert says(str(error.value), "no network for Physics")


def test_every_known_set_has_a_class_of_pytorch_geometric_and_several_spellings() -> None:
    assert len(KNOWN) == 13
    for name, known in KNOWN.items():
        assert hasattr(datasets, known.reader)
        spelt = [name, name.upper(), f"{known.reader}{known.named}", Path(known.file).stem or name]
        spelt += [name.replace("-", "_"), name.replace("-", "")]
        assert {canonical_name(spelling) for spelling in spelt} == {name}
    names = ["amazon-photo", "AmazonComputers", "coauthor-cs", "Coauthor_Physics", "cora", "Mine"]
    assert [*map(canonical_name, names)] == ["Photo", "Computers", "CS", "Physics", "Cora", "Mine"]


def csr_arrays(**changed: Any) -> dict[str, Any]:
    """Four nodes in a row, as Shchur et al. store them; a change of None leaves an array out."""
    adjacency = sparse.csr_array(np.eye(4, k=1))
    arrays = {"labels": np.array([0, 0, 1, 1])}
    for part, matrix in (("adj", adjacency), ("attr", sparse.csr_array(np.eye(4)))):
        arrays |= {
            f"{part}_{field}": getattr(matrix, field) for field in ("data", "indices", "indptr")
        }
        arrays[f"{part}_shape"] = np.array(matrix.shape)
    return {key: value for key, value in (arrays | changed).items() if value is not None}


def listed_arrays(**changed: Any) -> dict[str, Any]:
    """The same graph, as Platonov et al. store it."""
    arrays = {
        "node_features": np.eye(4), "node_labels": np.array([0, 0, 1, 1]),
        "edges": np.array([[0, 1], [1, 2], [2, 3]]),
    }  # fmt: skip
    return {key: value for key, value in (arrays | changed).items() if value is not None}


def saved(folder: Path, arrays: Mapping[str, Any], name: str = "mine") -> Path:
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    return folder / f"{name}.npz"


def test_files_of_both_layouts_are_the_same_graph(tmp_path: Path) -> None:
    saved(tmp_path, csr_arrays(), "a")
    saved(tmp_path, csr_arrays(attr_matrix=np.eye(4), attr_data=None), "b")
    path = saved(tmp_path, listed_arrays(), "c")
    sets = [load_nodes(name, data_dir=tmp_path) for name in ("a", "B", "c", str(path))]
    assert [nodes.name for nodes in sets] == ["a", "B", "c", "c"]
    assert {nodes.digest for nodes in [nodes.dense() for nodes in sets]} == {sets[2].dense().digest}
    assert sets[0].edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    assert says(sets[0].notes[-1], "symmetric", 3)
    assert says(sets[1].notes[0], "attr_indices")
    assert sets[2].notes == ()


def test_weights_of_listed_edges_and_numbers_as_names(tmp_path: Path) -> None:
    arrays = listed_arrays(node_names=np.array([40, 30, 20, 10]))
    weight = np.arange(1.0, 1 + len(arrays["edges"]))
    saved(tmp_path, arrays | {"edge_weight": weight})
    nodes = load_nodes("mine", data_dir=tmp_path)
    assert nodes.names.tolist() == [40, 30, 20, 10]
    assert nodes.edge_weight is not None
    pairs = {(u, v): w for (u, v), w in zip(nodes.edge_index.T.tolist(), nodes.edge_weight.tolist(),
                                             strict=True)}  # fmt: skip
    for (u, v), w in zip(arrays["edges"].tolist(), weight.tolist(), strict=True):
        assert pairs[u, v] == pairs[v, u] == w


def test_splits_and_names_of_a_file_are_read(tmp_path: Path) -> None:
    masks = {
        f"{part}_masks": np.arange(4)[None] == [[i], [i + 1]]
        for i, part in enumerate(("train", "val", "test"))
    }
    names = {"class_names": np.array(["no", "yes"]), "node_names": np.array(["a", "b", "c", "d"])}
    for number, arrays in enumerate(
        (csr_arrays(**masks, **names), listed_arrays(**masks, **names))
    ):
        saved(tmp_path, arrays, f"mine{number}")
        nodes = load_nodes(f"mine{number}", data_dir=tmp_path)
        for part in ("train", "val", "test"):
            assert getattr(nodes, part).tolist() == masks[f"{part}_masks"].tolist()
        assert nodes.class_names == ("no", "yes")
        assert nodes.ids == ("a", "b", "c", "d")


NAMES = {"class_names": 2, "node_names": 4, "columns": 4}
"""Arrays of names, and how many there are."""


@pytest.mark.parametrize("key", NAMES)
def test_names_that_are_python_objects_are_refused_and_text_is_read(
    key: str, tmp_path: Path
) -> None:
    names = pd.Series([f"n{k}" for k in range(NAMES[key])])
    for arrays in (csr_arrays, listed_arrays):
        saved(tmp_path, arrays(**{key: names.to_numpy(object)}))
        with pytest.raises(InputError) as error:
            load_nodes("mine", data_dir=tmp_path)
        assert says(str(error.value), "mine.npz", key, ".to_numpy(dtype='U')")
        saved(tmp_path, arrays(**{key: names.to_numpy(dtype="U")}))
        nodes = load_nodes("mine", data_dir=tmp_path)
        names_of = {"class_names": nodes.class_names, "node_names": nodes.ids,
                 "columns": nodes.columns}  # fmt: skip
        assert names_of[key] == (*names,)


def test_published_files_have_names_as_python_objects(tmp_path: Path) -> None:
    known, objects = KNOWN["CiteSeer"], np.array([{"a": 1}] * 6, object)
    x = sparse.csr_array(np.eye(6, known.n_features))
    attr = {f"attr_{part}": getattr(x, part) for part in ("data", "indices", "indptr")}
    adjacency = sparse.csr_array(np.eye(6, k=1))
    adj = {f"adj_{part}": getattr(adjacency, part) for part in ("data", "indices", "indptr")}
    saved(tmp_path, csr_arrays(
        **attr, **adj, attr_shape=np.array(x.shape), adj_shape=np.array([6, 6]),
        labels=np.arange(6), class_names=objects, node_names=objects,
    ), "citeseer")  # fmt: skip
    nodes = load_nodes("CiteSeer", data_dir=tmp_path)
    assert nodes.ids is None
    for key in ("class_names", "node_names"):
        assert any(says(note, key) for note in nodes.notes)


def test_other_arrays_are_left_out_and_named(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}, None], object)
    saved(tmp_path, csr_arrays(metadata=objects, time=np.arange(4)))
    nodes = load_nodes("mine", data_dir=tmp_path)
    assert any(says(note, "metadata", "time") for note in nodes.notes)


class Trap:
    """Python runs what this says when its pickle is loaded."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was loaded",))


def test_no_pickle_is_loaded(tmp_path: Path) -> None:
    trap = np.array([Trap()] * 4, object)
    saved(tmp_path, csr_arrays(other=trap))
    load_nodes("mine", data_dir=tmp_path)
    for key in ("labels", "class_names"):
        saved(tmp_path, csr_arrays(**{key: trap}))
        with pytest.raises(InputError) as error:
            load_nodes("mine", data_dir=tmp_path)
        assert says(str(error.value), "mine.npz", key)


@pytest.mark.parametrize(
    "changed",
    [
        {"adj_indptr": np.array([0, 2, 1, 3, 3])},  # falls
        {"adj_indptr": np.array([], int)},
        {"adj_indices": np.array([1, 2, 4])},
        {"adj_indices": np.array([1.0, 2, 3])},
        {"adj_data": np.ones(2)},
        {"adj_shape": np.array([-4, 4])},
    ],
)
def test_rows_that_contradict_each_other_are_refused(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    saved(tmp_path, csr_arrays(**changed))
    with pytest.raises(InputError) as error:
        load_nodes("mine", data_dir=tmp_path)
    assert says(str(error.value), "mine.npz", "CSR")


@pytest.mark.parametrize(
    ("arrays", "facts"),
    [
        (csr_arrays(adj_shape=np.array([4, 9])), ["adj_shape", "[4, 9]"]),
        (csr_arrays(attr_data=None), ["attr_data"]),
        (csr_arrays(attr_matrix=np.ones((5, 2)), labels=np.arange(5)), ["x", 5, 4]),
        (csr_arrays(labels=np.arange(3)), ["[3]", "[4]"]),
        (csr_arrays(adj_data=np.array([1.0, -1, 2])), ["weights"]),
        (listed_arrays(edges=np.array([[0, 4]])), ["0..3"]),
        (listed_arrays(node_labels=np.array([1, 1, -1, 1])), ["−1", "NaN"]),
        (listed_arrays(train_masks=np.ones((1, 4), bool)), ["val", "test"]),
        (listed_arrays(node_labels=None), ["node_labels"]),
        (csr_arrays(class_names=np.array(["a"])), ["0..0", "0..1"]),
        (csr_arrays(node_names=np.array(["a"])), ["names", 1, 4]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    tmp_path: Path, arrays: dict[str, Any], facts: list[str]
) -> None:
    saved(tmp_path, arrays)
    with pytest.raises(InputError) as error:
        load_nodes("mine", data_dir=tmp_path)
    assert says(str(error.value), "mine.npz", *facts)


def images() -> dict[str, Any]:
    arrays = {"images": np.zeros((4, 8, 8, 3), np.uint8), "labels": np.array([0, 1, 0, 1])}
    return {
        f"{part}_{field}": array for part in ("train", "test") for field, array in arrays.items()
    }


def test_a_file_holds_a_graph_or_images_and_no_set_claims_the_other(tmp_path: Path) -> None:
    for name in ("graph", "photo"):
        saved(tmp_path, csr_arrays(), name)
    saved(tmp_path, listed_arrays(), "listed")
    for name in ("pictures", "CS"):
        saved(tmp_path, images(), name)
    (tmp_path / "damaged.npz").write_bytes(b"no archive")
    saved(tmp_path, {"a": np.ones(3)}, "others")
    of_nodes = {"graph", "photo", "listed", "GRAPH", "Cora"}
    of_images = {"pictures", "CS", "damaged", "others"}
    for name in of_nodes | of_images:
        assert has_nodes(name, tmp_path) == (name in of_nodes)
        assert has_images(name, tmp_path) == (name in of_images)
        path = str(tmp_path / f"{name}.npz")
        if Path(path).is_file():
            assert has_nodes(path) == (name in of_nodes)
            assert has_images(path) == (name in of_images)
    with pytest.raises(InputError) as error:
        load_images("graph", data_dir=tmp_path)
    assert says(str(error.value), "graph.npz", "load_nodes")
    with pytest.raises(InputError) as error:
        load_nodes("pictures", data_dir=tmp_path)
    assert says(str(error.value), "pictures.npz", "images")


def test_a_file_that_may_be_both_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, csr_arrays(**images()))
    with pytest.raises(InputError) as error:
        load_nodes("mine", data_dir=tmp_path)
    assert says(str(error.value), "mine.npz", "images", "nodes")


def test_another_graph_is_not_taken_for_a_known_one(tmp_path: Path) -> None:
    saved(tmp_path, csr_arrays(), "ms_academic_cs")
    for name in ("CS", str(tmp_path / "ms_academic_cs.npz")):
        with pytest.raises(InputError) as error:
            load_nodes(name, data_dir=tmp_path)
        assert says(str(error.value), "ms_academic_cs.npz", "CS", 4, 6805, 2, 15)


def test_two_files_that_may_be_one_set_are_refused(tmp_path: Path) -> None:
    for name in ("amazon_electronics_photo", "photo"):
        saved(tmp_path, csr_arrays(), name)
    with pytest.raises(InputError) as error:
        load_nodes("Photo", data_dir=tmp_path)
    assert says(str(error.value), "amazon_electronics_photo.npz", "photo.npz", "Photo")


@needs_real
def test_counts_are_read_as_presence_where_pytorch_geometric_does_and_said(tmp_path: Path) -> None:
    stored = dict(np.load(REAL / SHCHUR["CS"][0]))
    assert stored["attr_data"].max() > 1
    nodes = load_nodes("CS", data_dir=REAL)
    assert nodes.x.values().unique().tolist() == [1]
    assert any("PyTorch Geometric" in note for note in nodes.notes)
    stored["adj_data"] = stored["adj_data"] + 1
    saved(tmp_path, stored, "CS")
    weighted = load_nodes("CS", data_dir=tmp_path)
    assert weighted.edge_weight is None
    assert any(says(note, "weights") for note in weighted.notes)
    assert isinstance(weighted, NodeSet)
