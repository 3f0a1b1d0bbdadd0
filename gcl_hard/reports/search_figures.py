"""Figures of a search: PNG files, and one self-contained HTML page."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import optuna
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from optuna import visualization
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.storages import InMemoryStorage
from optuna.study import Study
from optuna.trial import FrozenTrial
from optuna.visualization import matplotlib as optuna_matplotlib

from gcl_hard.evaluation.metrics import Metric
from gcl_hard.reports import theme
from gcl_hard.reports.tables import BETA, TEMPERATURE, setting, value
from gcl_hard.tuning.storage import GRID, complete

BLUE, ORANGE, RED = theme.COLOURS["ucl"], theme.COLOURS["hscl"], theme.COLOURS["scl"]
MARKS: dict[str, dict[str, Any]] = {
    "grid": {"facecolors": "none", "edgecolors": RED, "linewidths": 1.6, "s": 110, "zorder": 4},
    "best": {"marker": "*", "color": ORANGE, "edgecolors": theme.INK, "linewidths": 0.7, "s": 170,
             "zorder": 5},
}  # fmt: skip
LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "best": ("the best trial", {"color": ORANGE, "linewidth": 2.4, "zorder": 4}),
    "COMPLETE": ("complete", {"color": BLUE, "linewidth": 1.0, "alpha": 0.6}),
    "PRUNED": ("pruned", {"color": RED, "linewidth": 1.0, "linestyle": "--", "alpha": 0.7}),
    "RUNNING": ("running", {"color": theme.GREY, "linewidth": 1.0, "linestyle": ":"}),
}
WHOLE: dict[str, Any] = {"integer": True, "steps": [1, 2, 5, 10]}


def trials(study: Study) -> pd.DataFrame:
    """Trials with a score.

    Args:
        study: of inner scores.

    Returns:
        ``number``, ``value``, ``grid`` (whether it is among the settings tried first), ``best``,
        and a column for each setting, NaN where a trial lacks it; words of categories.
    """
    rows = [
        {
            "number": t.number, "value": t.value, "grid": bool(t.user_attrs.get(GRID)),
            "best": t.number == study.best_trial.number,
            **{name: value(param) if _is_word(t.distributions[name]) else param
               for name, param in t.params.items()},
        }
        for t in complete(study)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=None if rows else ["number", "value", "grid", "best"])


def _is_word(distribution: object) -> bool:
    return isinstance(distribution, CategoricalDistribution)


def write_figures(
    study: Study, stem: Path, *, title: str, step: str = "epoch", grid: str = "the paper's grid",
    metric: Metric,
) -> list[Path]:  # fmt: skip
    """Draw a study's figures as PNG.

    Args:
        study: study of inner scores.
        stem: ``a/b`` gives ``a/b-history.png``, ``a/b-importances.png``, ``a/b-slices.png``,
            ``a/b-contour.png`` and ``a/b-intermediate.png``.
        title: what was searched; the heading of every figure.
        step: unit of intermediate scores, ``epoch`` or ``fold``.
        grid: name of the settings that were tried first.
        metric: the metric of the scores.

    Returns:
        The files; figures that the trials do not support are left out.

    Raises:
        InputError: if the path cannot be written to.
    """
    written = []
    for name, (caption, figure) in figures(
        readable(study), step=step, grid=grid, metric=metric
    ).items():
        theme.heading(figure, f"{title}: {caption}")
        written.append(stem.with_name(f"{stem.name}-{name}.png"))
        theme.save(figure, written[-1], dpi=120)
    return written


@theme.themed
def figures(study: Study, *, step: str, grid: str, metric: Metric) -> dict[str, tuple[str, Figure]]:
    """The figures of a study, by name, with captions; those that the trials give.

    Args:
        study: whose settings have their readable names.
        step: unit of intermediate scores.
        grid: name of the settings that were tried first.
        metric: the metric of the scores.
    """
    data = trials(study)
    if data.empty:
        return {}
    names, shares, inner = sorted(data.columns[4:]), importances(study), f"inner {metric.title}"
    drawn = {"history": ("trials in their order", history(data, len(study.trials), grid, metric))}
    if shares:
        drawn["importances"] = ("how much each setting matters", importance(shares))
    if names:
        drawn["slices"] = (
            f"{inner} against each setting",
            slices(study, data, names, grid, metric),
        )
    if (pair := plane(study)) is not None:
        caption = f"{inner} over {pair[0]} and {pair[1]}; between trials interpolated"
        drawn["contour"] = (caption, contour(study, data, pair, grid, metric))
    if any(trial.intermediate_values for trial in study.trials):
        drawn["intermediate"] = (f"{inner} while training", intermediate(study, step, metric))
    return drawn


def history(data: pd.DataFrame, n: int, grid: str, metric: Metric) -> Figure:
    """Scores in the order of the trials, and the best so far.

    Args:
        data: output of :func:`trials`.
        n: trials of the study, with a score or without.
        grid: name of the settings that were tried first.
    """
    figure, (axes,) = theme.panels(1, height=3.4)
    axes.scatter(data["number"], data["value"], color=BLUE, alpha=0.8, s=26, label="a trial")
    scores = data.set_index("number")["value"].reindex(range(n))
    best = (scores.cummax() if metric.higher else scores.cummin()).ffill()
    axes.step(best.index, best, where="post", color=theme.INK, lw=1.4, label="best so far")
    _mark(axes, data, "number", "value", grid)
    axes.set(xlabel="trial", ylabel=f"inner {metric.label}", xlim=(-0.8, n - 0.2))
    axes.xaxis.set_major_locator(MaxNLocator(**WHOLE))
    _key(figure, [axes])
    return figure


def importance(shares: dict[str, float]) -> Figure:
    """Share of the differences between scores that each setting explains.

    Args:
        shares: shares by setting, largest first; they sum to 1.
    """
    figure, (axes,) = theme.panels(1, height=0.36 * len(shares), top=0.8, grid="x")
    bars = axes.barh([*shares], [*shares.values()], color=BLUE, height=0.7)
    axes.bar_label(bars, [f"{share:.2f}" for share in shares.values()], padding=3)
    axes.invert_yaxis()
    axes.set(xlabel="share (together 1)", xlim=(0, 1.12 * max(shares.values())))
    return figure


def slices(
    study: Study, data: pd.DataFrame, names: Sequence[str], grid: str,
    metric: Metric,
) -> Figure:  # fmt: skip
    """Inner scores against each setting, a panel each; colours are the order of trials.

    Args:
        study: the search, whose ranges the axes have.
        data: output of :func:`trials`.
        names: names of the settings.
        grid: name of the settings that were tried first.
    """
    figure, panels = theme.panels(len(names), across=3, height=2.4, sharey=True)
    for index, (panel, name) in enumerate(zip(panels, names, strict=True)):
        tried = data.dropna(subset=[name])
        panel.set(xlabel=name, ylabel="" if index % 3 else f"inner {metric.label}")
        positions = _scale(panel, study, tried, name, "x")
        points = panel.scatter(positions, tried["value"], c=tried["number"], cmap="Blues", s=26,
                               edgecolors=theme.GREY, linewidths=0.4, vmin=0,
                               vmax=max(1, len(study.trials) - 1))  # fmt: skip
        _mark(panel, tried.assign(position=positions), "position", "value", grid)
    bar = figure.colorbar(points, ax=panels, label="trial", pad=0.02, aspect=30)
    bar.ax.yaxis.set_major_locator(MaxNLocator(**WHOLE))
    _key(figure, panels)
    return figure


def contour(
    study: Study, data: pd.DataFrame, pair: Sequence[str], grid: str,
    metric: Metric,
) -> Figure:  # fmt: skip
    """Inner scores over two settings, interpolated by Optuna.

    Args:
        study: the search, whose ranges the axes have.
        data: output of :func:`trials`.
        pair: names of the settings.
        grid: name of the settings that were tried first.
    """
    with _pyplot(), quiet():
        label = f"inner {metric.label}"
        axes: Any = optuna_matplotlib.plot_contour(study, params=list(pair), target_name=label)
    figure: Figure = axes.figure
    filled = next(c for c in axes.collections if c.colorbar)
    filled.colorbar.remove()
    figure.set_layout_engine("constrained")
    figure.set_size_inches(theme.WIDTH, 4.6)
    figure.suptitle("")
    bar = figure.colorbar(filled, ax=axes, label=label, pad=0.02)
    for panel in (axes, bar.ax):
        panel.tick_params(which="both", colors=theme.INK, labelsize=theme.SMALL)
        for axis in (panel.xaxis, panel.yaxis):
            axis.label.set(color=theme.INK, fontsize=theme.TEXT)
    axes.spines[["left", "bottom"]].set(visible=True, edgecolor=theme.INK)
    axes.set(title="", facecolor="white")
    axes.grid(visible=False)
    for drawn in axes.collections:
        drawn.set_label("_")
    tried = data.dropna(subset=list(pair))
    x, y = axes.get_xlabel(), axes.get_ylabel()
    axes.scatter(tried[x], tried[y], color="black", s=18, label="a trial")
    for name, letter in ((x, "x"), (y, "y")):
        _scale(axes, study, tried, name, letter)
    _mark(axes, tried, x, y, grid)
    _key(figure, [axes])
    return figure


def intermediate(study: Study, step: str, metric: Metric) -> Figure:
    """Inner scores while training, one line per trial.

    Args:
        study: with intermediate values.
        step: their unit, ``epoch`` or ``fold``.
    """
    figure, (axes,) = theme.panels(1, height=3.4)
    for trial in study.get_trials(deepcopy=False):
        kind = "best" if trial.number == study.best_trial.number else trial.state.name
        label, style = LINES.get(kind, LINES["RUNNING"])
        if trial.intermediate_values:
            axes.plot(*zip(*sorted(trial.intermediate_values.items()), strict=True), marker="o",
                      markersize=2.5, label=label, **style)  # fmt: skip
    axes.set(xlabel=step, ylabel=f"inner {metric.label}")
    axes.locator_params(axis="x", integer=True)
    _key(figure, [axes])
    return figure


@contextmanager
def _pyplot() -> Iterator[None]:
    """Draw with pyplot without a screen; leave no figure or backend behind."""
    backend, open_figures = plt.get_backend(), set(plt.get_fignums())
    plt.switch_backend("agg")
    try:
        with mpl.rc_context():  # Optuna sets a style
            yield
    finally:
        for number in set(plt.get_fignums()) - open_figures:
            plt.close(number)
        plt.switch_backend(backend)


def _mark(axes: Axes, data: pd.DataFrame, x: str, y: str, grid: str) -> None:
    """A ring around trials of the grid and a star on the best one, if they are there."""
    for column, label in (("grid", grid), ("best", "the best trial")):
        if len(marked := data[data[column]]):
            axes.scatter(marked[x], marked[y], label=label, **MARKS[column])


def _key(figure: Figure, panels: Sequence[Axes]) -> None:
    handles = {
        label: handle
        for panel in panels
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    if handles:
        theme.legend(figure, list(handles.values()))


def _scale(axes: Axes, study: Study, data: pd.DataFrame, name: str, letter: str) -> Any:
    """Set an axis to the search range with few, plain ticks; returns their positions."""
    trial = next(t for t in reversed(complete(study)) if name in t.params)
    distribution, axis = trial.distributions[name], getattr(axes, f"{letter}axis")
    if isinstance(distribution, CategoricalDistribution):
        seen = [w for w in map(value, distribution.choices) if w in set(data[name])]
        axis.set_ticks(range(len(seen)), seen)
        axes.set(**{f"{letter}lim": (-0.5, len(seen) - 0.5)})
        return data[name].map(seen.index)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high = float(distribution.low), float(distribution.high)
    if distribution.log:
        share = (high / low) ** 0.06 if high > low else 1.1
        axes.set(**{f"{letter}scale": "log", f"{letter}lim": (low / share, high * share)})
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 50 else (1.0,)))
        axis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
        axis.set_minor_formatter(NullFormatter())
    else:
        pad = 0.06 * (high - low) or 0.5
        axes.set(**{f"{letter}lim": (low - pad, high + pad)})
        whole = isinstance(distribution, IntDistribution)
        axis.set_major_locator(MaxNLocator(5, integer=whole, steps=[1, 2, 5, 10]))
    return data[name]


# The figures of the HTML page


def interactive(study: Study, step: str, metric: Metric) -> dict[str, tuple[str, Any]]:
    """Plotly figures of a study, by name, with captions; the first is always there.

    Args:
        study: whose settings have their readable names.
        step: unit of intermediate scores.
        metric: the metric of the scores.
    """
    named: dict[str, Any] = {"target_name": f"inner {metric.label}"}
    with quiet():
        figure = visualization.plot_optimization_history(study, **named)
        figure.update_traces(name="best so far", selector={"name": "Best Value"})
        drawn = {"history": ("The trials in their order", figure)}
        if complete(study):
            drawn["slice"] = (
                f"Inner {metric.title} against each setting",
                visualization.plot_slice(study, **named),
            )
            drawn["parallel"] = (
                "All settings of every trial",
                visualization.plot_parallel_coordinate(study, **named),
            )
        if importances(study):
            figure = visualization.plot_param_importances(study, **named)
            figure.update_layout(xaxis_title="share (together 1)", yaxis_title=None)
            drawn["importances"] = ("How much each setting matters", figure)
        if pair := plane(study):
            drawn["contour"] = (
                f"Inner {metric.title} over {pair[0]} and {pair[1]}; between trials interpolated",
                visualization.plot_contour(study, params=list(pair), **named),
            )
        if any(trial.intermediate_values for trial in study.get_trials(deepcopy=False)):
            figure = visualization.plot_intermediate_values(study)
            figure.update_layout(xaxis_title=step, yaxis_title=f"inner {metric.label}")
            drawn["intermediate"] = (f"Inner {metric.title} while training", figure)
        drawn["timeline"] = ("When trials ran", visualization.plot_timeline(study))
    decades = {
        name: [math.log10(d.low) - 0.1, math.log10(d.high) + 0.1]
        for trial in study.get_trials(deepcopy=False)
        for name, d in trial.distributions.items()
        if isinstance(d, FloatDistribution | IntDistribution) and d.log and d.high >= 10 * d.low
    }

    def plain(axis: Any) -> None:
        """Label a logarithmic axis at its powers of ten only, as plain numbers."""
        if axis.type == "log" and axis.title.text in decades:
            axis.update(range=decades[axis.title.text], dtick=1, tickformat="~g")

    font = {"family": "system-ui, sans-serif", "color": theme.INK, "size": 13}
    for _, figure in drawn.values():
        figure.update_layout(title=None, font=font, margin={"t": 40, "r": 20})
        figure.for_each_xaxis(plain)
        figure.for_each_yaxis(plain)
    return drawn


# Studies as figures show them


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Optuna's log and experimental warnings."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (ExperimentalWarning, FutureWarning, UserWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def readable(study: Study) -> Study:
    """A copy of a study, in memory, with readable setting names.

    Of its trials' attributes only that of the grid is kept.

    Args:
        study: study of inner scores.

    Returns:
        The copy, with the numbers and times of the trials.
    """
    with quiet():
        storage = InMemoryStorage()
        study_id = storage.create_new_study([study.direction], study.study_name)
        for trial in study.get_trials(deepcopy=False):
            storage.create_new_trial(study_id, _readable(trial))
        return optuna.load_study(study_name=study.study_name, storage=storage)


def _readable(trial: FrozenTrial) -> FrozenTrial:
    shown = copy.copy(trial)
    shown.params = {setting(name): param for name, param in trial.params.items()}
    shown.distributions = {setting(name): d for name, d in trial.distributions.items()}
    shown.user_attrs = {GRID: True} if trial.user_attrs.get(GRID) else {}
    shown.system_attrs = {}
    return shown


def importances(study: Study) -> dict[str, float]:
    """Share of the differences between scores that each setting explains, largest first.

    Returns:
        Shares by setting; empty where the trials do not tell settings apart.
    """
    trials = complete(study)
    if len({trial.value for trial in trials}) < 2:
        return {}
    with quiet():
        shares = optuna.importance.get_param_importances(study)
    return shares if len(set(shares.values())) > 1 else {}


def plane(study: Study) -> tuple[str, str] | None:
    """The two settings of the contour plot.

    β and the temperature if both were searched, else the two most important numbers that occur
    together.

    Returns:
        Their names; None where no two vary together.
    """
    trials = complete(study)
    numbers = {
        name
        for trial in trials
        for name, distribution in trial.distributions.items()
        if isinstance(distribution, FloatDistribution | IntDistribution)
    }
    first = [TEMPERATURE, BETA] if {TEMPERATURE, BETA} <= numbers else []
    ranked = dict.fromkeys([*first, *importances(study), *sorted(numbers)])
    for pair in itertools.combinations([name for name in ranked if name in numbers], 2):
        both = [trial for trial in trials if {*pair} <= set(trial.params)]
        seen = [{trial.params[name] for trial in both} for name in pair]
        if all(len(values) > 1 for values in [*seen, {trial.value for trial in both}]):
            return pair
    return None
