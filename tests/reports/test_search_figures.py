"""Figures of a search: which are drawn, and with which numbers."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import optuna
import pytest
from optuna.study import Study
from PIL import Image

from gcl_hard.errors import InputError
from gcl_hard.reports.search_figures import (
    importances,
    plots,
    quiet,
    write_figures,
)
from gcl_hard.reports.tables import setting
from tests.reports.made_study import SHARE, mirrored, searched, study, trial

KINDS = ["history", "slices", "importances", "contour", "intermediate"]


def test_all_figures_of_a_search_are_pictures_and_nothing_is_left_behind(tmp_path: Path) -> None:
    mine, style = plt.figure(), dict(mpl.rcParams)
    written = write_figures(searched(), tmp_path / "a.b", title="hscl on MUTAG", metric=SHARE)
    assert [path.name for path in written] == [f"a.b-{kind}.png" for kind in KINDS]
    assert sorted(tmp_path.iterdir()) == sorted(written)
    for path in written:
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert len(picture.convert("L").getcolors()) > 20
    assert plt.get_fignums() == [mine.number]
    assert dict(mpl.rcParams) == style
    plt.close(mine)


@pytest.mark.parametrize(
    ("searches", "expected"),
    [
        (study(), []),
        (study(trial(None, {"beta": 1.0}), trial("diverged", {"beta": 2.0})), []),
        (study(trial(50.0, {"beta": 99.0, "lr": 0.01}, grid=True)), ["history", "slices"]),
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
    ],
    ids=["empty", "no score", "one trial", "no setting", "one setting", "equal scores",
         "conditional"],
)  # fmt: skip
def test_what_cannot_be_drawn_is_left_out(
    searches: Study, expected: list[str], tmp_path: Path
) -> None:
    written = write_figures(searches, tmp_path / "a", title="hscl on MUTAG", metric=SHARE)
    assert [path.name for path in written] == [f"a-{kind}.png" for kind in expected]


def test_a_place_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file"):
        write_figures(searched(), tmp_path / "file" / "a", title="t", metric=SHARE)


def test_importances_of_an_error_are_those_of_what_is_right_turned_over() -> None:
    shares, errors = (importances(made) for made in (searched(), mirrored(searched())))
    assert errors == pytest.approx(shares)


def test_captions_name_the_settings_and_the_metric() -> None:
    caption, function, arguments = plots(searched(), SHARE)["contour"]
    assert (function, arguments["target_name"]) == ("plot_contour", f"inner {SHARE.label}")
    assert all(setting(name) in caption for name in arguments["params"])
    assert {*arguments["params"]} < {"beta", "lr", "temperature"}


def test_importances_find_the_setting_that_decides() -> None:
    rows = [(b / 2, 0.0001 * 1.6**k) for k, b in enumerate([1, 9, 3, 12, 5, 2, 8, 4, 11, 7, 6, 10])]
    searches = study(*(trial(70 - abs(b - 2.5), {"beta": b, "lr": lr}) for b, lr in rows))
    shares = importances(searches)
    assert next(iter(shares)) == "beta"
    assert math.isclose(sum(shares.values()), 1)


def test_quiet_gives_the_log_back(caplog: pytest.LogCaptureFixture) -> None:
    before = optuna.logging.get_verbosity()
    with pytest.raises(ZeroDivisionError), quiet():
        1 / (optuna.logging.get_verbosity() - logging.ERROR)
    assert optuna.logging.get_verbosity() == before
    assert caplog.text == ""
