"""The result of a command: a list of cells, each put together from the records of its seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gcl_hard.experiments.config import CellConfig
from gcl_hard.experiments.paper import paper_accuracy
from gcl_hard.experiments.records import SCHEMA_VERSION, Record


@dataclass(frozen=True)
class CellResult:
    """A cell and the records of its finished seeds, in seed order.

    Attributes:
        cell: the settings.
        records: at least one.
    """

    cell: CellConfig
    records: tuple[Record, ...]

    @property
    def accuracies(self) -> list[float]:
        """Mean over folds of each seed, percent."""
        return [statistics.fmean(r.fold_accuracies) for r in self.records]

    @property
    def mean(self) -> float:
        """Mean over seeds, percent."""
        return statistics.fmean(self.accuracies)

    @property
    def std(self) -> float | None:
        """Sample standard deviation over seeds, percent; None of one seed.

        Each seed varies the encoder and the folds; batch order is the same for all.
        """
        return statistics.stdev(self.accuracies) if len(self.records) > 1 else None

    @property
    def fold_std(self) -> float:
        """Sample standard deviation over the folds of a seed, averaged over seeds, percent."""
        return statistics.fmean(statistics.stdev(r.fold_accuracies) for r in self.records)

    @property
    def paper(self) -> float | None:
        """The paper's figure, percent; it has none for two views of a graph."""
        if self.cell.contrast != "local-global":
            return None
        return paper_accuracy(self.cell.dataset, self.cell.method, self.cell.protocol)

    def as_json(self) -> dict[str, Any]:
        """The cell as the result file holds it (docs: results)."""
        first = self.records[0]
        return {
            "dataset": self.cell.dataset,
            "method": self.cell.method,
            "protocol": self.cell.protocol,
            "beta": self.cell.beta,
            "seeds": [r.seed for r in self.records],
            "accuracies": self.accuracies,
            "fold_accuracies": [r.fold_accuracies for r in self.records],
            "accuracy_mean": self.mean,
            "accuracy_std": self.std,
            "paper_accuracy": self.paper,
            **{k: v for k, v in first.data.items() if k != "digest"},
            "config": first.config,
            "versions": first.versions,
            "device": first.device,
            "seconds_train": math.fsum(r.seconds_train for r in self.records),
            "seconds_eval": math.fsum(r.seconds_eval for r in self.records),
        }


def result_json(cells: Sequence[CellResult]) -> dict[str, Any]:
    """The whole result file."""
    return {
        "schema_version": SCHEMA_VERSION,
        "paper_accuracy_note": PAPER_NOTE,
        "cells": [cell.as_json() for cell in cells],
    }


PAPER_NOTE = (
    "paper_accuracy: H-SCL paper, Table II, 10 runs; for hucl and hscl the best of beta in "
    "{1, 2, 10}, chosen on the test folds"
)
