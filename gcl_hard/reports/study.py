"""The report of a hyperparameter search: numbers, tables, page and best settings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from gcl_hard.reports.frame import standard_error
from gcl_hard.reports.page import rendered
from gcl_hard.reports.tables import text_frame
from gcl_hard.reports.text import ACCURACY, percent, points, setting, settings, value
from gcl_hard.tuning.storage import GRID, INTERRUPTED, SURPLUS, failure_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from gcl_hard.tuning.result import Finding, SearchResult

BEST = 5
"""Trials in the table of the best."""
STATES = {
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
    "RUNNING": "running",
    "WAITING": "waiting",
}
# Numbers


@dataclass(frozen=True)
class Number:
    """One number of a search.

    Attributes:
        name: what it is.
        value: as text.
        error: its standard error in points; None where that is not known.
        meaning: sentences from ``search_numbers.j2``.
    """

    name: str
    value: str
    error: float | None
    meaning: str


def on_test(result: SearchResult) -> bool:
    """Whether trials are scored on the test folds, as under protocol ``transductive``."""
    return result.facts.get("protocol") == "transductive"


def step_of(result: SearchResult) -> str:
    """What intermediate scores are after; Wilcoxon's pruner compares folds."""
    return "fold" if "wilcoxon" in str(result.facts.get("pruner")).casefold() else "epoch"


def grid_of(result: SearchResult) -> str:
    """What the settings that were tried first are called: the paper's grid, or the user's own."""
    return str(result.facts.get("grid") or "the grid")


def inner_error(result: SearchResult, finding: Finding | None = None) -> float | None:
    """Standard error of an inner score, points; None where its number of items is not known.

    The mean over studies has at most that: their inner parts may have items in common.
    """
    n = result.facts.get("n_inner_test")
    return standard_error((finding or result).inner, n) if n else None


def outer_error(result: SearchResult) -> float | None:
    """Standard error of the outer score, points.

    Outer parts of several studies have no item in common, so they count as one large one.
    """
    n = result.facts.get("n_outer_test")
    if result.outer is None or not n:
        return None
    return standard_error(result.outer, n * len(result.findings))


def numbers(result: SearchResult) -> list[Number]:
    """The inner score, and where there is an outer one, that and the optimism between them."""
    inner, outer = inner_error(result), outer_error(result)
    name = "Score on the test folds" if on_test(result) else "Inner score"
    found = {"inner": (name, percent(result.inner), inner)}
    ratio = None
    if result.outer is not None and result.optimism is not None:
        error = None if inner is None or outer is None else math.hypot(inner, outer)
        ratio = abs(result.optimism) / error if error else None
        found["outer"] = ("Outer score", percent(result.outer), outer)
        found["optimism"] = ("Optimism", f"{points(result.optimism)} points", error)
    elif result.outer_missing is not None:
        found["none"] = ("Outer score", "none yet", None)
    context = {
        "items": items(result),
        "facts": result.facts,
        "several": len(result.findings) > 1,
        "tried": [len(complete(finding.study)) for finding in result.findings],
        "n_outer": max(finding.n_outer for finding in result.findings),
        "why": result.outer_missing,
        "ratio": ratio,
    }
    return [
        Number(*shown, meaning=_line("search_numbers.j2", kind=kind, **context))
        for kind, shown in found.items()
    ]


def items(result: SearchResult) -> str:
    """What is classified: graphs or images."""
    return str(result.findings[0].config.domain)


def chosen_on_test(result: SearchResult) -> str | None:
    """The warning for a search under protocol ``transductive``; None for any other."""
    if not on_test(result):
        return None
    seen = result.reads_labels
    return _line("search_numbers.j2", kind="warning", items=items(result), seen=seen)


def against_grid(result: SearchResult, finding: Finding) -> str | None:
    """The best of the grid against the best of the other trials; None where none is of the grid."""
    trials = finding.study.get_trials(deepcopy=False)
    if not any(trial.user_attrs.get(GRID) for trial in trials):
        return None
    scored = [(t.value or 0.0, bool(t.user_attrs.get(GRID))) for t in complete(finding.study)]
    ours, theirs = ([s for s, in_grid in scored if in_grid is own] for own in (False, True))
    gap = max(ours) - max(theirs) if ours and theirs else None
    error = inner_error(result, finding)
    ratio = abs(gap) / error if error and gap is not None else None
    return _line("search_numbers.j2", kind="grid", grid=grid_of(result), ours=ours,
                 theirs=theirs, gap=gap, error=error, ratio=ratio)  # fmt: skip


def _line(template: str, **context: Any) -> str:
    return " ".join(rendered(template, **context).split())


# Tables


def complete(study: Study) -> list[FrozenTrial]:
    """Trials with a score."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def space(studies: Sequence[Study]) -> DataFrame:
    """Every setting that was searched with its range; how many trials have it, if not all."""
    trials = [trial for study in studies for trial in study.get_trials(deepcopy=False)]
    found = {name: d for trial in trials for name, d in trial.distributions.items()}
    drawn = sum(bool(trial.params) for trial in trials)
    have = Counter(name for trial in trials for name in trial.params)
    rows = [[setting(name), *_range(d)] for name, d in found.items()]
    heads = ["setting", "values", "low", "high"]
    if any(have[name] < drawn for name in found):
        heads.append("trials with it")
        rows = [[*row, f"{have[name]} of {drawn}"] for row, name in zip(rows, found, strict=True)]
    return text_frame(heads, rows)


def _range(distribution: BaseDistribution) -> list[str]:
    if isinstance(distribution, CategoricalDistribution):
        return [f"one of {', '.join(map(value, distribution.choices))}", "–", "–"]
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    whole = isinstance(distribution, IntDistribution)
    scale = ["whole numbers"] * whole + ["logarithmic" if distribution.log else "linear"]
    if distribution.step is not None and not (whole and distribution.step == 1):
        scale.append(f"in steps of {value(distribution.step)}")
    return [", ".join(scale), value(distribution.low), value(distribution.high)]


def best_trials(study: Study, best: FrozenTrial) -> DataFrame:
    """The five best trials with their settings: the best one first, then by score and age."""
    shown = sorted(
        complete(study), key=lambda t: (t.number != best.number, -(t.value or 0.0), t.number)
    )[:BEST]
    names = _names(shown)
    rows = [
        [
            f"{trial.number}{' (grid)' if trial.user_attrs.get(GRID) else ''}",
            *_values(trial, names),
            f"{trial.value:.1f}",
        ]
        for trial in shown
    ]
    return text_frame(["trial", *map(setting, names), ACCURACY], rows)


def grid_table(study: Study, best: FrozenTrial, error: float | None) -> DataFrame | None:
    """The grid, and the best trial of all.

    Args:
        study: the search.
        best: its best trial.
        error: the standard error of one inner score, points; None if it is not known.

    Returns:
        The table; None where no trial is of the grid.
    """
    trials = study.get_trials(deepcopy=False)
    grid = [
        t for t in trials if t.user_attrs.get(GRID) and failure_of(t) not in (INTERRUPTED, SURPLUS)
    ]
    if not grid or best.value is None:
        return None
    shown = grid if best.number in {trial.number for trial in grid} else [*grid, best]
    names, rows = _names(shown), []
    for trial in shown:
        is_best = trial.number == best.number
        row = [f"{trial.number}{', the best of all' * is_best}", *_values(trial, names)]
        if trial.value is None or trial.state.name != "COMPLETE":
            row += [STATES[trial.state.name], "–", "–"]
        elif is_best:
            row += [f"{trial.value:.1f}", "–", "–"]
        else:
            gap = best.value - trial.value
            row += [f"{trial.value:.1f}", points(gap), f"{gap / error:.1f}" if error else "–"]
        rows.append(row)
    own = ["best less this, points", "in standard errors"]
    return text_frame(["trial", *map(setting, names), ACCURACY, *own], rows)


def states(study: Study) -> DataFrame:
    """How many trials ended in which state, and why they failed."""
    trials = [t for t in study.get_trials(deepcopy=False) if failure_of(t) != SURPLUS]
    counts = Counter(trial.state.name for trial in trials)
    reasons = Counter(reason for trial in trials if (reason := failure_of(trial)))
    why = ", ".join(f"{reason}: {n}" for reason, n in reasons.most_common())
    rows = [
        [word, why if name == "FAIL" else "", str(counts[name])]
        for name, word in STATES.items()
        if counts[name]
    ]
    return text_frame(["state", "reasons", "trials"], rows)


def studies(result: SearchResult) -> DataFrame:
    """One line a study, of several outer parts."""
    rows = [
        [
            str(number), percent(finding.inner), percent(finding.outer),
            "–" if finding.optimism is None else points(finding.optimism),
            settings(finding.best.params),
        ]
        for number, finding in enumerate(result.findings, 1)
    ]  # fmt: skip
    heads = ["outer part", "inner score", "outer score", "optimism, points", "settings"]
    return text_frame(heads, rows)


def _names(trials: Sequence[FrozenTrial]) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial.params))


def _values(trial: FrozenTrial, names: Sequence[str]) -> list[str]:
    return [value(trial.params.get(name)) for name in names]
