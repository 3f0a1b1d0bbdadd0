"""What a search found: the best settings, their inner score, and the outer one."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from gcl_hard.errors import DivergenceError, GclHardError, OutOfMemory
from gcl_hard.experiments.config import RunConfig
from gcl_hard.tuning.part import Outer, OwnError
from gcl_hard.tuning.space import Base
from gcl_hard.tuning.tally import Tally, best_of

OUTER = "outer"
"""Attribute of a study: outer scores that were read, by the number of the trial."""


NOT_YET = "the search is not over, or only its report was asked for"


class AllFailed(GclHardError):  # noqa: N818
    """No trial has a score; the message counts the reasons."""


@dataclass(frozen=True)
class Finding:
    """What one study found.

    Attributes:
        study: maximises inner accuracy, percent.
        best: its best trial.
        cell: that trial's settings, whole.
        inner: its inner score, percent.
        outer: accuracy of its settings on the outer test part, percent, or None.
        why: there is no outer score; None where there is one, and under the protocol ``paper``,
            which leaves no outer part.
        looks: how many trials have been scored on the outer test part: more than one if trials
            were added after a look.
    """

    study: optuna.Study
    best: FrozenTrial
    cell: RunConfig
    inner: float
    outer: float | None
    why: str | None
    looks: int

    @property
    def optimism(self) -> float | None:
        """What the inner score promised too much, points."""
        return None if self.outer is None else self.inner - self.outer

    @property
    def seconds(self) -> float:
        """In which some trial was at work that came to its end; nights are left out."""
        total, until = 0.0, -math.inf
        ended = [t for t in self.study.trials if t.state != TrialState.FAIL]
        spans = [(t.datetime_start, t.datetime_complete) for t in ended]
        for start, end in sorted((s.timestamp(), e.timestamp()) for s, e in spans if s and e):
            total += max(0.0, end - max(start, until))
            until = max(until, end)
        return total


@dataclass(frozen=True)
class Outcome:
    """What a search found.

    Attributes:
        findings: of each outer part.
        asked: trials of each study.
        facts: what was searched, and how: see ``Setup.facts``.
    """

    findings: tuple[Finding, ...]
    asked: int
    facts: dict[str, Any]

    @property
    def inner(self) -> float:
        """Mean inner score of the best trials, percent."""
        return statistics.fmean(finding.inner for finding in self.findings)

    @property
    def outer(self) -> float | None:
        """Mean outer score, percent; None unless all outer parts have one."""
        scores = [finding.outer for finding in self.findings if finding.outer is not None]
        return statistics.fmean(scores) if len(scores) == len(self.findings) else None

    @property
    def why(self) -> str | None:
        """There is no outer score: the first reason."""
        return next((finding.why for finding in self.findings if finding.why), None)

    @property
    def optimism(self) -> float | None:
        """Inner less outer, points."""
        return None if self.outer is None else self.inner - self.outer

    @property
    def reads_labels(self) -> bool:
        """Whether the training of an encoder does."""
        return any(finding.cell.reads_labels for finding in self.findings)

    @property
    def best(self) -> RunConfig:
        """The settings of the study with the highest inner score."""
        return max(self.findings, key=lambda finding: finding.inner).cell


def find(study: optuna.Study, base: Base, outer: Outer, seed: int, *, look: bool) -> Finding:
    """The best trial of a study, scored on its outer part if that may be looked at.

    A trial is scored there once: another call, or another machine, reads what was found.

    Args:
        study: of accuracies.
        base: the settings that are not searched.
        outer: the data.
        seed: of the encoder.
        look: whether the study is at its end.

    Returns:
        The finding.

    Raises:
        AllFailed: if no trial has a score.
    """
    trials = study.get_trials(deepcopy=False)
    tally = Tally.of(trials)
    best = best_of(trials)
    if best is None or best.value is None:
        counted = "; ".join(f"{n} x {reason}" for reason, n in tally.failures.most_common())
        raise AllFailed(
            f"no trial of {study.study_name} has a score ({tally.pruned} pruned, "
            f"{tally.failures.total()} failed: {counted or 'none'}); narrow the search space, and "
            f"give the new search another --study-name"
        )
    candidate = base.candidate(best.number, best.params)
    seen: dict[str, float | str | None] = dict(study.user_attrs.get(OUTER, {}))
    key = str(best.number)
    if key not in seen and look:
        try:
            seen[key] = outer.score(candidate, seed)
        except (DivergenceError, OutOfMemory, OwnError) as error:
            seen[key] = f"on the whole part its settings failed: {error}"
        study.set_user_attr(OUTER, seen)
    score = seen.get(key, NOT_YET)
    found, why = (None, score) if isinstance(score, str) else (score, None)
    return Finding(study, best, candidate.cell, best.value, found, why, len(seen))


__all__ = ["AllFailed", "Finding", "Outcome", "find"]
