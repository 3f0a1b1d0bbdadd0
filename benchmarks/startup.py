"""Start-up: CPU seconds of whole commands on MUTAG, beside those of importing PyTorch.

Run: python benchmarks/startup.py [--repeats 5] [--out startup.csv]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from pairs import Table

BENCH = ("-m", "gcl_hard", "bench", "--dataset", "MUTAG", "--seeds", "1")
ADAM = "import torch; torch.optim.Adam([torch.zeros(1, requires_grad=True)])"
TRAINING = (*BENCH, "--method", "ucl", "--epochs", "1")


def seconds(*command: str) -> float:
    """CPU seconds of a Python process and its children, one thread."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *command], env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="CSV file to write")
    options = parser.parse_args()
    table = Table("start-up", options)
    with tempfile.TemporaryDirectory() as folder:
        finished = (*TRAINING, "--output", folder)
        seconds(*finished)
        commands = {"PyTorch": ("-c", "import torch"), "PyTorch and Adam": ("-c", ADAM),
                    "a finished table": finished}  # fmt: skip
        for name, command in commands.items():
            table.add(name, {"seconds": [seconds(*command) for _ in range(options.repeats)]})
    fresh = {"a baseline": (*BENCH, "--method", "majority"), "one epoch": TRAINING}
    for name, command in fresh.items():
        values = []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                values.append(seconds(*command, "--output", folder))
        table.add(name, {"seconds": values})
    table.write(options.out)


if __name__ == "__main__":
    main()
