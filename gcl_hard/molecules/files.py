"""Sets of molecules by name (MoleculeNet, MoleculeACE, MOSES), or from a CSV file of your own."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError, unknown
from gcl_hard.files import locating
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.files.tables import header_of, lines_of, parts_of
from gcl_hard.molecules import SMILES, SOURCES, Kind, in_folder, is_file, name_or_path
from gcl_hard.molecules.data import Molecules, Progress, from_smiles

SITE = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets"
"""Where MoleculeNet's files are."""
ELSEWHERE = "github.com/molecularsets/moses (data/train.csv) or github.com/molML/MoleculeACE"
"""Where the others are."""
OTHERS = ("mol_id", "exp_mean [nM]")
"""Other columns that are no targets."""
WORDS = {
    "yes": "1", "no": "0", "true": "1", "false": "0", "active": "1", "inactive": "0",
    "positive": "1", "negative": "0",
}  # fmt: skip
"""Answers in words."""
SPECIAL = "split", "cliff_mol"
"""Columns of the parts of a split, and of molecules with activity cliffs, in any case."""
"""What the column ``split`` says of a molecule, in any case."""
CLIFF = ("1", "1.0", "true", "yes")
"""What the column ``cliff_mol`` says of a molecule with an activity cliff, in any case."""


@dataclass(frozen=True, eq=False)
class MoleculeData:
    """A set of molecules with what its file says of them.

    Attributes:
        molecules: the molecules, with their targets.
        kind: what the targets are.
        test: bool [G], the test part where the file has a column ``split``, else None.
        valid: bool [G], the validation part where that column names one, else None.
        cliffs: bool [G], which have an activity-cliff partner (column ``cliff_mol``), else None.
    """

    molecules: Molecules
    kind: Kind
    test: NDArray[np.bool_] | None = None
    valid: NDArray[np.bool_] | None = None
    cliffs: NDArray[np.bool_] | None = None


def load_molecules(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    download: bool = True,
    cache_dir: str | Path | None = None,
    smiles: str | None = None,
    id: str | None = None,
    targets: Sequence[str] | None = None,
    unlabelled: bool = False,
    limit: int | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> MoleculeData:
    """A set of molecules by name, or of a CSV file of your own.

    It is looked for in the data folder and its folders, then in the cache's ``molecules``, and
    otherwise downloaded (sets of MoleculeNet). Molecules are parsed once and kept in the cache.

    Args:
        name: a name of :data:`SOURCES`, in any case; any other NAME of a NAME.csv or NAME.csv.gz
            in the data folder or its folders, or the path of a file, for which see
            :func:`read_molecules`.
        data_dir: the data folder; by default that of ``GCL_HARD_DATA``.
        download: whether the network may be used.
        cache_dir: root of the cache, as for :func:`gcl_hard.files.io.cache_root`.
        smiles: column of SMILES of a file; found by its name if None.
        id: column of a file with what molecules are called, see :func:`read_molecules`.
        targets: columns of targets of a file; None for all others that are numbers.
        unlabelled: whether no column of a file is a target.
        limit: only the first so many rows; None for all.
        jobs: processes that parse.
        progress: called with the number of SMILES parsed since the last call.

    Returns:
        The set, on the CPU.

    Raises:
        InputError: if it cannot be found or read, or holds no molecule.
        MissingExtraError: without rdkit.

    Example:
        >>> load_molecules("missing.csv")
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: cannot read missing.csv: No such file or directory
    """
    options: dict[str, Any] = {
        "limit": limit, "jobs": jobs, "progress": progress, "cache_dir": cache_dir
    }  # fmt: skip
    name = name_or_path(name, data_dir=data_dir, cache_dir=cache_dir)
    if is_file(name):
        kind: Kind | None = "unlabelled" if unlabelled else None
        return read_molecules(name, smiles=smiles, id=id, targets=targets, kind=kind, **options)
    for option, column in (("targets", targets), ("smiles", smiles), ("id", id)):
        if column is not None:
            raise InputError(f"{option} names columns of your own file, and {name} is a known set")
    source = SOURCES[name]
    path = locate(name, data_dir=data_dir, download=download, cache_dir=cache_dir)
    target_columns = [column for column in header_of(path) if column in source.target] or None
    return read_molecules(path, name=name, targets=target_columns, kind=source.kind, **options)


def locate(
    name: str,
    *,
    data_dir: str | Path | None = None,
    download: bool = True,
    cache_dir: str | Path | None = None,
) -> Path:
    """Path of the file of a known set, downloaded if necessary; arguments of load_molecules.

    Raises:
        InputError: if it cannot be found; lists what was tried, and where to put the file.
    """
    source = SOURCES[name]
    names = {file + end for file in (source.file, source.downloads) if file for end in ("", ".gz")}
    url = f"{SITE}/{source.downloads}" if source.downloads else ""
    wanted = Wanted(
        look=partial(in_folder, names=sorted(names)),
        lacks=lambda folder: f"no {source.file}, also not in its folders",
        headline=f"set of molecules {name!r} is not available",
        put=[(url or f"{name} of {ELSEWHERE}", source.file)],
        hint="a CSV file of your own is named by its path",
        download=Download(url, source.downloads) if url else None,
    )
    places = locating.folders(
        "molecules", data_dir=data_dir, cache_dir=cache_dir, files="CSV files"
    )
    return locating.locate(wanted, places, download=download)


def read_molecules(
    path: str | Path,
    *,
    name: str | None = None,
    smiles: str | None = None,
    id: str | None = None,
    targets: Sequence[str] | None = None,
    kind: Kind | None = None,
    limit: int | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    cache_dir: str | Path | None = None,
) -> MoleculeData:
    """Molecules of a CSV file, which may be gzipped.

    Args:
        path: the file, with a line of column names.
        name: name of the set in results; that of the file if None.
        smiles: column of SMILES; ``smiles``, ``canonical_smiles`` or ``mol`` in any case if None.
        id: column with what molecules are called; the rows' numbers if None.
        targets: columns of targets; None for all others that are numbers, or yes and no in words.
            A warning names the others, and one that numbers the rows.
        kind: what they are; if None, ``"classes"`` for one column of whole numbers from 0 on,
            ``"tasks"`` for several of 0, 1 and nothing, ``"values"`` for other numbers. Rows
            without a molecule say nothing of it.
        limit: only the first so many rows; None for all.
        jobs: processes that parse.
        progress: called with the number of SMILES parsed since the last call.
        cache_dir: root of the cache.

    Raises:
        InputError: for a file that cannot be read, without such columns, with two of one name,
            with targets that are no numbers, or without molecules.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "mine.csv"
        ...     _ = path.write_text("smiles,active\\nCCO,1\\nCC,0\\n")
        ...     found = read_molecules(path, cache_dir=folder)
        >>> found.kind, found.molecules.y.tolist(), found.molecules.tasks
        ('classes', [1, 0], ('active',))
    """
    path, columns = Path(path), header_of(Path(path))
    read, wanted, in_any_case = _columns(
        path, columns, smiles=smiles, id=id, unlabelled=kind == "unlabelled",
        targets=[targets] if isinstance(targets, str) else targets,
    )  # fmt: skip
    positions = [columns.index(column) for column in read]
    lines = islice(lines_of(path), 1, None if limit is None else limit + 1)
    rows = ([row[i] for i in positions] for row in lines)
    # Millions of SMILES alone are not held, nor read where the cache has their molecules.
    held = [*rows] if len(read) > 1 else []
    table = {name: [row[i] for row in held] for i, name in enumerate(read)}
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    molecules = from_smiles(
        table[read[0]] if held else (row[0] for row in rows),
        name=name or path.name.partition(".")[0], jobs=jobs, progress=progress,
        cache_dir=cache_dir, key=f"{digest} {read[0]} {limit}",
    )  # fmt: skip
    if id:
        molecules = molecules.called(table[id])
    at = molecules.rows
    if wanted:
        texts = {column: [table[column][row].strip() for row in at] for column in wanted}
        molecules, kind = _with_targets(
            molecules, texts, path, kind, len(held), named=targets is not None
        )
    special = {
        key: np.char.lower(np.char.strip(np.array(table[column])[at]))
        for key, column in in_any_case.items()
    }
    test = valid = None
    if "split" in special:
        part = parts_of(special["split"], f"{path}, column split", at)
        test, valid = part == 2, part == 1
    return MoleculeData(
        molecules, kind or "unlabelled", test=test,
        valid=valid if valid is not None and valid.any() else None,
        cliffs=np.isin(special["cliff_mol"], CLIFF) if "cliff_mol" in special else None,
    )  # fmt: skip


def _columns(
    path: Path, columns: Sequence[str], *, smiles: str | None, id: str | None,
    targets: Sequence[str] | None, unlabelled: bool,
) -> tuple[list[str], list[str], dict[str, str]]:  # fmt: skip
    """The columns that are read, that of SMILES first; those of targets; and ``split`` and
    ``cliff_mol``, in any case, by these names.
    """
    by_name = {name.casefold(): name for name in reversed(columns)}
    usual = next((by_name[name] for name in SMILES if name in by_name), None)
    if (smiles or usual) not in columns:
        raise InputError(
            f"{path} has no column {smiles or ' or '.join(SMILES)} of SMILES, it has "
            f"{', '.join(columns)}: name it by smiles (--smiles COLUMN)"
        )
    special = {} if unlabelled else {name: by_name[name] for name in SPECIAL if name in by_name}
    named = [*(targets or ()), *([id] if id else ())]
    for column in named:
        if column not in columns:
            raise unknown(f"column of {path.name}", column, [*dict.fromkeys(columns)])
    first = smiles or str(usual)
    others = {first, id, *OTHERS, *special.values()}
    used = [*targets] if targets else [name for name in columns if name not in others]
    if not targets and columns.count("") > 1:
        used = [name for name in used if name]  # of commas at the ends of lines
    used = [] if unlabelled else [*dict.fromkeys(used)]
    read = [*dict.fromkeys([first, *used, *named, *special.values()])]
    in_any_case = {*special.values(), *([] if smiles else [first])}
    for name in read:
        fold = str.casefold if name in in_any_case else str
        alike = [other for other in columns if fold(other) == fold(name)]
        if len(alike) > 1:
            raise InputError(f"{path} has several columns {' and '.join(alike)}: rename them")
    return read, used, special


def _with_targets(
    molecules: Molecules, texts: dict[str, list[str]], path: Path, kind: Kind | None, n_rows: int,
    *, named: bool,
) -> tuple[Molecules, Kind]:  # fmt: skip
    """Molecules with the targets in columns of texts, and what the targets are.

    If they are not ``named``, columns with other words and those that number the rows are left out,
    with a warning.
    """
    at = molecules.rows
    values, left_out = dict[str, NDArray[np.float64]](), list[str]()
    for name, cells in texts.items():
        numbers = [_number(WORDS.get(cell.casefold(), cell)) for cell in cells]
        if None in numbers:
            first = numbers.index(None)
            strange = f"column {name} (row {at[first] + 1}: {cells[first]!r} is no number)"
            if named or kind == "tasks":
                raise InputError(f"{path}, {strange}: targets are numbers, or yes and no")
            left_out.append(strange)
            continue
        values[name] = np.array(numbers, float)
    if not named:
        numbering = [
            name for name, column in values.items()
            if len(column) > 2 and (np.diff(column) == np.diff(at)).all()
        ]  # fmt: skip
        for name in numbering if len(numbering) < len(values) else ():
            del values[name]
            left_out.append(f"column {name} (it numbers the rows)")
    if not values:
        raise InputError(
            f"{path} has no column of numbers, so no target{': ' * bool(left_out)}"
            f"{', '.join(left_out)}; name the targets, or give kind='unlabelled' (pretrain reads "
            f"no target)"
        )
    if left_out:
        warnings.warn(
            f"{path}: left out, as no targets unless they are named by targets: "
            f"{', '.join(left_out)}",
            stacklevel=3,
        )
    known = np.stack([*values.values()], 1)
    kind = kind or _kind(known)
    targets = np.full((n_rows, len(values)), np.nan)
    targets[at] = known
    if len(values) == 1:
        targets = targets[:, 0]
    return molecules.with_targets(targets, classes=kind == "classes", tasks=[*values]), kind


def _number(text: str) -> float | None:
    """A number, NaN for a blank cell, or None for other words."""
    if text.casefold() in ("", "na", "n/a", "null", "none"):
        return math.nan
    try:
        return None if "_" in text else float(text)  # Python reads the name 1_2 as 12
    except ValueError:
        return None


def _kind(y: NDArray[np.float64]) -> Kind:
    known = y[np.isfinite(y)]
    if not np.isin(known, (0, 1)).all():
        whole = y.shape[1] == 1 and len(known) == len(y) and (known % 1 == 0).all()
        few = whole and known.min() >= 0 and len(np.unique(known)) == known.max() + 1
        return "classes" if few else "values"
    return "classes" if y.shape[1] == 1 and len(known) == len(y) else "tasks"
