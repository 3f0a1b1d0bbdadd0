"""Embeddings of new data by saved encoders, each row with its name."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch_geometric.data import Data

import gcl_hard
from gcl_hard import InputError, bench
from gcl_hard.__main__ import main as gcl_hard_main
from gcl_hard.experiments import embedding
from gcl_hard.graphs import GIN, GraphSet, InfoGraph, load_graphs
from gcl_hard.nodes import load_nodes
from gcl_hard.pretrain import main as pretrain
from tests.said import says

ROOT = Path(__file__).parents[2]
GRAPHS = ["--dataset=MUTAG", "--method=ucl", "--epochs=1", "--seeds=1", "--layers=2", "--dim=4",
          "--threads=1", "--save-encoder", "--save-embeddings"]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def embed(*arguments: object) -> int:
    return gcl_hard_main(["embed", *map(str, arguments)])


def saved_run(*arguments: str) -> tuple[Path, dict[str, Any]]:
    """The encoder of one run, and the embeddings that are saved with it."""
    assert bench.main([*arguments, "--output=runs"]) == 0
    (encoder,) = Path("runs").glob("*.pt")
    (file,) = Path("runs").glob("*.embeddings.npz")
    with np.load(file) as arrays:
        return encoder, {name: arrays[name] for name in arrays}


def rows(path: str | Path) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def picture(path: Path, seed: int, side: int = 12) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(path)


# Graphs


def test_graphs_are_embedded_as_in_the_run_that_saved_the_encoder() -> None:
    encoder, arrays = saved_run(*GRAPHS)
    assert embed(encoder, "MUTAG", "-o", "z.npz") == 0
    with np.load("z.npz") as saved:
        np.testing.assert_allclose(saved["embeddings"], arrays["embeddings"][0], atol=1e-6)
        np.testing.assert_array_equal(saved["ids"], arrays["ids"])
        np.testing.assert_array_equal(saved["ids"], np.arange(188))
    again = gcl_hard.embed(encoder, load_graphs("MUTAG"))
    np.testing.assert_allclose(again.values, arrays["embeddings"][0], atol=1e-6)


def test_nodes_of_graphs_add_up_to_them_layer_by_layer() -> None:
    encoder, arrays = saved_run(*GRAPHS)
    embeddings = gcl_hard.embed(encoder, "MUTAG", level="nodes")
    sums = np.zeros_like(arrays["embeddings"][0])
    np.add.at(sums, embeddings.ids, embeddings.values)  # the readout is a sum
    np.testing.assert_allclose(sums, arrays["embeddings"][0], rtol=1e-4, atol=1e-4)
    mutag = load_graphs("MUTAG")
    assert [*zip(embeddings.ids[-3:], embeddings.columns["node"][-3:], strict=True)] == [
        (187, mutag[187].num_nodes - k) for k in (3, 2, 1)
    ]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_have_the_numbers_of_the_arrays(suffix: str) -> None:
    encoder, _ = saved_run(*GRAPHS)
    for name in ("z.npz", f"z.{suffix}"):
        assert embed(encoder, "MUTAG", f"--output={name}", "--level=nodes") == 0
    if suffix == "csv":
        table = rows("z.csv")
        columns = {name: [row[name] for row in table] for name in table[0]}
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        columns = parquet.ParquetFile("z.parquet").read(use_threads=False).to_pydict()
    with np.load("z.npz") as saved:
        z = np.stack([np.float32(columns[f"z{i}"]) for i in range(saved["embeddings"].shape[1])], 1)
        np.testing.assert_array_equal(z, saved["embeddings"])
        np.testing.assert_array_equal(np.int64(columns["id"]), saved["ids"])
        np.testing.assert_array_equal(np.int64(columns["node"]), saved["node"])
        assert {*columns["model"]} == {str(saved["model"])}
        assert {*columns["data"]} == {str(saved["data"])}


def elements(*words: str, name: str = "", y: int = 0) -> nx.Graph:
    graph = nx.path_graph(len(words))
    graph.graph |= {"y": y, **({"name": name} if name else {})}
    nx.set_node_attributes(graph, dict(enumerate(words)), "element")
    return graph


def test_columns_are_found_by_their_names_and_new_ones_are_refused() -> None:
    # Equal graphs would have embeddings that differ by nothing but rounding.
    known = [elements(*("CNO", "ONCC", "CO")[k % 3], y=k % 2) for k in range(24)]
    graphs = GraphSet.from_graphs(known, node_attrs=["element"])
    evaluation = gcl_hard.evaluate(
        GIN, graphs, "ucl", seeds=1, epochs=1, folds=2, baselines=[], output="own", threads=1
    )
    (file,) = evaluation.folder.glob("*.pt")
    graphs_alone = GraphSet.from_graphs([elements(*"OO"), elements(*"CN")], node_attrs=["element"])
    same = GraphSet.from_graphs([elements(*"OO"), elements(*"CN"), *known], node_attrs=["element"])
    encoder = {"encoder": GIN, "fold": 0}
    np.testing.assert_allclose(
        gcl_hard.embed(file, graphs_alone, **encoder).values,
        gcl_hard.embed(file, same, **encoder).values[:2],
        atol=1e-6,
    )
    other = GraphSet.from_graphs([elements(*"OS"), elements(*"CN")], node_attrs=["element"])
    with pytest.raises(InputError) as error:
        gcl_hard.embed(file, other, **encoder)
    assert says(str(error.value), "element=S")


def test_graphs_are_called_by_their_names() -> None:
    graphs = [elements(*"CNO", name=f"mol {k}") for k in range(3)]
    named = GraphSet.from_graphs(graphs, node_attrs=["element"])
    assert named[[2, 0]].names.tolist() == ["mol 2", "mol 0"]
    numbered = GraphSet.from_graphs(graphs, node_attrs=["element"], ids=[7, 5, 3])
    assert gcl_hard.embed(GIN(3), numbered[1:]).ids.tolist() == [5, 3]
    with pytest.raises(InputError):
        GraphSet.from_graphs(graphs, node_attrs=["element"], ids=["a"])


def test_an_encoder_by_itself_embeds_what_it_is_given() -> None:
    mutag = load_graphs("MUTAG")
    model = InfoGraph(GIN(7))
    embeddings = gcl_hard.embed(model.encoder, mutag)
    np.testing.assert_allclose(embeddings.values, model.embed(mutag), atol=1e-6)
    assert gcl_hard.embed(model, mutag).model == embeddings.model
    model.encoder.embed, model.encoder.encoder = torch.nn.Linear(1, 1), GIN(7)  # of the user's own
    assert np.array_equal(gcl_hard.embed(model.encoder, mutag).values, embeddings.values)
    assert embeddings.model != gcl_hard.embed(GIN(7), mutag).model
    for other in ("MUTAG", torch.zeros(2, 3, 8, 8, dtype=torch.uint8)):
        with pytest.raises(InputError):
            gcl_hard.embed(model.encoder, other)


def test_which_of_several_encoders_must_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    encoder, arrays = saved_run(*GRAPHS, "--protocol=inductive", "--folds=2")
    assert embed(encoder, "MUTAG") == 2
    assert says(capsys.readouterr().err, "2 encoders", "fold")
    assert embed(encoder, "MUTAG", "--fold=1", "-o", "z.npz") == 0
    with np.load("z.npz") as saved:
        np.testing.assert_allclose(saved["embeddings"], arrays["embeddings"][1], atol=1e-6)


# Nodes


def test_nodes_of_one_graph_keep_their_names() -> None:
    graph = nx.Graph([*nx.karate_club_graph().edges])
    named = nx.relabel_nodes(graph, {k: f"member {k}" for k in graph})
    for node, data in named.nodes(data=True):
        k = int(node.split()[1])
        data |= {"x": np.eye(34, dtype=np.float32)[k], "y": k % 2}
    nodes = gcl_hard.nodes.NodeSet.from_graph(named)
    embeddings = gcl_hard.embed(gcl_hard.nodes.GCN(34, dim=4), nodes)
    assert embeddings.ids.tolist() == [*named]
    assert embeddings.values.shape == (34, 4)


def node_file(name: str, x: np.ndarray[Any, Any], **names: Any) -> str:
    n = len(x)
    edges = np.random.default_rng(1).integers(0, n, (3 * n, 2))
    np.savez(f"{name}.npz", node_features=x, node_labels=np.arange(n) % 2, edges=edges, **names)
    return f"{name}.npz"


@pytest.fixture
def of_nodes() -> Path:
    """An encoder of nodes with features that are named, scaled and positive."""
    path = node_file(
        "week1", np.random.default_rng(0).random((60, 5)), columns=np.array([*"abcde"])
    )
    flags = ["--method=ucl", "--epochs=1", "--seeds=1", "--splits=1", "--dim=4", "--threads=1"]
    return saved_run(f"--dataset={path}", *flags, "--save-encoder", "--save-embeddings")[0]


def test_new_nodes_are_read_into_the_columns_of_training(
    of_nodes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, order = np.random.default_rng(2).random((40, 5)), [3, 0, 4, 1, 2]
    named = {"columns": np.array([*"abcde"]), "node_names": np.array([f"n{k}" for k in range(40)])}
    again = gcl_hard.embed(of_nodes, node_file("week2", x, **named))
    moved = {**named, "columns": named["columns"][order]}
    assert embed(of_nodes, node_file("moved", x[:, order], **moved), "-o", "z.npz") == 0
    assert "order" not in capsys.readouterr().err
    with np.load("z.npz") as saved:
        np.testing.assert_allclose(saved["embeddings"], again.values, atol=1e-6)
        assert str(saved["data"]) == again.data
    assert embed(of_nodes, node_file("plain", x[:, order]), "-o", "y.npz") == 0
    assert says(capsys.readouterr().err, "columns", "no names", "order")
    plain = gcl_hard.embed(of_nodes, "plain.npz", output="x.npz", progress=False)
    assert plain.read_bytes() == Path("y.npz").read_bytes()
    assert capsys.readouterr().err == ""
    with np.load("y.npz") as saved:
        assert np.abs(saved["embeddings"] - again.values).max() > 1e-3
    graph = nx.Graph(load_nodes("week2.npz").edge_index.T.tolist())
    frame = pd.DataFrame(x[:, order], columns=moved["columns"])
    reordered = gcl_hard.embed(of_nodes, gcl_hard.nodes.NodeSet.from_graph(graph, x=frame))
    np.testing.assert_allclose(reordered.values, again.values[reordered.ids], atol=1e-6)
    for columns, fact in (([*"abcdf"], "f"), ([*"abcd"], "e")):
        path = node_file("other", x[:, : len(columns)], columns=np.array(columns))
        with pytest.raises(InputError) as error:
            gcl_hard.embed(of_nodes, path)
        assert says(str(error.value), fact)


def test_features_that_an_encoder_of_scaled_ones_cannot_read_are_told(of_nodes: Path) -> None:
    path = node_file("below", np.random.default_rng(0).random((40, 5)) - 0.5)
    with pytest.raises(InputError) as error:
        gcl_hard.embed(of_nodes, path)
    assert says(str(error.value), "below", "negative", "encoder")
    assert "--" not in str(error.value)  # embed has no such flag


def test_a_graph_is_embedded_by_an_encoder_of_nodes_and_refused_by_one_of_graphs() -> None:
    torch.manual_seed(0)
    data = Data(torch.rand(40, 8), torch.randint(0, 40, (2, 90)))
    encoder = gcl_hard.nodes.GCN(8, dim=4)
    nodes = gcl_hard.nodes.NodeSet.from_graph(data)
    embeddings = gcl_hard.embed(encoder, data)
    np.testing.assert_array_equal(embeddings.values, gcl_hard.embed(encoder, nodes).values)
    assert embeddings.ids.tolist() == [*range(40)]
    with pytest.raises(InputError) as error:
        gcl_hard.embed(GIN(8), data)
    assert says(str(error.value), "list of graphs", "Data")


# Molecules


@pytest.fixture
def molecules() -> Path:
    pytest.importorskip("rdkit")
    lines = ["compound,smiles,logp", *(f"c{n},{'C' * n}O,{n / 10}" for n in range(1, 9))]
    path = Path("mine.csv")
    path.write_text("\n".join([*lines[:4], "bad,nonsense,1", *lines[4:]]) + "\n")
    return path


def test_molecules_are_embedded_under_the_ids_of_their_table(molecules: Path) -> None:
    flags = [f"--dataset={molecules}", "--epochs=1", "--layers=2", "--dim=4", "--output=e.pt"]
    assert pretrain(flags) == 0
    assert embed("e.pt", molecules, "--id", "compound", "-o", "z.csv") == 0
    assert [row["id"] for row in rows("z.csv")] == [f"c{n}" for n in range(1, 9)]
    assert embed("e.pt", molecules, "-o", "y.csv") == 0
    assert [row["id"] for row in rows("y.csv")] == [f"{n}" for n in (0, 1, 2, 4, 5, 6, 7, 8)]
    z, y = (np.float32([[*row.values()][3:] for row in rows(f"{n}.csv")]) for n in "zy")
    np.testing.assert_array_equal(z, y)


# Images


def photos(n: int = 6) -> Path:
    for k in range(n):
        picture(Path("photos", "more" if k % 2 else "", f"p{k}.png"), k)
    return Path("photos")


FAST = ["--encoder=fast", "--width=4", "--epochs=1", "--batch-size=4", "--output=e.pt"]


def test_photos_without_classes_are_trained_on_and_embedded_by_their_paths() -> None:
    folder = photos()
    assert pretrain(["--dataset=photos/", "--method=hucl", *FAST]) == 0
    assert embed("e.pt", folder, "-o", "z.csv") == 0
    assert [row["id"] for row in rows("z.csv")] == [
        "p0.png", "p2.png", "p4.png", "more/p1.png", "more/p3.png", "more/p5.png"
    ]  # fmt: skip
    about = torch.load("e.pt", weights_only=True)["about"]
    assert about["n"] == 6  # none is held out


def test_photos_of_other_sizes_are_scaled_as_the_encoders_were() -> None:
    photos()
    assert pretrain(["--dataset=photos/", *FAST]) == 0
    folder = Path("others")
    picture(folder / "small.png", 1, side=6)  # alone it would shrink the others
    picture(folder / "large.png", 2, side=48)
    both = gcl_hard.embed("e.pt", folder)
    (folder / "small.png").unlink()
    alone = gcl_hard.embed("e.pt", folder)
    assert both.ids.tolist() == ["large.png", "small.png"]
    np.testing.assert_allclose(both.values[0], alone.values[0], atol=1e-6)


def test_a_set_of_images_says_the_part_of_each_row() -> None:
    flags = ["--dataset=digits", "--method=ucl", *FAST[:-2], "--batch-size=512", "--seeds=1"]
    encoder, arrays = saved_run(*flags, "--save-encoder", "--save-embeddings")
    embeddings = gcl_hard.embed(encoder, "digits")
    for part in ("train", "test"):
        at = embeddings.columns["part"] == part
        np.testing.assert_allclose(embeddings.values[at], arrays[part], atol=1e-5)
        np.testing.assert_array_equal(embeddings.ids[at], arrays[f"{part}_ids"])
    assert sorted(embeddings.ids) == [*range(1797)]  # rows of scikit-learn's digits


def test_some_labels_come_from_a_file() -> None:
    photos(8)
    Path("labels.csv").write_text("file,label\np0.png,cat\np1.png,dog\np2.png,cat\np3.png,dog\n")
    flags = ["--dataset=photos", "--method=hscl", *FAST]
    with pytest.warns(UserWarning, match="p0"):
        assert pretrain(flags) == 2  # no labels
    assert pretrain([*flags, "--labels=labels.csv"]) == 0
    assert torch.load("e.pt", weights_only=True)["about"]["class_names"] == ["cat", "dog"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("file,label\nno.png,cat\n", ["line 2", "no.png"]),
        ("file,label\np0.png,cat\np0.png,dog\n", ["line 3", "cat", "dog"]),
        ("a,b,c\np0.png,cat,1\n", ["file", "label"]),
        ("file,label\np0.png\n", ["line 2", "columns"]),
        ("p0.png,cat\np1.png,dog\n", ["p0.png", "file", "label"]),
        ("file,label,label\np0.png,cat,dog\n", ["columns", "label"]),
        ("file,label\n\n\np0.png,cat\nno.png,dog\n", ["line 5", "no.png"]),
    ],
)
def test_a_file_of_labels_that_does_not_fit_is_refused(
    text: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    photos(4)
    Path("labels.csv").write_text(text)
    assert pretrain(["--dataset=photos", "--method=hscl", *FAST, "--labels=labels.csv"]) == 2
    assert says(capsys.readouterr().err, "labels.csv", *words)


def test_flags_of_the_other_kind_of_data_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    photos(4)
    for flag in ("--smiles=a", "--layers=3", "--pseudo-labels=scaffold", "--probe=adam"):
        assert pretrain(["--dataset=photos", *FAST, flag]) == 2
        assert says(capsys.readouterr().err, flag.partition("=")[0].removeprefix("--"))


# Files, and what is stopped


def test_a_finished_file_is_left_and_that_of_other_data_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    encoder, _ = saved_run(*GRAPHS)
    for suffix in ("npz", "csv"):
        target = Path(f"z.{suffix}")
        assert embed(encoder, "MUTAG", "-o", target) == 0
        before = target.stat().st_mtime_ns
        assert embed(encoder, "MUTAG", "-o", target) == 0
        assert target.stat().st_mtime_ns == before
        other = torch.load(encoder, weights_only=True)
        torch.save(other | {"more": 1}, "other.pt")
        assert embed("other.pt", "MUTAG", "-o", target) == 2
        assert says(capsys.readouterr().err, "--force", str(target))
        assert embed("other.pt", "MUTAG", "-o", target, "--force") == 0
    Path("z.npz").write_text("something else")
    assert embed(encoder, "MUTAG", "-o", "z.npz") == 2
    assert Path("z.npz").read_text() == "something else"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.pt", "MUTAG"], ["none.pt"]),
        (["RUN", "some/none"], ["some/none"]),
        (["RUN", "NOTHING"], ["NOTHING"]),
        (["RUN", "MUTAG", "-o", "z.txt"], ["z.txt", ".npz"]),
        (["RUN", "MUTAG", "--level=edges"], ["level", "edges"]),
        (["RUN", "MUTAG", "--id=a"], ["id", "graphs"]),
        (["RUN"], ["DATA"]),
        ([], ["MODEL"]),
        (["RUN", "MUTAG", "more"], ["more"]),
    ],
)
def test_mistakes_are_one_message(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    encoder, _ = saved_run(*GRAPHS)
    capsys.readouterr()
    assert embed(*(str(encoder) if argument == "RUN" else argument for argument in arguments)) == 2
    err = capsys.readouterr().err
    assert says(err, *words)
    assert len([line for line in err.splitlines() if line.startswith("error")]) == 1


def test_a_stopped_embedding_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    mutag = load_graphs("MUTAG")
    encoder = GIN(7, dim=4, layers=2)
    whole = gcl_hard.embed(encoder, mutag, batch_size=20)
    computed: list[int] = []
    first = embedding._batch

    def stopped(items: embedding.Items, k: int) -> Any:
        if len(computed) == 4:
            raise KeyboardInterrupt
        computed.append(k)
        return first(items, k)

    monkeypatch.setattr(embedding, "_batch", stopped)
    with pytest.raises(KeyboardInterrupt, match="80 of 188"):
        gcl_hard.embed(encoder, mutag, output="z.npz", batch_size=20)
    assert not Path("z.npz").exists()
    monkeypatch.setattr(
        embedding, "_batch", lambda items, k: (computed.append(k), first(items, k))[1]
    )
    (kept,) = Path().glob(".z.npz.*.rows")
    kept.write_bytes(kept.read_bytes()[:-50])  # as a process that was killed leaves it
    gcl_hard.embed(encoder, mutag, output="z.npz", batch_size=20)
    assert computed == [0, 1, 2, 3, 0, *range(3, 10)]  # the first tells the width
    with np.load("z.npz") as saved:
        np.testing.assert_array_equal(saved["embeddings"], whole.values)
    assert [path.name for path in Path().iterdir() if "rows" in path.name] == []


def test_an_embedding_that_is_not_finite_names_its_item() -> None:
    graphs = GraphSet.from_graphs(
        [elements(*"CN", name="good"), elements(*"CCC", name="bad")], node_attrs=["element"]
    )

    class Overflowing(torch.nn.Module):
        out_dim = 1

        def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
            z = x[:, :1] * 2e38
            return z, z.new_zeros(int(batch.max()) + 1, 1).index_add(0, batch, z)

    with pytest.raises(gcl_hard.DivergenceError, match="bad"):
        gcl_hard.embed(Overflowing(), graphs)


# What tells two files apart


def test_another_fold_level_or_id_is_another_file(capsys: pytest.CaptureFixture[str]) -> None:
    encoder, _ = saved_run(*GRAPHS, "--protocol=inductive", "--folds=2")
    assert embed(encoder, "MUTAG", "--fold=0", "-o", "z.csv") == 0
    for other in (["--fold=1"], ["--fold=0", "--level=nodes"]):
        assert embed(encoder, "MUTAG", *other, "-o", "z.csv") == 2
        assert says(capsys.readouterr().err, "z.csv", "--force")
    mutag = load_graphs("MUTAG")
    named = GraphSet.from_graphs([*mutag], ids=[f"m{k}" for k in range(188)])
    first = gcl_hard.embed(encoder, mutag, fold=0)
    second = gcl_hard.embed(encoder, named, fold=0)
    np.testing.assert_allclose(first.values, second.values, atol=1e-6)
    assert first.data != second.data


def test_what_columns_mean_is_part_of_the_data() -> None:
    words = [elements(*("CN" if k % 2 else "NNC"), y=k % 2) for k in range(24)]
    known = GraphSet.from_graphs(words, node_attrs=["element"])
    evaluation = gcl_hard.evaluate(
        GIN, known, "ucl", seeds=1, epochs=1, folds=2, baselines=[], output="own", threads=1,
        progress=False,
    )  # fmt: skip
    (file,) = evaluation.folder.glob("*.pt")
    alike = [
        GraphSet.from_graphs([elements(*word)], node_attrs=["element"]) for word in ("CC", "NN")
    ]
    assert torch.equal(alike[0].x, alike[1].x)
    first, second = (gcl_hard.embed(file, graphs, encoder=GIN, fold=0) for graphs in alike)
    assert first.data != second.data
    assert not np.allclose(first.values, second.values)


def test_odd_ids_come_back_from_every_kind_of_file() -> None:
    ids = ["a,b", 'q"q', "two\nlines", "\r", "cr\ronly", "ümläut", "", " ", "a", "a\0"]
    graphs = GraphSet.from_graphs([elements(*"CN") for _ in ids], node_attrs=["element"], ids=ids)
    for suffix in ("npz", "csv"):
        gcl_hard.embed(GIN(2), graphs, output=f"z.{suffix}")
    assert [row["id"] for row in rows("z.csv")] == ids
    with np.load("z.npz") as saved:
        assert json.loads(saved["ids"].item()) == ids  # NumPy's text drops NUL at its end


@pytest.mark.parametrize(
    "ids", [{"a", "b"}, {"a": 1, "b": 2}, ["a", 1], ["a", None], [1.5, 2.5], "ab", ["a"]]
)
def test_ids_without_an_order_or_of_several_types_are_refused(ids: Any) -> None:
    with pytest.raises(InputError, match="ids"):
        GraphSet.from_graphs([elements(*"CN")] * 2, node_attrs=["element"], ids=ids)


def test_an_encoder_is_told_apart_by_its_settings_too_and_left_as_it_was() -> None:
    mutag = load_graphs("MUTAG")
    first, second = GIN(7, dim=4), GIN(7, dim=4, readout="mean")
    second.load_state_dict(first.state_dict())
    first.train()
    assert gcl_hard.embed(first, mutag).model != gcl_hard.embed(second, mutag).model
    assert first.training


def test_nothing_to_embed_and_a_missing_number_are_named() -> None:
    sets = []
    for attrs in (["mass", "charge"], ["mass"]):
        graph = nx.path_graph(3)
        for name in attrs:
            nx.set_node_attributes(graph, 1.5, name)
        sets.append(GraphSet.from_graphs([graph], node_attrs=attrs))
    with pytest.raises(InputError, match="charge"):
        sets[1].aligned(sets[0].columns)
    photos(2)
    assert pretrain(["--dataset=photos/", *FAST[:-1], "--batch-size=2", "--output=e.pt"]) == 0
    with pytest.raises(InputError, match="nothing"):
        gcl_hard.embed("e.pt", torch.zeros(0, 3, 8, 8, dtype=torch.uint8))
