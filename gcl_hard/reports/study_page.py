"""The page of a hyperparameter search, its best settings as a config, and the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from gcl_hard.errors import InputError
from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.settings import LISTED
from gcl_hard.reports.page import rendered, write_files
from gcl_hard.reports.study import (
    against_grid,
    best_trials,
    chosen_on_test,
    complete,
    grid_of,
    grid_table,
    inner_error,
    numbers,
    space,
    states,
    step_of,
    studies,
)
from gcl_hard.reports.tables import markdown
from gcl_hard.reports.text import duration, escaped, settings, value
from gcl_hard.tuning.storage import Counts

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import RenderableType

    from gcl_hard.tuning.api import Finding, SearchResult

HEAD = "# Search: "
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


def _markdown(table: DataFrame | None, *, texts: int = 1) -> str:
    """A table with users' words escaped."""
    if table is None:
        return ""
    return markdown(table.map(escaped).rename(columns=escaped), texts=texts)


def write(result: SearchResult, path: Path, *, command: str) -> list[Path]:
    """Write the page of a search, and the figures, the HTML page and the best settings beside it.

    Args:
        result: of the search.
        path: of the page, NAME.md; the rest is NAME.html, NAME-<figure>.png and NAME-best.yaml,
            for several studies NAME-outer1-<figure>.png and NAME-outer1-best.yaml, ….
        command: that searched.

    Returns:
        What was written, the page first.

    Raises:
        InputError: if the place cannot be written to; names it.
    """
    check_target(path)
    name, stems = title(result), _stems(result, path)
    drawn = _figures(result, stems, name)
    configs = {
        (config := _config(stem)): best_yaml(
            finding.config, _head(result, finding, config, command)
        )
        for finding, stem in zip(result.findings, stems, strict=True)
    }
    texts = {
        path: page(result, path, command=command, figures=drawn),
        path.with_suffix(".html"): _html(result, name),
        **configs,
    }
    return [*write_files(texts, {}), *(figure for of_study in drawn for figure in of_study)]


def _figures(result: SearchResult, stems: Sequence[Path], name: str) -> list[list[Path]]:
    from gcl_hard.reports.search_figures import write_figures

    step, grid = step_of(result), grid_of(result)
    return [
        write_figures(finding.study, stem, title=name, step=step, grid=grid)
        for finding, stem in zip(result.findings, stems, strict=True)
    ]


def _html(result: SearchResult, name: str) -> str:
    from gcl_hard.reports.search_figures import html

    return html(result, title=name)


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


def page(
    result: SearchResult, path: Path, *, command: str, figures: Sequence[Sequence[Path]]
) -> str:
    """The page of a search, as Markdown for GitHub and MkDocs.

    Args:
        result: of the search.
        path: where it will be.
        command: that searched.
        figures: files of every study.
    """
    counts = [Counts.of(f.study.get_trials(deepcopy=False)) for f in result.findings]
    done = [one.finished for one in counts]
    several = len(result.findings) > 1
    parts = [
        {
            "finding": finding,
            "chosen": escaped(settings(finding.best.params)),
            "config": _config(stem),
            "missing": _not_in_config(result, finding),
            "best": _markdown(best_trials(finding.study, finding.best)),
            "grid": _markdown(
                grid_table(finding.study, finding.best, inner_error(result, finding))
            ),
            "against_grid": against_grid(result, finding),
            "states": _markdown(states(finding.study), texts=2),
            "figures": {f.name: ALT[f.stem.removeprefix(f"{stem.name}-")] for f in drawn},
        }
        for finding, stem, drawn in zip(result.findings, _stems(result, path), figures, strict=True)
    ]
    return rendered(
        "search.md.j2",
        head=HEAD,
        title=title(result),
        command=command,
        asked=result.asked,
        done=done,
        finished=min(done) >= result.asked,
        over=all(one.over(result.asked) for one in counts),
        took=duration(sum(finding.seconds for finding in result.findings)),
        several=several,
        warning=chosen_on_test(result),
        numbers=numbers(result),
        studies=_markdown(studies(result)) if several else "",
        html=path.with_suffix(".html").name,
        space=_markdown(space([finding.study for finding in result.findings]), texts=2),
        parts=parts,
        grid=grid_of(result),
        facts={
            FACTS.get(name, name.replace("_", " ")): escaped(_fact(fact))
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
        config=config,
        command=command,
        finding=finding,
        warning=chosen_on_test(result),
        missing=_not_in_config(result, finding),
    ).rstrip()


def _not_in_config(result: SearchResult, finding: Finding) -> str:
    """What the config cannot hold, so that the command does not run it."""
    facts, missing = result.facts, []
    if facts.get("graphs_own"):
        missing.append(f"the graphs of {facts['dataset']}, which are your own")
    if facts.get("encoder_own"):
        own = {k: v for k, v in finding.best.params.items() if k.startswith("encoder.")}
        given = ", ".join(f"{name.removeprefix('encoder.')}={v!r}" for name, v in own.items())
        missing.append(f"your own encoder {facts.get('encoder')}({given})")
    return f"Not in it, as no config has them: {' and '.join(missing)}." if missing else ""


def best_yaml(config: RunConfig, head: str) -> str:
    """A config of exactly one configuration, for ``python -m gcl_hard.bench --config``.

    Settings that a method does not have, such as β of hscl-tau, are left out where the flag takes
    no null.

    Args:
        config: the settings.
        head: what the comment at the top says; may have several lines.

    Returns:
        YAML; numbers are read back with the same bits.

    Example:
        >>> from gcl_hard.experiments.config import GraphConfig
        >>> print("\\n".join(best_yaml(GraphConfig(beta=2.5), "The best.").splitlines()[:6]))
        # The best.
        <BLANKLINE>
        dataset: [MUTAG]
        method: [hscl]
        protocol: [transductive]
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


def terminal(result: SearchResult) -> RenderableType:
    """The best settings and the numbers, each with what it means."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable.grid(padding=(0, 2), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    rows = [(finding.study.study_name, _found(finding)) for finding in result.findings]
    rows += [(f"{number.name} {number.value}", number.meaning) for number in numbers(result)]
    for row in rows:
        table.add_row(*map(Text, row))  # reasons may have brackets, which rich would read
    warning = chosen_on_test(result)
    return Group(table, *([Text(warning, style="bold yellow")] if warning else []))


def _found(finding: Finding) -> str:
    one = Counts.of(finding.study.get_trials(deepcopy=False))
    failed = "; ".join(f"{n} x {reason}" for reason, n in one.failures.most_common())
    counts = f"{one.complete} complete, {one.pruned} pruned"
    counts += f", {one.failures.total()} failed ({failed})" if failed else ""
    where = "on the test folds" if finding.config.protocol == "transductive" else "inside"
    scores = f"{finding.inner:.1f} % {where}"
    scores += "" if finding.outer is None else f", {finding.outer:.1f} % outside"
    best = settings(finding.best.params)
    return f"trial {finding.best.number} of {counts}: {best}; {scores}"
