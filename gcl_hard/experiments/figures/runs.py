"""Finished seeds with what was looked at while they were trained, as figures need them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.diagnostics.settings import SETTINGS
from gcl_hard.experiments.jobs import Job
from gcl_hard.reports.text import (
    count,
)

RERUN = "run the same command again with --diagnostics 1"


@dataclass(frozen=True)
class Run:
    """One seed of one cell.

    Attributes:
        cell: the settings.
        seed: of encoder and folds.
        accuracies: percent, of the folds; of images one, of the test split.
        curve: monitoring of images: epoch and accuracy in percent.
        looks: what ``--diagnostics`` wrote, one mapping an epoch, ascending.
        points: embeddings of the last look, where they are kept.
        source: the file it was read from.
        version: digest of the code that finished it, where the file has it.
        finished: date, ISO 8601; empty of a result file.
    """

    cell: Cell
    seed: int
    accuracies: tuple[float, ...]
    curve: tuple[tuple[int, float], ...]
    looks: tuple[Mapping[str, Any], ...]
    points: Path | None
    source: Path
    version: str | None = None
    finished: str = ""

    def __str__(self) -> str:
        """How messages call it."""
        return str(Job(self.cell, self.seed))


def by_cell(runs: Sequence[Run]) -> dict[Cell, list[Run]]:
    """The seeds of each cell, in their order."""
    found: dict[Cell, list[Run]] = {}
    for run in runs:
        found.setdefault(run.cell, []).append(run)
    return found


def looked(runs: Sequence[Run]) -> None:
    """Check that all runs have looks.

    Raises:
        InputError: names one that has none and what gives it some.
    """
    without = [run for run in runs if not run.looks]
    if runs and len(without) == len(runs):
        raise InputError(f"no result has diagnostics: {RERUN}")
    if without:
        others = f" (nor have {len(without) - 1} other seeds)" if len(without) > 1 else ""
        raise InputError(
            f"{without[0]} has no diagnostics{others}, see {without[0].source}: {RERUN}, or leave "
            f"it out with --only"
        )


def measured(look: Mapping[str, Any], setting: str) -> Mapping[str, Any]:
    """What a look says of a setting; ``UNSEEN`` where embeddings were not finite."""
    return {**UNSEEN, **look["settings"].get(setting, {})}


UNSEEN: dict[str, Any] = {
    "assumption_1": None, "lemma_1": None, "defined": 0, "alone": 0, "spared": 0, "unopposed": 0,
    "losses": dict.fromkeys(("ucl", "hucl", "scl", "hscl")), "common": 0, "collisions": None,
    "negatives": None, "effective_hucl": None, "effective_hscl": None, "same_label_weight": None,
    "others": None, "other_labels": None,
}  # fmt: skip
"""A setting in a look that says nothing."""
LATER = {"others", "other_labels"}
"""Of its numbers, those that looks of the first version lack."""


def is_whole(look: Mapping[str, Any]) -> bool:
    """Whether a look has what figures need."""
    found = look["settings"]
    return (
        isinstance(look["epoch"], int)
        and isinstance(look["anchors"], int)
        and isinstance(look["geometry"], Mapping)
        and (not found or all(map(_is_setting, map(found.get, SETTINGS))))
    )


def _is_setting(found: Any) -> bool:
    return (
        isinstance(found, Mapping)
        and UNSEEN.keys() - LATER <= found.keys()
        and UNSEEN["losses"].keys() <= found["losses"].keys()
    )


def versions(runs: Sequence[Run]) -> str:
    """Whether runs are of several versions of the code, as a last sentence of the note.

    Args:
        runs: those that are drawn.

    Returns:
        The sentence; empty where all that say their version are of one.
    """
    found = {run.version for run in runs} - {None}
    return f" Finished with {count(len(found), 'version')} of the code." if len(found) > 1 else ""
