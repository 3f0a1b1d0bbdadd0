"""Choosing settings inside the training data: candidates, their inner scores, and the best."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.errors import InputError
from gcl_hard.evaluation.metrics import metric
from gcl_hard.experiments.plan import candidate_groups
from gcl_hard.experiments.record import ACCURACY, RunResult
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, known


def best(scores: Sequence[float], *, higher: bool = True) -> int:
    """Index of the best score; on a tie the first.

    Args:
        scores: at least one.
        higher: whether more is better.

    Example:
        >>> best([1.0, 3.0, 3.0]), best([1.0, 3.0, 1.0], higher=False)
        (1, 0)
    """
    return (max if higher else min)(range(len(scores)), key=scores.__getitem__)


def metric_of(records: Iterable[RunResult]) -> str:
    """The name of the metric that records are scored by; accuracy if there are none.

    Raises:
        InputError: for records of several metrics, which cannot be compared.
    """
    first: dict[str, RunResult] = {}
    for record in records:
        first.setdefault(record.metric, record)
    if len(first) > 1:
        a, b, *_ = first.values()
        raise InputError(
            f"{a.run} is scored by {a.metric}, {b.run} by {b.metric}, and the two are not "
            f"compared: run or show them by different commands"
        )
    return next(iter(first), ACCURACY)


def inner_scores(record: RunResult) -> list[float]:
    """The scores of a run inside its training data, one a fold; empty if one is undefined.

    All scores of an inner run, and those on the validation part of another run.
    """
    scores = record.values if record.inner else record.validation
    return scores if all(map(math.isfinite, scores)) else []


@dataclass(frozen=True)
class Choice:
    """Candidates, and the scores inside the training data that choose among them.

    Attributes:
        candidates: configurations that differ only in settings that can be chosen.
        inner: inner scores of each candidate, seeds × folds; None if one is missing or undefined.
        higher: whether more is better.

    Example:
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> candidates = tuple(GraphConfig(protocol="inductive", beta=b) for b in (1, 2))
        >>> choice = Choice(candidates, (((60.0, 70.0),), ((65.0, 66.0),)))
        >>> choice.best.beta, choice.fold_by_fold
        (2.0, ((1, 0),))
    """

    candidates: tuple[RunConfig, ...]
    inner: tuple[tuple[tuple[float, ...], ...] | None, ...]
    higher: bool = True

    @property
    def finished(self) -> int:
        """Number of candidates with all inner scores."""
        return sum(scores is not None for scores in self.inner)

    def score(self, candidate: RunConfig) -> float | None:
        """Mean inner score of a candidate; None while one of its scores is missing."""
        scores = self.inner[self.candidates.index(candidate)]
        return None if scores is None else statistics.fmean(map(statistics.fmean, scores))

    @property
    def best(self) -> RunConfig | None:
        """The candidate with the best mean inner score; None while one of the means is missing."""
        means = [mean for c in self.candidates if (mean := self.score(c)) is not None]
        if len(means) < len(self.candidates):
            return None
        return self.candidates[best(means, higher=self.higher)]

    @property
    def ends(self) -> set[str]:
        """Settings whose best value is the smallest or the largest of the numbers compared.

        A better one may lie beyond, unless the value is a bound of the setting.
        """
        if (chosen := self.best) is None:
            return set()
        ends = set()
        for name, field in known(type(chosen)).items():
            values = {getattr(candidate, name) for candidate in self.candidates}
            if len(values) > 1 and all(type(value) in (int, float) for value in values):
                bounds = field.setting.least, field.setting.most
                value = getattr(chosen, name)
                if value in (min(values), max(values)) and value not in bounds:
                    ends.add(name)
        return ends

    @property
    def fold_by_fold(self) -> tuple[tuple[int, ...], ...]:
        """For each seed and fold, the index of its best candidate."""
        inner = np.array(self.inner, dtype=float)
        chosen = (inner if self.higher else -inner).argmax(axis=0)
        return tuple(map(tuple, chosen.tolist()))

    def taken(self, outer: ArrayLike) -> NDArray[Any]:
        """The scores of the candidates chosen fold by fold, seeds × folds.

        Args:
            outer: float [candidates, seeds, folds], scores outside the training data.
        """
        return np.take_along_axis(np.asarray(outer), np.array([self.fold_by_fold]), axis=0)[0]


def choice(
    candidates: Sequence[RunConfig],
    runs: Mapping[RunConfig, Sequence[Run]],
    records: Mapping[Run, RunResult],
) -> Choice:
    """The choice among candidates.

    Args:
        candidates: at least one.
        runs: by candidate, the runs whose inner scores count, one a seed.
        records: results of finished runs.

    Raises:
        InputError: for records of several metrics.
    """
    finished = {c: [records[run] for run in runs[c] if run in records] for c in candidates}
    name = metric_of(record for results in finished.values() for record in results)
    scores = {c: tuple(tuple(inner_scores(record)) for record in finished[c]) for c in candidates}
    inner = (
        scores[c] if len(scores[c]) == len(runs[c]) and all(scores[c]) else None for c in candidates
    )
    return Choice(tuple(candidates), tuple(inner), metric(name).higher)


def choices(runs: Mapping[RunConfig, Run], records: Mapping[Run, RunResult]) -> list[Choice]:
    """The choices among configurations that are compared once, by one run of each.

    Args:
        runs: the run of each candidate.
        records: results of finished runs.
    """
    each = {config: [run] for config, run in runs.items()}
    return [choice(group, each, records) for group in candidate_groups(runs)]
