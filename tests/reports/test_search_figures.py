"""Figures of a search: which are drawn, what is on them, and the HTML page of all of them."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import optuna
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from optuna.study import Study
from PIL import Image

from gcl_hard.errors import InputError
from gcl_hard.reports.search_figures import (
    figures,
    importances,
    plane,
    quiet,
    readable,
    trials,
    write_figures,
)
from tests.experiments.readings import ERROR
from tests.reports.made_study import SHARE, mirrored, searched, study, trial
from tests.said import says


def drawn(name: str, searches: Study, **changed: Any) -> Figure:
    options = {"step": "epoch", "grid": "the grid", "metric": SHARE, **changed}
    return figures(readable(searches), **options)[name][1]


def places(figure: Figure, word: str, panel: int = 0, *, but: str = "-") -> list[list[float]]:
    """Of the marks whose label has a word, and not another."""
    labelled = [(str(marks.get_label()), marks) for marks in figure.axes[panel].collections]
    (marks,) = (
        collection for label, collection in labelled if says(label, word) and not says(label, but)
    )
    assert isinstance(marks, PathCollection)
    return np.asarray(marks.get_offsets()).tolist()


def labels(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def names(searches: Study, folder: Path) -> list[str]:
    written = write_figures(searches, folder / "a.b", title="hscl on MUTAG", metric=SHARE)
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
    ("searches", "expected"),
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
def test_what_cannot_be_drawn_is_left_out(
    searches: Study, expected: list[str], tmp_path: Path
) -> None:
    assert names(searches, tmp_path) == expected


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = mpl.get_backend()
    plt.switch_backend("svg")
    mine = plt.figure()
    style = dict(mpl.rcParams)
    write_figures(study(trial(50.0, {"beta": 1.0})), tmp_path / "a", title="t", metric=SHARE)
    assert plt.get_fignums() == [mine.number]
    assert dict(mpl.rcParams) == style
    assert mpl.get_backend() == "svg"
    plt.close(mine)
    plt.switch_backend(before)


def test_a_place_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file"):
        write_figures(searched(), tmp_path / "file" / "a", title="t", metric=SHARE)


def test_the_history_has_all_scores_and_marks_grid_and_best() -> None:
    figure = drawn("history", searched(), grid="the paper's grid")
    scored = [[0, 60], [1, 65], [2, 55], [3, 70], [6, 62], [8, 58]]
    assert places(figure, "trial", but="best") == scored
    assert places(figure, "grid") == scored[:2]
    assert places(figure, "best") == [scored[3]]
    (line,) = figure.axes[0].lines
    assert list(line.get_ydata()) == [60, 65, 65, 70, 70, 70, 70, 70, 70]
    words = [("trial",), ("best",), ("the paper's grid",), ("best", "trial")]
    for label, facts in zip(labels(figure), words, strict=True):
        assert says(label, *facts)
    assert says(figure.axes[0].get_ylabel(), "inner", "accuracy")


def test_figures_of_a_search_by_an_error_are_those_by_what_is_right_turned_over() -> None:
    searches = mirrored(searched())
    figure = drawn("history", searches, metric=ERROR)
    assert places(figure, "best") == [[3, 30]]
    (line,) = figure.axes[0].lines
    assert list(line.get_ydata()) == [40, 35, 35, 30, 30, 30, 30, 30, 30]
    for name in ("history", "slices", "intermediate"):
        label = drawn(name, searches, metric=ERROR).axes[0].get_ylabel()
        assert says(label, "inner", "RMSE, cm"), name
    shares, errors = (importances(readable(made_study)) for made_study in (searched(), searches))
    assert errors == pytest.approx(shares)


def test_without_a_grid_no_legend_speaks_of_one() -> None:
    searches = study(trial(50.0, {"beta": 1.0}), trial(51.0, {"beta": 2.0}))
    figure = drawn("slices", searches, grid="the grid")
    (label,) = labels(figure)
    assert says(label, "best", "trial")


@pytest.mark.parametrize("name", ["history", "slices", "contour"])
def test_a_grid_of_one_s_own_is_not_the_paper_s(name: str) -> None:
    words = labels(drawn(name, searched(), grid="the grid"))
    assert "the grid" in words
    assert not any("paper" in label for label in words)


def test_of_equal_trials_the_oldest_is_marked() -> None:
    searches = study(*(trial(50.0, {"beta": b}) for b in (1.0, 2.0, 3.0)))
    figure = drawn("history", searches, grid="the grid")
    assert places(figure, "best") == [[0, 50]]


def test_slices_have_the_scales_of_the_search_and_people_s_words() -> None:
    searches = study(
        trial(60.0, {"beta": 1.0, "temperature": 0.5, "layers": 2, "readout": "sum"}, grid=True),
        trial(50.0, {"beta": 3.0, "temperature": 0.7, "layers": 3, "readout": "mean"}),
        trial(52.0, {"beta": 3.0, "layers": 3, "readout": "mean"}),
    )
    figure = drawn("slices", searches, grid="the paper's grid")
    panels = {axes.get_xlabel(): axes for axes in figure.axes[:4]}
    assert list(panels) == ["layers", "readout", "temperature γ", "β"]
    assert [axes.get_xscale() for axes in panels.values()] == ["linear"] * 3 + ["log"]
    low, high = panels["β"].get_xlim()
    assert (low < 0.1, high > 20) == (True, True)
    ticks = panels["readout"].get_xticklabels()
    assert [tick.get_text() for tick in ticks] == ["sum", "mean"]
    assert places(figure, "grid", 3) == [[1.0, 60.0]]
    assert places(figure, "best", 1) == [[0.0, 60.0]]  # the first word
    colours = {axes.collections[0].get_clim() for axes in panels.values()}
    assert colours == {(0, 2)}  # of the same trials everywhere


def test_the_contour_is_over_the_whole_search() -> None:
    figure = drawn("contour", searched(), grid="the grid")
    axes, bar = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("temperature γ", "β")
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    low, high = axes.get_ylim()
    assert (low < 0.1, high > 20) == (True, True)
    assert places(figure, "best") == [[0.4, 5.0]]
    assert says(bar.get_ylabel(), "inner", "accuracy")


def test_scores_while_training_tell_best_complete_and_pruned_apart() -> None:
    figure = drawn("intermediate", searched(), step="fold")
    assert figure.axes[0].get_xlabel() == "fold"
    words = ["complete", "complete", "best", "pruned"]
    curves = [[40, 50], [40, 55], [50, 60], [20]]
    for line, word, curve in zip(figure.axes[0].lines, words, curves, strict=True):
        assert says(str(line.get_label()), word)
        assert list(line.get_ydata()) == curve
    assert set(labels(figure)) == {str(line.get_label()) for line in figure.axes[0].lines}


def test_trials_are_those_with_a_score_and_words_of_categories() -> None:
    searches = study(
        trial(60.0, {"beta": 1.0, "readout": "sum"}, grid=True),
        trial("diverged", {"beta": 2.0}),
        trial(None, {"beta": 3.0}),
        trial(70.0, {"beta": 4.0, "encoder.hidden": 16}),
    )
    data = trials(readable(searches))
    assert data["number"].tolist() == [0, 3]
    assert data["value"].tolist() == [60.0, 70.0]
    assert data["grid"].tolist() == [True, False]
    assert data["best"].tolist() == [False, True]
    assert data["β"].tolist() == [1.0, 4.0]
    assert data["readout"][0] == "sum"
    assert data["encoder hidden"][1] == "16"
    assert data["readout"].isna().tolist() == [False, True]
    assert trials(readable(study())).empty


# Readable names


def test_the_copy_has_everything_but_names_and_workers() -> None:
    original, copy = searched(), readable(searched())
    for old, new in zip(original.trials, copy.trials, strict=True):
        assert (old.number, old.state, old.value) == (new.number, new.state, new.value)
        assert old.intermediate_values == new.intermediate_values
        assert (old.datetime_start, old.datetime_complete) == (
            new.datetime_start, new.datetime_complete,
        )  # fmt: skip
        assert list(new.params) == ["β", "learning rate", "temperature γ"]
        assert list(new.params.values()) == list(old.params.values())
        assert list(new.distributions.values()) == list(old.distributions.values())
    assert [t.user_attrs for t in copy.trials] == [{"grid": True}] * 2 + [{}] * 7
    assert copy.best_trial.number == 3
    assert "beta" in original.trials[0].params


def test_a_value_outside_its_range_is_copied_too() -> None:
    assert readable(study(trial(50.0, {"beta": 99.0}))).trials[0].params == {"β": 99.0}


def test_importances_find_the_setting_that_decides() -> None:
    rows = [(b / 2, 0.0001 * 1.6**k) for k, b in enumerate([1, 9, 3, 12, 5, 2, 8, 4, 11, 7, 6, 10])]
    searches = study(*(trial(70 - abs(b - 2.5), {"beta": b, "lr": lr}) for b, lr in rows))
    shares = importances(searches)
    assert next(iter(shares)) == "beta"
    assert math.isclose(sum(shares.values()), 1)


@pytest.mark.parametrize(
    "searches",
    [
        study(),
        study(trial(50.0, {"beta": 1.0, "lr": 0.01})),
        study(*(trial(50.0, {"beta": b, "lr": 0.01}) for b in (1.0, 2.0, 3.0))),
        study(*(trial(50 + b, {"beta": b}) for b in (1.0, 2.0, 3.0))),
        study(trial(None, {"beta": 1.0}), trial("diverged", {"lr": 0.01})),
    ],
    ids=["no trial", "one trial", "equal scores", "one setting", "no score"],
)
def test_importances_are_empty_where_nothing_is_told_apart(searches: optuna.Study) -> None:
    assert importances(searches) == {}


def test_a_contour_is_of_beta_and_temperature_if_it_can() -> None:
    assert plane(readable(searched())) == ("temperature γ", "β")


def test_a_contour_needs_two_numbers_that_vary_together() -> None:
    beta = study(*(trial(50 + b, {"beta": b, "readout": "sum"}) for b in (1.0, 2.0, 3.0)))
    assert plane(beta) is None
    apart = study(
        trial(50.0, {"beta": 1.0}), trial(51.0, {"beta": 2.0}), trial(52.0, {"lr": 0.01}),
        trial(53.0, {"lr": 0.02}),
    )  # fmt: skip
    assert plane(apart) is None
    fixed = study(*(trial(50 + b, {"beta": b, "lr": 0.01}) for b in (1.0, 2.0, 3.0)))
    assert plane(fixed) is None
    equal = study(*(trial(50.0, {"beta": b, "lr": b / 100}) for b in (1.0, 2.0, 3.0)))
    assert plane(equal) is None


def test_a_contour_passes_over_settings_that_never_meet() -> None:
    """β and the temperature vary, but the trials with both have one β."""
    searches = readable(study(
        *(trial(50 + t, {"beta": 1.0, "temperature": t, "layers": int(2 * t)}) for t in (0.5, 1.5)),
        *(trial(50 + b, {"beta": b}) for b in (2.0, 3.0)),
    ))  # fmt: skip
    assert {*(plane(searches) or ())} == {"temperature γ", "layers"}


def test_quiet_gives_the_log_back(caplog: pytest.LogCaptureFixture) -> None:
    before = optuna.logging.get_verbosity()
    with pytest.raises(ZeroDivisionError), quiet():
        1 / (optuna.logging.get_verbosity() - logging.ERROR)
    assert optuna.logging.get_verbosity() == before
    readable(searched())
    assert caplog.text == ""


# The HTML page
