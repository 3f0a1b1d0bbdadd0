"""Vectors with labels, such as embeddings of another model: sets, a residual head, experiments.

Names are imported when they are used; here is what sets are called, and where their files are.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gcl_hard.core.lazy import lazy
from gcl_hard.files import locating
from gcl_hard.files.io import expanded
from gcl_hard.files.tables import is_table

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "evaluation")

KNOWN = {"wine": "load_wine", "iris": "load_iris", "breast-cancer": "load_breast_cancer"}
"""Sets of scikit-learn, by the functions that load them."""
from_paths = True
"""Whether commands take the path of a data set, FOLDER/NAME.npz or a table, for NAME in FOLDER."""
OTHERS = frozenset({"text", "sentence", "smiles"})
"""Columns of tables with a label that are of other domains."""


def canonical_name(name: str) -> str:
    """The spelling of a known set; other names are returned as given.

    Example:
        >>> canonical_name("Wine"), canonical_name("Mine")
        ('wine', 'Mine')
    """
    return name.casefold() if name.casefold() in KNOWN else name


def has_dataset(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether a name belongs to vectors: a known set, or a NAME.npz in the folder or the cache.

    A table may hold anything: see :func:`has_columns`.

    Example:
        >>> has_dataset("wine"), has_dataset("MUTAG")
        (True, False)
    """
    if is_npz(name):
        return locating.npz_kind(expanded(name)) == "vectors"
    return not is_table(name) and (
        canonical_name(name) in KNOWN or own_file(name, data_dir) is not None
    )


def has_columns(header: Sequence[str]) -> bool:
    """Whether a table has labels, and no column that other domains read.

    Example:
        >>> has_columns(["x1", "x2", "Label"]), has_columns(["text", "label"])
        (True, False)
    """
    names = {name.casefold() for name in header}
    return "label" in names and names.isdisjoint(OTHERS)


def own_file(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The npz file or table of a set in the folder or the cache; None if there is none."""
    return locating.own_file("vectors", partial(in_folder, name=name), data_dir)


def namesakes(folder: Path, name: str) -> list[Path]:
    """The npz files of vectors in a folder that are called as a set."""
    files = locating.npz_files(folder, name, canonical_name)
    return [path for path in files if locating.npz_kind(path) == "vectors"]


def in_folder(folder: Path, name: str) -> Path | None:
    """The table or npz file of a set in a folder; InputError where there are several."""
    if is_table(name):
        return folder / name if (folder / name).is_file() else None
    return locating.single(namesakes(folder, name), name)


def is_npz(name: str) -> bool:
    """Whether a set is given by the path of its npz file."""
    return Path(name).suffix.casefold() == ".npz"
