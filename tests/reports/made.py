"""Results and table rows made by hand, of which every format shows its part."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gcl_hard.experiments.run import Run
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.reports.frame import Comparison, Results, Scores
from gcl_hard.reports.rows import Kind, Row, rows
from tests.experiments import record

ACCURACIES = [[80.0, 90.0, 85.0], [70.0, 71.0, 78.0], [92.0, 88.0, 84.0]]
SEEDS = (5, 6, 7)
SCORES = Scores((0, 1), ((80.0, 90.0, 85.0), (70.0, 71.0, 78.0)))  # means 85 and 73
LABEL_AWARE = ("scl", "hscl", "hscl-tau")


def row(
    method: str = "hscl",
    kind: Kind = "fixed",
    *,
    dataset: str = "PTC_MR",
    protocol: str = "transductive",
    setting: str = "",
    scores: Scores | None = SCORES,
    expected: int = 2,
    **rest: object,
) -> Row:
    aware = method in LABEL_AWARE
    rest = {
        "sees_test_labels": aware and protocol == "transductive",
        "n_folds": 1 if protocol == "split" else 3, **rest,
    }  # fmt: skip
    return Row(dataset, method, protocol, kind, setting, scores, expected, **rest)  # type: ignore[arg-type]


def at(mean: float, n: int = 2) -> Scores:
    """Scores of n seeds that all have the same accuracy."""
    return Scores(tuple(range(n)), ((mean, mean),) * n)


def differs(p: float, mean: float = 4.25, seeds: int = 2) -> dict[str, Comparison]:
    """A comparison with ucl."""
    return {"ucl": Comparison(mean, mean - 1, mean + 1, seeds, p, 0.5)}


OPEN = row(scores=None, setting="β=10", paper=57.7)
FULL = row(
    "scl",
    paper=55.8,
    seconds=46.0,
    tests={**differs(0.012345), "scl": Comparison(-1, -2, 0, 2, 1, None)},
)
BEST = row(kind="best", setting="β=2", optimism=1.5, expected=5)
ROWS = [FULL, OPEN, BEST, row("majority", "baseline", protocol="inductive")]


def config(method: str = "hscl", **settings: object) -> GraphConfig:
    return GraphConfig(**{"method": method, "folds": 3, **settings})  # type: ignore[arg-type]


def results(
    *configs: GraphConfig,
    n_seeds: int = 3,
    select: bool = False,
    shift: Mapping[GraphConfig, float] | None = None,
) -> Results:
    """Every configuration with the accuracies above, shifted by some points."""
    records = {
        Run(c, seed, inner): record(c, seed, [a + (shift or {}).get(c, 0.0) for a in folds],
                                    inner=inner)
        for c in configs
        for seed, folds in zip(SEEDS[:n_seeds], ACCURACIES, strict=False)
        for inner in ((False, True) if select else (False,))
    }  # fmt: skip
    return Results(configs, SEEDS, records, select=select)


def shown(*configs: GraphConfig, n_seeds: int = 3, select: bool = False) -> list[Row]:
    return rows(results(*configs, n_seeds=n_seeds, select=select))


def cells_of(table: str) -> list[list[str]]:
    """Cells of a Markdown table, its rule left out."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    parts = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert len({len(line) for line in parts}) == 1
    assert all(set(cell) <= {"-", ":"} for cell in parts[1])
    return parts[:1] + parts[2:]


def lines_of(table: object) -> list[list[str]]:
    """Lines of a frame, without its heads."""
    return table.to_numpy().tolist()  # type: ignore[attr-defined,no-any-return]


def counts(cell: str) -> list[int]:
    """The whole numbers of a cell, such as 3 and 7 of "3 of 7"."""
    return [int(number) for number in re.findall(r"\d+", cell)]


def column(frame: object, name: str) -> Sequence[str]:
    return list(frame[name])  # type: ignore[index]
