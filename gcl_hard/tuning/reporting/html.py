"""The interactive page of a search; see :mod:`gcl_hard.reports.search_figures`."""

from gcl_hard.reports.search_figures import html

__all__ = ["html"]
