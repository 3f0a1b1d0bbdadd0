"""Results of a domain that the package does not know, by an error of which less is better."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from gcl_hard.errors import InputError
from gcl_hard.evaluation import corrected_t_test
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.reports.frame import Results, result_json
from gcl_hard.reports.page import write
from gcl_hard.reports.result_figures import ranks
from gcl_hard.reports.rows import Row, rows
from gcl_hard.reports.tables import best_row, significance_table, terminal
from tests.experiments import readings, record
from tests.experiments.readings import ReadingConfig, scored
from tests.said import says

SEEDS = (0, 1, 2)
LEVEL = {"scl": 1.0, "ucl": 2.0, "hscl": 0.5, "mean": 3.0}
"""Errors of the methods, of which hscl is the best."""


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    with readings.known():
        yield


def errors(config: RunConfig, seed: int, n: int = 3) -> list[float]:
    """Errors around the level of a method, harder or easier by fold for all of them."""
    rng = np.random.default_rng([seed, len(config.dataset)])
    noise = np.random.default_rng([seed, len(config.method), int(10 * (config.beta or 0))])
    level = LEVEL[config.method] + 0.1 * abs((config.beta or 1) - 2)
    folds = level + 0.05 * rng.normal(size=n) + 0.01 * noise.normal(size=n)
    return [float(error) for error in folds]


def configs(dataset: str = "river", **settings: object) -> list[RunConfig]:
    return [ReadingConfig(dataset=dataset, method=name, **settings) for name in LEVEL]


def results(asked: Sequence[RunConfig]) -> Results:
    runs = [Run(config, seed) for config in asked for seed in SEEDS]
    return Results(asked, SEEDS, {run: scored(*run[:2], errors(*run[:2])) for run in runs})


def printed(shown: Sequence[Row]) -> str:
    file = io.StringIO()
    Console(file=file, width=200).print(terminal(shown))
    return file.getvalue()


def test_numbers_have_the_metrics_title_unit_and_digits() -> None:
    outcome = results(configs())
    text = printed(rows(outcome))
    assert says(text, "RMSE cm")
    assert "accuracy" not in text
    assert "%" not in text.replace("5%", "")
    for config in configs():
        mean = np.mean([errors(config, seed) for seed in SEEDS])
        assert f"{mean:.3f}" in text


def test_differences_are_paired_by_fold_as_in_any_domain() -> None:
    """By the corrected test over seeds and folds."""
    table = {row.method: row for row in rows(results(configs()))}
    flat = {
        name: np.ravel([errors(config, seed) for seed in SEEDS])
        for name, config in zip(LEVEL, configs(), strict=True)
    }
    expected = corrected_t_test(flat["hscl"], flat["ucl"], test_share=1 / 2)
    test = table["hscl"].tests["ucl"]
    assert test.mean == pytest.approx(np.mean(flat["hscl"] - flat["ucl"]))
    assert (test.low, test.high) == pytest.approx((expected.low, expected.high))
    assert {name for name, row in table.items() if row.is_baseline} == {"mean"}


def test_the_least_error_is_the_best_row() -> None:
    shown = rows(results(configs()))
    best = best_row(shown)
    assert best is not None
    assert best.method == "hscl"
    counted = significance_table(shown)
    against_ucl = counted[
        (counted["compared with"] == "ucl") & (counted["rows"] == "trained methods")
    ]
    better, worse = (against_ucl.iloc[0, k] for k in (-2, -1))
    assert (better, worse) == ("2", "0")  # scl and hscl, whose differences are below 0


def test_settings_are_chosen_by_less_error_and_optimism_is_above_zero() -> None:
    asked = [ReadingConfig(beta=beta) for beta in (1.0, 2.0, 4.0)]
    # Inside, the last is the best; on test, the second is.
    records = {}
    for config, seed, inner in product(asked, SEEDS, (False, True)):
        level = {1.0: 3.0, 2.0: 2.0, 4.0: 1.0}[config.beta] if inner else errors(config, seed)[0]
        records[Run(config, seed, inner)] = scored(config, seed, [level] * 3, inner=inner)
    table = rows(Results(asked, SEEDS, records, select=True))
    inside, best = (next(row for row in table if row.kind == kind) for kind in ("inside", "best"))
    assert inside.scores is not None
    assert inside.scores.mean == pytest.approx(
        np.mean([errors(asked[2], seed)[0] for seed in SEEDS])
    )
    assert best.beta == 2.0
    assert best.scores is not None
    assert best.optimism == pytest.approx(inside.scores.mean - best.scores.mean)
    assert best.optimism > 0


def test_errors_are_ranked_from_the_least() -> None:
    shown = rows(results([*configs(), *configs("lake"), *configs("sea")]))
    table = ranks(shown)
    assert table is not None
    expected = stats.rankdata([LEVEL[line.method] for line in table.lines])
    assert table.ranks == pytest.approx(expected)


def test_seeds_whose_choice_is_not_defined_are_left_out_of_what_was_chosen() -> None:
    asked = [ReadingConfig(beta=beta) for beta in (1.0, 2.0)]
    records = {
        Run(c, s, inner): scored(c, s, errors(c, s), inner=inner)
        for c in asked for s in SEEDS for inner in (False, True)
    }  # fmt: skip
    without = {run: result for run, result in records.items() if run.seed != 1}
    records[Run(asked[0], 1, inner=True)] = scored(asked[0], 1, [math.nan] * 3, inner=True)
    whole, two = (Results(asked, SEEDS, result, select=True) for result in (records, without))
    assert [result.scores for result in whole.selections] == [
        result.scores for result in two.selections
    ]
    assert whole.selections[0].scores.seeds == (0, 2)


def test_two_metrics_in_one_column_are_refused() -> None:
    asked = configs()
    records = dict(results(asked).records)
    records |= {Run(asked[1], s): record(asked[1], s, [80.0] * 3) for s in SEEDS}
    with pytest.raises(InputError) as caught:
        rows(Results(asked, SEEDS, records))
    assert says(str(caught.value), "error", "accuracy", "river")


def test_a_baseline_on_other_folds_is_not_compared_with_a_protocol() -> None:
    """It has a section of its own."""
    once = [ReadingConfig(method=name, protocol="once", parts=1) for name in ("ucl", "hscl")]
    base = ReadingConfig(method="mean")
    records = {Run(c, s): scored(c, s, errors(c, s, c.n_scores)) for c in (*once, base)
               for s in SEEDS}  # fmt: skip
    table = rows(Results([*once, base], SEEDS, records))
    assert [(row.protocol, row.method) for row in table] == [
        ("once", "ucl"), ("once", "hscl"), (base.protocol, "mean")
    ]  # fmt: skip


def test_scores_in_the_result_file_are_named_by_the_metric() -> None:
    asked = configs()[:2]
    content = json.loads(json.dumps(result_json(results(asked))))
    for result, config in zip(content["configs"], asked, strict=True):
        folds = [errors(config, seed) for seed in SEEDS]
        assert result["fold_error"] == folds
        assert result["error_mean"] == pytest.approx(np.mean(folds))
        assert not [key for key in result if "accurac" in key and not key.startswith("paper")]


def test_seeds_without_a_defined_score_are_left_out_named_and_counted(tmp_path: Path) -> None:
    """Of all methods one seed is left out; of scl all are, and the rest is as without them."""
    outcome, asked = results(configs()), configs()
    records = {
        run: scored(run.config, run.seed, [1.0, math.nan, 1.0])
        if run.seed == 1 or run.config == asked[0]
        else result
        for run, result in outcome.records.items()
    }
    shown = {row.method: row for row in rows(Results(asked, SEEDS, records))}
    two = rows(Results(asked[1:], (0, 2), records))
    assert [shown[row.method].scores for row in two] == [row.scores for row in two]
    assert shown["hscl"].tests["ucl"] == pytest.approx(
        next(row for row in two if row.method == "hscl").tests["ucl"]
    )
    assert shown["scl"].scores is None
    page, *_ = write(Results(asked, SEEDS, records), tmp_path / "a.md", command="", quick=False)
    for text in (printed([*shown.values()]), page.read_text(encoding="utf-8")):
        assert re.search(r"hscl.*2(/| of )3", text.replace("\N{NO-BREAK SPACE}", " "))
        assert not re.search(r"scl.* open", text)


def test_a_baseline_without_choices_is_tested_whatever_its_name() -> None:
    """A kernel on graphs that chooses no C cannot tell them apart; elsewhere it means nothing."""
    asked = [ReadingConfig(method=name) for name in ("ucl", "wl")]
    records = {Run(c, s): scored(c, s, errors(configs()[k], s)) for k, c in enumerate(asked)
               for s in SEEDS}  # fmt: skip
    table = rows(Results(asked, SEEDS, records))
    assert table[1].is_baseline
    assert table[1].tests.keys() == {"ucl"}
