"""Figures of a study; see :mod:`gcl_hard.reports.search_figures`."""

from gcl_hard.reports.search_figures import write_figures

__all__ = ["write_figures"]
