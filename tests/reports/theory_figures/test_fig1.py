"""Points against epochs are means and deviations over seeds, of one source."""

from __future__ import annotations

import math
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

draw = made_runs.shown(theory_figures.fig1)

FOLDS = {
    ("scl", 10): [(60.0, 64.0), (66.0, 66.0)],
    ("scl", 50): [(70.0, 74.0), (76.0, 76.0)],
    ("hscl", 10): [(70.0, 72.0), (71.0, 75.0)],
    ("hscl", 50): [(76.0, 76.0), (80.0, 80.0)],
    ("hscl", 20): [(73.0, 73.0), (75.0, 75.0)],
}


def trained(**changed: Any) -> list[RunResult]:
    return [
        made_runs.run(GraphConfig(method=method, epochs=epochs, **changed), seed, accuracies=folds)
        for (method, epochs), seeds in FOLDS.items()
        for seed, folds in enumerate(seeds)
    ]


def curve(config: RunConfig, seed: int, points: dict[int, float]) -> RunResult:
    return made_runs.run(config, seed, curve=list(points.items()))


def lines(drawn: made_runs.Shown) -> dict[str, tuple[list[float], list[float]]]:
    (axes,) = drawn.figure.axes
    points: dict[str, tuple[list[float], list[float]]] = {}
    for line in axes.get_lines():
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        points[str(line.get_label())] = (x.tolist(), y.tolist())
    return points


def test_test_accuracies_are_means_over_seeds_of_means_over_folds() -> None:
    drawn = draw(trained())
    assert lines(drawn) == {
        "scl": ([10, 50], [64.0, 74.0]),
        "hscl β=1": ([10, 20, 50], [72.0, 74.0, 78.0]),
    }
    stds = {(row["method"], row["epoch"]): row["accuracy_std"] for row in drawn.rows}
    for key, seeds in FOLDS.items():
        means = [sum(folds) / len(folds) for folds in seeds]
        middle = sum(means) / len(means)
        square = sum((mean - middle) ** 2 for mean in means) / (len(means) - 1)
        assert stds[key] == pytest.approx(math.sqrt(square))
    segments = [bars.get_segments() for bars in drawn.figure.axes[0].collections]  # type: ignore[attr-defined]
    low, high = segments[0][0][:, 1]  # scl, 10 epochs: means 62 and 66
    assert (low, high) == pytest.approx((64 - math.sqrt(8), 64 + math.sqrt(8)))


def test_rows_are_the_points_drawn() -> None:
    drawn = draw(trained())
    for label, (x, y) in lines(drawn).items():
        line_rows = [row for row in drawn.rows if row["line"] == label]
        assert [row["epoch"] for row in line_rows] == x
        assert [row["accuracy_mean"] for row in line_rows] == y
    (where,) = {row["accuracy_on"] for row in drawn.rows}
    assert says(where, "test", "folds")
    assert {row["seeds"] for row in drawn.rows} == {2}


def test_every_point_is_over_the_seeds_that_all_share() -> None:
    plain = trained()
    more = [made_runs.run(GraphConfig(method="scl", epochs=10), 7, accuracies=(0.0,))]
    drawn = draw([*plain, *more])
    assert drawn.rows == draw(plain).rows
    assert says(sentences(drawn.note), 2, "seeds", 3)
    assert says(sentences(draw(plain).note), 2, "seeds")
    assert not says(draw(plain).note, 3)


def test_lines_that_share_no_seed_are_over_their_own_and_it_is_said() -> None:
    runs = [
        made_runs.run(GraphConfig(method=method, epochs=epochs), seed, accuracies=(70.0 + seed,))
        for method, seeds in (("scl", (0, 1, 2, 8)), ("hscl", (4, 6)))
        for epochs in (10, 50)
        for seed in seeds
        if (seed, epochs) != (8, 10)
    ]
    drawn = draw(runs)
    assert says(sentences(drawn.note), "seeds", "differ")
    assert lines(drawn) == {"scl": ([10, 50], [71.0, 71.0]), "hscl β=1": ([10, 50], [75.0, 75.0])}
    apart = [
        made_runs.run(GraphConfig(epochs=e), s, accuracies=(70.0,)) for s, e in ((0, 10), (1, 50))
    ]
    assert says(sentences(draw(apart).note), "seeds", "differ")
    assert len(draw(apart).rows) == 2


def test_labels_of_test_folds_are_seen_in_protocol_paper_alone() -> None:
    assert says(sentences(draw(trained()).note), "scl", "hscl", "seen", "test labels")
    assert not says(draw(trained(protocol="inductive")).note, "labels")


def test_settings_of_a_method_are_lines_of_their_own() -> None:
    runs = [made_runs.run(GraphConfig(beta=b, epochs=e), accuracies=(80 + b,)) for b in (1, 2)
            for e in (10, 50)]  # fmt: skip
    assert lines(draw(runs)) == {
        "hscl β=1": ([10, 50], [81.0, 81.0]), "hscl β=2": ([10, 50], [82.0, 82.0]),
    }  # fmt: skip


def test_monitoring_is_drawn_where_no_number_of_epochs_varies() -> None:
    runs = [
        curve(ImageConfig(method="ucl"), 0, {1: 50.0, 2: 60.0, 3: 70.0}),
        curve(ImageConfig(method="ucl"), 1, {1: 54.0, 3: 74.0}),
        curve(ImageConfig(method="ucl"), 2, {}),
        curve(ImageConfig(method="scl"), 0, {}),
    ]
    drawn = draw(runs)
    assert lines(drawn) == {"ucl": ([1, 3], [52.0, 72.0])}
    assert drawn.rows[0]["accuracy_std"] == pytest.approx(math.sqrt(8))
    (where,) = {row["accuracy_on"] for row in drawn.rows}
    assert says(where, "training", "images", "monitoring")
    assert says(drawn.note, "monitoring")
    assert says(sentences(drawn.note), "curve", "scl")
    (axes,) = drawn.figure.axes
    assert says(axes.get_ylabel(), "monitoring")
    assert says(drawn.figure.texts[-1].get_text(), "monitoring")


def test_sources_are_never_mixed() -> None:
    runs = [
        made_runs.run(ImageConfig(epochs=e), accuracies=(80.0,), curve=[(1, 10.0), (e, 20.0)])
        for e in (10, 50)
    ]
    drawn = draw(runs)
    assert lines(drawn) == {"hscl β=1": ([10, 50], [80.0, 80.0])}
    assert not says(drawn.note, "monitoring")


def test_bands_are_drawn_of_a_few_lines_only() -> None:
    methods = ["ucl", "dcl", "hucl", "scl", "hscl"]
    runs = [
        curve(ImageConfig(method=m), s, {1: 50.0 + s, 2: 60.0}) for m in methods for s in (0, 1)
    ]
    few, many = draw(runs[:8]), draw(runs)
    assert [len(drawn.figure.axes[0].collections) for drawn in (few, many)] == [4, 0]
    assert says(few.note, "bands", "±")
    assert not says(many.note, "bands")


@pytest.mark.parametrize(
    "runs",
    [
        [made_runs.run(GraphConfig(method=m), s) for m in ("ucl", "scl") for s in (0, 1)],
        [curve(ImageConfig(), 0, {200: 50.0})],
        [curve(ImageConfig(), 0, {100: 50.0}), curve(ImageConfig(), 1, {200: 50.0})],
    ],
)
def test_one_number_of_epochs_without_curves_says_what_gives_the_figure(
    runs: list[RunResult],
) -> None:
    with pytest.raises(InputError, match=r"--epochs 10,50,200.*--monitor-every 1"):
        draw(runs)
