from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gcl_hard.graphs.data import GraphBatch as GraphBatch
from gcl_hard.graphs.data import GraphSet as GraphSet
from gcl_hard.graphs.encoders import GIN as GIN
from gcl_hard.graphs.encodings import encoded as encoded
from gcl_hard.graphs.ensemble import Ensemble as Ensemble
from gcl_hard.graphs.models import GraphClassifier as GraphClassifier
from gcl_hard.graphs.models import InfoGraph as InfoGraph
from gcl_hard.graphs.models import TwoView as TwoView
from gcl_hard.graphs.models import embed_graphs as embed_graphs
from gcl_hard.graphs.order import epoch_batches as epoch_batches
from gcl_hard.graphs.tudataset import load_graphs as load_graphs

class Sizes(NamedTuple):
    graphs: int
    nodes: int
    edges: int
    classes: int
    node_labels: int = 0
    node_attributes: int = 0
    edge_labels: int = 0

PACKAGED: Path
REQUIRED: tuple[str, ...]
OPTIONAL: tuple[str, ...]
MANIFEST: dict[str, Sizes]
ALIASES: dict[str, str]

def canonical_name(name: str) -> str: ...
def in_folder(folder: Path, name: str) -> Path | None: ...
def members(folder: Path) -> list[str]: ...
def files_of(paths: Iterable[str], name: str) -> dict[str, list[str]]: ...
