"""Trials of dead workers: told FAIL once, and done again by others."""

from __future__ import annotations

from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from gcl_hard.tuning.lease import (
    AGAIN,
    DEATHS,
    FAILURE,
    GRACE,
    GRID,
    LEASE,
    LIVES,
    SECONDS,
    Lease,
    Watchman,
    enqueue_again,
    returning,
    take_over,
    told_by_another,
)
from tests.tuning import leases
from tests.tuning.leases import Clock, all_of, elsewhere, finished_process, held

study, clock, watchman = leases.study, leases.clock, leases.watchman  # here pytest finds them
SPACE = {"beta": FloatDistribution(0.1, 20), "readout": CategoricalDistribution(("sum", "mean"))}


def waiting(study: optuna.Study) -> list[FrozenTrial]:
    return study.get_trials(states=(TrialState.WAITING,))


def left_by_the_dead(study: optuna.Study, draw: bool = True) -> Trial:
    """A trial whose worker is no more."""
    trial = study.ask()
    trial.set_user_attr(LEASE, held(pid=finished_process(), born="1")[LEASE])
    if draw:
        trial.suggest_float("beta", 0.1, 20)
        trial.suggest_categorical("readout", ["sum", "mean"])
    return trial


# Taking over


def test_trials_of_the_dead_fail_and_are_enqueued_again(
    study: optuna.Study, watchman: Watchman
) -> None:
    dead = left_by_the_dead(study)
    assert take_over(study, all_of(study), watchman) == 1
    failed, again = all_of(study)
    assert (failed.state, again.state) == (TrialState.FAIL, TrialState.WAITING)
    assert FAILURE not in failed.user_attrs
    assert again.user_attrs == {AGAIN: 0, DEATHS: 1}
    trial = study.ask()
    trial.suggest_float("beta", 0.1, 20)
    trial.suggest_categorical("readout", ["sum", "mean"])
    assert (trial.number, trial.params) == (1, dead.params)


def test_whoever_lives_keeps_its_trials(study: optuna.Study, watchman: Watchman) -> None:
    lease = Lease()
    for _ in range(2):
        lease.take(study.ask())
    study.ask()  # nobody's yet
    done = study.ask()
    study.tell(done, 1.0)
    assert take_over(study, all_of(study), watchman) == 0
    states = [trial.state for trial in all_of(study)]
    assert states == [TrialState.RUNNING] * 3 + [TrialState.COMPLETE]


def test_trials_are_enqueued_once_however_often_one_looks(
    study: optuna.Study, clock: Clock, watchman: Watchman
) -> None:
    left_by_the_dead(study)
    before = all_of(study)
    assert take_over(study, before, watchman) == 1
    assert take_over(study, all_of(study), watchman) == 0
    assert take_over(study, before, watchman) == 0  # a look from before: another worker's
    clock.to(2 * GRACE)
    assert take_over(study, all_of(study), watchman) == 0
    clock.to(4 * GRACE)
    assert take_over(study, all_of(study), watchman) == 0
    assert len(waiting(study)) == 1


def test_two_workers_that_see_it_together_enqueue_it_once(study: optuna.Study) -> None:
    left_by_the_dead(study)
    seen = all_of(study)
    assert [take_over(study, seen, Watchman()) for _ in range(2)] == [1, 0]
    assert len(all_of(study)) == 2


def test_settings_that_cost_two_workers_are_not_tried_a_third_time(
    study: optuna.Study, clock: Clock, watchman: Watchman
) -> None:
    study.enqueue_trial({"beta": 2.0}, user_attrs={GRID: True})
    left_by_the_dead(study)
    assert take_over(study, all_of(study), watchman) == 1
    assert waiting(study)[0].user_attrs == {AGAIN: 0, GRID: True, DEATHS: 1}
    assert left_by_the_dead(study).params["beta"] == 2.0
    assert take_over(study, all_of(study), watchman) == 0
    first, second = all_of(study)
    assert FAILURE not in first.user_attrs  # tried again
    assert second.user_attrs[FAILURE] == "its worker died, 2 times"
    assert [trial.state for trial in (first, second)] == [TrialState.FAIL] * 2
    for now in (GRACE + 1, 3 * GRACE):
        clock.to(now)
        assert take_over(study, all_of(study), watchman) == 0
    assert len(all_of(study)) == LIVES == 2


def test_others_that_died_with_them_are_tried_once_more(
    study: optuna.Study, watchman: Watchman
) -> None:
    """Of a batch of three the second kills its worker whenever it is tried."""
    for beta in (1.0, 2.0, 3.0):
        study.enqueue_trial({"beta": beta})
    for _ in range(3):
        left_by_the_dead(study)
    assert take_over(study, all_of(study), watchman) == 3
    ended = []
    while waiting(study):  # one by one
        if waiting(study)[0].system_attrs["fixed_params"]["beta"] == 2.0:
            left_by_the_dead(study)
        else:
            trial = study.ask()
            ended.append(trial.suggest_float("beta", 0.1, 20))
            study.tell(trial, 50.0)
        assert take_over(study, all_of(study), watchman) == 0
    assert ended == [1.0, 3.0]
    reasons = [trial.user_attrs.get(FAILURE) for trial in all_of(study)]
    assert reasons == [None, None, None, None, "its worker died, 2 times", None]


def test_a_reason_of_a_dead_worker_s_is_not_overwritten_in_another_s_trial(
    study: optuna.Study, watchman: Watchman
) -> None:
    """Its worker was asleep and told it after all, after this one looked."""
    trial = left_by_the_dead(study)
    trial.set_user_attr(DEATHS, LIVES - 1)
    seen = all_of(study)
    study.tell(trial, 80.0)
    assert take_over(study, seen, watchman) == 0
    (stored,) = all_of(study)
    assert (stored.state, stored.value) == (TrialState.COMPLETE, 80.0)
    assert FAILURE not in stored.user_attrs


def test_the_mark_of_the_grid_is_kept(study: optuna.Study, watchman: Watchman) -> None:
    study.enqueue_trial({"beta": 2.0}, user_attrs={GRID: True})
    for _ in range(2):
        left_by_the_dead(study)
    assert take_over(study, all_of(study), watchman) == 2
    marks = {trial.user_attrs[AGAIN]: trial.user_attrs.get(GRID) for trial in waiting(study)}
    assert marks == {0: True, 1: None}


def test_fixed_settings_are_kept_that_were_not_drawn_yet(
    study: optuna.Study, watchman: Watchman
) -> None:
    study.enqueue_trial({"beta": 2.0, "readout": "mean"})
    left_by_the_dead(study, draw=False)
    study.enqueue_trial({"beta": 3.0, "readout": "sum"})
    left_by_the_dead(study, draw=False).suggest_float("beta", 0.1, 20)
    take_over(study, all_of(study), watchman)
    fixed = [trial.system_attrs["fixed_params"] for trial in waiting(study)]
    assert fixed == [{"beta": 2.0, "readout": "mean"}, {"beta": 3.0, "readout": "sum"}]


def test_a_trial_that_had_nothing_drawn_is_given_up(
    study: optuna.Study, watchman: Watchman
) -> None:
    left_by_the_dead(study, draw=False)
    assert take_over(study, all_of(study), watchman) == 0
    assert [trial.state for trial in all_of(study)] == [TrialState.FAIL]


# Told FAIL, and not enqueued yet


def ended(study: optuna.Study, **attrs: Any) -> list[FrozenTrial]:
    """A trial that was told FAIL by somebody, and enqueued by nobody."""
    trial = left_by_the_dead(study)
    for key, value in attrs.items():
        trial.set_user_attr(key, value)
    study.tell(trial, state=TrialState.FAIL)
    return all_of(study)


def test_whoever_told_it_fail_has_a_moment_to_enqueue_it(
    study: optuna.Study, clock: Clock, watchman: Watchman
) -> None:
    listed = ended(study)
    assert returning(listed) == {0}
    for now in (0.0, GRACE / 2, GRACE):
        clock.to(now)
        assert watchman.orphaned(listed) == set()
        assert take_over(study, listed, watchman) == 0


def test_one_that_nobody_enqueued_is(study: optuna.Study, clock: Clock, watchman: Watchman) -> None:
    listed = ended(study, deaths=1, grid=True)
    assert watchman.orphaned(listed) == set()
    clock.to(GRACE + 1)
    assert watchman.orphaned(listed) == {0}
    assert take_over(study, listed, watchman) == 1
    (again,) = waiting(study)
    assert again.system_attrs["fixed_params"] == listed[0].params
    assert again.user_attrs == {AGAIN: 0, DEATHS: 1, GRID: True}
    assert returning(all_of(study)) == watchman.orphaned(all_of(study)) == set()
    assert take_over(study, all_of(study), watchman) == 0


def test_a_moment_begins_when_it_was_told_not_when_it_was_seen_running(
    study: optuna.Study, clock: Clock, watchman: Watchman
) -> None:
    trial = study.ask()
    trial.suggest_float("beta", 0.1, 20)
    trial.set_user_attr(LEASE, elsewhere()[LEASE])
    watchman.dead(all_of(study))
    clock.to(SECONDS - 1)
    study.tell(trial, state=TrialState.FAIL)  # given back, and about to be enqueued
    assert watchman.orphaned(all_of(study)) == set()
    clock.to(SECONDS - 1 + GRACE + 1)
    assert watchman.orphaned(all_of(study)) == {0}


def test_one_that_failed_by_itself_is_not_to_return(
    study: optuna.Study, clock: Clock, watchman: Watchman
) -> None:
    listed = ended(study, failure="diverged")
    assert FAILURE == "failure"
    for now in (0.0, GRACE + 1):
        clock.to(now)
        assert returning(listed) == watchman.orphaned(listed) == set()
        assert take_over(study, listed, watchman) == 0


@pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.PRUNED, TrialState.WAITING])
def test_only_failed_ones_return(state: TrialState) -> None:
    value = 1.0 if state == TrialState.COMPLETE else None
    trial = create_trial(state=state, value=value, params={"beta": 1.0, "readout": "sum"},
                         distributions=SPACE)  # fmt: skip
    assert returning([trial]) == set()


def test_a_trial_that_had_nothing_drawn_does_not_return(
    study: optuna.Study, watchman: Watchman
) -> None:
    left_by_the_dead(study, draw=False)
    take_over(study, all_of(study), watchman)
    assert returning(all_of(study)) == set()


def test_what_is_given_back_is_enqueued_with_its_settings(study: optuna.Study) -> None:
    study.enqueue_trial({"beta": 2.0}, user_attrs={GRID: True, DEATHS: 1})
    left_by_the_dead(study)
    left_by_the_dead(study)
    left_by_the_dead(study, draw=False)
    grid, free, empty = all_of(study)
    assert enqueue_again(study, grid)
    assert enqueue_again(study, free, deaths=1)
    assert not enqueue_again(study, empty)
    first, second = waiting(study)
    assert first.user_attrs == {AGAIN: 0, GRID: True, DEATHS: 1}
    assert second.user_attrs == {AGAIN: 1, DEATHS: 1}
    assert first.system_attrs["fixed_params"] == grid.params
    assert second.system_attrs["fixed_params"] == free.params


def test_whoever_is_slower_finds_a_trial_told_already(study: optuna.Study) -> None:
    trial = study.ask()
    study.tell(trial, 1.0)
    reached = []
    with told_by_another():
        study.tell(trial.number, state=TrialState.FAIL)
        reached.append("after tell")
    with told_by_another():
        trial.set_user_attr(FAILURE, "late")
        reached.append("after set")
    assert (reached, all_of(study)[0].value) == ([], 1.0)
