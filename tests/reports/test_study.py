"""Sentences and tables about a study, against numbers worked out beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gcl_hard.nodes.settings import NodeConfig
from gcl_hard.reports.frame import standard_error
from gcl_hard.reports.study import (
    best_trials,
    caution,
    inner_error,
    numbers,
    outer_error,
    space,
    states,
)
from gcl_hard.tuning.result import SearchResult
from tests.experiments import readings
from tests.reports.made import counts, lines_of
from tests.reports.made_study import (
    PAPER,
    SHARE,
    finding,
    mirrored,
    result_of,
    searched,
    study,
    trial,
)
from tests.said import says


def texts(result: SearchResult) -> list[list[str]]:
    return lines_of(numbers(result))


def test_three_numbers_with_their_errors() -> None:
    inner, outer, optimism = texts(result_of())
    # 100 √(0.7 · 0.3 / 48) = 6.61, 100 √(0.61 · 0.39 / 103) = 4.81, together 8.18
    assert inner[2:] == ["70.0 %", "6.6"]
    assert says(inner[1], "best", 6, "trials", 48, "graphs", "a hold-out of 20 %")
    assert outer[2:] == ["61.0 %", "4.8"]
    assert says(outer[1], 103, "graphs", "a hold-out of 30 %")
    assert optimism[2:] == ["+9.0 points", "8.2"]
    assert says(optimism[1], 1.1, "standard errors")
    assert not says(optimism[1], "no sign")
    *_, negative = texts(result_of(finding(searched(), outer=72.0)))
    assert says(negative[1], "no sign of optimism")


def test_without_sizes_there_are_no_errors() -> None:
    shown = texts(result_of(n_inner_test=None, n_outer_test=None))
    assert [row[2:] for row in shown] == [["70.0 %", "–"], ["61.0 %", "–"], ["+9.0 points", "–"]]


def test_several_studies_are_averaged_and_their_outer_parts_joined() -> None:
    result = result_of(finding(searched(), outer=60.0), finding(searched(), outer=64.0))
    inner, outer, optimism = texts(result)
    assert says(inner[1], "mean", 2, "studies", "best", 6, "trials")
    assert (outer[2], optimism[2]) == ("62.0 %", "+8.0 points")
    error = outer_error(result)
    assert error is not None
    assert math.isclose(error, standard_error(62.0, 206))


def test_a_mean_over_studies_is_said_to_have_at_most_the_error_of_one() -> None:
    """Their hold-outs may share graphs: only where none is shared would it be smaller."""
    better = study(trial(90.0, {"beta": 1.0}))
    result = result_of(finding(searched()), finding(better), n_inner_test=50)
    error = inner_error(result)
    assert error is not None
    assert math.isclose(error, standard_error(80.0, 50))
    apart = 100 * np.concatenate([np.arange(50) < 35, np.arange(50) < 45])
    assert error > apart.std() / math.sqrt(100)
    of_one = inner_error(result, result.findings[1])
    assert of_one is not None
    assert math.isclose(of_one, standard_error(90.0, 50))


def test_a_mean_of_some_outer_parts_is_none() -> None:
    failed = "on the whole part its settings failed: diverged"
    result = result_of(finding(searched()), finding(searched(), outer=None, why=failed))
    assert result.outer is result.optimism is outer_error(result) is None
    assert result.outer_missing == failed
    assert texts(result)[1][1] == failed
    assert result_of(finding(searched()), finding(searched())).outer_missing is None


def test_a_second_look_at_the_outer_part_is_told() -> None:
    assert not says(texts(result_of())[1][1], "scored")
    assert says(texts(result_of(finding(searched(), n_outer=3)))[1][1], 3, "scored")


def test_the_paper_s_protocol_has_one_number_and_a_warning() -> None:
    result = result_of(finding(searched(), outer=None, config=PAPER), protocol="transductive")
    (score,) = texts(result)
    assert says(score[0], "test folds")
    assert score[2:] == ["70.0 %", "6.6"]
    warning = caution(result) or ""
    assert says(warning, "no estimate", "test folds", "labels", "seen")
    assert caution(result_of()) is None


def test_a_search_over_overlapping_splits_has_a_warning() -> None:
    for splits in (1, 5):
        config = NodeConfig("Cora", "hucl", splits=splits)
        warning = caution(result_of(finding(searched(), config=config))) or ""
        assert says(warning, "overlap", splits) == (splits > 1)


# The time that a search took


def took(*spans: tuple[float, float]) -> float:
    searches = study(*(trial(50.0, {"beta": 1.0}, begun=b, seconds=s) for b, s in spans))
    return finding(searches).seconds


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 10)], [(0, 10), (10, 5)], [(0, 10), (2, 3)], [(0, 10), (5, 10), (30, 1)],
        [(90, 8), (0, 40), (20, 30), (45, 5), (45, 5)], [(0, 10), (86400, 10)], [(3, 0)],
    ],
)  # fmt: skip
def test_time_counts_while_some_trial_is_at_work(spans: list[tuple[float, float]]) -> None:
    seconds = {int(s) for begun, long in spans for s in np.arange(begun, begun + long)}
    assert took(*spans) == len(seconds)


def test_the_night_after_a_worker_died_is_left_out() -> None:
    night = trial("lost", {"beta": 1.0}, begun=30, seconds=43200)
    del night.user_attrs["failure"]  # told FAIL in the morning
    again = trial(60.0, {"beta": 1.0}, begun=43230, seconds=30)
    assert finding(study(trial(50.0, {"beta": 2.0}), night, again)).seconds <= 60


# Tables


def test_the_space_names_every_setting_with_its_range() -> None:
    searches = study(
        trial(50.0, {"lr": 0.01, "layers": 2, "readout": "sum"}), trial(50.0, {"lr": 0.01})
    )
    rows = lines_of(space([searches, searches]))
    assert [row[:2] for row in rows] == [
        ["learning rate", "0.0001 to 0.1, logarithmic"], ["layers", "1 to 5, whole numbers"],
        ["readout", "one of sum, mean"],
    ]  # fmt: skip
    assert [counts(row[-1]) for row in rows] == [[4, 4], [2, 4], [2, 4]]


def test_the_best_five_trials_are_in_order() -> None:
    table = best_trials(searched(), searched().best_trial, 4.0, SHARE)
    numbers = [(counts(row[0])[0], says(row[0], "grid")) for row in lines_of(table)]
    assert numbers == [(3, False), (1, True), (6, False), (0, True), (8, False)]
    assert [row[-3:] for row in lines_of(table)] == [
        ["70.0", "–", "–"], ["65.0", "+5.0", "1.2"], ["62.0", "+8.0", "2.0"],
        ["60.0", "+10.0", "2.5"], ["58.0", "+12.0", "3.0"],
    ]  # fmt: skip
    assert [*table.columns][:4] == ["trial", "β", "learning rate", "temperature γ"]
    assert says([*table.columns][4], "inner", "accuracy")
    equal = study(*(trial(50.0, {"beta": b}) for b in (1.0, 2.0, 3.0)))
    rows = lines_of(best_trials(equal, equal.trials[1], None, SHARE))
    assert [counts(row[0])[0] for row in rows] == [1, 0, 2]  # first the one that was taken


def test_states_are_counted_with_the_reasons_of_failure() -> None:
    searches = study(*searched().trials, trial("out of memory", {"beta": 1.0}))
    assert lines_of(states(searches)) == [
        ["complete", "", "6"],
        ["pruned", "", "1"],
        ["failed", "diverged: 2, out of memory: 1", "3"],
    ]


def test_a_search_by_an_error_reads_like_one_by_what_is_right_turned_over() -> None:
    shares, searches = searched(), mirrored(searched())
    with readings.known():
        score = finding(searches, outer=39.0, metric="error")
        result = result_of(score)
        inner, outer, optimism = texts(result)
        assert caution(result) is None
    assert inner[2:] == ["30.000 cm", "–"]
    assert outer[2:] == ["39.000 cm", "–"]
    assert optimism[2:] == ["+9.000 cm", "–"]
    best = [
        best_trials(a, a.best_trial, None, b)
        for a, b in ((shares, SHARE), (searches, readings.ERROR))
    ]
    assert best[0]["trial"].tolist() == best[1]["trial"].tolist()
    assert best[0].iloc[:, -2].tolist() == [f"{float(x):+.1f}" if x != "–" else x
                                             for x in best[1].iloc[:, -2]]  # fmt: skip
    assert [100 - float(score) for score in best[0]["inner accuracy, %"]] == [
        float(score) for score in best[1]["inner RMSE, cm"]
    ]
