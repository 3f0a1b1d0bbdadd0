"""The report of a hyperparameter search: numbers, tables, page, best settings and the terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial

from gcl_hard.errors import InputError
from gcl_hard.evaluation.metrics import Metric
from gcl_hard.experiments.outside import domain_to_import
from gcl_hard.experiments.record import ACCURACY
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import RunConfig, known
from gcl_hard.files.io import check_regular, public_path
from gcl_hard.reports.frame import standard_error
from gcl_hard.reports.legend import legend
from gcl_hard.reports.rendering import rendered, write_files
from gcl_hard.reports.rows import END
from gcl_hard.reports.tables import NOTHING, points, score, setting, text_frame, value
from gcl_hard.tuning.storage import GRID, TrialCounts, complete, failure_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import RenderableType

    from gcl_hard.tuning.result import Finding, SearchResult

HEAD = "# Search: "
ELSEWHERE = (
    "dimensions", "grid", "encoder_own", "graphs_own", "graphs_name", "inner", "outer",
    "n_inner_test", "n_outer_test",
)  # fmt: skip
"""Facts that are shown elsewhere on the page."""


NEAR_END = 0.05
"""Share of a range, on the scale of its search, that counts as its end."""
NO_ESTIMATE = "No estimate for new data: trials are chosen on the test folds that score them"
BEST = 5
"""Number of trials in the table of the best."""
STATES = {
    "COMPLETE": "complete",
    "PRUNED": "pruned",
    "FAIL": "failed",
    "RUNNING": "running",
    "WAITING": "waiting",
}


def on_test(result: SearchResult) -> bool:
    """Whether trials are scored on the test folds, as under protocol ``transductive``."""
    return experiment_of(result.findings[0].config).searches_on_test(result.findings[0].config)


def inner_error(result: SearchResult, finding: Finding | None = None) -> float | None:
    """Standard error of an inner score that is a share, points; None where it is not known.

    The error of the mean over studies is at most this: their inner parts may share items.
    """
    n = result.facts.get("n_inner_test")
    return standard_error((finding or result).inner, n) if n and result.metric.share else None


def outer_error(result: SearchResult) -> float | None:
    """Standard error of the outer score, if it is a share, points.

    Outer parts of several studies have no item in common, so they count as one large one.
    """
    n = result.facts.get("n_outer_test")
    if result.outer is None or not n or not result.metric.share:
        return None
    return standard_error(result.outer, n * len(result.findings))


def numbers(result: SearchResult) -> DataFrame:
    """The inner score, and if there is one, the outer score and the optimism between them.

    Returns:
        As texts: ``number``, its name; ``of``, the trials and items that it is of, or the size of
        an optimism; ``value``; and ``standard error`` in the unit of the metric, where known.
    """
    inner, outer, metric = inner_error(result), outer_error(result), result.metric
    metric_name = result.findings[0].metric
    score_name = "score" if metric_name == ACCURACY else metric.title
    trials = ", ".join(map(str, dict.fromkeys(len(complete(f.study)) for f in result.findings)))
    several = [f"mean of {len(result.findings)} studies"] * (len(result.findings) > 1)
    basis = [f"best of {trials} trials", *several, *_part(result, "inner")]
    name = f"{score_name} on the test folds" if on_test(result) else f"inner {score_name}"
    rows = [(name, basis, score(result.inner, metric_name), inner)]
    if result.outer is not None and result.optimism is not None:
        error = None if inner is None or outer is None else math.hypot(inner, outer)
        again = max(finding.n_outer for finding in result.findings)
        basis = [f"best of {again} scored there"] * (again > 1) + _part(result, "outer")
        size = [f"{abs(result.optimism) / error:.1f} standard errors"] if error else []
        size += ["no sign of optimism"] * (result.optimism <= 0)
        rows += [
            (f"outer {score_name}", basis, score(result.outer, metric_name), outer),
            ("optimism", size, f"{metric.difference(result.optimism)} {metric.points}", error),
        ]
    elif result.outer_missing is not None:
        rows.append((f"outer {score_name}", [result.outer_missing], "none yet", None))
    texts = (
        (name, "; ".join(basis), value, NOTHING if error is None else f"{error:.1f}")
        for name, basis, value, error in rows
    )
    return text_frame(["number", "of", "value", "standard error"], texts)


def _part(result: SearchResult, name: str) -> list[str]:
    """The items of an inner or outer score: their number, and what they are."""
    n, part = result.facts.get(f"n_{name}_test"), result.facts.get(name)
    return [f"{n} {experiment_of(result.findings[0].config).item}s"] * bool(n) + [f"{part}"] * bool(
        part
    )


def caution(result: SearchResult) -> str | None:
    """The warning for a search under protocol ``transductive``, or that of its experiment."""
    if on_test(result):
        return NO_ESTIMATE + ", whose labels the encoders have seen" * result.reads_labels
    config = result.findings[0].config
    return experiment_of(config).search_caution(config)


# Tables


def space(studies: Sequence[Study]) -> DataFrame:
    """Every searched setting with its range, and the number of trials that have it."""
    trials = [trial for study in studies for trial in study.get_trials(deepcopy=False)]
    distributions = {name: d for trial in trials for name, d in trial.distributions.items()}
    drawn = sum(bool(trial.params) for trial in trials)
    have = Counter(name for trial in trials for name in trial.params)
    rows = [[setting(name), _values(d), f"{have[name]} of {drawn}"]
            for name, d in distributions.items()]  # fmt: skip
    return text_frame(["setting", "values", "trials with it"], rows)


def _values(distribution: Any) -> str:
    if isinstance(distribution, CategoricalDistribution):
        return f"one of {', '.join(map(value, distribution.choices))}"
    parts = [f"{value(distribution.low)} to {value(distribution.high)}"]
    parts += ["whole numbers"] * isinstance(distribution, IntDistribution)
    parts += ["logarithmic"] * distribution.log
    if distribution.step not in (None, 1):
        parts.append(f"in steps of {value(distribution.step)}")
    return ", ".join(parts)


def best_trials(study: Study, best: FrozenTrial, error: float | None, metric: Metric) -> DataFrame:
    """The five best trials and those of the grid: the best one, then by score and age.

    Args:
        study: the study.
        best: the trial that the others are compared with.
        error: the standard error of one inner score, points; None if it is not known.
        metric: the metric.
    """
    shown = sorted(
        complete(study),
        key=lambda t: (t.number != best.number, metric.gain(0.0, t.value or 0.0), t.number),
    )
    trials = [t for k, t in enumerate(shown) if k < BEST or t.user_attrs.get(GRID)]
    names, rows = list(dict.fromkeys(name for t in trials for name in t.params)), []
    for trial in trials:
        notes = [" (grid)"] * bool(trial.user_attrs.get(GRID))
        notes += [", the best of all"] * (trial.number == best.number)
        gap = metric.gain(best.values[0], trial.values[0])
        scores = [metric.text(trial.values[0]), metric.difference(gap)]
        scores.append(f"{gap / error:.1f}" if error else NOTHING)
        if trial.number == best.number:
            scores[1:] = [NOTHING, NOTHING]
        settings_of = [value(trial.params.get(name)) for name in names]
        rows.append([f"{trial.number}{''.join(notes)}", *settings_of, *scores])
    less = "best less this" if metric.higher else "this less best"
    gaps = [f"{less}, {metric.points}", "in standard errors"]
    return text_frame(["trial", *map(setting, names), f"inner {metric.label}", *gaps], rows)


def states(study: Study) -> DataFrame:
    """Numbers of trials by state, and reasons of failures."""
    trials = study.get_trials(deepcopy=False)
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
    """One row per study, for several outer parts."""
    rows = [
        [
            str(number), score(finding.inner, finding.metric), score(finding.outer, finding.metric),
            "–" if finding.optimism is None else points(finding.optimism, finding.metric),
            best_settings(finding),
        ]
        for number, finding in enumerate(result.findings, 1)
    ]  # fmt: skip
    heads = ["outer part", "inner score", "outer score", f"optimism, {result.metric.points}",
             "settings"]  # fmt: skip
    return text_frame(heads, rows)


def best_settings(finding: Finding) -> str:
    """The settings of the best trial in a line, ``β 19.8‡`` for a number at an end of its range.

    A bound of the setting, beyond which nothing lies, is not marked.
    """
    declared, texts = known(type(finding.config)), []
    for name, best in finding.best.params.items():
        bounds = [getattr(declared[name].setting, b) for b in ("least", "most") if name in declared]
        ends = _ends(finding.best.distributions[name], best)
        texts.append(f"{setting(name)} {value(best)}{END * bool(ends - {*bounds})}")
    return ", ".join(texts)


def _ends(distribution: Any, best: Any) -> set[float]:
    """The ends of a searched range that a value is near, or of numbers to choose from, is at."""
    scale, near = (math.log if getattr(distribution, "log", False) else float), NEAR_END
    numbers: tuple[Any, ...] = getattr(distribution, "choices", ())
    if any(type(number) not in (int, float) for number in numbers):
        return set()
    if numbers:
        near = 0.0
    else:
        numbers = distribution.low, distribution.high
    low, high = min(numbers), max(numbers)
    width = near * (scale(high) - scale(low))
    return {end for end in (low, high) if low < high and abs(scale(best) - scale(end)) <= width}


# The pages


def write(result: SearchResult, path: Path, *, command: str) -> list[Path]:
    """Write the page of a search, with its figures and best settings next to it.

    Args:
        result: result of the search.
        path: the page, NAME.md; the rest is NAME-<figure>.png and NAME-best.yaml, for several
            studies NAME-outer1-<figure>.png and NAME-outer1-best.yaml, ….
        command: the command of the search.

    Returns:
        The files written, the page first.

    Raises:
        InputError: if the path cannot be written to; names it.
    """
    from gcl_hard.reports.search_figures import write_figures

    check_target(path)
    both = list(zip(result.findings, _stems(result, path), strict=True))
    drawn = [
        write_figures(finding.study, stem, title=title(result), metric=result.metric)
        for finding, stem in both
    ]
    texts = {path: page(result, path, command=command, figures=drawn)}
    for finding, stem in both:
        config, named = _config(stem), dict[str, Any]()
        if result.facts.get("graphs_name"):
            named["dataset"] = [result.facts["graphs_name"]]
        if finding.metric != ACCURACY:
            named["metric"] = [finding.metric]
        texts[config] = best_yaml(finding.config, _head(result, finding, config, command), named)
    return [*write_files(texts, {}), *(figure for of_study in drawn for figure in of_study)]


def check_target(path: Path) -> None:
    """Refuse to overwrite a file that is no page of a search.

    Args:
        path: path of the page to be written.

    Raises:
        InputError: for a folder, or a page of something else.
    """
    check_regular(path)
    content = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    if content.strip() and not content.startswith(HEAD):
        raise InputError(f"{path} is not a search report: give the report another name")


def page(
    result: SearchResult, path: Path, *, command: str, figures: Sequence[Sequence[Path]]
) -> str:
    """The page of a search, as Markdown for GitHub and MkDocs.

    Args:
        result: result of the search.
        path: path of the page.
        command: the command of the search.
        figures: files of every study.
    """
    counts = [TrialCounts.of(f.study) for f in result.findings]
    done = [count.finished for count in counts]
    parts = [
        {
            "finding": finding,
            "best": best_trials(finding.study, finding.best, error, result.metric),
            "settings": best_settings(finding),
            "states": states(finding.study),
            "config": Path(public_path(_config(stem))),
            "missing": _not_in_config(result, finding),
            "figures": {f.name: f.stem.removeprefix(f"{stem.name}-") for f in drawn},
        }
        for finding, stem, drawn in zip(result.findings, _stems(result, path), figures, strict=True)
        for error in [inner_error(result, finding)]
    ]
    return rendered(
        "search.md.j2",
        head=HEAD,
        title=title(result),
        warning=caution(result),
        numbers=numbers(result),
        space=space([finding.study for finding in result.findings]),
        studies=studies(result) if len(result.findings) > 1 else None,
        parts=parts,
        command=command,
        asked=result.asked,
        done=done,
        finished=min(done) >= result.asked,
        over=all(count.over(result.asked) for count in counts),
        took=sum(finding.seconds for finding in result.findings),
        facts={
            name.replace("_", " "): _fact(fact)
            for name, fact in result.facts.items()
            if fact not in (None, {}) and name not in ELSEWHERE
        },
    )


def _fact(fact: object) -> str:
    if isinstance(fact, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {value(v)}" for name, v in fact.items())
    return value(fact)


def title(result: SearchResult) -> str:
    """Method, data set and protocol."""
    facts = result.facts
    return f"{facts['method']} on {facts['dataset']}, protocol {facts['protocol']}"


def _stems(result: SearchResult, path: Path) -> list[Path]:
    stem = path.with_suffix("")
    if len(result.findings) == 1:
        return [stem]
    return [stem.with_name(f"{stem.name}-outer{k + 1}") for k in range(len(result.findings))]


def _config(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}-best.yaml")


def _head(result: SearchResult, finding: Finding, config: Path, command: str) -> str:
    return rendered(
        "best.yaml.j2",
        trials=len(complete(finding.study)),
        title=title(result),
        config=Path(public_path(config)),
        command=command,
        finding=finding,
        settings=best_settings(finding).replace(END, " (an end of its range)"),
        warning=caution(result),
        missing=_not_in_config(result, finding),
    ).rstrip()


def _not_in_config(result: SearchResult, finding: Finding) -> str:
    """What the config cannot hold, so that its command alone does not reproduce the trial."""
    facts, missing = result.facts, []
    if facts.get("graphs_own") and not facts.get("graphs_name"):
        missing.append(f"the graphs of {facts['dataset']}, which are your own")
    params = {k: v for k, v in finding.best.params.items() if k.startswith("encoder.")}
    if facts.get("encoder_own") and (params or ":" not in facts["encoder"]):
        arguments = ", ".join(
            f"{name.removeprefix('encoder.')}={v!r}" for name, v in params.items()
        )
        missing.append(f"your own encoder {facts.get('encoder')}({arguments})")
    return f"Not in it, as no config has them: {' and '.join(missing)}." if missing else ""


def best_yaml(config: RunConfig, head: str, named: Mapping[str, Any] | None = None) -> str:
    """A config of exactly one configuration, for ``python -m gcl_hard.bench --config``.

    Settings that a method does not have, such as β of hscl-tau, are left out where the flag takes
    no null.

    Args:
        config: the settings.
        head: comment at the top; may have several lines.
        named: values that flags take in place of a setting's, or beside the settings.

    Returns:
        YAML; numbers are read back with the same bits.

    Example:
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> print("\\n".join(best_yaml(GraphConfig(beta=2.5), "The best.").splitlines()[:6]))
        # The best.
        <BLANKLINE>
        dataset: [MUTAG]
        method: [hscl]
        protocol: [transductive]
        beta: [2.5]
    """
    module = domain_to_import(config)
    stated: dict[str, Any] = {} if module is None else {"domain": module}
    declared = known(type(config))
    for name in sorted(declared, key=lambda name: not declared[name].setting.common):
        setting_value, applies = getattr(config, name), declared[name].setting.applies
        if setting_value is not None and applies is not None and not applies(config.values):
            continue  # another method that is added has its own
        if not declared[name].setting.several:
            stated[name] = (
                list(setting_value) if isinstance(setting_value, tuple) else setting_value
            )
        elif setting_value is not None:
            stated[name] = [setting_value]
    stated |= named or {}
    comment = "\n".join(f"# {line}".rstrip() for line in head.splitlines())
    body = yaml.safe_dump(
        stated, sort_keys=False, default_flow_style=None, allow_unicode=True, width=float("inf")
    )
    return f"{comment}\n\n{body}"


# The terminal


def terminal(result: SearchResult) -> RenderableType:
    """The best settings and the numbers, with explanations."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable.grid(padding=(0, 2), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    rows = [(finding.study.study_name, _summary(finding)) for finding in result.findings]
    scores = numbers(result)
    rows += [(f"{name} {value}", basis) for name, basis, value, _ in scores.to_numpy()]
    marked = [END] * any(END in text for _, text in rows)
    rows += legend([], [*scores["number"], *marked])
    for row in rows:
        table.add_row(*map(Text, row))  # reasons may have brackets, which rich would read
    warning = caution(result)
    return Group(table, *([Text(warning, style="bold yellow")] if warning else []))


def _summary(finding: Finding) -> str:
    counts = TrialCounts.of(finding.study)
    failed = "; ".join(f"{n} x {reason}" for reason, n in counts.failures.most_common())
    parts = [
        f"{counts.complete} complete, {counts.pruned} pruned",
        *([f"{counts.failures.total()} failed ({failed})"] if failed else []),
        f"best trial {finding.best.number}: {best_settings(finding)}",
    ]
    return ", ".join(parts)
