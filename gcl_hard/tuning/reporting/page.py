"""The page of a search, and the figures, the HTML page and the best settings beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from gcl_hard.errors import InputError
from gcl_hard.experiments.reporting.markdown import markdown_table
from gcl_hard.experiments.reporting.words import count
from gcl_hard.io import atomic_write
from gcl_hard.tuning.reporting.best import best_yaml
from gcl_hard.tuning.reporting.numbers import (
    against_grid,
    chosen_on_test,
    grid_of,
    inner_error,
    numbers,
    step_of,
)
from gcl_hard.tuning.reporting.spoken import complete
from gcl_hard.tuning.reporting.tables import (
    Table,
    best_trials,
    chosen,
    paper_grid,
    space,
    states,
)
from gcl_hard.tuning.reporting.words import duration, percent, value
from gcl_hard.tuning.tally import Tally

if TYPE_CHECKING:
    from gcl_hard.tuning.outcome import Finding, Outcome

HEAD = "# Search: "
ALT = {
    "history": "Inner accuracies of the trials in their order, with the best so far",
    "importances": "How much each setting matters for the inner accuracy",
    "slices": "Inner accuracy against each setting, one panel each",
    "contour": "Inner accuracy over two settings",
    "intermediate": "Inner accuracy while training, one line a trial",
}


def write(outcome: Outcome, path: Path, *, command: str) -> list[Path]:
    """Write the page, and the figures, the HTML page and the best settings beside it.

    Args:
        outcome: of the search.
        path: of the page, NAME.md; the rest is NAME.html, NAME-<figure>.png and NAME-best.yaml,
            of several studies NAME-outer1-<figure>.png and NAME-outer1-best.yaml, ….
        command: that searched.

    Returns:
        What was written, the page first.

    Raises:
        InputError: if the place cannot be written to; names it.
    """
    # matplotlib and plotly, only where they draw
    from gcl_hard.tuning.reporting.figures import write_figures
    from gcl_hard.tuning.reporting.html import html

    check_target(path)
    title = _title(outcome)
    figures, configs = [], {}
    for finding, stem in zip(outcome.findings, _stems(outcome, path), strict=True):
        figures.append(
            write_figures(
                finding.study, stem, title=title, step=step_of(outcome), grid=grid_of(outcome)
            )
        )
        config = stem.with_name(f"{stem.name}-best.yaml")
        configs[config] = best_yaml(finding.cell, _head(outcome, finding, config, command))
    texts = {
        path: page(outcome, path, command=command, figures=figures),
        path.with_suffix(".html"): html(outcome, title=title),
        **configs,
    }
    for file, text in texts.items():
        with atomic_write(file) as whole:
            whole.write(text.encode())
    return [*texts, *(figure for of_study in figures for figure in of_study)]


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
        raise InputError(f"{path} is no page of a search: give the report another name")


def page(outcome: Outcome, path: Path, *, command: str, figures: Sequence[Sequence[Path]]) -> str:
    """The page, as Markdown for GitHub and MkDocs.

    Args:
        outcome: of the search.
        path: where it will be.
        command: that searched.
        figures: files of every study.

    Returns:
        The text; every sentence about the numbers is made from them.
    """
    note = chosen_on_test(outcome)
    parts = [
        f"{HEAD}{_title(outcome)}",
        _trials(outcome),
        f"```bash\n{command}\n```",
        "## What was found",
        f"> **No estimate.** {note}" if note else "",
        "\n".join(f"- **{n.name}: {n.value}.** {n.meaning}" for n in numbers(outcome)),
        _studies(outcome),
        f"The same figures to move in are in `{path.with_suffix('.html').name}`, beside this page; "
        f"it works offline.",
        "## What was searched",
        _table(space([finding.study for finding in outcome.findings])),
        "Everything else was as the command has it.",
    ]
    several = len(outcome.findings) > 1
    for number, (finding, stem) in enumerate(
        zip(outcome.findings, _stems(outcome, path), strict=True)
    ):
        parts += [f"## Outer part {number + 1}"] if several else []
        parts += _study(outcome, finding, stem, figures[number], "###" if several else "##")
    parts += ["## How it was searched", _facts(outcome.facts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _study(
    outcome: Outcome, finding: Finding, stem: Path, figures: Sequence[Path], level: str
) -> list[str]:
    config = stem.with_name(f"{stem.name}-best.yaml")
    own = _not_in_config(outcome, finding)
    parts = [
        f"{level} The best settings",
        f"{_text(chosen(finding.best))}. With all other settings in "
        f"[{config.name}]({config.name}){'.' if own else ', which can be run as it is:'}",
        own or f"```bash\n{_launch(config)}\n```",
        "The best trials:",
        _table(best_trials(finding.study, finding.best)),
    ]
    grid = paper_grid(finding.study, finding.best, inner_error(outcome, finding))
    if grid:
        name = grid_of(outcome)
        parts += [
            f"{level} {name[0].upper()}{name[1:]}",
            against_grid(outcome, finding) or "",
            _table(grid),
        ]
    parts += [f"{level} Trials", _table(states(finding.study))]
    for figure in figures:
        alt = ALT[figure.stem.removeprefix(f"{stem.name}-")]
        parts.append(f"![{alt}]({figure.name})")
    return parts


def _title(outcome: Outcome) -> str:
    facts = outcome.facts
    return f"{facts['method']} on {facts['dataset']}, protocol {facts['protocol']}"


def _stems(outcome: Outcome, path: Path) -> list[Path]:
    stem = path.with_suffix("")
    if len(outcome.findings) == 1:
        return [stem]
    return [stem.with_name(f"{stem.name}-outer{k + 1}") for k in range(len(outcome.findings))]


def _trials(outcome: Outcome) -> str:
    """How far the search is, and how long it took."""
    done = [
        sum(t.state.name in ("COMPLETE", "PRUNED") for t in f.study.get_trials(deepcopy=False))
        for f in outcome.findings
    ]
    took = duration(sum(finding.seconds for finding in outcome.findings))
    asked = count(outcome.asked, "trial")
    each = f" in each of {len(done)} studies" if len(done) > 1 else ""
    if min(done) >= outcome.asked:
        return f"{asked}{each}, complete or pruned, {took} of work, by this command:"
    there = ", ".join(map(str, done))
    over = all(Tally.of(f.study.get_trials()).over(outcome.asked) for f in outcome.findings)
    goes_on = "The others failed. The command:" if over else "This command goes on:"
    return f"{there} of {asked}{each} are complete or pruned. {goes_on}"


def _studies(outcome: Outcome) -> str:
    """A row a study, where there are several."""
    if len(outcome.findings) == 1:
        return ""
    heads = ["outer part", "inner score", "outer score", "optimism, points", "settings"]
    rows = [
        [
            str(number),
            percent(finding.inner),
            percent(finding.outer),
            "–" if finding.optimism is None else f"{finding.optimism:+z.1f}",
            chosen(finding.best),
        ]
        for number, finding in enumerate(outcome.findings, 1)
    ]
    return _table(Table(heads, rows))


def _launch(config: Path) -> str:
    return f"python -m gcl_hard.bench --config {config.as_posix()}"


def _head(outcome: Outcome, finding: Finding, config: Path, command: str) -> str:
    n = count(len(complete(finding.study)), "trial")
    outer = "" if finding.outer is None else f", outer score {percent(finding.outer)}"
    own = _not_in_config(outcome, finding)
    lines = [
        f"The best of {n} of a search, {_title(outcome)}{'.' if own else ':'}",
        *([] if own else [f"  {_launch(config)}"]),
        f"Searched: {chosen(finding.best)}; everything else as this command has it:",
        f"  {command}",
        f"Inner score {percent(finding.inner)}{outer}.",
    ]
    return "\n".join(
        [*lines, *filter(None, [chosen_on_test(outcome), _not_in_config(outcome, finding)])]
    )


def _not_in_config(outcome: Outcome, finding: Finding) -> str:
    """What the config cannot hold, so that the command does not run it."""
    facts = outcome.facts
    said = []
    if facts.get("graphs_own"):
        said.append(f"the graphs of {facts['dataset']}, which are your own")
    if facts.get("encoder_own"):
        own = {k: v for k, v in finding.best.params.items() if k.startswith("encoder.")}
        given = ", ".join(f"{name.removeprefix('encoder.')}={v!r}" for name, v in own.items())
        said.append(f"your own encoder {facts.get('encoder')}({given})")
    return f"Not in it, as no config has them: {' and '.join(said)}." if said else ""


def _facts(facts: Mapping[str, object]) -> str:
    return "\n".join(
        f"- {FACTS.get(name, name.replace('_', ' '))}: {_text(_fact(fact))}"
        for name, fact in facts.items()
        if fact not in (None, {}) and name not in ELSEWHERE
    )


def _fact(fact: object) -> str:
    if isinstance(fact, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {value(v)}" for name, v in fact.items())
    return value(fact)


ELSEWHERE = ("dimensions", "grid", "encoder_own", "graphs_own")  # in places of their own
FACTS = {
    "dataset": "data set",
    "inner": "inner score on",
    "outer": "outer score on",
    "n_inner_test": "held-out items of an inner score",
    "n_outer_test": "held-out items of an outer score",
}


def _table(table: Table) -> str:
    heads, *body = [[_text(cell) for cell in row] for row in (table.heads, *table.rows)]
    return markdown_table(heads, body, texts=table.texts)


def _text(text: str) -> str:
    """Words of users, that Markdown takes them for words."""
    return escape(text, quote=False).replace("|", "\\|")
