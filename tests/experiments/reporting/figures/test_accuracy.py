"""Accuracies drawn are those of the lines."""

from __future__ import annotations

from matplotlib.colors import to_hex

from gcl_hard.experiments.reporting.figures import accuracy_figure
from gcl_hard.experiments.reporting.figures.drawing import COLOURS, FLOOR
from tests.experiments.reporting.figures import drawn, line, made


def test_accuracies_and_intervals_are_those_of_the_lines() -> None:
    shown = [
        line("ucl", 85.0, paper=86.8),
        line("hucl", 84.0, beta=1),
        line("hucl", 87.0, "best", beta=2, paper=87.2),
        line("majority", 66.0, "baseline"),
        line("ucl", 60.0, dataset="PTC_MR"),
    ]
    figure = made(accuracy_figure(shown, "paper"))
    first, second = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["MUTAG", "PTC_MR"]
    labels = [tick.get_text() for tick in first.get_yticklabels()]
    assert labels == ["ucl", "hucl β=1", "hucl best on test", "majority"]
    found = drawn(first)
    for y, (label, own) in enumerate(zip(labels, shown, strict=False)):
        interval = own.interval
        assert interval is not None
        assert found[label] == ([interval.mean], [y])
        assert found[f"{label} interval"] == ([interval.low, interval.high], [y, y])
    assert found["ucl paper"] == ([86.8], [0])
    assert found["hucl best on test paper"] == ([87.2], [2])
    assert len(found) == 4 * 2 + 2
    assert set(drawn(second)) == {"ucl", "ucl interval"}


def test_what_was_best_on_test_is_hollow_and_floors_are_grey() -> None:
    shown = [line("hucl", 84.0, "inside"), line("hucl", 87.0, "best"), line("wl", 86.0, "baseline")]
    (axes,) = made(accuracy_figure(shown, "paper")).axes
    faces = {str(a.get_label()): to_hex(a.get_markerfacecolor()) for a in axes.get_lines()}
    assert faces["hucl chosen inside"] == COLOURS["hucl"].lower()
    assert faces["hucl best on test"] == "#ffffff"
    assert faces["wl"] == FLOOR.lower()


def test_open_lines_and_other_protocols_are_absent() -> None:
    assert accuracy_figure([line("ucl", None)], "paper") is None
    assert accuracy_figure([line("ucl", 80.0)], "inductive") is None
    (axes,) = made(accuracy_figure([line("ucl", 80.0), line("scl", None)], "paper")).axes
    assert set(drawn(axes)) == {"ucl", "ucl interval"}


def test_six_data_sets_stand_in_two_rows() -> None:
    figure = made(accuracy_figure([line("ucl", 80.0, dataset=f"S{n}") for n in range(6)], "paper"))
    shown = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in shown] == [f"S{n}" for n in range(6)]
    assert len({axes.get_subplotspec().rowspan.start for axes in shown}) == 2  # type: ignore[union-attr]
