"""Workers on a study: how many trials come of it, and whoever else works on it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import optuna
import pytest
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.tuning.lease import FAILURE, GRID, LEASE, Lease, Watchman
from gcl_hard.tuning.part import Candidate, Score, Watch
from gcl_hard.tuning.tally import SURPLUS, Tally
from optuna import Study
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from gcl_hard.errors import DivergenceError, GclHardError, InputError, OutOfMemory
from gcl_hard.tuning import search
from gcl_hard.tuning.space import Space
from tests.tuning.studies import (
    BASE,
    COMPLETE,
    FAIL,
    PRUNED,
    SPACE,
    Event,
    Fake,
    as_of,
    asked_by_another,
    formula,
    rates,
    searching,
    states,
    study_at,
)

pytestmark = pytest.mark.usefixtures("_at_once")


# Alone


@pytest.mark.parametrize("batch", [1, 3, 8, 30])
def test_a_study_gets_the_asked_number_of_trials_in_batches(batch: int) -> None:
    study, part = study_at(), Fake()
    tally = searching(study, part, 20, batch).run()
    assert states(study) == {COMPLETE: 20}
    assert tally == Tally(20, 0, 0, Counter(), max(trial.value or 0 for trial in study.trials))
    sizes = [len(one) for one in part.batches]
    assert sizes == [batch] * (20 // batch) + [20 % batch] * bool(20 % batch)
    for candidate, trial in zip(part.seen, study.trials, strict=True):
        assert candidate.cell == GraphCell(method="hscl", lr=trial.params["lr"])
        assert trial.value == formula(candidate)


def test_workers_of_one_command_share_what_is_left() -> None:
    part = Fake()
    searching(study_at(), part, 20, 5, peers=3).run()
    sizes, left = list[int](), 20
    while left:
        sizes.append(min(5, -(-left // 3)))
        left -= sizes[-1]
    assert [len(one) for one in part.batches] == sizes


def test_the_batch_changes_no_random_trial() -> None:
    found = []
    for batch in (1, 7):
        study = study_at(seed=5)
        searching(study, Fake(), 10, batch).run()
        found.append(rates(study))
    assert found[0] == found[1]


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_going_on_asks_for_the_rest_and_repeats_nothing(url: str, sampler: str) -> None:
    first, second, third = Fake(), Fake(), Fake()
    searching(study_at(url, sampler=sampler), first, 3, 2).run()
    searching(study_at(url, sampler=sampler), second, 8, 3).run()
    searching(study_at(url, sampler=sampler), third, 8, 3).run()
    assert [len(first.seen), len(second.seen), len(third.seen)] == [3, 5, 0]
    assert len({candidate.cell for candidate in first.seen + second.seen}) == 8


def test_the_grid_comes_first_and_is_whole() -> None:
    study, part = study_at(), Fake()
    grid = (0.05, 0.002, 0.07)
    for value in grid:
        study.enqueue_trial({"lr": value}, user_attrs={GRID: True})
    searching(study, part, 5, 2).run()
    assert tuple(candidate.cell.lr for candidate in part.seen)[:3] == grid
    assert [bool(trial.user_attrs.get(GRID)) for trial in study.trials] == [True] * 3 + [False] * 2
    assert states(study) == {COMPLETE: 5}


def test_trials_that_leave_count(memory: BaseStorage) -> None:
    def odd_leave(candidate: Candidate, watch: Watch) -> Score | None:
        return Score(candidate.number, None) if candidate.number % 2 else None

    study = study_at(memory)
    tally = searching(study, Fake(odd_leave), 10, 3).run()
    assert (tally.complete, tally.pruned, tally.finished) == (5, 5, 10)
    assert states(study) == {COMPLETE: 5, PRUNED: 5}


def test_settings_of_ones_own_encoder_reach_the_candidate() -> None:
    part, space = Fake(), Space.of({"encoder.dropout": {"type": "float", "low": 0, "high": 0.5}})
    study = study_at()
    searching(study, part, 3, space=space).run()
    assert [one.encoder for one in part.seen] == [
        {"dropout": trial.params["encoder.dropout"]} for trial in study.trials
    ]


def test_progress_is_told_with_the_count_and_what_is_under_way() -> None:
    moves: list[tuple[int, float]] = []

    def on_move(tally: Tally, under_way: float) -> None:
        moves.append((tally.finished, under_way))

    searching(study_at(), Fake(), 4, 2, on_move=on_move).run()
    assert moves == [(0, 0), (0, 0.5), (0, 0.5), (2, 0), (2, 0.5), (2, 0.5), (4, 0)]


# What fails


def failing(which: Callable[[Candidate], bool], error: GclHardError) -> Event:
    return lambda candidate, watch: (
        Score(candidate.number, None, error) if which(candidate) else None
    )


@pytest.mark.parametrize("batch", [1, 4])
def test_failures_do_not_count_and_are_made_up_for(batch: int) -> None:
    study = study_at()
    part = Fake(failing(lambda one: one.number % 3 == 0, DivergenceError("nan in epoch 7")))
    tally = searching(study, part, 10, batch).run()
    assert tally.complete == 10
    assert states(study)[COMPLETE] == 10
    assert tally.failures == {"diverged": states(study)[FAIL]}
    assert states(study)[FAIL] == sum(trial.number % 3 == 0 for trial in study.trials)


@pytest.mark.parametrize("batch", [1, 4])
def test_as_many_failures_as_asked_trials_end_a_search(batch: int) -> None:
    errors = [DivergenceError("a"), OutOfMemory("b"), DivergenceError("c"), InputError("no such")]

    def event(candidate: Candidate, watch: Watch) -> Score:
        return Score(candidate.number, None, errors[candidate.number % 4])

    study = study_at()
    tally = searching(study, Fake(event), 8, batch).run()
    assert (tally.finished, tally.best) == (0, None)
    assert tally.failures == {"diverged": 4, "out of memory": 2, "no such": 2}
    assert states(study) == {FAIL: 8}


def test_settings_that_are_no_cell_fail_with_the_reason() -> None:
    space = Space.of({"lr": {"type": "float", "low": -0.1, "high": 0.1}})
    study, part = study_at(), Fake()
    tally = searching(study, part, 6, 2, space=space).run()
    assert tally.complete == 6
    assert all(value > 0 for value in rates(study))
    bad = [trial for trial in study.trials if trial.state == FAIL]
    assert bad
    for trial in bad:
        assert trial.params["lr"] <= 0
        assert trial.user_attrs[FAILURE].startswith("no cell: lr must be a finite number above 0")
    assert not {trial.number for trial in bad} & {one.number for one in part.seen}


# With others


@pytest.mark.parametrize("batches", [(1, 1), (3, 2)])
def test_two_workers_end_with_exactly_the_asked_trials(url: str, batches: tuple[int, int]) -> None:
    study_at(url)  # made before both begin
    start = threading.Barrier(2)
    parts = [Fake(lambda one, watch: time.sleep(0.02)) for _ in batches]
    tallies: list[Tally] = []

    def work(part: Fake, batch: int) -> None:
        mine = searching(study_at(url), part, 10, batch)
        start.wait()
        tallies.append(mine.run())

    threads = [
        threading.Thread(target=work, args=pair) for pair in zip(parts, batches, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    study = study_at(url)
    assert [tally.finished for tally in tallies] == [10, 10]
    found = states(study)
    assert found.pop(COMPLETE) == 10
    assert set(found) <= {FAIL}  # what both had asked for at once
    surplus = [trial for trial in study.trials if trial.state == FAIL]
    assert all(trial.user_attrs[FAILURE] == SURPLUS for trial in surplus)
    assert len(set(rates(study, COMPLETE, FAIL))) == len(study.trials)
    numbers = [sorted(one.number for one in part.seen) for part in parts]
    assert all(numbers)
    assert not set(numbers[0]) & set(numbers[1])


def test_trials_beyond_the_asked_are_given_up_and_do_not_count(memory: BaseStorage) -> None:
    """Another worker asks between this one's count and its own asking."""
    theirs: list[Trial] = []

    def on_move(tally: Tally, under_way: float) -> None:
        if not theirs:
            theirs.extend(asked_by_another(memory, 5))
        elif len(theirs) == 5 and tally.running == 5:
            for trial in theirs:
                study_at(memory).tell(trial.number, 50.0)
            theirs.append(theirs[0])

    part, study = Fake(), study_at(memory)
    tally = searching(study, part, 5, 3, on_move=on_move).run()
    assert part.seen == []
    assert tally == Tally(5, 0, 0, Counter(), 50.0)
    assert states(study) == {COMPLETE: 5, FAIL: 3}
    assert [trial.user_attrs.get(FAILURE) for trial in study.trials] == [None] * 5 + [SURPLUS] * 3


def test_of_trials_asked_at_once_the_first_are_kept(memory: BaseStorage) -> None:
    theirs: list[Trial] = []

    def on_move(tally: Tally, under_way: float) -> None:
        if not theirs:
            theirs.extend(asked_by_another(memory, 4))
        elif tally.finished == 2 and len(theirs) == 4:
            for trial in theirs:
                study_at(memory).tell(trial.number, 50.0)
            theirs.append(theirs[0])

    part, study = Fake(), study_at(memory)
    searching(study, part, 6, 3, on_move=on_move).run()
    assert [one.number for one in part.seen] == [4, 5]
    assert states(study) == {COMPLETE: 6, FAIL: 1}


# Reports


def test_reports_reach_the_pruner_and_what_it_says_the_part(memory: BaseStorage) -> None:
    class Odd(optuna.pruners.BasePruner):
        def prune(self, study: Study, trial: FrozenTrial) -> bool:
            return trial.number % 2 == 1 and trial.last_step == 2

    said: list[tuple[int, list[bool]]] = []

    def event(candidate: Candidate, watch: Watch) -> Score | None:
        goes_on = [watch.report(candidate.number, step, 10.0 * step) for step in (1, 2)]
        said.append((candidate.number, goes_on))
        return None if all(goes_on) else Score(candidate.number, None)

    study = study_at(memory)
    study.pruner = Odd()
    searching(study, Fake(event), 4, 2).run()
    assert said == [(n, [True, n % 2 == 0]) for n in range(4)]
    assert [trial.state for trial in study.trials] == [COMPLETE, PRUNED] * 2
    assert all(trial.intermediate_values == {1: 10.0, 2: 20.0} for trial in study.trials)


def test_what_is_reported_again_after_running_out_of_memory_is_no_accident() -> None:
    def event(candidate: Candidate, watch: Watch) -> None:
        assert watch.report(candidate.number, 1, 10.0)
        assert watch.report(candidate.number, 1, 10.0)

    study = study_at()
    searching(study, Fake(event), 1).run()
    assert study.trials[0].intermediate_values == {1: 10.0}


# The count


def test_a_tally_counts_what_lives_and_why_others_failed() -> None:
    study = study_at()
    ends: list[tuple[TrialState, float | None, str | None]] = [
        (COMPLETE, 60.0, None), (COMPLETE, 70.0, None), (PRUNED, None, None), (FAIL, None, "a"),
        (FAIL, None, "a"), (FAIL, None, "b"), (FAIL, None, SURPLUS), (FAIL, None, None),
    ]  # fmt: skip
    for state, value, reason in ends:
        trial = study.ask()
        SPACE.draw(trial, BASE)
        if reason is not None:
            trial.set_user_attr(FAILURE, reason)
        study.tell(trial, value, state=state)
    as_of(1, study.ask())
    as_of(0x7FFFFFFF, study.ask())
    study.enqueue_trial({"lr": 0.1})
    trials = study.get_trials()
    tally = Tally.of(trials, Watchman().dead(trials))
    # running: one whose worker lives, and one that was given back and will be tried again
    assert tally == Tally(2, 1, 2, Counter(a=2, b=1), 70.0)
    assert Tally.of(trials).running == 3
    assert tally.finished == 3
    assert [tally.over(asked) for asked in (2, 3, 4)] == [True, True, False]


def test_leases_are_held_while_trials_run_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[list[int]] = []

    class Watched(Lease):
        def __enter__(self) -> Watched:
            mine.append(self)
            return super().__enter__()

    def event(candidate: Candidate, watch: Watch) -> None:
        held.append([trial.number for trial in mine[0].trials])
        assert all(LEASE in trial.user_attrs for trial in mine[0].trials)

    mine: list[Watched] = []
    monkeypatch.setattr(search, "Lease", Watched)
    searching(study_at(), Fake(event), 3, 2).run()
    assert held == [[0, 1], [1], [2]]
    assert mine[0].trials == ()
