"""The tables of the theory page are those of its figures (``make docs`` checks all of them)."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.paper.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script(bare_names: None) -> ModuleType:
    return import_module("theory_tables")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One figure, drawn from the committed results."""
    path = tmp_path_factory.mktemp("figures")
    where = str(ROOT / "benchmarks/results/figures")
    only = ["dataset=digits", "method=hscl,hucl"]
    selected = [f"--only={name}" for name in only]
    assert main(["fig5", where, "-o", str(path), "--name", "fig5-digits", *selected]) == 0
    return path


def test_a_table_of_the_page_has_the_numbers_of_the_results(
    script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "SETS", {"digits": "digits"})
    page = script.PAGE.read_text(encoding="utf-8")
    for line in script.lemma_1(folder):
        assert f"| {' | '.join(line)} |" in page


def test_inequalities_are_counted_by_the_losses(
    script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "SETS", {"digits": "digits"})
    head, *body = script.lemma_1(folder)
    rows = script.rows(folder, "fig5", "digits", method="hscl", panel="beta=1")
    held = sum(float(row["hscl"]) <= float(row["hucl"]) for row in rows)
    (line,) = body
    cells = dict(zip(head, line, strict=True))
    assert cells["β = 1"].partition(",")[0] == str(held)
    assert cells["snapshots"] == str(len(rows))
