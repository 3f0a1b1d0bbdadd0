"""Searches for a recipe whose scores are made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from benchmarks.recipe.search import Alternative, Chosen, RecipeSearch, choose
from gcl_hard.runs.plan import Run
from gcl_hard.runs.record import RunResult
from gcl_hard.settings.graphs import GraphConfig
from tests.experiments import record

FOLDS = 3
SEEDS = (4, 9)
START = {"contrast": "two-view", "lr": 0.001, "epochs": 30}

Ablations = Mapping[str, Sequence[Mapping[str, Any]]]
Effect = Callable[[GraphConfig], tuple[float, float]]
"""Points that settings add to every fold, and what they add to the last and take from the first."""


def search_of(ablations: Ablations, **changed: Any) -> RecipeSearch:
    """A search over two sets without edge features, and MUTAG."""
    values: dict[str, Any] = {
        "datasets": ("MUTAG", "ENZYMES"), "methods": ("untrained", "hucl", "hscl"),
        "seeds": SEEDS, "folds": FOLDS, "start": START,
        "ablations": tuple(Alternative(k, one) for k, some in ablations.items() for one in some),
    }  # fmt: skip
    return RecipeSearch(**values | changed)


class Bench:
    """Makes up results, and remembers what was asked for."""

    def __init__(self, effect: Effect) -> None:
        self._effect = effect
        self.asked: list[list[Run]] = []

    def __call__(self, runs: list[Run]) -> dict[Run, RunResult]:
        self.asked.append(runs)
        return {j: record(j.config, j.seed, self.accuracies(j), inner=j.inner) for j in runs}

    def accuracies(self, run: Run) -> list[float]:
        """A level of data set, method and seed, with the effect of the settings."""
        level = 50 + len(run.config.dataset) + 2 * len(run.config.method) + 0.5 * run.seed
        points, spread = self._effect(run.config)
        return [level + 0.25 * fold + points + spread * (fold - 1) for fold in range(FOLDS)]

    @property
    def runs(self) -> list[Run]:
        """All that were asked for."""
        return [run for runs in self.asked for run in runs]

    def settings(self, call: int) -> set[tuple[float, int]]:
        """Learning rates and epochs of the trained methods in a call."""
        return {
            (j.config.lr, j.config.epochs) for j in self.asked[call] if not j.config.is_baseline
        }


def chosen(
    ablations: Ablations, effect: Effect, *, edges: Sequence[str] = ("MUTAG",), **changed: Any
) -> tuple[Chosen, Bench]:
    """What a search chooses by made-up scores."""
    bench = Bench(effect)
    search = search_of(ablations, **changed)
    return choose(search, bench, with_edges=lambda name: name in edges), bench


def interval(differences: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean and ends of the corrected resampled t interval of hold-outs of a fifth, by hand."""
    d = np.asarray(differences, dtype=float).ravel()
    half = student.ppf(0.975, d.size - 1) * np.sqrt((1 / d.size + 1 / 4) * d.var(ddof=1))
    return d.mean(), d.mean() - half, d.mean() + half
