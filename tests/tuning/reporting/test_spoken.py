"""A study in people's words, and what of it can be drawn."""

from __future__ import annotations

import logging
import math

import optuna
import pytest

from gcl_hard.reports.search_figures import importances, plane, quiet
from gcl_hard.reports.search_figures import readable as spoken
from tests.tuning.reporting.made import searched, study, trial


def test_the_copy_has_everything_but_names_and_workers() -> None:
    original, copy = searched(), spoken(searched())
    for old, new in zip(original.trials, copy.trials, strict=True):
        assert (old.number, old.state, old.value) == (new.number, new.state, new.value)
        assert old.intermediate_values == new.intermediate_values
        assert (old.datetime_start, old.datetime_complete) == (
            new.datetime_start, new.datetime_complete,
        )  # fmt: skip
        assert list(new.params) == ["β", "learning rate", "temperature γ"]
        assert list(new.params.values()) == list(old.params.values())
        assert list(new.distributions.values()) == list(old.distributions.values())
    assert [t.user_attrs for t in copy.trials] == [{"grid": True}] * 2 + [{}] * 7
    assert copy.best_trial.number == 3
    assert "beta" in original.trials[0].params


def test_a_value_outside_its_range_is_copied_too() -> None:
    assert spoken(study(trial(50.0, {"beta": 99.0}))).trials[0].params == {"β": 99.0}


def test_importances_find_the_setting_that_decides() -> None:
    rows = [(b / 2, 0.0001 * 1.6**k) for k, b in enumerate([1, 9, 3, 12, 5, 2, 8, 4, 11, 7, 6, 10])]
    made = study(*(trial(70 - abs(b - 2.5), {"beta": b, "lr": lr}) for b, lr in rows))
    found = importances(made)
    assert next(iter(found)) == "beta"
    assert math.isclose(sum(found.values()), 1)


@pytest.mark.parametrize(
    "made",
    [
        study(),
        study(trial(50.0, {"beta": 1.0, "lr": 0.01})),
        study(*(trial(50.0, {"beta": b, "lr": 0.01}) for b in (1.0, 2.0, 3.0))),
        study(*(trial(50 + b, {"beta": b}) for b in (1.0, 2.0, 3.0))),
        study(trial(None, {"beta": 1.0}), trial("diverged", {"lr": 0.01})),
    ],
    ids=["no trial", "one trial", "equal scores", "one setting", "no score"],
)
def test_importances_are_empty_where_nothing_is_told_apart(made: optuna.Study) -> None:
    assert importances(made) == {}


def test_a_contour_is_of_beta_and_temperature_if_it_can() -> None:
    assert plane(spoken(searched())) == ("temperature γ", "β")


def test_a_contour_needs_two_numbers_that_vary_together() -> None:
    beta = study(*(trial(50 + b, {"beta": b, "readout": "sum"}) for b in (1.0, 2.0, 3.0)))
    assert plane(beta) is None
    apart = study(
        trial(50.0, {"beta": 1.0}), trial(51.0, {"beta": 2.0}), trial(52.0, {"lr": 0.01}),
        trial(53.0, {"lr": 0.02}),
    )  # fmt: skip
    assert plane(apart) is None
    fixed = study(*(trial(50 + b, {"beta": b, "lr": 0.01}) for b in (1.0, 2.0, 3.0)))
    assert plane(fixed) is None
    equal = study(*(trial(50.0, {"beta": b, "lr": b / 100}) for b in (1.0, 2.0, 3.0)))
    assert plane(equal) is None


def test_a_contour_passes_over_settings_that_never_meet() -> None:
    """β and the temperature vary, but the trials with both have one β."""
    made = spoken(study(
        *(trial(50 + t, {"beta": 1.0, "temperature": t, "layers": int(2 * t)}) for t in (0.5, 1.5)),
        *(trial(50 + b, {"beta": b}) for b in (2.0, 3.0)),
    ))  # fmt: skip
    assert {*(plane(made) or ())} == {"temperature γ", "layers"}


def test_quiet_gives_the_log_back(caplog: pytest.LogCaptureFixture) -> None:
    before = optuna.logging.get_verbosity()
    with pytest.raises(ZeroDivisionError), quiet():
        1 / (optuna.logging.get_verbosity() - logging.ERROR)
    assert optuna.logging.get_verbosity() == before
    spoken(searched())
    assert caplog.text == ""
