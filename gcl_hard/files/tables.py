"""Tables of the user's own, CSV, Parquet, JSON lines or DataFrames, as columns of NumPy."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError
from gcl_hard.files.io import expanded, reading

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".jsonl", ".jsonl.gz")
JSON_LINES = (".jsonl", ".jsonl.gz")
SEPARATORS = ",;\t"
MISSING = ("", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
"""Cells of a CSV without a value."""
CODE = re.compile(r"[+-]?0\d+|\d{16,}")
"""Digits that are words."""
PART_OF = {
    **dict.fromkeys(("train", "training"), 0),
    **dict.fromkeys(("valid", "validation", "val", "dev"), 1),
    **dict.fromkeys(("test", "testing"), 2),
}
"""The part of a split that a word in small letters names: training, validation, testing."""


def is_table(name: str) -> bool:
    """Whether a name is that of a file with a table.

    Example:
        >>> is_table("mine.CSV"), is_table("mine.npz")
        (True, False)
    """
    return name.casefold().endswith(SUFFIXES)


def name_of_table(table: Any) -> str:
    """The name of a set that a table holds: that of its file, or ``own``.

    Example:
        >>> name_of_table("folder/mine.csv.gz"), name_of_table(None)
        ('mine', 'own')
    """
    return Path(table).name.partition(".")[0] if isinstance(table, str | Path) else "own"


def read_table(table: Any, kind: str) -> dict[str, NDArray[Any]]:
    """The columns of a table by name, each [n].

    In a CSV, whose values are separated by comma, semicolon (with decimal commas) or tab, a column
    holds numbers if all of its cells do; digits that begin with 0, or of more than 15, are words.

    Args:
        table: a file, by its path, or a DataFrame of pandas; an index with a name is a column.
        kind: what it holds, for messages.

    Returns:
        int64 if all are whole numbers; float64 of other numbers, NaN where missing; or objects:
        truth values, words or dates, None where missing.

    Raises:
        InputError: for a file that cannot be read, or two columns of one name.
        MissingExtraError: without pandas, or pyarrow for Parquet.
    """
    check_extra("bench", f"a table of {kind}", "pandas")
    frame = _of_file(expanded(table)) if isinstance(table, str | Path) else table
    if not (hasattr(frame, "iloc") and hasattr(frame, "columns")):
        raise InputError(
            f"{kind} are a {type(table).__name__}; expected a DataFrame of pandas, or the path of "
            f"a table ({', '.join(SUFFIXES)})"
        )
    if frame.index.name is not None and frame.index.name not in frame.columns:
        frame = frame.reset_index()
    names = [str(name).strip() for name in frame.columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{kind} have two columns {twice[0]!r}: rename one")
    return {name: _values(frame.iloc[:, i]) for i, name in enumerate(names)}


def _of_file(path: Path) -> Any:
    import pandas as pd

    if is_parquet(path):
        check_extra("parquet", f"reading {path.name}", "pyarrow")
        with reading(path, "a table"):
            return pd.read_parquet(path)
    if path.name.casefold().endswith(JSON_LINES):
        return pd.DataFrame([*_objects(path)])
    header, decimal = header_of(path), "," if _separator(path) == ";" else "."
    frame = pd.DataFrame([*islice(lines_of(path), 1, None)], columns=header, dtype=object)
    return frame.apply(_parsed, decimal=decimal)


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file with one in each line that is not blank."""
    with reading(path, "a file of JSON lines"), _opened(path) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip() and not isinstance(row := json.loads(line), dict):
                raise ValueError(f"line {number} is a {type(row).__name__}, expected an object")
            if line.strip():
                yield row


def _parsed(cells: Any, decimal: str) -> Any:
    """A column of text as numbers or truth values, if all of it are."""
    import pandas as pd

    words = cells.str.strip()
    words = words.mask(words.isin(MISSING), None)
    known = words.dropna()
    if known.str.casefold().isin(("true", "false")).all() and len(known):
        return (known.str.casefold() == "true").astype(object).reindex(words.index)
    if known.str.fullmatch(CODE).any():
        return words
    if decimal == "," and known.str.fullmatch(r"[+-]?\d+(,\d+)?").all():
        known = known.str.replace(",", ".")
    numbers = pd.to_numeric(known, errors="coerce")
    return words if numbers.isna().any() else numbers.reindex(words.index)


def _values(column: Any) -> NDArray[Any]:
    from pandas.api import types

    if column.dtype == object:
        column = column.convert_dtypes()
    if types.is_numeric_dtype(column) and not types.is_bool_dtype(column):
        whole = types.is_integer_dtype(column) and not column.hasnans
        return np.asarray(
            column.to_numpy(np.int64) if whole else column.to_numpy(np.float64, na_value=np.nan)
        )
    values = column.astype(object)
    return np.asarray(values.where(values.notna(), None).to_numpy(object))


def is_parquet(path: Path) -> bool:
    """Whether a path is called as a Parquet file."""
    return path.suffix.casefold() == ".parquet"


def _opened(path: Path) -> Any:
    opened: Any = gzip.open if path.suffix.casefold() == ".gz" else open
    return opened(path, "rt", encoding="utf-8-sig", newline="")


def _separator(path: Path) -> str:
    """What separates cells: the most frequent of the separators in the first line."""
    with _opened(path) as text:
        unquoted = re.sub('"[^"]*"', "", text.readline())
    return max(SEPARATORS, key=unquoted.count)


def lines_of(path: Path) -> Iterator[list[str]]:
    """The cells of each line of a CSV file that is not blank, as many as its first line has.

    Args:
        path: the file, in UTF-8, which may be gzipped, NAME.gz; cells are separated by comma,
            semicolon or tab.

    Raises:
        InputError: for a file that cannot be read, or a line with another number of cells.
    """
    n_columns = 0
    with reading(path, "a CSV file"), _opened(path) as text:
        for row in filter(None, lines := csv.reader(text, delimiter=_separator(path))):
            n_columns = n_columns or len(row)
            if len(row) != n_columns:
                raise InputError(
                    f"{path}, line {lines.line_num}: {len(row)} columns, expected {n_columns}"
                )
            yield row


def header_of(path: Path) -> list[str]:
    """The names of columns of a CSV or Parquet file, or of the first JSON line.

    Raises:
        InputError: as of :func:`lines_of`; also if there is no line.
        MissingExtraError: for Parquet without pyarrow.
    """
    if is_parquet(path):
        check_extra("parquet", f"reading {path.name}")
        from pyarrow import parquet

        with reading(path, "a Parquet file"):
            return parquet.read_schema(path).names
    if path.name.casefold().endswith(JSON_LINES):
        return [*next(_objects(path), {})]
    header = next(lines_of(path), [])
    if not header:
        raise InputError(f"{path} is empty; expected a line of column names")
    return [name.strip() for name in header]


def parts_of(
    words: Sequence[Any] | NDArray[Any], column: str, rows: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The parts of a split that words name: 0 training, 1 validation, 2 testing; −1 for None.

    Args:
        words: texts in any case, or None.
        column: what messages call the column.
        rows: numbers of the rows from 0, for messages; those of the words if None.

    Raises:
        InputError: for any other word.

    Example:
        >>> parts_of(["Train", "test", None, "val"], "column split")
        array([ 0,  2, -1,  1])
    """
    parts = [-1 if word is None else PART_OF.get(word.strip().casefold()) for word in words]
    if None in parts:
        k = parts.index(None)
        raise InputError(
            f"{column}, row {(k if rows is None else rows[k]) + 1}: {str(words[k])!r} is none of "
            f"train, valid and test: correct it, or rename the column"
        )
    return np.array(parts, np.int64)


def check_output(path: Path, content: str, suffixes: Sequence[str]) -> None:
    """Refuse a suffix that cannot be written, before anything is read."""
    if path.suffix not in suffixes:
        raise InputError(f"{content} are written to {', '.join(suffixes)}, got {path}")
    if is_parquet(path):
        check_extra("parquet", f"writing {path.name}")


def write_tables(tables: Iterable[Any], file: BinaryIO, suffix: str) -> None:
    """Write tables one below the other, to .csv or .parquet.

    Args:
        tables: DataFrames or columns by name, of the same names and types.
        file: open for writing.
        suffix: says the kind.
    """
    import pandas as pd

    frames = map(pd.DataFrame, tables)
    if suffix == ".csv":
        for number, frame in enumerate(frames):
            frame.to_csv(
                file, mode="wb", header=not number, index=False, float_format="%.9g",
                lineterminator="\r\n", errors="backslashreplace",
            )  # fmt: skip
        return
    import pyarrow as pa
    from pyarrow import parquet

    parts = (pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)
    first = next(parts)
    kinds = [(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in first.schema]
    schema = pa.schema(kinds, first.schema.metadata)  # a part without rows says no type of words
    with parquet.ParquetWriter(file, schema) as writer:
        for part in chain([first], parts):
            writer.write_table(part.cast(schema))
