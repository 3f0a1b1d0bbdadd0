"""Tables of a study: what was searched, the best trials, the grid, states of trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import Study
from optuna.trial import FrozenTrial

from gcl_hard.experiments.reporting.words import points
from gcl_hard.tuning.lease import FAILURE, GRID
from gcl_hard.tuning.reporting.spoken import complete
from gcl_hard.tuning.reporting.words import ACCURACY, setting, value
from gcl_hard.tuning.tally import SURPLUS

LOST = "worker ended, tried again"
BEST = 5  # trials of a table
STATES = {
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
    "RUNNING": "running",
    "WAITING": "waiting",
}


@dataclass(frozen=True)
class Table:
    """Heads, rows, and how many columns are words rather than numbers."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1


def space(studies: Sequence[Study]) -> Table:
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
    return Table(heads, rows, texts=2)


def _range(distribution: BaseDistribution) -> list[str]:
    if isinstance(distribution, CategoricalDistribution):
        return [f"one of {', '.join(map(value, distribution.choices))}", "–", "–"]
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    whole = isinstance(distribution, IntDistribution)
    scale = ["whole numbers"] * whole + ["logarithmic" if distribution.log else "linear"]
    if distribution.step is not None and not (whole and distribution.step == 1):
        scale.append(f"in steps of {value(distribution.step)}")
    return [", ".join(scale), value(distribution.low), value(distribution.high)]


def ranked(study: Study, best: FrozenTrial) -> list[FrozenTrial]:
    """Trials with a score, the best one first, then by score and age."""
    return sorted(
        complete(study), key=lambda t: (t.number != best.number, -(t.value or 0.0), t.number)
    )


def best_trials(study: Study, best: FrozenTrial) -> Table:
    """The five best trials with their settings."""
    shown = ranked(study, best)[:BEST]
    names = _names(shown)
    rows = [
        [
            f"{trial.number}{' (grid)' if trial.user_attrs.get(GRID) else ''}",
            *_settings(trial, names),
            f"{trial.value:.1f}",
        ]
        for trial in shown
    ]
    return Table(["trial", *map(setting, names), ACCURACY], rows)


def paper_grid(study: Study, best: FrozenTrial, error: float | None) -> Table | None:
    """The grid, and the best trial of all beside it.

    Args:
        study: the search.
        best: its best trial.
        error: the standard error of one inner score, points; None if it is not known.

    Returns:
        The table; None where no trial is of the grid.
    """
    trials = study.get_trials(deepcopy=False)
    grid = [t for t in trials if t.user_attrs.get(GRID) and _reason(t) not in (LOST, SURPLUS)]
    if not grid or best.value is None:
        return None
    shown = grid if best.number in {trial.number for trial in grid} else [*grid, best]
    names = _names(shown)
    heads = [
        "trial",
        *map(setting, names),
        ACCURACY,
        "best less this, points",
        "in standard errors",
    ]
    rows = []
    for trial in shown:
        first = f"{trial.number}{', the best of all' * (trial.number == best.number)}"
        row = [first, *_settings(trial, names)]
        if trial.value is None or trial.state.name != "COMPLETE":
            rows.append([*row, STATES[trial.state.name], "–", "–"])
            continue
        if trial.number == best.number:
            rows.append([*row, f"{trial.value:.1f}", "–", "–"])
            continue
        gap = best.value - trial.value
        rows.append(
            [*row, f"{trial.value:.1f}", points(gap), f"{gap / error:.1f}" if error else "–"]
        )
    return Table(heads, rows)


def states(study: Study) -> Table:
    """How many trials ended how, and why they failed; not those that were never begun."""
    trials = [t for t in study.get_trials(deepcopy=False) if _reason(t) != SURPLUS]
    counts = Counter(trial.state.name for trial in trials)
    reasons = Counter(reason for trial in trials if (reason := _reason(trial)))
    why = ", ".join(f"{reason}: {n}" for reason, n in reasons.most_common())
    rows = [
        [word, why if name == "FAIL" else "", str(counts[name])]
        for name, word in STATES.items()
        if counts[name]
    ]
    return Table(["state", "reasons", "trials"], rows, texts=2)


def _reason(trial: FrozenTrial) -> str | None:
    """Why it failed; None if it did not."""
    if trial.state.name != "FAIL":
        return None
    return str(trial.user_attrs.get(FAILURE, LOST))


def chosen(best: FrozenTrial) -> str:
    """The settings of a trial that were searched, in a line."""
    return ", ".join(f"{setting(name)} {value(v)}" for name, v in best.params.items())


def _names(trials: Sequence[FrozenTrial]) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial.params))


def _settings(trial: FrozenTrial, names: Sequence[str]) -> list[str]:
    return [value(trial.params.get(name)) for name in names]
