"""The committed results page is what the committed records give."""

from __future__ import annotations

from pathlib import Path

from gcl_hard.bench import main

ROOT = Path(__file__).parents[1]
CELLS = ROOT / "benchmarks" / "results" / "cells"


def test_the_records_give_the_results_page(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    at = ["--output", str(CELLS), "--report", str(page), "--json", str(tmp_path / "results.json")]
    assert main(["--table", "recipe", *at, "--report-only"]) == 0
    text = page.read_text(encoding="utf-8")
    text = text.replace(str(CELLS), "benchmarks/results/cells").replace(
        str(page), "docs/results.md"
    )
    assert text == (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert " open" not in text
    table = page.with_suffix(".csv").read_bytes()
    assert table == (ROOT / "docs" / "results.csv").read_bytes()
