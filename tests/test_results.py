"""The committed results page is what the committed records give."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcl_hard.bench import main

ROOT = Path(__file__).parents[1]
CELLS = "benchmarks/results/cells"


def test_the_records_give_the_results_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = tmp_path / CELLS
    cells.parent.mkdir(parents=True)
    cells.symlink_to(ROOT / CELLS)
    # The command that the page shows, with its paths.
    monkeypatch.chdir(tmp_path)
    page = ["--output", CELLS, "--report", "docs/results.md", "--json", "results.json"]
    assert main(["--table", "recipe", *page, "--report-only"]) == 0
    for file in ("docs/results.md", "docs/results.csv"):
        assert (tmp_path / file).read_bytes() == (ROOT / file).read_bytes()
    assert " open" not in (tmp_path / "docs/results.md").read_text(encoding="utf-8")
