"""Tables of the user's own, CSV, Parquet or DataFrames, as columns of NumPy."""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError
from gcl_hard.files.io import reading

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet")


def is_table(name: str) -> bool:
    """Whether a name is that of a file with a table.

    Example:
        >>> is_table("mine.CSV"), is_table("mine.npz")
        (True, False)
    """
    return name.casefold().endswith(SUFFIXES)


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
    frame = _of_file(Path(table)) if isinstance(table, str | Path) else table
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

    if path.suffix.casefold() == ".parquet":
        check_extra("parquet", f"reading {path.name}", "pyarrow")
        with reading(path, "a table"):
            return pd.read_parquet(path)
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with reading(path, "a table", "save it as CSV in UTF-8"), warnings.catch_warnings():
        warnings.simplefilter("error")  # of lines that are longer than the first
        with opened(path, "rt", encoding="utf-8-sig") as text:
            first = text.readline()
        by = max(",;\t", key=first.count)
        frame = pd.read_csv(path, sep=by, dtype=str, index_col=False, encoding="utf-8-sig")
    return frame.apply(_parsed, decimal="," if by == ";" else ".")


def _parsed(words: Any, decimal: str) -> Any:
    """A column of text as numbers or truth values, if all of it are."""
    import pandas as pd

    known = words.dropna().str.strip()
    if known.str.casefold().isin(("true", "false")).all() and len(known):
        return (known.str.casefold() == "true").astype(object).reindex(words.index)
    if known.str.fullmatch(r"[+-]?0\d+|\d{16,}").any():
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


def lines_of(path: Path, separators: str = ",") -> Iterator[list[str]]:
    """The cells of each line of a CSV file that is not blank, as many as its first line has.

    Args:
        path: the file, in UTF-8, which may be gzipped, NAME.gz.
        separators: letters of which that most frequent in the first line separates cells.

    Raises:
        InputError: for a file that cannot be read, or a line with another number of cells.
    """
    opened: Any = gzip.open if path.suffix == ".gz" else open
    n_columns = 0
    with reading(path, "a CSV file"), opened(path, "rt", encoding="utf-8-sig", newline="") as text:
        separator = separators
        if len(separators) > 1:
            separator = max(separators, key=text.readline().count)
            text.seek(0)
        for row in filter(None, lines := csv.reader(text, delimiter=separator)):
            n_columns = n_columns or len(row)
            if len(row) != n_columns:
                raise InputError(
                    f"{path}, line {lines.line_num}: {len(row)} columns, expected {n_columns}"
                )
            yield row


def header_of(path: Path, separators: str = ",") -> list[str]:
    """The names of columns in the first line of a table; arguments and errors of :func:`lines_of`.

    Raises:
        InputError: also if there is no line.
    """
    header = next(lines_of(path, separators), [])
    if not header:
        raise InputError(f"{path} is empty; expected a line of column names")
    return [name.strip() for name in header]
