"""Accuracy against β."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gcl_hard.experiments.reporting.figures.drawing import (
    COLOURS,
    RULE,
    SMALL,
    TEXT,
    colour,
    legend,
    panels,
)
from gcl_hard.reports.rows import (
    CONTROLS,
    Row,
)
from gcl_hard.reports.tables import names


def beta_figure(lines: Sequence[Row], protocol: str) -> Figure | None:
    """Mean accuracies with 95 % intervals against β, one panel a data set.

    Horizontal lines are ucl and scl. β are drawn at equal distances.

    Args:
        lines: of any protocols.
        protocol: of the lines to show.

    Returns:
        The figure; None with fewer than two β.
    """
    shown = [line for line in lines if line.protocol == protocol and line.scores]
    hard = [line for line in shown if line.kind == "fixed" and line.beta is not None]
    betas = sorted({line.beta for line in hard if line.beta is not None})
    if len(betas) < 2:
        return None
    sets, methods = names(hard, "dataset"), list(dict.fromkeys(line.method for line in hard))
    figure, axes = panels(len(sets), height=1.9, sharey=False)
    for panel, name in zip(axes, sets, strict=True):
        panel.set_title(name, fontsize=TEXT)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
        panel.set_xticks(range(len(betas)), [f"{b:g}" for b in betas], fontsize=SMALL)
        panel.set_xlim(-0.4, len(betas) - 0.6)
        panel.locator_params(axis="y", nbins=5)
        for line in shown:
            if line.dataset == name and line.method in CONTROLS and line.scores:
                panel.axhline(line.scores.mean, color=colour(line), linewidth=1.3,
                              linestyle="--", label=line.method)  # fmt: skip
        for index, method in enumerate(methods):
            own = [x for x in hard if (x.dataset, x.method) == (name, method)]
            _curve(panel, own, betas, shift=0.12 * (index - (len(methods) - 1) / 2))
    figure.supxlabel("β", fontsize=TEXT)
    figure.supylabel("accuracy, percent", fontsize=TEXT)
    drawn = {line.method: line for line in (*shown, *hard)}
    legend(figure, [
        Line2D([], [], color=COLOURS[m], marker="o" if m in methods else "", markersize=4,
               linestyle="-" if m in methods else "--", label=m)
        for m in drawn if m in methods or m in CONTROLS
    ])  # fmt: skip
    return figure


def _curve(panel: Axes, own: Sequence[Row], betas: Sequence[float], shift: float) -> None:
    points = sorted(
        (betas.index(line.beta) + shift, interval)
        for line in own
        if line.beta is not None and (interval := line.interval)
    )
    if not points:
        return
    hue = colour(own[0])
    for x, interval in points:
        panel.plot([x, x], [interval.low, interval.high], color=hue, linewidth=1.4, alpha=0.7,
                   label=f"{own[0].method} interval")  # fmt: skip
    panel.plot([x for x, _ in points], [interval.mean for _, interval in points], "o-",
               color=hue, markersize=4, linewidth=1.2, label=own[0].method)  # fmt: skip
