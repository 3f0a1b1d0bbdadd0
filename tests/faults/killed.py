"""Commands that are killed at random moments, and what they write into."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import ROOT
from tests.fuzz.survival import CASES

KILLS = 20 if CASES else 6
"""How many; ``make test-faults`` has all."""
TINY = ["--layers=1", "--dim=4", "--device=cpu", "--threads=1", "--output=OUT"]


def killed(
    target: str, folder: Path, *arguments: str, kills: int = KILLS
) -> tuple[Path, list[Path]]:
    """Execute a command undisturbed, and again and again while it is killed; see tests/killing.py.

    Returns:
        The folder that the first wrote into, and those of the others.
    """
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.killing", target, str(kills), str(folder),
         *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    return folder / "whole", sorted(folder.glob("ended-*"))


def left_over(folder: Path) -> list[Path]:
    """Hidden files and folders, which are half-written, made two days old."""
    paths = sorted(folder.rglob(".*"))
    for path in (*paths, *(inner for outer in paths for inner in outer.rglob("*"))):
        os.utime(path, (time.time() - 2 * 24 * 3600,) * 2)
    return paths


def write_chains(path: Path, n: int) -> Path:
    rings = (f"C1{'C' * (2 + size)}1" for size in range(8))
    ends = ("O", "N", "c1ccccc1", "c1ccncc1", *rings)
    lines = [f"{'C' * (1 + i // 12)}{ends[i % 12]},{i}.5" for i in range(n)]
    path.write_text("\n".join(["smiles,y", *lines, ""]))
    return path
