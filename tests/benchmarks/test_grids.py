"""The grid of temperature and β shows the scores of its runs, each in its cell."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.figure import Figure

from benchmarks.grids import grid, grid_figure
from gcl_hard.images.settings import ImageConfig
from gcl_hard.theory.snapshots import OWN
from tests.reports.test_grid import BETAS, GAMMAS, accuracy, by_trials, results


def test_a_cell_is_the_mean_of_its_runs() -> None:
    data = grid(results())
    assert len(data) == 6
    for line in data.itertuples():
        name = "scl" if line.beta == 0 else "hscl"
        config = ImageConfig(method=name, temperature=line.gamma, beta=line.beta or 1.0)
        assert line.score == pytest.approx(accuracy(config) + 0.5)
    assert set(data["pair"]) == {"scl, hscl"}


def test_effective_negatives_are_a_share_of_those_of_another_label() -> None:
    measured = {"effective_hscl": 30.0, "other_labels": 120.0, "effective_hucl": 1.0, "others": 2.0}
    snapshots = [{"epoch": 1, "settings": {OWN: measured, "beta=1": measured | {
        "effective_hscl": 60.0}}}]  # fmt: skip
    data = grid(results(diagnostics=snapshots)).set_index(["gamma", "beta"])["effective"]
    assert data.to_dict() == {
        (g, b): {0.0: 100.0, 0.25: 25.0, 1.0: 50.0}[b] for g in GAMMAS for b in (0.0, *BETAS)
    }


def test_the_figure_shows_every_cell() -> None:
    data = grid(results())
    figure = grid_figure(data)
    assert isinstance(figure, Figure)
    heat, lines = figure.axes
    shown = {text.get_text() for text in heat.texts}
    assert shown == {f"{value:.1f}" for value in data["score"]}
    for line in lines.get_lines():
        beta = float(str(line.get_label()).partition("= ")[2])
        cells = data[data["beta"] == beta].sort_values("gamma")
        assert list(line.get_xdata()) == pytest.approx(list(cells["gamma"] / (1 + beta)))
        assert list(line.get_ydata()) == pytest.approx(list(cells["score"]))


def test_a_single_temperature_has_no_figure() -> None:
    data = grid(results())
    assert grid_figure(data[data["gamma"] == 0.1]) is None
    assert grid_figure(pd.DataFrame(columns=data.columns)) is None


def test_of_shorter_runs_it_shows_what_chose() -> None:
    data = grid(by_trials())
    assert len(data) == 6
    assert data.loc[data["score"].idxmax(), ["gamma", "beta"]].tolist() == [0.5, 0.25]
