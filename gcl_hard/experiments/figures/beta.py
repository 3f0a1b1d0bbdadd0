"""HCL's Fig. 2: accuracy against β, and what debiasing and hard negatives each add."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gcl_hard.errors import InputError
from gcl_hard.evaluation.statistics import Interval, corrected_interval
from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.figures import axes
from gcl_hard.experiments.figures.accuracies import (
    Grouped,
    Spread,
    grouped,
    seen_labels,
    spread,
)
from gcl_hard.experiments.figures.naming import labels, subject
from gcl_hard.experiments.figures.runs import Run, by_cell, versions
from gcl_hard.experiments.figures.same_seeds import same_seeds
from gcl_hard.experiments.figures.written import Drawn, title
from gcl_hard.experiments.reporting.figures.drawing import COLOURS, RULE, TEXT, WIDTH
from gcl_hard.methods import method
from gcl_hard.reports.frame import Scores
from gcl_hard.reports.text import (
    of_images,
    test_part,
)

RULES = ("ucl", "dcl", "scl")
"""Methods without β, drawn as horizontal rules."""
PARTS = {"ucl": "neither", "dcl": "debiased", "hucl": "hard", "hcl": "hard,\ndebiased"}
"""Of the ablation: what a method adds to plain contrast."""
DASHES = axes.STYLES[1:]
"""Of rules: two at one height are both seen."""
DODGE, ROOM = 0.09, 0.6
"""Between lines at one β, whose neighbours are 1 apart, and all of them together."""
EDGE = 0.55
"""From where bars of rules stand to where one more β would."""
ROW, SLANTED = 0.19, 0.9
"""Of the legend, and what slanted names of many dots take more than level ones, inches."""


def draw(runs: Sequence[Run]) -> Drawn:
    """Accuracy against β, and the debiasing ablation; one of them where the other cannot be drawn.

    All is over the same seeds, where there are such.

    Args:
        runs: of one data set and protocol.

    Returns:
        The figure and a row for each point, rule and dot.

    Raises:
        InputError: if there are neither two β of a method, nor a debiased method and one that is
            not.

    Source: Robinson et al. (2021), Fig. 2 and appendix C.
    """
    curves, dots = _curves(runs), _ablation(runs)
    if not curves and not dots:
        raise InputError(
            "accuracy against β needs two β of hucl, hcl or hscl (--beta 0.5,1,2), and the "
            "debiasing ablation dcl or hcl beside ucl or hucl (--method ucl,dcl,hucl,hcl)"
        )
    kept, over = same_seeds(_points(runs, curves, dots))
    curves, dots, rules = _curves(kept), _ablation(kept), _rules(kept, curves)
    lines = _named(curves, rules) if curves else {}
    down = math.ceil(len(lines) / axes.columns([*lines.values()]))
    height = 3.6 + ROW * down + SLANTED * (len(dots) > len(PARTS))
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    widths = [width for width, there in ((5, curves), (3, dots)) if there]
    panels = figure.subplots(1, len(widths), squeeze=False, width_ratios=widths)[0]
    for panel in panels:
        panel.tick_params(labelsize=TEXT, length=2)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color=RULE, linewidth=0.6)
    part = test_part(runs[0].cell.protocol)
    panels[0].set_ylabel(f"accuracy on {part}, percent", fontsize=TEXT)
    rows, shown, notes = [], [], []
    if curves:
        rows += _draw_curves(figure, panels[0], curves, rules)
        shown.append("Accuracy against β")
        notes.append(AGAINST + ANNEALED * any(cell.beta_changes for cell in curves))
    if dots:
        rows += _draw_dots(panels[-1], dots)
        shown.append("debiasing ablation" if curves else "Debiasing ablation")
        notes.append(ABLATION.format("" if of_images(runs[0].cell.protocol) else RESAMPLED))
    for panel in panels:  # an interval may go beyond what an accuracy can be
        panel.set_ylim(top=min(100.5, panel.get_ylim()[1]))
    if len(panels) > 1:
        notes.append("Each half has an axis of its own.")
    notes.append(f"Over {over}.")
    title(figure, f"{' and '.join(shown)}. {subject(kept)}")
    dataset: dict[str, object] = {"dataset": runs[0].cell.dataset, "accuracy_on": part}
    return Drawn(
        figure,
        [dataset | row for row in rows],
        " ".join(notes) + seen_labels(kept) + versions(kept),
    )


AGAINST = (
    "Against β: means over seeds, bars ± their standard deviation (of methods without β at the "
    "right); β at equal distances."
)
ANNEALED = " Annealed, β is that of the first epoch and falls in equal steps."
ABLATION = "Ablation: means and 95 % intervals over seeds{}."
RESAMPLED = " and folds, variance corrected for the samples that folds share"


def _curves(runs: Sequence[Run]) -> Grouped:
    """Methods with β, if one of them has two."""
    lines = grouped([run for run in runs if run.cell.beta is not None], "beta", 1.0)
    return lines if any(len(points) > 1 for points in lines.values()) else {}


def _rules(runs: Sequence[Run], curves: Grouped) -> dict[Cell, list[Run]]:
    """Methods without β, if there are lines beside them."""
    return {c: own for c, own in by_cell(runs).items() if c.method in RULES and curves}


def _points(
    runs: Sequence[Run], curves: Grouped, dots: Mapping[Cell, list[Run]]
) -> dict[str, list[list[Run]]]:
    """By what lines, rules and dots are called, the seeds of each of their points."""
    rules = _rules(runs, curves)
    called = _named(curves, rules)
    found = {called[cell]: [*points.values()] for cell, points in curves.items()}
    there = {own[0].cell for points in curves.values() for own in points.values()}
    alone = {cell: own for cell, own in {**rules, **dots}.items() if cell not in there}
    return found | {name: [alone[cell]] for cell, name in labels(alone).items()}


def _ablation(runs: Sequence[Run]) -> dict[Cell, list[Run]]:
    """Methods at one β > 0, 1 if all have it, else the least; none without both kinds."""
    cells = {
        cell: own
        for cell, own in sorted(by_cell(runs).items(), key=lambda item: _place(item[0]))
        if cell.method in PARTS and not cell.beta_changes and cell.beta != 0
    }
    each = [{c.beta for c in cells if c.method == name} for name in ("hucl", "hcl")]
    shared = set.intersection(*(betas for betas in each if betas)) if any(each) else set()
    one = 1.0 if 1.0 in shared else min((beta for beta in shared if beta), default=None)
    found = {cell: own for cell, own in cells.items() if cell.beta in (None, one)}
    return found if len({method(cell.method).debias for cell in found}) == 2 else {}


def _place(cell: Cell) -> int:
    return [*PARTS, cell.method].index(cell.method)


def _named(curves: Grouped, rules: Iterable[Cell]) -> dict[Cell, str]:
    """Lines without their β, which is on the axis, and with their annealing."""
    plain = {cell: replace(cell, beta_changes=0) if cell in curves else cell
             for cell in (*curves, *rules)}  # fmt: skip
    called = labels(dict.fromkeys(plain.values()))
    return {
        cell: called[alike].replace(" β=1", "", 1)
        + (f" annealed in {cell.beta_changes} steps" if cell.beta_changes else "")
        for cell, alike in plain.items()
    }


def _draw_curves(
    figure: Figure, panel: Axes, curves: Grouped, rules: Mapping[Cell, list[Run]]
) -> list[dict[str, object]]:
    styles, rows = axes.styles(_named(curves, rules)), []
    ticks = sorted({beta for points in curves.values() for beta in points})
    dodge = min(DODGE, ROOM / len(curves))
    for index, (cell, own) in enumerate(rules.items()):
        at, style = spread(own), styles[cell]
        style |= {"marker": "", "linestyle": DASHES[index % len(DASHES)]}
        panel.axhline(at.mean, linewidth=1.5, **style)
        _bar(panel, len(ticks) - EDGE + DODGE * index, at, style["color"])
        rows.append(_row("beta", cell, style["label"], at))
    panel.set_xticks(range(len(ticks)), [f"{beta:g}" for beta in ticks])
    panel.set_xlim(-0.5, len(ticks) - EDGE + DODGE * len(rules))
    panel.set_xlabel("β", fontsize=TEXT)
    for index, (cell, points) in enumerate(curves.items()):
        style, shift = styles[cell], dodge * (index - (len(curves) - 1) / 2)
        values = {beta: spread(own) for beta, own in points.items()}
        x = [ticks.index(beta) + shift for beta in points]
        panel.plot(x, [at.mean for at in values.values()], linewidth=1.5, markersize=5, **style)
        for where, (beta, at) in zip(x, values.items(), strict=True):
            _bar(panel, where, at, style["color"])
            rows.append(_row("beta", cell, style["label"], at, beta=beta))
    axes.key(figure, list(styles.values()))
    return rows


def _bar(panel: Axes, x: float, at: Spread, colour: str) -> None:
    """± the standard deviation; nothing of one seed."""
    if at.std is not None:
        panel.vlines(x, at.mean - at.std, at.mean + at.std, color=colour, linewidth=1.2)


def _draw_dots(panel: Axes, dots: Mapping[Cell, list[Run]]) -> list[dict[str, object]]:
    rows, called = [], labels(dots)
    for x, (cell, own) in enumerate(dots.items()):
        at, interval, hue = spread(own), _interval(own), COLOURS[cell.method]
        panel.plot([x], [at.mean], "o", markersize=7, color=hue, label=f"_{called[cell]}")
        if interval is not None:
            panel.vlines(x, interval.low, interval.high, color=hue, linewidth=1.8)
        rows.append(_row("ablation", cell, called[cell], at, beta=cell.beta, interval=interval))
    names = [f"{PARTS[cell.method]}\n({label})" for cell, label in called.items()]
    panel.set_xticks(range(len(dots)), names)
    if len(dots) > len(PARTS):
        names = [name.replace("\n", " ") for name in names]
        panel.set_xticks(range(len(dots)), names, rotation=30, ha="right", rotation_mode="anchor")
    panel.set_xlim(-0.5, len(dots) - 0.5)
    panel.set_title("what is added to plain contrast", fontsize=TEXT)
    return rows


def _interval(own: Sequence[Run]) -> Interval | None:
    scores = Scores(tuple(run.seed for run in own), tuple(run.accuracies for run in own))
    if len(scores.flat) < 2:
        return None
    return corrected_interval(scores.flat, test_share=scores.test_share)


def _row(
    panel: str, cell: Cell, line: str, at: Spread, *, beta: float | None = None,
    interval: Interval | None = None,
) -> dict[str, object]:  # fmt: skip
    return {
        "panel": panel, "method": cell.method, "line": line, "beta": beta,
        "beta_changes": cell.beta_changes, "seeds": at.seeds, "accuracy_mean": at.mean,
        "accuracy_std": at.std, "interval_low": interval.low if interval else None,
        "interval_high": interval.high if interval else None,
    }  # fmt: skip
