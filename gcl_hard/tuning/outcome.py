"""What a search found: the best settings, their inner score, and the outer one."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import FrozenTrial

from gcl_hard.errors import GclHardError
from gcl_hard.experiments.cell import Cell
from gcl_hard.tuning.part import Outer
from gcl_hard.tuning.search import Tally
from gcl_hard.tuning.space import Base

OUTER = "outer"
"""Attribute of a study: outer scores that were read, by the number of the trial."""


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
        outer: accuracy of its settings on the outer test part, percent; None where none is left
            (protocol ``paper``).
        looks: how many trials have been scored on the outer test part: more than one if trials
            were added after a look.
    """

    study: optuna.Study
    best: FrozenTrial
    cell: Cell
    inner: float
    outer: float | None
    looks: int

    @property
    def optimism(self) -> float | None:
        """What the inner score promised too much, points."""
        return None if self.outer is None else self.inner - self.outer

    @property
    def seconds(self) -> float:
        """From the first trial's start to the last one's end."""
        starts = [t.datetime_start for t in self.study.trials if t.datetime_start]
        ends = [t.datetime_complete for t in self.study.trials if t.datetime_complete]
        return (max(ends) - min(starts)).total_seconds() if starts and ends else 0.0


@dataclass(frozen=True)
class Outcome:
    """What a search found.

    Attributes:
        findings: of each outer part.
        asked: trials of each study.
        facts: what was searched, and how: see :func:`gcl_hard.tuning.run.facts`.
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
        """Mean outer score, percent; None under the protocol ``paper``."""
        scores = [finding.outer for finding in self.findings if finding.outer is not None]
        return statistics.fmean(scores) if scores else None

    @property
    def optimism(self) -> float | None:
        """Inner less outer, points."""
        return None if self.outer is None else self.inner - self.outer

    @property
    def reads_labels(self) -> bool:
        """Whether the training of an encoder does."""
        return any(finding.cell.reads_labels for finding in self.findings)

    @property
    def best(self) -> Cell:
        """The settings of the study with the highest inner score."""
        return max(self.findings, key=lambda finding: finding.inner).cell


def find(study: optuna.Study, base: Base, outer: Outer, seed: int) -> Finding:
    """Score the best trial of a study on its outer part, unless that has been done.

    Args:
        study: at its end.
        base: the settings that are not searched.
        outer: the data.
        seed: of the encoder.

    Returns:
        The finding.

    Raises:
        AllFailed: if no trial has a score.
        DivergenceError: if the best settings diverge on the whole part.
    """
    tally = Tally.of(study.get_trials(deepcopy=False))
    if not tally.complete:
        counted = "; ".join(f"{n} x {reason}" for reason, n in tally.failures.most_common())
        raise AllFailed(
            f"no trial of {study.study_name} has a score ({tally.pruned} pruned, "
            f"{tally.failures.total()} failed: {counted or 'none'}); narrow the search space"
        )
    best = study.best_trial
    candidate = base.candidate(best.number, best.params)
    seen: dict[str, float | None] = dict(study.user_attrs.get(OUTER, {}))
    key = str(best.number)
    if key not in seen:
        seen[key] = outer.score(candidate, seed)
        study.set_user_attr(OUTER, seen)
    assert best.value is not None
    return Finding(study, best, candidate.cell, best.value, seen[key], len(seen))


__all__ = ["AllFailed", "Finding", "Outcome", "find"]
