"""What the command costs beside training and scoring, and how fast a finished table reopens.

Run: python benchmarks/harness.py [--store DIR] [--repeats 3] [--data-dir DIR] [--out results.csv]

A run is done as the command does it: locked, trained, scored, stored. The share is the time of
everything but training and scoring. Reopening is a whole process, interpreter and PyTorch
included, on a folder where every run asked for is finished.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pairs import Table, timed
from rich.console import Console

from gcl_hard.experiments import hardware
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.runner import Runner
from gcl_hard.graphs.settings import GraphConfig

STORE = Path(__file__).parent / "results" / "tables"
CONFIGS = (GraphConfig(), GraphConfig(protocol="inductive", epochs=50))


def overhead(config: GraphConfig, repeats: int, data_dir: Path | None) -> dict[str, list[float]]:
    """Seconds of a run, and the share of them that is neither training nor scoring, percent."""
    seconds, shares = [], []
    with tempfile.TemporaryDirectory() as folder:
        context = RunContext(
            Path(folder), data_dir, "cpu", 1, 1, hardware.versions(), experiment_of
        )
        runner = Runner(context, Console(file=io.StringIO()))
        runner.run([Run(config, 10_000)])  # imports, data
        for run in (Run(config, seed) for seed in range(repeats)):
            whole, (results, _) = timed(lambda run=run: runner.run([run]))
            inside = results[run].seconds_train + results[run].seconds_eval
            seconds.append(whole)
            shares.append(100 * (whole - inside) / whole)
    return {"run": seconds, "beside training and scoring": shares}


def whole_command(arguments: Sequence[str]) -> float:
    """Seconds of a process."""
    command = [sys.executable, "-m", "gcl_hard.bench", *arguments]
    return timed(lambda: subprocess.run(command, check=True, capture_output=True))[0]


def reopening(store: Path, repeats: int, data_dir: Path | None) -> dict[str, list[float]]:
    """Seconds to show a finished table: four methods, three β, five sets, transductive."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "--table=2", "--protocol=transductive", "--method=ucl,hucl,scl,hscl",
            f"--output={store}", f"--json={Path(folder) / 'table.json'}",
        ]  # fmt: skip
        arguments += [f"--data-dir={data_dir}"] if data_dir else []
        whole_command(arguments)  # digests of the data are remembered from now on
        seconds = [whole_command(arguments) for _ in range(repeats)]
    imports = [
        timed(lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True))[0]
        for _ in range(repeats)
    ]
    return {"reopen": seconds, "import torch alone": imports}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    table = Table("harness")
    for config in CONFIGS:
        measured = overhead(config, arguments.repeats, arguments.data_dir)
        table.add(str(config), {"run": measured.pop("run")})
        table.add(str(config), measured, unit="%")
    reopened = reopening(arguments.store, arguments.repeats, arguments.data_dir)
    table.add("table 2, transductive", reopened)
    table.write(arguments.out)


if __name__ == "__main__":
    main()
