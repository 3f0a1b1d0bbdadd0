"""Engines: tasks in this process, and on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed
import psutil
import pytest
from distributed.comm import connect

from gcl_hard.errors import GclHardError, InputError
from gcl_hard.experiments.engine import TRIES, Cluster, Engine, InProcess, engine
from tests.experiments import engine_tasks as tasks
from tests.said import says

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads Linux's /proc")


def watched(seen: list[Any], refuse: str = "") -> Any:
    """Collects reports; a task of one name shall not go on."""

    def on_report(*values: Any) -> bool:
        seen.append(values)
        return bool(values[0] != refuse)

    return on_report


# In this process


def in_process(seen: list[Any] | None = None, refuse: str = "") -> Engine:
    workers = engine(1, None, watched([] if seen is None else seen, refuse))
    assert isinstance(workers, InProcess)
    return workers


def test_tasks_run_in_their_order_and_urgent_ones_first() -> None:
    with in_process() as engine:
        assert engine.workers == 1
        for n in (1, 2):
            engine.submit(tasks.double, n)
        engine.submit(tasks.double, 3, urgent=True)
        assert [task.result() for task in engine.completed()] == [6, 2, 4]


def test_reports_reach_the_driver_and_its_answer_the_task() -> None:
    seen: list[Any] = []
    with in_process(seen, refuse="b") as engine:
        for name in ("a", "b"):
            engine.submit(tasks.ask, name)
            engine.submit(tasks.work, name, 0.05)
        results = [task.result() for task in engine.completed()]
    assert results == [True, "a", False, "b stopped"]
    assert {name for name, *_ in seen} == {"a", "b"}


def interrupting(times: int) -> Any:
    """Interrupts as Ctrl-C does, once for each report."""
    left = [times]

    def on_report(*_: Any) -> bool:
        if left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)
        return True

    return on_report


def test_the_first_ctrl_c_lets_the_running_task_save(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with InProcess(interrupting(1)) as engine:
        engine.submit(tasks.until_stopped, str(tmp_path / "started"), str(tmp_path / "saved"))
        engine.submit(tasks.until_stopped, str(tmp_path / "next"), str(tmp_path / "never"))
        with pytest.raises(KeyboardInterrupt):
            list(engine.completed())
    assert {path.name for path in tmp_path.iterdir()} == {"started", "saved"}
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_between_tasks_ends_the_engine_before_the_next(tmp_path: Path) -> None:
    done: list[Any] = []

    def drive() -> None:
        with in_process() as engine:
            engine.submit(tasks.double, 1)
            engine.submit(tasks.until_stopped, str(tmp_path / "started"), str(tmp_path / "saved"))
            for task in engine.completed():
                signal.raise_signal(signal.SIGINT)  # what follows it here is still done
                done.append(task.result())

    with pytest.raises(KeyboardInterrupt):
        drive()
    assert done == [2]
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("then", [lambda engine: None, lambda engine: engine.wait(60.0)])
def test_ctrl_c_after_the_last_task_is_not_lost(then: Any) -> None:
    def drive() -> None:
        with in_process() as engine:
            signal.raise_signal(signal.SIGINT)
            then(engine)

    with pytest.raises(KeyboardInterrupt):
        drive()


def ask_twice(*, report: Any) -> None:
    report()
    report()
    raise AssertionError("went on after the second Ctrl-C")


def test_the_second_ctrl_c_ends_the_task_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with InProcess(interrupting(2)) as engine:
        engine.submit(ask_twice)
        with pytest.raises(KeyboardInterrupt):
            list(engine.completed())
    assert signal.getsignal(signal.SIGINT) is before


def test_an_engine_works_in_any_thread() -> None:
    reports: list[Any] = []

    def go() -> None:
        with in_process() as engine:
            engine.submit(tasks.double, 4)
            reports.extend(task.result() for task in engine.completed())

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    assert reports == [8]


# Beside a GPU


def test_scoring_runs_on_workers_while_the_next_group_trains_here() -> None:
    trained: dict[Any, tuple[int, float, float]] = {}
    scored: list[tuple[int, float, float]] = []
    with engine(1, None, watched([]), beside=1) as workers:
        for _ in range(3):
            trained[workers.submit(tasks.timed, 0.5, remote=True)] = (0, 0.0, 0.0)
        bad = workers.submit(tasks.divide, 1, 0)
        for task in workers.completed():
            if task in trained:
                trained[task] = task.result()
                workers.submit(tasks.timed, 0.1, task, urgent=True)
            elif task is not bad:
                scored.append(task.result())
        with pytest.raises(ZeroDivisionError):
            bad.result()
    assert {pid for pid, *_ in trained.values()} == {os.getpid()}
    assert len(scored) == 3
    assert os.getpid() not in {pid for pid, *_ in scored}
    last = max(end for _, _, end in trained.values())
    assert sum(start < last for _, start, _ in scored) >= 1  # before all were trained


def test_what_was_scored_before_ctrl_c_is_kept(tmp_path: Path) -> None:
    path, scored = str(tmp_path / "scored"), []
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        engine(1, None, watched([]), beside=1) as workers,
    ):
        first = workers.submit(tasks.double, 1, remote=True)
        workers.submit(tasks.interrupted, path, remote=True)
        for task in workers.completed():
            if task is first:
                workers.submit(tasks.touch, path, task, urgent=True)
            else:
                scored.append(task.result())
    assert scored == [path]


@pytest.mark.slow
def test_a_scoring_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    with engine(1, None, watched([]), beside=1) as workers:
        first, results = workers.submit(tasks.double, 1, remote=True), []
        for task in workers.completed():
            if task is first:
                workers.submit(tasks.die_once, str(tmp_path / "died"))
                workers.submit(tasks.double, 2)
            else:
                results.append(task.result())
    assert len(results) == 2
    assert 4 in results


# On a cluster


@contextmanager
def cluster(kind: str, folder: Path, on_report: Any) -> Iterator[Engine]:
    """Two workers: of this machine, or of a scheduler that was started by itself."""
    if kind == "local":
        with engine(2, None, on_report) as workers:
            yield workers
        return
    with tasks.scheduler(folder) as (address, _), engine(1, address, on_report) as workers:
        yield workers


@linux
@pytest.mark.parametrize("kind", ["local", pytest.param("scheduler", marks=pytest.mark.slow)])
def test_a_cluster_does_what_one_process_does(kind: str, tmp_path: Path) -> None:
    seen: list[Any] = []
    with cluster(kind, tmp_path, watched(seen, refuse="b")) as engine:
        assert engine.workers == 2
        named = {
            "six": engine.submit(tasks.double, 3, remote=True),
            "asked": engine.submit(tasks.ask, "a"),
            "refused": engine.submit(tasks.ask, "b"),
            "worked": engine.submit(tasks.work, "c", 0.6),
            "bad": engine.submit(tasks.divide, 1, 0),
        }
        done = set()
        for task in engine.completed():
            done.add(task)
            if task is named["six"]:
                named["seven"] = engine.submit(tasks.add, task, 1, urgent=True)
        assert done == {*named.values()}
        with pytest.raises(ZeroDivisionError):
            named.pop("bad").result()
        del named["six"]
        assert {name: task.result() for name, task in named.items()} == {
            "asked": True, "refused": False, "worked": "c", "seven": 7,
        }  # fmt: skip
        assert {name for name, *_ in seen} == {"a", "b", "c"}
        assert list(engine.completed()) == []


@pytest.mark.slow
@linux
def test_what_a_killed_worker_had_is_done_elsewhere(tmp_path: Path) -> None:
    with Cluster(1, None, watched([])) as workers:
        kept = workers.submit(tasks.double, 4, remote=True)
        assert list(workers.completed()) == [kept]
        victim = workers.submit(tasks.die_once, str(tmp_path / "marker"))
        after = workers.submit(tasks.add, kept, 1)  # whose argument died with the only worker
        assert {*workers.completed()} == {victim, after}
        assert (victim.result(), after.result()) == ("alive", 9)


@pytest.mark.slow
@linux
def test_a_task_that_a_paused_worker_stops_is_done_elsewhere(tmp_path: Path) -> None:
    with engine(2, None, watched([])) as workers:
        task = workers.submit(tasks.pause_once, str(tmp_path / "marker"))
        assert list(workers.completed()) == [task]
        assert task.result() == "alive"


@pytest.mark.slow
@linux
def test_a_task_that_kills_its_workers_fails_alone(tmp_path: Path) -> None:
    with engine(2, None, watched([])) as workers:
        killer = workers.submit(tasks.die, str(tmp_path / "count"))
        others = [workers.submit(tasks.work, str(n), 0.1) for n in range(8)]
        assert {*workers.completed()} == {killer, *others}
        assert [task.result() for task in others] == list(map(str, range(8)))
        with pytest.raises(Exception, match="Attempted") as caught:
            killer.result()
        assert type(caught.value).__name__ == "KilledWorker"
        assert (tmp_path / "count").read_text(encoding="utf-8") == "x" * TRIES


@pytest.mark.slow
@linux
def test_a_result_that_is_lost_with_its_scheduler_says_so() -> None:
    with Cluster(1, None, watched([])) as workers:
        workers.submit(tasks.lose_the_scheduler)
        with pytest.raises(GclHardError, match="scheduler"):
            list(workers.completed())


@pytest.mark.slow
@linux
def test_what_is_left_running_saves_and_the_workers_end(tmp_path: Path) -> None:
    started, saved = tmp_path / "started", tmp_path / "saved"
    before = tasks.below(os.getpid())
    with engine(2, None, watched([])) as workers:
        mine = tasks.below(os.getpid()) - before
        workers.submit(tasks.until_stopped, str(started), str(saved))
        tasks.wait_for(started.exists)
    assert saved.exists()
    tasks.wait_for(lambda: not any(tasks.alive(pid) for pid in mine if tasks.is_worker(pid)))


@pytest.mark.slow
@linux
def test_ctrl_c_while_the_driver_works_stops_the_cluster(tmp_path: Path) -> None:
    started, saved = tmp_path / "started", tmp_path / "saved"

    def drive() -> None:
        with engine(2, None, watched([])) as workers:
            workers.submit(tasks.until_stopped, str(started), str(saved))
            workers.submit(tasks.double, 1)
            for _ in workers.completed():
                tasks.wait_for(started.exists)
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        drive()
    assert saved.exists()


@pytest.mark.slow
@linux
def test_a_worker_that_joins_later_gets_tasks_too(tmp_path: Path) -> None:
    with (
        tasks.scheduler(tmp_path, threads=(1,)) as (address, _),
        engine(1, address, watched([])) as driver,
        tasks.workers(tmp_path, address, [1]),
    ):
        assert driver.workers == 1
        for _ in range(2):
            driver.submit(tasks.meet, str(tmp_path), 2)
        assert len({task.result() for task in driver.completed()}) == 2
        assert driver.workers == 2


@pytest.mark.slow
@linux
def test_a_worker_that_joins_with_two_threads_is_refused(tmp_path: Path) -> None:
    with (
        tasks.scheduler(tmp_path, threads=(1,)) as (address, _),
        engine(1, address, watched([])) as driver,
        tasks.workers(tmp_path, address, [2]),
    ):
        driver.submit(tasks.until_stopped, str(tmp_path / "started"), str(tmp_path / "saved"))
        with pytest.raises(InputError, match=r"\b2 threads.*--nthreads 1"):
            list(driver.completed())


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_before_a_process_is_started(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import gcl_hard\nfrom gcl_hard.graphs import GIN, load_graphs\n"
        "mutag = load_graphs('MUTAG', download=False)\n"
        "gcl_hard.evaluate(GIN, mutag, 'ucl', seeds=2, jobs=2, folds=2)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)], cwd=tmp_path, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.count("Traceback") == 1
    assert says(done.stderr, "jobs=2", "mine.py")
    assert says(done.stderr, 'if __name__ == "__main__":')


@pytest.mark.parametrize("error", [TimeoutError("no answer"), RuntimeError("Cluster failed")])
def test_workers_of_this_machine_that_do_not_start_are_not_called_a_scheduler(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(**_: Any) -> None:
        raise error

    monkeypatch.setattr("distributed.LocalCluster", fails)
    with pytest.raises(InputError) as caught, engine(2, None, watched([])):
        pass
    message = str(caught.value)
    assert says(message, 2, "processes", str(error), "--jobs 1")
    assert "scheduler" not in message


@pytest.mark.slow
@linux
def test_nobody_without_its_certificate_reaches_the_workers_of_this_machine() -> None:
    with engine(2, None, watched([])):
        me = psutil.Process()
        listening = [
            connection
            for process in (me, *me.children(recursive=True))
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert listening
        others = {"tcp": distributed.Security(), "tls": distributed.Security.temporary()}

        async def reached(protocol: str, port: int) -> Any:
            known = others[protocol].get_connection_args("client")
            connected = connect(f"{protocol}://127.0.0.1:{port}", timeout=1, **known)
            return await asyncio.wait_for(connected, 2)

        async def tried() -> list[Any]:
            every = [
                reached(protocol, connection.laddr.port)
                for protocol in others
                for connection in listening
            ]
            return await asyncio.gather(*every, return_exceptions=True)

        errors = asyncio.run(tried())
    assert all(isinstance(error, OSError) for error in errors), errors


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("tcp://192.0.2.1:9", True), ("192.0.2.1:9", True), ("tls://192.0.2.1:9", False),
        ("tcp://127.0.0.1:9", False), ("tcp://[::1]:9", False), ("tcp://localhost:9", False),
    ],
)  # fmt: skip
def test_a_scheduler_that_anyone_may_reach_is_warned_of(
    address: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreached(*_: Any, **__: Any) -> None:
        raise OSError("not there")

    monkeypatch.setattr("distributed.Client", unreached)
    warnings.simplefilter("always")
    with warnings.catch_warnings(record=True) as seen, pytest.raises(InputError):
        engine(1, address, watched([])).__enter__()
    assert [address in str(warning.message) for warning in seen] == [True] * warned
