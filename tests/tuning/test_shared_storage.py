"""Several processes at one study, on every storage."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from optuna.storages import RDBStorage
from optuna.trial import Trial, TrialState

from gcl_hard.tuning.home import Home
from gcl_hard.tuning.lease import AGAIN, DEATHS, GRID, LEASE, Lease, Watchman, take_over
from tests.tuning import storages
from tests.tuning.storages import MINE, TRIED, close, join

at, sqlite = storages.at, storages.sqlite  # here pytest finds the fixtures
ROOT = Path(__file__).parents[2]


def test_two_workers_never_get_one_trial_of_the_grid(
    at: Callable[..., Home], sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = join(at(sqlite)), join(at(sqlite))
    check, numbers = RDBStorage.check_trial_is_updatable, list[int]()
    other = threading.Thread(target=lambda: numbers.append(second.ask().number))

    def meanwhile(self: RDBStorage, trial_id: int, state: TrialState) -> None:
        """The other asks when the first has seen a waiting trial, and not yet taken it."""
        if other.ident is None:
            other.start()
            other.join(0.5)
        check(self, trial_id, state)

    monkeypatch.setattr(RDBStorage, "check_trial_is_updatable", meanwhile)
    numbers.append(first.ask().number)
    other.join()
    assert sorted(numbers) == [0, 1]


def draw(trial: Trial) -> float:
    return trial.suggest_float("beta", 0.1, 20)


def work(worker: str, *urls: str) -> None:
    """What a worker does that is killed while it has a trial."""
    for url in urls:
        study, lease = join(Home.at(url, "shared")), Lease()
        for _ in range(3):
            trial = study.ask()
            lease.take(trial)
            trial.set_user_attr("by", worker)
            beta = draw(trial)
            trial.report(beta / 2, step=10)
            lease.drop(trial)
            study.tell(trial, beta)
        left = study.ask()
        lease.take(left)
        draw(left)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Home]]:
    """A study on every storage, its grid done here, after two workers were at it and died."""
    folder = tmp_path_factory.mktemp("shared")
    urls = {"sqlite": f"sqlite:///{folder}/a.db", "journal": f"journal:{folder}/a.journal"}
    with contextlib.suppress(pytest.skip.Exception):
        urls["postgresql"] = request.getfixturevalue("postgres_url")
    homes = {kind: Home.at(url, "shared") for kind, url in urls.items()}
    for home in homes.values():
        study = join(home)
        for _ in TRIED:
            trial = study.ask()
            study.tell(trial, draw(trial))
    script = "import sys; from tests.tuning.test_shared_storage import work; work(*sys.argv[1:])"
    workers = [
        subprocess.Popen([sys.executable, "-c", script, name, *urls.values()], cwd=ROOT)
        for name in "ab"
    ]
    assert [worker.wait() for worker in workers] == [-signal.SIGKILL] * 2
    yield homes
    for home in homes.values():
        close(home)


@pytest.mark.parametrize("kind", ["sqlite", "journal", "postgresql"])
def test_workers_share_a_study_and_what_they_leave_is_taken_over(
    shared: dict[str, Home], kind: str
) -> None:
    if kind not in shared:
        pytest.skip("no PostgreSQL server")
    study = shared[kind].found(MINE)
    trials = study.trials
    assert [trial.number for trial in trials] == list(range(11))
    assert [trial.params["beta"] for trial in trials[:3]] == [1.0, 2.0, 10.0]
    assert [bool(trial.user_attrs.get(GRID)) for trial in trials] == [True] * 3 + [False] * 8
    assert len({trial.params["beta"] for trial in trials}) == 11

    done = [trial for trial in trials[3:] if trial.state == TrialState.COMPLETE]
    assert sorted(trial.user_attrs["by"] for trial in done) == list("aaabbb")
    assert all(trial.value == trial.params["beta"] for trial in done)
    assert all(trial.intermediate_values == {10: trial.params["beta"] / 2} for trial in done)

    left = [trial for trial in trials if trial.state == TrialState.RUNNING]
    assert len(left) == 2
    assert {trial.user_attrs[LEASE]["worker"] for trial in left} == {
        trial.user_attrs[LEASE]["worker"] for trial in done
    }
    watchman = Watchman()
    assert watchman.dead(trials) == {trial.number for trial in left}
    assert take_over(study, trials, watchman) == 2
    assert take_over(study, study.trials, watchman) == 0
    again = [study.ask() for _ in left]
    assert [trial.user_attrs[DEATHS] for trial in again] == [1, 1]
    assert [(trial.user_attrs[AGAIN], draw(trial)) for trial in again] == [
        (trial.number, trial.params["beta"]) for trial in left
    ]
    states = [trial.state for trial in study.trials]
    assert states.count(TrialState.FAIL) == states.count(TrialState.RUNNING) == 2
