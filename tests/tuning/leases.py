"""Leases of the living, of the dead and of other machines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial

from gcl_hard.tuning.lease import LEASE, Watchman, born, host

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")


@pytest.fixture
def study() -> optuna.Study:
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(0))


def finished_process() -> int:
    """The number of a process that has ended and was waited for."""
    child = subprocess.Popen([sys.executable, "-S", "-c", ""])
    child.wait()
    return child.pid


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def to(self, now: float) -> None:
        self.now = now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watchman(clock: Clock) -> Watchman:
    return Watchman(clock)


def held(since: float = 0.0, **other: Any) -> dict[str, Any]:
    """A lease of this process, with anything else."""
    pid = os.getpid()
    mine = {"worker": "w", "host": host(), "pid": pid, "born": born(pid), "time": since}
    return {LEASE: mine | other}


def elsewhere(since: float = 0.0, worker: str = "w") -> dict[str, Any]:
    """A lease of another machine."""
    return held(since, worker=worker, host="elsewhere", pid=1, born="1")


def all_of(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=True)
