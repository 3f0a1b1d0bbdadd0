"""What the command costs beside training and scoring, and how fast a finished table reopens.

Run: python benchmarks/harness.py [--cells DIR] [--repeats 3] [--data-dir DIR] [--out results.csv]

A seed is done as the command does it: claimed, trained, scored, saved. The share is the process
time of everything but training and scoring. Reopening is a whole process,
interpreter and PyTorch included, on a folder where every seed asked for is finished.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gcl_hard.experiments.scorers import do
from gcl_hard.experiments.work import Setting, Worker
from pairs import Table, timed

from gcl_hard.experiments import hardware
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.runs import Run

CONFIGS = Path(__file__).parent / "results" / "cells"
CASES = (GraphConfig(), GraphConfig(protocol="inductive", epochs=50))


def ignored(encoder: int, epoch: int, loss: float) -> None:
    """Nobody watches; the bar's cost is the whole command's."""


def overhead(cell: GraphConfig, repeats: int, data_dir: Path | None) -> dict[str, list[float]]:
    """Seconds of a seed, and the share of them that is neither training nor scoring, percent."""
    seconds, shares = [], []
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(Path(folder), data_dir, "cpu", 1, 1, hardware.versions())
        worker = Worker(setting)
        do(worker, Run(cell, 10_000), ignored)  # imports, data
        for seed in range(repeats):
            whole, done = timed(lambda seed=seed: do(worker, Run(cell, seed), ignored))
            assert done.record is not None
            inside = done.record.seconds_train + done.record.seconds_eval
            seconds.append(whole)
            shares.append(100 * (whole - inside) / whole)
    return {"seed": seconds, "beside training and scoring": shares}


def whole_command(arguments: Sequence[str]) -> float:
    """Seconds of a process."""
    command = [sys.executable, "-m", "gcl_hard.bench", *arguments]
    return timed(lambda: subprocess.run(command, check=True, capture_output=True))[0]


def reopening(cells: Path, repeats: int, data_dir: Path | None) -> dict[str, list[float]]:
    """Seconds to show a table that is finished: four methods, three β, five sets, paper."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "--table=2", "--protocol=paper", "--method=ucl,hucl,scl,hscl", f"--output={cells}",
            f"--json={Path(folder) / 'table.json'}",
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
    parser.add_argument("--cells", type=Path, default=CONFIGS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    table = Table("harness")
    for cell in CASES:
        measured = overhead(cell, arguments.repeats, arguments.data_dir)
        table.add(str(cell), {"seed": measured.pop("seed")})
        table.add(str(cell), measured, unit="%")
    table.add("table 2, paper", reopening(arguments.cells, arguments.repeats, arguments.data_dir))
    table.write(arguments.out)


if __name__ == "__main__":
    main()
