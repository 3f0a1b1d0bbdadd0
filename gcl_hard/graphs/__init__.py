"""Graphs: TU data sets, GIN, InfoGraph and two-view contrast, with any encoder.

Names are imported when used, so that reading graphs does not import torch-geometric.
"""

from gcl_hard.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "graphs")
