"""HCL's Fig. 3 and 4: cosines of pairs of one label, and of two, overlaid on a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.figures import notes
from gcl_hard.experiments.figures.naming import labels, subject
from gcl_hard.experiments.figures.runs import RERUN, Run, by_cell, looked, versions
from gcl_hard.experiments.figures.written import Drawn, title
from gcl_hard.experiments.reporting.figures.drawing import COLOURS, FLOOR, INK, TEXT, WIDTH
from gcl_hard.functional.similarity import overlap

Floats = NDArray[np.float64]

KINDS = {"same": "pairs of one label", "different": "pairs of two labels"}
MOST = 6
"""Columns that can still be read."""


@dataclass(frozen=True)
class Shape:
    """Histograms of a cell.

    Attributes:
        counts: int64 [bins] of each kind of pairs, summed over seeds.
        overlaps: overlap coefficient of the two kinds, a number a seed.
    """

    counts: dict[str, NDArray[np.int64]]
    overlaps: tuple[float, ...]

    def density(self, kind: str) -> Floats:
        """Of cosines; its integral over [−1, 1] is 1."""
        counts = self.counts[kind]
        density: Floats = counts / counts.sum() * (len(counts) / 2)
        return density

    @property
    def overlap(self) -> str:
        """Mean over seeds ± standard deviation, in words."""
        several = len(self.overlaps) > 1
        std = f" ± {stdev(self.overlaps):.2f}" if several else ""
        return f"{fmean(self.overlaps):.2f}{std}"


def draw(runs: Sequence[Run]) -> Drawn:
    """Densities of cosines at the last look, a column a variant.

    Every column lays a variant over the reference: ucl, or else the first of the least β.

    Args:
        runs: of one data set, protocol, contrast and objective.

    Returns:
        The figure, a row for each bin, and of which embeddings it is.

    Raises:
        InputError: if runs have no looks, the variants are too many, or all pairs of a seed are of
            one kind.

    Source: Robinson et al. (2021), Fig. 3 and 4, which speak of the overlap without a number.
    """
    looked(runs)
    shapes = {cell: _shape(own) for cell, own in by_cell(runs).items()}
    called = labels(shapes)
    first = min(shapes, key=lambda cell: (cell.method != "ucl", cell.beta or 0.0))
    variants = [cell for cell in shapes if cell != first] or [first]
    if len(variants) > MOST:
        raise InputError(
            f"at most {MOST} variants can be laid over {called[first]}, and these are "
            f"{len(variants)}: {', '.join(called[cell] for cell in variants)}; choose with --only"
        )
    figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
    grid = figure.subplots(2, len(variants), sharex=True, sharey="row", squeeze=False)
    for column, cell in zip(grid.T, variants, strict=True):
        column[0].set_title(f"{called[cell]}\noverlap {shapes[cell].overlap}", fontsize=TEXT)
        for panel, kind in zip(column, KINDS, strict=True):
            under = None if cell == first else shapes[first].density(kind)
            _draw(panel, shapes[cell].density(kind), under, COLOURS[cell.method])
    for panel, (kind, words) in zip(grid[:, 0], KINDS.items(), strict=True):
        panel.set_ylim(0, 1.05 * max(shape.density(kind).max() for shape in shapes.values()))
        panel.set_ylabel(f"density,\n{words}", fontsize=TEXT)
    grid[0, 0].set_xlim(*_range(list(shapes.values())))
    figure.supxlabel("cosine", fontsize=TEXT)
    if variants != [first]:
        _key(figure, f"{called[first]}, overlap {shapes[first].overlap}")
    last = notes.between([int(run.looks[-1]["epoch"]) for run in runs])
    title(figure, f"Cosines of pairs of one label and of two. {subject(runs)}, epoch {last}")
    rows = [row for cell in shapes for row in _rows(cell, called[cell], shapes[cell])]
    return Drawn(figure, rows, NOTE + versions(runs))


NOTE = (
    "Pairs of training samples by the cosine of their embeddings, as the classifier sees the "
    "encoder's (not of the heads that the loss sees), summed over seeds. Overlap: Σ min(p, q) over "
    "bins of the two kinds of pairs, 0 where they are apart and 1 where they are alike; mean over "
    "seeds ± standard deviation."
)


def _shape(runs: Sequence[Run]) -> Shape:
    found = []
    for run in runs:
        last = run.looks[-1].get("histograms")
        if not run.looks[-1]["anchors"]:
            raise InputError(
                f"the embeddings of {run} were not finite when they were looked at ({run.source}): "
                f"leave it out with --only"
            )
        if last is None:
            raise InputError(f"the last look of {run} has no histograms ({run.source}): {RERUN}")
        counts = {kind: np.array(last[kind], dtype=np.int64) for kind in KINDS}
        for kind, words in KINDS.items():
            if counts[kind].sum() == 0:
                raise InputError(
                    f"{run} looked at no {words}, so that there is nothing to compare "
                    f"({run.source}): look at samples of several classes, several of each"
                )
        found.append(counts)
    return Shape(
        {kind: np.sum([counts[kind] for counts in found], axis=0) for kind in KINDS},
        tuple(
            overlap(torch.from_numpy(c["same"]), torch.from_numpy(c["different"])).item()
            for c in found
        ),
    )


def _edges(bins: int) -> Floats:
    return np.linspace(-1, 1, bins + 1)


def _range(shapes: Sequence[Shape]) -> tuple[float, float]:
    """Of the bins that hold a pair."""
    counts = np.sum([shape.counts[kind] for shape in shapes for kind in KINDS], axis=0)
    held, edges = np.flatnonzero(counts), _edges(len(counts))
    return float(edges[held[0]]) - 0.02, float(edges[held[-1] + 1]) + 0.02


def _draw(panel: Axes, density: Floats, under: Floats | None, hue: str) -> None:
    panel.tick_params(labelsize=TEXT, length=2)
    panel.spines[["top", "right"]].set_visible(False)
    panel.locator_params(axis="x", nbins=3)
    if under is not None:
        panel.stairs(under, _edges(len(under)), fill=True, color=FLOOR, alpha=0.4, label="under")
    panel.stairs(density, _edges(len(density)), color=hue, linewidth=1.6, label="over")


def _key(figure: Figure, reference: str) -> None:
    handles = [
        Line2D([], [], color=FLOOR, alpha=0.4, linewidth=8, label=f"in all columns: {reference}"),
        Line2D([], [], color=INK, linewidth=1.6, label="line: as the column says"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False,
                  fontsize=TEXT)  # fmt: skip


def _rows(cell: RunConfig, line: str, shape: Shape) -> list[dict[str, object]]:
    several = len(shape.overlaps) > 1
    return [
        {
            "dataset": cell.dataset, "method": cell.method, "line": line, "pairs": kind,
            "cosine_from": float(edges[i]), "cosine_to": float(edges[i + 1]),
            "count": int(shape.counts[kind][i]), "density": float(shape.density(kind)[i]),
            "seeds": len(shape.overlaps), "overlap_mean": fmean(shape.overlaps),
            "overlap_std": stdev(shape.overlaps) if several else None,
        }
        for kind in KINDS
        for edges in [_edges(len(shape.counts[kind]))]
        for i in range(len(edges) - 1)
    ]  # fmt: skip
