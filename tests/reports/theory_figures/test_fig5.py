"""Fig. 5: what is drawn are the losses of the snapshots."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from gcl_hard.errors import InputError
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports import theory_figures
from gcl_hard.reports.runs import LOSSES
from tests.reports import made_runs
from tests.reports.made import sentences
from tests.said import says

draw = made_runs.shown(theory_figures.fig5)

CONFIGS = {method: ImageConfig(method=method) for method in ("ucl", "hucl", "scl", "hscl")}
EPOCHS = (1, 5)


def grid(drawn: made_runs.Shown) -> Any:
    return np.array(drawn.figure.axes, dtype=object).reshape(-1, 4)


def trained(drawn: made_runs.Shown) -> list[str]:
    return [line[0].get_ylabel().split("\n")[1] for line in grid(drawn)]


def test_every_panel_has_four_losses_as_means_over_seeds() -> None:
    runs = [
        made_runs.run(CONFIGS[m], s, epochs=EPOCHS) for m in ("hucl", "hscl") for s in (0, 1, 2)
    ]
    drawn = draw(runs)
    assert trained(drawn) == ["hscl β=1", "hucl β=1"]
    for line, line_runs in zip(grid(drawn), (runs[3:], runs[:3]), strict=True):
        for panel, setting in zip(line, made_runs.SETTINGS, strict=True):
            for curve, band, loss in zip(
                panel.get_lines(), panel.collections, ("ucl", "hucl", "scl", "hscl"), strict=True
            ):
                table = np.array(
                    [
                        [x["settings"][setting]["losses"][loss] for x in r.diagnostics]
                        for r in line_runs
                    ]
                )
                np.testing.assert_allclose(curve.get_xydata(), np.stack([EPOCHS, table.mean(0)], 1))
                reach = band.get_paths()[0].vertices[:, 1]
                assert (reach.min(), reach.max()) == pytest.approx((table.min(), table.max()))


def test_lines_are_named_as_in_the_paper_and_differ_without_colour() -> None:
    drawn = draw([made_runs.run(CONFIGS["hscl"], epochs=EPOCHS)])
    (legend,) = drawn.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["UCL", "H-UCL", "SCL", "H-SCL"]
    lines = grid(drawn)[0, 0].get_lines()
    assert len({line.get_linestyle() for line in lines}) == 4
    assert len({line.get_marker() for line in lines}) == 4


def test_rows_share_their_axis() -> None:
    runs = [made_runs.run(CONFIGS[m], epochs=EPOCHS) for m in ("hucl", "hscl")]
    runs[0].diagnostics[0]["settings"]["beta=1"]["losses"]["hucl"] = 50.0
    limits = [[panel.get_ylim() for panel in line] for line in grid(draw(runs))]
    assert [len(set(line)) for line in limits] == [1, 1]
    assert limits[0][0][1] < 10 < limits[1][0][1]


@pytest.mark.parametrize(
    ("methods", "every", "shown"),
    [
        (("ucl", "hucl", "scl", "hscl"), False, ["hscl β=1", "hucl β=1"]),
        (("ucl", "hucl"), False, ["hucl β=1"]),
        (("ucl", "scl"), False, ["ucl", "scl"]),
        (("ucl", "hscl"), True, ["ucl", "hscl β=1"]),
    ],
)
def test_hscl_and_hucl_are_shown_where_they_are(
    methods: tuple[str, ...], every: bool, shown: list[str]
) -> None:
    drawn = draw([made_runs.run(CONFIGS[m], epochs=EPOCHS) for m in methods], every=every)
    assert trained(drawn) == shown
    assert {row["method"] for row in drawn.rows} == {label.split()[0] for label in shown}


def test_settings_of_a_method_have_rows_of_their_own() -> None:
    runs = [made_runs.run(GraphConfig(beta=b), epochs=EPOCHS) for b in (1, 10)]
    assert trained(draw(runs)) == ["hscl β=1", "hscl β=10"]


def test_rows_of_the_file_hold_the_losses() -> None:
    run = made_runs.run(CONFIGS["hscl"], 3, epochs=EPOCHS)
    rows = draw([run]).rows
    assert len(rows) == 2 * 4
    lowest = next(row for row in rows if row["epoch"] == 5 and row["panel"] == "l=-0.05")
    snapshot = run.diagnostics[1]["settings"]["l=-0.05"]
    assert lowest == {
        "dataset": "digits", "method": "hscl", "trained_with": "β=1", "seed": 3, "epoch": 5,
        "panel": "l=-0.05", **{name: snapshot["losses"][name] for name in LOSSES}, "common": 58,
        "anchors": 64, "hscl_at_most_hucl": True,
    }  # fmt: skip


def test_where_lemma_1_holds_on_average_is_counted() -> None:
    runs = [made_runs.run(CONFIGS[m], s, epochs=EPOCHS) for m in ("hscl", "hucl") for s in (0, 1)]
    every = ", ".join(["4 of 4"] * 4)
    both = f"hscl β=1 {every}; hucl β=1 {every}."
    assert both in draw(runs).note
    losses = runs[1].diagnostics[0]["settings"]["beta=2"]["losses"]
    losses["hscl"] = losses["hucl"]  # equal is no violation
    assert both in draw(runs).note
    losses["hscl"] = losses["hucl"] + 1e-3
    runs[0].diagnostics[0]["settings"]["l=-0.05"]["losses"].update(dict.fromkeys(losses))
    drawn = draw(runs)
    assert f"hscl β=1 4 of 4, 3 of 3, 4 of 4, 3 of 4; hucl β=1 {every}." in drawn.note
    held = [row["hscl_at_most_hucl"] for row in drawn.rows]
    assert (held.count(True), held.count(False), held.count(None)) == (30, 1, 1)
    (undefined,) = [row for row in drawn.rows if row["hscl_at_most_hucl"] is None]
    assert (undefined["panel"], undefined["ucl"]) == ("l=-0.05", None)


def test_losses_that_no_anchor_has_are_a_gap() -> None:
    run = made_runs.run(CONFIGS["hscl"], epochs=(1, 2, 3))
    run.diagnostics[1]["settings"]["beta=1"].update(losses=dict.fromkeys(LOSSES), common=0)
    for line in grid(draw([run]))[0, 2].get_lines():
        assert np.isnan(line.get_ydata()).tolist() == [False, True, False]


def test_runs_without_snapshots_are_refused() -> None:
    with pytest.raises(InputError, match=r"^\D*--diagnostics 1\b"):
        draw([made_runs.run(CONFIGS["ucl"])])
    with pytest.raises(InputError, match=r"hscl β=1 split, seed 0\b.*--diagnostics 1.*--only"):
        draw([made_runs.run(CONFIGS["hscl"]), made_runs.run(CONFIGS["hucl"], epochs=EPOCHS)])
    hidden = made_runs.run(CONFIGS["ucl"])
    assert trained(draw([hidden, made_runs.run(CONFIGS["hucl"], epochs=EPOCHS)])) == ["hucl β=1"]


def test_losses_that_fall_far_have_a_logarithmic_axis_that_is_named() -> None:
    runs = [made_runs.run(CONFIGS[m], epochs=EPOCHS) for m in ("hucl", "hscl")]
    runs[0].diagnostics[0]["settings"]["beta=1"]["losses"]["hucl"] = 50.0
    runs[0].diagnostics[1]["settings"]["beta=1"]["losses"]["scl"] = -0.5
    first, second = grid(draw(runs))
    assert [panel.get_yscale() for panel in first] == ["linear"] * 4
    assert [panel.get_yscale() for panel in second] == ["symlog"] * 4
    plain, logarithmic = first[0].get_ylabel(), second[0].get_ylabel()
    assert says(plain, "nats")
    assert not says(plain, "logarithmic")
    assert says(logarithmic, "nats", "logarithmic")
    low, high = second[0].get_ylim()
    assert low < -0.5
    assert high > 50


def test_an_axis_that_cuts_a_peak_holds_all_else() -> None:
    run = made_runs.run(CONFIGS["hscl"], epochs=range(1, 41))
    run.diagnostics[20]["settings"]["beta=1"]["losses"].update(dict.fromkeys(LOSSES, 1e6))
    drawn = draw([run])
    rest = [
        loss
        for snapshot in run.diagnostics
        for name in made_runs.SETTINGS
        for loss in snapshot["settings"][name]["losses"].values()
        if loss < 1e6
    ]
    panel = grid(drawn)[0, 0]
    low, high = panel.get_ylim()
    assert panel.get_yscale() == "linear"
    assert 0 < low < min(rest)
    assert max(rest) < high < 20
    assert says(sentences(drawn.note), "axis", "hscl β=1", "1e+06")


def test_no_loss_anywhere_is_refused() -> None:
    run = made_runs.run(CONFIGS["hscl"], epochs=(1,))
    for setting in run.diagnostics[0]["settings"].values():
        setting.update(losses=dict.fromkeys(LOSSES), common=0)
    with pytest.raises(InputError, match=r"anchor.*\bfour losses\b.*--batch-size"):
        draw([run])


def test_the_note_counts_the_negatives_in_effect() -> None:
    note = draw([made_runs.run(CONFIGS["hscl"], epochs=EPOCHS)]).note
    assert re.search(r"H-UCL\D+31\D+62 others", note)
