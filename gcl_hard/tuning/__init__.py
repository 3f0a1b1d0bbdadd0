"""Searches over the settings of a method with Optuna, scored inside training data alone.

``python -m gcl_hard.tune`` and :func:`gcl_hard.study` are its entry points.
"""

from gcl_hard.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "tune")
