"""Accuracies with intervals, a panel a data set."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gcl_hard.experiments.reporting.figures.drawing import (
    FLOOR,
    INK,
    RULE,
    SMALL,
    TEXT,
    colour,
    legend,
    panels,
)
from gcl_hard.reports.rows import (
    Row,
)
from gcl_hard.reports.tables import (
    by_label,
    names,
)
from gcl_hard.reports.text import (
    of_images,
)


def accuracy_figure(lines: Sequence[Row], protocol: str) -> Figure | None:
    """Mean accuracies with 95 % intervals, one panel a data set, methods down.

    The interval is that of :attr:`Row.interval`. What was best on the test folds is hollow, being
    no estimate; a diamond is the paper's figure; open lines are absent. So is the majority class of
    images: on a scale that holds it, nothing else is told apart.

    Args:
        lines: of any protocols.
        protocol: of the lines to show.

    Returns:
        The figure; None without a finished seed.
    """
    shown = [line for line in lines if line.protocol == protocol and line.scores]
    if of_images(protocol):
        shown = [line for line in shown if line.method != "majority"]
    if not shown:
        return None
    rows, sets = by_label(shown), names(shown, "dataset")
    figure, axes = panels(len(sets), height=0.6 + 0.19 * len(rows), sharey=True)
    for panel, name in zip(axes, sets, strict=True):
        panel.set_title(name, fontsize=TEXT)
        panel.grid(axis="x", color=RULE, linewidth=0.6)
        panel.locator_params(axis="x", nbins=4)
        for y, (label, row) in enumerate(rows.items()):
            if name in row:
                _interval(panel, y, label, row[name])
    axes[0].set_yticks(range(len(rows)), list(rows), fontsize=SMALL)
    axes[0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel("accuracy, percent", fontsize=TEXT)
    legend(figure, _key(shown))
    return figure


def _interval(panel: Axes, y: int, label: str, line: Row) -> None:
    interval = line.interval
    if interval is None:
        return
    hue = colour(line)
    hollow = line.kind == "best"
    panel.plot([interval.low, interval.high], [y, y], color=hue, linewidth=1.6,
               alpha=0.55 if hollow else 1.0, label=f"{label} interval")  # fmt: skip
    panel.plot([interval.mean], [y], "o", markersize=5, color=hue,
               markerfacecolor="white" if hollow else hue, label=label)  # fmt: skip
    if line.paper is not None:
        panel.plot([line.paper], [y], "D", markersize=3.6, color=INK, markerfacecolor="none",
                   markeredgewidth=0.9, label=f"{label} paper")  # fmt: skip


def _key(shown: Sequence[Row]) -> list[Line2D]:
    key = [Line2D([], [], marker="o", markersize=5, color=INK, label="mean, 95 % interval")]
    if any(line.kind == "best" for line in shown):
        key.append(Line2D([], [], marker="o", markersize=5, color=INK, linestyle="none",
                          markerfacecolor="white", label="best on test: no estimate"))  # fmt: skip
    if any(line.paper is not None for line in shown):
        key.append(Line2D([], [], marker="D", markersize=3.6, color=INK, linestyle="none",
                          markerfacecolor="none", label="the paper's figure"))  # fmt: skip
    if any(line.is_baseline for line in shown):
        key.append(Line2D([], [], marker="o", markersize=5, color=FLOOR, label="floor"))
    return key
