"""What figures share: a palette, panels, a legend, and how they are saved.

Colours are told apart without seeing hue: blues and greens read no labels, warm ones do; a method
has the same colour everywhere.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gcl_hard.reports.rows import (
    Row,
)

COLOURS = {
    "ucl": "#0072B2",
    "dcl": "#009E73",
    "hucl": "#56B4E9",
    "hcl": "#332288",
    "scl": "#D55E00",
    "hscl": "#E69F00",
    "hscl-tau": "#AA4499",
}
FLOOR, RULE, INK = "#767676", "#DDDDDD", "#222222"

WIDTH = 9.0  # inches: 864 px of a page
ACROSS = 5  # panels
SMALL, TEXT = 8, 9  # points


def colour(line: Row) -> str:
    """Of a line's method; floors are grey."""
    return COLOURS.get(line.method, FLOOR)


def panels(n: int, *, height: float, sharey: bool) -> tuple[Figure, list[Axes]]:
    """Panels in rows of five, the first row first."""
    across, down = min(n, ACROSS), -(-n // ACROSS)
    figure = Figure(figsize=(WIDTH, 0.5 + height * down), layout="constrained")
    grid_of_axes = figure.subplots(down, across, sharey=sharey, squeeze=False)
    found = list(grid_of_axes.flat)
    for surplus in found[n:]:
        surplus.set_axis_off()
    for panel in found[:n]:
        panel.tick_params(labelsize=SMALL, length=2)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, found[:n]


def legend(figure: Figure, key: list[Line2D]) -> None:
    """The key, above the panels."""
    figure.legend(handles=key, loc="outside upper center", ncols=min(len(key), 6), frameon=False,
                  fontsize=SMALL)  # fmt: skip


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG; the same figure gives the same bytes.

    Letters are outlines and the ground is white, so that it looks the same on every page, dark
    ones included.

    Args:
        figure: made here.
        path: of the file.
    """
    with mpl.rc_context({"svg.hashsalt": "gcl_hard", "svg.fonttype": "path"}):
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})
