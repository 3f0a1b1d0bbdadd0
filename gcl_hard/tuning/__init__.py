"""Searches over the settings of a method with Optuna, scored inside training data alone.

``python -m gcl_hard.tune`` and :func:`study` are its entry points.
"""

from typing import TYPE_CHECKING

from gcl_hard.lazy import lazy

if TYPE_CHECKING:
    from gcl_hard.tuning.api import Finding, SearchResult, study
    from gcl_hard.tuning.space import Space

__all__ = ["Finding", "SearchResult", "Space", "study"]

__getattr__ = lazy(
    __name__, {"Finding": "api", "SearchResult": "api", "Space": "space", "study": "api"}
)
