"""Results of hand-made records, whose rows and notes can be checked by eye."""

from __future__ import annotations

from collections.abc import Mapping

from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.lines import Line, lines
from gcl_hard.experiments.results import Results
from tests.experiments import record

ACCURACIES = [[80.0, 90.0, 85.0], [70.0, 71.0, 78.0], [92.0, 88.0, 84.0]]
SEEDS = (5, 6, 7)


def cell(**settings: object) -> GraphCell:
    return GraphCell(**{"folds": 3, **settings})  # type: ignore[arg-type]


def results(
    *cells: GraphCell,
    n_seeds: int = 3,
    select: bool = False,
    shift: Mapping[GraphCell, float] | None = None,
) -> Results:
    """Every cell with the accuracies above, shifted by some points."""
    records = {
        Job(c, seed, inner): record(c, seed, [a + (shift or {}).get(c, 0.0) for a in folds],
                                    inner=inner)
        for c in cells
        for seed, folds in zip(SEEDS[:n_seeds], ACCURACIES, strict=False)
        for inner in (False, True)
    }  # fmt: skip
    return Results(cells, SEEDS, records, select=select)


def shown(*cells: GraphCell, n_seeds: int = 3, select: bool = False) -> list[Line]:
    return lines(results(*cells, n_seeds=n_seeds, select=select))
