"""Figures of the papers show the numbers of their runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from benchmarks.paper import accuracy, histograms, losses
from benchmarks.paper.__main__ import main
from gcl_hard.errors import InputError
from gcl_hard.evaluation import corrected_interval
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports.runs import LOSSES
from tests.reports import made_runs

fig1 = made_runs.shown(accuracy.fig1)
beta = made_runs.shown(accuracy.beta)
fig5 = made_runs.shown(losses.fig5)
cosines = made_runs.shown(histograms.histograms)


def points(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    drawn = {}
    for line in axes.get_lines():
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        drawn[str(line.get_label())] = (np.round(x).tolist(), y.tolist())
    return drawn


# Accuracy against epochs

FOLDS = {
    ("scl", 10): [(60.0, 64.0), (66.0, 66.0)],
    ("scl", 50): [(70.0, 74.0), (76.0, 76.0)],
    ("hscl", 10): [(70.0, 72.0), (71.0, 75.0)],
    ("hscl", 20): [(73.0, 73.0), (75.0, 75.0)],
}


def trained(**changed: Any) -> list[RunResult]:
    return [
        made_runs.run(GraphConfig(method=method, epochs=epochs, **changed), seed, accuracies=folds)
        for (method, epochs), seeds in FOLDS.items()
        for seed, folds in enumerate(seeds)
    ]


def test_test_accuracies_are_means_over_seeds_of_means_over_folds() -> None:
    drawn = fig1(trained())
    assert points(drawn.figure.axes[0]) == {
        "scl": ([10, 50], [64.0, 74.0]), "hscl β=1": ([10, 20], [72.0, 74.0]),
    }  # fmt: skip
    for row in drawn.rows:
        means = np.mean(FOLDS[row["method"], row["epoch"]], axis=1)
        numbers = row["accuracy_mean"], row["accuracy_std"]
        assert numbers == pytest.approx((means.mean(), means.std(ddof=1)))


def test_every_point_is_over_the_seeds_that_all_share_or_else_its_line_has() -> None:
    more = made_runs.run(GraphConfig(method="scl", epochs=10), 7, accuracies=(0.0,))
    assert fig1([*trained(), more]).rows == fig1(trained()).rows
    runs = [
        made_runs.run(GraphConfig(method=method, epochs=epochs), seed, accuracies=(70.0 + seed,))
        for method, seeds in (("scl", (0, 1, 2, 8)), ("hscl", (4, 6)))
        for epochs in (10, 50)
        for seed in seeds
        if (seed, epochs) != (8, 10)
    ]
    assert points(fig1(runs).figure.axes[0]) == {
        "scl": ([10, 50], [71.0, 71.0]), "hscl β=1": ([10, 50], [75.0, 75.0]),
    }  # fmt: skip


def test_monitoring_is_drawn_where_no_number_of_epochs_varies_and_never_mixed() -> None:
    def curve(method: str, seed: int, values: dict[int, float], epochs: int = 200) -> RunResult:
        config = ImageConfig(method=method, epochs=epochs)
        return made_runs.run(config, seed, curve=list(values.items()))

    runs = [curve("ucl", 0, {1: 50.0, 2: 60.0, 3: 70.0}), curve("ucl", 1, {1: 54.0, 3: 74.0}),
            curve("ucl", 2, {}), curve("scl", 0, {})]  # fmt: skip
    drawn = fig1(runs)
    assert points(drawn.figure.axes[0]) == {"ucl": ([1, 3], [52.0, 72.0])}
    assert "monitoring" in drawn.rows[0]["accuracy_on"]
    both = fig1([curve("ucl", 0, {1: 10.0, epochs: 20.0}, epochs) for epochs in (10, 50)])
    assert points(both.figure.axes[0]) == {"ucl": ([10, 50], [80.0, 80.0])}
    assert "monitoring" not in both.rows[0]["accuracy_on"]
    with pytest.raises(InputError, match=r"--epochs.*--monitor-every"):
        fig1([curve("ucl", 0, {200: 50.0})])


# Accuracy against β


def config(method: str, beta: float = 1.0, steps: int = 0) -> GraphConfig:
    return GraphConfig(method=method, beta=beta, beta_changes=steps, folds=2)


def seeds(run_config: GraphConfig, mean: float) -> list[RunResult]:
    """Two seeds of two folds each, with means one below and one above."""
    return [
        made_runs.run(run_config, 0, accuracies=(mean - 4, mean + 2)),
        made_runs.run(run_config, 1, accuracies=(mean - 1, mean + 3)),
    ]


MEANS = {
    config("ucl"): 70.0, config("dcl"): 72.0, config("scl"): 80.0,
    config("hucl", 10): 73.0, config("hucl", 1): 75.0,
    config("hcl", 2): 78.0, config("hcl", 1): 77.0, config("hcl", 1, 4): 79.0,
}  # fmt: skip
RUNS = [run for run_config, mean in MEANS.items() for run in seeds(run_config, mean)]


def test_curves_and_rules_are_means_over_seeds() -> None:
    drawn = beta(RUNS)
    left, _ = drawn.figure.axes
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["1", "2", "10"]
    shown = points(left)
    (annealed,) = (name for name in shown if "annealed" in name)
    assert shown == {
        "hucl": ([0, 2], [75.0, 73.0]), "hcl": ([0, 1], [77.0, 78.0]), annealed: ([0], [79.0]),
        "ucl": ([0, 1], [70.0, 70.0]), "dcl": ([0, 1], [72.0, 72.0]),
        "scl": ([0, 1], [80.0, 80.0]),
    }  # fmt: skip
    rows = [row for row in drawn.rows if row["panel"] == "beta"]
    means = {(r["method"], r["beta"], r["beta_changes"]): r["accuracy_mean"] for r in rows}
    assert means == {(c.method, c.beta, c.beta_changes): mean for c, mean in MEANS.items()}
    assert [row["accuracy_std"] for row in rows] == pytest.approx([math.sqrt(2)] * len(rows))


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_the_ablation_is_at_one_beta_with_corrected_intervals(share: float) -> None:
    runs = RUNS if share == 1 else [
        run for name in ("ucl", "dcl") for run in seeds(
            GraphConfig(method=name, protocol="inductive", folds=2, train_share=share), 72.0)
    ]  # fmt: skip
    rows = [row for row in beta(runs).rows if row["panel"] == "ablation"]
    if share == 1:
        assert [row["accuracy_mean"] for row in rows] == [70, 72, 75, 77]
        assert [row["beta"] for row in rows] == [None, None, 1.0, 1.0]
    for row in rows:
        mean = row["accuracy_mean"]
        values = [mean - 4, mean + 2, mean - 1, mean + 3]
        interval = corrected_interval(values, test_share=1 / share)
        expected = [interval.low, min(interval.high, 100.0)]
        assert [row["interval_low"], row["interval_high"]] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("hucl", "hcl", "shared"),
    [
        ((2, 5), (1, 2, 5), [2, 2]),
        ((), (5, 0.5), [0.5]),
        ((5,), (2,), []),
        ((0, 2), (0, 2), [2] * 2),
    ],
)
def test_the_ablation_takes_a_beta_that_both_have(
    hucl: Sequence[float], hcl: Sequence[float], shared: list[float]
) -> None:
    configs = [config("ucl"), config("dcl"), *(config("hucl", b) for b in hucl),
               *(config("hcl", b) for b in hcl)]  # fmt: skip
    rows = beta([run for run_config in configs for run in seeds(run_config, 70.0)]).rows
    assert [r["beta"] for r in rows if r["panel"] == "ablation"] == [None, None, *shared]


def test_halves_are_over_the_seeds_that_all_have() -> None:
    more = [made_runs.run(c, 7, accuracies=(0.0, 0.0)) for c in MEANS if c.method != "scl"]
    assert beta([*RUNS, *more]).rows == beta(RUNS).rows
    with pytest.raises(InputError, match=r"--beta 0\.5,1,2.*--method ucl,dcl,hucl,hcl"):
        beta([run for run in RUNS if run.run.config.method in ("scl", "ucl")])


def test_the_weight_on_the_anchors_class_stands_beside() -> None:
    def measured(run_config: GraphConfig, *weights: float) -> list[RunResult]:
        panel = "own" if run_config.beta == 5 else f"beta={run_config.beta or 1:g}"
        own = {"others": 10.0, "other_labels": 6.0, "setting": f"beta={run_config.beta or 0:g}"}
        return [
            replace(run, diagnostics=[
                {"epoch": 1, "settings": {panel: own | {"same_label_weight": weight}}}
            ])
            for run, weight in zip(seeds(run_config, 70.0), weights, strict=True)
        ]  # fmt: skip

    runs = [*measured(config("hucl", 1), 0.5, 0.6), *measured(config("hucl", 5), 0.7, 0.9),
            *measured(config("ucl"), 0.3, 0.3), *measured(config("scl"), 0.3, 0.3)]  # fmt: skip
    drawn = beta(runs)
    shown = points(drawn.figure.axes[1])
    assert {*shown} == {"hucl", "ucl"}
    assert shown["hucl"] == ([0, 1], pytest.approx([55.0, 80.0]))
    assert shown["ucl"][1] == pytest.approx([40.0, 40.0])


# The four losses

EPOCHS = (1, 5)


def test_every_panel_has_four_losses_as_means_over_seeds() -> None:
    runs = [made_runs.run(ImageConfig(method=m), s, epochs=EPOCHS)
            for m in ("hscl", "hucl", "ucl") for s in (0, 1, 2)]  # fmt: skip
    drawn = fig5(runs)
    assert {row["method"] for row in drawn.rows} == {"hscl", "hucl"}
    assert {row["method"] for row in fig5(runs, every=True).rows} == {"hscl", "hucl", "ucl"}
    grid: Any = np.array(drawn.figure.axes, dtype=object).reshape(-1, 4)
    for row, of_row in zip(grid, (runs[:3], runs[3:6]), strict=True):
        assert len({panel.get_ylim() for panel in row}) == 1
        for panel, setting in zip(row, made_runs.SETTINGS, strict=True):
            for curve, loss in zip(panel.get_lines(), LOSSES, strict=True):
                table = [[x["settings"][setting]["losses"][loss] for x in r.diagnostics]
                         for r in of_row]  # fmt: skip
                expected = np.stack([EPOCHS, np.mean(table, axis=0)], 1)
                np.testing.assert_allclose(curve.get_xydata(), expected)


def test_where_lemma_1_holds_on_average_is_counted() -> None:
    run = made_runs.run(ImageConfig(), epochs=EPOCHS)
    first = run.diagnostics[0]["settings"]
    first["beta=1"]["losses"]["hscl"] = first["beta=1"]["losses"]["hucl"]  # equal: no violation
    first["beta=2"]["losses"]["hscl"] = first["beta=2"]["losses"]["hucl"] + 1e-3
    first["l=-0.05"]["losses"].update(dict.fromkeys(LOSSES))
    drawn = fig5([run])
    held = [row["hscl_at_most_hucl"] for row in drawn.rows]
    assert (held.count(True), held.count(False), held.count(None)) == (6, 1, 1)
    assert "hscl β=1 2 of 2, 1 of 1, 2 of 2, 1 of 2." in drawn.note


def test_axes_of_losses_hold_what_falls_far() -> None:
    run = made_runs.run(ImageConfig(), epochs=EPOCHS)
    run.diagnostics[0]["settings"]["beta=1"]["losses"]["hucl"] = 50.0
    panel = fig5([run]).figure.axes[0]
    assert panel.get_yscale() == "symlog"
    assert panel.get_ylim()[1] > 50


# Histograms

METHODS = ("ucl", "hucl", "hscl")
MEASURED = [
    made_runs.run(GraphConfig(method=method), seed, epochs=(10, 20))
    for i, method in enumerate(METHODS)
    for seed in (2 * i, 2 * i + 1)  # what they showed depends on the seed alone
]


def counts(method: str, kind: str) -> np.ndarray[Any, Any]:
    """Pairs [seeds, bins] at the last snapshot."""
    stored = [run.diagnostics[-1]["histograms"][kind] for run in MEASURED
              if run.run.config.method == method]  # fmt: skip
    return np.array(stored)


def test_densities_are_of_counts_over_seeds_and_overlaps_means_over_seeds() -> None:
    drawn = cosines(MEASURED)
    top = drawn.figure.axes[:2]
    for axes, method in zip(top, METHODS[1:], strict=True):
        steps = {str(p.get_label()): p.get_data().values for p in axes.patches}  # type: ignore[attr-defined]
        for label, shown in (("under", "ucl"), ("over", method)):
            summed = counts(shown, "same").sum(0)
            np.testing.assert_allclose(steps[label], summed / summed.sum() / 0.04)
    for method in METHODS:
        same, different = (counts(method, kind) for kind in ("same", "different"))
        p, q = (kind / kind.sum(1, keepdims=True) for kind in (same, different))
        shares = np.minimum(p, q).sum(1)
        row = next(row for row in drawn.rows if row["method"] == method)
        numbers = row["overlap_mean"], row["overlap_std"]
        assert numbers == pytest.approx((shares.mean(), shares.std(ddof=1)))


@pytest.mark.parametrize(
    ("configs", "reference"),
    [
        ([GraphConfig(beta=2), GraphConfig(method="hucl"), GraphConfig(method="ucl")], "ucl"),
        ([GraphConfig(beta=b) for b in (2, 0.5, 6)], "hscl β=0.5"),
        ([GraphConfig(), GraphConfig(method="scl")], "scl"),
    ],
)
def test_the_reference_is_ucl_or_of_the_least_beta(
    configs: list[RunConfig], reference: str
) -> None:
    drawn = cosines([made_runs.run(run_config, epochs=(5,)) for run_config in configs])
    assert reference in drawn.figure.legends[0].get_texts()[0].get_text()


@pytest.mark.parametrize("same", [None, [0] * 50])
def test_what_cannot_be_compared_is_refused(same: list[int] | None) -> None:
    last = {"histograms": same and {"same": same, "different": [3] * 50}}
    run = replace(MEASURED[0], diagnostics=[MEASURED[0].diagnostics[-1] | last])
    with pytest.raises(InputError, match="MUTAG ucl"):
        cosines([run])
    with pytest.raises(InputError, match=r"\b6\b"):
        cosines([made_runs.run(GraphConfig(beta=b), epochs=(5,)) for b in range(1, 9)])


# The command


@pytest.mark.parametrize("figure", ["fig1", "fig5", "histograms", "beta"])
def test_a_figure_is_written_from_a_folder(figure: str, tmp_path: Path) -> None:
    for method in ("ucl", "hucl", "dcl"):
        for epochs in (3, 4):
            run_config = GraphConfig(method=method, epochs=epochs)
            made_runs.save(tmp_path / "results", run_config, epochs=EPOCHS)
    call = [figure, str(tmp_path / "results"), "-o", str(tmp_path / "out"), "--dataset", "MUTAG"]
    only = ["--only", "epochs=3"] if figure != "fig1" else []
    assert main([*call, *only]) == 0
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".png", ".svg", ".csv"}
    assert main([*call, "--only", "method=scl"]) == 2
