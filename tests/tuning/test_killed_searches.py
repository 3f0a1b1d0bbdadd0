"""A search whose driver is killed at any moment: no finished trial is lost, none counted twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, get_args

import optuna
import pytest
from optuna.pruners import NopPruner
from optuna.trial import TrialState

from gcl_hard.experiments.searches import SamplerName
from gcl_hard.tuning.options import BatchSampler, sampler
from gcl_hard.tuning.storage import (
    INTERRUPTED,
    RETRIES,
    StudyStorage,
    failure_of,
    opened,
    put_back,
    retry_orphans,
    url_of,
)
from tests.tuning.test_storage import close

TRIALS, SIZE, GRID = 9, 3, [{"beta": 1.0}, {"beta": 2.0}]


class Killed(BaseException):
    """Nothing is written after it."""


class Moments:
    """Moments at which a driver may be killed: before each write to the storage; the numbered ones
    kill it.
    """

    def __init__(self, *fatal: int) -> None:
        self.fatal, self.n = set(fatal), 0

    def __call__(self) -> None:
        self.n += 1
        if self.n in self.fatal:
            raise Killed


WRITES = ("create_new_study", "set_study_user_attr", "create_new_trial", "set_trial_param",
          "set_trial_state_values", "set_trial_user_attr", "set_trial_system_attr")  # fmt: skip


def drive(home: StudyStorage, name: SamplerName, told: dict[int, float], stop: int) -> None:
    """What a driver does: joins, repeats orphans, draws batches, stores scores."""
    study = home.join({"dataset": "MUTAG"}, GRID, sampler=sampler(name, 7), pruner=NopPruner())
    retry_orphans(study)
    while True:
        ended = len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)))
        if ended >= TRIALS:
            return
        assert isinstance(study.sampler, BatchSampler)
        study.sampler.begin()
        batch = [study.ask() for _ in range(min(SIZE, TRIALS - ended))]
        for trial in batch:
            trial.suggest_float("lr", 1e-4, 0.1, log=True)
            trial.suggest_float("beta", 0.1, 20)
        if ended == stop:  # as after Ctrl-C, once
            for trial in batch:
                put_back(study, trial)
            stop = -1
            continue
        for trial in batch:
            score = trial.params["beta"] - 100 * trial.params["lr"]
            study.tell(trial, score)
            told[trial.number] = score


def check(url: str, title: str, moment: Moments, name: SamplerName = "random") -> int:
    """Run drivers until the search is over; returns the number of moments of the first."""
    told, drivers = dict[int, float](), 0
    while True:
        home = StudyStorage(url, title, opened(url))
        for write in WRITES:
            real: Any = getattr(home.storage, write)

            def around(*arguments: Any, _real: Any = real, **more: Any) -> Any:
                moment()
                return _real(*arguments, **more)

            setattr(home.storage, write, around)
        drivers += 1
        try:
            drive(home, name, told, stop=3 if drivers == 1 else -1)
            break
        except Killed:
            close(home)
    trials = optuna.load_study(study_name=title, storage=home.storage).get_trials()
    close(home)
    complete = {t.number: t.value for t in trials if t.state == TrialState.COMPLETE}
    assert told.items() <= complete.items()  # the last may be stored and not known to be
    assert len(complete) == TRIALS
    assert {failure_of(t) for t in trials} <= {None, INTERRUPTED}
    assert {t.state for t in trials} <= {TrialState.COMPLETE, TrialState.FAIL}
    params = Counter(tuple(sorted(trials[number].params.items())) for number in complete)
    assert {*params.values()} == {1}
    grid = [trials[k].params["beta"] for k in complete if trials[k].user_attrs.get("grid")]
    assert sorted(grid) == [1.0, 2.0]
    assert len(trials[-1].system_attrs.get(RETRIES, ())) <= len(moment.fatal)
    return moment.n


@pytest.mark.parametrize("name", get_args(SamplerName))
def test_a_journal_loses_no_trial(name: SamplerName, tmp_path: Path) -> None:
    url = url_of(str(tmp_path / "s.journal"), tmp_path, "")
    last = check(url, "undisturbed", Moments(), name)
    for k in range(1, last, 17):
        check(url, f"killed at {k}", Moments(k), name)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["db", "journal"])
def test_a_file_loses_no_trial_at_any_write(suffix: str, tmp_path: Path) -> None:
    url = url_of(str(tmp_path / f"s.{suffix}"), tmp_path, "")
    last = check(url, "undisturbed", Moments())
    assert last > 50
    for k in range(1, last + 1):
        check(url, f"killed at {k}", Moments(k))
        check(url, f"killed at {k} and soon again", Moments(k, k + 2))


def test_a_batch_does_not_see_itself() -> None:
    """Its draws are the same whatever the order in which its trials end."""
    drawn = []
    for reverse in (False, True):
        study = optuna.create_study(direction="maximize", sampler=sampler("tpe", 1))
        for _ in range(3):
            assert isinstance(study.sampler, BatchSampler)
            study.sampler.begin()
            batch = [study.ask() for _ in range(6)]
            for trial in batch[:3]:
                trial.suggest_float("beta", 0.1, 20)
            if reverse:
                study.tell(batch[0], batch[0].params["beta"])
            for trial in batch[3:]:
                trial.suggest_float("beta", 0.1, 20)
            for trial in batch[1 if reverse else 0 :]:
                study.tell(trial, trial.params["beta"])
        drawn.append([trial.params for trial in study.trials])
    assert drawn[0] == drawn[1]
