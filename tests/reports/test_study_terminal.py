"""What a search found, as a terminal shows it."""

from __future__ import annotations

import pytest
from rich.console import Console

from gcl_hard.reports.study_page import (
    terminal,
)
from gcl_hard.tuning.api import SearchResult as Outcome
from tests.tuning.reporting.made import finding, outcome, searched, study, trial


def shown(made: Outcome) -> str:
    """The text, each row in a line."""
    console = Console(width=500, color_system=None)
    with console.capture() as seen:
        console.print(terminal(made), highlight=False)
    return seen.get()


def test_the_best_settings_and_the_three_numbers() -> None:
    found, inner, outer, optimism = shown(outcome()).splitlines()
    settings = "β 5, learning rate 0.02, temperature γ 0.4"
    counts = "trial 3 of 6 complete, 1 pruned, 2 failed (2 x diverged)"
    assert found.split("  ")[0] == "made"
    assert found.rstrip().endswith(f"{counts}: {settings}; 70.0 % inside, 61.0 % outside")
    assert inner.startswith("Inner score 70.0 %  ")
    assert outer.startswith("Outer score 61.0 %  ")
    assert optimism.startswith("Optimism +9.0 points  ")


def test_every_study_has_a_row() -> None:
    one = finding(study(trial(50.0, {"beta": 1.0})), outer=None, why="the search is not over")
    rows = shown(outcome(finding(searched()), one)).splitlines()
    assert rows[0].rstrip().endswith("70.0 % inside, 61.0 % outside")
    assert rows[1].rstrip().endswith("trial 0 of 1 complete, 0 pruned: β 1; 50.0 % inside")
    assert rows[3].startswith("Outer score none yet")
    assert rows[3].rstrip().endswith("There is none: the search is not over.")


def test_the_paper_s_protocol_is_labelled() -> None:
    made = outcome(finding(searched(), outer=None), protocol="paper")
    *_, score, warning = shown(made).splitlines()
    assert score.startswith("Score on the test folds 70.0 %")
    assert warning.startswith("Settings were chosen on the test folds, as the paper does")


@pytest.mark.parametrize("reason", ["RuntimeError: no file [/data/x]", "expected [batch, d]"])
def test_reasons_are_shown_as_they_are(reason: str) -> None:
    made = study(trial(50.0, {"beta": 1.0}), trial(reason, {"beta": 2.0}))
    assert f"1 failed (1 x {reason})" in shown(outcome(finding(made)))
