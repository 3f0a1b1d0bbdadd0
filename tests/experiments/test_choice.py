"""Choosing inside training data: by either kind of inner score, in either direction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.choice import best, choice, choices, inner_scores
from gcl_hard.experiments.plan import inner_run, plan
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.run import Run
from tests.experiments import readings, record
from tests.experiments.readings import ReadingConfig, ValidatedConfig, scored
from tests.said import says

RATES = (0.1, 0.2, 0.4)
SEEDS = (0, 1)


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    with readings.known():
        yield


def errors(rate: int, seed: int) -> list[float]:
    """Of three folds; none is tied."""
    rng = np.random.default_rng([rate, seed])
    return [float(error) for error in rng.uniform(1, 2, size=3)]


def slowly(inner: list[list[list[float]]], *, higher: bool) -> list[list[int]]:
    """The candidate that is best in each seed and fold, by a loop."""
    best_values = []
    for seed in range(len(inner[0])):
        row = []
        for fold in range(len(inner[0][seed])):
            values = [candidate[seed][fold] for candidate in inner]
            row.append(values.index(max(values) if higher else min(values)))
        best_values.append(row)
    return best_values


@pytest.mark.parametrize("higher", [False, True])
def test_the_first_of_the_best_is_chosen_in_the_metrics_direction(*, higher: bool) -> None:
    for scores in product((1.0, 2.0, 3.0), repeat=3):
        least, most = min(scores), max(scores)
        assert best(scores, higher=higher) == scores.index(most if higher else least)


@pytest.mark.parametrize("validated", [False, True])
def test_less_error_is_chosen_fold_by_fold_and_once(*, validated: bool) -> None:
    """By inner runs, or by the validation part that the runs themselves have scored."""
    kind = ValidatedConfig if validated else ReadingConfig
    configs = [kind(lr=rate) for rate in RATES]
    runs = {config: [inner_run(config, seed) for seed in SEEDS] for config in configs}
    records: dict[Run, RunResult] = {}
    for (index, config), seed in product(enumerate(configs), SEEDS):
        (of_seed,) = [run for run in runs[config] if run.seed == seed]
        inner, outer = errors(index, seed), [9.0 - index] * 3
        result = scored(config, seed, outer if validated else inner, inner=of_seed.inner)
        if validated:
            result = replace(result, validation=inner)
        records[of_seed] = result
    chosen = choice(configs, runs, records)
    table = [[errors(index, seed) for seed in SEEDS] for index in range(len(configs))]
    assert [list(row) for row in chosen.fold_by_fold] == slowly(table, higher=False)
    means = [float(np.mean(values)) for values in table]
    assert chosen.best == configs[int(np.argmin(means))]
    assert chosen.score(configs[1]) == pytest.approx(means[1])
    taken = chosen.taken([[[10.0 * k + fold for fold in range(3)]] * 2 for k in range(3)])
    assert taken.tolist() == [
        [10.0 * k + fold for fold, k in enumerate(row)] for row in chosen.fold_by_fold
    ]


def test_no_inner_run_is_planned_where_every_run_has_a_validation_part() -> None:
    configs = [ValidatedConfig(lr=rate) for rate in RATES]
    assert plan(configs, SEEDS, select=True) == plan(configs, SEEDS, select=False)
    others = [ReadingConfig(lr=rate) for rate in RATES]
    assert len(plan(others, SEEDS, select=True)) == 2 * len(plan(others, SEEDS, select=False))


def test_what_is_open_decides_nothing_and_is_counted() -> None:
    configs = [ReadingConfig(lr=rate) for rate in RATES]
    shorter = {config: inner_run(config, 0) for config in configs}
    records = {shorter[configs[1]]: scored(configs[1], 0, errors(1, 0), inner=True)}
    (chosen,) = choices(shorter, records)
    assert (chosen.best, chosen.finished, chosen.candidates) == (None, 1, tuple(configs))
    assert (chosen.score(configs[0]), chosen.score(configs[1])) == (
        None, pytest.approx(np.mean(errors(1, 0)))
    )  # fmt: skip


def test_a_result_without_validation_scores_is_open() -> None:
    config = ValidatedConfig()
    result = scored(config, 0, [1.0, 2.0, 3.0])
    assert inner_scores(result) == []
    other = ValidatedConfig(lr=0.9)
    runs = {candidate: [inner_run(candidate, 0)] for candidate in (config, other)}
    records = {runs[config][0]: result, runs[other][0]: scored(other, 0, [1.0, 2.0, 3.0])}
    chosen = choice([config, other], runs, records)
    assert (chosen.best, chosen.finished) == (None, 0)


def test_a_score_that_is_not_defined_decides_nothing() -> None:
    configs = [ReadingConfig(lr=rate) for rate in RATES[:2]]
    shorter = {config: inner_run(config, 0) for config in configs}
    for values in ([math.nan] * 3, [1.0, 2.0, math.nan]):
        records = {
            run: scored(config, 0, scores, inner=True)
            for (config, run), scores in zip(
                shorter.items(), (values, [1.0, 2.0, 3.0]), strict=True
            )
        }
        (chosen,) = choices(shorter, records)
        assert (chosen.best, chosen.finished) == (None, 1)


def test_candidates_scored_by_two_metrics_are_refused() -> None:
    configs = [ReadingConfig(lr=rate) for rate in RATES[:2]]
    runs = {config: [inner_run(config, 0)] for config in configs}
    records = {
        runs[configs[0]][0]: scored(configs[0], 0, [1.0, 2.0, 3.0], inner=True),
        runs[configs[1]][0]: record(configs[1], 0, [80.0, 90.0, 70.0], inner=True),
    }
    with pytest.raises(InputError) as caught:
        choice(configs, runs, records)
    assert says(str(caught.value), "error", "accuracy", "river")
