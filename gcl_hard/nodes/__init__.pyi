from pathlib import Path
from typing import Literal, NamedTuple

from gcl_hard.nodes.data import NodeSet as NodeSet
from gcl_hard.nodes.encoders import GCN as GCN
from gcl_hard.nodes.encoders import GraphSAGE as GraphSAGE
from gcl_hard.nodes.files import load_nodes as load_nodes
from gcl_hard.nodes.models import NodeClassifier as NodeClassifier
from gcl_hard.nodes.models import NodeContrast as NodeContrast
from gcl_hard.nodes.models import embed_nodes as embed_nodes
from gcl_hard.nodes.views import Neighbourhoods as Neighbourhoods
from gcl_hard.nodes.views import NodeBatch as NodeBatch
from gcl_hard.nodes.views import NodeViews as NodeViews

class KnownGraph(NamedTuple):
    reader: str
    named: str
    n_features: int
    n_classes: int
    file: str = ""
    url: str = ""
    counts: bool = False
    metric: Literal["accuracy", "auc"] = "accuracy"
    splits: int = 0

KNOWN: dict[str, KnownGraph]

def canonical_name(name: str) -> str: ...
def published_metric(name: str) -> Literal["accuracy", "auc"]: ...
def given_splits_of(name: str) -> int: ...
def is_file(name: str) -> bool: ...
def has_dataset(name: str, data_dir: str | Path | None = None) -> bool: ...
def npz_files(folder: Path, name: str) -> list[Path]: ...
