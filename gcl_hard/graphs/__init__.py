"""Graphs: TU data sets, GIN, InfoGraph and two-view contrast; any encoder fits their slot."""

from gcl_hard.graphs.batches import GraphBatch, GraphSet, epoch_batches
from gcl_hard.graphs.datasets import load
from gcl_hard.graphs.encoders import GIN
from gcl_hard.graphs.infograph import InfoGraph
from gcl_hard.graphs.two_view import TwoView

__all__ = ["GIN", "GraphBatch", "GraphSet", "InfoGraph", "TwoView", "epoch_batches", "load"]
