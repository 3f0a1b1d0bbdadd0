"""Graphs: TU data sets, GIN, InfoGraph and two-view contrast, with any encoder.

Names are imported when used, so that reading graphs does not import torch-geometric; here is what
sets are called, and where their files are.
"""

import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gcl_hard.core.lazy import lazy
from gcl_hard.errors import InputError
from gcl_hard.files import locating

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "graphs")

PACKAGED = Path(__file__).parents[1] / "data"
REQUIRED = ("A", "graph_indicator", "graph_labels")
OPTIONAL = ("node_labels", "node_attributes", "edge_labels", "edge_attributes")
from_paths = True
"""Whether commands take the path of a data set, FOLDER/NAME, for NAME in FOLDER."""


class Sizes(NamedTuple):
    """Sizes of a known set; edges count once per direction, labels as one-hot columns."""

    graphs: int
    nodes: int
    edges: int
    classes: int
    node_labels: int = 0
    node_attributes: int = 0
    edge_labels: int = 0


MANIFEST = {
    "MUTAG": Sizes(188, 3371, 7442, 2, node_labels=7, edge_labels=4),
    "PTC_MR": Sizes(344, 4915, 10108, 2, node_labels=18, edge_labels=4),
    "ENZYMES": Sizes(600, 19580, 74564, 6, node_labels=3, node_attributes=18),
    "IMDB-BINARY": Sizes(1000, 19773, 193062, 2),
    "IMDB-MULTI": Sizes(1500, 19502, 197806, 3),
}

ALIASES = {"PTC": "PTC_MR", "IMDB-B": "IMDB-BINARY", "IMDB-M": "IMDB-MULTI"}


def canonical_name(name: str) -> str:
    """The name of a set as TUDataset spells it; known names and aliases in any case.

    Args:
        name: as the user wrote it; names outside the manifest are returned as they are.

    Returns:
        The name.

    Raises:
        InputError: if it cannot be the name of a file.

    Example:
        >>> canonical_name("ptc"), canonical_name("imdb-b"), canonical_name("PROTEINS")
        ('PTC_MR', 'IMDB-BINARY', 'PROTEINS')
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name, flags=re.ASCII):
        raise InputError(f"dataset {name!r}; expected letters, digits, '_', '-', '.' or '+'")
    known = {key.casefold(): value for key, value in ALIASES.items()}
    known |= {key.casefold(): key for key in MANIFEST}
    return known.get(name.casefold(), name)


def has_dataset(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether a name is that of a known set of graphs, or of one in the data folder or the cache.

    Example:
        >>> has_dataset("ptc"), has_dataset("Cora")
        (True, False)
    """
    try:
        return canonical_name(name) in MANIFEST or own_file(name, data_dir) is not None
    except InputError:
        return False


def own_file(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The folder or the archive of a set in the data folder or the cache; None if there is none."""
    return locating.own_file("tu", partial(in_folder, name=canonical_name(name)), data_dir)


def in_folder(folder: Path, name: str) -> Path | None:
    """The folder or the archive of a set, in any case where none is spelt as asked for."""
    for spell in (str, str.casefold):
        for wanted in (name, f"{name}.zip"):
            alike = (path for path in folder.glob("*") if spell(path.name) == spell(wanted))
            paths = [
                path
                for path in alike
                if (files_of(members(path), name) if wanted == name else path.is_file())
            ]
            if (path := locating.single(paths, name)) is not None:
                return path
    return None


def members(folder: Path) -> list[str]:
    """The files of a folder, and of the folders in it, by their paths in it."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def files_of(paths: Iterable[str], name: str) -> dict[str, list[str]]:
    """The files of a set by key."""
    wanted = {f"{name}_{key}.txt".casefold(): key for key in (*REQUIRED, *OPTIONAL)}
    by_key: dict[str, list[str]] = {}
    for path in paths:
        file = path.rpartition("/")[2].casefold()
        if file in wanted:
            by_key.setdefault(wanted[file], []).append(path)
    return by_key
