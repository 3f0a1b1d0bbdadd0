"""Figures of results show the numbers of their lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy.stats import friedmanchisquare, rankdata

from gcl_hard.losses.methods import METHODS
from gcl_hard.reports.frame import Scores
from gcl_hard.reports.result_figures import (
    FIGURES,
    beta_figure,
    frame,
    rank_figure,
    ranks,
    score_figure,
)
from gcl_hard.reports.rows import Kind, Row
from gcl_hard.reports.theme import COLOURS, GREY, colour, save
from tests.said import says

SETS = ("MUTAG", "PTC_MR", "ENZYMES")


def scores(mean: float, seeds: int = 2) -> Scores:
    return Scores(tuple(range(seeds)), ((mean - 3.0, mean, mean + 3.0),) * seeds)


def line(
    method: str, mean: float | None, kind: Kind = "fixed", *, dataset: str = "MUTAG",
    setting: str = "", beta: float | None = None, paper: float | None = None, n: int = 2,
) -> Row:  # fmt: skip
    row_scores = None if mean is None else scores(mean, n)
    setting = setting if beta is None else f"β={beta:g}"
    curve = () if mean is None else ((1, mean - 5.0), (2, mean))
    return Row(
        dataset,
        method,
        "transductive",
        kind,
        setting,
        row_scores,
        2,
        paper=paper,
        beta=beta,
        curve=curve,
    )


def drawn(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(artist.get_label()): (list(artist.get_xdata()), list(artist.get_ydata()))  # type: ignore[arg-type]
        for artist in axes.get_lines()
    }


def existing(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


# Ranks

MEANS = {"ucl": (80.0, 60.0, 50.0), "scl": (82.0, 61.0, 49.0), "hucl": (79.0, 59.0, 40.0),
         "wl": (85.0, 64.0, 30.0)}  # fmt: skip


def ranked(changed: Sequence[Row] = (), **means: Sequence[float | None]) -> list[Row]:
    expected = [
        line(method, mean, "baseline" if method == "wl" else "fixed", dataset=dataset)
        for method, row in {**MEANS, **means}.items()
        for dataset, mean in zip(SETS, row, strict=True)
    ]
    return [*expected, *changed]


# Accuracies


def test_a_frame_has_the_finished_lines() -> None:
    shown = [line("ucl", 85.0, paper=86.8), line("hucl", 84.0, "best", beta=2), line("scl", None)]
    data = frame(shown)
    plain, best = data["label"]
    assert (plain, best) == ("ucl", shown[1].entry)
    assert says(best, "hucl", "best")
    assert data["mean"].tolist() == [85.0, 84.0]
    for (_, row), shown_line in zip(data.iterrows(), shown, strict=False):
        assert shown_line.interval is not None
        assert (row["low"], row["high"]) == (shown_line.interval.low, shown_line.interval.high)
    assert data["paper"].isna().tolist() == [False, True]
    assert frame(shown[2:]).empty


def test_accuracies_and_intervals_are_those_of_the_lines() -> None:
    shown = [
        line("ucl", 85.0, paper=86.8),
        line("hucl", 84.0, beta=1),
        line("hucl", 87.0, "best", beta=2, paper=87.2),
        line("majority", 66.0, "baseline"),
        line("ucl", 60.0, dataset="PTC_MR"),
    ]
    figure = existing(score_figure(shown))
    first, second = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["MUTAG", "PTC_MR"]
    labels = [tick.get_text() for tick in first.get_yticklabels()]
    best = shown[2].entry
    assert labels == ["ucl", "hucl β=1", best, "majority"]
    points = drawn(first)
    for y, (label, shown_line) in enumerate(zip(labels, shown, strict=False)):
        interval = shown_line.interval
        assert interval is not None
        assert points[label] == ([interval.mean], [y])
        assert points[f"{label} interval"] == ([interval.low, interval.high], [y, y])
    assert points["ucl paper"] == ([86.8], [0])
    assert points[f"{best} paper"] == ([87.2], [2])
    assert len(points) == 4 * 2 + 2
    assert set(drawn(second)) == {"ucl", "ucl interval"}


def test_what_was_best_on_test_is_hollow_and_baselines_are_grey() -> None:
    shown = [line("hucl", 84.0, "inside"), line("hucl", 87.0, "best"), line("wl", 86.0, "baseline")]
    (axes,) = existing(score_figure(shown)).axes
    faces = {str(a.get_label()): to_hex(a.get_markerfacecolor()) for a in axes.get_lines()}
    inside, best = (shown_line.entry for shown_line in shown[:2])
    assert faces[inside] == COLOURS["hucl"].lower()
    assert faces[best] == "#ffffff"
    assert faces["wl"] == GREY.lower()


def test_open_lines_are_absent() -> None:
    assert score_figure([line("ucl", None)]) is None
    (axes,) = existing(score_figure([line("ucl", 80.0), line("scl", None)])).axes
    assert set(drawn(axes)) == {"ucl", "ucl interval"}


def test_six_data_sets_stand_in_two_rows() -> None:
    figure = existing(score_figure([line("ucl", 80.0, dataset=f"S{n}") for n in range(6)]))
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in shown] == [f"S{n}" for n in range(6)]
    assert len({axes.get_subplotspec().rowspan.start for axes in shown}) == 2  # type: ignore[union-attr]


# Accuracy against β


def test_curves_are_the_means_and_intervals_of_each_beta() -> None:
    shown = [
        line("ucl", 80.0), line("scl", 81.0),
        line("hucl", 83.0, beta=10), line("hucl", 82.0, beta=1),
        line("hucl", 99.0, "best", beta=10), line("hucl", 70.0, "inside"),
    ]  # fmt: skip
    (axes,) = existing(beta_figure(shown)).axes
    points = drawn(axes)
    assert points["hucl"] == ([0, 1], [82.0, 83.0])
    assert points["ucl"][1] == [80.0, 80.0]
    assert points["scl"][1] == [81.0, 81.0]
    bars = [s[:, 1].tolist() for c in axes.collections for s in c.get_segments()]  # type: ignore[attr-defined]
    intervals = [x.interval for x in (shown[3], shown[2])]
    assert bars == [[i.low, i.high] for i in intervals if i]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "10"]


def test_a_missing_beta_is_left_out_and_keeps_its_place() -> None:
    shown = [line("hucl", m, beta=b) for b, m in ((1, 80.0), (2, 81.0), (10, 82.0))]
    shown += [line("hscl", m, beta=b) for b, m in ((1, 70.0), (2, None), (10, 72.0))]
    (axes,) = existing(beta_figure(shown)).axes
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
    assert beta_figure(shown) is None


# Average ranks


def texts(figure: Figure) -> list[str]:
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def test_ranks_are_those_of_scipy() -> None:
    ranking = ranks(ranked())
    assert ranking is not None
    matrix = np.array(list(MEANS.values())).T
    expected = rankdata(-matrix, axis=1).mean(axis=0)
    assert [line.method for line in ranking.lines] == list(MEANS)
    assert ranking.ranks == pytest.approx(expected)
    assert ranking.p == pytest.approx(friedmanchisquare(*matrix.T).pvalue)
    # Demšar's Table 5: q = 2.569 for four methods at 5 %
    assert ranking.critical == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 3)), abs=2e-3)
    (axes,) = existing(rank_figure(ranked())).axes
    shown = drawn(axes)
    for method, rank in zip(MEANS, expected, strict=True):
        assert shown[method][0][0] == pytest.approx(rank)
        assert f"{method}  {rank:.2f}" in texts(axes.figure)  # type: ignore[arg-type]
    assert np.diff(shown["CD"][0]) == pytest.approx(ranking.critical)
    assert says(axes.get_xlabel(), f"p = {ranking.p:.2g}")


def test_a_clique_joins_exactly_what_is_not_told_apart() -> None:
    sets = [f"S{n}" for n in range(20)]
    order = {"ucl": 90.0, "scl": 89.0, "hucl": 50.0, "hscl": 49.0}
    shown = [line(m, mean, dataset=d) for m, mean in order.items() for d in sets]
    (axes,) = existing(rank_figure(shown)).axes
    bars = [list(a.get_xdata()) for a in axes.get_lines() if a.get_label() == "clique"]  # type: ignore[arg-type]
    # Ranks 1, 2, 3, 4 and CD 2.569 √(20 / 120) = 1.05: neighbours alone are joined.
    assert np.allclose(bars, [[0.97, 2.03], [1.97, 3.03], [2.97, 4.03]])


def test_one_line_a_method_is_ranked() -> None:
    several = [line("hucl", mean, beta=beta, dataset=d)
               for d in SETS for beta, mean in ((1, 10.0), (2, 99.0))]  # fmt: skip
    best = [line("hucl", 99.0, "best", dataset=d) for d in SETS]
    inside = [line("hucl", 20.0, "inside", dataset=d) for d in SETS]
    without = [x for x in ranked() if x.method != "hucl"]
    assert "hucl β=1  4.00" in texts(existing(rank_figure([*without, *several, *best])))
    words = texts(existing(rank_figure([*without, *several, *inside, *best])))
    assert f"{inside[0].label}  4.00" in words
    assert sum(text.startswith("hucl") for text in words) == 1


def test_only_data_sets_where_trained_methods_are_finished_are_ranked() -> None:
    ranking = ranks(ranked(scl=(82.0, None, 49.0)))
    assert ranking is not None
    assert ranking.datasets == ["MUTAG", "ENZYMES"]
    assert ranks(ranked(scl=(82.0, None, None))) is None
    partly = [*ranked()[:-1], line("wl", 30.0, "baseline", dataset="ENZYMES", n=1)]
    ranking = ranks(partly)  # the baseline is left out, not the data set
    assert ranking is not None
    assert ranking.datasets == list(SETS)
    assert [x.method for x in ranking.lines] == ["ucl", "scl", "hucl"]


def test_two_methods_or_one_data_set_have_no_ranks() -> None:
    two = [x for x in ranked() if x.method in ("ucl", "scl")]
    assert rank_figure(two) is None
    assert rank_figure([x for x in ranked() if x.dataset == "MUTAG"]) is None
    assert rank_figure([]) is None


# Files


def test_every_method_has_a_colour_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: colour(name) for name in METHODS}
    for name in ("new", "newer"):
        monkeypatch.setitem(METHODS, name, replace(METHODS["hscl"], name=name))
    colours = {name: colour(name) for name in METHODS}
    assert len({*colours.values(), GREY}) == len(METHODS) + 1
    assert colours.items() >= before.items()
    assert colour("majority") == GREY


def test_the_same_lines_give_the_same_bytes(tmp_path: Path) -> None:
    shown = ranked([line("hucl", 70.0 + b, beta=b) for b in (2, 10)])
    shown = [x for x in shown if x.method != "hucl" or x.setting] + [
        line("hucl", 60.0, "inside", dataset=d) for d in SETS
    ]
    for name, draw in FIGURES.items():
        first, second = tmp_path / f"{name}1.svg", tmp_path / f"{name}2.svg"
        save(existing(draw(shown)), first)
        save(existing(draw(shown)), second)
        assert first.read_bytes() == second.read_bytes()
        root = Xml.parse(first).getroot()
        assert root.tag.endswith("svg")
        assert float(root.attrib["width"].removesuffix("pt")) == 648  # 864 px
        assert b"<text" not in first.read_bytes()
        assert b"dc:date" not in first.read_bytes()
