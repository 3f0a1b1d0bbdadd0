"""Searches over the settings of a method with Optuna, scored inside training data alone.

``python -m gcl_hard.tune`` and :func:`study` are its doors.
"""

from typing import TYPE_CHECKING

from gcl_hard.lazy import lazy

if TYPE_CHECKING:
    from gcl_hard.tuning.api import study
    from gcl_hard.tuning.outcome import Finding, Outcome
    from gcl_hard.tuning.space import Space

__all__ = ["Finding", "Outcome", "Space", "study"]

__getattr__ = lazy(
    __name__, {"Finding": "outcome", "Outcome": "outcome", "Space": "space", "study": "api"}
)
