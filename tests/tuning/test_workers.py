"""Worker processes that are killed or stopped: no trial is lost, none is done twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from gcl_hard import tune
from gcl_hard.tuning.lease import AGAIN, FAILURE, GRID, LEASE, SECONDS
from gcl_hard.tuning.tally import SURPLUS
from tests.experiments.test_workers import alive, children

TRIALS, BATCH = 6, 2
SETTINGS = [
    "--dataset=MUTAG", "--method=hscl", "--epochs=150", "--layers=1", "--dim=4", "--device=cpu",
    "--threads=1", f"--trials={TRIALS}", f"--batch={BATCH}", "--sampler=random",
]  # fmt: skip
LIMIT = 120.0  # seconds until a test gives up

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="looks at Linux's /proc"
)


@contextmanager
def command(output: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The real command, in a group of its own; nothing of it outlives the block."""
    given = [sys.executable, "-m", "gcl_hard.tune", *SETTINGS, *arguments, f"--output={output}"]
    with subprocess.Popen(
        given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            below = children(process.pid)
            for pid in (process.pid, *below):
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Status and what was printed as an error, in one line."""
    _, said = process.communicate(timeout=LIMIT)
    assert "Traceback" not in said, said
    return process.returncode, " ".join(said.split())


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Processes of the workers, the first one first."""
    found = []
    for pid in sorted(children(process.pid)):
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"spawn_main" in line:
            found.append(pid)
    return found


def trials(output: Path) -> list[FrozenTrial]:
    """As they are now."""
    path = output / "MUTAG_hscl_inductive.db"
    study = optuna.load_study(study_name=path.stem, storage=f"sqlite:///{path}")
    return study.get_trials(deepcopy=False)


RUNNING = """
SELECT trials.number FROM trials JOIN trial_user_attributes AS attribute USING (trial_id)
WHERE state = 'RUNNING' AND key = 'lease' AND json_extract(value_json, '$.pid') = ?
"""


def asked(output: Path, question: str, *values: int) -> list[int]:
    """What the database says, faster than Optuna; nothing while it is being made."""
    try:
        with closing(sqlite3.connect(output / "MUTAG_hscl_inductive.db")) as base:
            return [number for (number,) in base.execute(question, values)]
    except sqlite3.OperationalError:
        return []


def running(output: Path, pid: int) -> set[int]:
    """Trials that a worker is at."""
    return {*asked(output, RUNNING, pid)}


def complete(output: Path) -> int:
    return len(asked(output, "SELECT number FROM trials WHERE state = 'COMPLETE'"))


def stopped_at_work(output: Path, pid: int) -> set[int]:
    """Halt a worker in the middle of a batch, all of which it has asked for; what it is at."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        if len(before := running(output, pid)) == BATCH:
            time.sleep(0.2)  # settings are drawn
            os.kill(pid, signal.SIGSTOP)
            if running(output, pid) == before:
                return before
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)
    raise TimeoutError("the worker was not seen at work")


def both_at_work(process: subprocess.Popen[str], output: Path) -> list[int]:
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and process.poll() is None:
        pids = workers(process)
        if len(pids) == 2 and all(running(output, pid) for pid in pids):
            return pids
        time.sleep(0.05)
    raise TimeoutError(f"not both workers were seen at work; status {process.poll()}")


def check_end(output: Path, lost: set[int], n: int = TRIALS) -> list[FrozenTrial]:
    """The asked number of trials came of it, and every lost one was done again, once."""
    found = trials(output)
    states = [trial.state for trial in found]
    assert states.count(TrialState.COMPLETE) + states.count(TrialState.PRUNED) == n
    assert TrialState.RUNNING not in states
    given_up = [trial for trial in found if trial.state == TrialState.FAIL]
    of_others = {t.number for t in given_up if t.user_attrs.get(FAILURE) != SURPLUS}
    assert of_others == lost
    again = {t.user_attrs[AGAIN]: t for t in found if AGAIN in t.user_attrs}
    assert {*again} == lost
    assert sum(AGAIN in trial.user_attrs for trial in found) == len(lost)
    for number, trial in again.items():
        assert trial.params.items() >= found[number].params.items()  # all, if it had drawn all
        assert trial.user_attrs.get(GRID) == found[number].user_attrs.get(GRID)
        assert trial.state == TrialState.COMPLETE or trial.number in lost
    done = [tuple(t.params.items()) for t in found if t.state == TrialState.COMPLETE]
    assert len(set(done)) == n
    return found


@pytest.mark.parametrize("which", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_a_killed_workers_batch_is_done_by_the_other(tmp_path: Path, which: int) -> None:
    with command(tmp_path, "--workers=2") as process:
        victim = both_at_work(process, tmp_path)[which - 1]
        lost = stopped_at_work(tmp_path, victim)
        os.kill(victim, signal.SIGKILL)
        killed = time.time()
        status, said = ended(process)
    assert status == 0
    assert said == f"note: worker {which} ended by SIGKILL; what it was at was done by others"
    assert 1 <= len(lost) <= BATCH
    found = check_end(tmp_path, lost)
    pids = {trial.user_attrs[LEASE]["pid"] for trial in found if trial.user_attrs.get(LEASE)}
    assert len(pids) == 2
    for number in lost:  # its death was seen, not the end of its lease waited for
        told = found[number].datetime_complete
        assert told is not None
        assert told.timestamp() - killed < SECONDS / 2


@pytest.mark.slow
def test_ctrl_c_stops_all_and_the_same_command_goes_on(tmp_path: Path) -> None:
    long = ["--epochs=300", f"--output={tmp_path}"]  # nobody is between two batches
    assert tune.main([*SETTINGS, *long, "--trials=2"]) == 0
    with command(tmp_path, "--workers=2", *long, "--trials=8") as process:
        pids = both_at_work(process, tmp_path)
        time.sleep(0.3)  # settings are drawn
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        status, said = ended(process)
        assert not any(map(alive, pids))
    assert status == 130
    assert said == "stopped; trials that have ended are saved, the same command continues"
    left = trials(tmp_path)
    back = {trial.number for trial in left if trial.state == TrialState.FAIL}
    assert BATCH <= len(back) <= 2 * BATCH
    assert complete(tmp_path) < 8
    assert all(trial.state != TrialState.RUNNING for trial in left)
    assert tune.main([*SETTINGS, *long, "--trials=8"]) == 0
    check_end(tmp_path, back, 8)


@pytest.mark.slow
def test_when_all_workers_are_killed_it_says_so_and_the_same_command_goes_on(
    tmp_path: Path,
) -> None:
    with command(tmp_path, "--workers=2") as process:
        pids = both_at_work(process, tmp_path)
        time.sleep(0.2)  # settings are drawn
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        status, said = ended(process)
    assert status == 2
    assert said.startswith("error: all 2 workers ended before the search (worker 1 ended by SIGK")
    lost = {trial.number for trial in trials(tmp_path) if trial.state == TrialState.RUNNING}
    assert lost
    assert tune.main([*SETTINGS, f"--output={tmp_path}"]) == 0
    check_end(tmp_path, lost)


@pytest.mark.slow
def test_workers_end_with_the_command_that_began_them(tmp_path: Path) -> None:
    with command(tmp_path, "--workers=2") as process:
        pids = both_at_work(process, tmp_path)
        process.kill()
        process.wait()
        until = time.monotonic() + LIMIT
        while any(map(alive, pids)) and time.monotonic() < until:
            time.sleep(0.1)
        assert not any(map(alive, pids))
    assert complete(tmp_path) < TRIALS
    assert tune.main([*SETTINGS, f"--output={tmp_path}"]) == 0
    assert complete(tmp_path) == TRIALS


@pytest.mark.slow
def test_a_second_command_joins_the_first(tmp_path: Path) -> None:
    """As another machine does; both end with the same study."""
    with command(tmp_path) as first, command(tmp_path) as second:
        assert [ended(process) for process in (first, second)] == [(0, "")] * 2
    found = check_end(tmp_path, set())
    assert len({trial.user_attrs[LEASE]["pid"] for trial in found if trial.user_attrs}) == 2
