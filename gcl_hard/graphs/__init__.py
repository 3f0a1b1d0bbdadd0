"""Graphs: TU data sets, GIN, InfoGraph and two-view contrast, with any encoder.

Names are imported when used, so that reading graphs does not import torch-geometric.
"""

from typing import TYPE_CHECKING

from gcl_hard.lazy import lazy

if TYPE_CHECKING:
    from gcl_hard.graphs.data import GraphBatch, GraphSet
    from gcl_hard.graphs.encoders import GIN
    from gcl_hard.graphs.encodings import encoded
    from gcl_hard.graphs.ensemble import Ensemble
    from gcl_hard.graphs.models import InfoGraph, Supervised, TwoView
    from gcl_hard.graphs.order import epoch_batches
    from gcl_hard.graphs.tudataset import load

__all__ = [
    "GIN",
    "Ensemble",
    "GraphBatch",
    "GraphSet",
    "InfoGraph",
    "Supervised",
    "TwoView",
    "encoded",
    "epoch_batches",
    "load",
]

__getattr__ = lazy(
    __name__,
    {
        "Ensemble": "ensemble",
        "GIN": "encoders",
        "GraphBatch": "data",
        "GraphSet": "data",
        "InfoGraph": "models",
        "Supervised": "models",
        "TwoView": "models",
        "encoded": "encodings",
        "epoch_batches": "order",
        "load": "tudataset",
    },
)
