"""The figure of a search; see :mod:`gcl_hard.reports.result_figures`."""

from gcl_hard.reports.result_figures import forest

__all__ = ["forest"]
