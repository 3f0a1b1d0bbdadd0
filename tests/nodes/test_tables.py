"""Tests of graphs from tables, against pandas and scikit-learn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch_geometric.data import Data

import gcl_hard
from gcl_hard import InputError, bench
from gcl_hard.__main__ import main
from gcl_hard.evaluation import corrected_t_test
from gcl_hard.nodes import NodeSet
from gcl_hard.nodes.experiment import splits_of
from gcl_hard.nodes.settings import NodeConfig
from tests.said import says

N = 60
CITIES = np.array(["Köln", "Zürich", "Ås", "Łódź"])


def tables(n: int = N, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Customers of three segments, and who pays whom."""
    draws = np.random.default_rng(seed)
    y = np.arange(n) % 3
    people = pd.DataFrame({
        "id": [f"K{k:03}" for k in range(n)], "age": draws.normal(40 + 9 * y, 10),
        "visits": draws.integers(0, 9, n), "city": CITIES[(y + draws.integers(0, 2, n)) % 4],
        "member": draws.random(n) < 0.5, "label": np.array(["a", "b", "c"])[y],
    })  # fmt: skip
    people.loc[::7, "age"] = np.nan
    people.loc[::5, "city"] = None
    people.loc[n - 6 :, "label"] = None
    pairs = np.argwhere(np.triu(draws.random((n, n)) < np.where(y[:, None] == y, 0.2, 0.03), 1))
    links = pd.DataFrame(people["id"].to_numpy()[pairs], columns=["from", "to"])
    return people, links.assign(weight=draws.integers(1, 9, len(links)))


def expected(people: pd.DataFrame, rows: Any = slice(None)) -> dict[str, np.ndarray[Any, Any]]:
    """Features by scikit-learn, whose statistics are those of some rows."""
    numbers = people[["age", "visits"]].astype(float)
    filled = numbers.fillna(numbers.iloc[rows].mean())
    known = people["city"].dropna()
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(
        known[known.index.isin(people.index[rows])].to_frame()
    )
    columns = dict(
        zip(filled, StandardScaler().fit(filled.iloc[rows]).transform(filled).T, strict=True)
    )
    # of a column with missing values the deviation is that of those that are there
    columns["age"] *= filled["age"].iloc[rows].std(ddof=0) / numbers["age"].iloc[rows].std(ddof=0)
    hot = words.transform(people[["city"]])
    columns |= {f"city={w}": hot[:, k] for k, w in enumerate(words.categories_[0])}
    columns["member"] = people["member"].to_numpy(float)
    return columns | {f"{name} missing": people[name].isna() for name in ("age", "city")}


def as_columns(nodes: NodeSet) -> dict[str, np.ndarray[Any, Any]]:
    return dict(zip(nodes.columns, nodes.x.to_dense().numpy().T, strict=True))


def same_features(nodes: NodeSet, wanted: dict[str, np.ndarray[Any, Any]]) -> None:
    got = as_columns(nodes)
    assert {*got} == {*wanted}
    for name, values in wanted.items():
        np.testing.assert_allclose(got[name], np.asarray(values, float), atol=1e-5)


def test_features_are_what_scikit_learn_makes() -> None:
    people, links = tables()
    same_features(NodeSet.from_tables(people, links), expected(people))


def test_statistics_are_those_of_the_training_rows_of_a_split() -> None:
    people, links = tables()
    people["part"] = np.array(["Train", "valid", "test", "training"])[np.arange(N) % 4]
    people.loc[people["label"].isna(), "part"] = None
    people.loc[1, "city"] = "Genève"  # which no training row has
    nodes = NodeSet.from_tables(people, links, split="part")
    train = np.flatnonzero(people["part"].isin(["Train", "training"]))
    same_features(nodes, expected(people, train))
    assert nodes.train is not None
    assert nodes.train[0].nonzero().flatten().tolist() == train.tolist()
    assert any(says(note, 1, "city", "Genève") for note in nodes.notes)


def test_labels_edges_and_weights_are_those_of_the_tables() -> None:
    people, links = tables()
    nodes = NodeSet.from_tables(people, links)
    graph = nx.from_pandas_edgelist(links, "from", "to", "weight")
    names = nodes.names
    assert names.tolist() == people["id"].tolist()
    assert [None if y < 0 else nodes.class_names[y] for y in nodes.y] == [
        label if isinstance(label, str) else None for label in people["label"]
    ]
    assert nodes.edge_weight is not None
    got = {
        (names[u], names[v]): w
        for u, v, w in zip(*nodes.edge_index.tolist(), nodes.edge_weight.tolist(), strict=True)
    }
    assert got == {(u, v): w for a, b, w in graph.edges(data="weight") for u, v in ((a, b), (b, a))}


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_weights_of_an_edge_are_merged_as_asked(how: Any) -> None:
    people, links = tables()
    links = links.assign(weight=links["weight"] / 8)
    back = links[:40].rename(columns={"from": "to", "to": "from"}).assign(weight=7)
    twice = pd.concat([links, back, links[20:60].assign(weight=3)])
    with pytest.raises(InputError) as refusal:
        NodeSet.from_tables(people, twice)
    assert says(str(refusal.value), "merge_weights", "--merge-weights", *twice.iloc[0, :2])
    nodes = NodeSet.from_tables(people, twice, merge_weights=how)
    weights: dict[frozenset[str], list[float]] = {}
    for one, other, weight in twice[["from", "to", "weight"]].itertuples(index=False):
        weights.setdefault(frozenset((one, other)), []).append(weight)
    assert nodes.edge_weight is not None
    assert nodes.n_edges == 2 * len(weights)
    for u, v, weight in zip(*nodes.names[nodes.edge_index], nodes.edge_weight, strict=True):
        assert weight == pytest.approx(float(getattr(np, how)(weights[frozenset((u, v))])))
    later = NodeSet.from_tables(people, twice, like=nodes)
    assert later.edge_weight is not None
    assert torch.equal(later.edge_weight, nodes.edge_weight)


@pytest.mark.parametrize("seed", range(3))
def test_a_permuted_table_gives_the_same_set_in_its_order(seed: int) -> None:
    people, links = tables()
    order = np.random.default_rng(seed).permutation(N)
    a = NodeSet.from_tables(people, links)
    b = NodeSet.from_tables(people.iloc[order], links.sample(frac=1, random_state=seed))
    assert b.table == a.table
    assert torch.equal(b.x.to_dense(), a.x.to_dense()[torch.from_numpy(order)])
    place = torch.from_numpy(np.argsort(order))
    assert {*map(tuple, place[a.edge_index].T.tolist())} == {*map(tuple, b.edge_index.T.tolist())}


def write(people: pd.DataFrame, links: pd.DataFrame, suffix: str) -> tuple[Path, Path]:
    paths = Path(f"people.{suffix}"), Path(f"links.{suffix}")
    for frame, path in zip((people, links), paths, strict=True):
        if suffix == "parquet":
            frame.to_parquet(path)
        elif suffix == "semicolons.csv":
            frame.to_csv(path, index=False, sep=";", decimal=",", encoding="utf-8-sig")
        else:
            frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    return paths


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet", "semicolons.csv"])
def test_a_file_is_read_as_its_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    people, links = tables()
    people["zip"] = [f"0{k % 4}123" for k in range(N)]  # no numbers
    nodes = NodeSet.from_tables(*write(people, links, suffix))
    frames = NodeSet.from_tables(people, links)
    assert nodes.name == "people"
    assert nodes.table == frames.table
    assert torch.equal(nodes.x.to_dense(), frames.x.to_dense())
    assert nodes.digest == frames.digest
    assert "zip=00123" in nodes.columns


def test_spaces_around_cells_are_no_part_of_words_and_ids(tmp_path: Path) -> None:
    people, links = tables()
    for frame, name in ((people, "nodes.csv"), (links, "edges.csv")):
        lines = frame.to_csv(index=False).splitlines()
        (tmp_path / name).write_text("\n".join(line.replace(",", " , ") for line in lines))
    spaced = NodeSet.from_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv")
    plain = NodeSet.from_tables(people, links)
    assert (spaced.ids, spaced.columns) == (plain.ids, plain.columns)
    assert spaced.class_names == plain.class_names
    torch.testing.assert_close(spaced.x.to_dense(), plain.x.to_dense())
    assert torch.equal(spaced.edge_index, plain.edge_index)


@pytest.mark.parametrize(
    ("text", "words"),
    [("id,age,city\na,1,Ulm\nb,2\n", [3, 2]), ("id,age,age\na,1,2\nb,2,3\n", ["age"])],
)
def test_rows_too_short_and_columns_of_one_name_are_refused(
    text: str, words: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "nodes.csv").write_text(text)
    edges = pd.DataFrame({"source": ["a"], "target": ["b"]})
    with pytest.raises(InputError) as refusal:
        NodeSet.from_tables(tmp_path / "nodes.csv", edges)
    assert says(str(refusal.value), *words)


def test_both_ends_are_columns_of_their_own() -> None:
    people, links = tables()
    with pytest.raises(InputError):
        NodeSet.from_tables(people, links, source="from", target="from")


def test_classes_of_later_rows_have_the_numbers_of_the_first() -> None:
    people, links = tables()
    first = NodeSet.from_tables(people, links)
    some = people.assign(label=people["label"].where(people["label"] != "a"))
    later = NodeSet.from_tables(some, links, like=first)
    expected_y = torch.where(first.y == 0, -1, first.y)
    assert torch.equal(later.y, expected_y)
    assert later.class_names == first.class_names
    with pytest.raises(InputError):
        NodeSet.from_tables(people.assign(label="new"), links, like=first)


def test_evaluate_takes_the_paths_of_two_tables(tmp_path: Path) -> None:
    for frame, name in zip(tables(), ("nodes.csv", "edges.csv"), strict=True):
        frame.to_csv(tmp_path / name, index=False)
    found = gcl_hard.evaluate(
        "gcn", tmp_path / "nodes.csv", "ucl", edges=str(tmp_path / "edges.csv"), columns=["age"],
        seeds=1, epochs=1, splits=2, dim=4, baselines=(), output=tmp_path / "out", progress=False,
        device="cpu", save_encoder=False,
    )  # fmt: skip
    (run,) = found.results.records
    assert (run.config.dataset, run.config.edges) == ("nodes.csv", "edges.csv")


def test_a_search_takes_two_tables_of_a_folder(tmp_path: Path) -> None:
    for frame, name in zip(tables(), ("nodes.csv", "edges.csv"), strict=True):
        frame.to_csv(tmp_path / name, index=False)
    result = gcl_hard.study(
        "nodes.csv", "ucl", edges="edges.csv", data_dir=tmp_path, trials=1, epochs=1, dim=4,
        splits=2, output=tmp_path / "out", device="cpu", space={"temperature": [0.5, 1.0]},
    )  # fmt: skip
    assert result.findings[0].study.best_trial.value is not None


def test_ids_may_be_numbers_and_numbers_may_be_words() -> None:
    people, links = tables()
    row = {name: k for k, name in enumerate(people["id"])}
    people["id"] = people["id"].map(row) + 7
    links["from"] = links["from"].map(row) + 7.0
    links["to"] = (links["to"].map(row) + 7).map(str)
    nodes = NodeSet.from_tables(people, links, columns=["visits"], categories=["visits"])
    assert nodes.names.tolist() == people["id"].tolist()
    dummies = pd.get_dummies(people["visits"].astype(str), prefix="visits", prefix_sep="=")
    same_features(nodes, {name: dummies[name].to_numpy() for name in dummies})


def week(people: pd.DataFrame, links: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables a week later: new customers of a new city, columns in reverse order."""
    more = people.iloc[:5].assign(id=[f"N{k}" for k in range(5)], city="Genève", label=None)
    more = pd.concat([people, more], ignore_index=True)
    ties = pd.DataFrame({"from": more["id"][:5], "to": more["id"][-5:].values, "weight": 2})
    return more.assign(since=3)[["since", *more.columns[::-1]]], pd.concat([links, ties])


def test_later_rows_are_read_by_what_the_first_ones_said() -> None:
    people, links = tables()
    first = NodeSet.from_tables(people, links)
    later = NodeSet.from_tables(*week(people, links), like=first)
    assert later.columns == first.columns
    assert torch.equal(later.x.to_dense()[:N], first.x.to_dense())
    new = {name: values[N:] for name, values in as_columns(later).items()}
    assert not any(new[f"city={city}"].any() for city in CITIES)
    assert any(says(note, 5, "city", "Genève") for note in later.notes)
    assert any(says(note, "since") for note in later.notes)


def drop(name: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.drop(columns=name)


def keep(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


@pytest.mark.parametrize(
    ("of_people", "of_links", "options", "words"),
    [
        (lambda f: f.iloc[3:], keep, {}, ["K000", "ids"]),
        (lambda f: pd.concat([f, f[:2]]), keep, {}, [2, "id", "K000"]),
        (lambda f: f.assign(since=pd.Timestamp("2024-05-01")), keep, {}, ["since", "dates"]),
        (lambda f: f.assign(since="1.5.2024"), keep, {}, ["since", "dates"]),
        (lambda f: f.assign(empty=np.nan), keep, {}, ["empty"]),
        (lambda f: f.assign(fee=[f"{k},5" for k in range(N)]), keep, {}, ["fee", "0,5"]),
        (lambda f: f.assign(fee=["free", *map(str, range(1, N))]), keep, {}, ["fee", "free"]),
        (lambda f: f.assign(split="train, perhaps"), keep, {}, ["split", "train, perhaps"]),
        (lambda f: f.rename(columns={"age": "city"}), keep, {}, ["city", "two"]),
        (keep, drop("weight"), {"merge_weights": "sum"}, ["merge_weights", "--weight"]),
        (keep, keep, {"merge_weights": "summ"}, ["summ", "sum"]),
        (keep, keep, {"label": "lable"}, ["lable", "label"]),
        (keep, keep, {"columns": ["agee"]}, ["agee", "age"]),
        (keep, keep, {"categories": ["id"]}, ["id"]),
        (keep, keep, {"columns": ["age", "label"]}, ["label"]),
        (keep, lambda f: f.assign(weight=0), {}, ["weights"]),
        (keep, lambda f: pd.concat([f, f.assign(weight=99)]), {}, ["weights", "K000"]),
        (keep, lambda f: f.assign(to=None), {}, ["None", "ids"]),
    ],
)  # fmt: skip
def test_what_tables_cannot_be_is_said(
    of_people: Any, of_links: Any, options: dict[str, Any], words: list[object]
) -> None:
    people, links = tables()
    with pytest.raises(InputError) as error:
        NodeSet.from_tables(of_people(people), of_links(links), **options)
    assert says(str(error.value), *words)


@pytest.mark.parametrize(
    ("change", "words"),
    [(drop("age"), ["age"]), (drop("id"), ["id"]), (lambda f: f.assign(age="old"), ["age", "old"])],
)
def test_later_rows_need_their_columns(change: Any, words: list[object]) -> None:
    people, links = tables()
    with pytest.raises(InputError) as error:
        NodeSet.from_tables(change(people), links, like=NodeSet.from_tables(people, links))
    assert says(str(error.value), *words)


def test_a_column_that_may_have_classes_is_no_feature_unnoticed() -> None:
    people, links = tables()
    people = people.rename(columns={"label": "Class"})
    with pytest.warns(UserWarning, match="Class"):
        NodeSet.from_tables(people, links)
    NodeSet.from_tables(people, links, columns=["Class"])  # which was asked for
    assert NodeSet.from_tables(people, links, label="Class").n_classes == 3


def test_columns_of_names_and_dates_are_refused_with_the_others_to_copy() -> None:
    people, links = tables(1200)
    people["name"], people["since"] = people["id"] + "ü", "2024-05-01"
    with pytest.raises(InputError) as error:
        NodeSet.from_tables(people, links)
    assert says(str(error.value), "name", "since", "age,visits,city,member")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GCL_HARD_DATA", "")
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    return tmp_path


RUN = ["--method=ucl", "--epochs=2", "--dim=4", "--splits=2", "--seeds=1", "--threads=1",
       "--output=runs", "--json=table.json", "--save-encoder", "--save-embeddings"]  # fmt: skip


def test_a_command_reads_tables_and_embeds_new_nodes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people, links = tables()
    nodes, edges = write(people, links, "csv")
    assert bench.main([f"--dataset={nodes}", f"--edges={edges}", *RUN]) == 0
    (record,) = (json.loads(path.read_text()) for path in Path("runs").glob("*seed0.json"))
    read = NodeSet.from_tables(people, links)
    assert record["data"]["digest"] == read.digest
    assert record["data"]["table"] == json.loads(json.dumps(read.table and read.table.as_dict()))
    assert str(here) not in json.dumps(record)
    elsewhere = [f"--dataset={here / nodes}", f"--edges={here / edges}", *RUN, "--report-only"]
    capsys.readouterr()
    assert bench.main(elsewhere) == 0
    assert says(capsys.readouterr().out, "people", "ucl")

    (encoder,) = Path("runs").glob("*.pt")
    (file,) = Path("runs").glob("*.embeddings.npz")
    assert main(["embed", str(encoder), str(nodes), f"--edges={edges}", "-o", "z.npz"]) == 0
    with np.load("z.npz") as z, np.load(file) as saved:
        assert z["ids"].tolist() == people["id"].tolist()
        np.testing.assert_allclose(z["embeddings"], saved["embeddings"], atol=1e-5)

    later = week(people, links)
    nodes, edges = write(*later, "parquet")
    Path("new.csv").write_text("id\n" + "\n".join(f"N{k}" for k in (3, 1)))
    command = ["embed", str(encoder), str(nodes), f"--edges={edges}", "--only=new.csv"]
    capsys.readouterr()
    assert main([*command, "-o", "new.npz"]) == 0
    assert says(capsys.readouterr().err, 5, "city", "Genève")
    assert main([*command, "-o", "new.npz"]) == 0
    whole = gcl_hard.embed(encoder, later[0], edges=later[1])
    with np.load("new.npz") as new:
        assert new["ids"].tolist() == ["N3", "N1"]
        assert str(new["data"]) == whole.data
        np.testing.assert_array_equal(new["embeddings"], whole.values[[N + 3, N + 1]])
    straight = later[0][later[0].columns[::-1]]
    np.testing.assert_array_equal(
        gcl_hard.embed(encoder, straight, edges=later[1]).values, whole.values
    )
    refitted = NodeSet.from_tables(*later)  # its words and means are others
    with pytest.raises(InputError, match="like"):
        gcl_hard.embed(encoder, refitted)
    with pytest.raises(InputError, match="N9"):
        gcl_hard.embed(encoder, later[0], edges=later[1], only=["N1", "N9"])
    with pytest.raises(InputError, match="edges"):
        gcl_hard.embed(encoder, later[0])


@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
def test_a_file_of_some_rows_is_no_file_of_others(here: Path, suffix: str) -> None:
    nodes = NodeSet.from_tables(*tables())
    encoder = gcl_hard.nodes.GCN(nodes.n_features, dim=4)
    path = here / f"z.{suffix}"
    for only, finished in ((["K001", "K000"], True), (["K000", "K001"], False), (None, False)):
        if finished:
            gcl_hard.embed(encoder, nodes, only=only, output=path)
            before = path.stat().st_mtime_ns
            gcl_hard.embed(encoder, nodes, only=only, output=path)
            assert path.stat().st_mtime_ns == before
        else:
            with pytest.raises(InputError):
                gcl_hard.embed(encoder, nodes, only=only, output=path)


def test_columns_that_are_not_read_are_named_before_training(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people, links = tables()
    nodes, edges = write(people, links.assign(amount=1), "csv")
    assert bench.main([f"--dataset={nodes}", f"--edges={edges}", *RUN]) == 0
    shown = "".join(capsys.readouterr())
    assert says(shown[: shown.index("seed 0")], "amount")


def test_a_method_that_predicts_one_class_alone_is_remarked(here: Path) -> None:
    people, links = tables()
    people["age"] = 1  # the features say nothing
    found = gcl_hard.evaluate(
        "gcn", NodeSet.from_tables(people, links, columns=["age"]), "ucl", seeds=1, epochs=1, dim=4,
        baselines=["raw", "majority"], splits=2, output="runs", progress=False, save_encoder=False,
    )  # fmt: skip
    remarks = {r.config.method: f.data.get("remarks") for r, f in found.results.records.items()}
    assert remarks["majority"] is None
    assert says(remarks["raw"][0], "raw", "majority")


def test_tables_of_a_command_are_said_to_be_nodes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, edges = write(*tables(), "csv")
    assert bench.main([f"--dataset={nodes}", *RUN]) == 2
    assert "--edges" in capsys.readouterr().err
    assert bench.main([f"--dataset={nodes}", "--domain=nodes", *RUN]) == 2
    assert "--edges" in capsys.readouterr().err
    assert bench.main([f"--dataset={nodes}", "--edges=absent.csv", *RUN]) == 2
    assert "absent.csv" in capsys.readouterr().err
    Path("folder").mkdir()
    for path in (nodes, edges):
        path.rename(Path("folder") / path)
    # the file of edges is looked for in the folder of the nodes, too
    assert bench.main([f"--dataset=folder/{nodes}", f"--edges={edges}", *RUN]) == 0


def test_shares_and_folds_of_labelled_nodes() -> None:
    people, links = tables()
    nodes = NodeSet.from_tables(people, links, name="people")
    labelled = {*(nodes.y >= 0).nonzero().flatten().tolist()}
    for config, sizes in (
        (NodeConfig("people", "ucl", shares=(0.6, 0.2, 0.2)), (32, 11, 11)),
        (NodeConfig("people", "ucl", folds=3), (18, 18, 18)),
        (NodeConfig("people", "scl", folds=6), (36, 9, 9)),
    ):
        splits = splits_of(config, nodes)
        assert {tuple(map(len, split)) for split in splits} == {sizes}
        assert all({*np.concatenate(split).tolist()} == labelled for split in splits)
        if config.folds:
            assert len(splits) == config.folds
            assert sorted(np.concatenate([split.test for split in splits])) == sorted(labelled)
            counts = [np.bincount(nodes.y[split.test]) for split in splits]
            assert np.ptp(counts, axis=0).max() <= 1


def test_shares_are_part_of_the_key_only_where_they_differ() -> None:
    usual = NodeConfig("Cora", "ucl")
    assert usual.key() == NodeConfig("Cora", "ucl", shares=(0.1, 0.1, 0.8)).key()
    others = [NodeConfig("Cora", "ucl", shares=(0.6, 0.2, 0.2)), NodeConfig("Cora", "ucl", folds=5)]
    assert len({usual.key(), *(config.key() for config in others)}) == 3
    for wrong in ({"shares": (0.6, 0.2)}, {"shares": (0.6, 0.2, 0.3)}, {"folds": 2},
                  {"folds": 5, "shares": (0.6, 0.2, 0.2)}):  # fmt: skip
        with pytest.raises(InputError):
            NodeConfig("Cora", "ucl", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "share"),
    [({}, 43 / 5), ({"shares": (0.6, 0.2, 0.2)}, 11 / 32), ({"folds": 6}, 9 / 36)],
)
def test_tests_of_differences_take_the_shares_of_their_splits(
    here: Path, options: dict[str, Any], share: float
) -> None:
    nodes = NodeSet.from_tables(*tables(), name="people")
    found = gcl_hard.evaluate(
        "gcn", nodes, "ucl", baselines=["raw"], seeds=1, epochs=1, splits=6, dim=4,
        output="runs", progress=False, save_encoder=False, **options,
    )  # fmt: skip
    scores = {run.config.method: r.scores["accuracy"] for run, r in found.results.records.items()}
    test = corrected_t_test(scores["raw"], scores["ucl"], test_share=share)
    row = found.table.set_index("method").loc["raw"]
    assert row["p_ucl"] == pytest.approx(test.p, rel=1e-6)


@pytest.mark.parametrize("kind", ["networkx", "pyg"])
def test_attributes_of_nodes_are_read_by_name(kind: str) -> None:
    people, links = tables()
    people = people.fillna({"age": 30.0, "city": "Ås"})
    row = {name: k for k, name in enumerate(people["id"])}
    names = ["age", "visits", "city"]
    if kind == "networkx":
        graph: Any = nx.Graph()
        for k, person in people.iterrows():
            graph.add_node(person["id"], **person[[*names, "label"]].to_dict())
            assert k == row[person["id"]]
        graph.add_edges_from(links[["from", "to"]].to_numpy())
    else:
        ends = torch.tensor([[row[a], row[b]] for a, b in links[["from", "to"]].to_numpy()]).T
        fields = {name: torch.tensor(people[name].to_numpy()) for name in names[:2]}
        fields |= {"city": people["city"].tolist(), "label": people["label"].tolist()}
        graph = Data(edge_index=ends, num_nodes=N, **fields)
    nodes = NodeSet.from_graph(graph, x=names, y="label")
    dummies = pd.get_dummies(people["city"], prefix="city", prefix_sep="=", dtype=float)
    wanted = pd.concat([people[names[:2]], dummies[sorted(dummies)]], axis=1)
    assert nodes.columns == (*wanted.columns,)
    np.testing.assert_allclose(nodes.x.to_dense().numpy(), wanted.to_numpy(float), rtol=1e-6)
    assert int((nodes.y < 0).sum()) == 6
    with pytest.raises(InputError, match="age"):
        NodeSet.from_graph(graph, x=["agee"])


def test_attributes_of_several_numbers_are_columns_and_mixtures_are_refused() -> None:
    graph = nx.path_graph(3)
    for k in graph:
        graph.nodes[k].update(place=[k, k + 0.5], kind="a" if k else 1)
    with pytest.warns(UserWarning, match="kind"):  # which is not read
        nodes = NodeSet.from_graph(graph, x=["place"])
    assert nodes.x.to_dense().tolist() == [[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]]
    with pytest.raises(InputError, match="kind"):
        NodeSet.from_graph(graph, x=["place", "kind"])
