"""How figures are saved; see :mod:`gcl_hard.reports.theme`."""

from gcl_hard.reports.theme import save

__all__ = ["save"]
