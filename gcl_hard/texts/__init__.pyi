from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gcl_hard.texts.data import TextSet as TextSet
from gcl_hard.texts.encoders import SentenceEncoder as SentenceEncoder
from gcl_hard.texts.encoders import TextInputs as TextInputs
from gcl_hard.texts.files import load_texts as load_texts
from gcl_hard.texts.loss import TextLoss as TextLoss

class KnownTexts(NamedTuple):
    files: dict[str, tuple[str, str, str]]
    columns: tuple[str, str]
    counts: tuple[int, int, int]

KNOWN: dict[str, KnownTexts]
TEXTS: tuple[str, ...]
LABELS: tuple[str, ...]

def canonical_name(name: str) -> str: ...
def has_dataset(name: str, data_dir: str | Path | None = None) -> bool: ...
def has_columns(header: Sequence[str]) -> bool: ...
def own_file(name: str, data_dir: str | Path | None = None) -> Path | None: ...
def in_folder(folder: Path, name: str) -> Path | None: ...
