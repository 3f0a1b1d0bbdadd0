"""How embeddings lie, epoch by epoch, and whom negative weights reach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import ScalarFormatter

from gcl_hard.experiments.config import GraphConfig, RunConfig
from gcl_hard.experiments.figures import axes, epochs, notes
from gcl_hard.experiments.figures.naming import labels, settings, subject
from gcl_hard.experiments.figures.runs import Run, by_cell, looked, measured, versions
from gcl_hard.experiments.figures.written import Drawn, title
from gcl_hard.experiments.reporting.figures.drawing import FLOOR, INK, TEXT

GEOMETRY = {
    "alignment": "alignment",
    "uniformity": "uniformity",
    "overlap": "overlap of histograms",
    "effective_rank": "effective rank",
    "nc1": "NC1",
    "cdnv": "CDNV",
    "packing": "packing of classes",
    "least_angle": "least angle, degrees",
}
"""Measures of a look's geometry, with the titles of their panels."""
WEIGHED = {
    "collisions": r"mean $\mathbb{E}_{\mathrm{Hcol}}$, β = 1",
    "negatives": r"mean $\mathbb{E}_{\mathrm{H\text{-}SCL}}$, β = 1",
    "same_label_weight": "H-UCL on own label, β = 1",
    "effective_hscl": "negatives in effect, β = 1",
}
"""Measures of one of a look's settings, likewise."""
COUNTS = ("others", "other_labels")
"""How many of them there are, likewise."""
SETTING = "beta=1"
ACROSS = 4  # panels
DASHED: dict[str, Any] = {"color": INK, "linestyle": (0, (2, 2)), "label": "widest that could be"}
DOTTED: dict[str, Any] = {"color": FLOOR, "linestyle": (0, (6, 2)), "label": "all that there are"}
LIKE = 1e-3
"""Of the size of its numbers, the least that an axis spans: less is rounding."""


def draw(runs: Sequence[Run]) -> Drawn:
    """A panel a measure, a line a training method: mean over seeds, with a band over them.

    Args:
        runs: of one data set, protocol, contrast and objective.

    Returns:
        The figure; its rows hold every seed, epoch and measure.

    Raises:
        InputError: if a run has no looks.

    Source: Wang & Isola (2020); Papyan, Han, Donoho (2020); Galanti, György, Hutter (2021);
        Robinson et al. (2021), Theorem 2; Roy & Vetterli (2007).
    """
    looked(runs)
    runs, left_out = epochs.several(runs)
    cells, named = by_cell(runs), {**GEOMETRY, **WEIGHED}
    figure, grid = axes.panels(len(named) // ACROSS, ACROSS, height=1.7, sharey="none")
    styles, cut = axes.styles(labels(cells)), list[str]()
    for panel, (name, words) in zip(grid.flat, named.items(), strict=True):
        panel.set_title(words, fontsize=TEXT)
        drawn, means = [], []
        for index, (cell, own) in enumerate(cells.items()):
            values = epochs.series_by(own, partial(read, name))
            drawn.append(values)
            means.append([mean for mean in values.mean if not math.isnan(mean)])
            axes.plot(panel, values, styles[cell], place=index / len(cells))
        if math.isfinite(top := axes.top(means)):
            panel.set_ylim(*axes.limits(drawn, top))
            highest = max(max(line) for line in means if line)
            cut.append(f"{name.replace('_', ' ')}, up to {highest:.2g}")
    widest = {look["geometry"].get("widest_angle") for run in runs for look in run.looks} - {None}
    for angle in widest:
        grid.flat[list(named).index("least_angle")].axhline(angle, linewidth=1, **DASHED)
    if (all_there := _all_there(runs)) is not None:
        grid.flat[list(named).index("effective_hscl")].axhline(all_there, linewidth=1, **DOTTED)
    for panel in grid.flat:
        _plain(panel)
    rules = [DASHED] * bool(widest) + [DOTTED] * (all_there is not None)
    axes.key(figure, [*styles.values(), *rules], "trained with")
    title(figure, f"How embeddings lie. {subject(runs)}, {notes.anchors(runs)}")
    note = (_note(cells) + left_out).rstrip() + notes.beyond(cut) + versions(runs)
    return Drawn(figure, _rows(cells, [*named, *COUNTS]), note)


def read(name: str, look: Mapping[str, Any]) -> float | None:
    """A measure of a look; None where it is not defined."""
    found = look["geometry"] if name in GEOMETRY else measured(look, SETTING)
    number: float | None = found.get(name)
    return number


def _all_there(runs: Sequence[Run]) -> float | None:
    """How many others of another label anchors have; None where a look does not say it."""
    looks = [look for run in runs for look in run.looks if look["settings"]]
    numbers = [read("other_labels", look) for look in looks]
    found = [number for number in numbers if number is not None]
    return fmean(found) if found and len(found) == len(numbers) else None


def _plain(panel: Axes) -> None:
    """Ticks that stand for themselves, on an axis that does not show rounding."""
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_powerlimits((-3, 5))
    panel.yaxis.set_major_formatter(formatter)
    low, high = panel.get_ylim()
    lacking = LIKE * max(abs(low), abs(high)) - (high - low)
    if lacking > 0:
        panel.set_ylim(low - lacking / 2, high + lacking / 2)


def _rows(
    cells: Mapping[RunConfig, Sequence[Run]], names: Sequence[str]
) -> list[dict[str, object]]:
    trained_with = settings(cells)
    return [
        {
            "dataset": cell.dataset, "method": cell.method, "trained_with": trained_with[cell],
            "seed": run.seed, "epoch": look["epoch"], **{name: read(name, look) for name in names},
            "widest_angle": look["geometry"].get("widest_angle"),
        }
        for cell, runs in cells.items() for run in runs for look in run.looks
    ]  # fmt: skip


def _note(cells: Mapping[RunConfig, Sequence[Run]]) -> str:
    runs = [run for own in cells.values() for run in own]
    cell = runs[0].cell
    nodes = isinstance(cell, GraphConfig) and cell.contrast == "local-global"
    positives = "a node and its graph" if nodes else "two views of one class"
    scaled = {getattr(cell, "standardise", False) for cell in cells}
    where = " where the classifier standardises" if len(scaled) > 1 else ""
    over = f", standardised over them{where}" if any(scaled) else ""
    return (
        f"Alignment, of positives ({positives}), and uniformity are of what the loss sees; the "
        f"rest of the upper two rows is of the encoder's embeddings of the samples looked at{over},"
        f" as the classifier sees them. Lower alignment, uniformity, overlap, NC1 and CDNV mean "
        f"tighter or better spread. {notes.encoder(runs)}{notes.lines(cells)}"
    )
