"""The results of a command: accuracies of cells, and of what was chosen inside training folds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gcl_hard.evaluation.significance import (
    Interval,
    PairedTest,
    corrected_interval,
    corrected_t_test,
)
from gcl_hard.experiments.config import SELECTABLE, RunConfig
from gcl_hard.experiments.runs import Run, candidate_groups, plan
from gcl_hard.experiments.store import SCHEMA_VERSION, RunResult


@dataclass(frozen=True)
class Scores:
    """Accuracies in percent, of seeds × folds.

    Attributes:
        seeds: at least one.
        folds: of each seed, the accuracies of its folds; one, where there is one test split.
        n_test: samples of that one test split; None of folds.
        train_share: of a training fold's samples, the share that was trained on, in (0, 1].
    """

    seeds: tuple[int, ...]
    folds: tuple[tuple[float, ...], ...]
    n_test: int | None = None
    train_share: float = 1.0

    @property
    def accuracies(self) -> list[float]:
        """Mean over folds of each seed."""
        return [statistics.fmean(folds) for folds in self.folds]

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(self.accuracies)

    @property
    def std(self) -> float | None:
        """Sample standard deviation over seeds; None of one seed.

        Each seed varies the encoder and the folds; batch order is the same for all.
        """
        return statistics.stdev(self.accuracies) if len(self.seeds) > 1 else None

    @property
    def fold_std(self) -> float | None:
        """Sample standard deviation over the folds of a seed, averaged over seeds; None of one."""
        if self.one_split:
            return None
        return statistics.fmean(statistics.stdev(folds) for folds in self.folds)

    @property
    def test_error(self) -> float | None:
        """Standard error √(p (1 − p) / n_test) that one test split leaves, points."""
        if self.n_test is None:
            return None
        share = self.mean / 100
        return 100 * math.sqrt(share * (1 - share) / self.n_test)

    @property
    def one_split(self) -> bool:
        """Whether all seeds are tested on the same samples, and none is trained on any of them."""
        return len(self.folds[0]) == 1

    @property
    def test_share(self) -> float:
        """n_test / n_train of the outer folds; 0 of one split, whose seeds resample nothing.

        n_train counts what was trained on: of K folds, 1 / ((K − 1) · ``train_share``).
        """
        return 0.0 if self.one_split else 1 / ((len(self.folds[0]) - 1) * self.train_share)

    @property
    def interval(self) -> Interval | None:
        """Mean and 95 % interval over all seed × fold pairs, by the corrected variance.

        None where there is one pair only.
        """
        if len(self.flat) < 2:
            return None
        return corrected_interval(self.flat, test_share=self.test_share)

    def test_against(self, other: Scores) -> PairedTest | None:
        """The corrected resampled t-test of these accuracies less others of the same seeds.

        Where the two were trained on different shares of a fold, n_test / n_train is the larger.
        None where there is one pair only.
        """
        if len(self.flat) < 2:
            return None
        test_share = max(self.test_share, other.test_share)
        return corrected_t_test(self.flat, other.flat, test_share=test_share)

    def of(self, seeds: Sequence[int]) -> Scores:
        """The same, of some of its seeds."""
        rows = dict(zip(self.seeds, self.folds, strict=True))
        return replace(self, seeds=tuple(seeds), folds=tuple(rows[seed] for seed in seeds))

    @property
    def flat(self) -> list[float]:
        """Every seed × fold, seed by seed."""
        return [accuracy for folds in self.folds for accuracy in folds]


@dataclass(frozen=True)
class CellResult:
    """A cell and the records of its finished seeds, in seed order.

    Attributes:
        cell: the settings.
        records: at least one.
    """

    cell: RunConfig
    records: tuple[RunResult, ...]

    @cached_property
    def scores(self) -> Scores:
        """Its accuracies."""
        return Scores(
            tuple(r.seed for r in self.records),
            tuple(tuple(r.fold_accuracies) for r in self.records),
            self.records[0].data.get("n_test"),
            self.cell.share_of_fold,
        )

    @property
    def seconds(self) -> float:
        """Of training and scoring, all seeds."""
        return math.fsum(r.seconds_train + r.seconds_eval for r in self.records)

    @property
    def paper(self) -> float | None:
        """The paper's figure, percent; None beside a part of the set that it is of."""
        data = self.records[0].data if self.records else {}
        sizes = ((data.get("n_official"), "n_train"), (data.get("n_official_test"), "n_test"))
        whole = all(official in (None, data[name]) for official, name in sizes if official)
        return self.cell.paper if whole else None

    @property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """Monitoring: epoch and accuracy in percent, mean over the seeds that have the epoch."""
        points: dict[int, list[float]] = {}
        for record in self.records:
            for epoch, accuracy in record.curve:
                points.setdefault(int(epoch), []).append(accuracy)
        return tuple((epoch, statistics.fmean(points[epoch])) for epoch in sorted(points))

    def as_json(self) -> dict[str, Any]:
        """The cell as the result file holds it (docs: protocols)."""
        first = self.records[0]
        return {
            "dataset": self.cell.dataset,
            "method": self.cell.method,
            "protocol": self.cell.protocol,
            "beta": self.cell.beta,
            "seeds": list(self.scores.seeds),
            "accuracies": self.scores.accuracies,
            "fold_accuracies": [list(folds) for folds in self.scores.folds],
            "accuracy_mean": self.scores.mean,
            "accuracy_std": self.scores.std,
            "paper_accuracy": self.paper,
            **{k: v for k, v in first.data.items() if k != "digest"},
            "config": first.config,
            "versions": first.versions,
            "device": first.device,
            "seconds_train": math.fsum(r.seconds_train for r in self.records),
            "seconds_eval": math.fsum(r.seconds_eval for r in self.records),
            **self._while_training(),
        }

    def _while_training(self) -> dict[str, Any]:
        """Curves and diagnostics of each seed, where there are any."""
        found: dict[str, Any] = {}
        if any(r.curve for r in self.records):
            found["curves"] = [r.curve for r in self.records]
        if any(r.diagnostics for r in self.records):
            found["diagnostics"] = [r.diagnostics for r in self.records]
            found["seconds_diagnostics"] = math.fsum(r.seconds_diagnostics for r in self.records)
        return found


@dataclass(frozen=True)
class Selection:
    """Settings chosen inside every training fold, and what the choice gave on the test fold.

    For each seed and fold, the candidate whose encoder did best on a hold-out of a fifth of the
    training fold (the first of several best); its accuracy is that of the encoder trained anew on
    the whole training fold.

    Attributes:
        outer: of every candidate, trained on whole training folds; the same seeds in all.
        inner: of every candidate, accuracies on the hold-outs.
    """

    outer: tuple[CellResult, ...]
    inner: tuple[CellResult, ...]

    @cached_property
    def chosen(self) -> tuple[tuple[int, ...], ...]:
        """Of each seed and fold, which candidate, from 0."""
        n_seeds, n_folds = len(self.outer[0].scores.seeds), self.outer[0].cell.n_scores
        return tuple(
            tuple(
                max(range(len(self.inner)), key=lambda c: self.inner[c].scores.folds[s][k])
                for k in range(n_folds)
            )
            for s in range(n_seeds)
        )

    @cached_property
    def scores(self) -> Scores:
        """Test accuracies of what was chosen."""
        folds = tuple(
            tuple(self.outer[c].scores.folds[s][k] for k, c in enumerate(row))
            for s, row in enumerate(self.chosen)
        )
        return replace(self.outer[0].scores, folds=folds)

    @property
    def best(self) -> CellResult | None:
        """The candidate with the best mean on the test folds: what must not be reported alone.

        None where candidates differ in epochs: there is no maximum over epochs of a test score.
        """
        one = len({result.cell.epochs for result in self.outer}) == 1
        return best_on_test(self.outer) if one else None

    @property
    def optimism(self) -> float | None:
        """Best on test minus chosen inside, points."""
        return None if self.best is None else self.best.scores.mean - self.scores.mean

    def as_json(self) -> dict[str, Any]:
        """The selection as the result file holds it (docs: protocols)."""
        first = self.outer[0].cell
        return {
            "dataset": first.dataset,
            "method": first.method,
            "protocol": first.protocol,
            "candidates": [
                {name: getattr(r.cell, name) for name in SELECTABLE} for r in self.outer
            ],
            "seeds": list(self.scores.seeds),
            "chosen": [list(row) for row in self.chosen],
            "accuracies": self.scores.accuracies,
            "fold_accuracies": [list(folds) for folds in self.scores.folds],
            "accuracy_mean": self.scores.mean,
            "accuracy_std": self.scores.std,
            "best_on_test": None if self.best is None else self.outer.index(self.best),
            "optimism": self.optimism,
        }


def best_on_test(results: Sequence[CellResult]) -> CellResult:
    """The result with the highest mean over test folds; the first of several."""
    return max(results, key=lambda result: result.scores.mean)


@dataclass(frozen=True)
class Results:
    """Everything that a command asked for, finished or open.

    Attributes:
        cells: asked for, in order.
        seeds: asked for.
        records: what is finished, by job.
        select: whether settings are chosen inside training folds.
    """

    cells: Sequence[RunConfig]
    seeds: tuple[int, ...]
    records: Mapping[Run, RunResult]
    select: bool = False

    def result(
        self, cell: RunConfig, *, inner: bool = False, seeds: Sequence[int] | None = None
    ) -> CellResult | None:
        """A cell's finished seeds; None if there are none."""
        jobs = [Run(cell, seed, inner) for seed in (self.seeds if seeds is None else seeds)]
        found = tuple(self.records[job] for job in jobs if job in self.records)
        return CellResult(cell, found) if found else None

    @cached_property
    def finished(self) -> list[CellResult]:
        """Cells with at least one finished seed."""
        return [r for r in map(self.result, self.cells) if r is not None]

    @property
    def open(self) -> list[Run]:
        """What is left to do."""
        return [
            j for j in plan(self.cells, self.seeds, select=self.select) if j not in self.records
        ]

    @cached_property
    def selections(self) -> list[Selection]:
        """Of every group of candidates, where a seed is finished for all of them."""
        groups = candidate_groups(self.cells) if self.select else []
        return [s for s in map(self.selection, groups) if s is not None]

    def selection(self, candidates: Sequence[RunConfig]) -> Selection | None:
        """What was chosen among candidates; None while no seed is finished for all of them."""
        seeds = self.shared_seeds((c, inner) for c in candidates for inner in (False, True))
        pairs = [
            (self.result(c, seeds=seeds), self.result(c, inner=True, seeds=seeds))
            for c in candidates
        ]
        whole = [(outer, inner) for outer, inner in pairs if outer and inner]
        if not seeds or len(whole) < len(candidates):
            return None
        return Selection(tuple(o for o, _ in whole), tuple(i for _, i in whole))

    def shared_seeds(self, parts: Iterable[tuple[RunConfig, bool]]) -> list[int]:
        """Seeds that are finished for all of some cells, each with whether its hold-outs count."""
        parts = list(parts)
        return [s for s in self.seeds if all(Run(cell, s, i) in self.records for cell, i in parts)]


def result_json(results: Results, *, quick: bool = False) -> dict[str, Any]:
    """The whole result file; ``quick`` marks what is a look and no result."""
    return {
        "schema_version": SCHEMA_VERSION,
        "quick": quick,
        "paper_accuracy_note": PAPER_NOTE,
        "cells": [result.as_json() for result in results.finished],
        "selections": [selection.as_json() for selection in results.selections],
    }


PAPER_NOTE = (
    "paper_accuracy: H-SCL paper; graphs: Table II, 10 runs, for hucl and hscl the best of beta in "
    "{1, 2, 10}, chosen on the test folds; images: Table I, ResNet-50, the best of a grid"
)
