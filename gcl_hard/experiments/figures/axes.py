"""Panels, lines with bands and legends of figures against the epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.figures.epochs import Series
from gcl_hard.experiments.reporting.figures.drawing import COLOURS, RULE, TEXT, WIDTH

TICKS: dict[str, Any] = {"nbins": 5, "steps": [1, 2, 5, 10], "integer": True, "min_n_ticks": 1}
STYLES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = "os^DvPX"
FEW, MARKED = 12, 6
"""Epochs of which each has a marker, and how many have one of more epochs."""
PEAK = 10.0
"""How many times what is usual a peak must be to be cut off."""
MARGIN = 0.05
"""Of an axis, what is left free at either end."""
LETTER, HANDLE = 0.075, 0.75
"""Widths in a legend, inches."""


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


def styles(called: Mapping[RunConfig, str]) -> dict[RunConfig, dict[str, Any]]:
    """Of each cell's line; a method has one colour, and every line its own dashes and marker."""
    return {
        cell: {
            "color": COLOURS[cell.method], "label": label,
            "linestyle": STYLES[index % len(STYLES)], "marker": MARKERS[index % len(MARKERS)],
        }
        for index, (cell, label) in enumerate(called.items())
    }  # fmt: skip


def top(means: Sequence[Sequence[float]]) -> float:
    """Where the axis ends if a few peaks are far above all else, which would hide the rest."""
    every = sorted(mean for line in means for mean in line)
    if not every:
        return math.inf
    usual = max(1.0, every[int(0.95 * (len(every) - 1))], *(line[0] for line in means if line))
    return 2 * usual if every[-1] > PEAK * usual else math.inf


def limits(drawn: Sequence[Series], top: float) -> tuple[float, float]:
    """Both ends of an axis that holds lines and bands as far as they are no peaks.

    Args:
        drawn: at least one number of it at or below ``top``.
        top: of :func:`top`.

    Returns:
        The ends, with a margin.
    """
    every = [x for values in drawn for x in (*values.mean, *values.low, *values.high) if x <= top]
    low, high = min(every), max(every)
    margin = MARGIN * (high - low or 1.0)
    return low - margin, high + margin


def plot(panel: Axes, values: Series, style: Mapping[str, Any], *, place: float = 0.0) -> None:
    """A line through means, and a band from the lowest to the highest seed.

    Args:
        panel: to draw in.
        values: over epochs.
        style: of the line.
        place: of its first marker between two of them, in [0, 1): lines on one another are told
            apart by it.
    """
    n = len(values.epochs)
    every = n // MARKED if n > FEW else 1
    panel.plot(values.epochs, values.mean, linewidth=1.5, markersize=4,
               markevery=(int(place * every), every), **style)  # fmt: skip
    panel.fill_between(
        values.epochs, values.low, values.high, color=style["color"], alpha=0.15, linewidth=0
    )


def key(figure: Figure, styles: Sequence[Mapping[str, Any]], title: str | None = None) -> None:
    """The legend, above the panels, in as many columns as there is room for."""
    handles = [Line2D([], [], linewidth=1.5, markersize=4, **style) for style in styles]
    figure.legend(handles=handles, loc="outside upper center", frameon=False, fontsize=TEXT,
                  ncols=columns([str(style["label"]) for style in styles]), handlelength=3.2,
                  title=title, title_fontsize=TEXT)  # fmt: skip


def columns(labels: Sequence[str]) -> int:
    """How many columns of a legend there is room for; each is as wide as its longest label."""
    for n in range(len(labels), 1, -1):
        widest = [max(map(len, column)) for column in np.array_split(np.array(labels), n)]
        if sum(widest) * LETTER + n * HANDLE <= WIDTH:
            return n
    return 1
