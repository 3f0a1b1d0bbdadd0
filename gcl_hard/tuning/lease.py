"""Who is working on a trial, and whether it still lives.

Optuna watches over trials of ``Study.optimize`` alone; trials that are asked for get a lease of
ours: a worker's name and a time in the trial's user attributes, written anew while it lives.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

LEASE, AGAIN, FAILURE, GRID, DEATHS = "lease", "again", "failure", "grid", "deaths"
"""Attributes of a trial: who has it; the trial that it repeats; why it failed; whether it is of
the grid; how many workers have died at its settings."""
FIXED = "fixed_params"
"""Optuna's attribute of a trial that was enqueued: its settings."""
LIVES = 2
"""Workers that settings may cost."""
GRACE = 5.0
"""Seconds after which a trial that was told FAIL and not enqueued again has been forgotten."""
SECONDS = 60.0
"""A lease not renewed for so long is over."""
RENEWED = 15.0
"""Seconds between two renewals."""


def host() -> str:
    """What sees the same processes: a machine since it was started, or a container on it."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # names of machines are used twice
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip())
    with contextlib.suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join(parts)


def born(pid: int) -> str:
    """When a process began, where Linux tells: numbers of processes are used again."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    return ""


def alive(pid: int, since: str) -> bool:
    """Whether a process of this machine is still there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return born(pid) == since


class Watchman:
    """Knows dead workers by their trials, with a clock of its own: those of machines may differ.

    A worker of this machine is dead when its process is gone; any other when its lease has not
    been renewed for a minute of this process's looking on.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[int, tuple[object, float]] = {}

    def dead(self, trials: Iterable[FrozenTrial]) -> set[int]:
        """Numbers of running trials whose worker is dead."""
        running = [trial for trial in trials if trial.state == TrialState.RUNNING]
        return {trial.number for trial in running if self._is_dead(trial)}

    def orphaned(self, trials: Iterable[FrozenTrial]) -> set[int]:
        """Numbers of trials that were told FAIL by somebody who died before enqueuing them."""
        numbers = returning(list(trials))
        return {number for number in numbers if self._unchanged(number, "failed", GRACE)}

    def _is_dead(self, trial: FrozenTrial) -> bool:
        lease: dict[str, Any] | None = trial.user_attrs.get(LEASE)
        if lease is None:  # asked for a moment ago, or its worker died in that moment
            return self._unchanged(trial.number, None, SECONDS)
        if lease["host"] == host() and not alive(lease["pid"], lease["born"]):
            return True
        return self._unchanged(trial.number, (lease["worker"], lease["time"]), SECONDS)

    def _unchanged(self, number: int, sign: object, seconds: float) -> bool:
        """Whether a trial has shown the same for so long."""
        now = self._clock()
        known, since = self._seen.setdefault(number, (sign, now))
        if known != sign:
            self._seen[number] = sign, now
            return False
        return now - since > seconds


class Lease:
    """Trials of this worker; a thread renews them.

    Example:
        >>> with Lease() as lease:
        ...     lease.trials
        ()
    """

    def __init__(self) -> None:
        pid = os.getpid()
        self._who = {"worker": uuid4().hex[:8], "host": host(), "pid": pid, "born": born(pid)}
        self._held: dict[int, Trial] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> Self:
        """Renewing begins."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """It ends."""
        self._over.set()
        self._thread.join()

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Those held."""
        with self._lock:
            return tuple(self._held.values())

    def take(self, trial: Trial) -> None:
        """Hold a trial."""
        with self._lock:
            self._held[trial.number] = trial  # first: who is stopped in between gives it back
        self._write(trial)

    def drop(self, trial: Trial) -> None:
        """Hold it no longer."""
        with self._lock:
            self._held.pop(trial.number, None)

    def _write(self, trial: Trial) -> None:
        trial.set_user_attr(LEASE, {**self._who, "time": time.time()})

    def _renew(self) -> None:
        while not self._over.wait(RENEWED):
            for trial in self.trials:
                # Told meanwhile, or given to another worker while this one slept; and a storage
                # that is out of reach for a moment is no reason to die.
                with contextlib.suppress(Exception):
                    self._write(trial)


def returning(trials: Sequence[FrozenTrial]) -> set[int]:
    """Numbers of trials that were told FAIL without a reason, and are not enqueued again yet."""
    again = {trial.user_attrs.get(AGAIN) for trial in trials}
    failed = [trial for trial in trials if trial.state == TrialState.FAIL and _settings(trial)]
    return {t.number for t in failed if FAILURE not in t.user_attrs} - again


def _settings(trial: FrozenTrial) -> dict[str, Any]:
    """Of a trial, also those that its worker did not come to draw."""
    return {**trial.system_attrs.get(FIXED, {}), **trial.params}


def take_over(study: optuna.Study, trials: Iterable[FrozenTrial], watchman: Watchman) -> int:
    """Tell trials of dead workers FAIL and enqueue their settings again, once.

    Settings that were at work twice when a worker died are not tried a third time: what fills a
    machine's memory would kill one worker after the other.

    Args:
        study: of the trials.
        trials: all of them.
        watchman: of this process.

    Returns:
        How many were enqueued.
    """
    listed = list(trials)
    again = {trial.user_attrs.get(AGAIN) for trial in listed}
    dead, orphaned = watchman.dead(listed), watchman.orphaned(listed)
    n = 0
    for trial in listed:
        if trial.number not in dead | orphaned:
            continue
        with told_by_another():
            if trial.number in dead:
                deaths = trial.user_attrs.get(DEATHS, 0) + 1
                if deaths >= LIVES:
                    handle = Trial(study, trial._trial_id)
                    handle.set_user_attr(FAILURE, f"its worker died, {LIVES} times")
                study.tell(trial.number, state=TrialState.FAIL)
                if deaths < LIVES and trial.number not in again:
                    n += enqueue_again(study, trial, deaths=deaths)
            else:
                n += enqueue_again(study, trial)
    return n


def told_by_another() -> contextlib.suppress:
    """Whoever is slower finds a trial told already."""
    return contextlib.suppress(ValueError, UpdateFinishedTrialError)


def enqueue_again(study: optuna.Study, trial: FrozenTrial, deaths: int | None = None) -> bool:
    """Enqueue the settings of a trial that its worker did not end.

    Args:
        study: of the trial.
        trial: as it is stored.
        deaths: of workers at these settings; as many as before if None.

    Returns:
        Whether it has any: its worker may have died before they were drawn.
    """
    params = _settings(trial)
    if params:
        kept = {key: trial.user_attrs[key] for key in (GRID, DEATHS) if key in trial.user_attrs}
        if deaths is not None:
            kept[DEATHS] = deaths
        study.enqueue_trial(params, user_attrs={AGAIN: trial.number, **kept})
    return bool(params)
