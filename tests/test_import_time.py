"""What an import, a flag and a run load, step by step in one fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLUSTER = {"distributed", "dask"}
HEAVY = CLUSTER | {
    "torch_geometric", "sklearn", "lightning_fabric", "optuna", "matplotlib", "pandas", "seaborn",
    "jinja2",
}  # fmt: skip
HEAVIER_THAN_TORCH = HEAVY | {
    "torchvision", "kornia", "scipy", "lightning", "rich", "jsonargparse"
}  # fmt: skip

THEORY = {
    "gcl_hard.functional.assumptions", "gcl_hard.functional.comparison",
    "gcl_hard.functional.geometry", "gcl_hard.evaluation.optimality",
    "gcl_hard.experiments.diagnostics",
}  # fmt: skip
"""Modules that measure the quantities of the theory, which a run does only if it is asked to."""
PARSER = {"jsonargparse", "gcl_hard.commands.parser"}
RUN = (
    "bench.main(['--method=hscl', '--seeds=1', '--epochs=1', '--folds=2', '--device=cpu', "
    "'--threads=1', '--output={}'])"
)
STEPS = {
    "import gcl_hard": HEAVIER_THAN_TORCH,
    "from gcl_hard.graphs import load": HEAVIER_THAN_TORCH - {"scipy"},
    "from gcl_hard.evaluation import corrected_t_test, wilcoxon": {"sklearn", "scipy.stats"},
    "from gcl_hard import evaluate": {"sklearn", "torch_geometric"} | PARSER,
    "from gcl_hard import bench; ended(bench.main, ['--help'])": HEAVY,
    "ended(bench.main, ['--no-such-flag'])": HEAVY,
    RUN: CLUSTER | THEORY,
    "import gcl_hard.experiments.pretraining, gcl_hard.experiments.molecules": THEORY,
    "import gcl_hard.experiments.diagnostics": set[str](),
    "import sklearn": set[str](),
}
"""Lines of one program, and modules that are not loaded when they have been executed."""

PROGRAM = """
import json, sys, time

def ended(main, arguments):
    try:
        return main(arguments)
    except SystemExit as left:
        return left.code

scope = {"ended": ended}
for line in ["import torch", *sys.argv[1:]]:
    begin = time.process_time()
    exec(line, scope)
    seconds = time.process_time() - begin
    print("\\n@", json.dumps({"line": line, "seconds": seconds, "loaded": sorted(sys.modules)}))
"""

Log = tuple[dict[str, set[str]], dict[str, float]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Modules loaded, and CPU seconds, by line."""
    folder = tmp_path_factory.mktemp("results")
    lines = [line.replace("{}", str(folder)) for line in STEPS]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *lines],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(list(folder.glob("*_seed0.json"))) == 1
    said = [json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("@ ")]
    names = ["import torch", *STEPS]
    return (
        {name: set(one["loaded"]) for name, one in zip(names, said, strict=True)},
        {name: one["seconds"] for name, one in zip(names, said, strict=True)},
    )


@pytest.mark.parametrize("line", STEPS)
def test_what_is_not_used_is_not_loaded(line: str, log: Log) -> None:
    loaded = log[0][line]
    assert "gcl_hard" in loaded
    # What a bare `import torch` brings along is not ours to avoid.
    assert loaded & STEPS[line] - log[0]["import torch"] == set()


def test_the_log_shows_a_package_that_is_imported(log: Log) -> None:
    assert "sklearn" in log[0]["import sklearn"]
    assert log[0]["import gcl_hard.experiments.diagnostics"] >= THEORY


def test_import_gcl_hard_takes_hardly_longer_than_import_torch(log: Log) -> None:
    assert log[1]["import gcl_hard"] < 0.3 * log[1]["import torch"], log[1]
