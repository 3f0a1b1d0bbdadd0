"""Figures of results: accuracies with intervals, ranks, accuracy against β and against epoch."""

from __future__ import annotations

from gcl_hard.experiments.reporting.figures.accuracy import accuracy_figure
from gcl_hard.experiments.reporting.figures.beta import beta_figure
from gcl_hard.experiments.reporting.figures.curve import curve_figure
from gcl_hard.experiments.reporting.figures.drawing import save
from gcl_hard.experiments.reporting.figures.ranks import rank_figure

FIGURES = {
    "accuracy": accuracy_figure, "ranks": rank_figure, "beta": beta_figure, "curve": curve_figure,
}  # fmt: skip
"""By what their files are called."""

__all__ = ["FIGURES", "accuracy_figure", "beta_figure", "curve_figure", "rank_figure", "save"]
