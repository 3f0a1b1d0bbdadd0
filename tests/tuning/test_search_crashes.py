"""Workers that are stopped or die: whatever they were at is done again, once."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from optuna.storages import BaseStorage
from optuna.trial import Trial

from gcl_hard.errors import DivergenceError
from gcl_hard.tuning import lease
from gcl_hard.tuning.lease import AGAIN, FAILURE, GRID
from gcl_hard.tuning.part import Candidate, Score, Watch
from gcl_hard.tuning.space import Base, Space
from gcl_hard.tuning.tally import Tally
from tests.tuning.studies import (
    COMPLETE,
    FAIL,
    SPACE,
    WAITING,
    Fake,
    Place,
    as_of,
    asked_by_another,
    rates,
    searching,
    states,
    study_at,
)

pytestmark = pytest.mark.usefixtures("_at_once")


# Stopped


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_a_stopped_worker_gives_its_trials_back_and_the_next_one_does_them(
    memory: BaseStorage, stop: type[BaseException]
) -> None:
    def stopped(candidate: Candidate, watch: Watch) -> None:
        if candidate.number == 6:
            raise stop

    undisturbed = study_at()
    searching(undisturbed, Fake(), 10, 5).run()
    study = study_at(memory)
    for value in rates(undisturbed)[:7]:
        study.enqueue_trial({"lr": value}, user_attrs={GRID: True})
    with pytest.raises(stop):
        searching(study, Fake(stopped), 10, 5).run()
    assert states(study) == {COMPLETE: 6, FAIL: 4, WAITING: 4}
    back = {trial.user_attrs[AGAIN]: trial for trial in study.trials if trial.state == WAITING}
    assert sorted(back) == [6, 7, 8, 9]
    for number, trial in back.items():
        assert trial.system_attrs["fixed_params"] == study.trials[number].params
        assert trial.user_attrs.get(GRID) == study.trials[number].user_attrs.get(GRID)
        assert FAILURE not in study.trials[number].user_attrs
    again = study_at(memory)
    assert searching(again, Fake(), 10, 5).run().finished == 10
    assert sorted(rates(again)) == sorted(rates(undisturbed))
    assert states(again) == {COMPLETE: 10, FAIL: 4}


class Interrupted(Space):
    """A space at whose second setting Ctrl-C comes."""

    def draw(self, trial: Trial, base: Base) -> dict[str, Any]:
        trial.suggest_float("lr", 0.001, 0.1, log=True)
        raise KeyboardInterrupt


class TooSoon(Space):
    """A space before whose first setting Ctrl-C comes."""

    def draw(self, trial: Trial, base: Base) -> dict[str, Any]:
        raise KeyboardInterrupt


def test_a_trial_that_was_stopped_before_it_had_settings_is_made_up_for(
    memory: BaseStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "GRACE", 0.05)
    with pytest.raises(KeyboardInterrupt):
        searching(study_at(memory), Fake(), 2, 2, space=TooSoon(SPACE.dimensions)).run()
    until = time.monotonic() + 2

    def on_move(tally: Tally, under_way: float) -> None:
        assert time.monotonic() < until, tally

    study = study_at(memory)
    assert searching(study, Fake(), 2, 2, on_move=on_move).run().complete == 2
    assert states(study) == {COMPLETE: 2, FAIL: 1}


def test_settings_of_the_grid_are_given_back_whole_before_all_are_drawn(
    memory: BaseStorage,
) -> None:
    study, grid = study_at(memory), {"lr": 0.05, "beta": 2.0}
    study.enqueue_trial(grid, user_attrs={GRID: True})
    with pytest.raises(KeyboardInterrupt):
        searching(study, Fake(), 1, space=Interrupted(SPACE.dimensions)).run()
    (again,) = [trial for trial in study.trials if trial.state == WAITING]
    assert again.system_attrs["fixed_params"] == grid


# Dead, or asleep for too long


def test_it_waits_for_others_and_does_what_they_leave(url: str) -> None:
    """Who has the last trials dies: they are enqueued again, with their settings."""
    study, part = study_at(url), Fake()
    theirs = asked_by_another(url, 2)
    waited = 0

    def on_move(tally: Tally, under_way: float) -> None:
        nonlocal waited
        if tally.finished == 3 and tally.running == 2:
            waited += 1
        if waited == 4 and tally.running:
            for trial in theirs:
                as_of(0x7FFFFFFF, trial)  # no such process

    tally = searching(study, part, 5, 2, on_move=on_move).run()
    assert waited == 4
    assert tally.finished == 5
    assert states(study) == {COMPLETE: 5, FAIL: 2}
    again = {t.user_attrs[AGAIN]: t.params for t in study.trials if AGAIN in t.user_attrs}
    assert again == {trial.number: trial.params for trial in theirs}


def taken_over(number: int, url: Place) -> None:
    """As another worker does with a trial whose lease has ended: this one slept for too long."""
    study = study_at(url)
    study.tell(number, state=FAIL)
    lease.enqueue_again(study, study.trials[number])


ENDS = {
    "complete": None,
    "pruned": Score(1, None),
    "failed": Score(1, None, DivergenceError("nan")),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_trial_that_another_has_taken_over_is_left_to_it(memory: BaseStorage, end: str) -> None:
    def event(candidate: Candidate, watch: Watch) -> Score | None:
        if candidate.number != 1:
            return None
        taken_over(1, memory)
        assert not watch.report(1, 1, 50.0)  # there is nothing to be gained
        return ENDS[end]

    study, part = study_at(memory), Fake(event)
    tally = searching(study, part, 4, 2).run()
    assert tally == Tally(4, 0, 0, Counter(), max(trial.value or 0 for trial in study.trials))
    assert states(study) == {COMPLETE: 4, FAIL: 1}
    assert len(set(rates(study))) == 4
    assert study.trials[1].params["lr"] in rates(study)


def test_what_another_has_taken_over_is_not_given_back_a_second_time(memory: BaseStorage) -> None:
    def event(candidate: Candidate, watch: Watch) -> None:
        taken_over(0, memory)
        raise KeyboardInterrupt

    study = study_at(memory)
    with pytest.raises(KeyboardInterrupt):
        searching(study, Fake(event), 2, 2).run()
    waiting = [trial.user_attrs[AGAIN] for trial in study.trials if trial.state == WAITING]
    assert sorted(waiting) == [0, 1]
