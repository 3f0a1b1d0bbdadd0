"""Embeddings of many items: batch by batch, resumed where they were stopped, with their names."""

from __future__ import annotations

import csv
import io
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import DivergenceError, InputError, check_at_least, check_option
from gcl_hard.files.io import (
    array_of,
    atomic_write,
    check_writable,
    digest_of_arrays,
    expanded,
    locked,
    opened_npz,
    storable,
    write_json,
)
from gcl_hard.files.stored import unlike

Level = Literal["graphs", "nodes"]
SUFFIXES = (".npz", ".parquet", ".csv")
"""Kinds of files that embeddings are written to."""
KEPT_EVERY = 10.0
"""Seconds between two states that a command goes on from."""
WRITTEN = 2**24
"""Numbers that are written at a time to a table."""


def set_named(data: str | Path) -> tuple[str, Path | None]:
    """Name of a set, and the folder that it is in where it is given as a path.

    Raises:
        InputError: for a path where nothing is.

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


@dataclass(frozen=True)
class Reading:
    """How data to be embedded are read.

    Attributes:
        level: whether graphs are embedded, or all of their nodes.
        smiles: column of SMILES of a CSV; found by its name if None.
        ids: column of a CSV with what its rows are called.
        batch_size: items embedded at a time; None for as many as the domain usually takes.
    """

    level: Level = "graphs"
    smiles: str | None = None
    ids: str | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_option("level", self.level, get_args(Level))
        if self.batch_size is not None:
            check_at_least("batch-size", self.batch_size, 1)


@dataclass(frozen=True)
class Items:
    """What an encoder embeds.

    Attributes:
        columns: what the rows are called, by the name of a column, ``id`` first; [rows] each.
        digest: digest of the data.
        bounds: int64 [batches + 1]; batch k has the rows ``bounds[k]`` to ``bounds[k + 1] - 1``.
        encode: embeddings of a batch by its number, float32 [rows of the batch, d].
        notes: sentences on what the data were taken for.
    """

    columns: Mapping[str, NDArray[Any]]
    digest: str
    bounds: NDArray[np.int64]
    encode: Callable[[int], NDArray[np.float32]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Embeddings:
    """Embeddings of items, with what these are called.

    Attributes:
        values: float32 [rows, d]; of a file, mapped from the disk.
        columns: what the rows are called, by the name of a column, ``id`` first; [rows] each.
        model: digest of the encoder.
        data: digest of the data.
    """

    values: NDArray[np.float32]
    columns: Mapping[str, NDArray[Any]]
    model: str
    data: str

    @property
    def ids(self) -> NDArray[Any]:
        """What the items are called, [rows]."""
        return self.columns["id"]

    def __repr__(self) -> str:
        rows, width = self.values.shape
        return f"Embeddings({rows} rows of {width}, model {self.model}, data {self.data})"


def embed_items(
    items: Items, model: str, *, on_rows: Callable[[int], Any] = lambda rows: None
) -> Embeddings:
    """The embeddings of all items, in memory.

    Args:
        items: what is embedded.
        model: digest of the encoder.
        on_rows: called with the number of rows embedded since the last call.

    Raises:
        DivergenceError: for a row that is not finite; names the item.
    """
    found = []
    for k in range(len(items.bounds) - 1):
        found.append(_batch(items, k))
        on_rows(len(found[-1]))
    return Embeddings(np.concatenate(found), items.columns, model, items.digest)


def embed_to_file(
    items: Items,
    model: str,
    path: Path,
    *,
    force: bool = False,
    on_rows: Callable[[int], Any] = lambda rows: None,
) -> bool:
    """Write the embeddings of all items to a file, or go on where this was stopped.

    Rows are kept in a hidden folder beside the file until all are there, so that memory holds a
    batch.

    Args:
        items: as of :func:`embed_items`.
        model: likewise.
        path: NAME.npz, NAME.parquet or NAME.csv.
        force: whether a file of another model, or of other data, is replaced.
        on_rows: called with the number of rows embedded since the last call, those of an earlier
            command too.

    Returns:
        Whether anything was embedded: not if the file was there, of the same model and data.

    Raises:
        InputError: for a file of something else, or one that another command is writing.
        DivergenceError: as :func:`embed_items` does.
        KeyboardInterrupt: after Ctrl-C, with what was reached.
    """
    check_target(path)
    check_writable(path.absolute().parent)
    identity = {"model": model, "data": items.digest, "batches": digest_of_arrays(items.bounds)}
    with locked(path.with_name(f".{path.name}.lock")) as mine:
        if not mine:
            raise InputError(f"{path} is being written by another command: wait until it has ended")
        if not force and path.exists():
            if (model, items.digest) == (before := digests_of(path)):
                on_rows(int(items.bounds[-1]))
                return False
            raise InputError(
                f"{path} has embeddings of model {before[0]}, data {before[1]}, and these are of "
                f"{model}, {items.digest}: give --force, or another file"
            )
        folder = path.with_name(f".{path.name}.rows")
        if force:
            _remove(folder)
        values = _kept_rows(items, folder, identity, on_rows)
        found = Embeddings(values, items.columns, model, items.digest)
        with atomic_write(path) as file:
            WRITERS[path.suffix](found, file)
        _remove(folder)
        return True


def _remove(folder: Path) -> None:
    """Remove the rows of an earlier command, whatever is in their place."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.unlink(missing_ok=True)


def check_target(path: Path) -> None:
    """Refuse a file whose suffix says no kind that is written here, before anything is read."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"embeddings are written to {', '.join(SUFFIXES)}, got {path}")
    if path.suffix == ".parquet":
        check_extra("parquet", f"writing {path.name}")


def _batch(items: Items, k: int) -> NDArray[np.float32]:
    """The rows of a batch, checked."""
    start, end = int(items.bounds[k]), int(items.bounds[k + 1])
    values = np.asarray(items.encode(k), np.float32)
    finite = np.isfinite(values).all(1)
    if not finite.all():
        first = start + int(finite.argmin())
        named = ", ".join(f"{name} {one[first]}" for name, one in items.columns.items())
        raise DivergenceError(f"the embedding of {named} is not finite: look at its data")
    assert len(values) == end - start
    return values


def _kept_rows(
    items: Items, folder: Path, identity: dict[str, Any], on_rows: Callable[[int], Any]
) -> NDArray[np.float32]:
    """All rows, in a file of a folder that an earlier command may have begun."""
    state, rows = folder / "state.json", folder / "rows.npy"
    done, values = _reached(items, folder, identity)
    if not done:
        _remove(folder)
    on_rows(int(items.bounds[done]))
    kept_at, last = time.monotonic(), len(items.bounds) - 1

    def keep() -> None:
        values.flush()
        write_json({**identity, "done": done, "width": values.shape[1]}, state)

    try:
        while done < last:
            found = _batch(items, done)
            if values is None:
                folder.mkdir(parents=True)
                shape = (int(items.bounds[-1]), found.shape[1])
                values = np.lib.format.open_memmap(rows, "w+", np.float32, shape)
            values[items.bounds[done] : items.bounds[done + 1]] = found
            done += 1
            on_rows(len(found))
            if time.monotonic() - kept_at > KEPT_EVERY:
                keep()
                kept_at = time.monotonic()
    except KeyboardInterrupt:
        if done:
            keep()
        raise KeyboardInterrupt(
            f"stopped after {items.bounds[done]:,} of {items.bounds[-1]:,} rows; the same command "
            f"goes on"
        ) from None
    finished: NDArray[np.float32] = values
    return finished


def _reached(items: Items, folder: Path, identity: Mapping[str, Any]) -> tuple[int, Any]:
    """Batches that an earlier command has embedded of the same items by the same model, and its
    rows; 0 and None if there are none, or not all that its state says.
    """
    declared = {**dict.fromkeys(identity, str), "done": int, "width": int}
    try:
        found = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        whole = unlike(found, declared) is None and 0 < found["done"] < len(items.bounds)
        if not whole or any(found[name] != one for name, one in identity.items()):
            return 0, None
        rows = folder / "rows.npy"
        there = np.load(rows, mmap_mode="r")  # which a file that was cut does not stand
        shape = (int(items.bounds[-1]), found["width"])
        if (there.shape, there.dtype) != (shape, np.float32):
            return 0, None
        return found["done"], np.load(rows, mmap_mode="r+")
    except (OSError, ValueError, EOFError):
        return 0, None


# Files


def _write_npz(found: Embeddings, file: BinaryIO) -> None:
    named: dict[str, Any] = {
        "ids" if name == "id" else name: storable(one) for name, one in found.columns.items()
    }
    named |= {"model": np.array(found.model), "data": np.array(found.data)}
    np.savez(file, embeddings=found.values, **named)


def _write_csv(found: Embeddings, file: BinaryIO) -> None:
    text = io.TextIOWrapper(
        file, encoding="utf-8", errors="backslashreplace", newline="", write_through=True
    )
    lines = csv.writer(text)  # both letters of its line ends are quoted in ids
    lines.writerow([*found.columns, "model", "data", *_names(found)])
    for names, values in _pieces(found):
        for k, row in enumerate(values.tolist()):
            ids = [one[k] for one in names]
            lines.writerow([*ids, found.model, found.data, *(f"{x:.9g}" for x in row)])
    text.detach()


def _write_parquet(found: Embeddings, file: BinaryIO) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    digest = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([
        *((name, pa.from_numpy_dtype(one.dtype) if one.dtype.kind in "iu" else pa.string())
          for name, one in found.columns.items()),
        ("model", digest), ("data", digest), *((name, pa.float32()) for name in _names(found)),
    ], {b"model": found.model.encode(), b"data": found.data.encode()})  # fmt: skip
    with parquet.ParquetWriter(file, schema) as writer:
        for names, values in _pieces(found):
            same = [[one] * len(values) for one in (found.model, found.data)]
            ids = [_encodable(one.tolist()) for one in names]
            columns = [*ids, *same, *np.ascontiguousarray(values.T)]
            arrays = [pa.array(one, of.type) for one, of in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


WRITERS: Mapping[str, Callable[[Embeddings, BinaryIO], None]] = {
    ".npz": _write_npz, ".csv": _write_csv, ".parquet": _write_parquet,
}  # fmt: skip


def _encodable(ids: list[Any]) -> list[Any]:
    """Ids whose text is UTF-8, with what is none written as numbers."""
    return [
        one.encode("utf-8", "backslashreplace").decode() if isinstance(one, str) else one
        for one in ids
    ]


def _names(found: Embeddings) -> list[str]:
    return [f"z{i}" for i in range(found.values.shape[1])]


def _pieces(found: Embeddings) -> Iterator[tuple[Sequence[NDArray[Any]], NDArray[np.float32]]]:
    """Rows with what they are called, some at a time."""
    step = max(1, WRITTEN // max(1, found.values.shape[1]))
    for start in range(0, len(found.values), step):
        rows = slice(start, start + step)
        yield [one[rows] for one in found.columns.values()], found.values[rows]


def digests_of(path: Path) -> tuple[str, str]:
    """Digests of the model and of the data of a file of embeddings.

    Raises:
        InputError: if it holds none.
    """
    with _as_embeddings(path):
        if path.suffix == ".npz":
            with opened_npz(path) as stored:
                return str(array_of(stored, path, "model")), str(array_of(stored, path, "data"))
        if path.suffix == ".parquet":
            from pyarrow import parquet

            noted = parquet.read_schema(path).metadata
            return noted[b"model"].decode(), noted[b"data"].decode()
        with path.open(encoding="utf-8", newline="") as text:
            row = next(csv.DictReader(text))
        return row["model"], row["data"]


@contextmanager
def _as_embeddings(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # from readers of three kinds of files
        raise InputError(
            f"{path} is there, and holds no embeddings of this command: give --force, or another "
            f"file"
        ) from error
