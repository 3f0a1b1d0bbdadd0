"""The store: one small JSON file per finished run, or all of them in one sorted .jsonl.gz."""

from __future__ import annotations

import contextlib
import glob
import gzip
import json
import math
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.evaluation.metrics import METRICS
from gcl_hard.experiments.experiment import ENCODERS
from gcl_hard.experiments.record import SCHEMA_VERSION, RunResult, digest_of, says_nothing
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.files.io import (
    Seen,
    atomic_write,
    check_regular,
    check_writable,
    json_text,
    locked,
    reading,
    storable,
    unlink_seen,
)

COMPACT = "runs.jsonl.gz"
"""File name of the compact form."""
SHARED = ("config", "data", "versions", "device", "test")
"""Fields that many runs have in common; the compact form states each value once."""
POINTS = ".npz"
"""Suffix of the file of the last snapshot's arrays."""
SINGLES = "[!.]*_seed*.json"
OLDER = "older"
"""Folder for results that a compaction replaces with newer ones."""


class Unread(NamedTuple):
    """A record that another version wrote and this one cannot use; it is kept as it is.

    Attributes:
        name: name of its run, or of its file.
        why: the setting or the domain that is not known.
        row: its fields in a compact file.
    """

    name: str
    why: str
    row: Mapping[str, Any]


class Store:
    """Results of runs in a folder: single files and a compact file.

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
        self._lines: dict[str, dict[str, Any] | RunResult | Unread] = {}
        self._lines_seen: Seen | None = None

    def path(self, run: Run) -> Path:
        """The single file of a run; its encoder has the same stem."""
        return self.folder / f"{run.name(self.processes)}.json"

    def file(self, run: Run, suffix: str) -> Path:
        """A file next to the result of a run."""
        return self.path(run).with_suffix(suffix)

    def get(self, run: Run) -> RunResult | None:
        """The result of a run; None if there is none, or none that can be trusted."""
        name = self.path(run).stem
        record = _read(self.path(run), run.config)
        line = self._line(name, fresh=True, config=run.config)
        if record is None or _is_newer(line, record):
            record = line
        if not isinstance(record, RunResult) or not _is_whole(record, run) or record.name != name:
            return None
        return record

    def problem(self, run: Run) -> str | None:
        """Why a run's file cannot be used, or None.

        Raises:
            InputError: if a newer version wrote it, or another number of processes without a name
                of its own, which is not overwritten.
        """
        path = self.path(run)
        single = _read(path)
        record = single or self._line(path.stem, fresh=True)
        if record is None or (isinstance(record, RunResult) and single is None):
            return None
        if isinstance(record, Unread):
            raise InputError(
                f"{path} is not read and not overwritten: {record.why}; use the gcl_hard that "
                f"wrote it, or give another --output"
            )
        if isinstance(record, str):
            return f"{path.name} {record}"
        if not _is_whole(record, run):
            return f"{path.name} does not match its file name"
        if record.name == path.stem:
            return None
        raise InputError(
            f"{path} is a result of {record.data.get('processes', 1)} processes: rename it to "
            f"{record.name}.json"
        )

    def put(self, run: Run, result: RunResult) -> None:
        """Store a result atomically.

        If it replaces a result of a later date, because a clock was set back, it takes that date.

        Raises:
            InputError: if the folder cannot be written to.
        """
        known = self._line(self.path(run).stem, fresh=True)
        if isinstance(known, RunResult):
            result = replace(result, finished=max(result.finished, known.finished))
        content = result.stored()
        snapshots = ",\n".join(
            f"  {json_text(snapshot)}" for snapshot in content.pop("diagnostics")
        )
        text = json_text(content | {"diagnostics": []}, 1)
        if snapshots:  # a line each: two hundred of them stay readable
            text = text.replace('"diagnostics": []', f'"diagnostics": [\n{snapshots}\n ]')
        with atomic_write(self.path(run)) as file:
            file.write(f"{text}\n".encode())

    def put_arrays(
        self, run: Run, arrays: Mapping[str, NDArray[Any]] | None, suffix: str = POINTS
    ) -> None:
        """Store arrays of the last snapshot next to the result; None removes old ones."""
        path = self.path(run).with_suffix(suffix)
        if arrays is None:
            path.unlink(missing_ok=True)
            return
        with atomic_write(path) as file:
            plain = {name: storable(array) for name, array in arrays.items()}
            np.savez_compressed(file, allow_pickle=False, **plain)

    def put_encoders(self, run: Run, state: Mapping[str, Any] | None) -> None:
        """Store trained encoders next to the result; None removes old ones.

        They are read by ``torch.load(…, weights_only=True)``.
        """
        path = self.path(run).with_suffix(ENCODERS)
        if state is None:
            path.unlink(missing_ok=True)
            return
        with atomic_write(path) as file:
            torch.save(state, file)

    def rows(self) -> Iterator[RunResult]:
        """All results in the folder, sorted by the names of their runs.

        Raises:
            InputError: if a file is damaged; names it.
        """
        for _, result in self.files():
            yield result

    def files(self) -> Iterator[tuple[Path, RunResult]]:
        """All results, as :meth:`rows` gives them, each with the file that it is in.

        A warning names and counts those that this version cannot use.
        """
        singles = [(path, record) for path, record, _ in self._singles()]
        (compact, unread), source = self._compact(fresh=True), self.folder / COMPACT
        newest: dict[str, tuple[Path, RunResult]] = {n: (source, r) for n, r in compact.items()}
        for path, record in singles:
            if isinstance(record, Unread):
                unread.append(record)
            elif record.name not in newest or not _is_newer(newest[record.name][1], record):
                newest[record.name] = path, record
        self._warn_of(unread)
        for name in sorted(newest):
            yield newest[name]

    def _singles(self) -> Iterator[tuple[Path, RunResult | Unread, Seen]]:
        """The single files with their records, as they were when read."""
        for path in sorted(self.folder.glob(SINGLES)):
            seen, record = Seen.of(path), _read(path)
            if isinstance(record, str):
                raise InputError(f"{path} {record}: remove it, or run its command again")
            if record is not None and seen is not None:  # else a compaction has removed it
                yield path, record, seen

    def _warn_of(self, unread: Sequence[Unread]) -> None:
        """Name and count records that this version cannot use."""
        if unread:
            by_why: dict[str, list[str]] = {}
            for record in unread:
                by_why.setdefault(record.why, []).append(record.name)
            shown = "; ".join(
                f"{', '.join(names[:3])}{f', … ({len(names)})' * (len(names) > 3)}: {why}"
                for why, names in by_why.items()
            )
            warnings.warn(
                f"{len(unread)} results in {self.folder} are not read, and kept as they are: "
                f"{shown}",
                stacklevel=3,
            )

    @contextlib.contextmanager
    def lock(self, run: Run) -> Iterator[bool]:
        """Keep other processes from training a run; yields False if one of them does."""
        path = self.path(run)
        lock = path.with_name(f".{path.name}.lock")
        with locked(lock) as mine:
            if mine:
                for leftover in path.parent.glob(f".{glob.escape(path.stem)}.*"):
                    if leftover != lock:  # half-written when a process was killed
                        leftover.unlink(missing_ok=True)
            yield mine

    def compact(self) -> int:
        """Move the single files into the compact form; if a run has two results, the newer is kept.

        The older is moved to the folder ``older``, and a warning names it. Records that this
        version cannot use stay where they are, and so do files that come while this runs.

        Returns:
            Results in the compact form.

        Raises:
            InputError: if the folder does not exist or cannot be written to, a file is damaged, or
                another process compacts it.
        """
        if not self.folder.is_dir():
            raise InputError(f"there is no folder {self.folder} to compact")
        check_writable(self.folder)
        with locked(self.folder / f".{COMPACT}.lock") as mine:
            if not mine:
                raise InputError(f"{self.folder} is being compacted by another command")
            (results, unread), before = self._compact(fresh=True), self._lines_seen
            singles, left, older = list[tuple[Path, Seen]](), list[Unread](), list[RunResult]()
            for path, record, seen in self._singles():
                if isinstance(record, Unread):
                    left.append(record)
                    continue
                singles.append((path, seen))
                known = results.setdefault(record.name, record)
                newer = known if _is_newer(known, record) else record
                if known is not record and known.stored() != record.stored():
                    older.append(record if newer is known else known)
                results[record.name] = newer
            rows: dict[str, Mapping[str, Any]] = {n: _row(result) for n, result in results.items()}
            rows |= {record.name: record.row for record in unread}
            self._set_aside(older)
            self._write(rows, before)
            if self._compact(fresh=True)[0].keys() != results.keys():
                raise InputError(f"{self.folder / COMPACT} lacks results: nothing was removed")
            for path, seen in singles:
                unlink_seen(path, seen)
            self._warn_of(unread + left)
            return len(results)

    def _write(self, rows: Mapping[str, Mapping[str, Any]], before: object) -> None:
        """Write the compact form, unless the file has changed."""
        compact = self.folder / COMPACT
        if rows or compact.exists():
            with atomic_write(compact) as file:
                write_compact(file, compact_lines(rows, SHARED))
                if Seen.of(compact) != before:
                    raise InputError(f"{compact} was written by another program: run this again")

    def _set_aside(self, older: Sequence[RunResult]) -> None:
        """Keep results that have newer ones where no command reads them."""
        names = []
        for result in older:
            names.append(f"{result.name}_{digest_of(result.stored())}.json")
            with atomic_write(self.folder / OLDER / names[-1]) as file:
                file.write(f"{json_text(result.stored(), 1)}\n".encode())
        if names:
            shown = ", ".join(names[:3]) + f", … ({len(names)})" * (len(names) > 3)
            warnings.warn(
                f"{len(names)} results have newer ones of the same run, and are moved to "
                f"{self.folder / OLDER}: {shown}",
                stacklevel=3,
            )

    def _rows(self) -> dict[str, dict[str, Any] | RunResult | Unread]:
        """Lines of the compact form by the names of their runs, read again if it has changed."""
        path = self.folder / COMPACT
        stamp = Seen.of(path)
        if stamp is None or stamp != self._lines_seen:
            self._lines = dict(compact_rows(path, SHARED, dict))
            self._lines_seen = stamp
        return self._lines

    def _line(
        self, name: str, *, fresh: bool = False, config: RunConfig | None = None
    ) -> RunResult | Unread | None:
        """A line of the compact form; ``fresh`` reads that again if it has changed, and ``config``
        is a configuration that the line may have.
        """
        lines = self._rows() if fresh else self._lines
        record = lines.get(name)
        if isinstance(record, dict):
            record = lines[name] = _read_line(record, self.folder / COMPACT, name, config)
        return record

    def _compact(self, *, fresh: bool) -> tuple[dict[str, RunResult], list[Unread]]:
        """Results of the compact form, and records that this version cannot use."""
        records = [self._line(name) for name in (self._rows() if fresh else self._lines)]
        results = {record.name: record for record in records if isinstance(record, RunResult)}
        return results, [record for record in records if isinstance(record, Unread)]


def read_result(path: Path) -> RunResult | Unread:
    """The result in a single file, or why it is not for this version.

    Raises:
        InputError: if it is damaged or there is none.
    """
    record = _read(path)
    if record is None:
        raise InputError(f"there is no file {path}")
    if isinstance(record, str):
        raise InputError(f"{path} {record}: remove it, or run its command again")
    return record


def _is_newer(record: RunResult | Unread | None, other: RunResult | Unread | str) -> bool:
    """Whether a result was finished after another one."""
    return (
        isinstance(record, RunResult) and isinstance(other, RunResult)
        and record.finished > other.finished
    )  # fmt: skip


def read_compact(path: Path) -> list[RunResult]:
    """The results in a file of the compact form.

    Raises:
        InputError: if it cannot be used; names the line.
    """
    rows = compact_rows(path, SHARED, _result_of)
    return [record for _, record in rows if isinstance(record, RunResult)]


def _row(result: RunResult) -> dict[str, Any]:
    """A result as a line of the compact form; the file states its schema."""
    stored = result.stored()
    del stored["schema_version"]
    return {name: value for name, value in stored.items() if not says_nothing(value)}


def _read_line(
    row: Mapping[str, Any], path: Path, name: str, config: RunConfig | None = None
) -> RunResult | Unread:
    """The result in a line of the compact form.

    Raises:
        InputError: if the line is damaged; names it.
    """
    try:
        return _result_of(row, config)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: the line of {name} is damaged: restore the file, or remove the line"
        ) from error


def _result_of(row: Mapping[str, Any], config: RunConfig | None = None) -> RunResult | Unread:
    """The result in a line of the compact form."""
    content = {name: value for name, value in row.items() if name != "run"}
    try:
        return RunResult.read(content, checked=True, config=config)
    except InputError as error:
        del content["schema_version"]
        return Unread(row["run"], str(error), content)


def _is_share(name: str) -> bool:
    """Whether a metric is a share in percent; False for an unknown one."""
    return name in METRICS and METRICS[name].share


def _is_whole(result: RunResult, run: Run) -> bool:
    try:
        scores = result.values
        return (
            all(isinstance(score, (int, float)) and not math.isinf(score) for score in scores)
            and not (_is_share(result.metric) and any(s < 0 or s > 100 for s in scores))
            and _is_undefined(result, [k for k, score in enumerate(scores) if math.isnan(score)])
            and len(scores) == run.config.n_scores
            and isinstance(result.finished, str)
            and isinstance(result.data, dict)
            and all(
                "epoch" in snapshot and "settings" in snapshot for snapshot in result.diagnostics
            )
            and result.run == run
        )
    except (InputError, TypeError, AttributeError, KeyError):
        return False


def _is_undefined(result: RunResult, folds: Sequence[int]) -> bool:
    """Whether the scores of some folds that a record lacks cannot be computed."""
    tested = result.tested() if folds else []
    return all(k < len(tested) and math.isnan(tested[k].score(result.metric)) for k in folds)


def _read(path: Path, config: RunConfig | None = None) -> RunResult | Unread | str | None:
    """The result in a single file, or why it cannot be used; None if there is none.

    Args:
        path: the file.
        config: a configuration that it may have.
    """
    check_regular(path)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        version = stored["schema_version"]
        if version == SCHEMA_VERSION:
            return RunResult.read(stored, checked=True, config=config)
        return Unread(path.name, f"it has schema {version}, not {SCHEMA_VERSION}", stored)
    except InputError as error:
        return Unread(path.name, str(error), stored)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        problem = "is half-written or damaged"
    return problem


def write_compact(file: Any, lines: Iterable[str]) -> None:
    """Write lines as a gzip file whose bytes depend on nothing else."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipped:
        zipped.writelines(f"{line}\n".encode() for line in lines)


def compact_lines(
    rows: Mapping[str, Mapping[str, Any]], shared_fields: Sequence[str]
) -> Iterator[str]:
    """Lines of the compact form: shared values first, then the runs in order of their names.

    Args:
        rows: JSON-like results by name.
        shared_fields: fields that many results have in common; each value is stated once.
    """
    yield json_text({"schema_version": SCHEMA_VERSION})
    numbers: dict[tuple[str, str], int] = {}
    counts = dict.fromkeys(shared_fields, 0)
    for key in sorted(rows):
        for name in shared_fields:
            if name not in rows[key]:
                continue
            value = json_text(rows[key][name])
            if (name, value) not in numbers:
                numbers[name, value] = counts[name]
                counts[name] += 1
                yield f'{{"{name}": {value}}}'
    for key in sorted(rows):
        row = dict(rows[key])
        row |= {n: numbers[n, json_text(row[n])] for n in shared_fields if n in row}
        yield json_text(
            {"run": key, **{k: v for k, v in row.items() if v != [] and v is not False}}
        )


R = TypeVar("R")


def compact_rows(
    path: Path, shared_fields: Sequence[str], make: Callable[[dict[str, Any]], R]
) -> Iterable[tuple[str, R]]:
    """Names and results in a file of the compact form; none if there is no file.

    Args:
        path: the file.
        shared_fields: as for :func:`compact_lines`, which wrote it.
        make: makes a result from its fields, its name as ``run``, and ``schema_version``.

    Raises:
        InputError: if it cannot be used; names the line.
    """
    with reading(path, "a file of results"):
        if not path.exists():
            return
        content = path.read_bytes()
        try:
            text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path} is torn or damaged ({error}): restore the file") from error
    version = 0
    shared: dict[str, list[Any]] = {name: [] for name in shared_fields}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            stored = json.loads(line)
            if "schema_version" in stored:
                version = stored["schema_version"]
                if version != SCHEMA_VERSION:
                    raise _other_schema(path, version)
            elif (key := stored.pop("run", None)) is None:
                ((name, value),) = stored.items()
                shared[name].append(value)
            else:
                key = "" + key  # a TypeError for anything but a string
                values = {n: shared[n][stored[n]] for n in shared_fields if n in stored}
                yield key, make(stored | values | {"run": key, "schema_version": version})
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise InputError(
                f"{path}, line {number}, is torn or damaged ({type(error).__name__}): restore the "
                f"file, or remove the line"
            ) from error


def _other_schema(path: Path, version: Any) -> InputError:
    return InputError(
        f"{path} has schema {version}, and this version reads {SCHEMA_VERSION}: use the gcl_hard "
        f"that wrote it, or give another --output"
    )
