"""Where studies are kept: SQLite, any database that Optuna takes, or a journal on a shared disk."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage

from gcl_hard.cli import without_password as shown
from gcl_hard.errors import InputError, MissingExtraError

MEMORY = ":memory:"
JOURNAL = (".journal", ".log")
TRIES, PAUSE = 5, 0.3
"""How often, and after how many seconds, tables are made again that another process has begun."""
LOCK_SECONDS = 60
"""How long SQLite waits for another process."""


def url_of(given: str | None, folder: Path, name: str) -> str:
    """The storage's URL: as given, else a SQLite file in a folder.

    Args:
        given: a URL, a path of a journal (``.journal``, ``.log``) or of a SQLite file, or None.
        folder: where results are.
        name: of the file.

    Returns:
        A URL as SQLAlchemy has it, or ``journal:PATH``.

    Example:
        >>> url_of(None, Path("results"), "PTC_MR_hscl")
        'sqlite:///results/PTC_MR_hscl.db'
        >>> url_of("shared/a.journal", Path("results"), "PTC_MR_hscl")
        'journal:shared/a.journal'
    """
    if given is None:
        return f"sqlite:///{(folder / f'{name}.db').as_posix()}"
    if given.startswith("journal:"):
        return given
    if "://" in given:
        scheme, _, rest = given.partition("://")
        if scheme in ("postgresql", "postgres"):  # psycopg 3 whatever SQLAlchemy's default is
            return f"postgresql+psycopg://{rest}"
        if scheme == "sqlite" and rest.strip("/") in ("", MEMORY):
            raise InputError(f"storage {given} is in memory and keeps nothing: give a file")
        return given
    if given == MEMORY or given.startswith("sqlite:"):
        raise InputError(f"storage {given} is no file: give NAME.db, or sqlite:///NAME.db")
    if given.endswith(JOURNAL):
        return f"journal:{given}"
    return f"sqlite:///{Path(given).as_posix()}"


@contextlib.contextmanager
def reachable(url: str) -> Iterator[None]:
    """Turn what a storage raises into a message that names it.

    Args:
        url: of the storage.

    Raises:
        InputError: if it cannot be reached, is locked for too long, or is no study storage.
        MissingExtraError: for PostgreSQL without its driver.
    """
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        reason = _reason(error)
        if "locked" in reason:
            raise InputError(
                f"storage {shown(url)} has been locked by another program for more than "
                f"{LOCK_SECONDS} s: close it and give the same command again; on a shared disk use "
                f"a journal (--storage NAME.journal) or a database"
            ) from error
        raise _unusable(url, reason) from error


def _unusable(url: str, reason: str) -> InputError:
    return InputError(
        f"storage {shown(url)} cannot be used: {reason}; --storage takes a file (NAME.db, "
        f"NAME.journal) or a database URL, and its folder must be there and writable"
    )


def _reason(error: BaseException) -> str:
    """The innermost cause, in one line."""
    while (inner := getattr(error, "orig", None) or error.__cause__ or None) is not None:
        error = inner
    return " ".join(str(error).split()) or type(error).__name__


def opened(url: str, *, create: bool = True) -> BaseStorage:
    """The storage of a URL.

    Args:
        url: as of :func:`url_of`.
        create: whether a file that is not there is made.

    Raises:
        InputError: see :func:`reachable`.
        MissingExtraError: likewise.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # the board says what it would
    with reachable(url), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return _journal(url, create) if url.startswith("journal:") else _database(url, create)
        except ImportError as error:
            if "psycopg" in url:
                raise MissingExtraError(
                    'PostgreSQL needs psycopg: pip install "gcl-hard[postgres]"'
                ) from error
            raise InputError(f"storage {shown(url)} needs a driver: {_reason(error)}") from error
        except InputError:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: of another Optuna
            raise _unusable(url, _reason(error)) from error


def _journal(url: str, create: bool) -> BaseStorage:
    from optuna.storages.journal import JournalFileBackend

    path = Path(url.removeprefix("journal:"))
    _prepare(path, create=create)
    if path.exists():
        with path.open("rb") as file:
            first = file.readline()
        try:
            known = not first or "op_code" in json.loads(first)
        except (ValueError, TypeError):
            known = False
        if not known:
            raise InputError(f"{path} is no journal of Optuna: give --storage another name")
    return JournalStorage(JournalFileBackend(str(path)))


def _database(url: str, create: bool) -> BaseStorage:
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    options: dict[str, Any] = {}
    if url.startswith("sqlite"):
        _prepare(Path(url.partition("///")[2].partition("?")[0]), create=create)
        options = {"connect_args": {"timeout": LOCK_SECONDS}}
    try:
        storage = _made(url, options)
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError(
            f"storage {shown(url)} is no URL of a database; examples: results/a.db, "
            f"shared/a.journal, postgresql://user@host/name"
        ) from error
    if url.startswith("sqlite"):
        _one_at_a_time(storage)
    return optuna.storages.get_storage(storage)


def _made(url: str, options: dict[str, Any]) -> RDBStorage:
    """The storage, its tables made if there are none; others may be making them."""
    from sqlalchemy.exc import DBAPIError

    for _ in range(TRIES - 1):
        try:
            return RDBStorage(url, engine_kwargs=options)
        except DBAPIError as error:
            if not any(words in str(error) for words in ("UNIQUE", "unique", "already exists")):
                raise
            time.sleep(PAUSE)
    return RDBStorage(url, engine_kwargs=options)


def _one_at_a_time(storage: RDBStorage) -> None:
    """Lock SQLite when a transaction begins, not when it writes.

    It has no rows to lock (SELECT … FOR UPDATE), by which Optuna keeps two workers from taking the
    same trial out of the queue.
    """
    from sqlalchemy import event

    @event.listens_for(storage.engine, "connect")
    def _(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # or Python begins transactions of its own

    @event.listens_for(storage.engine, "begin")
    def _(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    storage.engine.dispose()  # connections from before


def _prepare(path: Path, *, create: bool) -> None:
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.exists():
        raise InputError(f"there is no storage {path}: the command without --report-only makes it")
