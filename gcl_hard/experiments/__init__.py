"""Experiments: how the runs of a domain are trained and scored; one domain a module.

Everything that another domain is made of is imported from here; see :func:`register`.
"""

from gcl_hard.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "bench")
