"""Results of a search: the best trial of each study with its inner and outer score."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from torch import nn

from gcl_hard.errors import GclHardError, InputError
from gcl_hard.evaluation.metrics import Metric, metric
from gcl_hard.experiments.choice import best
from gcl_hard.experiments.record import ACCURACY
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.tuning.space import Base
from gcl_hard.tuning.storage import OUTER, TrialCounts

if TYPE_CHECKING:
    from gcl_hard.tuning.search import PreparedSearch

UNFINISHED = "the search is not over, or only its report was asked for"
"""Why there is no outer score."""


class AllFailed(GclHardError):  # noqa: N818
    """No trial has a score; the message counts the reasons."""

    status = 1


@dataclass(frozen=True)
class Finding:
    """The result of one study.

    Attributes:
        study: its values are inner scores.
        best: its best trial.
        config: all settings of that trial.
        inner: its inner score.
        outer: score of its settings on the outer test part, or None.
        outer_missing: why there is no outer score; None if there is one, and under the protocol
            ``transductive``, which leaves no outer part.
        n_outer: trials that have been scored on the outer test part: more than one if trials were
            added later.
        metric: name of the metric of the scores.
    """

    study: Study
    best: FrozenTrial
    config: RunConfig
    inner: float
    outer: float | None
    outer_missing: str | None
    n_outer: int
    metric: str = ACCURACY

    @classmethod
    def of(cls, study: Study, base: Base, metric: str) -> Finding:
        """The best trial of a study, with its outer score if it has one.

        Args:
            study: study of scores.
            base: the settings that are not searched.
            metric: name of the metric of the scores.

        Raises:
            AllFailed: if no trial has a score.
        """
        counts = TrialCounts.of(study)
        best = counts.best
        if best is None or best.value is None:
            reasons = "; ".join(f"{n} x {reason}" for reason, n in counts.failures.most_common())
            raise AllFailed(
                f"no trial of {study.study_name} has a score ({counts.pruned} pruned, "
                f"{counts.failures.total()} failed: {reasons or 'none'}); narrow the search space, "
                f"and give the new search another --study-name"
            )
        scores: dict[str, float | str | None] = study.user_attrs.get(OUTER, {})
        config = base.config_with(best.params)
        usual = None if experiment_of(config).searches_on_test(config) else UNFINISHED
        score = scores.get(str(best.number), usual)
        outer, missing = (None, score) if isinstance(score, str) else (score, None)
        n_outer = sum(map(str.isdigit, scores))  # earlier versions stored a digest beside them
        return cls(study, best, config, best.value, outer, missing, n_outer, metric)

    @property
    def optimism(self) -> float | None:
        """How much better the inner score is than the outer one."""
        return None if self.outer is None else metric(self.metric).gain(self.inner, self.outer)

    @property
    def seconds(self) -> float:
        """Total time of training finished trials, without pauses."""
        total, until = 0.0, -math.inf
        ended = [t for t in self.study.trials if t.state != TrialState.FAIL]
        spans = [(t.datetime_start, t.datetime_complete) for t in ended]
        for start, end in sorted((s.timestamp(), e.timestamp()) for s, e in spans if s and e):
            total += max(0.0, end - max(start, until))
            until = max(until, end)
        return total


@dataclass(frozen=True, repr=False)
class SearchResult:
    """The result of a search.

    Attributes:
        findings: the result of each outer part.
        asked: trials asked for in each study.
        facts: see ``PreparedSearch.facts``.
        search: the search with its data; None if only the result is available.
    """

    findings: tuple[Finding, ...]
    asked: int
    facts: dict[str, Any]
    search: PreparedSearch | None = None

    def __repr__(self) -> str:
        scores = {"inner": self.inner, "outer": self.outer}
        facts, best = self.facts, self._finding.best.params
        shown = [f"{k} {self.metric.shown(v)}" for k, v in scores.items() if v is not None]
        return (
            f"SearchResult({facts['method']} on {facts['dataset']}, {facts['protocol']}: "
            f"{', '.join(shown)}; best: {', '.join(f'{k}={v!r}' for k, v in best.items())})"
        )

    @property
    def studies(self) -> list[Study]:
        """Optuna's studies, one for each outer part."""
        return [finding.study for finding in self.findings]

    @property
    def study(self) -> Study:
        """Optuna's study of the first outer part."""
        return self.findings[0].study

    @property
    def inner(self) -> float:
        """Mean inner score of the best trials."""
        return statistics.fmean(finding.inner for finding in self.findings)

    @property
    def outer(self) -> float | None:
        """Mean outer score; None unless every outer part has one."""
        scores = [finding.outer for finding in self.findings if finding.outer is not None]
        return statistics.fmean(scores) if len(scores) == len(self.findings) else None

    @property
    def outer_missing(self) -> str | None:
        """Why there is no outer score: the first reason."""
        missing = (finding.outer_missing for finding in self.findings)
        return next((reason for reason in missing if reason), None)

    @property
    def metric(self) -> Metric:
        """The metric of the scores, with their unit."""
        return metric(self.findings[0].metric)

    @property
    def optimism(self) -> float | None:
        """How much better the inner score is than the outer one."""
        return None if self.outer is None else self.metric.gain(self.inner, self.outer)

    @property
    def reads_labels(self) -> bool:
        """Whether training reads labels."""
        return any(finding.config.reads_labels for finding in self.findings)

    @property
    def _finding(self) -> Finding:
        """The finding with the best inner score."""
        scores = [finding.inner for finding in self.findings]
        return self.findings[best(scores, higher=self.metric.higher)]

    @property
    def best(self) -> RunConfig:
        """The settings of the study with the best inner score."""
        return self._finding.config

    def retrain_best(self, seed: int = 0) -> nn.Module:
        """Train an encoder with the best settings on all data, test parts included.

        ``outer`` estimates its accuracy: no data are left to measure it on.

        Args:
            seed: seed of the weights.

        Returns:
            The model in evaluation mode, with its ``encoder`` and ``embed``.

        Raises:
            InputError: for a result without its search.
            DivergenceError: if the loss is not finite.
        """
        if self.search is None:
            raise InputError("this result was read without its search: run the study again")
        return self.search.retrained(self._finding.best, seed)

    def as_json(self) -> dict[str, Any]:
        """The content of the result file."""
        studies = []
        for finding in self.findings:
            counts = TrialCounts.of(finding.study)
            studies.append({
                "study": finding.study.study_name,
                "trial": finding.best.number,
                "params": finding.best.params,
                "config": asdict(finding.config),
                "inner": finding.inner,
                "outer": finding.outer,
                "outer_missing": finding.outer_missing,
                "optimism": finding.optimism,
                "n_outer": finding.n_outer,
                "complete": counts.complete,
                "pruned": counts.pruned,
                "failures": dict(counts.failures),
                "seconds": finding.seconds,
            })  # fmt: skip
        return {
            "schema_version": 2,
            "facts": self.facts,
            "trials": self.asked,
            "inner": self.inner,
            "outer": self.outer,
            "optimism": self.optimism,
            "studies": studies,
        }
