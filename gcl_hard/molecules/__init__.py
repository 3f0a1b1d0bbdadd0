"""Molecules: SMILES as graphs, named sets, fingerprints, scaffolds, an encoder.

Names are imported when they are used; here is what sets are called, and where their files are.
"""

import glob
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from gcl_hard.core.lazy import lazy
from gcl_hard.errors import unknown
from gcl_hard.files import locating

__getattr__, __dir__, __all__ = lazy(__name__, __file__, "graphs")

Kind = Literal["classes", "tasks", "values", "unlabelled"]
"""Targets: one class; yes or no for several tasks, NaN where not known; real numbers; none."""


class Source(NamedTuple):
    """A set that is known by name.

    Attributes:
        file: name of its file, also as NAME.gz.
        kind: what its targets are.
        target: column of a single target, under any of these names; none for all columns.
        downloads: name of the file at MoleculeNet's; empty if it is not there.
    """

    file: str
    kind: Kind
    target: tuple[str, ...] = ()
    downloads: str = ""


SOURCES = {
    "BACE": Source("bace.csv", "classes", ("Class",), "bace.csv"),
    "BBBP": Source("bbbp.csv", "classes", ("p_np",), "BBBP.csv"),
    "ClinTox": Source("clintox.csv", "tasks", (), "clintox.csv.gz"),
    "SIDER": Source("sider.csv", "tasks", (), "sider.csv.gz"),
    "Tox21": Source("tox21.csv", "tasks", (), "tox21.csv.gz"),
    "ToxCast": Source("toxcast.csv", "tasks", (), "toxcast_data.csv.gz"),
    "ESOL": Source("delaney.csv", "values",
                   ("logp", "measured log solubility in mols per litre"), "delaney-processed.csv"),
    "FreeSolv": Source("freesolv.csv", "values", ("freesolv", "expt"), "SAMPL.csv"),
    "Lipo": Source("lipo.csv", "values", ("lipo", "exp"), "Lipophilicity.csv"),
    "MOSES": Source("moses/train.csv", "unlabelled"),
    **{
        f"CHEMBL{number}": Source(f"CHEMBL{number}.csv", "values", ("y",))
        for number in (
            "1862_Ki", "1871_Ki", "2047_EC50", "204_Ki", "214_Ki", "218_EC50", "228_Ki", "231_Ki",
            "234_Ki", "235_EC50", "237_EC50", "237_Ki", "239_EC50", "244_Ki", "264_Ki", "2835_Ki",
            "2971_Ki", "3979_EC50", "4203_Ki", "4616_EC50",
        )
    },
}  # fmt: skip
"""Sets by name: nine of MoleculeNet (Wu et al. 2018), MOSES (Polykovskiy et al. 2020), and the
twenty of the thirty of MoleculeACE (van Tilborg et al. 2022)."""
GROUPS = {
    "moleculenet": (
        "BACE", "BBBP", "ClinTox", "SIDER", "Tox21", "ToxCast", "ESOL", "FreeSolv", "Lipo"
    ),
    "cliffs": tuple(name for name in SOURCES if name.startswith("CHEMBL")),
}  # fmt: skip
"""Several sets by one name."""


SMILES = ("smiles", "canonical_smiles", "mol")
"""Columns that SMILES are looked for in, in any case."""
marks = ("smiles",)
"""Settings that say that a command's data are molecules."""


def has_columns(header: Sequence[str]) -> bool:
    """Whether a table has a column of SMILES."""
    return any(column.casefold() in SMILES for column in header)


def has_dataset(name: str, data_dir: str | Path | None = None) -> bool:
    """Whether a name is that of a known set of molecules, or of a table.

    An archive NAME.tar.gz is none.

    Example:
        >>> has_dataset("bace"), has_dataset("mine.csv"), has_dataset("MUTAG")
        (True, True, False)
    """
    if is_file(name):
        return not name.endswith(".tar.gz")
    return name.casefold() in map(str.casefold, (*SOURCES, *GROUPS))


def is_file(name: str) -> bool:
    """Whether a name is the path of a file, and not that of a known set.

    Example:
        >>> is_file("mine.csv"), is_file("BACE")
        (True, False)
    """
    return Path(name).suffix in (".csv", ".gz")


def canonical(name: str) -> str:
    """The name of a known set, given in any case.

    Raises:
        InputError: if there is none; offers the closest.

    Example:
        >>> canonical("bace")
        'BACE'
    """
    known = {source.casefold(): source for source in SOURCES}
    if name.casefold() not in known:
        raise unknown("set of molecules", name, SOURCES)
    return known[name.casefold()]


def name_or_path(
    name: str | Path, *, data_dir: str | Path | None = None, cache_dir: str | Path | None = None
) -> str:
    """The name of a known set as it is spelt, or the path of a file of another one; arguments and
    errors of :func:`load_molecules`.

    Example:
        >>> name_or_path("bace"), name_or_path("mine.csv")
        ('BACE', 'mine.csv')
    """
    name = os.fspath(name)
    if is_file(name):
        return name
    if name.casefold() not in map(str.casefold, SOURCES):
        places = locating.folders(
            "molecules", data_dir=data_dir, cache_dir=cache_dir, files="CSV files"
        )
        names = [f"{name}.csv", f"{name}.csv.gz"]
        if (path := locating.search(partial(in_folder, names=names), places)) is not None:
            return str(path)
    return canonical(name)


def in_folder(folder: Path, names: Sequence[str]) -> Path | None:
    """The first file with one of these names in a folder, its folders, or theirs."""
    patterns = (levels + glob.escape(name) for levels in ("", "*/", "*/*/") for name in names)
    return next((path for pattern in patterns for path in sorted(folder.glob(pattern))), None)
