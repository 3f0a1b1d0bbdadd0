"""Results are shown without their data, each file read once, in work that grows as they do."""

from __future__ import annotations

import socket
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gcl_hard.bench import main
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.experiments.store import Store
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.reports.frame import Results
from gcl_hard.reports.grid import gains
from gcl_hard.reports.rows import rows
from tests.experiments import record

USUAL = {
    "graphs": "MUTAG", "nodes": "Cora", "links": "FB15k-237", "molecules": "BACE",
    "images": "digits", "vectors": "wine",
}  # fmt: skip


def no_network(*values: Any, **options: Any) -> None:
    raise AssertionError("the network was asked for something")


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Flags that show what is finished, on a machine without data."""
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    (tmp_path / "empty").mkdir()
    return ["--report-only", f"--data-dir={tmp_path / 'empty'}", f"--output={tmp_path / 'made'}",
            f"--report={tmp_path / 'page.md'}"]  # fmt: skip


def stored(folder: Path, config: RunConfig, seeds: int) -> None:
    for seed in range(seeds):
        facts = {"n_test": 100, "n_train": 400, "digest": "0"}
        result = record(config, seed, [70.25 + seed] * config.n_scores, data=facts)
        Store(folder).put(Run(config, seed), result)


@pytest.mark.parametrize("domain", [*USUAL])
def test_a_page_needs_no_data_set(domain: str, tmp_path: Path, shown: list[str]) -> None:
    config = CONFIGS[domain](dataset=USUAL[domain], method="untrained")
    stored(tmp_path / "made", config, seeds=2)
    asked = [f"--domain={domain}", f"--dataset={USUAL[domain]}", "--method=untrained"]
    assert main([*shown, *asked, "--seeds=2"]) == 0
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert USUAL[domain] in page
    assert "70.8" in page  # their mean


@pytest.mark.parametrize("compact", [False, True])
def test_a_page_reads_each_file_once(
    compact: bool, tmp_path: Path, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for beta in (1.0, 2.0, 3.0):
        stored(tmp_path / "made", GraphConfig(method="hucl", beta=beta), seeds=2)
    if compact:
        assert main([f"--compact={tmp_path / 'made'}"]) == 0
    files, read = {*(tmp_path / "made").iterdir()}, Counter[Path]()

    def counted(name: str) -> Any:
        plain = getattr(Path, name)

        def reads(path: Path, *values: Any, **options: Any) -> Any:
            read[path] += 1
            return plain(path, *values, **options)

        return reads

    for name in ("read_text", "read_bytes"):
        monkeypatch.setattr(Path, name, counted(name))
    assert main([*shown, "--method=hucl", "--beta=1,2,3", "--seeds=2"]) == 0
    assert len(files) == (1 if compact else 6)
    assert {path: n for path, n in read.items() if path in files} == dict.fromkeys(files, 1)


def calls(n: int) -> int:
    """Calls that the rows and gains of n settings take."""
    every = [GraphConfig(method=m, lr=0.001 * k) for k in range(1, n // 2 + 1)
             for m in ("ucl", "hucl")]  # fmt: skip
    records = {Run(c, seed): record(c, seed, [70.0, 80.0 + c.lr]) for c in every for seed in (0, 1)}
    results, counted = Results(every, (0, 1), records), Counter[str]()
    sys.setprofile(lambda frame, event, argument: counted.update([event]))
    try:
        rows(results)
        gains(results)
    finally:
        sys.setprofile(None)
    return counted["call"] + counted["c_call"]


def test_the_work_grows_with_the_number_of_settings() -> None:
    calls(200)  # so that what is made once is there
    assert calls(200) < 4.4 * calls(50)
