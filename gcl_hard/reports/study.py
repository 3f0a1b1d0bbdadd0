"""The report of a hyperparameter search: numbers, tables, page and best settings."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from gcl_hard.errors import InputError
from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.options import LISTED
from gcl_hard.reports.frame import standard_error
from gcl_hard.reports.page import rendered, write_files
from gcl_hard.reports.tables import (
    ACCURACY,
    duration,
    escaped,
    markdown,
    percent,
    points,
    setting,
    settings,
    text_frame,
    value,
)
from gcl_hard.tuning.lease import FAILURE, GRID
from gcl_hard.tuning.tally import SURPLUS, Tally

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import RenderableType

    from gcl_hard.tuning.outcome import Finding, Outcome

HEAD = "# Search: "
LOST = "worker ended, tried again"
BEST = 5
"""Trials in the table of the best."""
STATES = {
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
    "RUNNING": "running",
    "WAITING": "waiting",
}
ALT = {
    "history": "Inner accuracies of the trials in their order, with the best so far",
    "importances": "How much each setting matters for the inner accuracy",
    "slices": "Inner accuracy against each setting, one panel each",
    "contour": "Inner accuracy over two settings",
    "intermediate": "Inner accuracy while training, one line a trial",
}
"""What figures of a search show."""
FACTS = {
    "dataset": "data set",
    "inner": "inner score on",
    "outer": "outer score on",
    "n_inner_test": "held-out items of an inner score",
    "n_outer_test": "held-out items of an outer score",
}
ELSEWHERE = ("dimensions", "grid", "encoder_own", "graphs_own")
"""Facts that have their own places on the page."""


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


def on_test(outcome: Outcome) -> bool:
    """Whether trials are scored on the test folds, as under the protocol ``paper``."""
    return outcome.facts.get("protocol") == "paper"


def step_of(outcome: Outcome) -> str:
    """What intermediate scores are after; Wilcoxon's pruner compares folds."""
    return "fold" if "wilcoxon" in str(outcome.facts.get("pruner")).casefold() else "epoch"


def grid_of(outcome: Outcome) -> str:
    """What the settings that were tried first are called: the paper's grid, or the user's own."""
    return str(outcome.facts.get("grid") or "the grid")


def inner_error(outcome: Outcome, finding: Finding | None = None) -> float | None:
    """Standard error of an inner score, points; None where its number of items is not known.

    The mean over studies has at most that: their inner parts may have items in common.
    """
    n = outcome.facts.get("n_inner_test")
    return standard_error((finding or outcome).inner, n) if n else None


def outer_error(outcome: Outcome) -> float | None:
    """Standard error of the outer score, points.

    Outer parts of several studies have no item in common, so they count as one large one.
    """
    n = outcome.facts.get("n_outer_test")
    if outcome.outer is None or not n:
        return None
    return standard_error(outcome.outer, n * len(outcome.findings))


def numbers(outcome: Outcome) -> list[Number]:
    """The inner score, and where there is an outer one, that and the optimism between them."""
    inner, outer = inner_error(outcome), outer_error(outcome)
    name = "Score on the test folds" if on_test(outcome) else "Inner score"
    found = {"inner": (name, percent(outcome.inner), inner)}
    ratio = None
    if outcome.outer is not None and outcome.optimism is not None:
        error = None if inner is None or outer is None else math.hypot(inner, outer)
        ratio = abs(outcome.optimism) / error if error else None
        found["outer"] = ("Outer score", percent(outcome.outer), outer)
        found["optimism"] = ("Optimism", f"{points(outcome.optimism)} points", error)
    elif outcome.why is not None:
        found["none"] = ("Outer score", "none yet", None)
    context = {
        "items": items(outcome),
        "facts": outcome.facts,
        "several": len(outcome.findings) > 1,
        "tried": [len(complete(finding.study)) for finding in outcome.findings],
        "looks": max(finding.looks for finding in outcome.findings),
        "why": outcome.why,
        "ratio": ratio,
    }
    return [
        Number(*shown, meaning=_line("search_numbers.j2", kind=kind, **context))
        for kind, shown in found.items()
    ]


def items(outcome: Outcome) -> str:
    """What is classified: graphs or images."""
    return str(outcome.findings[0].cell.backend)


def chosen_on_test(outcome: Outcome) -> str | None:
    """The warning for a search under the protocol ``paper``; None for any other."""
    if not on_test(outcome):
        return None
    seen = outcome.reads_labels
    return _line("search_numbers.j2", kind="warning", items=items(outcome), seen=seen)


def against_grid(outcome: Outcome, finding: Finding) -> str | None:
    """The best of the grid against the best of the other trials; None where none is of the grid."""
    trials = finding.study.get_trials(deepcopy=False)
    if not any(trial.user_attrs.get(GRID) for trial in trials):
        return None
    scored = [(t.value or 0.0, bool(t.user_attrs.get(GRID))) for t in complete(finding.study)]
    ours, theirs = ([s for s, in_grid in scored if in_grid is own] for own in (False, True))
    gap = max(ours) - max(theirs) if ours and theirs else None
    error = inner_error(outcome, finding)
    ratio = abs(gap) / error if error and gap is not None else None
    return _line("search_numbers.j2", kind="grid", grid=grid_of(outcome), ours=ours,
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
    grid = [t for t in trials if t.user_attrs.get(GRID) and _reason(t) not in (LOST, SURPLUS)]
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
    trials = [t for t in study.get_trials(deepcopy=False) if _reason(t) != SURPLUS]
    counts = Counter(trial.state.name for trial in trials)
    reasons = Counter(reason for trial in trials if (reason := _reason(trial)))
    why = ", ".join(f"{reason}: {n}" for reason, n in reasons.most_common())
    rows = [
        [word, why if name == "FAIL" else "", str(counts[name])]
        for name, word in STATES.items()
        if counts[name]
    ]
    return text_frame(["state", "reasons", "trials"], rows)


def studies(outcome: Outcome) -> DataFrame:
    """One line a study, of several outer parts."""
    rows = [
        [
            str(number), percent(finding.inner), percent(finding.outer),
            "–" if finding.optimism is None else points(finding.optimism),
            settings(finding.best.params),
        ]
        for number, finding in enumerate(outcome.findings, 1)
    ]  # fmt: skip
    heads = ["outer part", "inner score", "outer score", "optimism, points", "settings"]
    return text_frame(heads, rows)


def _reason(trial: FrozenTrial) -> str | None:
    """Why a trial failed; None if it did not."""
    if trial.state.name != "FAIL":
        return None
    return str(trial.user_attrs.get(FAILURE, LOST))


def _names(trials: Sequence[FrozenTrial]) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial.params))


def _values(trial: FrozenTrial, names: Sequence[str]) -> list[str]:
    return [value(trial.params.get(name)) for name in names]


def _markdown(table: DataFrame | None, *, texts: int = 1) -> str:
    """A table with users' words escaped."""
    if table is None:
        return ""
    return markdown(table.map(escaped).rename(columns=escaped), texts=texts)


# The page


def write(outcome: Outcome, path: Path, *, command: str) -> list[Path]:
    """Write the page of a search, and the figures, the HTML page and the best settings beside it.

    Args:
        outcome: of the search.
        path: of the page, NAME.md; the rest is NAME.html, NAME-<figure>.png and NAME-best.yaml,
            for several studies NAME-outer1-<figure>.png and NAME-outer1-best.yaml, ….
        command: that searched.

    Returns:
        What was written, the page first.

    Raises:
        InputError: if the place cannot be written to; names it.
    """
    check_target(path)
    name, stems = title(outcome), _stems(outcome, path)
    drawn = _figures(outcome, stems, name)
    configs = {
        (config := _config(stem)): best_yaml(finding.cell, _head(outcome, finding, config, command))
        for finding, stem in zip(outcome.findings, stems, strict=True)
    }
    texts = {
        path: page(outcome, path, command=command, figures=drawn),
        path.with_suffix(".html"): _html(outcome, name),
        **configs,
    }
    return [*write_files(texts, {}), *(figure for of_study in drawn for figure in of_study)]


def _figures(outcome: Outcome, stems: Sequence[Path], name: str) -> list[list[Path]]:
    from gcl_hard.tuning.reporting.figures import write_figures

    step, grid = step_of(outcome), grid_of(outcome)
    return [
        write_figures(finding.study, stem, title=name, step=step, grid=grid)
        for finding, stem in zip(outcome.findings, stems, strict=True)
    ]


def _html(outcome: Outcome, name: str) -> str:
    from gcl_hard.tuning.reporting.html import html

    return html(outcome, title=name)


def check_target(path: Path) -> None:
    """Refuse a place that no page of a search can be written to.

    Args:
        path: of the page to be written.

    Raises:
        InputError: if it is not NAME.md, is in no folder that can be written to, or is a page of
            something else.
    """
    if path.suffix != ".md":
        raise InputError(f"report is a page of Markdown, NAME.md, got {path}")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"cannot write {path}: give a file in a folder that can be written to")
    try:
        there = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError):
        there = "something else"
    if there.strip() and not there.startswith(HEAD):
        raise InputError(f"{path} is not a search report: give the report another name")


def page(outcome: Outcome, path: Path, *, command: str, figures: Sequence[Sequence[Path]]) -> str:
    """The page of a search, as Markdown for GitHub and MkDocs.

    Args:
        outcome: of the search.
        path: where it will be.
        command: that searched.
        figures: files of every study.
    """
    tallies = [Tally.of(f.study.get_trials(deepcopy=False)) for f in outcome.findings]
    done = [tally.finished for tally in tallies]
    several = len(outcome.findings) > 1
    parts = [
        {
            "finding": finding,
            "chosen": escaped(settings(finding.best.params)),
            "config": _config(stem),
            "missing": _not_in_config(outcome, finding),
            "best": _markdown(best_trials(finding.study, finding.best)),
            "grid": _markdown(
                grid_table(finding.study, finding.best, inner_error(outcome, finding))
            ),
            "against_grid": against_grid(outcome, finding),
            "states": _markdown(states(finding.study), texts=2),
            "figures": {f.name: ALT[f.stem.removeprefix(f"{stem.name}-")] for f in drawn},
        }
        for finding, stem, drawn in zip(
            outcome.findings, _stems(outcome, path), figures, strict=True
        )
    ]
    return rendered(
        "search.md.j2",
        head=HEAD,
        title=title(outcome),
        command=command,
        asked=outcome.asked,
        done=done,
        finished=min(done) >= outcome.asked,
        over=all(tally.over(outcome.asked) for tally in tallies),
        took=duration(sum(finding.seconds for finding in outcome.findings)),
        several=several,
        warning=chosen_on_test(outcome),
        numbers=numbers(outcome),
        studies=_markdown(studies(outcome)) if several else "",
        html=path.with_suffix(".html").name,
        space=_markdown(space([finding.study for finding in outcome.findings]), texts=2),
        parts=parts,
        grid=grid_of(outcome),
        facts={
            FACTS.get(name, name.replace("_", " ")): escaped(_fact(fact))
            for name, fact in outcome.facts.items()
            if fact not in (None, {}) and name not in ELSEWHERE
        },
    )


def _fact(fact: object) -> str:
    if isinstance(fact, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {value(v)}" for name, v in fact.items())
    return value(fact)


def title(outcome: Outcome) -> str:
    """Method, data set and protocol."""
    facts = outcome.facts
    return f"{facts['method']} on {facts['dataset']}, protocol {facts['protocol']}"


def _stems(outcome: Outcome, path: Path) -> list[Path]:
    stem = path.with_suffix("")
    if len(outcome.findings) == 1:
        return [stem]
    return [stem.with_name(f"{stem.name}-outer{k + 1}") for k in range(len(outcome.findings))]


def _config(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}-best.yaml")


def _head(outcome: Outcome, finding: Finding, config: Path, command: str) -> str:
    return rendered(
        "best.yaml.j2",
        trials=len(complete(finding.study)),
        title=title(outcome),
        config=config,
        command=command,
        finding=finding,
        warning=chosen_on_test(outcome),
        missing=_not_in_config(outcome, finding),
    ).rstrip()


def _not_in_config(outcome: Outcome, finding: Finding) -> str:
    """What the config cannot hold, so that the command does not run it."""
    facts, missing = outcome.facts, []
    if facts.get("graphs_own"):
        missing.append(f"the graphs of {facts['dataset']}, which are your own")
    if facts.get("encoder_own"):
        own = {k: v for k, v in finding.best.params.items() if k.startswith("encoder.")}
        given = ", ".join(f"{name.removeprefix('encoder.')}={v!r}" for name, v in own.items())
        missing.append(f"your own encoder {facts.get('encoder')}({given})")
    return f"Not in it, as no config has them: {' and '.join(missing)}." if missing else ""


def best_yaml(config: Cell, head: str) -> str:
    """A config of exactly one configuration, for ``python -m gcl_hard.bench --config``.

    Settings that a method does not have, such as β of hscl-tau, are left out where the flag takes
    no null.

    Args:
        config: the settings.
        head: what the comment at the top says; may have several lines.

    Returns:
        YAML; numbers are read back with the same bits.

    Example:
        >>> from gcl_hard.experiments.graph_cell import GraphCell
        >>> print("\\n".join(best_yaml(GraphCell(beta=2.5), "The best.").splitlines()[:6]))
        # The best.
        <BLANKLINE>
        dataset: [MUTAG]
        method: [hscl]
        protocol: [paper]
        beta: [2.5]
    """
    stated: dict[str, Any] = {}
    for name, given in asdict(config).items():
        if name not in LISTED:
            stated[name] = list(given) if isinstance(given, tuple) else given
        elif given is not None:
            stated[name] = [given]
    comment = "\n".join(f"# {line}".rstrip() for line in head.splitlines())
    body = yaml.safe_dump(
        stated, sort_keys=False, default_flow_style=None, allow_unicode=True, width=float("inf")
    )
    return f"{comment}\n\n{body}"


# The terminal


def terminal(outcome: Outcome) -> RenderableType:
    """The best settings and the numbers, each with what it means."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable.grid(padding=(0, 2), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    rows = [(finding.study.study_name, _found(finding)) for finding in outcome.findings]
    rows += [(f"{number.name} {number.value}", number.meaning) for number in numbers(outcome)]
    for row in rows:
        table.add_row(*map(Text, row))  # reasons may have brackets, which rich would read
    warning = chosen_on_test(outcome)
    return Group(table, *([Text(warning, style="bold yellow")] if warning else []))


def _found(finding: Finding) -> str:
    tally = Tally.of(finding.study.get_trials(deepcopy=False))
    failed = "; ".join(f"{n} x {reason}" for reason, n in tally.failures.most_common())
    counts = f"{tally.complete} complete, {tally.pruned} pruned"
    counts += f", {tally.failures.total()} failed ({failed})" if failed else ""
    where = "on the test folds" if finding.cell.protocol == "paper" else "inside"
    scores = f"{finding.inner:.1f} % {where}"
    scores += "" if finding.outer is None else f", {finding.outer:.1f} % outside"
    best = settings(finding.best.params)
    return f"trial {finding.best.number} of {counts}: {best}; {scores}"
