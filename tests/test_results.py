"""The committed tables of results have the numbers of the committed records."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from benchmarks import pages
from gcl_hard import bench

ROOT = Path(__file__).parents[1]
RESEARCH = ROOT / "docs" / "research"


def test_a_page_is_built_from_the_records_and_a_number_that_differs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "BUILT", tmp_path / "built")
    name = "links-fb15k-237-candidates"
    assert pages.main([name, "--jobs", "1"]) == 0
    kept = (pages.KEPT / f"{name}.csv").read_text(encoding="utf-8")
    monkeypatch.setattr(pages, "KEPT", tmp_path)
    changed = re.search(r"\d\d\.\d{4}", kept)
    assert changed is not None
    (tmp_path / f"{name}.csv").write_text(kept.replace(changed[0], "99.9999", 1), encoding="utf-8")
    assert pages.main([name, "--jobs", "1"]) == 1
    assert "99.9999" in capsys.readouterr().out


def test_every_table_that_is_kept_has_a_page() -> None:
    assert {path.stem for path in pages.KEPT.glob("*.csv")} <= {*pages.commands()}


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
    expected = sorted(f"{row['accuracy_mean']:.1f} ± {row['accuracy_std']:.1f}" for row in rows)
    assert expected == shown
    assert len(expected) == 30
