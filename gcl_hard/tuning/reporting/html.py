"""One page with interactive figures that needs nothing else: no network, no files beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from optuna import visualization
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.study import Study

from gcl_hard.reports.study import (
    against_grid,
    best_trials,
    chosen_on_test,
    complete,
    numbers,
    space,
    states,
    step_of,
)
from gcl_hard.reports.text import (
    ACCURACY,
    duration,
    percent,
    settings,
)
from gcl_hard.tuning.reporting.spoken import importances, plane, quiet, spoken

if TYPE_CHECKING:
    from gcl_hard.tuning.outcome import Finding, Outcome

STYLE = """
:root { color-scheme: light dark; --ink: #222; --ground: #fff; --rule: #ddd; --soft: #f4f4f4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e4e4; --ground: #181a1b; --rule: #444; --soft: #25282a; }
}
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem; color: var(--ink);
  background: var(--ground); font: 16px/1.5 system-ui, sans-serif; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); gap: 1rem; }
dl div { background: var(--soft); border-radius: .5rem; padding: .75rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; } dd.value { font-size: 1.25rem; }
.note { border-left: .3rem solid #d55e00; padding: .5rem 1rem; background: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid var(--rule); text-align: right; }
th.words, td.words { text-align: left; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; margin-bottom: .25rem; }
figure .wide { background: #fff; border-radius: .5rem; }
"""
CONFIG = {"displaylogo": False, "responsive": True, "showSendToCloud": False}  # stay offline
FONT = {"family": "system-ui, sans-serif", "color": "#222", "size": 13}


def html(outcome: Outcome, *, title: str) -> str:
    """The page of a search: its numbers and, for every study, tables and interactive figures.

    Args:
        outcome: of the search.
        title: of the page.

    Returns:
        HTML with the script that draws, once; it loads nothing.
    """
    note = chosen_on_test(outcome)
    cards = "".join(
        f'<div><dt>{escape(n.name)}</dt><dd class="value">{escape(n.value)}</dd>'
        f"<dd>{escape(n.meaning)}</dd></div>"
        for n in numbers(outcome)
    )
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="note">{escape(note)}</p>' if note else "",
        f"<dl>{cards}</dl>",
        "<h2>What was searched</h2>",
        _table(space([finding.study for finding in outcome.findings])),
    ]
    several = len(outcome.findings) > 1
    for number, finding in enumerate(outcome.findings, 1):
        body += _study(outcome, finding, number if several else None)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body>\n</html>\n"
    )


def _study(outcome: Outcome, finding: Finding, number: int | None) -> Iterator[str]:
    if number is None:
        yield "<h2>The best settings</h2>"
    else:
        yield f"<h2>Outer part {number}</h2>"
        yield (
            f"<p>Inner score {percent(finding.inner)}, outer score {percent(finding.outer)}.</p>"
        )
    yield f"<p>{escape(settings(finding.best.params))}</p>"
    yield _table(best_trials(finding.study, finding.best))
    if said := against_grid(outcome, finding):
        yield f"<p>{escape(said)}</p>"
    yield f"<p>Trials after {duration(finding.seconds)}:</p>"
    yield _table(states(finding.study))
    for name, (caption, figure) in _figures(spoken(finding.study), step_of(outcome)).items():
        first = name == "history" and number in (None, 1)
        drawn = figure.to_html(
            full_html=False, include_plotlyjs=first, config=CONFIG, default_height="440px",
            div_id=f"{name}-{number or 1}",
        )  # fmt: skip
        yield (
            f"<figure><figcaption>{escape(caption)}</figcaption>"
            f'<div class="wide">{drawn}</div></figure>'
        )


def _figures(study: Study, step: str) -> dict[str, tuple[str, Any]]:
    """What the trials give, by name, with captions; the first is always there."""
    said: dict[str, Any] = {"target_name": ACCURACY}
    with quiet():
        figure = visualization.plot_optimization_history(study, **said)
        figure.update_traces(name="best so far", selector={"name": "Best Value"})
        found = {"history": ("The trials in their order", figure)}
        if complete(study):
            found["slice"] = (
                "Inner accuracy against each setting", visualization.plot_slice(study, **said),
            )  # fmt: skip
            found["parallel"] = (
                "All settings of every trial",
                visualization.plot_parallel_coordinate(study, **said),
            )
        if importances(study):
            figure = visualization.plot_param_importances(study, **said)
            figure.update_layout(xaxis_title="share (together 1)", yaxis_title=None)
            found["importances"] = ("How much each setting matters", figure)
        if pair := plane(study):
            found["contour"] = (
                f"Inner accuracy over {pair[0]} and {pair[1]}; colours between trials are "
                "interpolated",
                visualization.plot_contour(study, params=list(pair), **said),
            )
        if any(trial.intermediate_values for trial in study.get_trials(deepcopy=False)):
            figure = visualization.plot_intermediate_values(study)
            figure.update_layout(xaxis_title=step, yaxis_title=ACCURACY)
            found["intermediate"] = ("Inner accuracy while training", figure)
        found["timeline"] = ("When trials ran", visualization.plot_timeline(study))
    ranges = _decades(study)
    for _, figure in found.values():
        figure.update_layout(title=None, font=FONT, margin={"t": 40, "r": 20})
        figure.for_each_xaxis(partial(_plain, ranges))
        figure.for_each_yaxis(partial(_plain, ranges))
    return found


def _decades(study: Study) -> dict[str, list[float]]:
    """Ranges of the settings that were searched over decades, in powers of ten."""
    return {
        name: [math.log10(d.low) - 0.1, math.log10(d.high) + 0.1]
        for trial in study.get_trials(deepcopy=False)
        for name, d in trial.distributions.items()
        if isinstance(d, FloatDistribution | IntDistribution) and d.log and d.high >= 10 * d.low
    }


def _plain(ranges: Mapping[str, list[float]], axis: Any) -> None:
    """A logarithmic axis with its powers of ten alone, as plain numbers."""
    if axis.type == "log" and axis.title.text in ranges:
        axis.update(range=ranges[axis.title.text], dtick=1, tickformat="~g")


def _table(table: Any) -> str:
    return f'<div class="wide">{table.to_html(index=False, border=0)}</div>'
