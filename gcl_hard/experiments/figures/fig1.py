"""The H-SCL paper's Fig. 1: accuracy against epochs, a line a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from gcl_hard.errors import InputError
from gcl_hard.experiments.figures import axes
from gcl_hard.experiments.figures.accuracies import (
    Lines,
    Spread,
    grouped,
    seen_labels,
    spread_of,
    spreads,
)
from gcl_hard.experiments.figures.naming import labels, subject
from gcl_hard.experiments.figures.runs import Run, by_cell, versions
from gcl_hard.experiments.figures.same_seeds import same_seeds
from gcl_hard.experiments.figures.written import Drawn, title
from gcl_hard.experiments.reporting.figures.drawing import TEXT
from gcl_hard.reports.text import (
    test_part,
)


def draw(runs: Sequence[Run]) -> Drawn:
    """Accuracy against epochs.

    Of cells that differ in their number of epochs, every point is the test accuracy of encoders
    trained that long. Otherwise the monitoring curves of images are drawn. One picture never shows
    both. Points are means over the same seeds, where there are such.

    Args:
        runs: of one data set and protocol.

    Returns:
        The figure, a row for each point, and when H-SCL gets to SCL's last accuracy.

    Raises:
        InputError: if there is neither.

    Source: H-SCL paper, Fig. 1.
    """
    longest = max(run.cell.epochs for run in runs)
    lines = grouped(runs, "epochs", longest)
    tested = any(len(points) > 1 for points in lines.values())
    if not tested:
        lines = {cell: {0: own} for cell, own in by_cell([r for r in runs if r.curve]).items()}
    every = labels(lines)
    kept, over = same_seeds({every[cell]: [*points.values()] for cell, points in lines.items()})
    shown = spreads(grouped(kept, "epochs", longest)) if tested else _monitored(kept)
    if not shown:
        raise InputError(
            "accuracy against epochs needs results of several numbers of epochs, or monitoring "
            "curves of images: run the same command with --epochs 10,50,200 or, of images, with "
            "--monitor-every 1"
        )
    called, part = labels(shown), test_part(runs[0].cell.protocol)
    figure, grid = axes.panels(1, 1, height=3.4, sharey="all")
    panel, styles = grid[0, 0], axes.styles(called)
    panel.set_xlabel("epochs trained" if tested else "epoch", fontsize=TEXT)
    what = f"accuracy on {part}" if tested else "monitoring accuracy on training images"
    panel.set_ylabel(f"{what}, percent", fontsize=TEXT)
    for cell, points in shown.items():
        _plot(panel, points, styles[cell], tested=tested, band=len(shown) <= BANDS)
    ticks = sorted({epoch for points in shown.values() for epoch in points})
    if len(ticks) <= TICKS:
        panel.set_xticks(ticks)
    axes.key(figure, list(styles.values()))
    what = "Test accuracy" if tested else "Monitoring, not test, accuracy"
    title(figure, f"{what} against epochs. {subject(kept)}")
    rows: list[dict[str, object]] = [
        {
            "dataset": cell.dataset, "method": cell.method, "line": called[cell],
            "accuracy_on": part if tested else "training images (monitoring)", "epoch": int(epoch),
            "seeds": at.seeds, "accuracy_mean": at.mean, "accuracy_std": at.std,
        }
        for cell, points in shown.items()
        for epoch, at in points.items()
    ]  # fmt: skip
    if tested:
        note = TESTED.format(over) + seen_labels(kept)
    else:
        bands = ", bands" if len(shown) <= BANDS else "; the table beside has"
        note = MONITORED.format(over, bands) + _without(runs, shown)
    return Drawn(figure, rows, " ".join([note, *_claims(shown)]) + versions(kept))


TICKS = 8
"""Numbers of epochs that may all stand at the axis."""
BANDS = 4
"""Lines that may have bands; more of them hide each other."""
TESTED = (
    "Every point is of encoders trained for so many epochs and tested after the last; no epoch is "
    "chosen. Means over {}; bars ± their standard deviation."
)
MONITORED = (
    "Share of training images whose nearest neighbours among other training images say their "
    "class: the encoder has seen them all, so that this is monitoring and no test accuracy. Means "
    "over {}{} ± their standard deviation."
)


def _monitored(runs: Sequence[Run]) -> Lines:
    """Curves of two points or more, at the epochs that all seeds of a cell with a curve have."""
    found: Lines = {}
    for cell, own in by_cell([run for run in runs if run.curve]).items():
        curves = [dict(run.curve) for run in own]
        shared = sorted(set.intersection(*map(set, curves)))
        if len(shared) > 1:
            found[cell] = {x: spread_of([curve[x] for curve in curves]) for x in shared}
    return found


def _plot(
    panel: Axes, points: Mapping[float, Spread], style: Mapping[str, Any], *, tested: bool,
    band: bool,
) -> None:  # fmt: skip
    """A line through means, with ± the standard deviation as bars (tested) or as a band."""
    x, means = list(points), [at.mean for at in points.values()]
    low = [at.mean - (at.std or 0.0) for at in points.values()]
    high = [at.mean + (at.std or 0.0) for at in points.values()]
    if tested:
        panel.plot(x, means, linewidth=1.5, markersize=5, **style)
        panel.vlines(x, low, high, color=style["color"], linewidth=1.2, alpha=0.7)
        return
    every = max(1, len(x) // 10)
    panel.plot(x, means, linewidth=1.5, markersize=4, markevery=every, **style)
    if band:
        panel.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)


def _without(runs: Sequence[Run], shown: Lines) -> str:
    left_out = [label for cell, label in labels(by_cell(runs)).items() if cell not in shown]
    return f" Without a curve: {', '.join(left_out)}." if left_out else ""


def _claims(shown: Lines) -> list[str]:
    """When each H-SCL gets to what each SCL has at its last epoch; the paper: within 50 of 200."""
    called, found = labels(shown), []
    for own in (cell for cell in shown if cell.method == "hscl"):
        for other in (cell for cell in shown if cell.method == "scl"):
            last = max(shown[other])
            goal = shown[other][last].mean
            first = next((x for x, at in shown[own].items() if at.mean >= goal), None)
            aim = f"what {called[other]} has at epoch {last:g} ({goal:.1f} %)"
            found.append(
                f"At no epoch shown does the mean of {called[own]} reach {aim}."
                if first is None
                else f"The first epoch shown at which the mean of {called[own]} reaches {aim} is "
                f"{first:g}."
            )
    return found
