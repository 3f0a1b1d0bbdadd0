"""Figures of results: scores with intervals, ranks, β, curves, and sizes of the training data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from gcl_hard.evaluation import average_ranks, cliques, critical_difference, friedman
from gcl_hard.evaluation.metrics import metric
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import CONTROLS
from gcl_hard.losses.methods import METHODS
from gcl_hard.reports import theme
from gcl_hard.reports.rows import rows_frame
from gcl_hard.reports.tables import names

if TYPE_CHECKING:
    from gcl_hard.reports.rows import Row


MOST_LABELS = 150
"""Rows that a figure of scores can show legibly."""


def frame(lines: Sequence[Row]) -> pd.DataFrame:
    """Finished rows, one line each.

    Args:
        lines: rows of a table.

    Returns:
        ``dataset``, ``method``, ``label``, ``kind``, ``beta``, ``mean``, the 95 % interval
        ``low`` and ``high`` of :attr:`Row.interval` (NaN of one score), ``paper``.
    """
    shown = [line for line in lines if line.scores]
    numbers = ["beta", "mean", "low", "high", "paper"]
    data = rows_frame(shown).assign(
        label=[line.entry for line in shown], beta=[line.beta for line in shown]
    )
    columns = ["dataset", "method", "kind", "label", *numbers]
    return data.reindex(columns=columns).astype(dict.fromkeys(numbers, float))


@theme.themed
def score_figure(lines: Sequence[Row]) -> Figure | None:
    """Mean scores with 95 % intervals, one panel per data set, methods down.

    What was best on the test folds is hollow, being no estimate; a diamond is the paper's figure.
    Where all runs have one test part, the majority class is left out: with it, the scale would be
    too wide to tell the other methods apart.

    Args:
        lines: rows of one protocol and metric.

    Returns:
        The figure; None without a finished run, or of too many rows to be legible.
    """
    data = frame(lines)
    if any(line.one_split for line in lines):
        data = data[data["method"] != "majority"]
    if data.empty or data["label"].nunique() > MOST_LABELS:
        return None
    figure, panels = _interval_panels(
        data.assign(panel=data["dataset"]), metric(lines[0].metric).label
    )
    labels = [*data["label"].unique()]
    for panel in panels:
        shown = data[(data["dataset"] == panel.get_title()) & data["paper"].notna()]
        panel.plot(shown["paper"], [labels.index(label) for label in shown["label"]], **DIAMOND)
        if metric(lines[0].metric).unit == "%":  # an interval may go beyond a percentage
            low, high = panel.get_xlim()
            panel.set_xlim(max(low, -0.5), min(high, 100.5))
    dot = {"marker": "o", "markersize": 5, "color": theme.INK}
    keys = [
        (True, {**dot, "label": "mean, 95 % interval"}),
        ((data["kind"] == "best").any(),
         {**dot, "linestyle": "none", "markerfacecolor": "white",
          "label": "best on test: no estimate"}),
        (data["paper"].notna().any(), {**DIAMOND, "label": "the paper's figure"}),
        ((~data["method"].isin(METHODS)).any(),
         {**dot, "color": theme.GREY, "label": "baseline"}),
    ]  # fmt: skip
    theme.legend(figure, [key for applies, key in keys if applies])
    return figure


DIAMOND: dict[str, Any] = {
    "marker": "D", "markersize": 3.6, "color": theme.INK, "linestyle": "none",
    "markerfacecolor": "none", "markeredgewidth": 0.9,
}  # fmt: skip


@theme.themed
def beta_figure(lines: Sequence[Row]) -> Figure | None:
    """Mean scores with 95 % intervals against β, one panel per data set.

    Horizontal lines are ucl and scl. Values of β are evenly spaced.

    Args:
        lines: rows of one protocol and metric.

    Returns:
        The figure; None with fewer than two β.
    """
    data = frame(lines)
    hard = data[(data["kind"] == "fixed") & data["beta"].notna()]
    betas, methods = sorted(hard["beta"].unique()), list(hard["method"].unique())
    if len(betas) < 2:
        return None
    rules = data[data["method"].isin(CONTROLS)]
    sets = hard["dataset"].unique()
    figure, panels = theme.panels(len(sets), height=1.9)
    for panel, name in zip(panels, sets, strict=True):
        for row in theme.rows(rules[rules["dataset"] == name]):
            panel.axhline(row.mean, **_style(row.method, rule=True))
        for index, method in enumerate(methods):
            points = hard[(hard["dataset"] == name) & (hard["method"] == method)]
            points = points.sort_values("beta")
            x = [betas.index(b) + 0.12 * (index - (len(methods) - 1) / 2) for b in points["beta"]]
            panel.vlines(x, points["low"], points["high"], color=theme.colour(method), alpha=0.7)
            panel.plot(x, points["mean"], **_style(method))
        panel.set_title(name)
        panel.set_xticks(range(len(betas)), [f"{b:g}" for b in betas])
        panel.set_xlim(-0.4, len(betas) - 0.6)
        panel.locator_params(axis="y", nbins=5)
    figure.supxlabel("β", fontsize=theme.TEXT)
    figure.supylabel(metric(lines[0].metric).label, fontsize=theme.TEXT)
    shown = [m for m in data["method"].unique() if m in methods or m in CONTROLS]
    theme.legend(figure, [_style(m, rule=m not in methods) for m in shown])
    return figure


def _style(method: str, *, rule: bool = False) -> dict[str, Any]:
    return {
        "color": theme.colour(method), "label": method, "marker": "" if rule else "o",
        "linestyle": "--" if rule else "-", "linewidth": 1.3,
    }  # fmt: skip


@theme.themed
def curve_figure(lines: Sequence[Row]) -> Figure | None:
    """Nearest neighbours' accuracy against epoch, one panel per data set, mean over seeds.

    The queries are not among the neighbours, but the encoder was trained on them: the curve shows
    the course of training, not accuracy on new images.

    Args:
        lines: rows of one protocol and metric.

    Returns:
        The figure; None where no line has a curve of two points.

    Source: H-SCL paper, Figure 1, which shows accuracies on test images.
    """
    shown = [line for line in lines if len(line.curve) > 1]
    if not shown:
        return None
    groups = {name: [x for x in shown if x.dataset == name] for name in names(shown, "dataset")}
    styles = theme.line_styles({line.label: line.method for line in shown})
    figure, panels = theme.panels(len(groups), height=2.6)
    for panel, (name, set_lines) in zip(panels, groups.items(), strict=True):
        for line in set_lines:
            panel.plot(*zip(*line.curve, strict=True), **styles[line.label])
        panel.set_title(name)
        panel.locator_params(axis="x", integer=True)
    figure.supxlabel("epoch", fontsize=theme.TEXT)
    figure.supylabel("monitoring accuracy, %", fontsize=theme.TEXT)
    theme.legend(figure, list(styles.values()))
    return figure


class Ranks(NamedTuple):
    """Average ranks of methods over data sets.

    Attributes:
        lines: one per method.
        datasets: those on which all trained methods are finished.
        ranks: float64 [methods], 1 is best.
        critical: critical difference of the Nemenyi test at 5 %.
        cliques: first and last position, by rank, of methods that it does not distinguish.
        p: p-value of the Friedman test.
    """

    lines: list[Row]
    datasets: list[str]
    ranks: NDArray[np.float64]
    critical: float
    cliques: list[tuple[int, int]]
    p: float


def ranks(lines: Sequence[Row]) -> Ranks | None:
    """The numbers of :func:`rank_figure`.

    Args:
        lines: rows of one protocol and metric.

    Returns:
        :class:`Ranks`; None with fewer than two data sets or three methods.
    """
    lines = [line for line in lines if line.sets == 1]
    datasets = list(dict.fromkeys(line.dataset for line in lines))
    table = {
        method: {d: line for d in datasets if (line := _representative(lines, method, d))}
        for method in dict.fromkeys(line.method for line in lines)
    }
    trained = [row for method, row in table.items() if method in METHODS]
    sets = [d for d in datasets if all(d in row and row[d].whole for row in trained)]
    rows = [row for row in table.values() if sets and all(d in row and row[d].whole for d in sets)]
    if len(sets) < 2 or len(rows) < 3:
        return None
    scores = np.array([[s.mean for row in rows if (s := row[d].scores)] for d in sets])
    scores = scores if metric(lines[0].metric).higher else -scores
    averages, critical = average_ranks(scores), critical_difference(len(rows), len(sets))
    p = friedman(scores)
    return Ranks([row[sets[0]] for row in rows], sets, averages, critical,
                 cliques(averages, critical), 0.0 if p is None else p)  # fmt: skip


def _representative(lines: Sequence[Row], method: str, dataset: str) -> Row | None:
    """A method's row: chosen inside if there is one, else its only one, else β = 1."""
    candidates = [
        x for x in lines if (x.method, x.dataset) == (method, dataset) and x.kind != "best"
    ]
    inside = [line for line in candidates if line.kind == "inside"]
    if inside or len(candidates) == 1:
        return (inside or candidates)[0]
    return next((line for line in candidates if line.beta == 1), None)


@theme.themed
def rank_figure(lines: Sequence[Row]) -> Figure | None:
    """Average ranks over data sets, and methods that the Nemenyi test does not distinguish.

    One line per method: chosen inside if there is one, else its only one, else β = 1. Data sets are
    those on which all trained methods have all seeds; baselines join if they have them there too.

    Args:
        lines: rows of one protocol and metric.

    Returns:
        The diagram; None with fewer than two such data sets or three methods.

    Source: Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006,
        Figure 1.
    """
    ranked = ranks(lines)
    if ranked is None:
        return None
    order = np.argsort(ranked.ranks, kind="stable")
    k, cd, means = len(order), ranked.critical, ranked.ranks[order]
    figure, (axes,) = theme.panels(1, height=0.7 + 0.22 * (k + len(ranked.cliques)), grid="x")
    for y, index in enumerate(order):
        line = ranked.lines[index]
        axes.plot([means[y]], [y], "o", color=theme.colour(line.method), label=line.label)
    for level, (low, high) in enumerate(ranked.cliques):
        span = [means[low] - 0.03, means[high] + 0.03]
        axes.plot(span, [k + level] * 2, color=theme.INK, linewidth=3.5, label="clique")
    axes.plot([1, 1 + cd], [-1, -1], color=theme.INK, marker="|", label="CD")
    labels = [f"{ranked.lines[i].label}  {ranked.ranks[i]:.2f}" for i in order]
    axes.set_yticks(range(-1, k), [f"CD = {cd:.2f}", *labels])
    axes.invert_yaxis()
    axes.set_xlabel(
        f"Average rank over {len(ranked.datasets)} data sets ({', '.join(ranked.datasets)}), 1 is "
        f"best; Friedman p = {ranked.p:.2g}.\nA bar joins what the Nemenyi test does not tell "
        f"apart at 5 %: ranks at most CD = {cd:.2f} apart.", fontsize=theme.SMALL,
    )  # fmt: skip
    return figure


def part_figure(rows: Sequence[Row]) -> Figure | None:
    """Differences from scl by a further metric, of a part of the test items: sets from the smallest
    share of such items upwards, a panel for each row.

    Args:
        rows: of one protocol and metric.

    Returns:
        The figure; None of another metric, or without sets that both have been scored on.
    """
    compared = [row for row in rows if row.sets == 1 and "scl" in row.tests]
    compared = [row for row in compared if row.kind == "inside"] or compared
    if not compared or not (mask := metric(compared[0].metric).mask):
        return None
    if compared[0].metric not in experiment_of(compared[0].config).further_metrics:
        return None
    share = {row.dataset: float(row.records[0].tested()[0].masks[mask].mean()) for row in compared}
    ordered = sorted(compared, key=lambda row: (row.label, -share[row.dataset]))
    data = pd.DataFrame(
        [
            (row.label.replace(" ", "\n", 1), f"{row.dataset}, {100 * share[row.dataset]:.0f} %",
             row.method, test.mean, test.low, test.high)
            for row in ordered for test in [row.tests["scl"]]
        ],
        columns=DIFFERENCES,
    )  # fmt: skip
    title = metric(compared[0].metric).title
    return difference_figure(data, f"{title} (their share of the test part), less that of scl")


DIFFERENCES = ["panel", "label", "method", "mean", "low", "high"]


@theme.themed
def difference_figure(data: pd.DataFrame, title: str) -> Figure:
    """Differences with their intervals.

    Args:
        data: with the columns of :data:`DIFFERENCES`; labels go down, in their order.
        title: of the axis.
    """
    figure, panels = _interval_panels(data.assign(kind=""), title)
    for panel in panels:
        panel.axvline(0, color=theme.INK, linewidth=0.8)
    return figure


def _interval_panels(data: pd.DataFrame, title: str) -> tuple[Figure, list[Axes]]:
    """Means with intervals, one panel for each name in ``panel``, labels down."""
    labels, groups = [*data["label"].unique()], [*data.groupby("panel", sort=False)]
    figure, panels = theme.panels(
        len(groups), height=0.8 + 0.19 * len(labels), grid="x", sharey=True
    )
    for panel, (name, group) in zip(panels, groups, strict=True):
        for row in theme.rows(group):
            y, hue, hollow = labels.index(row.label), theme.colour(row.method), row.kind == "best"
            panel.plot([row.low, row.high], [y, y], color=hue, alpha=0.55 if hollow else 1.0,
                       label=f"{row.label} interval")  # fmt: skip
            panel.plot([row.mean], [y], "o", markersize=5, color=hue, label=row.label,
                       markerfacecolor="white" if hollow else hue)  # fmt: skip
        panel.set_title(str(name))
        panel.locator_params(axis="x", nbins=4)  # more run into each other where panels are narrow
    panels[0].set_yticks(range(len(labels)), labels)
    panels[0].set_ylim(len(labels) - 0.4, -0.6)
    figure.supxlabel(title, fontsize=theme.TEXT)
    return figure, panels


def learning_figure(rows: Sequence[Row]) -> Figure | None:
    """Scores against the number of training items, mean and standard deviation.

    Args:
        rows: of one protocol and metric.

    Returns:
        The figure; None of rows with one share of the training part, or several of one name.
    """
    shown = [row for row in rows if row.scores and row.sets == 1 and row.kind != "best"]
    if len({row.share for row in shown}) < 2:
        return None
    points = [
        (row.name, fmean(record.data["sizes"][0] for record in row.records), row) for row in shown
    ]
    methods = {
        row.name: row.representation if row.method == "untrained" else row.method for row in shown
    }
    return size_curves(points, f"training {experiment_of(shown[0].config).item}s", methods)


@theme.themed
def size_curves(
    points: Sequence[tuple[str, float, Row]], counted: str, methods: dict[str, str]
) -> Figure | None:
    """One panel per data set, one curve per name, over a number of items.

    Args:
        points: the curve, the number, and the row.
        counted: what is counted.
        methods: by the name of a curve, the method whose colour it has.

    Returns:
        The figure; None with two rows in one place.
    """
    places = {(row.dataset, *place): row for *place, row in points}
    if len(places) < len(points):
        return None
    sets, styles = names((row for *_, row in points), "dataset"), theme.line_styles(methods)
    figure, panels = theme.panels(len(sets), height=2.4)
    for panel, dataset in zip(panels, sets, strict=True):
        placed = [(x, curve, row.scores) for curve, x, row in points if row.dataset == dataset]
        placed.sort(key=lambda place: place[0])
        for index, (curve, style) in enumerate(styles.items()):
            line = [(x * 1.03 ** (index - 2), scores.mean, scores.std or 0.0)
                    for x, name, scores in placed if name == curve and scores]  # fmt: skip
            if line:
                x, mean, half = zip(*line, strict=True)
                panel.errorbar(x, mean, half, elinewidth=0.7, markersize=3, linewidth=1.3,
                               **style | {"label": None})  # fmt: skip
        ticks = sorted({x for x, *_ in placed})
        panel.set_title(dataset)
        panel.set_xscale("log")
        thousands = EngFormatter(sep="")
        panel.set_xticks(ticks, [f"{n:.0f}" if n % 1000 else thousands(n) for n in ticks])
        panel.minorticks_off()
    figure.supxlabel(counted, fontsize=theme.TEXT)
    figure.supylabel(metric(points[0][2].metric).label, fontsize=theme.TEXT)
    theme.legend(figure, list(styles.values()))
    return figure


FIGURES: dict[str, Callable[[Sequence[Row]], Figure | None]] = {
    "accuracy": score_figure, "ranks": rank_figure, "beta": beta_figure, "curve": curve_figure,
    "part": part_figure, "learning": learning_figure,
}  # fmt: skip
"""By the suffix of their files; those of scores and of a part are named by the metric."""
