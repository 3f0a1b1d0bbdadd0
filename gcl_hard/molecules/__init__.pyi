from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from gcl_hard.molecules.data import Molecules as Molecules
from gcl_hard.molecules.data import fingerprints as fingerprints
from gcl_hard.molecules.data import from_smiles as from_smiles
from gcl_hard.molecules.data import from_tu as from_tu
from gcl_hard.molecules.data import scaffolds as scaffolds
from gcl_hard.molecules.data import tanimoto as tanimoto
from gcl_hard.molecules.encoders import MoleculeGIN as MoleculeGIN
from gcl_hard.molecules.files import MoleculeData as MoleculeData
from gcl_hard.molecules.files import load_molecules as load_molecules
from gcl_hard.molecules.files import read_molecules as read_molecules

Kind = Literal["classes", "tasks", "values", "unlabelled"]

class Source(NamedTuple):
    file: str
    kind: Kind
    target: tuple[str, ...] = ()
    downloads: str = ""

SOURCES: dict[str, Source]
SMILES: tuple[str, ...]

def is_file(name: str) -> bool: ...
def canonical(name: str) -> str: ...
def name_or_path(
    name: str | Path, *, data_dir: str | Path | None = None, cache_dir: str | Path | None = None
) -> str: ...
def in_folder(folder: Path, names: Sequence[str]) -> Path | None: ...
