"""Figures of a search, by Optuna."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import optuna
from matplotlib.ticker import NullFormatter
from optuna import visualization
from optuna.study import Study

from gcl_hard.evaluation.metrics import Metric
from gcl_hard.reports import theme
from gcl_hard.reports.tables import setting
from gcl_hard.tuning.storage import complete


def plots(study: Study, metric: Metric) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Plots that the trials of a study give, by name.

    Args:
        study: study of inner scores.
        metric: the metric of the scores.

    Returns:
        A caption, a function of ``optuna.visualization``, and its arguments.
    """
    trials, shares = study.get_trials(deepcopy=False), importances(study)
    inner, named = f"inner {metric.title}", {"target_name": f"inner {metric.label}"}
    possible: dict[str, tuple[str, str, dict[str, Any]]] = {}
    if complete(study):
        possible["history"] = ("trials in their order", "plot_optimization_history", named)
        if any(trial.params for trial in complete(study)):
            possible["slices"] = (f"{inner} against each setting", "plot_slice", named)
    if shares:
        possible["importances"] = ("how much each setting matters", "plot_param_importances", named)
        first = [*shares][:2]
        caption = f"{inner} over {' and '.join(map(setting, first))}; between trials interpolated"
        possible["contour"] = (caption, "plot_contour", {**named, "params": first})
    if any(trial.intermediate_values for trial in trials):
        possible["intermediate"] = (f"{inner} while training", "plot_intermediate_values", {})
    return possible


def write_figures(study: Study, stem: Path, *, title: str, metric: Metric) -> list[Path]:
    """Draw a study's figures as PNG.

    Args:
        study: study of inner scores.
        stem: ``a/b`` gives ``a/b-history.png``, and the like.
        title: what was searched; the heading of every figure.
        metric: the metric of the scores.

    Returns:
        The files; figures that the trials do not support are left out.

    Raises:
        InputError: if the path cannot be written to.
    """
    written = []
    for name, (caption, function, arguments) in plots(study, metric).items():
        path = stem.with_name(f"{stem.name}-{name}.png")
        with mpl.rc_context(), quiet():
            axes = getattr(visualization.matplotlib, function)(study, **arguments)
            figure = np.ravel(axes)[0].figure
            for panel in figure.axes:
                panel.set_title("")
                panel.set_title("", loc="left")
                panel.xaxis.set_minor_formatter(NullFormatter())  # labels would overlap
            figure.suptitle("")
            theme.heading(figure, f"{title}: {caption}")
            theme.save(figure, path, dpi=120)
            plt.close(figure)
        written.append(path)
    return written


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Optuna's log and warnings."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)


def importances(study: Study) -> dict[str, float]:
    """Share of the differences between scores that each setting explains, largest first.

    Returns:
        Shares by setting; empty where the trials do not tell two settings apart.
    """
    if len({trial.value for trial in complete(study)}) < 2:
        return {}
    with quiet():
        shares = optuna.importance.get_param_importances(study)
    return shares if len({*shares.values()}) > 1 else {}
