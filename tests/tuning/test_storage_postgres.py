"""Searches on PostgreSQL: a real server, and several processes on one study."""

from __future__ import annotations

import subprocess
import sys

import optuna
import pytest
from optuna.storages import RDBStorage

from tests.tuning import postgres

postgres_url = postgres.postgres_url  # here pytest finds the fixture

WORKER = """
import sys
import optuna

url, name, worker = sys.argv[1:]
study = optuna.load_study(study_name=name, storage=url)
for _ in range(4):
    trial = study.ask()
    trial.set_user_attr("worker", worker)
    x = trial.suggest_float("x", -1, 1)
    trial.report(abs(x), step=1)
    study.tell(trial, x**2)
"""


def test_two_processes_share_one_study(postgres_url):
    storage = RDBStorage(postgres_url)
    try:
        optuna.create_study(study_name="shared", storage=storage)
        command = [sys.executable, "-c", WORKER, postgres_url, "shared"]
        workers = [subprocess.Popen([*command, worker]) for worker in "ab"]
        assert [worker.wait() for worker in workers] == [0, 0]
        trials = optuna.load_study(study_name="shared", storage=storage).trials
    finally:
        storage.remove_session()
        storage.engine.dispose()
    assert [trial.number for trial in trials] == list(range(8))
    assert sorted(trial.user_attrs["worker"] for trial in trials) == list("aaaabbbb")
    for trial in trials:
        assert trial.value == trial.params["x"] ** 2
        assert trial.intermediate_values == {1: abs(trial.params["x"])}


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_a_missing_server_is_a_skip_but_a_failure_on_ci(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    with pytest.raises(outcome, match="apt-get install postgresql"):
        postgres.programs_or_skip()
