"""What an import and a `--help` load, read from Python's own import log in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {
    "torch_geometric", "sklearn", "lightning_fabric", "optuna", "matplotlib", "distributed", "dask",
    "pandas", "seaborn", "jinja2",
}  # fmt: skip
HEAVIER_THAN_TORCH = HEAVY | {
    "torchvision",
    "kornia",
    "scipy",
    "lightning",
    "rich",
    "jsonargparse",
}


def packages_loaded(*arguments: str, status: int = 0) -> set[str]:
    """Top-level packages that `python ARGUMENTS` imports."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    said = [line for line in lines if not line.startswith("import time:")]
    assert done.returncode == status, "\n".join(said)
    log = [line for line in lines if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().split(".")[0] for line in log}


@pytest.fixture(scope="module")
def with_torch() -> set[str]:
    """Packages of a bare `import torch`: what it brings along is not ours to avoid."""
    return packages_loaded("-c", "import torch")


def test_the_log_shows_a_package_that_is_imported() -> None:
    assert "sklearn" in packages_loaded("-c", "import sklearn")


def test_import_gcl_hard_loads_torch_and_nothing_heavier(with_torch: set[str]) -> None:
    loaded = packages_loaded("-c", "import gcl_hard")
    assert "gcl_hard" in loaded
    assert loaded & HEAVIER_THAN_TORCH - with_torch == set()


@pytest.mark.parametrize(("flag", "status"), [("--help", 0), ("--no-such-flag", 2)])
def test_bench_answers_a_flag_without_heavy_packages(
    flag: str, status: int, with_torch: set[str]
) -> None:
    loaded = packages_loaded("-m", "gcl_hard.bench", flag, status=status)
    assert "gcl_hard" in loaded
    assert loaded & HEAVY - with_torch == set()


def test_one_process_needs_no_cluster(tmp_path: Path) -> None:
    loaded = packages_loaded(
        "-m", "gcl_hard.bench", "--method=majority", "--seeds=1", "--device=cpu", "--threads=1",
        f"--output={tmp_path}",
    )  # fmt: skip
    assert "gcl_hard" in loaded
    assert loaded & {"distributed", "dask"} == set()
    assert len(list(tmp_path.glob("*_seed0.json"))) == 1


def test_import_gcl_hard_takes_hardly_longer_than_import_torch() -> None:
    seconds: dict[str, list[float]] = {"torch": [], "gcl_hard": []}
    for _ in range(3):
        for name, found in seconds.items():  # in turn, so that a busy machine slows both
            code = f"import {name}, time; print(time.process_time())"
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
            )
            found.append(float(done.stdout))
    assert median(seconds["gcl_hard"]) < 1.3 * median(seconds["torch"]), seconds
