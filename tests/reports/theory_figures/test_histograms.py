"""Densities drawn are those of counts summed over seeds; overlaps are means over seeds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from matplotlib.axes import Axes

from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.reports import theory_figures
from tests.reports import made_runs
from tests.said import says

draw = made_runs.shown(theory_figures.histograms)

METHODS = ("ucl", "hucl", "hscl")
RUNS = [
    made_runs.run(GraphConfig(method=method), seed, epochs=(10, 20))
    for i, method in enumerate(METHODS)
    for seed in (2 * i, 2 * i + 1)  # what they showed depends on the seed alone
]


def counts(method: str, kind: str) -> list[list[int]]:
    return [
        run.diagnostics[-1]["histograms"][kind] for run in RUNS if run.run.config.method == method
    ]  # fmt: skip


def density(method: str, kind: str) -> list[float]:
    """Share of a bin, by its width of 0.04."""
    seeds = counts(method, kind)
    total = sum(sum(seed) for seed in seeds)
    return [sum(seed[i] for seed in seeds) / total / 0.04 for i in range(50)]


def overlaps(method: str) -> list[float]:
    steps = []
    for same, different in zip(counts(method, "same"), counts(method, "different"), strict=True):
        p, q = ([n / sum(row) for n in row] for row in (same, different))
        steps.append(sum(min(a, b) for a, b in zip(p, q, strict=True)))
    return steps


def stairs(axes: Axes) -> dict[str, list[float]]:
    return {
        str(patch.get_label()): patch.get_data().values.tolist()  # type: ignore[attr-defined]
        for patch in axes.patches
    }


def panels(drawn: made_runs.Shown) -> list[list[Axes]]:
    axes = drawn.figure.axes
    return [axes[: len(axes) // 2], axes[len(axes) // 2 :]]


def changed(run: RunResult, **last: Any) -> RunResult:
    return replace(run, diagnostics=[*run.diagnostics[:-1], {**run.diagnostics[-1], **last}])


def test_every_column_lays_a_variant_over_the_reference() -> None:
    for row, kind in zip(panels(draw(RUNS)), ("same", "different"), strict=True):
        for axes, method in zip(row, METHODS[1:], strict=True):
            steps = stairs(axes)
            assert steps["under"] == pytest.approx(density("ucl", kind))
            assert steps["over"] == pytest.approx(density(method, kind))
            edges = axes.patches[0].get_data().edges  # type: ignore[attr-defined]
            assert edges.tolist() == pytest.approx([-1 + 0.04 * i for i in range(51)])


def test_overlaps_are_means_and_deviations_over_seeds() -> None:
    drawn = draw(RUNS)
    for axes, method in zip(panels(drawn)[0], METHODS[1:], strict=True):
        first, second = overlaps(method)
        std = abs(first - second) / math.sqrt(2)
        overlap = f"{(first + second) / 2:.2f} ± {std:.2f}"
        assert says(axes.get_title(), f"{method} β=1", "overlap", overlap)
        row = next(row for row in drawn.rows if row["method"] == method)
        assert row["overlap_mean"] == pytest.approx((first + second) / 2)
        assert row["overlap_std"] == pytest.approx(std)
    first, second = overlaps("ucl")
    (key,) = drawn.figure.legends
    overlap = f"{(first + second) / 2:.2f} ±"
    assert says(key.get_texts()[0].get_text(), "ucl", "overlap", overlap)


def test_rows_are_the_bins_of_every_variant() -> None:
    rows = draw(RUNS).rows
    assert len(rows) == len(METHODS) * 2 * 50
    for method in METHODS:
        for kind in ("same", "different"):
            line_rows = [row for row in rows if (row["method"], row["pairs"]) == (method, kind)]
            assert [row["density"] for row in line_rows] == pytest.approx(density(method, kind))
            assert [row["count"] for row in line_rows] == [
                sum(bins) for bins in zip(*counts(method, kind), strict=True)
            ]


def test_nothing_drawn_is_cut_off() -> None:
    for row, kind in zip(panels(draw(RUNS)), ("same", "different"), strict=True):
        highest = max(max(density(method, kind)) for method in METHODS)
        assert all(axes.get_ylim()[1] > highest for axes in row)
    few = {kind: [0] * 20 + [5] * 10 + [0] * 20 for kind in ("same", "different")}
    ends = [axes.get_xlim() for axes in draw([changed(RUNS[0], histograms=few)]).figure.axes]
    assert ends == [pytest.approx((-0.22, 0.22))] * 2


@pytest.mark.parametrize(
    ("configs", "reference", "columns"),
    [
        (
            [GraphConfig(beta=2), GraphConfig(method="hucl"), GraphConfig(method="ucl")],
            "ucl",
            ["hscl β=2", "hucl β=1"],
        ),
        ([GraphConfig(beta=b) for b in (2, 0.5, 6)], "hscl β=0.5", ["hscl β=2", "hscl β=6"]),
        ([GraphConfig(), GraphConfig(method="scl")], "scl", ["hscl β=1"]),
    ],
)
def test_the_reference_is_ucl_or_of_the_least_beta(
    configs: list[RunConfig], reference: str, columns: list[str]
) -> None:
    drawn = draw([made_runs.run(config, epochs=(5,)) for config in configs])
    assert [axes.get_title().split("\n")[0] for axes in panels(drawn)[0]] == columns
    assert reference in drawn.figure.legends[0].get_texts()[0].get_text()


def test_one_variant_stands_alone() -> None:
    drawn = draw(RUNS[:1])
    assert [list(stairs(axes)) for axes in drawn.figure.axes] == [["over"], ["over"]]
    assert "±" not in drawn.figure.axes[0].get_title()
    assert drawn.rows[0]["overlap_std"] is None


def test_snapshots_before_the_last_do_not_count() -> None:
    early = {**RUNS[0].diagnostics[0], "histograms": {"same": [9] * 50, "different": [9] * 50}}
    other = replace(RUNS[0], diagnostics=[early, RUNS[0].diagnostics[1]])
    assert draw([other]).rows == draw(RUNS[:1]).rows


EMPTY = {"same": [3] * 50, "different": [0] * 50}


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([replace(RUNS[0], diagnostics=[])], r"^\D*--diagnostics 1\b"),
        (
            [*RUNS[:2], replace(RUNS[2], diagnostics=[])],
            r"MUTAG hucl.*seed 2\b.*--diagnostics 1.*--only",
        ),
        (
            [changed(RUNS[0], histograms=None)],
            r"MUTAG ucl.*seed 0\b.*histograms \(.*seed0\.json\).*--diagnostics 1",
        ),
        (
            [changed(RUNS[0], anchors=0, histograms=None)],
            r"MUTAG ucl.*seed 0\b.*finite.*seed0\.json\).*--only",
        ),
        (
            [changed(RUNS[0], histograms=EMPTY)],
            r"MUTAG ucl.*seed 0\b.*\btwo labels\b.*seed0\.json\).*classes",
        ),
        (
            [made_runs.run(GraphConfig(beta=b), epochs=(5,)) for b in range(1, 9)],
            r"\b6\b.*hscl β=1\b.*\b7\b.*hscl β=2, .*--only",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(runs: list[RunResult], words: str) -> None:
    with pytest.raises(InputError, match=words):
        draw(runs)
