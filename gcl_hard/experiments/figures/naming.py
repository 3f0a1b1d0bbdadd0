"""What figures call cells: lines, pictures and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from gcl_hard.experiments.cell import SELECTABLE, Cell
from gcl_hard.experiments.figures.runs import Run, by_cell
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.image_cell import ImageCell
from gcl_hard.methods import method
from gcl_hard.reports.rows import (
    SYMBOLS,
)
from gcl_hard.reports.text import (
    count,
    values,
)

CONTRASTS = {"local-global": "nodes against graphs", "two-view": "two views of a graph"}
OBJECTIVES = {"jsd": "JSD", "infonce": "InfoNCE"}
PICTURE = ("dataset", "method", "protocol", "contrast", "objective")
"""Settings that the picture states, and the method."""
USUAL = 0.5
"""γ of the papers, at which l = γ ln τ makes their τ the thresholds l of a look."""


def settings(cells: Iterable[Cell]) -> dict[Cell, str]:
    """What tells cells apart beside their method: β, and all in which the cells differ.

    Args:
        cells: of one figure.

    Returns:
        The settings of each, such as ``β=1 epochs=50``; empty where the method says it all.

    Example:
        >>> cells = [GraphCell(method="ucl"), GraphCell(method="hucl"), GraphCell(beta=2)]
        >>> list(settings(cells).values())
        ['', 'β=1', 'β=2']
    """
    cells = list(cells)
    names = [f.name for cell in cells for f in fields(cell) if f.name not in PICTURE]
    ordered = [*SELECTABLE, *(name for name in dict.fromkeys(names) if name not in SELECTABLE)]
    shown = [n for n in ordered if n == "beta" or len({_own(c, n) for c in cells} - {None}) > 1]
    return {cell: " ".join(filter(None, (_said(cell, name) for name in shown))) for cell in cells}


def _said(cell: Cell, name: str) -> str:
    """A cell's setting in words; empty where there is nothing to say."""
    value = _own(cell, name)
    if value is None:
        return ""
    if name == "beta_changes":
        return f"annealed in {value}" if value else ""
    return f"{SYMBOLS.get(name, name.replace('_', ' '))}={values([cell], name)}"


def _own(cell: Cell, name: str) -> object:
    """A cell's setting; None where it does not apply or is what the method says."""
    value = getattr(cell, name, None)
    if name == "beta_changes" and cell.beta is None:
        return None
    if isinstance(cell, ImageCell) and name == "positives" and not cell.is_floor:
        return None if value == method(cell.method).positives else value
    return value


def labels(cells: Iterable[Cell]) -> dict[Cell, str]:
    """Method and :func:`settings` of each cell.

    Example:
        >>> list(labels([GraphCell(), GraphCell(method="scl", epochs=20)]).values())
        ['hscl β=1 epochs=200', 'scl epochs=20']
    """
    return {cell: f"{cell.method} {own}".strip() for cell, own in settings(cells).items()}


def subject(runs: Sequence[Run]) -> str:
    """What a picture is of: data set, contrast, objective, protocol, seeds, and γ if not 0.5.

    Args:
        runs: of one data set, protocol, contrast and objective.

    Returns:
        The words.

    Example:
        >>> from pathlib import Path
        >>> subject([Run(GraphCell(), 0, (80.0,), (), (), None, Path("a.json"))])
        'MUTAG: nodes against graphs, JSD, protocol paper, 1 seed'
    """
    cell = runs[0].cell
    if isinstance(cell, GraphCell):
        how = f"{CONTRASTS[cell.contrast]}, {OBJECTIVES[cell.objective or 'jsd']}"
        how += f", protocol {cell.protocol}"
    else:
        subset = getattr(cell, "subset", None)
        how = f"a part of {subset:,} images, " if subset else ""
        how += "two views of an image, InfoNCE"
    if not all(is_usual(run.cell) for run in runs):
        how += f", γ = {values((run.cell for run in runs), 'temperature')}"
    return f"{cell.dataset}: {how}, {seeds(runs)}"


def is_usual(cell: Cell) -> bool:
    """Whether a cell hardens at the papers' γ; JSD, which has none, does."""
    return cell.temperature in (None, USUAL)


def seeds(runs: Sequence[Run]) -> str:
    """How many seeds a cell has, in words."""
    numbers = sorted({len(own) for own in by_cell(runs).values()})
    if len(numbers) > 1:
        return f"{numbers[0]} to {count(numbers[-1], 'seed')}"
    return count(numbers[0], "seed")


def stem(figure: str, cell: Cell) -> str:
    """A figure's file name without a suffix: of data set, and of what is not usual.

    Example:
        >>> stem("fig4", GraphCell()), stem("fig5", GraphCell(contrast="two-view"))
        ('fig4-MUTAG-jsd', 'fig5-MUTAG-two-view')
    """
    parts = [figure, cell.dataset]
    if isinstance(cell, GraphCell):
        two_view, objective = cell.contrast == "two-view", cell.objective or "jsd"
        parts += ["two-view"] * two_view
        parts += [objective] * (objective != "infonce" or not two_view)
        parts += [cell.protocol] * (cell.protocol != "paper")
    return "-".join(parts)
