"""The committed pages of results have the numbers of the committed records."""

from __future__ import annotations

import csv
import importlib
import json
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gcl_hard import bench

ROOT = Path(__file__).parents[1]
RESEARCH = ROOT / "docs" / "research"
PAGES = sorted(RESEARCH.glob("results-*.md"))
SHORT = ("results-moleculenet.md",)
"""Pages that are made anew in every run of the tests, not among the slow ones alone."""

UNFINISHED = ("results-lr-0.001.md", "results-table-2.md", "results-table-2-batch-max.md")
"""Pages of which some runs are open, and say so."""


def page_cases() -> list[Any]:
    """All pages; most are marked slow."""
    return [
        pytest.param(page, id=page.stem, marks=() if page.name in SHORT else pytest.mark.slow)
        for page in PAGES
    ]


def command(page: Path) -> str:
    """The command that a page states."""
    return page.read_text(encoding="utf-8").split("```bash\n")[1].split("\n```")[0]


def numbers(page: Path) -> Counter[tuple[str, ...]]:
    """The numbers in every line of every table."""
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith("|")]
    return Counter(tuple(re.findall(r"[+-]?\d*\.?\d+", line)) for line in lines)


@pytest.mark.parametrize("page", page_cases())
def test_the_command_of_a_page_makes_its_numbers_from_the_records(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    shutil.copytree(ROOT / "configs", tmp_path / "configs", ignore=shutil.ignore_patterns("best"))
    monkeypatch.chdir(tmp_path)
    entry, *arguments = shlex.split(command(page).removeprefix("python -m "))
    if entry == "gcl_hard.bench":
        arguments.append("--json=results.json")
    assert importlib.import_module(entry).main([*arguments, "--report-only"]) == 0
    made = tmp_path / page.relative_to(ROOT)
    assert numbers(made) == numbers(page)
    assert (
        sum(n * len(line) for line, n in numbers(made).items()) > 10
    )  # the smallest page has two rows
    assert command(made) == command(page)
    unfinished = re.search(r"\d\*{0,2} of [\d,]+ runs|\d runs? open", page.read_text("utf-8"))
    assert bool(unfinished) == (page.name in UNFINISHED)
    if (table := page.with_suffix(".csv")).exists():
        rows, committed = (
            list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
            for file in (made.with_suffix(".csv"), table)
        )
        assert rows == committed


def test_the_table_of_the_readme_comes_from_the_records(tmp_path: Path) -> None:
    page = (RESEARCH / "results.md").read_text(encoding="utf-8")
    arguments = shlex.split(page.split("```bash\n")[1].split("\n```")[0])[3:]
    folder = str(ROOT / "benchmarks" / "results" / "tables")
    arguments[arguments.index("--output") + 1] = folder
    written = tmp_path / "results.json"
    assert bench.main([*arguments, "--report-only", f"--json={written}"]) == 0
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for line in readme.splitlines() if re.match(r"\| (\w+cl|baseline: ).*±", line)]
    shown = sorted(cell for line in lines for cell in re.findall(r"[\d.]+ ± [\d.]+", line))
    rows = json.loads(written.read_text(encoding="utf-8"))["configs"]
    made = sorted(f"{row['accuracy_mean']:.1f} ± {row['accuracy_std']:.1f}" for row in rows)
    assert made == shown
    assert len(made) == 30
