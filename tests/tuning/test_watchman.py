"""Leases that are over: whose process ended, or that nobody renewed for a minute."""

from __future__ import annotations

import os
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial

from gcl_hard.tuning.lease import LEASE, SECONDS, Watchman, born
from tests.tuning import leases
from tests.tuning.leases import Clock, all_of, elsewhere, finished_process, held, linux

study, clock, watchman = leases.study, leases.clock, leases.watchman  # here pytest finds them


def running(attrs: dict[str, Any], number: int = 0) -> FrozenTrial:
    trial = create_trial(state=TrialState.RUNNING, user_attrs=attrs)
    trial.number = number
    return trial


@pytest.mark.parametrize(
    "attrs", [held(), elsewhere(), {}], ids=["this machine", "another one", "no lease yet"]
)
def test_a_lease_lasts_for_its_seconds(
    attrs: dict[str, Any], clock: Clock, watchman: Watchman
) -> None:
    for now in (0.0, 1.0, SECONDS - 1, SECONDS):
        clock.to(now)
        assert watchman.dead([running(attrs)]) == set()
    clock.to(SECONDS + 1)
    assert watchman.dead([running(attrs)]) == {0}


def test_a_minute_begins_when_one_begins_to_look(clock: Clock, watchman: Watchman) -> None:
    clock.to(1e6)
    old = [running(elsewhere(since=-1e9))]
    assert watchman.dead(old) == set()
    clock.to(1e6 + SECONDS + 1)
    assert watchman.dead(old) == {0}


def test_a_renewed_lease_begins_again(clock: Clock, watchman: Watchman) -> None:
    for k in range(20):
        clock.to(k * (SECONDS - 1))
        assert watchman.dead([running(elsewhere(since=k))]) == set()
    clock.to(19 * (SECONDS - 1) + SECONDS + 1)
    assert watchman.dead([running(elsewhere(since=19))]) == {0}


def test_whoever_was_busy_for_long_does_not_take_others_for_dead(
    clock: Clock, watchman: Watchman
) -> None:
    watchman.dead([running(elsewhere(since=0))])
    clock.to(100 * SECONDS)  # of training, in which the other renewed
    assert watchman.dead([running(elsewhere(since=99))]) == set()
    assert watchman.dead([running({LEASE: elsewhere(since=99)[LEASE]})]) == set()


def test_a_trial_that_gets_its_lease_or_another_worker_begins_again(
    clock: Clock, watchman: Watchman
) -> None:
    for k, attrs in enumerate(({}, elsewhere(), elsewhere(worker="v"))):
        clock.to(k * SECONDS)
        assert watchman.dead([running(attrs)]) == set()


def test_a_lease_is_over_when_its_process_is(watchman: Watchman) -> None:
    assert watchman.dead([running(held(pid=finished_process()))]) == {0}


@linux
def test_a_lease_is_over_when_its_number_is_another_process(watchman: Watchman) -> None:
    assert watchman.dead([running(held(born="1"))]) == {0}


def test_every_trial_is_judged_by_itself(clock: Clock, watchman: Watchman) -> None:
    def looked_at(since: float) -> list[FrozenTrial]:
        done = create_trial(state=TrialState.COMPLETE, value=1.0, user_attrs=elsewhere())
        done.number = 3
        fresh, old = running(elsewhere(since), 0), running(elsewhere(), 1)
        return [fresh, old, running(held(born="1"), 2), done]

    assert watchman.dead(looked_at(0)) == ({2} if born(os.getpid()) else set())
    clock.to(SECONDS + 1)
    assert watchman.dead(looked_at(1)) - {2} == {1}


@pytest.mark.parametrize("ahead", [-7200.0, 7200.0])
def test_machines_with_other_clocks_understand_each_other(
    study: optuna.Study, ahead: float
) -> None:
    """One writes, with a wall clock of its own; another looks on, with its own of another start."""
    theirs, mine = Clock(), Clock()
    trial, watchman = study.ask(), Watchman(mine)
    for seconds in range(0, 600, 15):  # it renews
        theirs.to(1.7e9 + ahead + seconds)
        mine.to(5 + seconds)
        trial.set_user_attr(LEASE, elsewhere(since=theirs())[LEASE])
        assert watchman.dead(all_of(study)) == set()
    mine.to(mine() + SECONDS + 1)  # it is dead
    assert watchman.dead(all_of(study)) == {0}
