"""Embeddings of many named items, computed batch by batch and resumed after a stop."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import DivergenceError, InputError
from gcl_hard.files.io import (
    array_of,
    atomic_write,
    check_writable,
    digest_of_arrays,
    expanded,
    joined_digest,
    locked,
    opened_npz,
    storable,
)
from gcl_hard.files.tables import check_output, write_tables

SUFFIXES = (".npz", ".parquet", ".csv")
"""Kinds of files that embeddings are written to."""
WRITTEN = 2**24
"""Numbers that are written at a time to a table."""


def set_named(data: str | Path) -> tuple[str, Path | None]:
    """Name of a set, and its folder if it is given as a path.

    Raises:
        InputError: for a path that does not exist.

    Example:
        >>> set_named("MUTAG")
        ('MUTAG', None)
    """
    text = str(data)
    if "/" not in text and not isinstance(data, Path):
        return text, None
    path = expanded(text)
    if not path.exists():
        raise InputError(f"{data}: there is no such file or folder")
    return (path.stem if path.suffix in (".npz", ".zip") else path.name), path.parent


def batch_bounds(n: int, size: int) -> NDArray[np.int64]:
    """The bounds of batches of ``size`` rows, and of what is left of n.

    Example:
        >>> batch_bounds(5, 2).tolist()
        [0, 2, 4, 5]
    """
    return np.minimum(np.arange(0, n + size, size), n)


@dataclass(frozen=True)
class Items:
    """Items that an encoder embeds.

    Attributes:
        columns: names of the rows by the name of a column, ``id`` first; [rows] each.
        digest: digest of the data.
        bounds: int64 [batches + 1]; batch k has the rows ``bounds[k]`` to ``bounds[k + 1] - 1``.
        encode: embeddings of a batch by its number, float32 [rows of the batch, d].
        notes: sentences on how the data were read.
        whole: as ``columns``, of all rows of the data, where some of them may have been chosen.
    """

    columns: Mapping[str, NDArray[Any]]
    digest: str
    bounds: NDArray[np.int64]
    encode: Callable[[int], NDArray[np.float32]]
    notes: tuple[str, ...] = ()
    whole: Mapping[str, NDArray[Any]] | None = None


@dataclass(frozen=True, repr=False)
class Embeddings:
    """Embeddings of named items.

    Attributes:
        values: float32 [rows, d]; those of a file are mapped from disk.
        columns: names of the rows by the name of a column, ``id`` first; [rows] each.
        model: digest of the encoder.
        data: digest of the data.
    """

    values: NDArray[np.float32]
    columns: Mapping[str, NDArray[Any]]
    model: str
    data: str

    @property
    def ids(self) -> NDArray[Any]:
        """Names of the items, [rows]."""
        return self.columns["id"]

    def __repr__(self) -> str:
        rows, width = self.values.shape
        return f"Embeddings({rows} rows of {width}, model {self.model}, data {self.data})"


def embed_items(
    items: Items, model: str, *, on_rows: Callable[[int], Any] = lambda rows: None
) -> Embeddings:
    """The embeddings of all items, in memory.

    Args:
        items: the items.
        model: digest of the encoder.
        on_rows: called with the number of rows embedded since the last call.

    Raises:
        DivergenceError: for a row that is not finite; names the item.
    """
    batches = []
    for k in range(len(items.bounds) - 1):
        batches.append(_batch(items, k))
        on_rows(len(batches[-1]))
    return Embeddings(np.concatenate(batches), items.columns, model, items.digest)


def embed_to_file(
    items: Items,
    model: str,
    path: Path,
    *,
    force: bool = False,
    on_rows: Callable[[int], Any] = lambda rows: None,
) -> bool:
    """Write the embeddings of all items to a file, or resume where this was stopped.

    Rows are kept in a hidden file beside it until all are done: memory holds a single batch.

    Args:
        items: as of :func:`embed_items`.
        model: likewise.
        path: NAME.npz, NAME.parquet or NAME.csv.
        force: whether a file of another model, or of other data, is replaced.
        on_rows: called with the number of rows embedded since the last call, including those of an
            earlier command.

    Returns:
        Whether anything was embedded: not if the file has embeddings of the same model and data.

    Raises:
        InputError: for a file with other content, or one that another command is writing.
        DivergenceError: as :func:`embed_items` does.
        KeyboardInterrupt: after Ctrl-C, with the number of rows done.
    """
    check_target(path)
    check_writable(path.absolute().parent)
    with locked(path.with_name(f".{path.name}.lock")) as mine:
        if not mine:
            raise InputError(f"{path} is being written by another command: wait until it has ended")
        if not force and path.exists():
            same = (model, items.digest) == (before := digests_of(path))
            if same and (items.whole is None or _ids_of(path) == [*map(str, items.columns["id"])]):
                on_rows(int(items.bounds[-1]))
                return False
            raise InputError(
                f"{path} has embeddings of model {before[0]}, data {before[1]}, and these are of "
                f"{model}, {items.digest}{', of other rows' * same}: give --force, or another file"
            )
        identity = joined_digest(
            model, items.digest, digest_of_arrays(items.bounds, *items.columns.values())
        )
        rows = path.with_name(f".{path.name}.{identity}.rows")
        for kept in path.absolute().parent.glob(f".{glob.escape(path.name)}.*.rows"):
            if force or kept.name != rows.name:
                kept.unlink()
        values = _kept_rows(items, rows, on_rows)
        with atomic_write(path) as file:
            embeddings = Embeddings(values, items.columns, model, items.digest)
            if path.suffix == ".npz":
                _write_npz(embeddings, file)
            else:
                write_tables(_tables(embeddings), file, path.suffix)
        rows.unlink()
        return True


def check_target(path: Path) -> None:
    """Refuse a suffix that cannot be written, before anything is read."""
    check_output(path, "embeddings", SUFFIXES)


def _batch(items: Items, k: int) -> NDArray[np.float32]:
    """The rows of a batch, checked."""
    start, end = int(items.bounds[k]), int(items.bounds[k + 1])
    values = np.asarray(items.encode(k), np.float32)
    finite = np.isfinite(values).all(1)
    if not finite.all():
        first = start + int(finite.argmin())
        row = ", ".join(f"{column} {names[first]}" for column, names in items.columns.items())
        raise DivergenceError(f"the embedding of {row} is not finite: look at its data")
    assert len(values) == end - start
    return values


def _kept_rows(items: Items, path: Path, on_rows: Callable[[int], Any]) -> NDArray[np.float32]:
    """All rows, in a file to which an earlier command may have written some batches."""
    first, n_rows = _batch(items, 0), int(items.bounds[-1])
    width = first.shape[1]
    with path.open("ab") as file:
        done = int(np.searchsorted(items.bounds, file.tell() // (4 * width), "right")) - 1
        file.truncate(int(items.bounds[done]) * 4 * width)  # a batch may be half-written
        on_rows(int(items.bounds[done]))
        try:
            for k in range(done, len(items.bounds) - 1):
                batch = _batch(items, k) if k else first
                file.write(batch.tobytes())
                done += 1
                on_rows(len(batch))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped after {items.bounds[done]:,} of {n_rows:,} rows; the same command goes on"
            ) from None
    return np.memmap(path, np.float32, "r", shape=(n_rows, width))


# Files


def _write_npz(embeddings: Embeddings, file: BinaryIO) -> None:
    arrays: dict[str, Any] = {
        "ids" if column == "id" else column: storable(names)
        for column, names in embeddings.columns.items()
    }
    arrays |= {"model": np.array(embeddings.model), "data": np.array(embeddings.data)}
    np.savez(file, embeddings=embeddings.values, **arrays)


def _tables(embeddings: Embeddings) -> Iterator[Any]:
    """DataFrames of rows, some at a time."""
    import pandas as pd

    width = embeddings.values.shape[1]
    step = max(1, WRITTEN // max(1, width))
    for start in range(0, len(embeddings.values), step):
        rows = slice(start, start + step)
        names = {column: ids[rows] for column, ids in embeddings.columns.items()}
        values = pd.DataFrame(embeddings.values[rows], columns=[f"z{i}" for i in range(width)])
        yield pd.DataFrame({**names, "model": embeddings.model, "data": embeddings.data}).join(
            values
        )


def _ids_of(path: Path) -> list[str]:
    """The ids of the rows of a file of embeddings."""
    import pandas as pd

    if path.suffix == ".npz":
        with opened_npz(path) as stored:
            return [*map(str, array_of(stored, path, "ids"))]
    if path.suffix == ".parquet":
        return [*map(str, pd.read_parquet(path, columns=["id"])["id"])]
    return [*pd.read_csv(path, usecols=["id"], dtype=str, keep_default_na=False)["id"]]


def digests_of(path: Path) -> tuple[str, str]:
    """Digests of the model and of the data of a file of embeddings.

    Raises:
        InputError: if it holds none.
    """
    try:
        if path.suffix == ".npz":
            with opened_npz(path) as stored:
                return str(array_of(stored, path, "model")), str(array_of(stored, path, "data"))
        import pandas as pd

        digests = ["model", "data"]
        if path.suffix == ".parquet":
            table = pd.read_parquet(path, columns=digests)
        else:
            table = pd.read_csv(path, usecols=digests, nrows=1, dtype=str)
        return str(table["model"][0]), str(table["data"][0])
    except Exception as error:  # from readers of three kinds of files
        raise InputError(
            f"{path} is there, and holds no embeddings of this command: give --force, or another "
            f"file"
        ) from error
