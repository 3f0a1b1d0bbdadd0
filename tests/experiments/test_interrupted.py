"""A table that is killed at random and begun again ends as if nothing had happened."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = [
    "--table=2", "--dataset=MUTAG", "--method=ucl,hscl,majority,label-histogram,supervised",
    "--beta=1,10", "--folds=3", "--epochs=3", "--seeds=2", "--jobs=2", "--device=cpu",
]  # fmt: skip
VARYING = {"seconds_train", "seconds_eval", "finished", "seconds"}


def without_times(content: Any) -> Any:
    if isinstance(content, dict):
        return {k: without_times(v) for k, v in content.items() if k not in VARYING}
    return [without_times(v) for v in content] if isinstance(content, list) else content


def read(folder: Path) -> dict[str, Any]:
    """Everything that a folder of results holds, without times."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {p.name: without_times(json.loads(p.read_text(encoding="utf-8"))) for p in files}


def command(output: Path) -> list[str]:
    return [sys.executable, "-m", "gcl_hard.bench", *ARGUMENTS, f"--output={output}"]


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_and_begun_again_it_ends_with_the_same_table(
    kills: int, tmp_path: Path
) -> None:
    begun = time.monotonic()
    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True, timeout=500)
    whole = time.monotonic() - begun
    rng, done = random.Random(kills), set[int]()
    for _ in range(kills):
        with subprocess.Popen(
            command(tmp_path / "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                process.wait(timeout=rng.uniform(0.1, 0.9) * whole)
            except subprocess.TimeoutExpired:
                process.kill()
        done.add(len(list((tmp_path / "killed").glob("*_seed*.json"))))
    assert len(done) > 1, "no kill came in the middle of the work"
    subprocess.run(command(tmp_path / "killed"), check=True, capture_output=True, timeout=500)
    assert read(tmp_path / "killed") == read(tmp_path / "whole")
