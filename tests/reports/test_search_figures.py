"""Figures as PNG: which are drawn, what is on them, and that nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from optuna.study import Study
from PIL import Image

from gcl_hard.errors import InputError
from gcl_hard.reports.search_figures import figures, trials, write_figures
from gcl_hard.reports.search_figures import readable as spoken
from tests.tuning.reporting.made import searched, study, trial


def drawn(name: str, made: Study, **how: str) -> Figure:
    return figures(spoken(made), **{"step": "epoch", "grid": "the grid", **how})[name][1]


def places(figure: Figure, label: str, panel: int = 0) -> list[list[float]]:
    (marks,) = [c for c in figure.axes[panel].collections if c.get_label() == label]
    assert isinstance(marks, PathCollection)
    return np.asarray(marks.get_offsets()).tolist()


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def names(made: Study, folder: Path) -> list[str]:
    written = write_figures(made, folder / "a.b", title="hscl on MUTAG")
    assert sorted(folder.iterdir()) == sorted(written)
    return [path.name.removeprefix("a.b-").removesuffix(".png") for path in written]


def test_all_figures_of_a_search_are_readable_pictures(tmp_path: Path) -> None:
    kinds = ["history", "importances", "slices", "contour", "intermediate"]
    assert names(searched(), tmp_path) == kinds
    for path in tmp_path.iterdir():
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert 1000 < picture.width < 1200
            assert len(picture.convert("L").getcolors()) > 20


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (study(), []),
        (study(trial(None, {"beta": 1.0}), trial("diverged", {"beta": 2.0})), []),
        (study(trial(50.0, {"beta": 1.0, "lr": 0.01}, grid=True)), ["history", "slices"]),
        (study(trial(50.0, {})), ["history"]),
        (study(*(trial(50 + b, {"beta": b}) for b in (1.0, 2.0))), ["history", "slices"]),
        (
            study(*(trial(50.0, {"beta": b, "lr": b / 100}) for b in (1.0, 2.0, 3.0))),
            ["history", "slices"],
        ),
        (
            study(trial("diverged", {"beta": 3.0}), trial(50.0, {"readout": "sum"}, steps=(40, 50)),
                  trial(None, {"encoder.hidden": 16}, steps=(30,))),
            ["history", "slices", "intermediate"],
        ),
        (study(trial(50.0, {"beta": 99.0}, grid=True)), ["history", "slices"]),
    ],
    ids=["empty", "no score", "one trial", "no setting", "one setting", "equal scores",
         "conditional", "out of range"],
)  # fmt: skip
def test_what_cannot_be_drawn_is_left_out(made: Study, expected: list[str], tmp_path: Path) -> None:
    assert names(made, tmp_path) == expected


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = mpl.get_backend()
    plt.switch_backend("svg")
    mine = plt.figure()
    style = dict(mpl.rcParams)
    write_figures(study(trial(50.0, {"beta": 1.0})), tmp_path / "a", title="t")
    assert plt.get_fignums() == [mine.number]
    assert dict(mpl.rcParams) == style
    assert mpl.get_backend() == "svg"
    plt.close(mine)
    plt.switch_backend(before)


def test_a_place_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file"):
        write_figures(searched(), tmp_path / "file" / "a", title="t")


def test_the_history_has_all_scores_and_marks_grid_and_best() -> None:
    figure = drawn("history", searched(), grid="the paper's grid")
    scored = [[0, 60], [1, 65], [2, 55], [3, 70], [6, 62], [8, 58]]
    assert places(figure, "a trial") == scored
    assert places(figure, "the paper's grid") == scored[:2]
    assert places(figure, "the best trial") == [scored[3]]
    (line,) = figure.axes[0].lines
    assert list(line.get_ydata()) == [60, 65, 65, 70, 70, 70, 70, 70, 70]
    assert labels(figure) == ["a trial", "best so far", "the paper's grid", "the best trial"]
    assert figure.axes[0].get_ylabel() == "inner accuracy, %"


def test_without_a_grid_no_legend_speaks_of_one() -> None:
    made = study(trial(50.0, {"beta": 1.0}), trial(51.0, {"beta": 2.0}))
    figure = drawn("slices", made, grid="the grid")
    assert labels(figure) == ["the best trial"]


@pytest.mark.parametrize("name", ["history", "slices", "contour"])
def test_a_grid_of_one_s_own_is_not_the_paper_s(name: str) -> None:
    found = labels(drawn(name, searched(), grid="the grid"))
    assert "the grid" in found
    assert not any("paper" in label for label in found)


def test_of_equal_trials_the_oldest_is_marked() -> None:
    made = study(*(trial(50.0, {"beta": b}) for b in (1.0, 2.0, 3.0)))
    figure = drawn("history", made, grid="the grid")
    assert places(figure, "the best trial") == [[0, 50]]


def test_slices_have_the_scales_of_the_search_and_people_s_words() -> None:
    made = study(
        trial(60.0, {"beta": 1.0, "temperature": 0.5, "layers": 2, "readout": "sum"}, grid=True),
        trial(50.0, {"beta": 3.0, "temperature": 0.7, "layers": 3, "readout": "mean"}),
        trial(52.0, {"beta": 3.0, "layers": 3, "readout": "mean"}),
    )
    figure = drawn("slices", made, grid="the paper's grid")
    panels = {axes.get_xlabel(): axes for axes in figure.axes[:4]}
    assert list(panels) == ["layers", "readout", "temperature γ", "β"]
    assert [axes.get_xscale() for axes in panels.values()] == ["linear"] * 3 + ["log"]
    low, high = panels["β"].get_xlim()
    assert (low < 0.1, high > 20) == (True, True)
    ticks = panels["readout"].get_xticklabels()
    assert [tick.get_text() for tick in ticks] == ["sum", "mean"]
    assert places(figure, "the paper's grid", 3) == [[1.0, 60.0]]
    assert places(figure, "the best trial", 1) == [[0.0, 60.0]]  # the first word
    colours = {axes.collections[0].get_clim() for axes in panels.values()}
    assert colours == {(0, 2)}  # of the same trials everywhere


def test_the_contour_is_over_the_whole_search() -> None:
    figure = drawn("contour", searched(), grid="the grid")
    axes, bar = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("temperature γ", "β")
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    low, high = axes.get_ylim()
    assert (low < 0.1, high > 20) == (True, True)
    assert places(figure, "the best trial") == [[0.4, 5.0]]
    assert bar.get_ylabel() == "inner accuracy, %"


def test_scores_while_training_tell_best_complete_and_pruned_apart() -> None:
    figure = drawn("intermediate", searched(), step="fold")
    assert figure.axes[0].get_xlabel() == "fold"
    assert set(labels(figure)) == {"the best trial", "complete", "pruned"}
    kinds = [(line.get_label(), list(line.get_ydata())) for line in figure.axes[0].lines]
    assert kinds == [
        ("complete", [40, 50]), ("complete", [40, 55]), ("the best trial", [50, 60]),
        ("pruned", [20]),
    ]  # fmt: skip


def test_trials_are_those_with_a_score_and_words_of_categories() -> None:
    made = study(
        trial(60.0, {"beta": 1.0, "readout": "sum"}, grid=True),
        trial("diverged", {"beta": 2.0}),
        trial(None, {"beta": 3.0}),
        trial(70.0, {"beta": 4.0, "encoder.hidden": 16}),
    )
    data = trials(spoken(made))
    assert data["number"].tolist() == [0, 3]
    assert data["value"].tolist() == [60.0, 70.0]
    assert data["grid"].tolist() == [True, False]
    assert data["best"].tolist() == [False, True]
    assert data["β"].tolist() == [1.0, 4.0]
    assert data["readout"][0] == "sum"
    assert data["encoder hidden"][1] == "16"
    assert data["readout"].isna().tolist() == [False, True]
    assert trials(spoken(study())).empty
