"""Searches whose scores are made up, so that what they choose can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.recipe.levers import Alternative, Search
from gcl_hard.experiments.recipe.search import Chosen, choose
from gcl_hard.experiments.records import Record
from gcl_hard.experiments.values import Seeds
from tests.experiments import record

FOLDS = 3
SEEDS = (4, 9)
START = {"contrast": "two-view", "lr": 0.001, "epochs": 30}

Levers = Mapping[str, Sequence[Mapping[str, Any]]]
Effect = Callable[[GraphCell], tuple[float, float]]
"""Points that settings add to every fold, and what they add to the last and take from the first."""


def search_of(levers: Levers, **changed: Any) -> Search:
    """A search over two sets without edge features, and MUTAG."""
    values: dict[str, Any] = {
        "datasets": ("MUTAG", "ENZYMES"), "methods": ("untrained", "hucl", "hscl"),
        "seeds": Seeds(SEEDS), "folds": FOLDS, "start": START,
        "levers": tuple(Alternative(name, one) for name, some in levers.items() for one in some),
    }  # fmt: skip
    return Search(**values | changed)


class Bench:
    """Makes up records, and remembers what was asked for."""

    def __init__(self, effect: Effect) -> None:
        self._effect = effect
        self.asked: list[list[Job]] = []

    def __call__(self, jobs: list[Job]) -> dict[Job, Record]:
        self.asked.append(jobs)
        return {j: record(j.cell, j.seed, self.accuracies(j), inner=j.inner) for j in jobs}

    def accuracies(self, job: Job) -> list[float]:
        """A level of data set, method and seed, with the effect of the settings."""
        level = 50 + len(job.cell.dataset) + 2 * len(job.cell.method) + 0.5 * job.seed
        points, spread = self._effect(job.cell)
        return [level + 0.25 * fold + points + spread * (fold - 1) for fold in range(FOLDS)]

    @property
    def jobs(self) -> list[Job]:
        """All that were asked for."""
        return [job for jobs in self.asked for job in jobs]

    def settings(self, call: int) -> set[tuple[float, int]]:
        """Learning rates and epochs of the trained methods in a call."""
        return {(j.cell.lr, j.cell.epochs) for j in self.asked[call] if not j.cell.is_floor}


def chosen(
    levers: Levers, effect: Effect, *, edges: Sequence[str] = ("MUTAG",), **changed: Any
) -> tuple[Chosen, Bench]:
    """What a search chooses by made-up scores."""
    bench = Bench(effect)
    search = search_of(levers, **changed)
    return choose(search, bench, with_edges=lambda name: name in edges), bench


def interval(differences: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean and ends of the corrected resampled t interval of hold-outs of a fifth, by hand."""
    d = np.asarray(differences, dtype=float).ravel()
    half = student.ppf(0.975, d.size - 1) * np.sqrt((1 / d.size + 1 / 4) * d.var(ddof=1))
    return d.mean(), d.mean() - half, d.mean() + half
