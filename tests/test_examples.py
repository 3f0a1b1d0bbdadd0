"""The programs of ``docs/examples`` run, and the parts in them pass their own checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "docs" / "examples").glob("*.py"))
OWN_PARTS = [file for file in EXAMPLES if file.stem.startswith("own_")]


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command], cwd=folder, check=False,
        capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_runs(file: Path, tmp_path: Path) -> None:
    printed = run(tmp_path, str(file))
    assert printed.strip() or any(tmp_path.iterdir()), "it shows or stores what it found"


@pytest.mark.parametrize("file", OWN_PARTS, ids=lambda file: file.stem)
def test_own_parts_are_short_and_pass_their_checks(file: Path, tmp_path: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 40
    assert " passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file))


def test_there_is_an_example_of_each_part_of_ones_own() -> None:
    assert {file.stem for file in OWN_PARTS} == {"own_encoder", "own_graphs", "own_hardening"}
