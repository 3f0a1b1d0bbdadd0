"""Results of ``--table recipe`` whose accuracies are made up, of a recipe that is made up too."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.recipe.table import Entry, entries

from gcl_hard.reports.frame import Results
from gcl_hard.reports.recipe import RecipeTable
from tests.experiments import record

RECIPE: dict[str, Any] = {
    "contrast": "two-view", "objective": "infonce", "temperature": 0.2,
    "augmentations": ("drop-nodes",), "strength": 0.1, "lr": 0.002, "lr_schedule": "cosine",
    "epochs": 7, "batch_size": 64, "layers": 2, "dim": 16, "readout": "both", "virtual_node": True,
    "encodings": ("degree", "cycles"), "kernel": "linear", "c_grid": (0.1, 1.0), "beta": 2.0,
}  # fmt: skip
"""Moves every lever; not the recipe that comes with the package."""
METHODS = ("dcl", "hscl", "scl", "ucl", "hucl", "untrained", "wl-oa", "majority", "supervised")
PROTOCOLS = ("inductive", "paper")
SETS = ("MUTAG", "PTC_MR")
SEEDS = (100, 101)

Shift = Callable[[Entry, str], float]
"""Points that a row has on a data set."""


def put(folder: Path, name: str, settings: dict[str, Any]) -> None:
    """A recipe as a file."""
    stated = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(stated), encoding="utf-8")


def noise(*names: object) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Ten folds, the same for the same names."""
    return np.random.default_rng(zlib.crc32(repr(names).encode())).normal(0, 2, 10)


def made_up(
    shift: Shift = lambda row, dataset: 0.0, *, datasets: Sequence[str] = SETS,
    methods: Sequence[str] = METHODS, protocols: Sequence[str] = PROTOCOLS,
    seeds: Sequence[int] = SEEDS, quick: bool = False,
    finished: Callable[[Entry, str, int], bool] = lambda row, dataset, seed: True,
) -> Results:  # fmt: skip
    """Every row at 60 percent, shifted, with folds that are harder for all rows and noise."""
    rows = entries(datasets, methods, protocols, quick=quick)
    cells = list(dict.fromkeys(cell for row in rows for cell in row.cells.values()))
    records = {}
    for row in rows:
        for dataset, cell in row.cells.items():
            for seed in filter(lambda s: finished(row, dataset, s), seeds):
                own = noise(cell.key(), seed) / 4
                folds = 60 + 3 * noise(dataset, seed) + own + shift(row, dataset)
                seconds = {"seconds_train": 7.0 * seed - 690, "seconds_eval": 0.25}
                data = {"n_graphs": 200 if dataset == "MUTAG" else 400, "n_classes": 2}
                made = record(cell, seed, list(folds), data=data, **seconds)
                records[Job(cell, seed)] = made
    return Results(cells, tuple(seeds), records)


def compared(shift: Shift = lambda row, dataset: 0.0, **asked: Any) -> RecipeTable:
    """The same, compared."""
    return RecipeTable(made_up(shift, **asked), quick=asked.get("quick", False))


def of(row: Entry, part: str, *methods: str) -> bool:
    """Whether a row is of a part and one of some methods."""
    return row.part == part and row.method in methods
