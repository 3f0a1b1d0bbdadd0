"""Where studies are kept: SQLite, any database that Optuna takes, or a journal on a shared disk."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import DuplicatedStudyError, StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.study import StudyDirection

from gcl_hard.errors import InputError, MissingExtraError
from gcl_hard.tuning.lease import GRID

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

ABOUT, READY = "gcl_hard", "gcl_hard_ready"
"""Attributes of a study: what it is of, and whether its grid has been enqueued."""
JOURNAL = (".journal", ".log")
LOCK_SECONDS = 60
"""How long SQLite waits for another process."""
READY_SECONDS = 10.0


@dataclass(frozen=True)
class About:
    """What a study is of: workers with another one must not join it.

    Attributes:
        dataset: name.
        method: name, or several that are searched.
        protocol: name.
        settings: of the cell, those that are not searched.
        space: the dimensions and the grid, as words.
        digest: of the data.
        inner: how trials are scored.
        outer: which outer part, of how many.
        sampler: name.
        pruner: name.
        seed: of everything.
        encoder: name of the user's own, or None.
    """

    dataset: str
    method: str
    protocol: str
    settings: dict[str, Any]
    space: dict[str, Any]
    digest: str
    inner: str
    outer: str
    sampler: str
    pruner: str
    seed: int
    encoder: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is stored."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return found


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
        if scheme == "sqlite" and not rest.strip("/"):
            raise InputError("storage sqlite:// is in memory and keeps nothing: give a file")
        return given
    if given.endswith(JOURNAL):
        return f"journal:{given}"
    return f"sqlite:///{Path(given).as_posix()}"


def shown(url: str) -> str:
    """A URL without its password.

    Example:
        >>> shown("postgresql+psycopg://me:secret@host/db")
        'postgresql+psycopg://me:***@host/db'
    """
    if "://" not in url:
        return url
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return f"{url.partition('://')[0]}://…"


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
        _prepare(Path(url.partition("///")[2]), create=create)
        options = {"connect_args": {"timeout": LOCK_SECONDS}}
    try:
        storage = RDBStorage(url, engine_kwargs=options)
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError(
            f"storage {shown(url)} is no URL of a database; examples: results/a.db, "
            f"shared/a.journal, postgresql://user@host/name"
        ) from error
    if url.startswith("sqlite"):
        _one_at_a_time(storage)
    return optuna.storages.get_storage(storage)


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


@dataclass(frozen=True)
class Home:
    """A study's place: its storage and its name.

    Attributes:
        url: of the storage.
        name: of the study.
    """

    url: str
    name: str
    storage: BaseStorage = field(compare=False, repr=False)

    @classmethod
    def at(cls, url: str, name: str, *, create: bool = True) -> Home:
        """Open it; arguments and errors as of :func:`opened`."""
        return cls(url, name, opened(url, create=create))

    def join(
        self,
        about: About,
        grid: list[dict[str, Any]],
        *,
        sampler: BaseSampler,
        pruner: BasePruner,
    ) -> Study:
        """Make the study or join it.

        Args:
            about: what it is of.
            grid: settings tried before all else; enqueued by whoever makes the study.
            sampler: of this process.
            pruner: of this process.

        Returns:
            The study.

        Raises:
            InputError: if the study is of something else; says of what.
        """
        with reachable(self.url):
            try:
                study = optuna.create_study(
                    storage=self.storage, study_name=self.name, direction="maximize",
                    sampler=sampler, pruner=pruner,
                )  # fmt: skip
            except DuplicatedStudyError:
                study = optuna.load_study(
                    study_name=self.name, storage=self.storage, sampler=sampler, pruner=pruner
                )
                self._check(study, about)
                if self._wait(study):
                    return study
            study.set_user_attr(ABOUT, about.as_json())
            for params in grid:
                study.enqueue_trial(params, user_attrs={GRID: True}, skip_if_exists=True)
            study.set_user_attr(READY, True)
        return study

    def found(self, about: About) -> Study:
        """The study as it is, to be looked at.

        Raises:
            InputError: if there is none, or it is of something else.
        """
        with reachable(self.url):
            try:
                study = optuna.load_study(study_name=self.name, storage=self.storage)
            except KeyError:
                raise InputError(
                    f"there is no study {self.name!r} in {shown(self.url)}: the command without "
                    f"--report-only begins it"
                ) from None
            self._check(study, about)
        return study

    def _wait(self, study: Study) -> bool:
        """Until whoever made the study has enqueued its grid; False if that has died."""
        end = time.monotonic() + READY_SECONDS
        while not study.user_attrs.get(READY):
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def _foreign(self) -> InputError:
        return InputError(
            f"study {self.name!r} in {shown(self.url)} is not of gcl_hard: give another "
            f"--study-name or --storage"
        )

    def _check(self, study: Study, about: About) -> None:
        if study.direction != StudyDirection.MAXIMIZE:
            raise self._foreign()
        for _ in range(20):  # whoever made it may be about to say what it is of
            trials = study.get_trials(deepcopy=False)  # before the attribute, which is set first
            stored = study.user_attrs.get(ABOUT)
            if stored is not None:
                break
            if trials:
                raise self._foreign()
            time.sleep(0.1)
        else:
            return
        mine = about.as_json()
        differ = [key for key in mine if stored.get(key) != mine[key]]
        if differ:
            named = [key for key in differ if key in ("dataset", "method", "protocol")]
            differ = named or differ  # the rest follows from these
            what = "; ".join(_difference(key, stored.get(key), mine[key]) for key in differ)
            raise InputError(
                f"study {self.name!r} in {shown(self.url)} is of {stored.get('dataset')} "
                f"{stored.get('method')}, {stored.get('protocol')}, and this command differs: "
                f"{what}. Give another --study-name or --storage"
            )


def _difference(key: str, stored: Any, mine: Any) -> str:
    if isinstance(stored, dict) and isinstance(mine, dict):
        keys = [k for k in {**stored, **mine} if stored.get(k) != mine.get(k)]
        if key == "space":
            return f"another search space ({', '.join(keys)})"
        return ", ".join(_difference(k, stored.get(k), mine.get(k)) for k in keys)
    return f"{key} {_short(stored)} there, {_short(mine)} here"


def _short(value: Any) -> str:
    return "as usual" if value is None else str(value)


__all__ = ["About", "Home", "opened", "reachable", "shown", "url_of"]
