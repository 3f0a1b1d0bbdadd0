"""What figures over epochs share: means over seeds, panels, lines with bands."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any, Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.figures.runs import Run, measured
from gcl_hard.experiments.reporting.figures.drawing import COLOURS, FLOOR, RULE, TEXT, WIDTH

SETTINGS = {
    "l=-0.25": r"$l = -0.25$  ($\tau = e^{-0.5}$)",
    "l=-0.05": r"$l = -0.05$  ($\tau = e^{-0.1}$)",
    "beta=1": "β = 1",
    "beta=2": "β = 2",
}
"""Of the paper's Fig. 4 and 5, in their order, with the titles of their panels."""
TICKS: dict[str, Any] = {"nbins": 5, "steps": [1, 2, 5, 10], "integer": True, "min_n_ticks": 1}
STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = "os^Dv"
FEW, MARKED = 12, 6
"""Epochs of which each has a marker, and how many have one of more epochs."""
PEAK = 10.0
"""How many times what is usual a peak must be to be cut off."""
LETTER, HANDLE = 0.075, 0.75
"""Widths in a legend, inches."""


class Series(NamedTuple):
    """A number against epoch, over the seeds of a cell.

    Attributes:
        epochs: that all seeds looked at.
        mean: over the seeds at which it is defined; NaN if there are none.
        low: the least of them.
        high: the greatest of them.
    """

    epochs: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]


def series(runs: Sequence[Run], setting: str, *path: str) -> Series:
    """A number of each look, over seeds.

    Args:
        runs: the seeds of a cell.
        setting: of the looks.
        *path: to the number, from the setting inwards.

    Returns:
        :class:`Series`.
    """

    def inside(look: Mapping[str, Any]) -> float | None:
        found: Any = measured(look, setting)
        number: float | None = reduce(getitem, path, found)
        return number

    return along(runs, inside)


def along(runs: Sequence[Run], read: Callable[[Mapping[str, Any]], float | None]) -> Series:
    """The same of a number that is read off a look.

    Args:
        runs: the seeds of a cell.
        read: gives the number, None where it is not defined.

    Returns:
        :class:`Series`.
    """
    epochs = sorted(set.intersection(*[_epochs(run) for run in runs]))
    looks = [{int(look["epoch"]): look for look in run.looks} for run in runs]
    found = Series(epochs, [], [], [])
    for epoch in epochs:
        numbers = [read(own[epoch]) for own in looks]
        defined = [float(number) for number in numbers if number is not None] or [math.nan]
        found.mean.append(statistics.fmean(defined))
        found.low.append(min(defined))
        found.high.append(max(defined))
    return found


def panels(
    down: int, across: int, *, height: float, sharey: Literal["all", "row", "none"]
) -> tuple[Figure, Any]:
    """A grid of panels against epoch, an array [down, across]; only the lowest name the epoch."""
    figure = Figure(figsize=(WIDTH, 0.7 + height * down), layout="constrained")
    grid = figure.subplots(down, across, sharex=True, sharey=sharey, squeeze=False)
    for panel in grid.flat:
        panel.tick_params(labelsize=TEXT, length=2)
        panel.spines[["top", "right"]].set_visible(False)
        panel.locator_params(axis="y", nbins=6)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    for panel in grid[-1]:
        panel.set_xlabel("epoch", fontsize=TEXT)
        panel.xaxis.set_major_locator(MaxNLocator(**TICKS))
    return figure, grid


def looks(labels: Mapping[Cell, str]) -> dict[Cell, dict[str, Any]]:
    """Of each cell's line; a method has one colour, and every line its own dashes and marker."""
    return {
        cell: {
            "color": COLOURS.get(cell.method, FLOOR), "label": label,
            "linestyle": STYLES[index % len(STYLES)], "marker": MARKERS[index % len(MARKERS)],
        }
        for index, (cell, label) in enumerate(labels.items())
    }  # fmt: skip


def top(means: Sequence[Sequence[float]]) -> float:
    """Where the axis ends if a few peaks are far above all else, which would hide the rest."""
    every = sorted(mean for line in means for mean in line)
    if not every:
        return math.inf
    usual = max(1.0, every[int(0.95 * (len(every) - 1))], *(line[0] for line in means if line))
    return 2 * usual if every[-1] > PEAK * usual else math.inf


def plot(panel: Axes, values: Series, look: Mapping[str, Any], *, place: float = 0.0) -> None:
    """A line through means, and a band from the lowest to the highest seed.

    Args:
        panel: to draw in.
        values: over epochs.
        look: of the line.
        place: of its first marker between two of them, in [0, 1): lines on one another are told
            apart by it.
    """
    n = len(values.epochs)
    every = n // MARKED if n > FEW else 1
    panel.plot(values.epochs, values.mean, linewidth=1.5, markersize=4,
               markevery=(int(place * every), every), **look)  # fmt: skip
    panel.fill_between(
        values.epochs, values.low, values.high, color=look["color"], alpha=0.15, linewidth=0
    )


def key(figure: Figure, looks: Sequence[Mapping[str, Any]], title: str | None = None) -> None:
    """The legend, above the panels, in as many columns as there is room for."""
    handles = [Line2D([], [], linewidth=1.5, markersize=4, **look) for look in looks]
    across = max(len(str(look["label"])) for look in looks) * LETTER + HANDLE
    figure.legend(handles=handles, loc="outside upper center", frameon=False, fontsize=TEXT,
                  ncols=min(len(handles), int(WIDTH / across)), handlelength=3.2, title=title,
                  title_fontsize=TEXT)  # fmt: skip


def seen(runs: Sequence[Run]) -> str:
    """Which encoder is looked at, as a sentence of the note."""
    first = " of the first fold" if runs[0].cell.encoders > 1 else ""
    return f"The encoder{first} is frozen at the end of the epoch, in eval mode. "


def lines(cells: Mapping[Cell, Sequence[Run]]) -> str:
    """What lines and bands are, as a sentence of the note; empty of one seed."""
    said = ""
    if max(map(len, cells.values())) > 1:
        said = "Lines are means over seeds, bands reach from the lowest to the highest. "
    looks = [[_epochs(run) for run in runs] for runs in cells.values()]
    if any(one != each[0] for each in looks for one in each):
        said += "Epochs that not all seeds looked at are left out. "
    if any(not look["settings"] for runs in cells.values() for run in runs for look in run.looks):
        said += "Where a look is missing, embeddings were not finite. "
    return said


def _epochs(run: Run) -> set[int]:
    return {int(look["epoch"]) for look in run.looks}


def beyond(cut: Sequence[str]) -> str:
    """What :func:`top` cut off, as a sentence of the note; empty of nothing."""
    return f" Peaks above the axis: {'; '.join(cut)}." if cut else ""


def anchors(runs: Sequence[Run]) -> str:
    """How many anchors looks have, in words."""
    numbers = sorted({int(look["anchors"]) for run in runs for look in run.looks} - {0})
    return between(numbers or [0]) + " anchors"


def between(numbers: Sequence[int]) -> str:
    """A range in words, of one number that number."""
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"
