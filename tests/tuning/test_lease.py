"""Who works on a trial: processes, machines, and leases that are held."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from gcl_hard.tuning import lease as module
from gcl_hard.tuning.lease import LEASE, SECONDS, Lease, Watchman, alive, born, host
from tests.tuning import leases
from tests.tuning.leases import all_of, finished_process, linux

study, clock, watchman = leases.study, leases.clock, leases.watchman  # here pytest finds them


# Processes


def test_this_process_is_alive() -> None:
    assert alive(os.getpid(), born(os.getpid()))


def test_a_finished_process_is_not() -> None:
    pid = finished_process()
    assert not alive(pid, born(os.getpid()))
    assert not alive(pid, "")
    assert born(pid) == ""


@linux
def test_a_number_that_is_used_again_is_another_process() -> None:
    since = born(os.getpid())
    assert not alive(os.getpid(), str(int(since) - 1))
    assert not alive(os.getpid(), "")


@linux
def test_a_process_was_born_when_it_was_begun() -> None:
    def uptime() -> float:
        return float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])

    before = uptime()
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        since, after = born(child.pid), uptime()
        assert before - 0.02 <= int(since) / os.sysconf("SC_CLK_TCK") <= after
        assert alive(child.pid, since)
        child.communicate(b"\n")
    assert not alive(child.pid, since)


def test_somebody_else_s_process_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert alive(1, "whenever")


# Machines


def test_what_sees_the_same_processes_is_one_machine_since_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, *rest = host().split("/")
    assert name
    assert host() == host()
    seen = [Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")]
    assert len(rest) == sum(path.exists() for path in seen)
    if seen[0].exists():
        assert rest[0] == seen[0].read_text(encoding="utf-8").strip()
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "started again\n")
    assert host().split("/")[1] == "started again"


def test_where_nothing_is_known_of_a_machine_its_name_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(Path, "readlink", refuse)
    assert host() == socket.gethostname()
    assert born(os.getpid()) == ""


# Holding


def test_a_taken_trial_says_whose_it_is(study: optuna.Study, watchman: Watchman) -> None:
    before, trial = time.time(), study.ask()
    lease = Lease()
    lease.take(trial)
    (stored,) = all_of(study)
    said = dict(stored.user_attrs[LEASE])
    assert before <= said.pop("time") <= time.time()
    assert len(said.pop("worker")) == 8
    assert said == {"host": host(), "pid": os.getpid(), "born": born(os.getpid())}
    assert watchman.dead([stored]) == set()
    assert [one.number for one in lease.trials] == [0]
    lease.drop(trial)
    lease.drop(trial)
    assert lease.trials == ()


def test_two_leases_of_one_process_are_two_workers(study: optuna.Study) -> None:
    for lease in (Lease(), Lease()):
        lease.take(study.ask())
    first, second = (trial.user_attrs[LEASE]["worker"] for trial in all_of(study))
    assert first != second


def soon(what: Callable[[], bool]) -> None:
    """Wait until it is so."""
    until = time.monotonic() + 10
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


def written(study: optuna.Study, number: int) -> float:
    return float(all_of(study)[number].user_attrs[LEASE]["time"])


def renewed(study: optuna.Study, number: int) -> None:
    """Wait for the next time that a trial's lease is written."""
    before = written(study, number)
    soon(lambda: written(study, number) > before)


def test_a_thread_renews_what_is_held(study: optuna.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEWED", 0.01)
    threads = threading.active_count()
    with Lease() as lease:
        kept, dropped = study.ask(), study.ask()
        for trial in (kept, dropped):
            lease.take(trial)
        first = written(study, 0), written(study, 1)
        soon(lambda: written(study, 0) > first[0] and written(study, 1) > first[1])
        lease.drop(dropped)
        renewed(study, 0)
        renewed(study, 0)  # the round that was under way is over
        last = written(study, 1)
        renewed(study, 0)
        assert written(study, 1) == last
    assert threading.active_count() == threads
    end = written(study, 0)
    time.sleep(0.03)
    assert written(study, 0) == end


def test_a_trial_that_another_ended_does_not_stop_the_thread(
    study: optuna.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEWED", 0.01)
    with Lease() as lease:
        gone, kept = study.ask(), study.ask()
        for trial in (gone, kept):
            lease.take(trial)
        study.tell(gone, state=TrialState.FAIL)
        for _ in range(3):
            renewed(study, 1)


def test_renewal_is_quicker_than_a_lease() -> None:
    assert 3 * module.RENEWED < SECONDS
