"""Tables of measurements, stopped and gone on with."""

from __future__ import annotations

import argparse
import csv
import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def pairs(bare_names: None) -> ModuleType:
    return importlib.import_module("pairs")


def measure(pairs: ModuleType, out: Path, turns: int, stop: str | None = None) -> list[str]:
    """Which of three parts a command measures; it may be stopped within one."""
    options = argparse.Namespace(out=out, turns=turns)
    table, measured = pairs.Table("made up", options), []
    for part in table.each(("a", "b", "c")):
        measured.append(part)
        table.add(part, {"time": [float(turns)]})
        if part == stop:
            raise KeyboardInterrupt(measured)
        table.add(part, {"memory": [1.0, 2.0]}, "MB")
    table.write(out)
    return measured


def test_a_stopped_command_goes_on_and_ends_with_the_undisturbed_table(
    pairs: ModuleType, tmp_path: Path
) -> None:
    stopped, whole = tmp_path / "stopped.csv", tmp_path / "whole.csv"
    for stop, first in (("b", "a"), ("b", "b"), ("c", "b")):
        with pytest.raises(KeyboardInterrupt) as interrupt:
            measure(pairs, stopped, 3, stop)
        assert interrupt.value.args[0][0] == first
        assert not stopped.exists()
    assert measure(pairs, stopped, 3) == ["c"]
    assert measure(pairs, whole, 3) == ["a", "b", "c"]
    assert stopped.read_bytes() == whole.read_bytes()
    with whole.open(newline="") as file:
        assert [(row["case"], row["metric"]) for row in csv.DictReader(file)] == [
            (part, metric) for part in "abc" for metric in ("time", "memory")
        ]
    assert sorted(tmp_path.iterdir()) == [stopped, whole]


def test_a_command_with_other_options_measures_all_anew(pairs: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    with pytest.raises(KeyboardInterrupt):
        measure(pairs, out, 3, "c")
    assert measure(pairs, out, 5) == ["a", "b", "c"]


def test_without_a_file_nothing_is_kept(
    pairs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = pairs.Table("made up")
    assert list(table.each("ab")) == ["a", "b"]
    table.write(None)
    assert not list(tmp_path.iterdir())
