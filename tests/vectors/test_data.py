"""Sets of vectors: arrays, tables and files, and what is refused of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gcl_hard import InputError, bench
from gcl_hard.commands.datasets import domain_of
from gcl_hard.vectors import VectorSet, load_vectors
from tests.said import says
from tests.vectors.sets import blobs, npz

TABLE: dict[str, Any] = {
    "id": ["p", "q", "r", "s"], "a": [1.5, 2, 3, 4], "b": [0, 1, 0, 1],
    "label": ["no", "yes", None, "no"], "split": ["train", "Valid", "test", None],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet", "lists"])
def test_a_table_of_any_kind_is_read_alike(kind: str, tmp_path: Path) -> None:
    frame: Any = pd.DataFrame(TABLE)
    if kind == "lists":
        frame["v"] = [*map(list, frame[["a", "b"]].to_numpy())]
        frame = frame.drop(columns=["a", "b"])
    table: Any = frame
    if kind != "frame":
        table = tmp_path / ("t.csv" if kind == "csv" else "t.parquet")
        frame.to_csv(table, index=False) if kind == "csv" else frame.to_parquet(table)
    vectors = VectorSet.from_table(table)
    np.testing.assert_array_equal(vectors.x, [[1.5, 0], [2, 1], [3, 0], [4, 1]])
    assert vectors.x.dtype == np.float32
    assert vectors.columns == (() if kind == "lists" else ("a", "b"))
    assert vectors.y.tolist() == [0, 1, -1, 0]
    assert vectors.class_names == ("no", "yes")
    assert vectors.names.tolist() == TABLE["id"]
    assert vectors.split is not None
    assert vectors.split.tolist() == [0, 1, 2, -1]
    assert says(" ".join(vectors.notes), "label", 1)


def test_columns_are_named_where_they_are_called_otherwise(tmp_path: Path) -> None:
    frame = pd.DataFrame({"kind": [1, 0], "key": [4, 5], "x": [1, 2], "y": [3, 4], "z": [5, 6]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    vectors = load_vectors(tmp_path / "t.csv", columns=["z", "x"], label="kind", id="key")
    assert vectors.x.tolist() == [[5, 1], [6, 2]]
    assert (vectors.name, vectors.class_names, vectors.names.tolist()) == ("t", ("0", "1"), [4, 5])


def test_training_sees_the_training_part_alone() -> None:
    vectors = blobs()
    split = np.arange(len(vectors)) % 3
    seen = VectorSet.from_arrays(vectors.x, vectors.y, split=split).batches(7)(0)
    rows = np.concatenate([x.numpy() for x, _ in seen])
    assert sorted(rows.tolist()) == sorted(vectors.x[split == 0].tolist())


def test_a_file_is_the_arrays_and_any_change_is_another_digest(tmp_path: Path) -> None:
    vectors = blobs()
    split = np.array(["train", "test"])[np.arange(len(vectors)) % 2]
    read = load_vectors(npz(vectors, tmp_path / "mine.npz", split=split))
    assert read.x.tolist() == vectors.x.tolist()
    assert read.y.tolist() == vectors.y.tolist()
    assert read.split is not None
    assert read.split.tolist() == [0, 2] * (len(vectors) // 2)
    x = vectors.x.copy()
    x[3, 2] += 1
    others = [
        VectorSet.from_arrays(x, vectors.y), VectorSet.from_arrays(vectors.x, vectors.y[::-1]),
        VectorSet.from_arrays(vectors.x, vectors.y, ids=range(1, len(vectors) + 1)), read,
    ]  # fmt: skip
    assert len({vectors.digest, *(other.digest for other in others)}) == 5


def frame(**changed: Any) -> pd.DataFrame:
    return pd.DataFrame(TABLE | changed)


REFUSED: dict[str, tuple[Callable[[], Any], tuple[object, ...]]] = {
    "NaN": (lambda: VectorSet.from_arrays([[1, np.nan], [2, 3]], [0, 1]), (1, 2)),
    "a missing number": (lambda: VectorSet.from_table(frame(a=[1, None, 2, 3])), (1, 4)),
    "two widths": (
        lambda: VectorSet.from_table(frame(a=[[1], [1, 2], [1], [1]]), columns=["a"]), (1, 2)
    ),
    "ids twice": (lambda: VectorSet.from_table(frame(id=["p", "p", "q", "r"])), ("p",)),
    "words": (lambda: VectorSet.from_table(frame(b=list("wxyz"))), ("b", "--columns", "a")),
    "no such column": (lambda: VectorSet.from_table(frame(), columns=["c"]), ("c",)),
    "no such label": (lambda: VectorSet.from_table(frame(), label="kind"), ("kind", "label")),
    "no numbers": (lambda: VectorSet.from_table(pd.DataFrame({"label": [0, 1]})), ("own",)),
    "another part": (lambda: VectorSet.from_table(frame(split=["train", "later"] * 2)), ("later",)),
    "no test part": (lambda: VectorSet.from_table(frame(split=["train"] * 4)), ("test",)),
    "too few labels": (lambda: VectorSet.from_arrays([[1], [2]], [0]), (2,)),
    "real labels": (lambda: VectorSet.from_arrays([[1], [2]], [0.5, 1]), (0.5,)),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(case: str) -> None:
    make, facts = REFUSED[case]
    with pytest.raises(InputError) as caught:
        make()
    assert says(str(caught.value), *facts)
    assert "\n" not in str(caught.value)


def test_content_says_the_domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    npz(blobs(), tmp_path / "mine.npz")
    frame().to_csv("mine.csv", index=False)
    for name in ("wine", "mine.npz", "mine.csv"):
        assert domain_of({"dataset": (name,)}) == "vectors"
    assert domain_of({"dataset": ("mine",), "data_dir": tmp_path}) == "vectors"
    np.savez(tmp_path / "both.npz", x=[[1.0]], y=[0], edges=[[0, 0]])
    with pytest.raises(InputError) as caught:
        domain_of({"dataset": ("both.npz",)})
    assert says(str(caught.value), "both.npz", "nodes", "vectors")


@pytest.mark.parametrize(
    ("flags", "facts"),
    [
        (["--dataset=one.npz"], ("one", 1, "--label")),
        (["--dataset=blobs.npz", "--split=given"], ("blobs", "split")),
        (["--dataset=blobs.npz", "--label=y"], ("blobs", "--label")),
        (["--dataset=wine", "--split=given", "--splits=3"], (3, "splits")),
        (["--dataset=wine", "--protocol=split,unseen"], ("split", "unseen")),
        (["--dataset=wine", "--encoder=cnn", "--method=ucl"], ("mlp", "cnn")),
        (["--dataset=absent", "--domain=vectors"], ("absent", "absent.npz")),
    ],
)
def test_a_command_refuses_in_a_sentence(
    flags: list[str], facts: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GCL_HARD_DATA", "")
    npz(blobs(), tmp_path / "blobs.npz")
    npz(blobs(classes=1), tmp_path / "one.npz")
    assert bench.main(["--method=raw", *flags, "--output=out"]) == 2
    assert says(capsys.readouterr().err, *facts)
