"""Storage of studies: opening it, checking a study's identity, repeating interrupted trials."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import optuna
from optuna.exceptions import (
    DuplicatedStudyError,
    ExperimentalWarning,
    StorageInternalError,
    UpdateFinishedTrialError,
)
from optuna.storages import (
    BaseStorage,
    JournalStorage,
    RDBStorage,
    RetryHeartbeatStaleTrialCallback,
)
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError, without_password
from gcl_hard.experiments.choice import best
from gcl_hard.experiments.engine import on_interrupt
from gcl_hard.experiments.settings import HEAD
from gcl_hard.files.io import check_regular, locked

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

JOURNAL = (".journal", ".log")
IN_A_FILE = re.compile(r"sqlite(\+\w+)?:///(?!:memory:|/*$)")
ATTEMPTS, PAUSE = 5, 0.3
"""Attempts, and seconds between them, to create tables that another driver may be creating."""
LOCK_SECONDS = 60
"""How long SQLite waits for a lock of another program."""
HEARTBEAT, GRACE = 15, 60
"""Seconds between two heartbeats of a trial in a server database, and without one until it is
stale."""

IDENTITY, READY, OUTER, SCORED_ON = "gcl_hard", "gcl_hard_ready", "outer", "scored_on"
"""Attributes of a study: its identity, whether its grid has been enqueued, its outer scores by the
number of the trial, and the device and versions that scored its last trials."""
READY_SECONDS = 10.0
"""How long another driver may take to enqueue the grid of a study that it created."""
GRID, AGAIN, FAILURE = "grid", "again", "failure"
"""Attributes of a trial: whether it belongs to the grid; the trial that it repeats after Ctrl-C;
why it failed."""
RETRIES = "retry_history"
"""Optuna's attribute of a trial: the trials of dead drivers that it repeats."""
TRIES = 3
"""Drivers that may end while the same settings are trained, before these count as failed."""
INTERRUPTED, GIVEN_UP = "interrupted, enqueued once more", f"its search ended, {TRIES} times"


def url_of(storage: str | None, folder: Path, name: str) -> str:
    """The URL of a storage, by default of a SQLite file in the folder of results.

    Args:
        storage: a URL, a path of a journal (``.journal``, ``.log``) or of a SQLite file, or None.
        folder: folder of results.
        name: stem of the default file.

    Returns:
        A URL of SQLAlchemy, or ``journal:PATH``.

    Raises:
        InputError: for a storage in memory.

    Example:
        >>> url_of(None, Path("results"), "PTC_MR_hscl")
        'sqlite:///results/PTC_MR_hscl.db'
        >>> url_of("shared/a.journal", Path("results"), "PTC_MR_hscl")
        'journal:shared/a.journal'
    """
    from sqlalchemy import URL

    storage = str(folder / f"{name}.db") if storage is None else storage
    if storage == ":memory:" or (storage.startswith("sqlite") and ":" in storage):
        if not IN_A_FILE.match(storage):
            raise InputError(f"storage {storage} is not a file: give NAME.db, or sqlite:///NAME.db")
        return storage
    if "://" in storage:  # psycopg 3 whatever SQLAlchemy's default is
        return re.sub("^postgres(ql)?://", "postgresql+psycopg://", storage)
    if storage.startswith("journal:"):
        return storage
    if storage.endswith(JOURNAL):
        return f"journal:{storage}"
    return URL.create("sqlite", database=Path(storage).as_posix()).render_as_string()


@contextlib.contextmanager
def reachable(url: str) -> Iterator[None]:
    """Turn errors of a storage into messages that name it.

    Args:
        url: URL of the storage.

    Raises:
        InputError: for a storage that cannot be reached, stays locked, or is not one of Optuna.
    """
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        raise _unusable(url, error) from error


def _unusable(url: str, error: BaseException) -> InputError:
    """The error with the innermost cause."""
    while (inner := getattr(error, "orig", None) or error.__cause__) is not None:
        error = inner
    return InputError(without_password(
        f"cannot use storage {url}: {' '.join(str(error).split()) or type(error).__name__}; "
        f"--storage takes a file (NAME.db or NAME.journal) or a database URL "
        f"(postgresql://user@host/name)"
    ))  # fmt: skip


def is_server(url: str) -> bool:
    """Whether the storage is a database server, which several drivers may use.

    Example:
        >>> is_server("postgresql+psycopg://me@host/db"), is_server("sqlite:///a.db")
        (True, False)
    """
    return not url.startswith(("sqlite", "journal:"))


def _file(url: str) -> Path:
    """The file of a SQLite database or a journal; absolute.

    At a relative path Optuna waits forever for the lock of a killed process.
    """
    from sqlalchemy import make_url

    if url.startswith("journal:"):
        return Path(url.removeprefix("journal:")).absolute()
    return Path(make_url(url).database or "").absolute()


@contextlib.contextmanager
def exclusive(url: str) -> Iterator[None]:
    """Hold a file for one driver, until the block or the process ends; servers need no lock.

    Args:
        url: see :func:`url_of`.

    Raises:
        InputError: if another driver holds it.
    """
    if is_server(url):
        yield
        return
    path = _file(url)
    with locked(path.with_name(f".{path.name}.lock")) as mine:
        if not mine:
            raise InputError(
                f"storage {url} is in use by another search: wait until it has ended, or give "
                f"another --storage; commands on several machines can share a study in a "
                f"PostgreSQL database"
            )
        yield


def opened(url: str, *, create: bool = True) -> BaseStorage:
    """The storage of a URL.

    Args:
        url: see :func:`url_of`.
        create: whether a missing file is created, and a torn end of a journal cut off.

    Raises:
        InputError: see :func:`reachable`; for a damaged file names it.
        MissingExtraError: for PostgreSQL without its driver.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # progress bars show the rest
    path = None if is_server(url) else _file(url)
    if path is not None and not create and not path.exists():
        raise InputError(
            f"there is no storage {path}: the command without --report-only creates it"
        )
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_regular(path)
    try:
        with reachable(url), warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            if path is None:
                return _database(
                    url, heartbeat_interval=HEARTBEAT, grace_period=GRACE,
                    heartbeat_stale_trial_callback=_retry(),
                )  # fmt: skip
            if url.startswith("journal:"):
                check_journal(path, cut=create)
                return JournalStorage(JournalFileBackend(str(path)))
            return _database(url, engine_kwargs={"connect_args": {"timeout": LOCK_SECONDS}})
    except InputError:
        raise
    except Exception as error:  # Optuna's reader raises anything for a damaged file
        if isinstance(error, ImportError) and "psycopg" in url:
            check_extra("postgres", "PostgreSQL", "psycopg")
        raise _unusable(url, error) from error


def _database(url: str, **options: Any) -> BaseStorage:
    """The database, with its tables, which another driver may be creating."""
    from sqlalchemy.exc import DBAPIError

    url = url.replace("{", "{{").replace("}", "}}")  # Optuna formats it
    for left in reversed(range(ATTEMPTS)):
        try:
            return optuna.storages.get_storage(RDBStorage(url, **options))
        except DBAPIError as error:
            if not left or not re.search("unique|already exists", str(error), re.IGNORECASE):
                raise
            time.sleep(PAUSE)
    raise AssertionError


def check_journal(path: Path, *, cut: bool) -> None:
    """Name the line at which a journal is damaged, and cut off what a killed process or a full disk
    has left behind its last line.

    Optuna names neither file nor line, and would glue its next entry to a torn line.

    Args:
        path: a journal; not there before the first search.
        cut: whether a torn end is cut off, by a driver that holds the file.

    Raises:
        InputError: for a line that is no entry of a journal.
    """
    content = path.read_bytes() if path.exists() else b""
    *lines, torn = content.split(b"\n")
    for number, line in enumerate(lines or [torn] * bool(torn), 1):
        with contextlib.suppress(ValueError):
            if isinstance(json.loads(line), dict):
                continue
        raise InputError(
            f"{path}, line {number}: damaged, no entry of a journal ({line[:40]!r}): restore the "
            f"file from a copy, or give another --storage"
        )
    if torn and cut:
        os.truncate(path, len(content) - len(torn))
        warnings.warn(
            f"{path}: its last line was torn, as after a kill or a full disk, and {len(torn)} "
            f"bytes are cut off",
            stacklevel=2,
        )


# Study identity


@dataclass(frozen=True)
class StudyStorage:
    """Storage and name of a study.

    Attributes:
        url: URL of the storage.
        name: name of the study.
        storage: the opened storage.
    """

    url: str
    name: str
    storage: BaseStorage

    def join(
        self,
        identity: Mapping[str, Any],
        grid: list[dict[str, Any]],
        *,
        direction: StudyDirection = StudyDirection.MAXIMIZE,
        sampler: BaseSampler,
        pruner: BasePruner,
    ) -> Study:
        """Create or open the study.

        Args:
            identity: what identifies the study, as JSON; a search that differs in any of it must
                not continue it.
            grid: settings to try first; enqueued by the driver that creates the study.
            direction: whether more or less is better.
            sampler: sampler of this driver.
            pruner: pruner of this driver.

        Returns:
            The study.

        Raises:
            InputError: if the study belongs to another search; names the differences.
        """
        try:
            study = optuna.create_study(
                storage=self.storage, study_name=self.name, direction=direction, sampler=sampler,
                pruner=pruner,
            )  # fmt: skip
        except DuplicatedStudyError:
            study = optuna.load_study(
                study_name=self.name, storage=self.storage, sampler=sampler, pruner=pruner
            )
            end = time.monotonic() + (READY_SECONDS if is_server(self.url) else 0.0)
            # Another driver may be enqueuing the grid, or has died over it.
            while READY not in study.user_attrs and time.monotonic() < end:
                time.sleep(0.1)
            self._check(study, identity, direction)
        if READY not in study.user_attrs:
            study.set_user_attr(IDENTITY, {**identity})
            for params in grid:
                study.enqueue_trial(params, user_attrs={GRID: True}, skip_if_exists=True)
            study.set_user_attr(READY, True)
        return study

    def existing(
        self, identity: Mapping[str, Any], *, direction: StudyDirection = StudyDirection.MAXIMIZE
    ) -> Study:
        """Open the study for reading.

        Raises:
            InputError: if there is none, or it belongs to another search.
        """
        try:
            study = optuna.load_study(study_name=self.name, storage=self.storage)
        except KeyError:
            raise InputError(
                f"there is no study {self.name!r} in {without_password(self.url)}: the command "
                f"without --report-only creates it"
            ) from None
        self._check(study, identity, direction)
        return study

    def _check(self, study: Study, identity: Mapping[str, Any], direction: StudyDirection) -> None:
        stored, mine = study.user_attrs.get(IDENTITY), json.loads(json.dumps(identity))
        if stored is None and not study.get_trials(deepcopy=False):
            stored = mine  # the driver that created it has died
        title = f"study {self.name!r} in {without_password(self.url)}"
        if stored is None or study.directions != [direction]:
            raise InputError(
                f"{title} was not created by gcl_hard: give another --study-name or --storage"
            )
        keys = [key for key in mine if stored.get(key) != mine[key]]
        if keys:
            keys = [key for key in keys if key in HEAD] or keys  # the rest follows from these
            differences = "; ".join(_difference(key, stored.get(key), mine[key]) for key in keys)
            raise InputError(
                f"{title} belongs to {stored.get('dataset')} {stored.get('method')}, "
                f"{stored.get('protocol')}, and this command differs: {differences}. Give another "
                f"--study-name or --storage"
            )


def _difference(key: str, stored: Any, mine: Any) -> str:
    if isinstance(stored, dict) and isinstance(mine, dict):
        keys = [k for k in {**stored, **mine} if stored.get(k) != mine.get(k)]
        if key == "space":
            return f"another search space ({', '.join(keys)})"
        return ", ".join(_difference(k, stored.get(k), mine.get(k)) for k in keys)
    there, here = ("as usual" if value is None else value for value in (stored, mine))
    return f"{key} {there} there, {here} here"


# Trials


@dataclass(frozen=True)
class TrialCounts:
    """Numbers of trials by state.

    Attributes:
        complete: trials with a score.
        pruned: trials that a pruner ended.
        running: trials that are being scored.
        failures: counted reasons of failures.
        best: the trial with the best score, on a tie the oldest; None without a score.
    """

    complete: int
    pruned: int
    running: int
    failures: Counter[str]
    best: FrozenTrial | None

    @classmethod
    def of(cls, study: Study) -> TrialCounts:
        """Count the trials of a study; interrupted ones are not failures.

        Example:
            >>> TrialCounts.of(optuna.create_study()).finished
            0
        """
        trials = study.get_trials(deepcopy=False)
        states = Counter(trial.state for trial in trials)
        failures = Counter(reason for trial in trials if (reason := failure_of(trial)))
        del failures[INTERRUPTED]
        return cls(
            states[TrialState.COMPLETE], states[TrialState.PRUNED], states[TrialState.RUNNING],
            failures, best_trial(trials, higher=study.direction == StudyDirection.MAXIMIZE),
        )  # fmt: skip

    @property
    def finished(self) -> int:
        """Trials that count as done."""
        return self.complete + self.pruned

    def over(self, asked: int) -> bool:
        """Whether a study has as many trials as asked for."""
        return self.finished >= asked or self.failures.total() >= asked


def complete(study: Study) -> list[FrozenTrial]:
    """Trials with a score."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def best_trial(trials: Iterable[FrozenTrial], *, higher: bool = True) -> FrozenTrial | None:
    """The trial with the best score, on a tie up to rounding the oldest; None without a score.

    Not ``study.best_trial``, which is any of the equal ones in a database.
    """
    scored = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    scores = [round(trial.values[0], 9) for trial in scored]
    return scored[best(scores, higher=higher)] if scored else None


def failure_of(trial: FrozenTrial) -> str | None:
    """Why a trial failed; None if it did not."""
    if trial.state != TrialState.FAIL:
        return None
    given_up = len(trial.system_attrs.get(RETRIES, ())) >= TRIES - 1
    # The failures of dead drivers have no reason stored.
    return str(trial.user_attrs.get(FAILURE, GIVEN_UP if given_up else INTERRUPTED))


def fail(study: Study, trial: Trial, reason: str) -> None:
    """Store why a trial has failed, unless another driver has ended it."""
    with contextlib.suppress(UpdateFinishedTrialError):
        trial.set_user_attr(FAILURE, reason)
        study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)


def _retry() -> RetryHeartbeatStaleTrialCallback:
    """Enqueues settings once more whose driver has died; gives them up after three drivers, since
    settings that fill a machine's memory would end one after another.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return RetryHeartbeatStaleTrialCallback(max_retry=TRIES - 1)


def retry_orphans(study: Study, *, alone: bool = True) -> None:
    """Fail and enqueue trials whose driver has died, and enqueue those that failed so alone.

    Args:
        study: study that a driver begins to work on.
        alone: whether it is the only driver, as in a locked file: all running trials are orphans.
    """
    trials, retry = study.get_trials(), _retry()
    repeated = {trial.user_attrs.get(AGAIN) for trial in trials}
    repeated |= {number for trial in trials for number in trial.system_attrs.get(RETRIES, ())}
    for trial in trials:
        orphan = alone and trial.state == TrialState.RUNNING
        # A driver may have died between Optuna's failing a stale trial and enqueuing it.
        if (orphan or failure_of(trial) == INTERRUPTED) and trial.number not in repeated:
            # Enqueued before it fails: a driver that dies in between loses and repeats nothing.
            retry(study, trial)
        if orphan:
            study.tell(trial.number, state=TrialState.FAIL)


def put_back(study: Study, trial: Trial) -> None:
    """Fail a trial that is stopped, and enqueue its settings once more."""
    stored = study.get_trials(deepcopy=False)[trial.number]
    if stored.state == TrialState.RUNNING:
        study.add_trial(create_trial(
            state=TrialState.WAITING, params=stored.params, distributions=stored.distributions,
            user_attrs=stored.user_attrs | {AGAIN: stored.number}, system_attrs=stored.system_attrs,
        ))  # fmt: skip
        fail(study, trial, INTERRUPTED)


def surplus(study: Study, asked: int) -> set[int]:
    """Numbers of the latest trials, finished or running, beyond those asked for."""
    states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
    trials = study.get_trials(deepcopy=False, states=states)
    return {trial.number for trial in trials[asked:]}


def waiting(study: Study) -> list[FrozenTrial]:
    """Trials that are enqueued."""
    return study.get_trials(deepcopy=False, states=(TrialState.WAITING,))


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C until the block has ended: a journal fails if a write is cut short."""
    signals: list[int] = []
    with on_interrupt(lambda number, frame: signals.append(number)) as before:
        yield
    if signals and callable(before):
        before(signals[0], None)


class Heartbeats:
    """Heartbeats of running trials in a database, which show that their driver is alive.

    Optuna records them in ``study.optimize`` alone, not for trials that are asked for.

    Args:
        storage: storage of the studies.
        url: URL of the storage; trials in files need no heartbeats.
        trials: the running trials of this driver, which change.
    """

    def __init__(self, storage: BaseStorage, url: str, trials: Mapping[Any, Trial]) -> None:
        self.needed = is_server(url)
        self._storage: Any = storage
        self._trials = trials
        self._seen: set[int] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        if self.needed:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.needed:
            self._thread.join()

    def _id(self, study: Study, number: int) -> int:
        study_id = self._storage.get_study_id_from_name(study.study_name)
        return self._storage.get_trial_id_from_study_id_trial_number(study_id, number)

    def record(self, trial: Trial) -> None:
        """Record a heartbeat of a trial."""
        if self.needed:
            self._storage.record_heartbeat(self._id(trial.study, trial.number))

    def check(self, study: Study) -> None:
        """Let Optuna fail and repeat trials of other drivers whose heartbeats have stopped."""
        if not self.needed:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            optuna.storages.fail_stale_trials(study)
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            # A trial without any heartbeat would never be stale, though its driver may have died.
            if (trial_id := self._id(study, trial.number)) not in self._seen:
                self._seen.add(trial_id)
                self._storage.record_heartbeat(trial_id)

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT):
            for trial in [*self._trials.values()]:
                # The server may be out of reach for a moment.
                with contextlib.suppress(Exception):
                    self.record(trial)
