"""Storage of studies: opening it, checking a study's identity, recovering orphaned trials."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError
from gcl_hard.errors import without_password as shown
from gcl_hard.experiments.choice import best
from gcl_hard.experiments.engine import on_interrupt
from gcl_hard.experiments.record import digest_of
from gcl_hard.experiments.settings import HEAD
from gcl_hard.files.io import locked
from gcl_hard.tuning.journal import journal

if TYPE_CHECKING:
    from optuna import Study
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from sqlalchemy import URL

MEMORY = ":memory:"
JOURNAL = (".journal", ".log")
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
GRID, AGAIN, FIRST, DEATHS, FAILURE = "grid", "again", "first", "deaths", "failure"
"""Attributes of a trial: whether it belongs to the grid; the trial that it repeats; the first trial
of a chain of repeats; drivers that have ended while its settings were trained; why it failed."""
BATCH, DRAWN, DIGEST = "batch", "drawn", "digest"
"""Attributes of a trial: the first position and the size of its batch; the number of the trial in
which all its settings were drawn; the digest of its settings and its score. The outer scores of a
study contain a digest as well."""
FIXED = "fixed_params"
"""Optuna's attribute of an enqueued trial: its settings."""
OF_GRID = ("grid_id", "search_space")
"""Attributes of a trial by which Optuna's GridSampler knows its combination of the grid."""
SURPLUS, INTERRUPTED = "surplus", "interrupted, enqueued once more"
"""Reasons that do not count as failures of the settings."""
TRIES = 3
"""Drivers that may end while the same settings are trained, before these count as failed."""


OWN = "object:"
"""Scheme of a storage that is the user's own object."""


def url_of(storage: str | None, folder: Path, name: str) -> str:
    """The URL of a storage, by default of a SQLite file in the folder of results.

    Args:
        storage: a URL, a path of a journal (``.journal``, ``.log``) or of a SQLite file, or None.
        folder: folder of results.
        name: stem of the default file.

    Returns:
        A URL of SQLAlchemy, or ``journal:PATH``.

    Raises:
        InputError: for a storage in memory, or one that is neither a file nor a URL.

    Example:
        >>> url_of(None, Path("results"), "PTC_MR_hscl")
        'sqlite:///results/PTC_MR_hscl.db'
        >>> url_of(None, Path("lr=0.1?"), "PTC_MR_hscl")
        'sqlite:///lr%3D0.1%3F/PTC_MR_hscl.db'
        >>> url_of("shared/a.journal", Path("results"), "PTC_MR_hscl")
        'journal:shared/a.journal'
    """
    if storage is None:
        return _url_of_file(folder / f"{name}.db")
    if storage.startswith("journal:"):
        return storage
    if "://" in storage:
        scheme, _, rest = storage.partition("://")
        if scheme in ("postgresql", "postgres"):  # psycopg 3 whatever SQLAlchemy's default is
            return f"postgresql+psycopg://{rest}"
        if not is_server(storage) and (_parsed(storage).database or "").strip("/") in ("", MEMORY):
            raise InputError(f"storage {storage} is in memory and keeps nothing: give a file")
        if not is_server(storage) and "?" in storage and not _parsed(storage).query:
            raise InputError(
                f"storage {storage}: in a URL the name of the file ends at ?: write %3F instead, "
                f"or give the path without sqlite:///"
            )
        return storage
    if storage == MEMORY or storage.startswith("sqlite:"):
        raise InputError(f"storage {storage} is not a file: give NAME.db, or sqlite:///NAME.db")
    if storage.endswith(JOURNAL):
        return f"journal:{storage}"
    return _url_of_file(Path(storage))


def _url_of_file(path: Path) -> str:
    """The URL of a SQLite file, with special characters escaped."""
    from sqlalchemy import URL

    url = URL.create("sqlite", database=path.as_posix()).render_as_string()
    if _file(url) != path:  # SQLAlchemy before 2.1 escapes nothing
        raise InputError(
            f"storage {path}: this version of SQLAlchemy cannot name such a file: upgrade it, or "
            f"give another --output, --study-name or --storage"
        )
    return url


def _parsed(url: str) -> URL:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: from a port
        raise _no_url(url) from error


def _no_url(url: str) -> InputError:
    return InputError(
        f"storage {shown(url)} is not a URL of a database; examples: results/a.db, "
        f"shared/a.journal, postgresql://user@host/name"
    )


@contextlib.contextmanager
def reachable(url: str) -> Iterator[None]:
    """Turn errors of a storage into messages that name it.

    Args:
        url: URL of the storage.

    Raises:
        InputError: for a storage that cannot be reached, stays locked, or is not one of Optuna.
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
        f"cannot use storage {shown(url)}: {reason}; --storage takes a file (NAME.db or "
        f"NAME.journal) in an existing, writable folder, or a database URL"
    )


def _reason(error: BaseException) -> str:
    """The innermost cause, in one line."""
    while (inner := getattr(error, "orig", None) or error.__cause__ or None) is not None:
        error = inner
    return " ".join(str(error).split()) or type(error).__name__


def own_url(storage: Any) -> str:
    """The URL of the user's own storage object; a stand-in if it has none.

    Raises:
        InputError: for an object of another kind.
    """
    if not isinstance(storage, BaseStorage):
        raise InputError(
            f"storage is a file, a URL or a storage of Optuna, got {type(storage).__name__}"
        )
    url = getattr(storage, "url", None)
    return url if isinstance(url, str) else f"{OWN}{type(storage).__name__}"


def is_server(url: str) -> bool:
    """Whether the storage is a database server, which several drivers may use.

    Example:
        >>> is_server("postgresql+psycopg://me@host/db"), is_server("sqlite:///a.db")
        (True, False)
    """
    return not url.startswith(("sqlite", "journal:", OWN))


def _file(url: str) -> Path:
    """The file of a SQLite database or a journal."""
    if url.startswith("journal:"):
        return Path(url.removeprefix("journal:"))
    return Path(_parsed(url).database or "")


@contextlib.contextmanager
def exclusive(url: str) -> Iterator[None]:
    """Hold a file for one driver, until the block or the process ends; servers need no lock.

    Args:
        url: see :func:`url_of`.

    Raises:
        InputError: if another driver holds it, or the folder cannot be used.
    """
    if is_server(url) or url.startswith(OWN):
        yield
        return
    with contextlib.ExitStack() as stack:
        path = _file(url).absolute()
        try:
            mine = stack.enter_context(locked(path.with_name(f".{path.name}.lock")))
        except OSError as error:
            raise _unusable(url, _reason(error)) from error
        if not mine:
            raise InputError(
                f"storage {shown(url)} is in use by another search: wait until it has ended, or "
                f"give another --storage; commands on several machines can share a study in a "
                f"PostgreSQL database"
            )
        yield


def opened(url: str, *, create: bool = True) -> BaseStorage:
    """The storage of a URL.

    Args:
        url: see :func:`url_of`.
        create: whether a missing file is created.

    Raises:
        InputError: see :func:`reachable`.
        MissingExtraError: likewise.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # progress bars show the rest
    with reachable(url), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", ExperimentalWarning)
        try:
            if not is_server(url):
                _prepare(_file(url), create=create)
            if url.startswith("journal:"):
                return journal(_file(url), write=create)
            return _database(url)
        except ImportError as error:
            if "psycopg" in url:
                check_extra("postgres", "PostgreSQL", "psycopg")
            raise InputError(f"storage {shown(url)} needs a driver: {_reason(error)}") from error
        except InputError:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: of another Optuna
            raise _unusable(url, _reason(error)) from error


def _database(url: str) -> BaseStorage:
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError

    if is_server(url):
        options: dict[str, Any] = {"heartbeat_interval": HEARTBEAT, "grace_period": GRACE,
                   "heartbeat_stale_trial_callback": _retry_stale}  # fmt: skip
    else:
        options = {"engine_kwargs": {"connect_args": {"timeout": LOCK_SECONDS}}}
    try:
        # Braces are doubled, since Optuna formats the URL.
        braces = str.maketrans({"{": "{{", "}": "}}"})
        return optuna.storages.get_storage(_with_tables(url.translate(braces), options))
    except (ArgumentError, NoSuchModuleError) as error:
        raise _no_url(url) from error


def _with_tables(url: str, options: dict[str, Any]) -> RDBStorage:
    """The storage, with its tables, which another driver may be creating."""
    from sqlalchemy.exc import DBAPIError

    for _ in range(ATTEMPTS - 1):
        try:
            return RDBStorage(url, **options)
        except DBAPIError as error:
            if not any(words in str(error) for words in ("UNIQUE", "unique", "already exists")):
                raise
            time.sleep(PAUSE)
    return RDBStorage(url, **options)


def _prepare(path: Path, *, create: bool) -> None:
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.exists():
        raise InputError(
            f"there is no storage {path}: the command without --report-only creates it"
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
        with reachable(self.url):
            try:
                study = optuna.create_study(
                    storage=self.storage, study_name=self.name, direction=direction,
                    sampler=sampler, pruner=pruner,
                )  # fmt: skip
            except DuplicatedStudyError:
                study = optuna.load_study(
                    study_name=self.name, storage=self.storage, sampler=sampler, pruner=pruner
                )
                self._check(study, identity, direction)
                if self._ready(study):
                    return study
            study.set_user_attr(IDENTITY, {**identity})
            for params in grid:
                study.enqueue_trial(params, user_attrs={GRID: True}, skip_if_exists=True)
            study.set_user_attr(READY, True)
        return study

    def existing(
        self,
        identity: Mapping[str, Any],
        *,
        direction: StudyDirection = StudyDirection.MAXIMIZE,
    ) -> Study:
        """Open the study for reading.

        Raises:
            InputError: if there is none, or it belongs to another search.
        """
        with reachable(self.url):
            try:
                study = optuna.load_study(study_name=self.name, storage=self.storage)
            except KeyError:
                raise InputError(
                    f"there is no study {self.name!r} in {shown(self.url)}: the command without "
                    f"--report-only creates it"
                ) from None
            self._check(study, identity, direction)
        return study

    def _ready(self, study: Study) -> bool:
        """Wait until another driver has enqueued the grid; False if it has died."""
        end = time.monotonic() + (READY_SECONDS if is_server(self.url) else 0.0)
        while not study.user_attrs.get(READY):
            if time.monotonic() >= end:
                return False
            time.sleep(0.1)
        return True

    def _check(self, study: Study, identity: Mapping[str, Any], direction: StudyDirection) -> None:
        stored = study.user_attrs.get(IDENTITY)
        if stored is None and is_server(self.url):
            time.sleep(1.0)  # another driver may be creating it
            stored = study.user_attrs.get(IDENTITY)
        foreign = study.directions != [direction] or (
            stored is None and study.get_trials(deepcopy=False)
        )
        if foreign:
            raise InputError(
                f"study {self.name!r} in {shown(self.url)} was not created by gcl_hard: give "
                f"another --study-name or --storage"
            )
        if stored is None:  # the driver that created it died
            return
        check_digests(study)
        mine = json.loads(json.dumps(identity))
        keys = [key for key in mine if stored.get(key) != mine[key]]
        if keys:
            keys = [key for key in keys if key in HEAD] or keys  # the rest follows from these
            differences = "; ".join(_difference(key, stored.get(key), mine[key]) for key in keys)
            raise InputError(
                f"study {self.name!r} in {shown(self.url)} belongs to {stored.get('dataset')} "
                f"{stored.get('method')}, {stored.get('protocol')}, and this command differs: "
                f"{differences}. Give another --study-name or --storage"
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
        """Count the trials of a study; interrupted and surplus ones are not failures.

        Example:
            >>> TrialCounts.of(optuna.create_study()).finished
            0
        """
        trials = study.get_trials(deepcopy=False)
        states = Counter(trial.state for trial in trials)
        reasons = Counter(reason for trial in trials if (reason := failure_of(trial)))
        failures = Counter({k: n for k, n in reasons.items() if k not in (SURPLUS, INTERRUPTED)})
        return cls(
            states[TrialState.COMPLETE], states[TrialState.PRUNED], states[TrialState.RUNNING],
            failures, best_trial(trials, higher=is_maximised(study)),
        )  # fmt: skip

    @property
    def finished(self) -> int:
        """Trials that count as done."""
        return self.complete + self.pruned

    def over(self, asked: int) -> bool:
        """Whether a study has as many trials as asked for."""
        return self.finished >= asked or self.failures.total() >= asked


def digest(params: Mapping[str, Any], score: float) -> str:
    """The digest of settings and their score."""
    return digest_of({"params": dict(params), "score": score})


def with_digest(outer: Mapping[str, Any]) -> dict[str, Any]:
    """Outer scores, with their digest."""
    scores = {number: score for number, score in outer.items() if number != DIGEST}
    return {**scores, DIGEST: digest_of(scores)}


def check_digests(study: Study) -> None:
    """Compare scores with the digests that were stored before them.

    Raises:
        InputError: names the first trial that has changed.
    """
    outer = study.user_attrs.get(OUTER, {})
    wrong = "an outer score" if DIGEST in outer and outer != with_digest(outer) else None
    for trial in complete(study):
        stored = trial.user_attrs.get(DIGEST)
        if stored is not None and stored != digest(trial.params, trial.values[0]):
            wrong = f"trial {trial.number}"
            break
    if wrong is not None:
        raise InputError(
            f"{wrong} of study {study.study_name!r} is not what was stored: restore the storage "
            f"from a copy, or give another --study-name"
        )


def complete(study: Study) -> list[FrozenTrial]:
    """Trials with a score."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def is_maximised(study: Study) -> bool:
    """Whether more is better."""
    return study.direction == StudyDirection.MAXIMIZE


def best_trial(trials: Iterable[FrozenTrial], *, higher: bool = True) -> FrozenTrial | None:
    """The trial with the best score, on a tie the one that began first; None without a score.

    Not ``study.best_trial``, which is any of the equal ones in a database.
    """
    scored = [t for t in trials if t.state == TrialState.COMPLETE and t.value is not None]
    scored.sort(key=lambda t: t.user_attrs.get(FIRST, t.number))
    return scored[best([t.values[0] for t in scored], higher=higher)] if scored else None


def failure_of(trial: FrozenTrial) -> str | None:
    """Why a trial failed; None if it did not."""
    if trial.state != TrialState.FAIL:
        return None
    stale = _GIVEN_UP if DEATHS in trial.user_attrs else INTERRUPTED  # Optuna stores no reason
    return str(trial.user_attrs.get(FAILURE, stale))


_GIVEN_UP = f"its search ended, {TRIES} times"


@contextlib.contextmanager
def stoppable(study: Study) -> Iterator[None]:
    """Let samplers and callbacks call ``study.stop()``, as in ``study.optimize``."""
    local: Any = study._thread_local
    before, local.in_optimize_loop = local.in_optimize_loop, True
    try:
        yield
    finally:
        local.in_optimize_loop = before


def put_back(study: Study, trial: FrozenTrial, *, died: bool) -> None:
    """Fail a running trial, and enqueue its settings once more.

    Settings are given up after three drivers ended while they were trained, since settings that
    fill a machine's memory would end one driver after another.

    Args:
        study: study of the trial.
        trial: as it is stored.
        died: whether its driver ended without notice.
    """
    deaths = trial.user_attrs.get(DEATHS, 0) + (died and _was_trained(trial))
    again = deaths < TRIES
    if again:  # before it fails: a driver that dies in between loses nothing
        enqueue_again(study, trial, deaths)
    fail(study, trial, INTERRUPTED if again else _GIVEN_UP)


def _was_trained(trial: FrozenTrial) -> bool:
    """Whether a trial had all its settings, so that its training may have begun."""
    return bool(trial.user_attrs.get(DRAWN) == trial.number)


def fail(study: Study, trial: Trial | FrozenTrial, reason: str) -> None:
    """Store why a trial has failed, unless another driver has ended it."""
    with contextlib.suppress(UpdateFinishedTrialError), stoppable(study):
        study._storage.set_trial_user_attr(trial._trial_id, FAILURE, reason)
        study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def put_back_orphans(study: Study) -> None:
    """Put back trials whose driver has died: in a locked file, all running ones."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        put_back(study, trial, died=True)


def _retry_stale(study: Study, trial: FrozenTrial) -> None:
    """Optuna's callback for stale trials."""
    deaths = trial.user_attrs.get(DEATHS, 0) + _was_trained(trial)
    if deaths < TRIES:
        enqueue_again(study, trial, deaths)


def enqueue_again(study: Study, trial: FrozenTrial, deaths: int | None = None) -> None:
    """Enqueue a trial once more, unless that has been done or it had not begun to draw; with its
    settings, if it had drawn them all.

    Otherwise the same settings are drawn again, since a draw depends only on the position and on
    the trials before the batch.

    Args:
        study: study of the trial.
        trial: as it is stored.
        deaths: drivers that have ended while these settings were trained; unchanged if None.
    """
    deaths = trial.user_attrs.get(DEATHS, 0) if deaths is None else deaths
    # A sampler of the user's own, which stores no batch, would draw other settings.
    whole = DRAWN in trial.user_attrs or BATCH not in trial.user_attrs
    drawn = trial.params if whole else {}
    params = {**trial.system_attrs.get(FIXED, {}), **drawn}
    repeated = {other.user_attrs.get(AGAIN) for other in study.get_trials(deepcopy=False)}
    if (params or BATCH in trial.user_attrs) and trial.number not in repeated:
        kept = {
            key: trial.user_attrs[key] for key in (GRID, BATCH, DRAWN) if key in trial.user_attrs
        }
        kept |= {DEATHS: deaths} if deaths else {}
        kept |= {AGAIN: trial.number, FIRST: trial.user_attrs.get(FIRST, trial.number)}
        # A sampler may keep its state with a trial, as CMA-ES does.
        names = trial.system_attrs.keys() - {FIXED} if whole else OF_GRID
        system = {name: trial.system_attrs[name] for name in names if name in trial.system_attrs}
        study.add_trial(create_trial(
            state=TrialState.WAITING, user_attrs=kept, system_attrs=system | {FIXED: params}
        ))  # fmt: skip


def positions(trials: Sequence[FrozenTrial]) -> list[int]:
    """The position of each trial in its search; a repeat has that of the trial it repeats, and a
    trial whose driver died before it drew anything that of the next trial.

    Args:
        trials: all trials of a study, by number.
    """
    places, n_before = list[int](), 0
    for trial in trials:
        first = trial.user_attrs.get(FIRST)
        places.append(n_before if first is None else places[first])
        n_before += first is None and not _is_empty(trial)
    return places


def _is_empty(trial: FrozenTrial) -> bool:
    """Whether the driver of a trial died before it drew anything."""
    begun = trial.params or BATCH in trial.user_attrs or FIXED in trial.system_attrs
    return trial.state == TrialState.FAIL and not begun


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
    """Heartbeats of running trials in a database, which show that their drivers are alive.

    Args:
        storage: storage of the studies.
        url: URL of the storage; trials in files need no heartbeats.
    """

    def __init__(self, storage: BaseStorage, url: str) -> None:
        self.needed = is_server(url)
        self._storage: Any = storage
        self._mine: set[int] = set()
        self._others: set[int] = set()
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

    def begin(self, trial: Trial) -> None:
        """Record a heartbeat of a trial now and at regular intervals."""
        if self.needed:
            self._mine.add(trial._trial_id)
            self._storage.record_heartbeat(trial._trial_id)

    def end(self, trial: Trial) -> None:
        """Stop the heartbeats of a trial."""
        self._mine.discard(trial._trial_id)

    def check(self, study: Study) -> None:
        """Put back trials of other drivers whose heartbeats have stopped."""
        if not self.needed:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            optuna.storages.fail_stale_trials(study)  # which calls _retry_stale
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            # A trial without any heartbeat would never be stale, though its driver may have died.
            if trial._trial_id not in self._mine | self._others:
                self._others.add(trial._trial_id)
                self._storage.record_heartbeat(trial._trial_id)

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT):
            for number in tuple(self._mine):
                # The trial has ended meanwhile, or the server is out of reach for a moment.
                with contextlib.suppress(Exception):
                    self._storage.record_heartbeat(number)
