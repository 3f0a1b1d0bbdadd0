"""Accuracy against the number of training graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gcl_hard.experiments.recipe.table import CURVES, SHARES, Entry
from gcl_hard.experiments.reporting.figures.drawing import (
    COLOURS,
    FLOOR,
    RULE,
    TEXT,
    legend,
    panels,
)

if TYPE_CHECKING:
    from gcl_hard.reports.recipe import RecipeTable

FLOOR_STYLES = {"wl-oa": (":", "s"), "supervised": ("-.", "^"), "untrained": ("--", "v")}
"""Lines and markers of floors, which are all grey."""


def learning_curves(compared: RecipeTable) -> Figure | None:
    """One panel a data set, a curve a method; None without a curve of two points.

    Args:
        compared: the rows of the table.

    Returns:
        The figure.
    """
    curves = {
        dataset: {
            name: found for name in CURVES if len(found := _curve(compared, dataset, name)) > 1
        }
        for dataset in compared.datasets
    }
    shown = [dataset for dataset, of_set in curves.items() if of_set]
    if not shown:
        return None
    figure, axes = panels(len(shown), height=2.4, sharey=False)
    key: dict[str, Line2D] = {}
    for panel, dataset in zip(axes, shown, strict=True):
        panel.set_title(dataset, fontsize=TEXT)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
        for shift, (name, points) in enumerate(curves[dataset].items()):
            style, marker = FLOOR_STYLES.get(name, ("-", "o"))
            look: dict[str, Any] = {
                "color": COLOURS.get(name, FLOOR), "linestyle": style,
                "marker": marker, "markersize": 3,
            }  # fmt: skip
            graphs = [n * 1.03 ** (shift - 2) for n, *_ in points]  # bars side by side
            means = [mean for _, mean, _ in points]
            panel.errorbar(graphs, means, yerr=[half for *_, half in points],
                           linewidth=1.3, elinewidth=0.7, **look)  # fmt: skip
            key.setdefault(name, Line2D([], [], label=name, **look))
        panel.set_xscale("log")
        sizes = sorted({n for points in curves[dataset].values() for n, *_ in points})
        panel.set_xticks(sizes, [f"{n:.0f}" for n in sizes], minor=False)
        panel.minorticks_off()
    figure.supxlabel("training graphs of a fold", fontsize=TEXT)
    figure.supylabel("accuracy, percent", fontsize=TEXT)
    legend(figure, [*key.values()])
    return figure


def _curve(compared: RecipeTable, dataset: str, name: str) -> list[tuple[float, float, float]]:
    """Training graphs, mean accuracy and half its interval, by share."""
    found = []
    for share in (*SHARES, 1.0):
        row = _row(compared, share, name)
        scores = None if row is None else compared.scores(row, dataset)
        if row is None or scores is None or scores.interval is None:
            continue
        first = compared.records(row, dataset)[0]
        n_graphs = first.data["n_graphs"] * (1 - 1 / len(scores.folds[0]))
        half = (scores.interval.high - scores.interval.low) / 2
        found.append((share * n_graphs, scores.mean, half))
    return found


def _row(compared: RecipeTable, share: float, method: str) -> Entry | None:
    if share == 1:
        return compared.row("floors" if method == "wl-oa" else "ours", method)
    for row in compared.rows("fewer"):
        if (row.name, row.method) == (f"{share:g}", method):
            return row
    return None
