"""What every setting of a search moves, as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gcl_hard.experiments.ablations import Chosen, Tried, said
from gcl_hard.experiments.reporting.figures.drawing import (
    FLOOR,
    INK,
    RULE,
    SMALL,
    TEXT,
    WIDTH,
    legend,
)

ROW = 0.19
"""Inches of a setting."""
HELPS, HARMS, NEITHER = "#117733", "#882255", "#888888"
"""Interval above 0, below, and around it."""


def forest(chosen: Chosen) -> Figure | None:
    """Gains over all sets with their intervals, best first, and beside them those of floors.

    Args:
        chosen: by a search.

    Returns:
        The figure, what is joined above what moves alone; None where nothing was tried.
    """
    joined = chosen.joined[-1:] if len(chosen.joined) > 1 else []
    alone = sorted(chosen.alternatives, key=lambda one: -one.gain.mean)
    rows = [*joined, *alone]
    if not rows:
        return None
    figure = Figure(figsize=(WIDTH, 1.0 + ROW * len(rows)), layout="constrained")
    axes = figure.subplots()
    floors = chosen.search.floors
    _draw(axes, rows, floors)
    if joined:
        axes.axhline(0.5, color=RULE, linewidth=0.8)
    names = [f"{said(one.settings)} (joined)" if one in joined else said(one.settings)
             for one in rows]  # fmt: skip
    axes.set_yticks(range(len(rows)), names, fontsize=SMALL)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("points of inner score over the start, mean over sets", fontsize=TEXT)
    axes.tick_params(labelsize=SMALL, length=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    legend(figure, _key(", ".join(chosen.search.deciding), floors))
    return figure


def _draw(axes: Axes, rows: Sequence[Tried], floors: Sequence[str]) -> None:
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    for y, one in enumerate(rows):
        gain = one.gain
        colour = HELPS if gain.low > 0 else HARMS if gain.high < 0 else NEITHER
        axes.plot([gain.low, gain.high], [y, y], color=colour, linewidth=1.4)
        axes.plot([gain.mean], [y], "o", color=colour, markersize=4.5)
        for floor in floors:
            axes.plot([one.by_method[floor].mean], [y], "D", color=FLOOR, markersize=4,
                      markerfacecolor="none", markeredgewidth=0.9)  # fmt: skip


def _key(deciding: str, floors: Sequence[str]) -> list[Line2D]:
    looks = ((HELPS, "above 0"), (HARMS, "below 0"), (NEITHER, "around 0"))
    key = [
        Line2D(
            [], [], color=colour, marker="o", markersize=4.5, label=f"{deciding}: interval {words}"
        )
        for colour, words in looks
    ]
    if floors:
        key.append(Line2D([], [], color=FLOOR, marker="D", markersize=4, linestyle="none",
                          markerfacecolor="none", label=", ".join(floors)))  # fmt: skip
    return key
