"""Figures of a study as PNG: history, importances, slices, contour, and scores while training."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial
from optuna.visualization import matplotlib as drawn

from gcl_hard.experiments.reporting.figures.drawing import INK, RULE
from gcl_hard.places import written_whole
from gcl_hard.reports.study import complete
from gcl_hard.reports.text import (
    ACCURACY,
    value,
)
from gcl_hard.tuning.lease import GRID
from gcl_hard.tuning.reporting.spoken import importances, plane, quiet, spoken

DPI, WIDTH = 130, 7.5  # 975 pixels
ACROSS = 3  # panels
SMALL, TEXT = 9, 10.5  # points
BLUE, ORANGE, RED = "#0072B2", "#E69F00", "#D55E00"
RING: dict[str, Any] = {
    "facecolors": "none",
    "edgecolors": RED,
    "linewidths": 1.6,
    "s": 110,
    "zorder": 4,
}
STAR: dict[str, Any] = {
    "marker": "*",
    "color": ORANGE,
    "edgecolors": INK,
    "linewidths": 0.7,
    "s": 170,
    "zorder": 5,
}


def write_figures(
    study: Study, stem: Path, *, title: str, step: str = "epoch", grid: str = "the paper's grid"
) -> list[Path]:
    """Draw what can be drawn of a study.

    Args:
        study: of inner accuracies, percent.
        stem: ``a/b`` gives ``a/b-history.png``, ``a/b-importances.png``, ``a/b-slices.png``,
            ``a/b-contour.png`` and ``a/b-intermediate.png``.
        title: what was searched, above every figure.
        step: what intermediate scores are after, ``epoch`` or ``fold``.
        grid: what the settings that were tried first are called.

    Returns:
        The files; a figure that the trials do not give is left out.

    Raises:
        InputError: if the place cannot be written to.
    """
    told, written = spoken(study), []
    if not complete(told):
        return []
    draw: dict[str, Callable[[Study], Figure | None]] = {
        "history": partial(_history, grid=grid),
        "importances": _importances,
        "slices": partial(_slices, grid=grid),
        "contour": partial(_contour, grid=grid),
        "intermediate": partial(_intermediate, step=step),
    }
    with _drawing():
        for name, of_study in draw.items():
            with quiet():
                figure = of_study(told)
            if figure is None:
                continue
            above = figure.get_suptitle()
            figure.suptitle("\n".join(textwrap.wrap(f"{title}: {above}", 84)), x=0.012, ha="left",
                            fontsize=11, color=INK)  # fmt: skip
            path = stem.with_name(f"{stem.name}-{name}.png")
            with written_whole(path) as file:
                figure.savefig(file, format="png", dpi=DPI, facecolor="white")
            written.append(path)
    return written


@contextmanager
def _drawing() -> Iterator[None]:
    """Draw without a screen; leave no figure, style or backend behind."""
    backend, there = mpl.get_backend(), plt.get_fignums()
    plt.switch_backend("agg")
    try:
        with mpl.rc_context():
            yield
    finally:
        for number in set(plt.get_fignums()).difference(there):
            plt.close(number)
        plt.switch_backend(backend)


def _history(study: Study, grid: str) -> Figure:
    axes = drawn.plot_optimization_history(study, target_name=ACCURACY)
    figure = _figure(axes, height=4.0)
    points, line = axes.collections[0], axes.lines[0]
    points.set(color=BLUE, alpha=0.8, label="a trial")
    line.set(color=INK, alpha=0.8, linewidth=1.4, drawstyle="steps-post", label="best so far")
    axes.set_xlabel("trial")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlim(-0.8, len(study.trials) - 0.2)
    marks = _mark(axes, study, lambda trial: (trial.number, trial.value), grid)
    _legend(figure, [points, line, *marks])
    figure.suptitle("the trials in their order")
    return figure


def _importances(study: Study) -> Figure | None:
    shares = importances(study)
    if not shares:
        return None
    axes = drawn.plot_param_importances(study, target_name=ACCURACY)
    figure = _figure(axes, height=1.3 + 0.42 * len(shares))
    for bar in axes.patches:
        bar.set_color(BLUE)
    for text in axes.texts:
        text.set(text=f" {text.get_text().strip()}", fontsize=SMALL, color=INK)
    axes.set(xlabel="share (together 1)", ylabel="", xlim=(0, 1.12 * max(shares.values())))
    axes.grid(visible=False, axis="y")
    figure.suptitle("how much each setting matters")
    return figure


def _slices(study: Study, grid: str) -> Figure | None:
    if not any(trial.params for trial in complete(study)):
        return None
    panels = list(np.ravel(drawn.plot_slice(study, target_name=ACCURACY)))  # type: ignore[arg-type]
    points = next(c for panel in panels for c in panel.collections if c.colorbar)
    points.colorbar.remove()
    across, down = min(len(panels), ACROSS), -(-len(panels) // ACROSS)
    figure = _figure(*panels, height=1.2 + 2.6 * down)
    places = figure.add_gridspec(down, across)
    marks: list[PathCollection] = []
    for index, panel in enumerate(panels):
        row, column = divmod(index, across)
        panel.set_subplotspec(places[row, column])
        panel.tick_params(labelleft=column == 0)
        name = panel.get_xlabel()
        panel.collections[0].set_clim(0, max(1, len(study.trials) - 1))
        marks = _mark(panel, study, partial(_on_slice, name), grid) or marks
        panel.set(xlabel=name, ylabel=ACCURACY if column == 0 else "")
        _scale(panel, study, name, "x")
    ticks = MaxNLocator(integer=True, steps=[1, 2, 5, 10])
    bar = figure.colorbar(points, ax=panels, label="trial", pad=0.02, aspect=30, ticks=ticks)
    _plain(bar.ax)
    _legend(figure, marks)
    figure.suptitle("inner accuracy against each setting")
    return figure


def _on_slice(name: str, trial: FrozenTrial) -> tuple[Any, Any] | None:
    if name not in trial.params:
        return None
    words = isinstance(trial.distributions[name], CategoricalDistribution)
    return (repr(trial.params[name]) if words else trial.params[name]), trial.value


def _contour(study: Study, grid: str) -> Figure | None:
    pair = plane(study)
    if pair is None:
        return None
    axes: Any = drawn.plot_contour(study, params=list(pair), target_name=ACCURACY)
    contour = next(c for c in axes.collections if c.colorbar)
    contour.colorbar.remove()
    figure = _figure(axes, height=5.0)
    x, y = axes.get_xlabel(), axes.get_ylabel()
    marks = _mark(axes, study, partial(_on_plane, x, y), grid)
    _scale(axes, study, x, "x")
    _scale(axes, study, y, "y")
    axes.grid(visible=False)
    _plain(figure.colorbar(contour, ax=axes, label=ACCURACY, pad=0.02).ax)
    dot = Line2D([], [], marker="o", markersize=5, color="black", markeredgecolor="grey",
                 linestyle="none", label="a trial")  # fmt: skip
    _legend(figure, [dot, *marks])
    figure.suptitle(f"inner accuracy over {x} and {y}; colours between trials are interpolated")
    return figure


def _on_plane(x: str, y: str, trial: FrozenTrial) -> tuple[Any, Any] | None:
    return (trial.params[x], trial.params[y]) if {x, y} <= {*trial.params} else None


def _intermediate(study: Study, step: str) -> Figure | None:
    trials = {trial.number: trial for trial in study.get_trials(deepcopy=False)}
    if not any(trial.intermediate_values for trial in trials.values()):
        return None
    axes = drawn.plot_intermediate_values(study)
    figure = _figure(axes, height=4.0)
    key: dict[str, Line2D] = {}
    for line in axes.lines:
        trial = trials[int(str(line.get_label()).removeprefix("Trial"))]
        kind = "best" if trial.number == study.best_trial.number else trial.state.name
        label, look = LINES.get(kind, LINES["RUNNING"])
        line.set(**look, label=label)
        key[label] = line
    axes.set(xlabel=step, ylabel=ACCURACY)
    axes.locator_params(axis="x", integer=True)
    _legend(figure, [key[label] for label, _ in LINES.values() if label in key])
    figure.suptitle("inner accuracy while training")
    return figure


LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "best": ("the best trial", {"color": ORANGE, "linewidth": 2.4, "alpha": 1.0, "zorder": 4}),
    "COMPLETE": ("complete", {"color": BLUE, "linewidth": 1.0, "alpha": 0.6}),
    "PRUNED": ("pruned", {"color": RED, "linewidth": 1.0, "linestyle": "--", "alpha": 0.7}),
    "RUNNING": ("running", {"color": "#767676", "linewidth": 1.0, "linestyle": ":", "alpha": 0.8}),
}


def _figure(*panels: Axes, height: float) -> Figure:
    """The figure that Optuna made, in the project's looks."""
    figure = panels[0].figure
    assert isinstance(figure, Figure)
    figure.set_layout_engine("none")
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.06)
    figure.set_size_inches(WIDTH, height)
    figure.suptitle("")
    for panel in panels:
        _plain(panel)
        panel.set_title("")
        panel.set_title("", loc="left")
        if (legend := panel.get_legend()) is not None:
            legend.remove()
    return figure


def _plain(axes: Axes) -> None:
    axes.set_facecolor("white")
    axes.set_axisbelow(True)
    axes.grid(visible=True, color=RULE, linewidth=0.6)
    axes.tick_params(which="both", colors=INK, labelsize=SMALL)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(color=INK, fontsize=TEXT)
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), edgecolor=INK)


def _mark(
    axes: Axes, study: Study, at: Callable[[FrozenTrial], tuple[Any, Any] | None], grid: str
) -> list[PathCollection]:
    """A ring around trials of the grid and a star on the best one, where they are there."""
    trials, best = complete(study), study.best_trial.number
    kinds = (
        (grid, RING, [trial for trial in trials if trial.user_attrs.get(GRID)]),
        ("the best trial", STAR, [trial for trial in trials if trial.number == best]),
    )
    marks = []
    for label, look, marked in kinds:
        places = [place for trial in marked if (place := at(trial)) is not None]
        if places:
            marks.append(axes.scatter(*zip(*places, strict=True), label=label, **look))
    return marks


def _scale(axes: Axes, study: Study, name: str, which: Literal["x", "y"]) -> None:
    """An axis over the whole range of the search, with few and plain numbers."""
    trials = [trial for trial in complete(study) if name in trial.params]
    distribution = trials[-1].distributions[name]
    axis = getattr(axes, f"{which}axis")
    if isinstance(distribution, CategoricalDistribution):
        found = {repr(trial.params[name]) for trial in trials}
        seen = [choice for choice in distribution.choices if repr(choice) in found]
        axes.set_xticks(range(len(seen)), [value(choice) for choice in seen])
        axes.set_xlim(-0.5, len(seen) - 0.5)
        return
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high = float(distribution.low), float(distribution.high)
    if distribution.log:
        share = (high / low) ** 0.06 if high > low else 1.1
        limits = low / share, high * share
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 50 else (1.0,)))
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    else:
        pad = 0.06 * (high - low) or 0.5
        limits = low - pad, high + pad
        axis.set_major_locator(
            MaxNLocator(5, integer=isinstance(distribution, IntDistribution), steps=[1, 2, 5, 10])
        )
    axes.set(**{f"{which}lim": limits})


def _legend(figure: Figure, handles: Sequence[Artist]) -> None:
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False,
                      fontsize=SMALL, labelcolor=INK)  # fmt: skip
