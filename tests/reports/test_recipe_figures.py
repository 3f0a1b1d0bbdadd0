"""The picture of a search: every setting where its numbers are."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gcl_hard.experiments.ablations import Chosen, said
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.reports.recipe_page import search_page, write_search
from gcl_hard.reports.result_figures import HARMS, HELPS, NEITHER, forest
from tests.experiments.made_search import chosen

ABLATIONS = {
    "rate": [{"lr": 0.1}, {"lr": 0.2}],
    "width": [{"dim": 8}],
    "length": [{"epochs": 60}],
}
GAINED = {("lr", 0.1): (-3.0, 0.5), ("lr", 0.2): (0.4, 4.0), ("dim", 8): (2.0, 0.5),
          ("epochs", 60): (1.0, 0.5)}  # fmt: skip
"""Points on both sets, and spread."""


def effect(config: GraphConfig) -> tuple[float, float]:
    if config.is_baseline:
        return (7.0 if config.dim == 8 else 0.0), 0.0
    found = [v for (name, value), v in GAINED.items() if getattr(config, name) == value]
    return sum(p for p, _ in found), sum(s for _, s in found)


@pytest.fixture(scope="module")
def searched() -> Chosen:
    return chosen(ABLATIONS, effect)[0]


def drawn(found: Chosen) -> Axes:
    figure = forest(found)
    assert figure is not None
    (axes,) = figure.axes
    return axes


def lines(axes: Axes, marker: str) -> list[Line2D]:
    """Those with a marker; "None" for intervals."""
    long = [line for line in axes.get_lines() if line.get_marker() == marker]
    return [line for line in long if line.get_transform() == axes.transData]


def test_every_setting_has_its_gain_and_interval_best_first(searched: Chosen) -> None:
    axes = drawn(searched)
    joined = searched.joined[-1]
    order = [joined, *sorted(searched.alternatives, key=lambda one: one.gain.mean, reverse=True)]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [f"{said(joined.settings)} (joined)", *(said(o.settings) for o in order[1:])]
    assert [said(one.settings) for one in order[1:]] == ["dim 8", "epochs 60", "lr 0.2", "lr 0.1"]
    dots, intervals, diamonds = (lines(axes, marker) for marker in ("o", "None", "D"))
    assert (len(dots), len(intervals), len(diamonds)) == (5, 5, 1)
    for y, one in enumerate(order):
        assert list(dots[y].get_xydata()[0]) == [one.gain.mean, y]
        assert [*intervals[y].get_xdata()] == [one.gain.low, one.gain.high]
        assert set(intervals[y].get_ydata()) == {y}
        assert list(diamonds[0].get_xydata()[y]) == [one.by_method["untrained"].mean, y]
    bottom, top = axes.get_ylim()
    assert top < 0 < bottom  # the best stands on top


def test_colours_tell_on_which_side_of_0_an_interval_is(searched: Chosen) -> None:
    axes = drawn(searched)
    expected = [HELPS, HELPS, HELPS, NEITHER, HARMS]
    assert [line.get_color() for line in lines(axes, "o")] == expected
    assert [line.get_color() for line in lines(axes, "None")] == expected
    (legend,) = axes.figure.legends
    words = {text.get_text() for text in legend.get_texts()}
    sides = {f"hucl, hscl: interval {side} 0" for side in ("above", "below", "around")}
    assert words == {*sides, "untrained"}  # fmt: skip


def test_what_is_chosen_alone_stands_once() -> None:
    found, _ = chosen({"width": [{"dim": 8}]}, effect, methods=("hscl",))
    axes = drawn(found)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dim 8"]
    assert not lines(axes, "D")


def test_without_ablations_there_is_no_picture(tmp_path: Path) -> None:
    found, _ = chosen({}, effect)
    assert forest(found) is None
    assert write_search(found, tmp_path / "a.md", command="c") == [tmp_path / "a.md"]
    assert "![" not in search_page(found, "c")


def test_a_page_shows_its_picture(searched: Chosen, tmp_path: Path) -> None:
    path, picture = tmp_path / "recipe.md", tmp_path / "recipe-ablations.svg"
    assert write_search(searched, path, command="c") == [path, picture]
    assert f"({picture.name})" in path.read_text(encoding="utf-8")
    first = picture.read_bytes()
    write_search(searched, path, command="c")
    assert picture.read_bytes() == first
