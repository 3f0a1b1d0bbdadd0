"""Accuracy against training graphs; see :mod:`gcl_hard.reports.result_figures`."""

from gcl_hard.reports.result_figures import learning_curves

__all__ = ["learning_curves"]
