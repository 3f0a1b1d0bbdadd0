"""Fig. 4: what is drawn are the shares of the snapshots."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports import theory_figures
from tests.reports import made_runs
from tests.reports.made import sentences
from tests.said import says

draw = made_runs.shown(theory_figures.fig4)

HSCL, HUCL = GraphConfig(), GraphConfig(method="hucl")
EPOCHS = (2, 4, 7)


def panels(drawn: made_runs.Shown) -> list[Any]:
    return [axes for axes in drawn.figure.axes if axes.get_visible()]


def curves(drawn: made_runs.Shown, panel: int) -> list[np.ndarray[Any, Any]]:
    """Points [n, 2] of the lines that are no rule, in a panel."""
    lines = panels(drawn)[panel].get_lines()
    return [line.get_xydata() for line in lines if line.get_marker() != "None"]


def bands(drawn: made_runs.Shown, panel: int) -> list[tuple[float, float]]:
    """Lowest and highest of each band in a panel."""
    paths = [band.get_paths()[0].vertices for band in panels(drawn)[panel].collections]
    return [(path[:, 1].min(), path[:, 1].max()) for path in paths]


def shares(run: RunResult, setting: str) -> Iterator[float]:
    for snapshot in run.diagnostics:
        yield snapshot["settings"][setting]["assumption_1"]


def texts(drawn: made_runs.Shown) -> str:
    return " ".join(text.get_text() for text in drawn.figure.texts)


def test_lines_are_means_over_seeds_and_bands_reach_to_the_farthest() -> None:
    runs = [
        made_runs.run(config, seed, epochs=EPOCHS) for config in (HUCL, HSCL) for seed in (0, 1, 2)
    ]
    drawn = draw(runs)
    assert len(panels(drawn)) == 4
    for index, setting in enumerate(made_runs.SETTINGS):
        for expected, curve, band in zip(
            (runs[:3], runs[3:]), curves(drawn, index), bands(drawn, index), strict=True
        ):
            table = np.array([list(shares(run, setting)) for run in expected])
            np.testing.assert_allclose(curve, np.stack([EPOCHS, table.mean(0)], 1))
            assert band == pytest.approx((table.min(), table.max()))


def test_rows_are_every_seed_epoch_and_setting() -> None:
    runs = [made_runs.run(GraphConfig(beta=b), s, epochs=EPOCHS) for b in (1, 2) for s in (0, 1)]
    rows = draw(runs).rows
    assert len(rows) == 4 * len(EPOCHS) * 4
    chosen = [r for r in rows if (r["seed"], r["panel"], r["trained_with"]) == (1, "beta=2", "β=1")]
    assert [row["epoch"] for row in chosen] == list(EPOCHS)
    assert [row["fraction"] for row in chosen] == list(shares(runs[1], "beta=2"))
    assert chosen[0] | {"fraction": 0, "lemma_1": 0} == {
        "dataset": "MUTAG", "method": "hscl", "trained_with": "β=1", "seed": 1, "epoch": 2,
        "panel": "beta=2", "fraction": 0, "defined": 58, "alone": 4, "spared": 2, "unopposed": 0,
        "anchors": 64, "lemma_1": 0,
    }  # fmt: skip
    assert {tuple(row) for row in rows} == {tuple(rows[0])}


def test_the_picture_says_what_it_is_of() -> None:
    drawn = draw([made_runs.run(HSCL, seed, epochs=EPOCHS) for seed in (0, 1)])
    facts = ("MUTAG", "local-global", "JSD", "transductive", 2, "seeds", 64, "anchors")
    assert says(texts(drawn), *facts)
    (legend,) = drawn.figure.legends
    line, rule = (text.get_text() for text in legend.get_texts())
    assert line == "hscl β=1"
    assert says(rule, "paper", "CIFAR100", 0.95)
    assert says(legend.get_title().get_text(), "trained")


def test_lines_of_one_method_differ_in_dashes_and_marker() -> None:
    runs = [made_runs.run(GraphConfig(beta=b), epochs=EPOCHS) for b in (1, 2, 10)]
    lines = [x for x in panels(draw(runs))[0].get_lines() if x.get_marker() != "None"]
    assert len({line.get_color() for line in lines}) == 1
    assert len({line.get_linestyle() for line in lines}) == 3
    assert len({line.get_marker() for line in lines}) == 3


def test_the_own_setting_has_a_panel_if_all_have_one() -> None:
    ten = made_runs.run(GraphConfig(beta=10), epochs=EPOCHS, hardening="beta=10")
    five = made_runs.run(GraphConfig(beta=5), epochs=EPOCHS, hardening="beta=5")
    without = made_runs.run(HSCL, epochs=EPOCHS)
    assert [len(panels(draw(r))) for r in ([ten], [ten, five], [ten, without])] == [5, 5, 4]
    assert says(panels(draw([ten]))[4].get_title(), "trained", "β = 10")
    several = panels(draw([ten, five]))[4].get_title()
    assert says(several, "trained")
    assert "β" not in several
    np.testing.assert_allclose(curves(draw([ten]), 4)[0][:, 1], list(shares(ten, "own")))
    assert {r["panel"] for r in draw([five]).rows} == {*made_runs.SETTINGS, "own (beta=5)"}


def test_an_epoch_at_which_nothing_is_defined_is_a_gap() -> None:
    runs = [made_runs.run(HSCL, seed, epochs=EPOCHS) for seed in (0, 1)]
    settings = [run.diagnostics[1]["settings"]["beta=1"] for run in runs]
    for setting in settings:
        setting.update(assumption_1=None, lemma_1=None, defined=0)
    drawn = draw(runs)
    assert np.isnan(curves(drawn, 2)[0][:, 1]).tolist() == [False, True, False]
    empty = [row for row in drawn.rows if row["fraction"] is None]
    assert [(row["epoch"], row["panel"], row["defined"]) for row in empty] == [(4, "beta=1", 0)] * 2
    settings[0].update(assumption_1=0.5, defined=3)
    assert curves(draw(runs), 2)[0][1].tolist() == [4, 0.5]


def test_a_look_that_was_not_finite_is_a_gap_and_said() -> None:
    runs = [made_runs.run(HSCL, epochs=EPOCHS)]
    runs[0].diagnostics[1].update(anchors=0, settings={}, geometry={})
    drawn = draw(runs)
    for index in range(4):
        assert np.isnan(curves(drawn, index)[0][:, 1]).tolist() == [False, True, False]
    assert says(sentences(drawn.note), "gaps", "finite")
    assert says(texts(drawn), 64, "anchors")


def test_epochs_that_not_all_seeds_have_are_left_out_and_it_is_said() -> None:
    runs = [made_runs.run(HSCL, 0, epochs=(2, 4, 6)), made_runs.run(HSCL, 1, epochs=(3, 4, 6))]
    drawn = draw(runs)
    assert curves(drawn, 0)[0][:, 0].tolist() == [4, 6]
    assert says(sentences(drawn.note), "epochs", "seeds", "left")
    assert not says(draw(runs[:1]).note, "left")


def test_the_note_counts_anchors_and_snapshots() -> None:
    runs = [made_runs.run(HSCL, seed, epochs=EPOCHS) for seed in (0, 1)]
    runs[1].diagnostics[-1]["settings"]["l=-0.05"].update(
        defined=10, alone=1, spared=50, unopposed=3
    )
    all_shares = [x for run in runs for setting in made_runs.SETTINGS for x in shares(run, setting)]
    note = draw(runs).note
    assert re.search(r"\b10\D+58\D+64 anchors", note)
    above = sum(share > 0.95 for share in all_shares)
    assert re.search(rf"0\.95\D+{above}\D+24 epochs × seeds × panels", note)
    assert says(sentences(note), 0.95, f"{min(all_shares):.3f}")


def test_the_note_says_whose_encoder_it_is_where_there_are_several() -> None:
    run = made_runs.run(GraphConfig(protocol="inductive"), epochs=EPOCHS)
    assert says(sentences(draw([run]).note), "encoders", "first", "fold")
    assert not says(draw([made_runs.run(HSCL, epochs=EPOCHS)]).note, "fold")


@pytest.mark.parametrize(("share", "bottom"), [(0.9, 0.8), (0.7, 0.5), (0.3, 0.0), (0.0, 0.0)])
def test_the_axis_holds_every_band_and_says_where_it_starts(share: float, bottom: float) -> None:
    runs = [made_runs.run(HSCL, seed, epochs=EPOCHS) for seed in (0, 1)]
    runs[1].diagnostics[0]["settings"]["beta=2"]["assumption_1"] = share
    drawn = draw(runs)
    limits = {panel.get_ylim() for panel in panels(drawn)}
    assert len(limits) == 1
    low, high = limits.pop()
    assert low == bottom
    assert 1 < high < 1.05
    assert says(drawn.note, "axis") == (bottom > 0)
    assert bottom == 0 or says(sentences(drawn.note), "axis", bottom)


def test_nothing_defined_anywhere_is_refused_with_what_helps() -> None:
    run = made_runs.run(HSCL, epochs=(1,))
    for setting in run.diagnostics[0]["settings"].values():
        setting.update(assumption_1=None, defined=0)
    with pytest.raises(InputError, match=r"anchor.*batches.*--batch-size"):
        draw([run])
    run.diagnostics[0].update(anchors=0, settings={}, geometry={})
    with pytest.raises(InputError, match=r"embeddings.*finite"):
        draw([run])


@pytest.mark.parametrize(
    ("config", "tau", "words"),
    [
        (HSCL, True, ["JSD"]),
        (ImageConfig(), True, ["InfoNCE"]),
        (ImageConfig(temperature=0.2), False, ["InfoNCE", "γ = 0.2", 1, "seed"]),
    ],
)
def test_tau_is_what_l_says_at_one_temperature_alone(
    config: RunConfig, tau: bool, words: list[object]
) -> None:
    drawn = draw([made_runs.run(config, epochs=EPOCHS)])
    assert [r"\tau" in panel.get_title() for panel in panels(drawn)] == [tau, tau, False, False]
    assert says(texts(drawn), *words)
    assert ("γ" in texts(drawn)) != tau


def test_tau_is_left_out_if_one_run_has_another_temperature() -> None:
    runs = [made_runs.run(ImageConfig(temperature=g), epochs=EPOCHS) for g in (0.5, 0.2)]
    drawn = draw(runs)
    assert r"\tau" not in panels(drawn)[0].get_title()
    assert "γ = 0.5, 0.2" in texts(drawn)


def test_a_config_of_one_look_is_left_out_beside_configs_of_more() -> None:
    runs = [made_runs.run(HSCL, epochs=EPOCHS), made_runs.run(HUCL, epochs=(7,))]
    drawn = draw(runs)
    assert {row["method"] for row in drawn.rows} == {"hscl"}
    assert says(sentences(drawn.note), "left", "snapshots", "hucl β=1")
    alone = draw(runs[1:])
    assert not says(alone.note, "left")
    assert {row["method"] for row in alone.rows} == {"hucl"}


def test_seeds_without_a_common_epoch_are_refused() -> None:
    with pytest.raises(InputError, match=r"epoch.*--diagnostics.*--only seed=0"):
        draw([made_runs.run(HSCL, 0, epochs=(2,)), made_runs.run(HSCL, 1, epochs=(3,))])


def test_how_many_others_are_taken_is_said_where_snapshots_have_it() -> None:
    runs = [made_runs.run(HSCL, seed, epochs=EPOCHS) for seed in (0, 1)]
    runs[1].diagnostics[-1]["settings"]["beta=2"]["effective_hucl"] = 3.4
    runs[1].diagnostics[0]["settings"]["beta=2"]["effective_hucl"] = 1.0
    assert re.search(r"H-UCL\D+3\D+31\D+62 others", draw(runs).note)
    del runs[0].diagnostics[-1]["settings"]["beta=1"]["others"]
    assert "H-UCL" not in draw(runs).note


def test_runs_without_snapshots_are_refused() -> None:
    with pytest.raises(InputError, match="--diagnostics 1"):
        draw([made_runs.run(HSCL)])
