"""Curves, rules and dots are means of their configs, each where its β says."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes

from gcl_hard.errors import InputError
from gcl_hard.evaluation import corrected_interval
from gcl_hard.experiments.record import RunResult
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports import theory_figures
from tests.reports import made_runs
from tests.reports.made import sentences
from tests.said import says

draw = made_runs.shown(theory_figures.beta)


def config(method: str, beta: float = 1.0, steps: int = 0, lr: float = 0.01) -> GraphConfig:
    return GraphConfig(method=method, beta=beta, beta_changes=steps, lr=lr, folds=2)


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


def curves(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    points: dict[str, tuple[list[float], list[float]]] = {}
    for line in axes.get_lines():
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        points[str(line.get_label())] = (np.round(x).tolist(), y.tolist())
    return points


def test_curves_and_rules_are_means_over_seeds() -> None:
    left, _ = draw(RUNS).figure.axes
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["1", "2", "10"]
    points = curves(left)
    (annealed,) = (name for name in points if says(name, "hcl", "annealed", 4))
    assert points == {
        "hucl": ([0, 2], [75.0, 73.0]),
        "hcl": ([0, 1], [77.0, 78.0]),
        annealed: ([0], [79.0]),
        "ucl": ([0, 1], [70.0, 70.0]),
        "dcl": ([0, 1], [72.0, 72.0]),
        "scl": ([0, 1], [80.0, 80.0]),
    }


def test_bars_are_the_deviation_over_seeds_and_stand_at_their_points() -> None:
    left, _ = draw(RUNS).figure.axes
    bars = {
        tuple(map(float, np.round(segment[0], 6))): float(segment[1, 1] - segment[0, 1]) / 2
        for collection in left.collections
        for segment in collection.get_segments()  # type: ignore[attr-defined]
    }
    assert len(bars) == 5 + 3
    assert list(bars.values()) == pytest.approx([math.sqrt(2)] * 8)
    marked = [line for line in left.get_lines() if line.get_marker()]
    x = {float(np.round(place, 6)) for line in marked for place in np.asarray(line.get_xdata())}
    beside = {place for place, _ in bars} - x
    assert len(beside) == 3  # of the rules, right of all curves
    assert max(x) < min(beside) < max(beside) < left.get_xlim()[1]
    assert {place for place, _ in bars} == x | beside


def test_dots_are_at_one_beta_with_corrected_intervals() -> None:
    drawn = draw(RUNS)
    _, right = drawn.figure.axes
    names = [tick.get_text() for tick in right.get_xticklabels()]
    assert [re.findall(r"\((.*)\)", name) for name in names] == [
        ["ucl"], ["dcl"], ["hucl β=1"], ["hcl β=1"]
    ]  # fmt: skip
    assert [says(name, "debiased") for name in names] == [False, True, False, True]
    assert [says(name, "hard") for name in names] == [False, False, True, True]
    assert [float(line.get_ydata()[0]) for line in right.get_lines()] == [70, 72, 75, 77]  # type: ignore[index, arg-type]
    wanted = [
        corrected_interval([mean - 4, mean + 2, mean - 1, mean + 3], test_share=1)
        for mean in (70.0, 72.0, 75.0, 77.0)
    ]
    drawn_intervals = [
        collection.get_segments()[0][:, 1].tolist()  # type: ignore[attr-defined]
        for collection in right.collections
    ]
    assert drawn_intervals == [pytest.approx([interval.low, interval.high]) for interval in wanted]
    rows = [row for row in drawn.rows if row["panel"] == "ablation"]
    assert [[row["interval_low"], row["interval_high"]] for row in rows] == drawn_intervals
    assert [row["beta"] for row in rows] == [None, None, 1.0, 1.0]


def test_intervals_of_dots_count_the_graphs_trained_on() -> None:
    configs = [
        GraphConfig(method=name, protocol="inductive", folds=2, train_share=0.1)
        for name in ("ucl", "dcl")
    ]
    for row in draw([run for run_config in configs for run in seeds(run_config, 70.0)]).rows:
        interval = corrected_interval([66, 72, 69, 73], test_share=1 / 0.1)
        assert [row["interval_low"], row["interval_high"]] == pytest.approx(
            [interval.low, min(interval.high, 100.0)]
        )


@pytest.mark.parametrize(
    ("hucl", "hcl", "chosen"),
    [
        ((1, 2), (1, 2), [1, 1]),
        ((2, 5), (1, 2, 5), [2, 2]),
        ((), (5, 0.5), [0.5]),
        ((5,), (2,), []),
        ((0, 2), (0, 2), [2, 2]),
    ],
)
def test_the_ablation_takes_a_beta_that_both_have(
    hucl: tuple[float, ...], hcl: tuple[float, ...], chosen: list[float]
) -> None:
    configs = [config("ucl"), config("dcl"), *(config("hucl", b) for b in hucl)]
    configs += [config("hcl", b) for b in hcl]
    drawn = draw([run for run_config in configs for run in seeds(run_config, 70.0)])
    dots = [row for row in drawn.rows if row["panel"] == "ablation"]
    assert [row["beta"] for row in dots] == [None, None, *chosen]


def test_rows_are_what_is_drawn() -> None:
    rows = [row for row in draw(RUNS).rows if row["panel"] == "beta"]
    drawn = {
        (row["method"], row["beta"], row["beta_changes"]): row["accuracy_mean"] for row in rows
    }
    assert drawn == {
        (run_config.method, run_config.beta, run_config.beta_changes): mean
        for run_config, mean in MEANS.items()
    }
    for row in rows:
        plain = row["line"] == row["method"]
        assert plain or says(row["line"], row["method"], "annealed", row["beta_changes"])
        assert plain == (not row["beta_changes"])
    assert [row["accuracy_std"] for row in rows] == pytest.approx([math.sqrt(2)] * len(rows))


def test_either_half_is_drawn_alone() -> None:
    (axes,) = draw([run for run in RUNS if run.run.config.method in {"hucl", "scl"}]).figure.axes
    assert list(curves(axes)) == ["scl", "hucl"]
    drawn = draw([run for run in RUNS if run.run.config.method in {"ucl", "dcl"}])
    assert [row["panel"] for row in drawn.rows] == ["ablation"] * 2
    assert len(drawn.figure.axes) == 1
    assert says(draw(RUNS).note, "β")
    assert "β" not in drawn.note


def test_lines_of_a_method_are_told_apart_by_what_else_differs() -> None:
    configs = [config("hucl", b, lr=lr) for b in (1, 2) for lr in (0.01, 0.1)]
    (axes,) = draw([run for run_config in configs for run in seeds(run_config, 70.0)]).figure.axes
    assert list(curves(axes)) == ["hucl lr=0.01", "hucl lr=0.1"]


def test_one_seed_on_one_split_has_neither_bar_nor_interval() -> None:
    configs = [
        ImageConfig(method="ucl"),
        ImageConfig(method="hcl"),
        ImageConfig(method="hcl", beta=2),
    ]
    drawn = draw([made_runs.run(run_config, accuracies=(90.0,)) for run_config in configs])
    assert all(row["accuracy_std"] is None is row["interval_low"] for row in drawn.rows)
    assert says(drawn.figure.axes[0].get_ylabel(), "test", "images")
    assert len(drawn.figure.axes[1].collections) == 0


def test_halves_are_over_the_seeds_that_all_have() -> None:
    more = [
        made_runs.run(run_config, 7, accuracies=(0.0, 0.0))
        for run_config in MEANS
        if run_config.method != "scl"
    ]
    drawn, plain = draw([*RUNS, *more]), draw(RUNS)
    assert drawn.rows == plain.rows
    assert says(sentences(drawn.note), 2, "seeds", 3)
    assert says(sentences(plain.note), 2, "seeds")
    assert not says(plain.note, 3)
    assert says(drawn.figure.texts[-1].get_text(), 2, "seeds")


def test_versions_are_counted_of_what_is_drawn() -> None:
    runs = [
        replace(run, versions={"source": run.run.config.method})
        for run in RUNS
        if run.run.config.method != "scl"
    ]
    assert says(sentences(draw(runs).note), 4, "versions")
    assert not says(
        draw([replace(run, versions={"source": "one"}) for run in runs]).note, "versions"
    )
    few = [run for run in runs if run.run.config.method in {"ucl", "dcl"}]
    unseen = [made_runs.run(config("scl"), seed, version="another") for seed in (0, 1)]
    assert says(sentences(draw([*few, *unseen]).note), 2, "versions")


def test_many_lines_differ_in_dashes_and_marker_and_keep_to_their_beta() -> None:
    configs = [
        config(m, b, lr=lr) for m in ("hucl", "hcl") for lr in (0.1, 0.2, 0.3, 0.4) for b in (1, 2)
    ]
    (axes, *_) = draw(
        [run for run_config in configs for run in seeds(run_config, 70.0)]
    ).figure.axes
    lines = axes.get_lines()
    shown = {(line.get_linestyle(), line.get_marker(), line.get_color()) for line in lines}
    assert len(shown) == len(lines) == 8
    x = np.array([line.get_xdata() for line in lines])
    assert np.abs(x - [0, 1]).max() < 0.5


def test_accuracies_end_at_a_hundred() -> None:
    configs = [GraphConfig(method="ucl", folds=2), GraphConfig(method="dcl", folds=2)]
    (axes,) = draw(
        [made_runs.run(run_config, accuracies=(100.0, 60.0)) for run_config in configs]
    ).figure.axes
    assert axes.get_ylim()[1] == 100.5


@pytest.mark.parametrize("kept", [{"ucl"}, {"scl", "ucl"}, {"dcl"}])
def test_neither_half_says_what_gives_one(kept: set[str]) -> None:
    with pytest.raises(InputError, match=r"--beta 0\.5,1,2.*--method ucl,dcl,hucl,hcl"):
        draw([run for run in RUNS if run.run.config.method in kept])


def measured(run_config: GraphConfig, weights: tuple[float, float]) -> list[RunResult]:
    """Two seeds with a snapshot in which q has some weight on the anchor's class."""

    def snapshot(weight: float) -> dict[str, object]:
        seen = {"same_label_weight": weight, "others": 10.0, "other_labels": 6.0}
        named = "own" if run_config.beta == 5 else f"beta={run_config.beta or 1:g}"
        return {
            "epoch": 1,
            "settings": {named: {**seen, "setting": f"beta={run_config.beta or 0:g}"}},
        }

    return [
        replace(run, diagnostics=[snapshot(weight)])
        for run, weight in zip(seeds(run_config, 70.0), weights, strict=True)
    ]


def test_the_weight_on_the_anchors_class_stands_beside() -> None:
    runs = [*measured(config("hucl", 1), (0.5, 0.6)), *measured(config("hucl", 5), (0.7, 0.9)),
            *measured(config("ucl"), (0.3, 0.3)), *measured(config("scl"), (0.3, 0.3))]  # fmt: skip
    drawn = draw(runs)
    left, right = drawn.figure.axes
    assert set(curves(left)) == {"hucl", "ucl", "scl"}
    points = curves(right)
    assert points["hucl"] == ([0, 1], pytest.approx([55.0, 80.0]))
    assert points["ucl"][1] == pytest.approx([40.0, 40.0])
    assert set(points) == {"hucl", "ucl"}
    rows = [row for row in drawn.rows if row["panel"] == "collisions"]
    assert [row["weight_std"] for row in rows] == pytest.approx(
        [0.0, 10 / math.sqrt(2), 20 / math.sqrt(2)], abs=1e-9
    )
    assert len(draw([replace(run, diagnostics=[]) for run in runs]).figure.axes) == 1
