"""Hand-made records, so that numbers in tests can be checked by eye."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.records import Record


def record(cell: GraphCell, seed: int, accuracies: list[float], **changed: Any) -> Record:
    """A record of a cell with the accuracies given, in percent."""
    values: dict[str, Any] = {
        "config": asdict(cell),
        "seed": seed,
        "fold_accuracies": accuracies,
        "fold_c": [1.0] * len(accuracies),
        "final_losses": [0.5],
        "seconds_train": 20.0,
        "seconds_eval": 3.0,
        "data": {"n_graphs": 188, "n_classes": 2, "n_features": 7, "features": "labels"},
        "device": "CPU",
        "versions": {"torch": "2.8"},
        "finished": "2026-01-01T00:00:00+00:00",
    }
    return Record(**{**values, **changed})
