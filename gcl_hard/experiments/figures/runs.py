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
    """

    cell: Cell
    seed: int
    accuracies: tuple[float, ...]
    curve: tuple[tuple[int, float], ...]
    looks: tuple[Mapping[str, Any], ...]
    points: Path | None
    source: Path

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
    found: Mapping[str, Any] = look["settings"].get(setting, UNSEEN)
    return found


UNSEEN: dict[str, Any] = {
    "assumption_1": None, "lemma_1": None, "defined": 0, "alone": 0, "spared": 0, "unopposed": 0,
    "losses": dict.fromkeys(("ucl", "hucl", "scl", "hscl")), "common": 0,
}  # fmt: skip
"""A setting in a look that says nothing."""


def is_whole(look: Mapping[str, Any]) -> bool:
    """Whether a look has what figures need."""
    found = look["settings"]
    return isinstance(look["anchors"], int) and (
        not found
        or all(
            UNSEEN.keys() <= found[name].keys()
            and UNSEEN["losses"].keys() <= found[name]["losses"].keys()
            for name in SETTINGS
        )
    )
