"""Small cells, scored on parts of a few graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gcl_hard.experiments.graph_cell import GraphCell

from gcl_hard.graphs import GraphSet
from gcl_hard.tuning.graph_part import GraphPart
from gcl_hard.tuning.part import Candidate, Inner, Local, Score, Watch

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    "protocol": "inductive", "epochs": 2, "layers": 2, "dim": 8, "batch_size": 32,
}  # fmt: skip


def small(**settings: Any) -> GraphCell:
    return GraphCell(**SMALL | settings)


def candidates(*cells: GraphCell) -> list[Candidate]:
    return [Candidate(7 * n + 3, cell) for n, cell in enumerate(cells)]


def part_of(graphs: GraphSet, members: int | None = 1, **options: Any) -> GraphPart:
    return GraphPart(graphs, Local(CPU, members=members), **options)


def scores(
    part: GraphPart, cells: Sequence[GraphCell], inner: Inner, watch: Watch | None = None
) -> dict[int, Score]:
    """Scores by candidate, each told once."""
    found = list(part.scores(candidates(*cells), inner, watch or Notes()))
    by_number = {score.number: score for score in found}
    assert len(by_number) == len(found) == len(cells)
    return by_number


def accuracies(
    part: GraphPart, cells: Sequence[GraphCell], inner: Inner, watch: Watch | None = None
) -> list[float | None]:
    found = scores(part, cells, inner, watch)
    assert [score.error for score in found.values()] == [None] * len(cells)
    return [found[one.number].accuracy for one in candidates(*cells)]


class Notes:
    """Notes what is reported; the numbered candidates leave after a step."""

    def __init__(self, leaving: dict[int, int] | None = None) -> None:
        self.leaving = leaving or {}
        self.steps: list[tuple[int, int]] = []
        self.reported: dict[tuple[int, int], float] = {}
        self.shares: dict[int, list[float]] = {}

    def progress(self, number: int, share: float) -> None:
        self.shares.setdefault(number, []).append(share)

    def report(self, number: int, step: int, score: float) -> bool:
        self.steps.append((number, step))
        self.reported[number, step] = score
        return self.leaving.get(number) != step
