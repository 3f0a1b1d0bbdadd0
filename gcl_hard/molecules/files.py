"""Sets of molecules by name (MoleculeNet, MoleculeACE, MOSES), or from a CSV file of your own."""

from __future__ import annotations

import csv
import gzip
import hashlib
import math
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError, unknown
from gcl_hard.files import locating
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.molecules import SOURCES, Kind, in_folder, is_file, name_or_path
from gcl_hard.molecules.data import Molecules, Progress, from_smiles

SITE = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets"
"""Where MoleculeNet's files are."""
SMILES = ("smiles", "canonical_smiles", "mol")
"""Columns that SMILES are looked for in, in any case."""
OTHERS = ("mol_id", "exp_mean [nM]", "cliff_mol", "split")
"""Columns that are no targets."""
WORDS = {
    "yes": "1", "no": "0", "true": "1", "false": "0", "active": "1", "inactive": "0",
    "positive": "1", "negative": "0",
}  # fmt: skip
"""Answers in words."""
POWER = r"(?:[eE][+\-−–]?\d+|\s*[x×·*]\s*10(?:\^|[+\-−–]\d|[⁺⁻⁰¹²³⁴-⁹])\S*)"
NUMBER = rf"[+\-−–]?(?:\d[\d.,'’\u00a0\u202f]*|\.\d+){POWER}?"
UNIT = (
    r"(?:%|°\s?[CF]|ppm|ppb|[fpnuµμm]?M|[nuµμ]m|[pnuµμmk]?g|[nuµμmd][lL]|[LJU](?=/)"
    r"|(?i:[fpnuµμm]?mol|k?cal|kj|m?ev|k?da|iu))(?:\s?[/·*].*|\s\S+(?:-1|⁻¹))?"
)
MEASURED = re.compile(
    rf"[<>≤≥~≈]=?\s*{NUMBER}.*|{NUMBER}\s*(?:±|\+/?[-−–])\s*{NUMBER}.*|{NUMBER}\s*{UNIT}"
    r"|[+\-−–]?(?:\d+,\d+(?:[eE][+\-−–]?\d+)?|\d{1,3}(?:[,'’\u00a0\u202f]\d{3})+(?:\.\d*)?"
    r"|\d{1,3}(?:[.'’ \u00a0\u202f]\d{3})+,\d+|\d{1,3}(?: \d{3})+\.\d+)"
    rf"|[−–][\d.]+{POWER}?|[+\-−–]?[\d.]+{POWER}"
)
"""A measured value that is no number, such as >10, 5,2, 5 ± 1, or 10 nM; not 2-propanol or 3D."""
TRAIN, VALID, TEST = ("train", "training"), ("valid", "validation", "val"), ("test", "testing")
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
        unread_split: why the column ``split`` is not used, where it holds other words, else None.
    """

    molecules: Molecules
    kind: Kind
    test: NDArray[np.bool_] | None = None
    valid: NDArray[np.bool_] | None = None
    cliffs: NDArray[np.bool_] | None = None
    unread_split: str | None = None


def load_molecules(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    download: bool = True,
    cache_dir: str | Path | None = None,
    smiles: str | None = None,
    ids: str | Literal[False] | None = None,
    targets: Sequence[str] | None = None,
    unlabelled: bool = False,
    limit: int | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    on_columns: Callable[[str], Any] | None = None,
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
        ids: column of a file with what molecules are called, see :func:`read_molecules`.
        targets: columns of targets of a file; None for all others that are numbers.
        unlabelled: whether no column of a file is a target.
        limit: only the first so many rows; None for all.
        jobs: processes that parse.
        progress: called with the number of SMILES parsed since the last call.
        on_columns: called, before molecules are parsed, with a line that says what the columns of
            a file are taken for.

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
        return read_molecules(
            name, smiles=smiles, ids=ids, targets=targets, kind=kind, on_columns=on_columns,
            **options,
        )  # fmt: skip
    if targets is not None:
        raise InputError(f"{name} has targets of its own, got targets {', '.join(targets)}")
    if smiles is not None:
        raise InputError(f"{name} has a column of SMILES of its own, got {smiles}")
    if ids is not None and ids is not False:
        raise InputError(f"{name} has rows without names, got ids {ids}")
    source = SOURCES[name]
    path = locate(name, data_dir=data_dir, download=download, cache_dir=cache_dir)
    columns = _header(path)
    target_columns = [column for column in columns if column in source.target] or None
    return read_molecules(
        path, name=name, targets=target_columns, kind=source.kind,
        on_columns=on_columns or (lambda line: None), **options,
    )  # fmt: skip


class _UnreadSplit(UserWarning):
    """A column ``split`` has words that are no parts of a split."""


@contextmanager
def split_checked_later() -> Iterator[None]:
    """Within it no column ``split`` is warned of: who asks for that split is given an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", _UnreadSplit)
        yield


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
    url = f"{SITE}/{source.downloads}"
    wanted = Wanted(
        look=partial(in_folder, names=sorted(names)),
        lacks=lambda folder: f"no {source.file}, also not in its folders",
        headline=f"set of molecules {name!r} is not available",
        put=[(url if source.downloads else _origin(name), source.file)],
        hint="a CSV file of your own is named by its path",
        download=Download(url, source.downloads) if source.downloads else None,
    )
    places = locating.folders(
        "molecules", data_dir=data_dir, cache_dir=cache_dir, files="CSV files"
    )
    return locating.locate(wanted, places, download=download)


def _origin(name: str) -> str:
    if name == "MOSES":
        return "data/train.csv of github.com/molecularsets/moses"
    return f"{name}.csv of github.com/molML/MoleculeACE"


def read_molecules(
    path: str | Path,
    *,
    name: str | None = None,
    smiles: str | None = None,
    ids: str | Literal[False] | None = None,
    targets: Sequence[str] | None = None,
    kind: Kind | None = None,
    limit: int | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    cache_dir: str | Path | None = None,
    on_columns: Callable[[str], Any] | None = None,
) -> MoleculeData:
    """Molecules of a CSV file, which may be gzipped.

    Args:
        path: the file, with a line of column names.
        name: name of the set in results; that of the file if None.
        smiles: column of SMILES; ``smiles``, ``canonical_smiles`` or ``mol`` in any case if None.
        ids: column with what molecules are called; if None, the only one of words, all different,
            if there is one, and else the rows' numbers; False for these, and no column is read.
        targets: columns of targets; None for all others that are numbers, or yes and no in words.
            A warning names the others, and one that numbers the rows.
        kind: what they are; if None, ``"classes"`` for one column of whole numbers from 0 on,
            ``"tasks"`` for several of 0, 1 and nothing, ``"values"`` for other numbers. Rows
            without a molecule say nothing of it.
        limit: only the first so many rows; None for all.
        jobs: processes that parse.
        progress: called with the number of SMILES parsed since the last call.
        cache_dir: root of the cache.
        on_columns: called, before molecules are parsed, with a line that says what the columns are
            taken for.

    Raises:
        InputError: for a file that cannot be read, without such columns, with two of one name,
            with targets that are no numbers, with measured values that are none (>10, 10 nM) in a
            column that could be the target, or without molecules.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "mine.csv"
        ...     _ = path.write_text("smiles,active\\nCCO,1\\nCC,0\\n")
        ...     found = read_molecules(path, cache_dir=folder)
        >>> found.kind, found.molecules.y.tolist(), found.molecules.tasks
        ('classes', [1, 0], ('active',))
    """
    path = Path(path)
    if isinstance(targets, str):
        targets = [targets]
    columns = _columns(path, smiles=smiles, ids=ids, targets=targets, kind=kind, limit=limit)
    wanted, read = columns.targets, columns.read
    rows = _rows(path, columns.all, read, limit)
    # Millions of SMILES alone are not held, nor read where the cache has their molecules.
    held = [*rows] if len(read) > 1 else []
    table = {name: [row[i] for row in held] for i, name in enumerate(read)}
    if on_columns is not None:
        numbers = [column for column in wanted if targets or any(map(_is_known, table[column]))]
        on_columns(f"{path.name}: {columns.described(numbers)}")
    elif columns.ids and ids is None:
        warnings.warn(f"{path}: ids are taken from column {columns.ids}", stacklevel=2)
    y = [[row[read.index(column)] for column in wanted] for row in held]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    molecules = from_smiles(
        table[columns.smiles] if held else (row[0] for row in rows),
        name=name or path.name.partition(".")[0], jobs=jobs, progress=progress,
        cache_dir=cache_dir, key=f"{digest} {columns.smiles} {limit}",
    )  # fmt: skip
    if columns.ids:
        molecules = molecules.called(table[columns.ids])
    at = molecules.rows
    special = {key: np.array(table[column])[at] for key, column in columns.special.items()}
    if wanted:
        molecules, kind = _with_targets(molecules, y, wanted, path, kind, named=targets is not None)
    special = {key: np.char.lower(np.char.strip(values)) for key, values in special.items()}
    part, unread = special.get("split"), None
    if part is not None:
        unread = _unread_split(path, part, at)
        part = part if unread is None else None
    if unread is not None and wanted:
        warnings.warn(f"{unread}, so that the column is not used", _UnreadSplit, stacklevel=2)
    valid = None if part is None else np.isin(part, VALID)
    return MoleculeData(
        molecules, kind or "unlabelled", unread_split=unread,
        test=None if part is None else np.isin(part, TEST),
        valid=valid if valid is not None and valid.any() else None,
        cliffs=np.isin(special["cliff_mol"], CLIFF) if "cliff_mol" in special else None,
    )  # fmt: skip


class _Columns(NamedTuple):
    """What the columns of a file are read for.

    Attributes:
        all: the names of all.
        smiles: the column of SMILES.
        ids: that of ids; empty for the rows' numbers.
        targets: those of targets.
        special: ``split`` and ``cliff_mol``, as of :func:`_special`.
        could_be_ids: columns of words, if there are several.
    """

    all: Sequence[str]
    smiles: str
    ids: str
    targets: Sequence[str]
    special: Mapping[str, str]
    could_be_ids: Sequence[str]

    @property
    def read(self) -> list[str]:
        """The columns that are read, SMILES first."""
        ids = [self.ids] * bool(self.ids)
        return [*dict.fromkeys([self.smiles, *self.targets, *ids, *self.special.values()])]

    def described(self, targets: Sequence[str]) -> str:
        """What the columns are taken for, of which these targets hold numbers."""
        taken = (self.smiles, self.ids, *targets, *self.special.values())
        left = [name or "one without a name" for name in self.all if name not in taken]
        could = " or ".join(self.could_be_ids)
        parts = [
            f"SMILES from {self.smiles}",
            f"ids from {self.ids}" if self.ids else "ids are the rows' numbers",
            f"targets from {', '.join(targets)}" if targets else "no targets",
            *[f"not read: {', '.join(left)}"] * bool(left),
            *[f"--ids names a column of ids, such as {could}"] * bool(could),
        ]
        return "; ".join(parts)


def _columns(
    path: Path,
    *,
    smiles: str | None,
    ids: str | Literal[False] | None,
    targets: Sequence[str] | None,
    kind: Kind | None,
    limit: int | None,
) -> _Columns:
    """What the columns of a file are; arguments as of :func:`read_molecules`."""
    columns = _header(path)
    of_smiles = _smiles_column(path, columns, smiles)
    special = _special(columns)
    wanted = [
        column for column in columns if column not in ("", of_smiles, *OTHERS, *special.values())
    ]
    wanted += [""] * (columns.count("") == 1)  # as of a table's index
    for column in targets or ():
        if column not in columns:
            raise unknown(f"target of {path.name}", column, wanted or columns)
    if ids is not None and ids is not False and ids not in columns:
        raise unknown(f"column of ids of {path.name}", ids, [*dict.fromkeys(columns)])
    used = [*targets] if targets else [] if kind == "unlabelled" else wanted
    used = [*dict.fromkeys(used)]
    named_once = [of_smiles, *used, *([ids] if ids else []), *special.values()]
    _refuse_twins(path, columns, named_once, smiles is None)
    named, could_be_ids = ids or "", list[str]()
    if ids is None:
        taken = (of_smiles, *special.values(), *(targets or ()))
        others = dict.fromkeys(column for column in columns if column not in taken)
        could_be_ids = _words_in(path, columns, [*others], limit)
        if len(could_be_ids) == 1:
            named = could_be_ids.pop()
            _refuse_twins(path, columns, [named], smiles is None)
    of_targets = [column for column in used if targets or column != named]
    return _Columns(columns, of_smiles, named, of_targets, special, could_be_ids)


def _smiles_column(path: Path, columns: Sequence[str], named: str | None) -> str:
    """The column of SMILES, which is named or found by its name."""
    by_name = _by_name(columns)
    column = named or next((by_name[name] for name in SMILES if name in by_name), None)
    if column is None or column not in columns:
        looked = column or " or ".join(SMILES)
        hint = "name it by smiles (--smiles COLUMN)"
        if len(columns) == 1:
            hint = "are its columns separated by commas?"
        raise InputError(
            f"{path} has no column {looked} of SMILES, it has {', '.join(columns)}: {hint}"
        )
    return column


def _words_in(
    path: Path, columns: Sequence[str], names: Sequence[str], limit: int | None
) -> list[str]:
    """Which columns hold words that are all different.

    The file is read once for it, and of a column no more is held than until a word is seen again.
    """
    seen: dict[str, set[str]] = {name: set() for name in names}
    for row in _rows(path, columns, names, limit):
        for name, text in zip(names, row, strict=True):
            if name in seen:
                if text in seen[name] or not _is_word(text):
                    del seen[name]
                else:
                    seen[name].add(text)
        if not seen:
            break
    return [name for name in names if seen.get(name)]


def _is_word(text: str) -> bool:
    """Whether a text is no number, no measured value, no answer, and stands for none of these."""
    text = text.strip()
    return _number(text) is None and not MEASURED.fullmatch(text) and text.casefold() not in WORDS


def _is_known(text: str) -> bool:
    """Whether a text is a number, or an answer in words."""
    number = _number(WORDS.get(text.strip().casefold(), text.strip()))
    return number is not None and not math.isnan(number)


def _refuse_twins(
    path: Path, columns: Sequence[str], used: Sequence[str], any_smiles: bool
) -> None:
    """InputError for columns of one name, and for two that could be the SMILES or the split."""
    for name in used:
        if columns.count(name) > 1:
            raise InputError(
                f"{path} has {columns.count(name)} columns named {name}: rename them, so that each "
                f"can be named"
            )
    known = {name for name in (*SMILES, "split", "cliff_mol") if any_smiles or name not in SMILES}
    for name in known & {column.casefold() for column in used}:
        alike = [column for column in columns if column.casefold() == name]
        if len(alike) > 1:
            raise InputError(f"{path} has columns {' and '.join(alike)}: rename one")


def _unread_split(path: Path, words: NDArray[np.str_], rows: NDArray[np.int64]) -> str | None:
    """The first unknown word of a column ``split``; None if all are known."""
    read = np.isin(words, (*TRAIN, *VALID, *TEST))
    if read.all():
        return None
    first = int(np.argmin(read))
    return (
        f"{path}, column split, row {rows[first] + 1}: {str(words[first])!r} is none of "
        f"{TRAIN[0]}, {VALID[0]} and {TEST[0]}"
    )


def _with_targets(
    molecules: Molecules,
    rows: list[list[str]],
    names: Sequence[str],
    path: Path,
    kind: Kind | None,
    *,
    named: bool,
) -> tuple[Molecules, Kind]:
    """Molecules with the columns that are targets, and what these are.

    Rows without a molecule have no say.
    """
    at = molecules.rows
    of_molecules = {int(row): rows[row] for row in at}
    values = _numbers(of_molecules, names, path, drop=not named and kind != "tasks")
    if not named:
        _leave_out_numbering(values, at, path)
    known = np.stack([*values.values()], 1)
    kind = kind or _kind(known)
    targets = np.full((len(rows), len(values)), np.nan)
    targets[at] = known
    if len(values) == 1:
        targets = targets[:, 0]
    labelled = molecules.with_targets(targets, classes=kind == "classes", tasks=[*values])
    return labelled, kind


def _numbers(
    rows: Mapping[int, list[str]], names: Sequence[str], path: Path, *, drop: bool
) -> dict[str, NDArray[np.float64]]:
    """Columns as numbers, NaN where empty, of the rows that hold a molecule.

    Those that are no numbers are left out with a warning, or an error; so is one that could be
    the target, for most of its values are measured.
    """
    values, words, first = {}, list[str](), ""
    for i, name in enumerate(names):
        texts = {number: row[i].strip() for number, row in rows.items()}
        numbers = {n: _number(WORDS.get(text.casefold(), text)) for n, text in texts.items()}
        others = [n for n, number in numbers.items() if number is None]
        if others:
            strange = (
                f"{path}, column {name}, row {others[0] + 1}: {texts[others[0]]!r} is no number"
            )
            if not drop:
                raise InputError(f"{strange}; targets are numbers, or yes and no")
            first = first or strange
            most = len(others) >= len(rows) / 2
            measured = sum(MEASURED.fullmatch(texts[n]) is not None for n in others)
            if most and measured > len(others) / 2:
                raise InputError(
                    f"{strange}, and the column could be the target: correct it, or name the "
                    f"targets"
                )
            if most:
                words.append(name)
            else:
                warnings.warn(
                    f"{strange}, so the column is no target; correct or empty it if it should be",
                    stacklevel=4,
                )
            continue
        values[name] = np.array([*numbers.values()], float)
        if (beyond := np.abs(values[name]) > np.finfo(np.float32).max).any():
            raise InputError(
                f"{path}, column {name}: targets are finite numbers, or nothing where they are not "
                f"known, got {[*texts.values()][int(beyond.argmax())]}"
            )
    if not values:
        raise InputError(
            f"{first or path}: there is no column of numbers, so no target: name those that are "
            f"(--targets), or give kind='unlabelled' (pretrain reads no target)"
        )
    if words:
        warnings.warn(
            f"{path}: columns of words left out, which are no targets: {', '.join(words)}",
            stacklevel=4,
        )
    return values


def _number(text: str) -> float | None:
    """A number, NaN of what stands for an unknown one; None of another text."""
    if text.casefold() in ("", "na", "n/a", "null", "none"):
        return math.nan
    try:
        return None if "_" in text else float(text)  # Python reads the name 1_2 as 12
    except ValueError:
        return None


def _leave_out_numbering(
    values: dict[str, NDArray[np.float64]], rows: NDArray[np.int64], path: Path
) -> None:
    """Drop columns of whole numbers that rise by one from row to row, if others are left."""
    numbering = [
        name for name, column in values.items()
        if len(column) > 2 and (np.diff(column) == np.diff(rows)).all()
    ]  # fmt: skip
    for name in numbering if len(numbering) < len(values) else ():
        del values[name]
        warnings.warn(
            f"{path}: column {name} numbers the rows and is no target; name it by targets if it is",
            stacklevel=3,
        )


def _kind(y: NDArray[np.float64]) -> Kind:
    known = y[np.isfinite(y)]
    if not np.isin(known, (0, 1)).all():
        whole = y.shape[1] == 1 and len(known) == len(y) and (known % 1 == 0).all()
        few = whole and known.min() >= 0 and len(np.unique(known)) == known.max() + 1
        return "classes" if few else "values"
    return "classes" if y.shape[1] == 1 and len(known) == len(y) else "tasks"


@contextmanager
def _opened(path: Path) -> Iterator[Iterator[str]]:
    """The lines of a file, gzipped or not."""
    try:
        opened: Any = gzip.open if _is_gzipped(path) else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as text:
            yield text
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {why}") from error


def _is_gzipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _header(path: Path) -> list[str]:
    with _opened(path) as lines:
        header = next(csv.reader(lines), [])
    if not header:
        raise InputError(f"{path} is empty; expected a line of column names")
    return [name.strip() for name in header]


def _by_name(columns: Sequence[str]) -> dict[str, str]:
    """Columns by their names in lower case, of several the first."""
    return {name.casefold(): name for name in reversed(columns)}


def _special(columns: Sequence[str]) -> dict[str, str]:
    """The columns ``split`` and ``cliff_mol``, in any case, by these names."""
    by_name = _by_name(columns)
    return {name: by_name[name] for name in ("split", "cliff_mol") if name in by_name}


def _rows(
    path: Path, columns: Sequence[str], wanted: Sequence[str], limit: int | None
) -> Iterator[list[str]]:
    at = [columns.index(column) for column in wanted]
    with _opened(path) as text:
        lines = csv.reader(text)
        next(lines)
        for i, row in enumerate(lines):
            if i == limit:
                return
            if not row:
                continue
            if len(row) != len(columns):
                raise InputError(
                    f"{path}, line {lines.line_num}: {len(row)} columns, expected {len(columns)}"
                )
            yield [row[j] for j in at]
