"""The loss and its parts: samplers, methods, synthetic negatives, pairs, queues, large batches.

Names are imported when they are used.
"""

from gcl_hard.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
