"""What is compared, under which names, and when."""

from __future__ import annotations

import math

import pytest

from gcl_hard import Annealed, Custom, Exponential, Linear, MeanThreshold, Threshold
from gcl_hard.experiments.diagnostics import (
    OWN,
    SETTINGS,
    looked_at,
    name_of,
    with_own,
)
from gcl_hard.functional.hardening import Hardening, Uniform


def test_settings_are_those_of_the_papers_figures() -> None:
    assert list(SETTINGS) == ["l=-0.25", "l=-0.05", "beta=1", "beta=2"]
    for name, tau in (("l=-0.25", math.exp(-0.5)), ("l=-0.05", math.exp(-0.1))):
        hardening = SETTINGS[name]
        assert isinstance(hardening, Threshold)
        assert Threshold.from_tau(tau, 0.5).cosine == pytest.approx(hardening.cosine, rel=1e-15)
    assert [SETTINGS["beta=1"], SETTINGS["beta=2"]] == [Exponential(1.0), Exponential(2.0)]


@pytest.mark.parametrize("every", range(7))
@pytest.mark.parametrize("epochs", [1, 2, 5, 6, 12])
def test_looks_are_at_every_so_many_epochs_and_at_the_last(every: int, epochs: int) -> None:
    due = [e for e in range(1, epochs + 1) if every and (e % every == 0 or e == epochs)]
    assert looked_at(every, epochs) == due


@pytest.mark.parametrize(
    "hardening", [*SETTINGS.values(), Uniform(), Exponential(1), Threshold(-0.05)]
)
def test_what_is_none_or_there_already_is_not_measured_twice(hardening: Threshold) -> None:
    assert with_own(hardening) == SETTINGS


@pytest.mark.parametrize(
    ("hardening", "name"),
    [
        (Exponential(10.0), "beta=10"), (Exponential(0.0), "beta=0"), (Threshold(-0.5), "l=-0.5"),
        (Exponential(10 / 3), "beta=3.33333"), (Threshold(0.0), "l=0"),
        (MeanThreshold(), "MeanThreshold"), (Custom(lambda t: t), "Custom"),
    ],
)  # fmt: skip
def test_another_hardening_is_measured_beside_under_its_name(
    hardening: Exponential, name: str
) -> None:
    assert with_own(hardening) == {**SETTINGS, OWN: hardening}
    assert OWN not in SETTINGS
    assert name_of(hardening) == name


def test_settings_are_called_what_their_hardenings_are() -> None:
    assert {name_of(hardening): hardening for hardening in SETTINGS.values()} == SETTINGS


@pytest.mark.parametrize(
    ("hardening", "name"),
    [
        (Exponential(Annealed(10.0, 5)).at(4, 5), "beta=2"),
        (Threshold(Linear(-0.6, 0.2)).at(4, 5), "l=0"),
        (Threshold(-1e-17), "l=0"),
    ],
)
def test_what_a_schedule_rounds_to_is_called_by_its_value(hardening: Hardening, name: str) -> None:
    assert name_of(hardening) == name
    assert (name in SETTINGS) == (list(with_own(hardening)) == list(SETTINGS))
