from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from gcl_hard.links.data import Facts as Facts
from gcl_hard.links.data import LinkSet as LinkSet
from gcl_hard.links.data import Queries as Queries
from gcl_hard.links.files import load_links as load_links
from gcl_hard.links.files import read_links as read_links
from gcl_hard.links.models import RGCN as RGCN
from gcl_hard.links.models import ComplEx as ComplEx
from gcl_hard.links.models import DistMult as DistMult
from gcl_hard.links.models import LinkContrast as LinkContrast
from gcl_hard.links.models import RotatE as RotatE
from gcl_hard.links.models import Scorer as Scorer
from gcl_hard.links.models import TransE as TransE

class KnownLinks(NamedTuple):
    file: str
    sha256: str
    counts: tuple[int, int, int, int, int]

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...]
ARCHIVES: tuple[str, ...]
KNOWN: dict[str, KnownLinks]

def canonical_name(name: str) -> str: ...
def has_dataset(name: str, data_dir: str | Path | None = None) -> bool: ...
def has_columns(header: Sequence[str]) -> bool: ...
def is_name(name: str) -> bool: ...
def is_set(path: Path) -> bool: ...
def in_folder(folder: Path, name: str) -> Path | None: ...
