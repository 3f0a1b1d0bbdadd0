"""HCL's Fig. 2: accuracy against β, and what debiasing and hard negatives each add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gcl_hard.errors import InputError
from gcl_hard.evaluation.statistics import Interval, corrected_interval
from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.figures import epochs
from gcl_hard.experiments.figures.accuracies import Lines, Spread, along, seen, spread, styles
from gcl_hard.experiments.figures.naming import labels, subject
from gcl_hard.experiments.figures.runs import Run, by_cell
from gcl_hard.experiments.figures.written import Drawn, title
from gcl_hard.experiments.reporting.figures.drawing import COLOURS, RULE, TEXT, WIDTH
from gcl_hard.experiments.reporting.words import of_images, test_part
from gcl_hard.experiments.results import Scores
from gcl_hard.methods import method

RULES = ("ucl", "dcl", "scl")
"""Methods without β, drawn as horizontal rules."""
PARTS = {"ucl": "neither", "dcl": "debiased", "hucl": "hard", "hcl": "hard,\ndebiased"}
"""Of the ablation: what a method adds to plain contrast."""
DASHES = epochs.STYLES[1:]
"""Of rules: two at one height are both seen."""
DODGE = 0.09
"""Between lines at one β, whose neighbours are 1 apart."""


def draw(runs: Sequence[Run]) -> Drawn:
    """Accuracy against β, and the debiasing ablation; one of them where the other cannot be drawn.

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
    rules = {c: own for c, own in by_cell(runs).items() if c.method in RULES and curves}
    figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
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
        notes.append(AGAINST + (ANNEALED if any(c.beta_changes for c in curves) else ""))
    if dots:
        rows += _draw_dots(panels[-1], dots)
        shown.append("debiasing ablation" if curves else "Debiasing ablation")
        notes.append(ABLATION.format("" if of_images(runs[0].cell.protocol) else RESAMPLED))
    for panel in panels:  # an interval may go beyond what an accuracy can be
        panel.set_ylim(top=min(100.5, panel.get_ylim()[1]))
    if len(panels) > 1:
        notes.append("Each half has an axis of its own.")
    title(figure, f"{' and '.join(shown)}. {subject(runs)}")
    dataset: dict[str, object] = {"dataset": runs[0].cell.dataset, "accuracy_on": part}
    return Drawn(figure, [dataset | row for row in rows], " ".join(notes) + seen(runs))


AGAINST = "Against β: means over seeds, bars ± their standard deviation; β at equal distances."
ANNEALED = " Annealed, β is that of the first epoch and falls in equal steps."
ABLATION = "Ablation: means and 95 % intervals over seeds{}."
RESAMPLED = " and folds, variance corrected for the samples that folds share"


def _curves(runs: Sequence[Run]) -> Lines:
    """Methods with β, if one of them has two."""
    lines = along([run for run in runs if run.cell.beta is not None], "beta", 1.0)
    return lines if any(len(points) > 1 for points in lines.values()) else {}


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


def _named(curves: Lines, rules: Mapping[Cell, Any]) -> dict[Cell, str]:
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
    figure: Figure, panel: Axes, curves: Lines, rules: Mapping[Cell, list[Run]]
) -> list[dict[str, object]]:
    looks = styles(_named(curves, rules))
    rows = []
    for index, (cell, own) in enumerate(rules.items()):
        at, look = spread(own), looks[cell]
        look |= {"marker": "", "linestyle": DASHES[index % len(DASHES)]}
        panel.axhline(at.mean, linewidth=1.5, **look)
        rows.append(_row("beta", cell, look["label"], at))
    ticks = sorted({beta for points in curves.values() for beta in points})
    panel.set_xticks(range(len(ticks)), [f"{beta:g}" for beta in ticks])
    panel.set_xlim(-0.5, len(ticks) - 0.5)
    panel.set_xlabel("β", fontsize=TEXT)
    for index, (cell, points) in enumerate(curves.items()):
        look, shift = looks[cell], DODGE * (index - (len(curves) - 1) / 2)
        x = [ticks.index(beta) + shift for beta in points]
        panel.plot(x, [at.mean for at in points.values()], linewidth=1.5, markersize=5, **look)
        for where, (beta, at) in zip(x, points.items(), strict=True):
            std = at.std or 0.0
            panel.vlines(where, at.mean - std, at.mean + std, color=look["color"], linewidth=1.2)
            rows.append(_row("beta", cell, look["label"], at, beta=beta))
    epochs.key(figure, list(looks.values()))
    return rows


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
