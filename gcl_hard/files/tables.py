"""Reading tables of text, line by line."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gcl_hard.errors import InputError


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
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as text:
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
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}") from error


def header_of(path: Path, separators: str = ",") -> list[str]:
    """The names of columns in the first line of a table; arguments and errors of :func:`lines_of`.

    Raises:
        InputError: also if there is no line.
    """
    header = next(lines_of(path, separators), [])
    if not header:
        raise InputError(f"{path} is empty; expected a line of column names")
    return [name.strip() for name in header]
