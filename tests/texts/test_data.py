"""Sets of texts: tables, JSON lines, and BANKING77."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gcl_hard import InputError
from gcl_hard.commands.datasets import domain_of
from gcl_hard.texts import KNOWN, TextSet, has_columns, load_texts
from gcl_hard.texts.files import paths

REAL = Path(__file__).parents[3] / "shared" / "data" / "text"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="no ../shared/data/text")
ROWS = [
    {"id": 5, "text": "where, is my \"card\"?", "label": "card", "split": "train"},
    {"id": 7, "text": "the rate\nof today", "label": "rate", "split": "test"},
    {"id": 9, "text": "  ", "label": "card", "split": "train"},
    {"id": 2, "text": "größer", "label": None, "split": "train"},
]  # fmt: skip


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    if path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
    elif path.suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        lines = "\n".join(json.dumps(row) for row in rows).encode()
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl", "a.jsonl.gz"])
def test_all_kinds_of_tables_give_the_same_set(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, ROWS)
    texts = load_texts(path)
    assert texts.texts == ('where, is my "card"?', "the rate\nof today", "größer")
    assert texts.names.tolist() == [5, 7, 2]
    assert texts.y.tolist() == [0, 1, -1]
    assert texts.class_names == ("card", "rate")
    assert texts.split is not None
    assert texts.split.tolist() == [0, 2, 0]
    assert [note.rpartition(": ")[2] for note in texts.notes] == ["1", "1"]
    assert texts.digest == TextSet.from_table(pd.DataFrame(ROWS)).digest
    assert domain_of({"dataset": (str(path),)}) == "texts"
    assert load_texts(name, data_dir=tmp_path).digest == texts.digest


def test_columns_are_recognised_or_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({"Sentence": ["a b", "c d"], "intent": ["x", "y"], "title": ["p", "q"]})
    assert TextSet.from_table(frame).texts == ("a b", "c d")
    assert TextSet.from_table(frame).class_names == ("x", "y")
    named = TextSet.from_table(frame, text="title", label="Sentence")
    assert (named.texts, named.class_names) == (("p", "q"), ("a b", "c d"))
    assert has_columns(["Sentence", "intent"])
    other = tmp_path / "other.csv"
    frame.rename(columns={"Sentence": "body"}).to_csv(other, index=False)
    assert domain_of({"dataset": (str(other),), "domain": "texts"}) == "texts"
    assert load_texts(other, text="body").texts == ("a b", "c d")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"text": ["a", "b"], "query": ["c", "d"]}, "text, query"),
        ({"text": ["a", "b"], "label": [1, 2], "intent": [1, 2]}, "label, intent"),
        ({"body": ["a", "b"]}, "--text"),
        ({"text": ["a", "b"], "id": [1, 1]}, "1 ids"),
        ({"text": [1, 2]}, "int"),
        ({"text": [" ", None]}, "all 2"),
        ({"text": ["a", "b"], "split": ["train", "dev"]}, "test"),
    ],
)
def test_bad_tables_are_refused_in_a_sentence(rows: dict[str, list[object]], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        TextSet.from_table(pd.DataFrame(rows))
    assert "\n" not in str(caught.value)


def test_lines_that_are_no_objects_are_refused(tmp_path: Path) -> None:
    for content in ('{"text": "a"}\n[1]\n', '{"text": \n'):
        path = tmp_path / "bad.jsonl"
        path.write_text(content)
        with pytest.raises(InputError, match=r"bad\.jsonl"):
            load_texts(path)


@needs_real
def test_banking77_is_the_published_set(tmp_path: Path) -> None:
    texts = load_texts("banking77", data_dir=REAL)
    for part, (file, _, sha256) in KNOWN["BANKING77"].files.items():
        assert hashlib.sha256((REAL / file).read_bytes()).hexdigest() == sha256
        with (REAL / file).open(newline="", encoding="utf-8") as lines:
            rows = [(row["text"].strip(), row["category"]) for row in csv.DictReader(lines)]
        assert texts.split is not None
        ids = np.flatnonzero(texts.split == {"train": 0, "test": 2}[part])
        assert rows == [(texts.texts[k], texts.class_names[texts.y[k]]) for k in ids]
    assert (len(texts), texts.n_classes, texts.notes) == (13_083, 77, ())
    assert [path.parent for path in paths("BANKING77", data_dir=REAL)] == [REAL, REAL]
    assert domain_of({"dataset": ("BANKING77",)}) == "texts"
    for file, *_ in KNOWN["BANKING77"].files.values():
        (tmp_path / file).write_bytes((REAL / file).read_bytes()[:5000].rpartition(b"\n")[0])
    with pytest.raises(InputError, match="published"):
        load_texts("BANKING77", data_dir=tmp_path)


@needs_real
def test_banking77_is_downloaded_once_and_compared(
    site: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = site
    known = KNOWN["BANKING77"]
    files = {
        part: (file, f"{url}/{part}.csv", sha256)
        for part, (file, _, sha256) in known.files.items()
    }  # fmt: skip
    for part, (file, *_) in files.items():
        (folder / f"{part}.csv").write_bytes((REAL / file).read_bytes())
    monkeypatch.setitem(KNOWN, "BANKING77", known._replace(files=files))
    first = load_texts("BANKING77", data_dir=tmp_path, cache_dir=tmp_path / "cache")
    (folder / "train.csv").write_text("text,category\nother,other\n")
    again = load_texts("BANKING77", data_dir=tmp_path, cache_dir=tmp_path / "cache")
    assert first.digest == again.digest == load_texts("BANKING77", data_dir=REAL).digest
    with pytest.raises(InputError, match="hash"):
        load_texts("BANKING77", data_dir=tmp_path, cache_dir=tmp_path / "other")
    assert not any((tmp_path / "other").rglob("*.csv"))


def test_a_set_that_is_nowhere_says_where_to_put_its_files(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_texts("BANKING77", data_dir=tmp_path, cache_dir=tmp_path, download=False)
    for file, url, _ in KNOWN["BANKING77"].files.values():
        assert file in str(caught.value)
        assert url in str(caught.value)
