"""Small configurations, and candidates that are scored outside of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gcl_hard.experiments.custom import EncoderMaker
from gcl_hard.experiments.experiment import RunContext, RunOptions
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import RunConfig, defaults, of_part
from gcl_hard.experiments.trials import Candidate, Inner, Score, Scoring
from gcl_hard.graphs import GraphSet
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.trials import GraphOuter, GraphPart
from gcl_hard.images.trials import ImageOuter, ImagePart

SMALL: dict[str, Any] = {
    "protocol": "inductive", "epochs": 2, "layers": 2, "dim": 8, "batch_size": 32,
}  # fmt: skip


def small(**settings: Any) -> GraphConfig:
    return GraphConfig(**SMALL | settings)


def context(ensemble_size: int | None = 1, threads: int | None = None) -> RunContext:
    options = RunOptions(  # as searches have them
        monitor_every=0, checkpoint_minutes=math.inf, ensemble_size=ensemble_size
    )
    return RunContext(
        Path("nowhere"), None, "cpu", threads, 1, {"source": ""}, experiment_of, options
    )


def candidates(*configs: RunConfig, make: EncoderMaker | None = None) -> list[Candidate]:
    if make is not None:
        settings = {name: defaults(GraphConfig)[name] for name in of_part(GraphConfig, "gin")} | {
            "encoder": "own@0"
        }
        configs = tuple(replace(config, **settings) for config in configs)
    return [Candidate(7 * n + 3, config, make) for n, config in enumerate(configs)]


class Notes:
    """The driver's side of reports: notes them; the numbered trials are pruned after a step."""

    def __init__(self, pruned: dict[int, int] | None = None) -> None:
        self.pruned = pruned or {}
        self.steps: list[tuple[int, int]] = []
        self.reported: dict[tuple[int, int], float] = {}
        self.shares: dict[int, list[float]] = {}

    def __call__(
        self, kind: str, study: int, number: int, *values: Any, wait: bool = False
    ) -> bool:
        assert wait == (kind != "progress")
        if kind == "progress":
            self.shares.setdefault(number, []).append(values[0])
            return True
        step, accuracy = values
        self.steps.append((number, step))
        self.reported[number, step] = accuracy
        return self.pruned.get(number) != step


def scores_of(
    part: GraphPart | ImagePart,
    tried: Sequence[Candidate],
    inner: Inner,
    notes: Notes | None = None,
    ensemble_size: int | None = 1,
) -> dict[int, Score]:
    """Scores by the numbers of candidates, each reported once."""
    where = context(ensemble_size, threads=1 if isinstance(part, ImagePart) else None)
    scores = list(part.scores(tried, Scoring(where, inner, 0, notes or Notes())))
    by_number = {score.number: score for score in scores}
    assert len(by_number) == len(scores) == len(tried)
    return by_number


def accuracies(
    graphs: GraphSet | GraphPart,
    configs: Sequence[RunConfig],
    inner: Inner,
    notes: Notes | None = None,
    ensemble_size: int | None = 1,
) -> list[float | None]:
    """Accuracies in the order of the configurations; none may fail."""
    part = graphs if isinstance(graphs, GraphPart) else GraphPart(graphs)
    tried = candidates(*configs)
    scores = scores_of(part, tried, inner, notes, ensemble_size)
    assert [score.error for score in scores.values()] == [None] * len(configs)
    return [scores[candidate.number].value for candidate in tried]


def outer_accuracy(
    outer: GraphOuter | ImageOuter, config: RunConfig, seed: int, threads: int | None = None
) -> float:
    """Accuracy on the outer test part."""
    where = Scoring(context(threads=threads), Inner(seed=seed), 0, Notes())
    score = outer.score(Candidate(0, config), where)
    assert score.error is None
    assert score.value is not None
    return score.value
