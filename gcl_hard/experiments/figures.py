"""Figures of results: accuracies with intervals, ranks over data sets, accuracy against β.

Colours are told apart without seeing hue: blues and greens read no labels, warm ones do; a method
has the same colour everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from gcl_hard.evaluation import (
    average_ranks,
    cliques,
    critical_difference,
    friedman,
)
from gcl_hard.experiments.export import datasets, grid, whole
from gcl_hard.experiments.lines import CONTROLS, SYMBOLS, Line

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


def colour(line: Line) -> str:
    """Of a line's method; floors are grey."""
    return COLOURS.get(line.method, FLOOR)


def accuracy_figure(lines: Sequence[Line], protocol: str) -> Figure | None:
    """Mean accuracies with 95 % intervals, one panel a data set, methods down.

    The interval is that of :attr:`Line.interval`. What was best on the test folds is hollow, being
    no estimate; a diamond is the paper's figure; open lines are absent.

    Args:
        lines: of any protocols.
        protocol: of the lines to show.

    Returns:
        The figure; None without a finished seed.
    """
    shown = [line for line in lines if line.protocol == protocol and line.scores]
    if not shown:
        return None
    rows, sets = grid(shown), datasets(shown)
    figure, panels = _panels(len(sets), height=0.6 + 0.19 * len(rows), sharey=True)
    for panel, name in zip(panels, sets, strict=True):
        panel.set_title(name, fontsize=TEXT)
        panel.grid(axis="x", color=RULE, linewidth=0.6)
        panel.locator_params(axis="x", nbins=4)
        for y, (label, row) in enumerate(rows.items()):
            if name in row:
                _accuracy(panel, y, label, row[name])
    panels[0].set_yticks(range(len(rows)), list(rows), fontsize=SMALL)
    panels[0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel("accuracy, percent", fontsize=TEXT)
    _legend(figure, _accuracy_key(shown))
    return figure


def _accuracy(panel: Axes, y: int, label: str, line: Line) -> None:
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


def _accuracy_key(shown: Sequence[Line]) -> list[Line2D]:
    key = [Line2D([], [], marker="o", markersize=5, color=INK, label="mean, 95 % interval")]
    if any(line.kind == "best" for line in shown):
        key.append(Line2D([], [], marker="o", markersize=5, color=INK, linestyle="none",
                          markerfacecolor="white", label="best on test: no estimate"))  # fmt: skip
    if any(line.paper is not None for line in shown):
        key.append(Line2D([], [], marker="D", markersize=3.6, color=INK, linestyle="none",
                          markerfacecolor="none", label="the paper's figure"))  # fmt: skip
    if any(line.kind == "floor" for line in shown):
        key.append(Line2D([], [], marker="o", markersize=5, color=FLOOR, label="floor"))
    return key


def rank_figure(lines: Sequence[Line], protocol: str) -> Figure | None:
    """Average ranks over data sets, and which of them the Nemenyi test does not tell apart.

    One line a method: chosen inside where it was, else its only one, else β = 1. Data sets are
    those on which all trained methods have all seeds; floors join if they have them there too.

    Args:
        lines: of any protocols.
        protocol: of the lines to show.

    Returns:
        The diagram; None with fewer than two such data sets or three methods.

    Source: Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006,
        Figure 1.
    """
    methods, sets, scores = _ranked([line for line in lines if line.protocol == protocol])
    if len(sets) < 2 or len(methods) < 3:
        return None
    ranks = average_ranks(scores)
    cd = critical_difference(len(methods), len(sets))
    groups = cliques(ranks, cd)
    order = np.argsort(ranks, kind="stable")
    half = (len(order) + 1) // 2
    bottom = 0.6 + 0.35 * len(groups)
    depth = bottom + 0.6 * half
    figure = Figure(figsize=(WIDTH, 1.3 + 0.4 * depth), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    last = max(len(methods), 1 + cd)
    axes.set_xlim(1 - 0.28 * (last - 1), last + 0.28 * (last - 1))
    axes.set_ylim(depth, -1.9)
    _scale(axes, len(methods), cd)
    for position, index in enumerate(order):
        left = position < half
        y = bottom + 0.6 * (position if left else len(order) - 1 - position)
        end = (1.0 if left else last, y)
        _rank(axes, methods[index], float(ranks[index]), end, "right" if left else "left")
    for level, (first, final) in enumerate(groups):
        span = [float(ranks[order[first]]) - 0.03, float(ranks[order[final]]) + 0.03]
        axes.plot(span, [0.35 + 0.35 * level] * 2, color=INK, linewidth=3.5,
                  solid_capstyle="butt", label="clique")  # fmt: skip
    p = friedman(scores)
    axes.text(
        0.5, 0, f"Average rank over {len(sets)} data sets ({', '.join(sets)}), 1 is best; Friedman "
        f"p = {0.0 if p is None else p:.2g}.\nA bar joins what the Nemenyi test does not tell "
        f"apart at 5 %: ranks at most CD = {cd:.2f} apart.",
        transform=axes.transAxes, ha="center", va="top", fontsize=SMALL, color=INK,
    )  # fmt: skip
    return figure


def _scale(axes: Axes, k: int, cd: float) -> None:
    axes.plot([1, k], [0, 0], color=INK, linewidth=1)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [-0.15, 0], color=INK, linewidth=1)
        axes.text(rank, -0.3, str(rank), ha="center", va="bottom", fontsize=SMALL)
    axes.plot([1, 1 + cd], [-1.35, -1.35], color=INK, linewidth=1.4, marker="|", label="CD")
    axes.text(1 + cd / 2, -1.5, f"CD = {cd:.2f}", ha="center", va="bottom", fontsize=SMALL)


def _rank(
    axes: Axes, line: Line, rank: float, end: tuple[float, float], align: Literal["left", "right"]
) -> None:
    x, y = end
    axes.plot([rank, rank, x], [0, y, y], color=colour(line), linewidth=1.3, label=line.label)
    axes.annotate(
        f"{line.label}  {rank:.2f}", end, (-5 if align == "right" else 5, 0),
        textcoords="offset points", ha=align, va="center", fontsize=TEXT, color=INK,
    )  # fmt: skip


def _ranked(lines: Sequence[Line]) -> tuple[list[Line], list[str], NDArray[np.float64]]:
    """A line of each method, the data sets, and the means [n_sets, k]."""
    table = {
        method: {d: line for d in datasets(lines) if (line := _of_method(lines, method, d))}
        for method in dict.fromkeys(line.method for line in lines)
    }
    trained = [row for row in table.values() if all(x.kind != "floor" for x in row.values())]
    sets = [d for d in datasets(lines) if all(whole(row.get(d)) for row in trained)]
    rows = [row for row in table.values() if sets and all(whole(row.get(d)) for d in sets)]
    means = [[s.mean for row in rows if (s := row[d].scores) is not None] for d in sets]
    return [row[sets[0]] for row in rows], sets, np.array(means)


def _of_method(lines: Sequence[Line], method: str, dataset: str) -> Line | None:
    own = [line for line in lines if (line.method, line.dataset) == (method, dataset)]
    own = [line for line in own if line.kind != "best"]
    inside = [line for line in own if line.kind == "inside"]
    if inside or len(own) == 1:
        return (inside or own)[0]
    return next((line for line in own if _beta(line) == 1), None)


def beta_figure(lines: Sequence[Line], protocol: str) -> Figure | None:
    """Mean accuracies with 95 % intervals against β, one panel a data set.

    Horizontal lines are ucl and scl. β are drawn at equal distances.

    Args:
        lines: of any protocols.
        protocol: of the lines to show.

    Returns:
        The figure; None with fewer than two β.
    """
    shown = [line for line in lines if line.protocol == protocol and line.scores]
    hard = [line for line in shown if _beta(line) is not None]
    betas = sorted({b for line in hard if (b := _beta(line)) is not None})
    if len(betas) < 2:
        return None
    sets, methods = datasets(hard), list(dict.fromkeys(line.method for line in hard))
    figure, panels = _panels(len(sets), height=1.9, sharey=False)
    for panel, name in zip(panels, sets, strict=True):
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
    _legend(figure, [
        Line2D([], [], color=COLOURS[m], marker="o" if m in methods else "", markersize=4,
               linestyle="-" if m in methods else "--", label=m)
        for m in drawn if m in methods or m in CONTROLS
    ])  # fmt: skip
    return figure


def _curve(panel: Axes, own: Sequence[Line], betas: Sequence[float], shift: float) -> None:
    points = sorted(
        (betas.index(b) + shift, interval)
        for line in own
        if (b := _beta(line)) is not None and (interval := line.interval)
    )
    if not points:
        return
    hue = colour(own[0])
    for x, interval in points:
        panel.plot([x, x], [interval.low, interval.high], color=hue, linewidth=1.4, alpha=0.7,
                   label=f"{own[0].method} interval")  # fmt: skip
    panel.plot([x for x, _ in points], [interval.mean for _, interval in points], "o-",
               color=hue, markersize=4, linewidth=1.2, label=own[0].method)  # fmt: skip


def _beta(line: Line) -> float | None:
    """β of a line whose setting is β alone."""
    name, _, value = line.setting.partition("=")
    alone = line.kind == "fixed" and name == SYMBOLS["beta"] and " " not in value
    return float(value) if alone else None


def _panels(n: int, *, height: float, sharey: bool) -> tuple[Figure, list[Axes]]:
    """Panels in rows of five, the first row first."""
    across, down = min(n, ACROSS), -(-n // ACROSS)
    figure = Figure(figsize=(WIDTH, 0.5 + height * down), layout="constrained")
    grid_of_axes = figure.subplots(down, across, sharey=sharey, squeeze=False)
    panels = list(grid_of_axes.flat)
    for surplus in panels[n:]:
        surplus.set_axis_off()
    for panel in panels[:n]:
        panel.tick_params(labelsize=SMALL, length=2)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels[:n]


def _legend(figure: Figure, key: list[Line2D]) -> None:
    figure.legend(handles=key, loc="outside upper center", ncols=len(key), frameon=False,
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


FIGURES = {"accuracy": accuracy_figure, "ranks": rank_figure, "beta": beta_figure}
"""By what their files are called."""
