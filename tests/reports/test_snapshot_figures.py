"""Figures of snapshots: what is drawn are the numbers of the snapshots."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports import snapshot_figures
from gcl_hard.reports.runs import GEOMETRY
from gcl_hard.reports.snapshot_figures import MEASURES
from tests.reports import made_runs

fig4 = made_runs.shown(snapshot_figures.fig4)
geometry = made_runs.shown(snapshot_figures.geometry)

HSCL, UCL = GraphConfig(), GraphConfig(method="ucl")
EPOCHS = (2, 4, 7)


def runs(*configs: GraphConfig, epochs: Any = EPOCHS) -> list[RunResult]:
    """Two seeds each; ``others`` of another label are 32 everywhere."""
    return [made_runs.run(config, seed, epochs=epochs) for config in configs for seed in (0, 1)]


def share(run: RunResult, panel: str) -> list[float]:
    return [snapshot["settings"][panel]["assumption_1"] for snapshot in run.diagnostics]


def measure(run: RunResult, name: str) -> list[float]:
    return [
        snapshot["geometry"][name] if name in GEOMETRY else snapshot["settings"]["beta=1"][name]
        for snapshot in run.diagnostics
    ]


def lines(panel: Any) -> list[Any]:
    """Lines that are no rule."""
    return [line for line in panel.get_lines() if line.get_marker() != "None"]


@pytest.mark.parametrize(
    ("draw", "values", "names"),
    [(fig4, share, made_runs.SETTINGS), (geometry, measure, tuple(MEASURES))],
)
def test_lines_are_means_over_seeds_and_bands_reach_to_the_farthest(
    draw: Callable[..., Any], values: Callable[..., list[float]], names: tuple[str, ...]
) -> None:
    trained = runs(UCL, HSCL)
    panels = draw(trained).figure.axes
    assert len(panels) == len(names)
    for panel, name in zip(panels, names, strict=True):
        for line, band, of_line in zip(
            lines(panel), panel.collections, (trained[:2], trained[2:]), strict=True
        ):
            table = np.array([values(run, name) for run in of_line])
            np.testing.assert_allclose(line.get_xydata(), np.stack([EPOCHS, table.mean(0)], 1))
            reach = band.get_paths()[0].vertices[:, 1]
            assert (reach.min(), reach.max()) == pytest.approx((table.min(), table.max()))


def test_rows_are_every_seed_and_epoch() -> None:
    trained = runs(UCL, HSCL)
    shares, measures = fig4(trained).rows, geometry(trained).rows
    assert (len(shares), len(measures)) == (4 * len(EPOCHS) * 4, 4 * len(EPOCHS))
    for run in trained:
        own = {"method": run.run.config.method, "seed": run.seed}
        of_run = [row for row in shares if row.items() >= own.items()]
        for panel in made_runs.SETTINGS:
            drawn = [row["fraction"] for row in of_run if row["panel"] == panel]
            assert drawn == share(run, panel)
        of_run = [row for row in measures if row.items() >= own.items()]
        for name in MEASURES:
            assert [row[name] for row in of_run] == measure(run, name)
    counted = {name: shares[0][name] for name in ("defined", "alone", "spared", "anchors")}
    assert counted == {"defined": 58, "alone": 4, "spared": 2, "anchors": 64}


def test_lines_of_one_method_differ_in_dashes_and_marker() -> None:
    drawn = fig4([made_runs.run(GraphConfig(beta=b), epochs=EPOCHS) for b in (1, 2, 10)])
    shown = lines(drawn.figure.axes[0])
    assert len({line.get_color() for line in shown}) == 1
    assert len({(line.get_linestyle(), line.get_marker()) for line in shown}) == 3


def test_the_own_hardening_has_a_panel_if_all_runs_have_one() -> None:
    ten = made_runs.run(GraphConfig(beta=10), epochs=EPOCHS, hardening="beta=10")
    without = made_runs.run(HSCL, epochs=EPOCHS)
    drawn = fig4([ten])
    assert [len(fig4(r).figure.axes) for r in ([ten], [ten, without])] == [5, 4]
    assert lines(drawn.figure.axes[4])[0].get_ydata().tolist() == share(ten, "own")
    assert {row["panel"] for row in drawn.rows} == {*made_runs.SETTINGS, "own (beta=10)"}


@pytest.mark.parametrize("draw", [fig4, geometry])
def test_a_snapshot_that_was_not_finite_is_a_gap(draw: Callable[..., Any]) -> None:
    trained = runs(HSCL)
    for run in trained:
        run.diagnostics[1].update(anchors=0, settings={}, geometry={})
    for panel in draw(trained).figure.axes:
        assert [math.isnan(y) for y in lines(panel)[0].get_ydata()] == [False, True, False]


def test_a_mean_is_over_the_seeds_at_which_a_share_is_defined() -> None:
    trained = runs(HSCL)
    trained[0].diagnostics[1]["settings"]["beta=1"].update(assumption_1=None, defined=0)
    expected = share(trained[1], "beta=1")[1]
    assert lines(fig4(trained).figure.axes[2])[0].get_ydata()[1] == expected


def test_epochs_that_not_all_seeds_have_are_left_out() -> None:
    trained = [made_runs.run(HSCL, seed, epochs=epochs) for seed, epochs in
               enumerate([(2, 4, 6), (3, 4, 6)])]  # fmt: skip
    assert lines(fig4(trained).figure.axes[0])[0].get_xdata().tolist() == [4, 6]
    with pytest.raises(InputError, match="--only seed=0"):
        fig4([made_runs.run(HSCL, 0, epochs=(2,)), made_runs.run(HSCL, 1, epochs=(3,))])


def test_a_line_of_one_snapshot_is_left_out_beside_lines_of_more() -> None:
    single = made_runs.run(UCL, epochs=(7,))
    assert {row["method"] for row in fig4([*runs(HSCL), single]).rows} == {"hscl"}
    assert {row["method"] for row in fig4([single]).rows} == {"ucl"}


@pytest.mark.parametrize("least", [0.0, 0.3, 0.7, 0.9])
def test_the_axis_of_shares_holds_every_band(least: float) -> None:
    trained = runs(HSCL)
    trained[1].diagnostics[0]["settings"]["beta=2"]["assumption_1"] = least
    (limits,) = {panel.get_ylim() for panel in fig4(trained).figure.axes}
    assert limits[0] <= least
    assert 1 < limits[1] < 1.05


@pytest.mark.parametrize("gamma", [0.5, 0.2])
def test_tau_is_what_l_says_at_one_temperature_alone(gamma: float) -> None:
    drawn = fig4([made_runs.run(ImageConfig(temperature=gamma), epochs=EPOCHS)])
    titles = [panel.get_title() for panel in drawn.figure.axes]
    assert [r"\tau" in title for title in titles] == [gamma == 0.5] * 2 + [False] * 2


def test_values_of_several_sizes_have_a_logarithmic_axis() -> None:
    trained = runs(HSCL, epochs=range(1, 41))
    trained[0].diagnostics[20]["settings"]["beta=1"]["collisions"] = 5.9e6
    panel = geometry(trained).figure.axes[[*MEASURES].index("collisions")]
    assert panel.get_yscale() == "log"


def test_rules_are_the_number_of_negatives_and_the_widest_angle() -> None:
    def rules(name: str) -> list[float]:
        panel = geometry(trained).figure.axes[[*MEASURES].index(name)]
        ruled = [line for line in panel.get_lines() if line.get_marker() == "None"]
        return [float(line.get_ydata()[0]) for line in ruled]

    trained = runs(UCL, HSCL)
    for run in trained:
        for snapshot in run.diagnostics:
            snapshot["geometry"]["widest_angle"] = 96.4
    assert rules("effective_hscl") == [32.0]
    assert rules("least_angle") == [96.4]
    del trained[0].diagnostics[1]["settings"]["beta=1"]["other_labels"]
    assert rules("effective_hscl") == []


@pytest.mark.parametrize("size", [52.3, 1e-3])
def test_rounding_is_no_line(size: float) -> None:
    trained = runs(HSCL, epochs=range(1, 9))
    for run in trained:
        for snapshot in run.diagnostics:
            snapshot["settings"]["beta=1"]["effective_hscl"] = size * (1 + 1e-7 * snapshot["epoch"])
            del snapshot["settings"]["beta=1"]["other_labels"]
    low, high = geometry(trained).figure.axes[[*MEASURES].index("effective_hscl")].get_ylim()
    assert high - low >= 0.9e-3 * size


@pytest.mark.parametrize("draw", [fig4, geometry])
def test_runs_without_snapshots_are_refused(draw: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="--diagnostics 1"):
        draw([*runs(HSCL), made_runs.run(UCL)])


def test_nothing_defined_anywhere_is_refused() -> None:
    run = made_runs.run(HSCL, epochs=(1,))
    for setting in run.diagnostics[0]["settings"].values():
        setting.update(assumption_1=None, defined=0)
    with pytest.raises(InputError, match="anchor"):
        fig4([run])
