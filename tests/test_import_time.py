"""What an import, a flag and a run load, step by step in one fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from gcl_hard.experiments.domains import DOMAINS

ROOT = Path(__file__).parents[1]
CLUSTER = {"distributed", "dask"}
HEAVY = CLUSTER | {
    "torch_geometric", "sklearn", "lightning_fabric", "optuna", "matplotlib", "pandas", "seaborn",
    "jinja2",
}  # fmt: skip
HEAVIER_THAN_TORCH = HEAVY | {
    "torchvision", "kornia", "scipy", "lightning", "rich", "sentence_transformers", "transformers",
}  # fmt: skip

THEORY = {
    "gcl_hard.theory.assumptions", "gcl_hard.theory.comparison",
    "gcl_hard.theory.geometry", "gcl_hard.theory.optimality",
    "gcl_hard.theory.diagnostics",
}  # fmt: skip
"""Modules that measure the quantities of the theory, which a run does only if it is asked to."""
RUN = (
    "bench.main(['--method=hscl', '--seeds=1', '--epochs=1', '--folds=2', '--device=cpu', "
    "'--threads=1', '--output={}'])"
)
STEPS = {
    "import gcl_hard": HEAVIER_THAN_TORCH,
    "from gcl_hard.graphs import load_graphs": HEAVIER_THAN_TORCH - {"scipy"},
    "from gcl_hard.evaluation import corrected_t_test, wilcoxon": {"sklearn", "scipy.stats"},
    "from gcl_hard import evaluate": {"sklearn", "torch_geometric"},
    "from gcl_hard import bench": HEAVY,
    "ended(bench.main, ['--no-such-flag'])": HEAVY,
    RUN: CLUSTER | THEORY,
    "import gcl_hard.molecules.pretraining, gcl_hard.molecules.experiment": THEORY,
    "import gcl_hard.theory.diagnostics": set[str](),
    "import sklearn": set[str](),
}
"""Lines of one program, and modules that are not loaded when they have been executed."""
HELP = {
    f"from gcl_hard import {name}; ended({name}.main, ['--help'])": HEAVIER_THAN_TORCH
    for name in ("bench", "tune", "figures", "pretrain")
}
SHOWN = RUN.replace("'--output={}'", "'--output={}', '--report-only'")
TABLE = {"matplotlib", "pandas", "seaborn", "jinja2"}
REPORTS = {
    "from gcl_hard import bench": HEAVIER_THAN_TORCH,
    SHOWN: HEAVY,
    SHOWN.replace("'--report-only'", "'--report-only', '--report={}/page.md'"): HEAVY - TABLE,
}
"""Lines that show finished runs: no more than what draws is loaded."""

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


def executed(lines: Iterable[str], folder: Path) -> Log:
    """Modules loaded, and CPU seconds, by line of a program."""
    names = ["import torch", *lines]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *(line.replace("{}", str(folder)) for line in names[1:])],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("@ ")]
    return (
        {name: set(step["loaded"]) for name, step in zip(names, steps, strict=True)},
        {name: step["seconds"] for name, step in zip(names, steps, strict=True)},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def log(folder: Path) -> Log:
    """Of the steps, which leave one result."""
    steps_log = executed(STEPS, folder)
    assert len(list(folder.glob("*_seed0.json"))) == 1
    return steps_log


def check(loaded: set[str], never: set[str], log: Log) -> None:
    # What a bare `import torch` brings along is not ours to avoid.
    assert "gcl_hard" in loaded
    assert loaded & never - log[0]["import torch"] == set()


@pytest.mark.parametrize("line", STEPS)
def test_what_is_not_used_is_not_loaded(line: str, log: Log) -> None:
    check(log[0][line], STEPS[line], log)


@pytest.mark.usefixtures("log")  # its run is what is shown
@pytest.mark.parametrize("lines", [HELP, REPORTS], ids=["help", "reports"])
def test_help_and_finished_results_load_what_shows_them(
    lines: dict[str, set[str]], folder: Path
) -> None:
    lines_log = executed(lines, folder)
    for line, never in lines.items():
        check(lines_log[0][line], never, lines_log)


@pytest.fixture
def cora(tmp_path: Path) -> Path:
    """A data folder with a small graph of Cora's name and sizes."""
    rng = np.random.default_rng(0)
    edges = np.stack([np.arange(70), (np.arange(70) + 7) % 70], 1)
    features = (rng.random((70, 1_433)) < 0.1).astype(np.float32)
    np.savez(tmp_path / "cora.npz", node_features=features, node_labels=np.arange(70) % 7,
             edges=edges)  # fmt: skip
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "domains"),
    [
        ("'--dataset=MUTAG', '--method=hscl', '--folds=2'", {"graphs"}),
        ("'--dataset=Cora', '--method=ucl', '--splits=1', '--data-dir={}'", {"nodes", "graphs"}),
    ],
)
def test_a_run_loads_no_module_of_another_domain(
    arguments: str, domains: set[str], cora: Path
) -> None:
    line = (
        f"bench.main([{arguments}, '--epochs=1', '--seeds=1', '--device=cpu', '--threads=1', "
        "'--output={}'])"
    )
    loaded = executed(["from gcl_hard import bench", line], cora)[0][line]
    assert list(cora.glob("*_seed0.json"))
    assert {
        domain for domain in DOMAINS for name in loaded if name.startswith(f"gcl_hard.{domain}.")
    } == domains


def test_the_log_shows_a_package_that_is_imported(log: Log) -> None:
    assert "sklearn" in log[0]["import sklearn"]
    assert log[0]["import gcl_hard.theory.diagnostics"] >= THEORY


def test_import_gcl_hard_takes_hardly_longer_than_import_torch(log: Log) -> None:
    assert log[1]["import gcl_hard"] < 0.3 * log[1]["import torch"], log[1]
