"""Graphs: TU data sets, GIN, InfoGraph and two-view contrast; any encoder fits their slot.

Names are imported when used: reading graphs does not wait for torch-geometric.
"""

from typing import TYPE_CHECKING

from gcl_hard.lazy import lazy

if TYPE_CHECKING:
    from gcl_hard.graphs.batches import GraphBatch, GraphSet
    from gcl_hard.graphs.datasets import load
    from gcl_hard.graphs.encoders import GIN
    from gcl_hard.graphs.ensemble import Ensemble
    from gcl_hard.graphs.infograph import InfoGraph
    from gcl_hard.graphs.order import epoch_batches
    from gcl_hard.graphs.supervised import Supervised
    from gcl_hard.graphs.two_view import TwoView

__all__ = [
    "GIN",
    "Ensemble",
    "GraphBatch",
    "GraphSet",
    "InfoGraph",
    "Supervised",
    "TwoView",
    "epoch_batches",
    "load",
]

__getattr__ = lazy(
    __name__,
    {
        "Ensemble": "ensemble",
        "GIN": "encoders",
        "GraphBatch": "batches",
        "GraphSet": "batches",
        "InfoGraph": "infograph",
        "Supervised": "supervised",
        "TwoView": "two_view",
        "epoch_batches": "order",
        "load": "datasets",
    },
)
