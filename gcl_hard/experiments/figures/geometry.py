"""How embeddings lie, epoch by epoch, and whom negative weights reach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.figures import epochs
from gcl_hard.experiments.figures.naming import labels, settings, subject
from gcl_hard.experiments.figures.runs import Run, by_cell, looked, measured
from gcl_hard.experiments.figures.written import Drawn, title
from gcl_hard.experiments.reporting.figures.drawing import INK, TEXT

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
SETTING = "beta=1"
ACROSS = 4  # panels
DASHED: dict[str, Any] = {"color": INK, "linestyle": (0, (2, 2))}


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
    cells, named = by_cell(runs), {**GEOMETRY, **WEIGHED}
    figure, grid = epochs.panels(len(named) // ACROSS, ACROSS, height=1.7, sharey="none")
    looks, cut = epochs.looks(labels(cells)), list[str]()
    for panel, (name, words) in zip(grid.flat, named.items(), strict=True):
        panel.set_title(words, fontsize=TEXT)
        means = []
        for index, (cell, own) in enumerate(cells.items()):
            values = epochs.along(own, partial(read, name))
            means.append([mean for mean in values.mean if not math.isnan(mean)])
            epochs.plot(panel, values, looks[cell], place=index / len(cells))
        if math.isfinite(top := epochs.top(means)):
            panel.set_ylim(top=top)
            highest = max(max(line) for line in means if line)
            cut.append(f"{name.replace('_', ' ')}, up to {highest:.2g}")
    widest = {look["geometry"].get("widest_angle") for run in runs for look in run.looks} - {None}
    for angle in widest:
        grid.flat[list(named).index("least_angle")].axhline(angle, linewidth=1, **DASHED)
    rule = [{**DASHED, "label": "widest that could be"}] if widest else []
    epochs.key(figure, [*looks.values(), *rule], "trained with")
    title(figure, f"How embeddings lie. {subject(runs)}, {epochs.anchors(runs)}")
    return Drawn(figure, _rows(cells, named), _note(cells) + epochs.beyond(cut))


def read(name: str, look: Mapping[str, Any]) -> float | None:
    """A measure of a look; None where it is not defined."""
    found = look["geometry"] if name in GEOMETRY else measured(look, SETTING)
    number: float | None = found.get(name)
    return number


def _rows(cells: Mapping[Cell, Sequence[Run]], names: Mapping[str, str]) -> list[dict[str, object]]:
    trained_with = settings(cells)
    return [
        {
            "dataset": cell.dataset, "method": cell.method, "trained_with": trained_with[cell],
            "seed": run.seed, "epoch": look["epoch"], **{name: read(name, look) for name in names},
            "widest_angle": look["geometry"].get("widest_angle"),
        }
        for cell, runs in cells.items() for run in runs for look in run.looks
    ]  # fmt: skip


def _note(cells: Mapping[Cell, Sequence[Run]]) -> str:
    runs = [run for own in cells.values() for run in own]
    return (
        "Alignment and uniformity are of what the loss sees, the rest of the upper two rows of "
        "embeddings as the classifier sees them; lower alignment, uniformity, overlap, NC1 and "
        f"CDNV mean tighter or better spread. {epochs.seen(runs)}{epochs.lines(cells)}"
    ).rstrip()
