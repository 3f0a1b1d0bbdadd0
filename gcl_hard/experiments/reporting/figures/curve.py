"""Accuracy against epoch: the monitoring curve of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gcl_hard.experiments.reporting.figures.drawing import (
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
from gcl_hard.reports.tables import names

STYLES = ("-", "--", ":", "-.")


def curve_figure(lines: Sequence[Row], protocol: str) -> Figure | None:
    """Nearest neighbours' accuracy against epoch, one panel a data set, mean over seeds.

    The queries are training images that the neighbours' bank leaves out: the encoder has seen
    them, so the curve shows how training goes and no accuracy on new images.

    Args:
        lines: of any protocols.
        protocol: of the lines to show.

    Returns:
        The figure; None where no line has a curve of two points.

    Source: H-SCL paper, Figure 1, which shows accuracies on test images.
    """
    shown = [line for line in lines if line.protocol == protocol and len(line.curve) > 1]
    if not shown:
        return None
    sets = names(shown, "dataset")
    figure, axes = panels(len(sets), height=2.6, sharey=False)
    key: dict[str, Line2D] = {}
    for panel, name in zip(axes, sets, strict=True):
        panel.set_title(name, fontsize=TEXT)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
        drawn: dict[str, int] = {}
        for line in (x for x in shown if x.dataset == name):
            style = STYLES[drawn.setdefault(line.method, 0) % len(STYLES)]
            drawn[line.method] += 1
            epochs, accuracies = zip(*line.curve, strict=True)
            look: dict[str, Any] = {"color": colour(line), "linestyle": style, "label": line.label}
            panel.plot(epochs, accuracies, marker="o", markersize=3, linewidth=1.3, **look)
            key.setdefault(line.label, Line2D([], [], **look))
        panel.locator_params(axis="x", integer=True)
        panel.tick_params(labelsize=SMALL)
    figure.supxlabel("epoch", fontsize=TEXT)
    figure.supylabel("monitoring accuracy, percent", fontsize=TEXT)
    legend(figure, list(key.values()))
    return figure
