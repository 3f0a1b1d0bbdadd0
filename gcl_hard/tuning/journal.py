"""Optuna journals, in which an interrupted write costs no finished trial."""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import BaseJournalBackend, JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import TrialState

from gcl_hard.errors import InputError
from gcl_hard.files.io import atomic_write, check_regular

START = b'{"op_code":'
"""How Optuna begins each line."""
COPY = "damaged"
"""Suffix of a copy of a damaged journal."""


def journal(path: Path, *, write: bool) -> JournalStorage:
    """Open a journal; a torn end is cut off, or left unread if nothing is written.

    Args:
        path: its file; created if it is missing and ``write`` is set.
        write: whether trials will be added.

    Raises:
        InputError: for a file that is not a journal, or is damaged before its end; names the line.
    """
    if not path.is_dir():  # opening a folder raises
        check_regular(path)
    if write:
        backend = _Journal(path.absolute())
        with _locked(backend.lock):
            mend(path)
        return _replayed(path, backend)
    records, torn = _read(path)
    storage = _replayed(path, _Records(records))
    if torn:
        warnings.warn(
            f"{path}: its end, from line {len(records) + 1} on, is torn, and its {torn} bytes are "
            f"left out: {_n_finished(storage)} finished trials are read",
            stacklevel=2,
        )
    return storage


def mended(storage: BaseStorage) -> BaseStorage:
    """The user's own storage; if it is a journal, its file is mended.

    Raises:
        InputError: see :func:`journal`.
    """
    backend = getattr(storage, "_backend", None)
    if isinstance(storage, JournalStorage) and isinstance(backend, JournalFileBackend):
        with _locked(backend._lock):
            mend(Path(backend._file_path))
    return storage


def mend(path: Path) -> None:
    """Cut a torn end off a locked journal, and keep a copy of the damaged file.

    A last line that lacks only its line break gets one.

    Args:
        path: file of the journal.

    Raises:
        InputError: see :func:`journal`; then nothing is written.
    """
    records, torn = _read(path)
    if not torn and _ends_whole(path):
        return
    n = _finished(path, records)
    left = f"{n} finished trials are left"
    if torn:
        copy = next(
            name
            for k in itertools.count(1)
            if not (name := path.with_name(f"{path.name}.{COPY}{k}")).exists()
        )
        with atomic_write(copy) as file:
            file.write(path.read_bytes())
        os.truncate(path, path.stat().st_size - torn)
        warnings.warn(
            f"{path}: its end, from line {len(records) + 1} on, was torn, as after a full disk or "
            f"a kill: its {torn} bytes are cut off, and {left}; {copy} has the file as it was",
            stacklevel=3,
        )
    else:
        with path.open("ab") as file:
            file.write(b"\n")
        warnings.warn(
            f"{path}: line {len(records)} lacked its line break, which is added: {left}",
            stacklevel=3,
        )


def _read(path: Path) -> tuple[dict[int, dict[str, Any]], int]:
    """The records of a journal by line number, and the number of bytes of a torn end.

    A torn end is an incomplete line, blank lines, or both in this order.

    Raises:
        InputError: for an incomplete or blank line elsewhere.
    """
    with path.open("rb") as file:
        lines = file.readlines()
    records = {number: _record(line) for number, line in enumerate(lines, 1) if line.strip()}
    if lines and not any(records.values()) and not lines[0].startswith(START):
        raise InputError(f"{path} is not an Optuna journal: give --storage another name")
    whole = {
        number: record
        for number, record in itertools.takewhile(lambda numbered: numbered[1], records.items())
        if record is not None
    }
    last = max(records, default=0)
    n = next(number for number in range(1, len(lines) + 2) if number not in whole)
    if n >= last:
        return whole, sum(map(len, lines[n - 1 :]))
    if len(records) > len(whole) + 1:
        n = next(number for number in records if number not in whole)
    before = _finished(path, {number: record for number, record in whole.items() if number < n})
    if n in records:
        damage = "damaged"
        advice = f"keep only the lines before it, which hold {before} finished trials"
    else:
        damage = "blank"
        advice = (
            f"remove the {last - len(records)} blank lines before line {last}, which keeps all "
            f"finished trials, {before} before line {n} and {_finished(path, whole) - before} "
            f"after it"
        )
    raise InputError(
        f"{path}, line {n}, is {damage} and not the last one, so nothing is written: "
        f"restore the file from a copy, or {advice}"
    )


def _record(line: bytes) -> dict[str, Any] | None:
    """The record in a line, None if it is incomplete."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "op_code" in record else None


def _ends_whole(path: Path) -> bool:
    """Whether a file is empty or ends in a line break."""
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _finished(path: Path, records: Mapping[int, dict[str, Any]]) -> int:
    """The number of finished trials in some records of a journal."""
    return _n_finished(_replayed(path, _Records(records)))


def _n_finished(storage: JournalStorage) -> int:
    states = (TrialState.COMPLETE, TrialState.PRUNED)
    return sum(
        len(storage.get_all_trials(study._study_id, deepcopy=False, states=states))
        for study in storage.get_all_studies()
    )


def _replayed(path: Path, backend: _Records | _Journal) -> JournalStorage:
    """The storage of a backend, after reading all its records."""
    try:
        return JournalStorage(backend)
    except (KeyError, TypeError, AttributeError, AssertionError, ValueError) as error:
        raise InputError(
            f"{path}, line {backend.line}, is damaged ({type(error).__name__}), and nothing is "
            f"written: restore the file from a copy, or give --storage another name"
        ) from error


class _Records(BaseJournalBackend):
    """Read-only records by line number; ``line`` is the number of the latest one read."""

    def __init__(self, records: Mapping[int, dict[str, Any]]) -> None:
        self._records, self.line = records, 0

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        for line, record in itertools.islice(self._records.items(), log_number_from, None):
            self.line = line
            yield record

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        raise StorageInternalError("it was opened for reading")


class _Journal(JournalFileBackend):
    """A journal to write to; ``line`` is the number of the latest one read."""

    def __init__(self, path: Path) -> None:
        self.lock, self.line = _Lock(path), 0
        super().__init__(str(path), self.lock)  # type: ignore[arg-type]

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:  # type: ignore[override]
        for self.line, record in enumerate(super().read_logs(log_number_from), log_number_from + 1):
            yield record

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        try:
            super().append_logs(logs)
        except OSError as error:  # such as a full disk
            raise StorageInternalError("a trial was not stored") from error


class _Lock:
    """Optuna's lock of a journal, under which torn lines are removed before and after a write.

    Args:
        path: an absolute path: at a relative one Optuna waits forever for the lock of a killed
            process.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, JournalFileSymlinkLock(str(path))

    def acquire(self) -> bool:
        acquired = self._lock.acquire()
        try:
            if not _ends_whole(self._path):  # another program was killed while it wrote
                mend(self._path)
        except BaseException:
            self._lock.release()
            raise
        return acquired

    def release(self) -> None:
        try:
            if not _ends_whole(self._path):  # this write has failed
                os.truncate(self._path, self._path.read_bytes().rfind(b"\n") + 1)
        finally:
            self._lock.release()


@contextmanager
def _locked(lock: Any) -> Iterator[None]:
    lock.acquire()
    try:
        yield
    finally:
        lock.release()
