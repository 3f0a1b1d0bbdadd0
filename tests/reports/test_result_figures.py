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
from gcl_hard.reports.result_figures import FIGURES, beta_figure, rank_figure, ranks, score_figure
from gcl_hard.reports.rows import Kind, Row
from gcl_hard.reports.theme import COLOURS, GREY, colour, save

SETS = ("MUTAG", "PTC_MR", "ENZYMES")


def line(
    method: str, mean: float | None, kind: Kind = "fixed", *, dataset: str = "MUTAG",
    beta: float | None = None, paper: float | None = None, n: int = 2,
) -> Row:  # fmt: skip
    folds = None if mean is None else (mean - 3.0, mean, mean + 3.0)
    return Row(
        dataset, method, "transductive", kind, "" if beta is None else f"β={beta:g}",
        None if folds is None else Scores(tuple(range(n)), (folds,) * n), 2, paper=paper,
        beta=beta, curve=() if mean is None else ((1, mean - 5.0), (2, mean)),
    )  # fmt: skip


def drawn(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(artist.get_label()): (list(artist.get_xdata()), list(artist.get_ydata()))  # type: ignore[arg-type]
        for artist in axes.get_lines()
    }


def existing(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def test_accuracies_and_intervals_are_those_of_the_finished_lines() -> None:
    lines = [
        line("ucl", 85.0, paper=86.8), line("hucl", 84.0, beta=1),
        line("hucl", 87.0, "best", beta=2, paper=87.2), line("majority", 66.0, "baseline"),
        line("ucl", 60.0, dataset="PTC_MR"), line("scl", None),
    ]  # fmt: skip
    first, second = existing(score_figure(lines)).axes
    assert [axes.get_title() for axes in (first, second)] == ["MUTAG", "PTC_MR"]
    labels = [tick.get_text() for tick in first.get_yticklabels()]
    assert labels == [row.entry for row in lines[:4]]
    points = drawn(first)
    for y, row in enumerate(lines[:4]):
        assert row.interval is not None
        assert points[row.entry] == ([row.interval.mean], [y])
        ends = [row.interval.low, row.interval.high]
        assert points[f"{row.entry} interval"] == (ends, [y, y])
    assert ([86.8, 87.2], [0, 2]) in points.values()  # the paper's
    assert {"ucl", "ucl interval"} < {*drawn(second)}
    faces = {str(a.get_label()): to_hex(a.get_markerfacecolor()) for a in first.get_lines()}
    assert [faces[row.entry] for row in lines[1:4]] == [
        COLOURS["hucl"].lower(), "#ffffff", GREY.lower()  # no estimate is hollow
    ]  # fmt: skip
    assert score_figure([line("ucl", None)]) is None


def test_curves_are_the_means_and_intervals_of_each_beta() -> None:
    lines = [
        line("ucl", 80.0), line("scl", 81.0), line("hucl", 84.0, beta=10),
        line("hucl", None, beta=2), line("hucl", 82.0, beta=1), line("hscl", 70.0, beta=2),
        line("hucl", 99.0, "best", beta=10), line("hucl", 70.0, "inside"),
    ]  # fmt: skip
    (axes,) = existing(beta_figure(lines)).axes
    points = drawn(axes)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "10"]
    assert (np.round(points["hucl"][0]).tolist(), points["hucl"][1]) == ([0, 2], [82.0, 84.0])
    assert (points["ucl"][1], points["scl"][1]) == ([80.0, 80.0], [81.0, 81.0])
    bars = [s[:, 1].tolist() for c in axes.collections for s in c.get_segments()]  # type: ignore[attr-defined]
    assert bars == [[i.low, i.high] for k in (4, 2, 5) if (i := lines[k].interval)]
    for few in ([], lines[:2], [lines[4], lines[3]], [line("hucl", 80.0, beta=1)] * 2):
        assert beta_figure(few) is None


# Average ranks

MEANS = {"ucl": (80.0, 60.0, 50.0), "scl": (82.0, 61.0, 49.0), "hucl": (79.0, 59.0, 40.0),
         "wl": (85.0, 64.0, 30.0)}  # fmt: skip


def ranked(**means: Sequence[float | None]) -> list[Row]:
    return [
        line(method, mean, "baseline" if method == "wl" else "fixed", dataset=dataset)
        for method, row in {**MEANS, **means}.items()
        for dataset, mean in zip(SETS, row, strict=True)
    ]


def texts(figure: Figure | None) -> list[str]:
    (axes,) = existing(figure).axes
    return [text.get_text() for text in axes.get_yticklabels()]


def test_ranks_are_those_of_scipy() -> None:
    ranking = ranks(ranked())
    assert ranking is not None
    matrix = np.array(list(MEANS.values())).T
    expected = rankdata(-matrix, axis=1).mean(axis=0)
    assert [row.method for row in ranking.lines] == list(MEANS)
    assert ranking.ranks == pytest.approx(expected)
    assert ranking.p == pytest.approx(friedmanchisquare(*matrix.T).pvalue)
    # Demšar's Table 5: q = 2.569 for four methods at 5 %
    assert ranking.critical == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 3)), abs=2e-3)
    shown = drawn(existing(rank_figure(ranked())).axes[0])
    assert [shown[method][0][0] for method in MEANS] == pytest.approx(expected)
    assert np.diff(shown["CD"][0]) == pytest.approx(ranking.critical)


def test_a_clique_joins_exactly_what_is_not_told_apart() -> None:
    order = {"ucl": 90.0, "scl": 89.0, "hucl": 50.0, "hscl": 49.0}
    lines = [line(m, mean, dataset=f"S{n}") for m, mean in order.items() for n in range(20)]
    (axes,) = existing(rank_figure(lines)).axes
    bars = [list(a.get_xdata()) for a in axes.get_lines() if a.get_label() == "clique"]  # type: ignore[arg-type]
    # Ranks 1, 2, 3, 4 and CD 2.569 √(20 / 120) = 1.05: neighbours alone are joined.
    assert np.allclose(bars, [[0.97, 2.03], [1.97, 3.03], [2.97, 4.03]])


def test_one_line_a_method_is_ranked() -> None:
    several = [line("hucl", mean, beta=beta, dataset=d)
               for d in SETS for beta, mean in ((1, 10.0), (2, 99.0))]  # fmt: skip
    inside = [line("hucl", 20.0, "inside", dataset=d) for d in SETS]
    without = [x for x in ranked() if x.method != "hucl"]
    assert "hucl β=1  4.00" in texts(rank_figure([*without, *several]))
    shown = texts(rank_figure([*without, *several, *inside]))
    assert [text for text in shown if "hucl" in text] == [f"{inside[0].label}  4.00"]


def test_only_data_sets_where_trained_methods_are_finished_are_ranked() -> None:
    ranking = ranks(ranked(scl=(82.0, None, 49.0)))
    assert ranking is not None
    assert ranking.datasets == ["MUTAG", "ENZYMES"]
    partly = [*ranked()[:-1], line("wl", 30.0, "baseline", dataset="ENZYMES", n=1)]
    ranking = ranks(partly)  # the baseline is left out, not the data set
    assert ranking is not None
    assert (ranking.datasets, len(ranking.lines)) == ([*SETS], 3)
    for few in (ranked(scl=(82.0, None, None)), ranked()[:6], ranked()[::3], []):
        assert rank_figure(few) is None


# Style


def test_every_method_has_a_colour_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: colour(name) for name in METHODS}
    for name in ("new", "newer"):
        monkeypatch.setitem(METHODS, name, replace(METHODS["hscl"], name=name))
    colours = {name: colour(name) for name in METHODS}
    assert len({*colours.values(), GREY}) == len(METHODS) + 1
    assert colours.items() >= before.items()


@pytest.mark.parametrize("name", ["accuracy", "ranks", "beta", "curve"])
def test_the_same_lines_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    lines = [*ranked(), *(line("hscl", 70.0, beta=b, dataset=d) for b in (1, 2) for d in SETS)]
    for copy in ("a", "b"):
        save(existing(FIGURES[name](lines)), tmp_path / f"{copy}.svg")
    content = (tmp_path / "a.svg").read_bytes()
    assert content == (tmp_path / "b.svg").read_bytes()
    assert float(Xml.fromstring(content).attrib["width"].removesuffix("pt")) == 648  # 864 px
    assert b"dc:date" not in content
