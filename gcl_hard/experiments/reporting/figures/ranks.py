"""Average ranks over data sets, and which of them are not told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gcl_hard.evaluation import (
    average_ranks,
    cliques,
    critical_difference,
    friedman,
)
from gcl_hard.experiments.reporting.figures.drawing import INK, SMALL, TEXT, WIDTH, colour
from gcl_hard.reports.rows import (
    Row,
)
from gcl_hard.reports.tables import names


def rank_figure(lines: Sequence[Row], protocol: str) -> Figure | None:
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
    axes: Axes, line: Row, rank: float, end: tuple[float, float], align: Literal["left", "right"]
) -> None:
    x, y = end
    axes.plot([rank, rank, x], [0, y, y], color=colour(line), linewidth=1.3, label=line.label)
    axes.annotate(
        f"{line.label}  {rank:.2f}", end, (-5 if align == "right" else 5, 0),
        textcoords="offset points", ha=align, va="center", fontsize=TEXT, color=INK,
    )  # fmt: skip


def _ranked(lines: Sequence[Row]) -> tuple[list[Row], list[str], NDArray[np.float64]]:
    """A line of each method, the data sets, and the means [n_sets, k]."""
    table = {
        method: {d: line for d in names(lines, "dataset") if (line := _of_method(lines, method, d))}
        for method in dict.fromkeys(line.method for line in lines)
    }
    trained = [row for row in table.values() if all(not x.is_baseline for x in row.values())]
    sets = [
        d
        for d in names(lines, "dataset")
        if all((own := row.get(d)) is not None and own.whole for row in trained)
    ]
    rows = [
        row
        for row in table.values()
        if sets and all((own := row.get(d)) is not None and own.whole for d in sets)
    ]
    means = [[s.mean for row in rows if (s := row[d].scores) is not None] for d in sets]
    return [row[sets[0]] for row in rows], sets, np.array(means)


def _of_method(lines: Sequence[Row], method: str, dataset: str) -> Row | None:
    own = [line for line in lines if (line.method, line.dataset) == (method, dataset)]
    own = [line for line in own if line.kind != "best"]
    inside = [line for line in own if line.kind == "inside"]
    if inside or len(own) == 1:
        return (inside or own)[0]
    return next((line for line in own if line.beta == 1), None)
