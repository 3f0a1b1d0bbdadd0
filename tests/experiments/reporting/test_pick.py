"""Which lines are chosen, of lines made by hand."""

from __future__ import annotations

from gcl_hard.experiments.reporting.pick import best_trained, grid
from gcl_hard.experiments.results import Scores
from tests.experiments.reporting import BEST, OPEN, line


def test_what_was_best_on_test_is_one_row_whatever_was_best() -> None:
    other = line(kind="best", setting="β=10", dataset="MUTAG")
    found = grid([BEST, other, line(setting="β=2")])
    assert found["hscl best on test"] == {"PTC_MR": BEST, "MUTAG": other}
    assert list(found) == ["hscl best on test", "hscl β=2"]


def test_the_best_trained_line_is_whole_no_floor_and_was_not_chosen_on_test() -> None:
    high = Scores((0,), ((99.0, 99.0),))
    low = line("ucl", scores=Scores((0,), ((50.0, 50.0),)), expected=1)
    inside = line(kind="inside")
    shown = [low, inside, OPEN, line(kind="best", scores=high, expected=1)]
    shown += [line("wl", "floor", scores=high, expected=1), line("scl", scores=high, expected=2)]
    assert best_trained(shown) is inside
    assert best_trained([OPEN]) is None
