"""Consoles, homes, users, languages and limits: each ends in a result, or in one message."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT

pytestmark = [
    pytest.mark.faults, pytest.mark.exact,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux says no in its own ways"),
]  # fmt: skip
SMALL = "--method ucl,hscl --epochs 1 --seeds 2 --folds 2 --layers 1 --dim 4 --threads 1"
BENCH = f"$PYTHON -m gcl_hard.bench {SMALL} --output out"
TUNE = (
    "$PYTHON -m gcl_hard.tune --method ucl --trials 2 --epochs 1 --layers 1 --dim 4 --threads 1 "
    "--ensemble-size 1 --output out"
)
IMAGES = (
    "$PYTHON -m gcl_hard.bench --dataset digits --method scl --encoder fast --width 4 --epochs 1 "
    "--seeds 1 --probe-epochs 1 --output out"
)
NOBODY = "setpriv --reuid 54321 --regid 54321 --clear-groups "
"""A user without a name and a home; needs root."""


class Case(NamedTuple):
    """A shell command, what its environment has, and what it lacks.

    ``done`` says that the runs must be there at the end.
    """

    command: str
    has: Mapping[str, str] = {}
    lacks: tuple[str, ...] = ()
    done: bool = True


def mounted(size: str, command: str, at: str = "small") -> str:
    """A command with a small disk; needs root."""
    return f"unshare -m bash -c 'mkdir -p {at}; mount -t tmpfs -o {size} none {at}; {command}'"


HOMELESS = ("HOME", "GCL_HARD_CACHE")
CASES = {
    "as usual": Case(BENCH),
    "a reader that leaves": Case(f"{BENCH} | head -1; exit ${{PIPESTATUS[0]}}"),
    "a reader that is not there": Case(f"{BENCH} | true; exit ${{PIPESTATUS[0]}}"),
    "no output": Case(f"{BENCH} >&-"),
    "no errors": Case(f"{BENCH} 2>&-"),
    "a full output": Case(f"{BENCH} > /dev/full"),
    "no home": Case(BENCH, lacks=HOMELESS),
    "no home and no name": Case(NOBODY + BENCH, lacks=HOMELESS),
    "the home of another": Case(
        f"{NOBODY}{IMAGES} --method pixels", {"HOME": "/root"}, ("GCL_HARD_CACHE",)
    ),
    "a search without home and name": Case(f"{NOBODY}{TUNE} --report out/p.md", lacks=HOMELESS),
    "LANG=C": Case(f"{BENCH} --report out/p.md", {"LANG": "C", "LC_ALL": "C"}),
    "ASCII": Case(BENCH, {"PYTHONIOENCODING": "ascii"}),
    "ASCII everywhere": Case(
        BENCH, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    ),
    "help in ASCII": Case(
        "$PYTHON -m gcl_hard.bench --help", {"PYTHONIOENCODING": "ascii"}, done=False
    ),
    "an error in ASCII": Case(
        f"{BENCH} --dataset ä", {"PYTHONIOENCODING": "ascii"}, done=False
    ),
    "a search in ASCII": Case(TUNE, {"PYTHONIOENCODING": "ascii"}),
    "umask 002": Case(f"umask 002; {BENCH}"),
    "a folder of another": Case(f"chmod 555 out; {NOBODY}{BENCH}", done=False),
    "a disk of 64 KiB": Case(
        mounted("size=64k", f"{BENCH} --output small --save-encoder"), done=False
    ),
    "a search on a disk of 100 KiB": Case(
        mounted("size=100k", f"{TUNE} --output small"), done=False
    ),
    "a cache on a disk of 16 KiB": Case(
        mounted("size=16k", f"GCL_HARD_CACHE=small {IMAGES}"), done=False
    ),
}  # fmt: skip


def is_possible(command: str) -> bool:
    """Whether this user may become another, or mount disks, where a command does."""
    for program in ("setpriv", "unshare", "script"):
        if program in command and shutil.which(program) is None:
            return False
    if "unshare" in command:
        done = subprocess.run(
            ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"],
            capture_output=True,
            check=False,
        )
        return done.returncode == 0
    return "setpriv" not in command or os.geteuid() == 0


@pytest.mark.parametrize("name", CASES)
def test_any_environment(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    if not is_possible(case.command):
        pytest.skip("needs root and util-linux")
    if NOBODY in case.command:
        for folder in (tmp_path, *tmp_path.parents[:3]):
            if folder.stat().st_uid == os.geteuid() and folder != Path("/tmp"):
                folder.chmod(0o755)
    (tmp_path / "out").mkdir(mode=0o777)
    (tmp_path / "out").chmod(0o777)
    usual = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    usual |= {
        "PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore",
        "GCL_HARD_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", case.command], cwd=tmp_path, capture_output=True, check=False, timeout=150,
        env={key: value for key, value in (usual | {**case.has}).items() if key not in case.lacks},
    )  # fmt: skip
    output = (done.stdout + done.stderr).decode(errors="replace")
    assert "Traceback" not in output
    assert "Exception ignored" not in output
    assert done.returncode in ((0,) if case.done else (0, 1, 2)), output
    if case.done:
        names = [path.name for path in (tmp_path / "out").iterdir()]
        assert sum("_seed" in name or "_search" in name for name in names) in (1, 4)
