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
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

LEASE, AGAIN, FAILURE, GRID = "lease", "again", "failure", "grid"
"""Attributes of a trial: who has it; the trial that it repeats; why it failed; whether it is of
the grid."""
GRACE = 5.0
"""Seconds between telling a trial FAIL and enqueuing its settings, at most."""
SECONDS = 60.0
"""A lease not renewed for so long is over; clocks of machines may differ by less than that."""
RENEWED = 15.0
"""Seconds between two renewals."""


def host() -> str:
    """The machine, and what sees the same processes on it (a container has its own)."""
    with contextlib.suppress(OSError):
        return f"{socket.gethostname()}/{Path('/proc/self/ns/pid').readlink()}"
    return socket.gethostname()


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


def expired(trial: FrozenTrial, now: float, seconds: float = SECONDS) -> bool:
    """Whether the worker of a running trial is dead.

    Args:
        trial: that is running.
        now: seconds since 1970.
        seconds: that a lease lasts.
    """
    lease: dict[str, Any] | None = trial.user_attrs.get(LEASE)
    if lease is None:  # asked for a moment ago, or its worker died in that moment
        start = trial.datetime_start
        return start is not None and now - start.timestamp() > seconds
    if lease["host"] == host() and not alive(lease["pid"], lease["born"]):
        return True
    return now - float(lease["time"]) > seconds


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
        self._write(trial)
        with self._lock:
            self._held[trial.number] = trial

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


def take_over(study: optuna.Study, trials: Iterable[FrozenTrial]) -> int:
    """Tell trials of dead workers FAIL and enqueue their settings again.

    Args:
        study: of the trials.
        trials: all of them.

    Returns:
        How many were enqueued.
    """
    listed = list(trials)
    again = {trial.user_attrs.get(AGAIN) for trial in listed}
    now, open_ones = time.time(), list[FrozenTrial]()
    for trial in listed:
        if trial.state == TrialState.RUNNING and expired(trial, now):
            with contextlib.suppress(ValueError, UpdateFinishedTrialError):  # another was faster
                study.tell(trial.number, state=TrialState.FAIL)
                open_ones.append(trial)
        elif orphaned(trial, now):
            open_ones.append(trial)
    missing = [trial for trial in open_ones if trial.number not in again]
    for trial in missing:
        params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        enqueue_again(study, trial.number, params, grid=bool(trial.user_attrs.get(GRID)))
    return len(missing)


def orphaned(trial: FrozenTrial, now: float) -> bool:
    """Whether whoever told it FAIL died before it could be enqueued again."""
    end = trial.datetime_complete
    if trial.state != TrialState.FAIL or FAILURE in trial.user_attrs or end is None:
        return False
    return now - end.timestamp() > GRACE


def enqueue_again(
    study: optuna.Study, number: int, params: dict[str, Any], *, grid: bool = False
) -> None:
    """Enqueue the settings of a trial that its worker did not end.

    Args:
        study: of the trial.
        number: its own.
        params: its settings; none if it died before they were drawn.
        grid: whether it is of the grid.
    """
    if params:
        study.enqueue_trial(params, user_attrs={AGAIN: number} | ({GRID: True} if grid else {}))
