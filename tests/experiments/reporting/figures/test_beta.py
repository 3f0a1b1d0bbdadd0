"""Curves drawn are the means and intervals of each β."""

from __future__ import annotations

import numpy as np
import pytest

from gcl_hard.experiments.reporting.figures import beta_figure
from gcl_hard.reports.rows import (
    Row,
)
from tests.experiments.reporting.figures import drawn, line, made


def test_curves_are_the_means_and_intervals_of_each_beta() -> None:
    shown = [
        line("ucl", 80.0), line("scl", 81.0),
        line("hucl", 83.0, beta=10), line("hucl", 82.0, beta=1),
        line("hucl", 99.0, "best", beta=10), line("hucl", 70.0, "inside"),
    ]  # fmt: skip
    (axes,) = made(beta_figure(shown, "paper")).axes
    found = drawn(axes)
    assert found["hucl"] == ([0, 1], [82.0, 83.0])
    assert found["ucl"][1] == [80.0, 80.0]
    assert found["scl"][1] == [81.0, 81.0]
    bars = [list(a.get_ydata()) for a in axes.get_lines() if a.get_label() == "hucl interval"]  # type: ignore[arg-type]
    intervals = [x.interval for x in (shown[3], shown[2])]
    assert bars == [[i.low, i.high] for i in intervals if i]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "10"]


def test_a_missing_beta_is_left_out_and_keeps_its_place() -> None:
    shown = [line("hucl", m, beta=b) for b, m in ((1, 80.0), (2, 81.0), (10, 82.0))]
    shown += [line("hscl", m, beta=b) for b, m in ((1, 70.0), (2, None), (10, 72.0))]
    (axes,) = made(beta_figure(shown, "paper")).axes
    x, y = drawn(axes)["hscl"]
    assert y == [70.0, 72.0]
    assert np.round(x).tolist() == [0, 2]


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [line("ucl", 80.0)],
        [line("hucl", 80.0, beta=1), line("hscl", 80.0, beta=1)],
        [line("hucl", 80.0, beta=1), line("hucl", None, beta=2)],
        [line("hucl", 80.0, setting=f"β={beta} lr=0.01") for beta in (1, 2)],
    ],
)
def test_fewer_than_two_betas_are_no_curve(shown: list[Row]) -> None:
    assert beta_figure(shown, "paper") is None
