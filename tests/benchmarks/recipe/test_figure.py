"""Figures of the research on our recipe show the numbers of its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy.stats import t as student

from benchmarks.recipe.figure import HARMS, HELPS, NEITHER, forest
from benchmarks.recipe.page import RecipeTable, learning_data, search_page, write_search
from benchmarks.recipe.search import Chosen, said
from benchmarks.recipe.table import SHARES
from gcl_hard.reports.result_figures import (
    learning_curves,
)
from gcl_hard.settings.graphs import GraphConfig
from tests.benchmarks.recipe.made_recipes import recipes
from tests.benchmarks.recipe.made_search import chosen
from tests.benchmarks.recipe.made_table import compared, folds, get, part
from tests.said import says

__all__ = ["part", "recipes"]

# Learning curves


def test_curves_are_of_the_rows_with_fewer_graphs(part: RecipeTable) -> None:
    figure = learning_curves(learning_data(part))
    assert figure is not None
    assert [panel.get_title() for panel in figure.axes] == part.datasets
    names = [one.get_text() for one in figure.legends[0].get_texts()]
    assert names == ["wl-oa", "supervised", "untrained", "hucl", "hscl"]
    for panel, n_graphs in zip(figure.axes, (200, 400), strict=True):
        dataset = panel.get_title()
        sizes = [0.9 * n_graphs * share for share in (*SHARES, 1)]
        assert [*panel.get_xticks()] == pytest.approx(sizes)
        assert len(panel.containers) == len(names)
        for (line, _, (bars,)), method in zip(panel.containers, names, strict=True):
            rows = [r for r in part.rows("fewer") if r.method == method]
            rows.append(get(part, "baselines" if method == "wl-oa" else "ours", method))
            x = [np.array([*folds(part, row, dataset).values()]).ravel() for row in rows]
            assert [*line.get_ydata()] == pytest.approx([one.mean() for one in x])
            assert [*line.get_xdata()] == pytest.approx(sizes, rel=0.07)
            ends = [segment[:, 1] for segment in bars.get_segments()]
            for row, one, (low, high) in zip(rows, x, ends, strict=True):
                to_train = 1 / 9 / row.configs[dataset].train_share
                error = np.sqrt((1 / one.size + to_train) * one.var(ddof=1))
                half = student.ppf(0.975, one.size - 1) * error
                assert (low, high) == pytest.approx((one.mean() - half, one.mean() + half))


@pytest.mark.usefixtures("recipes")
def test_a_curve_has_two_points_at_least() -> None:
    one = compared(finished=lambda r, d, s: (r.part, r.name) == ("fewer", "0.1"))
    assert learning_curves(learning_data(one)) is None
    two = compared(finished=lambda r, d, s: d == "MUTAG" and r.method == "hscl" and r.part in (
        "fewer", "ours"))  # fmt: skip
    figure = learning_curves(learning_data(two))
    assert figure is not None
    assert [panel.get_title() for panel in figure.axes] == ["MUTAG"]
    assert len(figure.axes[0].containers) == 1


# The search for a recipe

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


def forest_of(found: Chosen) -> Axes:
    figure = forest(found)
    assert figure is not None
    (axes,) = figure.axes
    return axes


def lines(axes: Axes, marker: str) -> list[Line2D]:
    """Those with a marker; "None" for intervals."""
    long = [line for line in axes.get_lines() if line.get_marker() == marker]
    return [line for line in long if line.get_transform() == axes.transData]


def test_every_setting_has_its_gain_and_interval_best_first(searched: Chosen) -> None:
    axes = forest_of(searched)
    joined = searched.joined[-1]
    order = [joined, *sorted(searched.alternatives, key=lambda one: one.gain.mean, reverse=True)]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert says(labels[0], said(joined.settings), "joined")
    assert labels[1:] == [said(one.settings) for one in order[1:]]
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
    axes = forest_of(searched)
    expected = [HELPS, HELPS, HELPS, NEITHER, HARMS]
    assert [line.get_color() for line in lines(axes, "o")] == expected
    assert [line.get_color() for line in lines(axes, "None")] == expected
    (legend,) = axes.figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    for side in ("above", "below", "around"):
        assert sum(says(text, "hucl, hscl", "interval", side, 0) for text in words) == 1
    assert "untrained" in words
    assert len(words) == 4


def test_what_is_chosen_alone_stands_once() -> None:
    found, _ = chosen({"width": [{"dim": 8}]}, effect, methods=("hscl",))
    axes = forest_of(found)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dim 8"]
    assert not lines(axes, "D")


def test_without_ablations_there_is_no_picture(tmp_path: Path) -> None:
    found, _ = chosen({}, effect)
    assert forest(found) is None
    assert write_search(found, tmp_path / "a.md", command="c") == [tmp_path / "a.md"]
    assert "![" not in search_page(found, "c")


def test_a_page_shows_its_picture(searched: Chosen, tmp_path: Path) -> None:
    path, picture = tmp_path / "recipe.md", tmp_path / "recipe-ablations.png"
    assert write_search(searched, path, command="c") == [path, picture]
    assert f"({picture.name})" in path.read_text(encoding="utf-8")
    first = picture.read_bytes()
    write_search(searched, path, command="c")
    assert picture.read_bytes() == first
