"""Figures of results; see :mod:`gcl_hard.reports.result_figures`."""

from gcl_hard.reports.result_figures import FIGURES

__all__ = ["FIGURES"]
