"""Pages of made-up results, cut into sections and tables, and what must stand in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from gcl_hard.experiments.recipe import files

from gcl_hard.experiments.recipe_table import REPORTED, Entry
from gcl_hard.experiments.runs import Run
from gcl_hard.reports.recipe import (
    RecipeTable,
)
from gcl_hard.reports.recipe_page import (
    page,
)
from gcl_hard.reports.text import (
    NBSP,
)
from tests.experiments.recipe.made_up_table import METHODS, RECIPE, compared, of, put
from tests.reports.made import cells_of

COMMAND = "python -m gcl_hard.bench --table recipe --report docs/results.md"
BASELINES = METHODS[5:]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where recipes are: one for all sets."""
    monkeypatch.setattr(files, "FOLDERS", (tmp_path,))
    put(tmp_path, "all", RECIPE)
    return tmp_path


def partly(row: Entry, dataset: str, seed: int) -> bool:
    """scl has one seed of MUTAG and dcl none; half of the ablations are open on PTC_MR."""
    if dataset == "MUTAG":
        return (row.method, seed) != ("scl", 101) and row.method != "dcl"
    return row.part not in ("off", "on") or row.name in ("SVM", "encoder")


def shift(row: Entry, dataset: str) -> float:
    """Everything differs somewhere, significantly or not."""
    points = 4.0 * of(row, "ours", *REPORTED) - 0.5 * of(row, "ours", "hscl")
    points += 0.4 * of(row, "ours", "hucl") + 6.0 * (dataset == "PTC_MR")
    return points + 3.0 * (row.part == "on" and row.name == "optimiser")


@pytest.fixture
def whole() -> RecipeTable:
    return compared(shift)


@pytest.fixture
def part() -> RecipeTable:
    return compared(shift, finished=partly)


def text(found: RecipeTable, *, figure: str | None = None) -> str:
    return page(found, COMMAND, figure=figure)


def section(found: RecipeTable, name: str) -> str:
    parts = re.split(r"^## ", text(found, figure="curves.svg"), flags=re.M)
    (one,) = (p for p in parts if p.startswith(name))
    return one


def table(found: RecipeTable, name: str) -> list[list[str]]:
    """Cells of the one table of a section, without its rule."""
    return cells_of(section(found, name))


def filled(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows whose empty first configs are those above them."""
    found: list[list[str]] = []
    for row in rows:
        found.append([row[0] or found[-1][0], *row[1:]])
    return found


def folds(found: RecipeTable, row: Entry, dataset: str) -> dict[int, list[float]]:
    """Of finished seeds, by looking at the records."""
    runs = {seed: Run(row.configs[dataset], seed) for seed in found.results.seeds}
    known = found.results.records
    return {s: known[run].fold_accuracies for s, run in runs.items() if run in known}


def shown(found: RecipeTable, row: Entry, dataset: str) -> str:
    """An accuracy as it must stand there."""
    means = [fmean(one) for one in folds(found, row, dataset).values()]
    if not means:
        return "open"
    if len(means) == 1:
        return f"{means[0]:.1f} [1]"
    return f"{fmean(means):.1f}{NBSP}±{NBSP}{stdev(means):.1f}"


def get(found: RecipeTable, part: Any, name: str, protocol: str = "inductive") -> Entry:
    row = found.row(part, name, protocol)
    assert row is not None
    return row
