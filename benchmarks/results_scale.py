"""Time to show results by their number: table, figure, page, compaction.

Run: python benchmarks/results_scale.py [--sizes 1000,10000] [--keep DIR] [--out results.csv]

Results are copies of one real run of MUTAG under other settings and seeds, each with its own
predictions and scores, in two shapes: *settings*, hscl on one set by β and learning rate, two
seeds; *sets*, 50 rows on up to 20 sets, ten seeds. Timed is a whole command on a finished folder,
in CPU seconds, which other work on the machine does not affect.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pairs import Table

from gcl_hard.experiments.record import RunResult, Scored
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import as_json
from gcl_hard.experiments.store import Store
from gcl_hard.files.io import json_text
from gcl_hard.graphs.settings import GraphConfig

SEEDS = {"settings": 2, "sets": 10}
BETAS = [round(0.5 * k, 1) for k in range(1, 51)]


class Asked(NamedTuple):
    """Flags of ``bench`` that select results, and their configurations."""

    flags: list[str]
    configs: list[GraphConfig]


def asked(shape: str, n: int) -> Asked:
    """The results that a command selects.

    Args:
        shape: ``settings`` or ``sets``.
        n: number of results, a multiple of 1,000 up to 10,000.
    """
    if shape == "settings":
        betas = BETAS[: n // 200]
        rates = [round(0.001 * k, 3) for k in range(1, 101)]
        configs = [GraphConfig(method="hscl", beta=b, lr=r) for b in betas for r in rates]
        flags = [f"--method=hscl --beta={_listed(betas)} --lr={_listed(rates)}"]
    else:
        sets, betas = [f"COPY{k:02}" for k in range(1, n // 500 + 1)], BETAS[:16]
        rows = [{"method": name} for name in ("ucl", "scl")]
        rows += [{"method": m, "beta": b} for m in ("hucl", "hcl", "hscl") for b in betas]
        configs = [GraphConfig(dataset=name, **row) for name in sets for row in rows]
        flags = [f"--dataset={','.join(sets)} --method=ucl,scl,hucl,hcl,hscl"]
        flags += [f"--beta={_listed(betas)} --class-prior=0.1"]
    return Asked([*" ".join(flags).split(), f"--seeds={SEEDS[shape]}"], configs)


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def trained(folder: Path) -> RunResult:
    """The result of a short run."""
    command = f"-m gcl_hard.bench --method ucl --epochs 1 --seeds 1 --output {folder}"
    subprocess.run([sys.executable, *command.split()], check=True, capture_output=True)
    (result,) = Store(folder).rows()
    return result


def copies(template: RunResult, folder: Path, wanted: Asked, seeds: int) -> None:
    """Write a result under other settings and seeds, some of its predictions changed."""
    store, drawn, folds = Store(folder), np.random.default_rng(0), template.tested()
    folder.mkdir(parents=True)
    for config in wanted.configs:
        for seed in range(seeds):
            changed = [
                fold._replace(predicted=np.where(
                    drawn.random(len(fold.items)) < 0.2, 1 - fold.targets, fold.targets))
                for fold in folds
            ]  # fmt: skip
            scored = Scored(tuple(changed))
            test, predicted = scored.packed()
            result = replace(
                template, config=as_json(config), seed=seed, test=test, predicted=predicted,
                scores=scored.scores([template.metric]),
            )  # fmt: skip
            # As Store.put does, without its sync of each file.
            store.path(Run(config, seed)).write_text(json_text(result.stored(), 1))


def cpu_seconds(module: str, *arguments: str | Path) -> float:
    """CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", f"gcl_hard.{module}", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(table: Table, shape: str, n: int, template: RunResult, folder: Path) -> None:
    """Time all commands on n results, in single files and in the compact form."""
    wanted, results = asked(shape, n), folder / "results"
    if not results.exists():
        copies(template, results, wanted, SEEDS[shape])
    shown = ["--report-only", *wanted.flags, f"--output={results}", f"--json={folder / 't.json'}"]
    only = f"dataset={wanted.configs[0].dataset}"
    commands: dict[str, Callable[[], float]] = {
        "table": lambda: cpu_seconds("bench", *shown),
        "page": lambda: cpu_seconds("bench", *shown, "--report", folder / "page.md"),
        "figure": lambda: cpu_seconds(
            "figures", "beta", results, "-o", folder / "figures", "--only", only
        ),
    }
    for form in ("single files", "compact form"):
        for name, command in commands.items():
            table.add(f"{shape} {n}", {f"{name}, {form}": [command()]}, unit="CPU s")
        if form == "single files":
            seconds = cpu_seconds("bench", "--compact", results)
            table.add(f"{shape} {n}", {"compaction": [seconds]}, unit="CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,10000", help="numbers of results")
    parser.add_argument("--shapes", default="settings,sets")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    table = Table("results-scale")
    with tempfile.TemporaryDirectory() as root:
        template = trained(Path(root) / "template")
        for shape in arguments.shapes.split(","):
            for n in map(int, arguments.sizes.split(",")):
                measure(table, shape, n, template, Path(root) / f"{shape}-{n}")
    table.write(arguments.out)


if __name__ == "__main__":
    main()
