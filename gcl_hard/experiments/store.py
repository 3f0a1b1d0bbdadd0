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
"""Folder of results of which a compaction found newer ones."""


class Unread(NamedTuple):
    """A record that another version wrote and this one cannot use; it is kept as it is.

    Attributes:
        name: name of its run, or of its file.
        why: the setting or the domain that is not known.
        row: what a compact file has of it.
    """

    name: str
    why: str
    row: Mapping[str, Any]


class Store:
    """Results of runs in a folder: single files and a compact file.

    Of two results of a run the one that was finished later is its result, and a single file if
    they have one date. Folders merge by copying single files. Files may come and go while they are
    read: a compaction writes its file before it removes others.

    Args:
        folder: made when the first result is stored.
        processes: those that train a run together, whose results may have names of their own.

    Example:
        >>> store = Store("results")
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> store.path(Run(GraphConfig(method="ucl"), 0)).name
        'MUTAG_ucl_transductive_44ed0e0ab1_seed0.json'
    """

    def __init__(self, folder: str | Path, processes: int = 1) -> None:
        self.folder, self.processes = Path(folder), processes
        self._lines: dict[str, dict[str, Any] | RunResult | Unread] = {}
        self._lines_of: Seen | None = None

    def path(self, run: Run) -> Path:
        """The single file of a run; its encoder has the same stem."""
        return self.folder / f"{run.name(self.processes)}.json"

    def file(self, run: Run, suffix: str) -> Path:
        """A file next to the result of a run."""
        return self.path(run).with_suffix(suffix)

    def get(self, run: Run) -> RunResult | None:
        """The result of a run; None if there is none, or none that can be trusted."""
        name = self.path(run).stem
        found = _read(self.path(run), run.config)
        line = self._line(name, fresh=True, config=run.config)
        if found is None or _is_newer(line, found):
            found = line
        if not isinstance(found, RunResult) or not _is_whole(found, run) or found.name != name:
            return None
        return found

    def problem(self, run: Run) -> str | None:
        """Why a run's file cannot be used, or None.

        Raises:
            InputError: if a newer version wrote it, or another number of processes without a name
                of its own, which is not overwritten.
        """
        path = self.path(run)
        single = _read(path)
        found = single or self._line(path.stem, fresh=True)
        if found is None or (isinstance(found, RunResult) and single is None):
            return None
        if isinstance(found, Unread):
            raise InputError(
                f"{path} is not read and not overwritten: {found.why}; use the gcl_hard that wrote "
                f"it, or give another --output"
            )
        if isinstance(found, str):
            return f"{path.name} {found}"
        if not _is_whole(found, run):
            return f"{path.name} does not match its file name"
        if found.name == path.stem:
            return None
        raise InputError(
            f"{path} is a result of {found.data.get('processes', 1)} processes: rename it to "
            f"{found.name}.json"
        )

    def put(self, run: Run, result: RunResult) -> None:
        """Store a result atomically.

        One that replaces a result of a later date, of a clock that was set back, takes that date.

        Raises:
            InputError: if the folder cannot be written to.
        """
        known = self._line(self.path(run).stem, fresh=True)
        if isinstance(known, RunResult):
            result = replace(result, finished=max(result.finished, known.finished))
        content = result.stored()
        snapshots = ",\n".join(f"  {json_text(one)}" for one in content.pop("diagnostics"))
        text = json_text(content | {"diagnostics": []}, 1)
        if snapshots:  # a line each: two hundred of them stay readable
            text = text.replace('"diagnostics": []', f'"diagnostics": [\n{snapshots}\n ]')
        with atomic_write(self.path(run)) as file:
            file.write(f"{text}\n".encode())

    def put_arrays(
        self, run: Run, arrays: Mapping[str, NDArray[Any]] | None, suffix: str = POINTS
    ) -> None:
        """Store arrays next to the result (those of the last snapshot); None removes old ones."""
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
        singles = [(path, one) for path, one, _ in self._singles()]
        (compact, unread), source = self._compact(fresh=True), self.folder / COMPACT
        found: dict[str, tuple[Path, RunResult]] = {n: (source, one) for n, one in compact.items()}
        for path, one in singles:
            if isinstance(one, Unread):
                unread.append(one)
            elif one.name not in found or not _is_newer(found[one.name][1], one):
                found[one.name] = path, one
        self._warn_of(unread)
        for name in sorted(found):
            yield found[name]

    def _singles(self) -> Iterator[tuple[Path, RunResult | Unread, Seen]]:
        """The single files, and what they were."""
        for path in sorted(self.folder.glob(SINGLES)):
            seen, one = Seen.of(path), _read(path)
            if isinstance(one, str):
                raise InputError(f"{path} {one}: remove it, or run its command again")
            if one is not None and seen is not None:  # else a compaction has removed it
                yield path, one, seen

    def _warn_of(self, unread: Sequence[Unread]) -> None:
        """Name and count records that this version cannot use."""
        if unread:
            by_why: dict[str, list[str]] = {}
            for one in unread:
                by_why.setdefault(one.why, []).append(one.name)
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
        version cannot use stay where they are, and so does what comes while this runs.

        Returns:
            Results in the compact form.

        Raises:
            InputError: if the folder is not there or cannot be written to, a file is damaged, or
                another process compacts it.
        """
        if not self.folder.is_dir():
            raise InputError(f"there is no folder {self.folder} to compact")
        check_writable(self.folder)
        with locked(self.folder / f".{COMPACT}.lock") as mine:
            if not mine:
                raise InputError(f"{self.folder} is being compacted by another command")
            (results, unread), before = self._compact(fresh=True), self._lines_of
            singles, left, older = list[tuple[Path, Seen]](), list[Unread](), list[RunResult]()
            for path, found, seen in self._singles():
                if isinstance(found, Unread):
                    left.append(found)
                    continue
                singles.append((path, seen))
                known = results.setdefault(found.name, found)
                newer = known if _is_newer(known, found) else found
                if known is not found and known.stored() != found.stored():
                    older.append(found if newer is known else known)
                results[found.name] = newer
            rows: dict[str, Mapping[str, Any]] = {name: _row(one) for name, one in results.items()}
            rows |= {one.name: one.row for one in unread}
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
        """Keep results of which there are newer ones, where no command reads them."""
        names = []
        for one in older:
            names.append(f"{one.name}_{digest_of(one.stored())}.json")
            with atomic_write(self.folder / OLDER / names[-1]) as file:
                file.write(f"{json_text(one.stored(), 1)}\n".encode())
        if names:
            shown = ", ".join(names[:3]) + f", … ({len(names)})" * (len(names) > 3)
            warnings.warn(
                f"{len(names)} results have newer ones of the same run, and are moved to "
                f"{self.folder / OLDER}: {shown}",
                stacklevel=3,
            )

    def _rows(self) -> dict[str, dict[str, Any] | RunResult | Unread]:
        """Lines of the compact form by the names of their runs, read again where it has changed."""
        path = self.folder / COMPACT
        stamp = Seen.of(path)
        if stamp is None or stamp != self._lines_of:
            self._lines = dict(compact_rows(path, SHARED, dict))
            self._lines_of = stamp
        return self._lines

    def _line(
        self, name: str, *, fresh: bool = False, config: RunConfig | None = None
    ) -> RunResult | Unread | None:
        """A line of the compact form; ``fresh`` looks whether that has changed, and ``config`` is
        the configuration that it may be of.
        """
        lines = self._rows() if fresh else self._lines
        found = lines.get(name)
        if isinstance(found, dict):
            found = lines[name] = _read_line(found, self.folder / COMPACT, name, config)
        return found

    def _compact(self, *, fresh: bool) -> tuple[dict[str, RunResult], list[Unread]]:
        """Results of the compact form, and what this version cannot use."""
        lines = [self._line(name) for name in (self._rows() if fresh else self._lines)]
        read = {one.name: one for one in lines if isinstance(one, RunResult)}
        return read, [one for one in lines if isinstance(one, Unread)]


def read_result(path: Path) -> RunResult | Unread:
    """The result in a single file, or why it is not for this version.

    Raises:
        InputError: if it is damaged; says how.
    """
    found = _read(path)
    if found is None:
        raise InputError(f"there is no file {path}")
    if isinstance(found, str):
        raise InputError(f"{path} {found}: remove it, or run its command again")
    return found


def _is_newer(one: RunResult | Unread | None, other: RunResult | Unread | str) -> bool:
    """Whether a result was finished after another one."""
    return (
        isinstance(one, RunResult) and isinstance(other, RunResult)
        and one.finished > other.finished
    )  # fmt: skip


def read_compact(path: Path) -> list[RunResult]:
    """The results in a file of the compact form.

    Raises:
        InputError: if it cannot be used; names the line.
    """
    rows = compact_rows(path, SHARED, _result_of)
    return [one for _, one in rows if isinstance(one, RunResult)]


def _row(result: RunResult) -> dict[str, Any]:
    """A result as a line of the compact form; the file states its schema."""
    stored = result.stored()
    del stored["schema_version"]
    return {name: one for name, one in stored.items() if not says_nothing(one)}


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
    """Whether a metric is a share in percent; of one that is not known, it is not."""
    return name in METRICS and METRICS[name].share


def _is_whole(result: RunResult, run: Run) -> bool:
    try:
        scores = result.values
        return (
            all(isinstance(one, (int, float)) and not math.isinf(one) for one in scores)
            and not (_is_share(result.metric) and any(one < 0 or one > 100 for one in scores))
            and _is_undefined(result, [k for k, one in enumerate(scores) if math.isnan(one)])
            and len(scores) == run.config.n_scores
            and isinstance(result.finished, str)
            and isinstance(result.data, dict)
            and all("epoch" in one and "settings" in one for one in result.diagnostics)
            and result.run == run
        )
    except (InputError, TypeError, AttributeError, KeyError):
        return False


def _is_undefined(result: RunResult, folds: Sequence[int]) -> bool:
    """Whether the score of some folds, which a record lacks, cannot be computed."""
    tested = result.tested() if folds else []
    return all(k < len(tested) and math.isnan(tested[k].score(result.metric)) for k in folds)


def _read(path: Path, config: RunConfig | None = None) -> RunResult | Unread | str | None:
    """The result in a single file, or why it cannot be used; None if there is none.

    Args:
        path: the file.
        config: the configuration that it may be of.
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
        found = f"cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found = "is half-written or damaged"
    return found


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
        shared_fields: fields that many have in common; each of their values is stated once.
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
        shared_fields: as it was written with.
        make: makes a result of its fields, ``run``, its name, and ``schema_version``.

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
                key = "" + key  # a TypeError for what is no name
                of_all = {n: shared[n][stored[n]] for n in shared_fields if n in stored}
                yield key, make(stored | of_all | {"run": key, "schema_version": version})
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
