"""Accuracies over seeds, and the lines that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any, NamedTuple

from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.figures.runs import Run, by_cell
from gcl_hard.methods import METHODS


class Spread(NamedTuple):
    """Accuracies of some seeds.

    Attributes:
        mean: over them, percent.
        std: sample standard deviation, points; None of one seed.
        seeds: how many.
    """

    mean: float
    std: float | None
    seeds: int


Lines = dict[RunConfig, dict[float, Spread]]
"""Of each line, its points; the cell says all but where on the axis they lie."""
Grouped = dict[RunConfig, dict[float, list[Run]]]
"""The same, with the seeds of each point."""


def grouped(runs: Sequence[Run], setting: str, at: float) -> Grouped:
    """Cells that differ in one setting only, together.

    Args:
        runs: any.
        setting: the one.
        at: a value of it, which stands for all in the cells returned.

    Returns:
        By cell, its seeds by the setting, ascending.
    """
    found: Grouped = {}
    for cell, own in by_cell(runs).items():
        same: dict[str, Any] = {setting: at}
        line = found.setdefault(replace(cell, **same), {})
        line[getattr(cell, setting)] = own
    return {cell: {x: line[x] for x in sorted(line)} for cell, line in found.items()}


def spreads(lines: Grouped) -> Lines:
    """Accuracies of each point of each line."""
    return {cell: {x: spread(own) for x, own in line.items()} for cell, line in lines.items()}


def spread(runs: Sequence[Run]) -> Spread:
    """Mean and standard deviation over seeds of the mean over folds."""
    return spread_of([fmean(run.accuracies) for run in runs])


def spread_of(values: Sequence[float]) -> Spread:
    """Mean and standard deviation of a number of each seed.

    Example:
        >>> spread_of([80.0, 82.0, 84.0])
        Spread(mean=82.0, std=2.0, seeds=3)
    """
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def seen_labels(runs: Sequence[Run]) -> str:
    """Of which lines the encoders have seen labels of test samples, in words."""
    cells = by_cell(runs)
    if runs[0].cell.protocol != "paper" or not any(cell.reads_labels for cell in cells):
        return ""
    readers = [name for name in METHODS if any(c.method == name and c.reads_labels for c in cells)]
    return f" Protocol paper: encoders of {' and '.join(readers)} have seen the test labels."
