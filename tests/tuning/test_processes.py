"""Searches in processes of their own: killed, stopped, and several at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.pool import NullPool

from gcl_hard import tune
from gcl_hard.commands import tune as tune_command
from gcl_hard.tuning.storage import GRID, INTERRUPTED, RETRIES, failure_of
from tests.experiments.engine_tasks import is_worker, wait_for

TRIALS, ROOT = 6, Path(__file__).parents[2]
Scores = dict[tuple[tuple[str, Any], ...], float]
SETTINGS = [
    "--dataset=MUTAG", "--method=hscl", "--epochs=150", "--layers=1", "--dim=4", "--device=cpu",
    "--threads=1", f"--trials={TRIALS}", "--ensemble-size=2", "--sampler=random",
]  # fmt: skip
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")


def children(pid: int) -> list[int]:
    """Processes below one, from the nearest on."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            pids.append(int(path.parent.name))
    return pids + [below for child in pids for below in children(child)]


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Worker processes of a command."""
    return [pid for pid in children(process.pid) if is_worker(pid)]


@contextmanager
def command(*arguments: str, script: str = "", cwd: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    """The real command, in a group of its own; nothing of it outlives the block."""
    start = ["-c", script] if script else ["-m", "gcl_hard.tune"]
    with subprocess.Popen(
        [sys.executable, *start, *SETTINGS, *arguments], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            for pid in (*children(process.pid), process.pid):
                if process.poll() is None or pid != process.pid:
                    os.kill(pid, signal.SIGKILL)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Status and what was printed as an error, in one line."""
    _, errors = process.communicate()
    assert "Traceback" not in errors, errors
    return process.returncode, " ".join(errors.split())


def trials(place: Path | str, name: str = "MUTAG_hscl_inductive") -> list[FrozenTrial]:
    """As they are now; none while the tables and the study are being made."""
    if isinstance(place, Path) and not place.exists():
        return []
    storage: BaseStorage
    try:
        if isinstance(place, Path) and place.suffix == ".journal":
            storage = JournalStorage(JournalFileBackend(str(place)))
        else:
            # The driver alone makes the tables, whose version comes last: two at once would be in
            # each other's way.
            url = f"sqlite:///{place}" if isinstance(place, Path) else place
            with create_engine(url, poolclass=NullPool).connect() as opened:
                if not opened.execute(text("SELECT COUNT(*) FROM alembic_version")).scalar():
                    return []
            storage = RDBStorage(
                url,
                engine_kwargs={"poolclass": NullPool},
                skip_table_creation=True,
                skip_compatibility_check=True,
            )
        return optuna.load_study(study_name=name, storage=storage).get_trials(deepcopy=False)
    except (KeyError, StorageInternalError, OperationalError, ProgrammingError):
        return []


def check_end(place: Path | str, name: str = "MUTAG_hscl_inductive", n: int = TRIALS) -> Scores:
    """The asked number of trials came of it, the grid among them, and none is counted twice."""
    stored = trials(place, name)
    complete = [trial for trial in stored if trial.state == TrialState.COMPLETE]
    assert len(complete) == n
    assert {t.state for t in stored} <= {TrialState.COMPLETE, TrialState.FAIL}
    assert {failure_of(trial) for trial in stored} <= {None, INTERRUPTED}
    scores = {tuple(t.params.items()): float(t.value or 0.0) for t in complete}
    assert len(scores) == n
    grid = [t.params["beta"] for t in complete if t.user_attrs.get(GRID)]
    assert sorted(grid) == [1.0, 2.0, 10.0]
    return scores


def gone(pids: list[int]) -> None:
    """Wait until processes have ended."""
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def running(place: Path | str) -> int:
    return sum(t.state == TrialState.RUNNING and bool(t.params) for t in trials(place))


def complete(place: Path | str) -> int:
    return sum(trial.state == TrialState.COMPLETE for trial in trials(place))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.db", "a.journal"])
def test_after_the_driver_is_killed_the_same_command_goes_on(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    stored = [f"--storage={place}", f"--output={tmp_path}"]
    with command(*stored) as process:
        wait_for(lambda: complete(place) > 0 and running(place) > 0, process)
        process.kill()
    before = [(t.number, t.value) for t in trials(place) if t.state == TrialState.COMPLETE]
    assert 0 < len(before) < TRIALS
    assert running(place) > 0
    assert tune.main([*SETTINGS, *stored]) == 0
    check_end(place)
    after = [(t.number, t.value) for t in trials(place) if t.state == TrialState.COMPLETE]
    assert {*before} < {*after}


@pytest.mark.slow
@pytest.mark.exact
def test_a_killed_worker_costs_no_trial(tmp_path: Path) -> None:
    place = tmp_path / "a.journal"
    with command(f"--storage={place}", f"--output={tmp_path}", "--jobs=2") as process:
        wait_for(lambda: running(place) >= 2, process)
        wait_for(lambda: len(workers(process)) == 2, process)
        os.kill(max(workers(process)), signal.SIGKILL)
        assert ended(process)[0] == 0
    assert len(trials(place)) == TRIALS
    alone = tmp_path / "alone.journal"
    assert tune.main([*SETTINGS, f"--storage={alone}", f"--output={tmp_path}"]) == 0
    assert check_end(alone) == check_end(place)


@pytest.mark.slow
def test_ctrl_c_stops_the_workers_too(tmp_path: Path) -> None:
    place = tmp_path / "a.journal"
    stored = [f"--storage={place}", f"--output={tmp_path}", "--epochs=600"]
    with command(*stored, "--jobs=2") as process:
        wait_for(lambda: running(place) >= 2, process)
        below = children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        status, message = ended(process)
        assert (status, message) == (130, tune_command.STOPPED)
        gone(below)
    assert TrialState.RUNNING not in [trial.state for trial in trials(place)]


@pytest.mark.slow
def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "a.journal"
    with command(f"--storage={place}", f"--output={tmp_path}", "--jobs=2") as process:
        wait_for(lambda: running(place) >= 2, process)
        below = children(process.pid)
        process.kill()
        process.wait()
        gone(below)


QUICK_HEARTBEATS = """
import os, sys, time, warnings
from pathlib import Path
warnings.filterwarnings("ignore", message=".*torch.jit.*")  # as the command does
from gcl_hard import tune
from gcl_hard.commands import study
from gcl_hard.graphs import trials as graph_trials
from gcl_hard.tuning import storage
storage.HEARTBEAT, storage.GRACE = 1, 3
Path(f"ready-{os.getpid()}").touch()
while not Path("go").exists():
    time.sleep(0.01)
sys.exit(tune.main(sys.argv[1:]))
"""
"""Drivers that begin when all of them have been imported."""


@pytest.mark.slow
def test_two_drivers_share_a_study_on_a_server_and_one_goes_on_for_the_other(
    tmp_path: Path, postgres_url: str
) -> None:
    stored = [f"--storage={postgres_url}", f"--output={tmp_path}"]
    with (
        command(*stored, script=QUICK_HEARTBEATS, cwd=tmp_path) as first,
        command(*stored, script=QUICK_HEARTBEATS, cwd=tmp_path) as second,
    ):
        wait_for(lambda: len([*tmp_path.glob("ready-*")]) == 2, first)
        (tmp_path / "go").touch()
        wait_for(lambda: running(postgres_url) >= 3, first)  # of two groups of two
        second.kill()
        assert ended(first) == (0, "")
    shared = trials(postgres_url)
    complete = [trial for trial in shared if trial.state == TrialState.COMPLETE]
    assert len(complete) == TRIALS
    assert len({tuple(trial.params.items()) for trial in complete}) == len(complete)
    assert TrialState.RUNNING not in [trial.state for trial in shared]
    repeated = {number for trial in shared for number in trial.system_attrs.get(RETRIES, ())}
    assert repeated
    assert all(failure_of(shared[number]) == INTERRUPTED for number in repeated)
