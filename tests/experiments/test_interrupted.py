"""A table that is killed at random and begun again ends as if nothing had happened."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from contextlib import suppress
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


def records(folder: Path) -> int:
    return len(list(folder.glob("*_seed*.json")))


def command(output: Path) -> list[str]:
    return [sys.executable, "-m", "gcl_hard.bench", *ARGUMENTS, f"--output={output}"]


@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_and_begun_again_it_ends_with_the_same_table(
    kills: int, tmp_path: Path
) -> None:
    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True, timeout=500)
    rng, found = random.Random(kills), list[int]()
    for _ in range(kills):
        with subprocess.Popen(
            command(tmp_path / "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            enough = records(tmp_path / "killed") + rng.randint(0 if found else 1, 2)
            while records(tmp_path / "killed") < enough and process.poll() is None:
                time.sleep(0.01)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=rng.uniform(0.0, 2.0))
            process.kill()
        found.append(records(tmp_path / "killed"))
    whole = records(tmp_path / "whole")
    assert any(0 < n < whole for n in found), f"no kill came in the middle of the work: {found}"
    subprocess.run(command(tmp_path / "killed"), check=True, capture_output=True, timeout=500)
    assert read(tmp_path / "killed") == read(tmp_path / "whole")
