"""Figures of a search, by Optuna."""

from __future__ import annotations

import copy
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
from optuna.storages import InMemoryStorage
from optuna.study import Study
from optuna.trial import FrozenTrial

from gcl_hard.evaluation.metrics import Metric
from gcl_hard.reports import theme
from gcl_hard.reports.tables import setting
from gcl_hard.tuning.storage import GRID, complete


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
    given: dict[str, tuple[str, str, dict[str, Any]]] = {}
    if complete(study):
        given["history"] = ("trials in their order", "plot_optimization_history", named)
        if any(trial.params for trial in complete(study)):
            given["slices"] = (f"{inner} against each setting", "plot_slice", named)
    if shares:
        given["importances"] = ("how much each setting matters", "plot_param_importances", named)
        caption = f"{inner} over {' and '.join([*shares][:2])}; between trials interpolated"
        given["contour"] = (caption, "plot_contour", {**named, "params": [*shares][:2]})
    if any(trial.intermediate_values for trial in trials):
        given["intermediate"] = (f"{inner} while training", "plot_intermediate_values", {})
    return given


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
    written, shown = [], readable(study)
    for name, (caption, function, arguments) in plots(shown, metric).items():
        path = stem.with_name(f"{stem.name}-{name}.png")
        with mpl.rc_context(), quiet():
            axes = getattr(visualization.matplotlib, function)(shown, **arguments)
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


def readable(study: Study) -> Study:
    """A copy of a study, in memory, with readable names of settings."""
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
        Shares by setting; empty where the trials do not tell two settings apart.
    """
    if len({trial.value for trial in complete(study)}) < 2:
        return {}
    with quiet():
        shares = optuna.importance.get_param_importances(study)
    return shares if len({*shares.values()}) > 1 else {}
