"""Ranks drawn are those of SciPy, of the lines and data sets that can be ranked."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import friedmanchisquare, rankdata

from gcl_hard.experiments.reporting.figures import rank_figure
from tests.experiments.reporting.figures import MEANS, SETS, drawn, line, made, ranked


def texts(figure: Figure) -> list[str]:
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def test_ranks_are_those_of_scipy() -> None:
    figure = made(rank_figure(ranked(), "paper"))
    (axes,) = figure.axes
    matrix = np.array(list(MEANS.values())).T
    expected = dict(zip(MEANS, rankdata(-matrix, axis=1).mean(axis=0), strict=True))
    found = drawn(axes)
    assert {m: found[m][0][0] for m in MEANS} == pytest.approx(expected)
    for method, rank in expected.items():
        assert f"{method}  {rank:.2f}" in texts(figure)
    p = friedmanchisquare(*matrix.T).pvalue
    assert f"p = {p:.2g}." in texts(figure)[-1]
    # Demšar's Table 5: q = 2.569 for four methods at 5 %
    cd = 2.569 * np.sqrt(4 * 5 / (6 * 3))
    assert np.diff(found["CD"][0]) == pytest.approx(cd, abs=2e-3)
    assert f"CD = {cd:.2f}" in texts(figure)


def test_a_clique_joins_exactly_what_is_not_told_apart() -> None:
    sets = [f"S{n}" for n in range(20)]
    order = {"ucl": 90.0, "scl": 89.0, "hucl": 50.0, "hscl": 49.0}
    shown = [line(m, mean, dataset=d) for m, mean in order.items() for d in sets]
    (axes,) = made(rank_figure(shown, "paper")).axes
    bars = [list(a.get_xdata()) for a in axes.get_lines() if a.get_label() == "clique"]  # type: ignore[arg-type]
    # Ranks 1, 2, 3, 4 and CD 2.569 √(20 / 120) = 1.05: neighbours alone are joined.
    assert np.allclose(bars, [[0.97, 2.03], [1.97, 3.03], [2.97, 4.03]])


def test_one_line_a_method_is_ranked() -> None:
    several = [line("hucl", mean, beta=beta, dataset=d)
               for d in SETS for beta, mean in ((1, 10.0), (2, 99.0))]  # fmt: skip
    best = [line("hucl", 99.0, "best", dataset=d) for d in SETS]
    inside = [line("hucl", 20.0, "inside", dataset=d) for d in SETS]
    without = [x for x in ranked() if x.method != "hucl"]
    assert "hucl β=1  4.00" in texts(made(rank_figure([*without, *several, *best], "paper")))
    found = texts(made(rank_figure([*without, *several, *inside, *best], "paper")))
    assert "hucl chosen inside  4.00" in found
    assert sum(text.startswith("hucl") for text in found) == 1


def test_only_data_sets_where_trained_methods_are_finished_are_ranked() -> None:
    caption = texts(made(rank_figure(ranked(scl=(82.0, None, 49.0)), "paper")))[-1]
    assert "2 data sets (MUTAG, ENZYMES)" in caption
    assert rank_figure(ranked(scl=(82.0, None, None)), "paper") is None
    partly = [*ranked()[:-1], line("wl", 30.0, "baseline", dataset="ENZYMES", n=1)]
    figure = made(rank_figure(partly, "paper"))  # the floor is left out, not the data set
    assert "3 data sets" in texts(figure)[-1]
    assert not any(text.startswith("wl") for text in texts(figure))


def test_two_methods_or_one_data_set_have_no_ranks() -> None:
    two = [x for x in ranked() if x.method in ("ucl", "scl")]
    assert rank_figure(two, "paper") is None
    assert rank_figure([x for x in ranked() if x.dataset == "MUTAG"], "paper") is None
    assert rank_figure([], "paper") is None
