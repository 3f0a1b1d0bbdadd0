"""The store: one small JSON file per finished run, or all of them in one sorted .jsonl.gz."""

from __future__ import annotations

import contextlib
import glob
import gzip
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.experiments.experiment import ENCODERS
from gcl_hard.experiments.record import SCHEMA_VERSION, RunResult, says_nothing
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import encoder_name
from gcl_hard.files.io import (
    atomic_write,
    check_regular,
    file_stamp,
    json_text,
    locked,
    reading,
    storable,
    write_json,
)

COMPACT = "runs.jsonl.gz"
"""File name of the compact form."""
SHARED = ("config", "data", "versions", "device", "test")
"""Fields that many runs have in common; the compact form states each value once."""
POINTS = ".npz"
"""Suffix of the file of the last snapshot's arrays."""
SINGLES = "[!.]*_seed*.json"


class Unread(NamedTuple):
    """A record that this version cannot use; it is kept as it is.

    Attributes:
        name: name of its run, or of its file.
        why: what is wrong with it, as a sentence about "it".
        row: its fields; None in a damaged file.
    """

    name: str
    why: str
    row: Mapping[str, Any] | None = None


class Store:
    """Results of runs in a folder: single files, and a compact file that only :meth:`compact`
    writes.

    Of two results of a run the one that was finished later is its result, and the single file if
    they have the same date. Folders merge by copying single files. Files may come and go while they
    are read: a compaction writes its file before it removes others.

    Args:
        folder: made when the first result is stored.
        processes: number of processes that train a run together, which names of results may state.

    Example:
        >>> store = Store("results")
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> store.path(Run(GraphConfig(method="ucl"), 0)).name
        'MUTAG_ucl_transductive_44ed0e0ab1_seed0.json'
    """

    def __init__(self, folder: str | Path, processes: int = 1) -> None:
        self.folder, self.processes = Path(folder), processes
        self._rows: dict[str, dict[str, Any]] = {}
        self._stamp: tuple[int, int, int] | None = None

    def path(self, run: Run) -> Path:
        """The single file of a run; names of its other files begin alike."""
        return self.folder / f"{run.name(self.processes)}.json"

    def file(self, run: Run, suffix: str) -> Path:
        """A file next to the result of a run; new ones of encoders have their encoder's name."""
        path = self.path(run).with_suffix(suffix)
        name = Path(encoder_name(run.config).partition("@")[0].rpartition(":")[2]).stem
        name = re.sub(r"[^\w.-]", "", name)  # of <lambda>
        new = suffix == ENCODERS and name and not path.exists()
        return path.with_suffix(f".{name}{suffix}") if new else path

    def get(self, run: Run) -> RunResult | None:
        """The result of a run; None if there is none, or none that can be trusted."""
        path = self.path(run)
        results = [
            record
            for record in (_read(path), self._archived(path.stem))
            if isinstance(record, RunResult) and record.name == path.stem
        ]
        return max(results, key=lambda result: result.finished, default=None)

    def problem(self, run: Run) -> str | None:
        """Why a run's file is damaged, so that the run is made again; None if it is not.

        Raises:
            InputError: for a file of another version or of another run, which is not overwritten.
        """
        path = self.path(run)
        record = _read(path) or self._archived(path.stem)
        if isinstance(record, RunResult):
            if record.name != path.stem:
                raise InputError(f"{path} is the result {record.name}: rename it, or remove it")
        elif record is not None and record.row is not None:
            raise InputError(
                f"{path} is not read and not overwritten: {record.why}; use the gcl_hard that "
                f"wrote it, or give another --output"
            )
        return f"{path.name}: {record.why}" if isinstance(record, Unread) else None

    def put(self, run: Run, result: RunResult) -> None:
        """Store a result atomically.

        Raises:
            InputError: if the folder cannot be written to.
        """
        write_json(result.stored(), self.path(run))

    def put_arrays(
        self, run: Run, arrays: Mapping[str, NDArray[Any]] | None, suffix: str = POINTS
    ) -> None:
        """Store arrays of the last snapshot next to the result; None removes old ones."""
        plain = {name: storable(array) for name, array in (arrays or {}).items()}
        _put(
            self.file(run, suffix),
            arrays,
            lambda file: np.savez_compressed(file, allow_pickle=False, **plain),
        )

    def put_encoders(self, run: Run, state: Mapping[str, Any] | None) -> None:
        """Store trained encoders next to the result; None removes old ones.

        They are read by ``torch.load(…, weights_only=True)``.
        """
        _put(self.file(run, ENCODERS), state, partial(torch.save, state))

    def rows(self) -> Iterator[RunResult]:
        """All results in the folder, sorted by the names of their runs."""
        for _, result in self.files():
            yield result

    def files(self) -> Iterator[tuple[Path, RunResult]]:
        """All results, as :meth:`rows` gives them, each with the file that it is in.

        A warning names and counts the records that cannot be used.

        Raises:
            InputError: if the compact file is damaged.
        """
        newest, unread = self._newest()
        if unread:
            shown = "; ".join(f"{record.name}: {record.why}" for record in unread[:3])
            warnings.warn(
                f"{len(unread)} results in {self.folder} are not read, and kept as they are: "
                f"{shown}{'; …' * (len(unread) > 3)}",
                stacklevel=3,
            )
        for name in sorted(newest):
            yield newest[name]

    def _newest(self) -> tuple[dict[str, tuple[Path, RunResult]], list[Unread]]:
        """The result of each run by its name, with its file, and the records that are not read."""
        newest, unread = dict[str, tuple[Path, RunResult]](), list[Unread]()
        singles = [(path, _read(path)) for path in sorted(self.folder.glob(SINGLES))]
        compact = self.folder / COMPACT  # read last: a compaction writes it before it removes files
        for path, record in [*singles, *((compact, self._archived(n)) for n in self._archive())]:
            if isinstance(record, Unread):
                unread.append(record)
            elif record is not None:
                _, known = newest.get(record.name, (path, None))
                if known is None or known.finished < record.finished:
                    newest[record.name] = path, record
        return newest, unread

    @contextlib.contextmanager
    def lock(self, run: Run) -> Iterator[bool]:
        """Keep other processes from training a run; yields False if one of them does."""
        with _lock(self.path(run)) as mine:
            yield mine

    def compact(self) -> int:
        """Move the single files into the compact form; of two results of a run the newer is kept.

        Records that cannot be used stay where they are, and so do files that come while this runs.

        Returns:
            Results in the compact form.

        Raises:
            InputError: if the folder does not exist or cannot be written to, the compact file is
                damaged, or another process compacts it.
        """
        if not self.folder.is_dir():
            raise InputError(f"there is no folder {self.folder} to compact")
        with locked(self.folder / f".{COMPACT}.lock") as mine:
            if not mine:
                raise InputError(f"{self.folder} is being compacted by another command")
            newest = {result.name: result for result in self.rows()}
            others = {name: row for name, row in self._archive().items() if name not in newest}
            if rows := others | {name: _row(result) for name, result in newest.items()}:
                with (
                    atomic_write(self.folder / COMPACT) as file,
                    gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped,
                ):
                    zipped.writelines(f"{line}\n".encode() for line in _lines(rows))
            for path in self.folder.glob(SINGLES):
                with _lock(path) as free:  # not while a command trains the run again
                    record = _read(path) if free else None
                    if isinstance(record, RunResult):
                        kept = newest.get(record.name)
                        if kept is not None and record.finished <= kept.finished:
                            path.unlink()
            return len(newest)

    def _archive(self) -> dict[str, dict[str, Any]]:
        """Rows of the compact form by the names of their runs, read again if it has changed."""
        path = self.folder / COMPACT
        stamp = file_stamp(path) if path.exists() else None
        if stamp != self._stamp:
            self._rows, self._stamp = _rows_of(path) if stamp else {}, stamp
        return self._rows

    def _archived(self, name: str) -> RunResult | Unread | None:
        """The record in a row of the compact form."""
        row = self._archive().get(name)
        return None if row is None else _record(name, row)


def _put(path: Path, content: object, write: Callable[[BinaryIO], object]) -> None:
    if content is None:
        path.unlink(missing_ok=True)
        return
    with atomic_write(path) as file:
        write(file)


def _record(name: str, row: Mapping[str, Any]) -> RunResult | Unread:
    """The result of stored fields, or why this version cannot use it."""
    if (version := row.get("schema_version", SCHEMA_VERSION)) != SCHEMA_VERSION:
        return Unread(name, f"it has schema {version}, not {SCHEMA_VERSION}", row)
    try:
        return RunResult.read(row, checked=True)
    except InputError as error:
        return Unread(name, str(error), row)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Unread(name, "it is half-written or damaged")


def _read(path: Path) -> RunResult | Unread | None:
    """The record in a single file; None if there is none."""
    check_regular(path)
    try:
        return _record(path.name, json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, AttributeError):
        return Unread(path.name, "it is half-written or damaged")


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold the lock of a single file; yields False if another process holds it."""
    lock = path.with_name(f".{path.name}.lock")
    with locked(lock) as mine:
        if mine:
            for leftover in path.parent.glob(f".{glob.escape(path.stem)}.*"):
                if leftover != lock:  # half-written when a process was killed
                    leftover.unlink(missing_ok=True)
        yield mine


def _row(result: RunResult) -> dict[str, Any]:
    """A result as a line of the compact form; the file states its schema."""
    stored = result.stored()
    del stored["schema_version"]
    return {name: value for name, value in stored.items() if not says_nothing(value)}


def _lines(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the compact form: shared values first, then the runs in order of their names."""
    yield json_text({"schema_version": SCHEMA_VERSION})
    numbers: dict[str, dict[str, int]] = {name: {} for name in SHARED}
    for key in sorted(rows):
        for name in SHARED:
            if name in rows[key] and (value := json_text(rows[key][name])) not in numbers[name]:
                numbers[name][value] = len(numbers[name])
                yield f'{{"{name}": {value}}}'
    for key in sorted(rows):
        shared = {n: numbers[n][json_text(rows[key][n])] for n in SHARED if n in rows[key]}
        yield json_text({"run": key, **rows[key], **shared})


def _rows_of(path: Path) -> dict[str, dict[str, Any]]:
    """Fields of the results in a file of the compact form, by the names of their runs."""
    rows = dict[str, dict[str, Any]]()
    shared: dict[str, list[Any]] = {name: [] for name in SHARED}
    with reading(path, "a file of results"):
        content = path.read_bytes()
        for line in (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines():
            stored = json.loads(line)
            if (run := stored.pop("run", None)) is not None:
                rows[run] = stored | {n: shared[n][stored[n]] for n in SHARED if n in stored}
            elif "schema_version" not in stored:
                ((name, value),) = stored.items()
                shared[name].append(value)
            elif (version := stored["schema_version"]) != SCHEMA_VERSION:
                raise InputError(
                    f"{path} has schema {version}, and this version reads {SCHEMA_VERSION}: use "
                    f"the gcl_hard that wrote it, or give another --output"
                )
    return rows
