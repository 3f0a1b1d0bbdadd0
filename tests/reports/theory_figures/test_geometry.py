"""Panels of the geometry are the measures of the snapshots, on axes that show them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.reports import theory_figures
from gcl_hard.reports.epoch_figures import MEASURES as TITLES
from gcl_hard.reports.runs import GEOMETRY
from tests.reports import made_runs
from tests.reports.made import sentences
from tests.said import says

draw = made_runs.shown(theory_figures.geometry)

HSCL, UCL = GraphConfig(), GraphConfig(method="ucl")
EPOCHS = (2, 4, 7)
MEASURES = [*TITLES]


def runs(*configs: RunConfig, epochs: Any = EPOCHS) -> list[RunResult]:
    """Two seeds each; ``others`` of another label are 32 everywhere."""
    return [made_runs.run(config, seed, epochs=epochs) for config in configs for seed in (0, 1)]


def values(run: RunResult, name: str) -> list[float]:
    return [
        snapshot["geometry"][name] if name in GEOMETRY else snapshot["settings"]["beta=1"][name]
        for snapshot in run.diagnostics
    ]


def panel(drawn: made_runs.Shown, name: str) -> Any:
    return drawn.figure.axes[MEASURES.index(name)]


def lines(drawn: made_runs.Shown, name: str) -> list[Any]:
    return [line for line in panel(drawn, name).get_lines() if line.get_marker() != "None"]


def rules(drawn: made_runs.Shown, name: str) -> list[float]:
    drawn_rules = [line for line in panel(drawn, name).get_lines() if line.get_marker() == "None"]
    return [float(line.get_ydata()[0]) for line in drawn_rules]


def key(drawn: made_runs.Shown) -> str:
    return "\n\n".join(text.get_text() for text in drawn.figure.legends[0].get_texts())


def test_every_panel_has_means_over_seeds_and_bands_to_the_farthest() -> None:
    trained = runs(UCL, HSCL)
    drawn = draw(trained)
    assert len(drawn.figure.axes) == len(MEASURES) == 12
    for name in MEASURES:
        bands = panel(drawn, name).collections
        for line, band, line_runs in zip(
            lines(drawn, name), bands, (trained[:2], trained[2:]), strict=True
        ):
            table = np.array([values(run, name) for run in line_runs])
            np.testing.assert_allclose(line.get_xydata(), np.stack([EPOCHS, table.mean(0)], 1))
            reach = band.get_paths()[0].vertices[:, 1]
            assert (reach.min(), reach.max()) == pytest.approx((table.min(), table.max()))


def test_rows_are_every_seed_epoch_and_measure() -> None:
    trained = runs(UCL, HSCL)
    rows = draw(trained).rows
    assert len(rows) == 4 * len(EPOCHS)
    for run in trained:
        line_runs = [
            r for r in rows if (r["method"], r["seed"]) == (run.run.config.method, run.seed)
        ]
        assert [row["epoch"] for row in line_runs] == list(EPOCHS)
        for name in MEASURES:
            assert [row[name] for row in line_runs] == values(run, name)
    assert {(row["others"], row["other_labels"]) for row in rows} == {(62.0, 32.0)}


def test_a_cut_peak_leaves_an_axis_that_is_filled() -> None:
    (run, _) = trained = runs(HSCL, epochs=range(1, 41))
    run.diagnostics[20]["settings"]["beta=1"]["collisions"] = 5.9e6
    for each in trained:
        for snapshot in each.diagnostics[:20]:
            snapshot["settings"]["beta=1"]["collisions"] = 2.0
    drawn = draw(trained)
    low, high = panel(drawn, "collisions").get_ylim()
    assert 1 < low < 1.44
    assert 2.0 < high < 3
    assert says(sentences(drawn.note), "axis", "collisions", "3e+06")  # mean of two seeds


def test_the_number_of_negatives_is_a_rule_if_all_snapshots_say_it() -> None:
    trained = runs(UCL, HSCL)
    for snapshot in trained[0].diagnostics:
        snapshot["settings"]["beta=1"]["other_labels"] = 30.0
    drawn = draw(trained)
    assert rules(drawn, "effective_hscl") == [(30 + 3 * 32) / 4]
    assert says(key(drawn), "negatives")
    trained[1].diagnostics[0].update(anchors=0, settings={}, geometry={})
    assert rules(draw(trained), "effective_hscl") == pytest.approx([(3 * 30 + 8 * 32) / 11])
    del trained[0].diagnostics[1]["settings"]["beta=1"]["other_labels"]
    drawn = draw(trained)
    assert rules(drawn, "effective_hscl") == []
    assert not says(key(drawn), "negatives")
    assert [row["other_labels"] for row in drawn.rows].count(None) == 2


def test_the_widest_angle_is_a_rule() -> None:
    trained = runs(HSCL)
    for run in trained:
        for snapshot in run.diagnostics:
            snapshot["geometry"]["widest_angle"] = 96.4
    drawn = draw(trained)
    assert rules(drawn, "least_angle") == [96.4]
    assert says(key(drawn), "widest")
    for run in trained:
        for snapshot in run.diagnostics:
            snapshot["geometry"]["widest_angle"] = None
    assert rules(draw(trained), "least_angle") == []


@pytest.mark.parametrize("size", [52.3, 1.0, 1e-3])
def test_ticks_have_no_offset_and_rounding_is_no_line(size: float) -> None:
    trained = runs(HSCL, epochs=range(1, 9))
    for run in trained:
        for snapshot in run.diagnostics:
            snapshot["settings"]["beta=1"]["effective_hscl"] = size * (1 + 1e-7 * snapshot["epoch"])
            del snapshot["settings"]["beta=1"]["other_labels"]
    drawn = draw(trained)
    drawn.figure.draw_without_rendering()
    axes = panel(drawn, "effective_hscl")
    low, high = axes.get_ylim()
    assert high - low >= 0.9e-3 * size
    assert "+" not in axes.yaxis.get_offset_text().get_text()
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert len(set(labels)) == len(labels)


def test_snapshots_that_were_not_finite_are_gaps() -> None:
    (run, _) = trained = runs(HSCL)
    for each in trained:
        each.diagnostics[1].update(anchors=0, settings={}, geometry={})
    drawn = draw(trained)
    for name in MEASURES:
        assert [math.isnan(y) for y in lines(drawn, name)[0].get_ydata()] == [False, True, False]
    assert says(sentences(drawn.note), "gaps", "finite")
    assert [row["nc1"] for row in drawn.rows if row["epoch"] == 4] == [None, None]
    assert run.diagnostics[0]["geometry"]["nc1"] in [row["nc1"] for row in drawn.rows]


def test_a_config_of_one_look_is_left_out_beside_configs_of_more() -> None:
    drawn = draw([*runs(HSCL), *runs(UCL, epochs=(7,))])
    assert {row["method"] for row in drawn.rows} == {"hscl"}
    assert says(sentences(drawn.note), "left", "snapshots", "ucl")


def test_runs_without_snapshots_are_refused() -> None:
    with pytest.raises(InputError, match=r"^\D*--diagnostics 1\b"):
        draw([made_runs.run(HSCL)])
