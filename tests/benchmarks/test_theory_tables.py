"""The tables of the theory page are those of its figures."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script(bare_names: None) -> ModuleType:
    return import_module("theory_tables")


def test_the_page_says_what_the_figures_do(script: ModuleType) -> None:
    text = (script.DOCS / "theory.md").read_text(encoding="utf-8")
    assert script.filled(text) == text


def test_a_number_of_a_figure_stands_in_the_page(script: ModuleType) -> None:
    head, *body = script.lemma_1()
    rows = script.rows("fig5", "MUTAG-jsd", method="hscl", panel="beta=1")
    held = sum(float(row["hscl"]) <= float(row["hucl"]) for row in rows)
    line = next(line for line in body if list(line[:2]) == ["MUTAG, JSD", "hscl"])
    assert line[list(head).index("β = 1")] == f"{held} of {len(rows)}"
