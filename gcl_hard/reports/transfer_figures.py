"""Figures of transfer: a part of the test items, sizes of the training and pre-training data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from gcl_hard.evaluation.metrics import metric
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.reports import theme
from gcl_hard.reports.rows import Row
from gcl_hard.reports.tables import names

UNTRAINED = "untrained"


@theme.themed
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
    sets, labels = sorted(share, key=lambda name: share[name]), {row.label for row in compared}
    figure, panels = theme.panels(
        len(labels), height=1.2 + 0.19 * len(sets), top=0.3, grid="x", sharey=True
    )
    for panel, label in zip(panels, sorted(labels), strict=True):
        shown = [row for row in compared if row.label == label]
        y, hue = [sets.index(row.dataset) for row in shown], theme.colour(shown[0].method)
        tests = [row.tests["scl"] for row in shown]
        panel.axvline(0, color=theme.INK, linewidth=0.8)
        panel.hlines(y, [test.low for test in tests], [test.high for test in tests], color=hue)
        panel.plot([test.mean for test in tests], y, "o", color=hue, markersize=4.5)
        panel.set_title(label.replace(" ", "\n", 1))
        panel.locator_params(axis="x", nbins=5)  # more run into each other where panels are narrow
    panels[0].set_yticks(range(len(sets)), [f"{name}, {100 * share[name]:.0f} %" for name in sets])
    panels[0].set_ylim(-0.6, len(sets) - 0.4)
    figure.supxlabel(
        f"{metric(compared[0].metric).title} (their share of the test part), less that of scl",
        fontsize=theme.TEXT,
    )
    return figure


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
        row.name: row.representation if row.method == UNTRAINED else row.method for row in shown
    }
    return _curves(points, f"training {_items(shown[0])}", methods)


def size_figure(rows: Sequence[Row]) -> Figure | None:
    """Scores of frozen encoders against the number of items that they were pre-trained on, mean and
    standard deviation, beside an untrained encoder.

    Args:
        rows: of one protocol and metric.

    Returns:
        The figure, of sets with encoders of several sizes, one of each; None if there is none.
    """
    sizes: dict[str, list[tuple[int, Row]]] = {}
    for row in rows:
        joined = getattr(row.config, "joined", None)
        if row.scores and row.sets == 1 and row.method == UNTRAINED and row.records and not joined:
            size = row.records[0].data.get("pretrained", 0)
            sizes.setdefault(row.dataset, []).append((size, row))
    points: list[tuple[str, float, Row]] = []
    for of_set in sizes.values():
        trained = {size for size, _ in of_set if size}
        if len(trained) > 1:
            points += [("pre-trained", size, row) for size, row in of_set if size]
            points += [(UNTRAINED, x, row) for size, row in of_set if not size for x in trained]
    methods = {"pre-trained": "hucl", UNTRAINED: UNTRAINED}
    return _curves(points, f"{_items(points[0][2])} of pre-training", methods) if points else None


def _items(row: Row) -> str:
    return f"{experiment_of(row.config).item}s"


@theme.themed
def _curves(
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
    "part": part_figure, "learning": learning_figure, "size": size_figure,
}  # fmt: skip
"""By the suffix of their files; a part of the test items is named by the mask of the metric."""
