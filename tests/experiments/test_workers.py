"""Several processes: the same numbers, and nothing lost or doubled when one of them dies."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gcl_hard.experiments import graph_seeds, machine
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.options import parse_bench
from gcl_hard.experiments.records import save
from gcl_hard.experiments.run import run
from gcl_hard.experiments.scorers import do
from gcl_hard.experiments.work import Done, OnEpoch, Setting, Worker, claim
from gcl_hard.experiments.workers import in_processes

TINY = ["--epochs=1", "--layers=1", "--dim=4", "--folds=2", "--device=cpu", "--threads=1"]


def jobs(*arguments: str) -> list[Job]:
    options = parse_bench([*TINY, *arguments])
    return [Job(cell, seed) for seed in options.seeds for cell in options.cells]


def setting(output: Path) -> Setting:
    return Setting(output, None, "cpu", 1, 1, machine.versions())


def numbers(folder: Path) -> dict[str, Any]:
    """What records hold, without what changes from run to run."""
    found = {}
    for path in folder.glob("*_seed*.json"):
        stored = json.loads(path.read_text(encoding="utf-8"))
        found[path.name] = (stored["fold_accuracies"], stored["fold_c"], stored["final_losses"])
    return found


def ignored(encoder: int, epoch: float, loss: float, beside: int = 1) -> None:
    """An epoch that nobody watches."""


# One record, one process


@contextmanager
def held_elsewhere(path: Path) -> Iterator[None]:
    """Another process holds a record's claim."""
    code = (
        "import sys; from pathlib import Path; from gcl_hard.experiments.work import claim\n"
        "with claim(Path(sys.argv[1])) as mine: print(mine, flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        yield
        other.kill()  # no farewell: the claim must end all the same


def test_a_claim_is_refused_while_another_process_holds_it_and_ends_with_that(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a_seed0.json"
    with held_elsewhere(path), claim(path) as mine:
        assert not mine
    with claim(path) as mine:
        assert mine
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_is_doing_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = jobs("--seeds=1")
    with held_elsewhere(tmp_path / job.file_name):
        assert do(Worker(setting(tmp_path)), job, ignored) == Done(job)
    first = do(Worker(setting(tmp_path)), job, ignored)
    assert first.record is not None
    monkeypatch.setattr(graph_seeds, "train_seeds", None)  # must not be called a second time
    assert do(Worker(setting(tmp_path)), job, ignored) == first


def test_a_killed_writers_leftovers_go_with_the_next_claim(tmp_path: Path) -> None:
    path = tmp_path / "a_seed0.json"
    for name in (f".{path.name}.x1y2", ".b_seed0.json.x1y2"):
        (tmp_path / name).write_text('{"half')
    with claim(path):
        pass
    assert [p.name for p in tmp_path.iterdir()] == [".b_seed0.json.x1y2"]


# A pool


@pytest.mark.spawns
def test_processes_leave_the_records_that_one_leaves(tmp_path: Path) -> None:
    arguments = [*TINY, "--method=ucl,hscl", "--seeds=2", "--epochs=2", "--members=2"]
    console = Console(file=StringIO(), force_terminal=True, width=200)
    for n in ("1", "2"):
        folder = tmp_path / n
        outcome = run(parse_bench([*arguments, f"--jobs={n}", f"--output={folder}"]), console)
        assert (outcome.failures, outcome.results.open) == ([], [])
    assert len(numbers(tmp_path / "1")) == 4
    assert numbers(tmp_path / "1") == numbers(tmp_path / "2")


def test_a_process_that_is_killed_loses_its_own_job_alone(tmp_path: Path) -> None:
    todo = jobs("--seeds=3", "--epochs=40")
    victims: list[Job] = []

    def started(job: Job) -> OnEpoch:
        def on_epoch(encoder: int, epoch: float, loss: float, beside: int = 1) -> None:
            if not victims:
                (child,) = multiprocessing.active_children()
                assert child.pid is not None
                os.kill(child.pid, signal.SIGKILL)
                victims.append(job)

        return on_epoch

    done = {d.job: d for d in in_processes([(job,) for job in todo], setting(tmp_path), 1, started)}
    assert victims == todo[:1]
    assert list(done) == todo
    failure = done[todo[0]].failure
    assert failure is not None
    assert "MUTAG hscl β=1 paper, seed 0: its process was killed by SIGKILL" in failure
    assert all(done[job].record is not None for job in todo[1:])


@pytest.mark.parametrize("when", ["before its first word", "between jobs"])
def test_a_process_may_die_where_nobody_listens(when: str, tmp_path: Path) -> None:
    todo = jobs("--seeds=3")
    found: dict[Job, Done] = {}
    killed = False

    def kill_the_child() -> None:
        nonlocal killed
        for child in multiprocessing.active_children():
            child.kill()
            child.join()
        killed = True

    def started(job: Job) -> OnEpoch:
        if when == "before its first word" and not killed:
            kill_the_child()
        return ignored

    for done in in_processes([(job,) for job in todo], setting(tmp_path), 1, started):
        found[done.job] = done
        if when == "between jobs" and not killed:
            kill_the_child()
    assert list(found) == todo
    failed = [job for job in todo if found[job].failure is not None]
    assert failed == (todo[:1] if when == "before its first word" else [])
    assert all(found[job].record is not None for job in todo if job not in failed)


def test_seeds_of_another_command_are_waited_for_and_then_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = jobs("--seeds=2")
    record = do(Worker(setting(tmp_path / "other")), first, ignored).record
    assert record is not None
    started: list[int] = []
    real = graph_seeds.train_seeds

    def train_seeds(todo: Any, *arguments: Any, **settings: Any) -> Any:
        started.extend(job.seed for job in todo)
        return real(todo, *arguments, **settings)

    monkeypatch.setattr(graph_seeds, "train_seeds", train_seeds)
    console = Console(file=StringIO(), width=200)
    with ExitStack() as other:
        tmp_path.joinpath("here").mkdir()
        other.enter_context(held_elsewhere(tmp_path / "here" / first.file_name))

        def while_waiting(seconds: float) -> None:
            """The other command ends its seed, and itself."""
            save(record, tmp_path / "here" / first.file_name)
            other.close()

        monkeypatch.setattr("gcl_hard.experiments.run.time.sleep", while_waiting)
        outcome = run(parse_bench([*TINY, "--seeds=2", f"--output={tmp_path / 'here'}"]), console)
    assert started == [0, 1]  # the group, once: seed 0 is trained along
    assert outcome.results.records[first] == record
    assert second in outcome.results.records
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "waiting for another command to end 1 seeds" in said


def test_an_accident_in_a_job_is_told_with_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(graph_seeds, "train_seeds", broken)
    (job,) = jobs("--seeds=1")
    done = do(Worker(setting(tmp_path)), job, ignored)
    assert done.record is None
    assert done.failure is not None
    assert done.failure.startswith("MUTAG hscl β=1 paper, seed 0: ZeroDivisionError: by zero\n")
    assert "in broken" in done.failure
    assert list(tmp_path.iterdir()) == []


# Whole commands


def command(output: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "gcl_hard.bench", *TINY, *arguments, f"--output={output}"]


@pytest.mark.spawns
def test_two_commands_share_a_folder_without_losing_or_doubling(tmp_path: Path) -> None:
    shared = [*("--method=ucl,scl", "--seeds=3", "--epochs=30"), f"--json={tmp_path / 'r.json'}"]
    both = [
        subprocess.Popen(command(tmp_path / "out", *shared), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    run(parse_bench([*TINY, *shared, f"--output={tmp_path / 'alone'}"]), Console(file=StringIO()))
    assert numbers(tmp_path / "out") == numbers(tmp_path / "alone")
    assert all("MUTAG" in text for text in said)
    assert not [p for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]


def children(pid: int) -> set[int]:
    """Processes below one."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text(encoding="utf-8")
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == pid:
            found.add(int(stat.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at Linux's /proc")
def test_processes_end_with_the_command_that_began_them(tmp_path: Path) -> None:
    with subprocess.Popen(
        command(tmp_path, "--jobs=2", "--epochs=100000", "--seeds=2", "--members=1"),
        stderr=subprocess.DEVNULL,
    ) as parent:
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob(".*.lock"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        below, claims = children(parent.pid), list(tmp_path.glob(".*.lock"))
        parent.send_signal(signal.SIGKILL)
    assert len(claims) == 2
    while any(map(alive, below)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert below
    assert not any(map(alive, below))
