"""Tables of a study."""

from __future__ import annotations

from gcl_hard.reports.study import best_trials, complete, grid_table, space, states
from gcl_hard.reports.text import (
    settings,
)
from gcl_hard.tuning.storage import SURPLUS, Counts
from tests.reports.made import lines_of
from tests.tuning.reporting.made import searched, study, trial


def test_the_space_names_every_setting_with_its_range() -> None:
    made = study(trial(50.0, {"lr": 0.01, "layers": 2, "readout": "sum", "encoder.hidden": 16}))
    table = space([made])
    assert lines_of(table) == [
        ["learning rate", "logarithmic", "0.0001", "0.1"],
        ["layers", "whole numbers, linear", "1", "5"],
        ["readout", "one of sum, mean", "–", "–"],
        ["encoder hidden", "one of 16, 32", "–", "–"],
    ]


def test_settings_that_not_every_trial_has_are_counted() -> None:
    made = study(trial(50.0, {"beta": 1.0}), trial(50.0, {"beta": 1.0, "class_prior": 0.1}))
    table = space([made, made])
    assert [*table.columns][-1] == "trials with it"
    assert [row[-1] for row in lines_of(table)] == ["4 of 4", "2 of 4"]


def test_the_best_five_trials_are_in_order() -> None:
    table = best_trials(searched(), searched().best_trial)
    assert [row[0] for row in lines_of(table)] == ["3", "1 (grid)", "6", "0 (grid)", "8"]
    assert [row[-1] for row in lines_of(table)] == ["70.0", "65.0", "62.0", "60.0", "58.0"]
    assert [*table.columns] == ["trial", "β", "learning rate", "temperature γ", "inner accuracy, %"]


def test_of_equal_trials_the_one_that_was_taken_comes_first() -> None:
    made = study(*(trial(50.0, {"beta": b}) for b in (1.0, 2.0, 3.0)))
    assert [row[0] for row in lines_of(best_trials(made, made.trials[1]))] == ["1", "0", "2"]


def test_the_grid_has_the_best_beside_it() -> None:
    table = grid_table(searched(), searched().best_trial, 4.0)
    assert table is not None
    assert [[row[0], *row[-3:]] for row in lines_of(table)] == [
        ["0", "60.0", "+10.0", "2.5"],
        ["1", "65.0", "+5.0", "1.2"],
        ["3, the best of all", "70.0", "–", "–"],
    ]


def test_a_best_trial_of_the_grid_is_shown_once_and_a_failed_one_by_its_state() -> None:
    made = study(
        trial(60.0, {"beta": 1.0}, grid=True), trial("diverged", {"beta": 10.0}, grid=True),
        trial(50.0, {"beta": 3.0}),
    )  # fmt: skip
    table = grid_table(made, made.best_trial, None)
    assert table is not None
    assert lines_of(table) == [
        ["0, the best of all", "1", "60.0", "–", "–"],
        ["1", "10", "failed", "–", "–"],
    ]
    assert grid_table(study(made.trials[2]), made.best_trial, None) is None


def test_states_are_counted_with_the_reasons_of_failure() -> None:
    made = study(*searched().trials, trial("out of memory", {"beta": 1.0}))
    assert lines_of(states(made)) == [
        ["complete", "", "6"],
        ["pruned", "", "1"],
        ["failed", "diverged: 2, out of memory: 1", "3"],
    ]


def test_a_trial_whose_worker_ended_is_counted_but_its_repetition_shown() -> None:
    lost = trial("", {"beta": 1.0}, grid=True)
    del lost.user_attrs["failure"]
    made = study(lost, trial(60.0, {"beta": 1.0}, grid=True))
    assert ["failed", "worker ended, tried again: 1", "1"] in lines_of(states(made))
    table = grid_table(made, made.best_trial, None)
    assert table is not None
    assert [row[0] for row in lines_of(table)] == ["1, the best of all"]


def test_a_trial_that_was_too_many_is_no_failure() -> None:
    """Two workers asked at once; the one too many is a trial of the grid, and waits again."""
    made = study(
        trial(60.0, {"beta": 2.0}), trial(SURPLUS, {"beta": 1.0}, grid=True),
        trial(61.0, {"beta": 1.0}, grid=True, again=1),
    )  # fmt: skip
    assert Counts.of(made.trials).failures == {}
    assert lines_of(states(made)) == [["complete", "", "2"]]
    table = grid_table(made, made.best_trial, None)
    assert table is not None
    assert [row[0] for row in lines_of(table)] == ["2, the best of all"]


def test_settings_that_cost_two_workers_are_shown_once_with_the_reason() -> None:
    lost = trial("", {"beta": 1.0}, grid=True)
    del lost.user_attrs["failure"]
    given_up = trial("its worker died, 2 times", {"beta": 1.0}, grid=True, again=0, deaths=1)
    made = study(lost, given_up, trial(60.0, {"beta": 2.0}))
    reasons = "worker ended, tried again: 1, its worker died, 2 times: 1"
    assert lines_of(states(made)) == [["complete", "", "1"], ["failed", reasons, "2"]]
    table = grid_table(made, made.best_trial, None)
    assert table is not None
    assert [[row[0], row[-3]] for row in lines_of(table)] == [
        ["1", "failed"], ["2, the best of all", "60.0"],
    ]  # fmt: skip


def test_complete_leaves_out_pruned_and_failed() -> None:
    assert [t.number for t in complete(searched())] == [0, 1, 2, 3, 6, 8]


def test_the_settings_of_a_trial_in_a_line() -> None:
    made = trial(50.0, {"beta": 1.2345, "layers": 3, "readout": "sum"})
    assert settings(made.params) == "β 1.23, layers 3, readout sum"
