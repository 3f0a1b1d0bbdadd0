"""How far a study is, and which of its trials is the best."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from gcl_hard.tuning.home import Home
from gcl_hard.tuning.lease import AGAIN, DEATHS, FAILURE
from gcl_hard.tuning.storage import url_of
from gcl_hard.tuning.tally import SURPLUS, Tally, best_of

COMPLETE, PRUNED, RUNNING, FAIL, WAITING = (
    TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING, TrialState.FAIL,
    TrialState.WAITING,
)  # fmt: skip


def trial(state: TrialState, value: float | None = None, **attrs: Any) -> FrozenTrial:
    """One with settings drawn."""
    beta: dict[str, Any] = {"params": {"beta": 1.0}}
    beta["distributions"] = {"beta": FloatDistribution(0.1, 20)}
    if state == WAITING:
        beta = {"system_attrs": {"fixed_params": {"beta": 1.0}}}
    return create_trial(state=state, value=value, user_attrs=attrs, **beta)


def numbered(*trials: FrozenTrial) -> list[FrozenTrial]:
    for number, one in enumerate(trials):
        one.number = number
    return list(trials)


def test_an_empty_study_is_at_its_beginning() -> None:
    tally = Tally.of([])
    assert (tally.complete, tally.pruned, tally.running, tally.best) == (0, 0, 0, None)
    assert tally.failures == Counter()
    assert not tally.over(1)


def test_states_are_counted() -> None:
    tally = Tally.of(numbered(
        *(trial(COMPLETE, value) for value in (50.0, 70.0, 60.0)),
        *(trial(PRUNED) for _ in range(2)), trial(RUNNING), trial(WAITING),
        *(trial(FAIL, failure=reason) for reason in ("diverged", "out of memory", "diverged")),
    ))  # fmt: skip
    assert (tally.complete, tally.pruned, tally.running, tally.finished) == (3, 2, 1, 5)
    assert tally.failures == {"diverged": 2, "out of memory": 1}
    assert tally.best == 70.0
    assert FAILURE == "failure"


def test_the_score_of_a_pruned_trial_is_none() -> None:
    """A database keeps what it reported last as its value."""
    tally = Tally.of(numbered(trial(PRUNED, 90.0), trial(COMPLETE, 50.0)))
    assert (tally.best, tally.finished) == (50.0, 2)
    assert Tally.of(numbered(trial(PRUNED, 90.0))).best is None


def test_trials_of_the_dead_are_not_under_way() -> None:
    trials = numbered(trial(RUNNING), trial(RUNNING), trial(COMPLETE, 50.0))
    assert Tally.of(trials).running == 2
    assert Tally.of(trials, {1}).running == 1
    assert Tally.of(trials, {0, 1}).running == 0


def test_what_is_about_to_be_tried_again_is_under_way_until_it_waits() -> None:
    lost = trial(FAIL)
    assert Tally.of(numbered(lost)).running == 1
    assert Tally.of(numbered(lost, trial(WAITING, again=0))).running == 0
    assert Tally.of(numbered(lost, trial(RUNNING, again=0))).running == 1
    done = Tally.of(numbered(lost, trial(COMPLETE, 50.0, again=0)))
    assert (done.running, done.finished) == (0, 1)
    assert done.failures == Counter()  # it is not one of those that failed
    assert AGAIN == "again"


def test_nobody_waits_for_one_that_had_nothing_drawn() -> None:
    assert Tally.of(numbered(create_trial(state=FAIL))).running == 0


def test_one_that_was_too_many_is_no_failure_and_does_not_return() -> None:
    tally = Tally.of(numbered(trial(FAIL, failure=SURPLUS), trial(FAIL, failure="diverged")))
    assert (tally.running, tally.failures) == (0, {"diverged": 1})


def test_settings_that_were_given_up_are_a_failure() -> None:
    reason = "its worker died, 2 times"
    trials = numbered(trial(FAIL), trial(FAIL, failure=reason, again=0, deaths=1))
    tally = Tally.of(trials)
    assert (tally.running, tally.failures) == (0, {reason: 1})
    assert DEATHS == "deaths"


@pytest.mark.parametrize(
    ("complete", "pruned", "failed", "over"),
    [(3, 0, 0, False), (4, 0, 0, True), (1, 3, 0, True), (0, 4, 0, True), (3, 0, 3, False),
     (0, 0, 3, False), (0, 0, 4, True), (2, 1, 5, True), (5, 0, 0, True)],
)  # fmt: skip
def test_a_study_is_over_with_its_trials_or_with_as_many_failures(
    complete: int, pruned: int, failed: int, over: bool
) -> None:
    trials = [trial(COMPLETE, 50.0) for _ in range(complete)]
    trials += [trial(PRUNED) for _ in range(pruned)]
    trials += [trial(FAIL, failure="diverged") for _ in range(failed)]
    trials += [trial(FAIL, failure=SURPLUS) for _ in range(9)]
    assert Tally.of(numbered(*trials)).over(4) is over


# The best


def test_of_equal_trials_the_oldest_is_the_best() -> None:
    trials = numbered(*(trial(COMPLETE, value) for value in (60.0, 70.0, 70.0, 70.0)))
    for order in itertools.permutations(trials):
        assert best_of(order) is trials[1]


def test_only_trials_with_a_score_are_the_best() -> None:
    trials = numbered(
        trial(RUNNING), trial(FAIL, failure="diverged"), trial(PRUNED, 99.0), trial(WAITING)
    )
    assert best_of(trials) is best_of([]) is None
    scored = trial(COMPLETE, 0.0)
    assert best_of([*trials, scored]) is scored


@pytest.mark.parametrize("name", ["a.db", "a.journal"])
def test_every_storage_has_the_same_best(tmp_path: Any, name: str) -> None:
    home = Home.at(url_of(str(tmp_path / name), tmp_path, ""), "study")
    study = optuna.create_study(storage=home.storage, study_name="study", direction="maximize")
    for value in (50.0, 70.0, 70.0, 60.0):
        study.add_trial(trial(COMPLETE, value))
    best = best_of(study.get_trials(deepcopy=False))
    assert best is not None
    assert (best.number, best.value) == (1, 70.0)
    if name == "a.db":
        home.storage._backend.engine.dispose()  # type: ignore[attr-defined]
