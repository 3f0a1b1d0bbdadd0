"""Differences of rows, against the corrected t-test and Holm's correction worked out by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from benchmarks.recipe.page import FIRST, QUESTIONS, RecipeTable, summary
from benchmarks.recipe.table import REPORTED, Entry
from gcl_hard.reports.frame import Comparison, corrected
from gcl_hard.reports.tables import NBSP
from gcl_hard.runs.plan import Run
from tests.benchmarks.recipe.made_recipes import recipes
from tests.benchmarks.recipe.made_table import (
    METHODS,
    PROTOCOLS,
    SEEDS,
    SETS,
    compared,
    of,
    step_down,
)
from tests.reports.made import counts as numbers

__all__ = ["recipes"]

pytestmark = pytest.mark.usefixtures("recipes")

FOLDS = 10
CONTRAST, HARD, LABELS = [*QUESTIONS][:FIRST]


def row(found: RecipeTable, part: Any, name: str, protocol: str = "inductive") -> Entry:
    one = found.row(part, name, protocol)
    assert one is not None
    return one


def accuracies(found: RecipeTable, one: Entry, dataset: str, seed: int) -> list[float]:
    return found.results.records[Run(one.configs[dataset], seed)].values


def by_hand(
    found: RecipeTable, a: Entry, b: Entry, dataset: str, seeds: tuple[int, ...]
) -> tuple[float, float, float, float]:
    """Mean, ends of the interval and p of the corrected resampled t-test."""
    d = np.concatenate([
        np.subtract(accuracies(found, a, dataset, s), accuracies(found, b, dataset, s))
        for s in seeds
    ])  # fmt: skip
    assert d.size == FOLDS * len(seeds)
    error = np.sqrt((1 / d.size + 1 / (FOLDS - 1)) * d.var(ddof=1))
    half = student.ppf(0.975, d.size - 1) * error
    p = 2 * student.sf(abs(d.mean()) / error, d.size - 1)
    return d.mean(), d.mean() - half, d.mean() + half, p


def close(one: Comparison, expected: tuple[float, float, float, float]) -> bool:
    return bool(np.allclose((one.mean, one.low, one.high, one.p), expected, rtol=1e-9))


# Pairs


def test_a_difference_is_the_corrected_t_test_of_paired_folds() -> None:
    found = compared(lambda r, d: 1.5 * of(r, "ours", "hucl") + (d == "MUTAG"))
    a, b = row(found, "ours", "hucl"), row(found, "ours", "ucl")
    pair = found.pair(a, b)
    assert pair is not None
    assert (pair.ours, pair.theirs, [*pair.on]) == (a, b, [*SETS])
    for dataset, one in pair.on.items():
        assert close(one, by_hand(found, a, b, dataset, SEEDS))
        assert one.seeds == 2
    whole = found.over_sets(pair)
    assert whole is not None
    assert whole.mean == pytest.approx(np.mean([one.mean for one in pair.on.values()]))
    turned = found.pair(b, a)
    assert turned is not None
    back = found.over_sets(turned)
    assert back is not None
    assert back.mean == pytest.approx(-whole.mean)


def test_only_seeds_that_both_rows_have_are_compared() -> None:
    seeds = (100, 101, 102)
    lacking = {("hucl", 100), ("ucl", 102)}
    found = compared(seeds=seeds, finished=lambda r, d, s: (r.method, s) not in lacking)
    a, b = row(found, "ours", "hucl"), row(found, "ours", "ucl")
    pair = found.pair(a, b)
    assert pair is not None
    for dataset, one in pair.on.items():
        assert one.seeds == 1
        assert close(one, by_hand(found, a, b, dataset, (101,)))


def test_where_no_seed_is_shared_there_is_no_difference() -> None:
    done = {("hucl", "MUTAG", 100), ("ucl", "MUTAG", 101), ("hucl", "PTC_MR", 101),
            ("ucl", "PTC_MR", 101), ("scl", "MUTAG", 100)}  # fmt: skip
    found = compared(finished=lambda r, d, s: (r.method, d, s) in done)
    hucl, ucl, scl = (row(found, "ours", m) for m in ("hucl", "ucl", "scl"))
    pair = found.pair(hucl, ucl)
    assert pair is not None
    assert [*pair.on] == ["PTC_MR"]
    assert found.pair(scl, ucl) is None
    assert found.pair(None, ucl) is None
    assert found.pair(ucl, None) is None


def test_significant_is_below_five_percent() -> None:
    assert Comparison(1.0, 0.0, 2.0, 2, 0.0499, None).significant
    assert not Comparison(1.0, 0.0, 2.0, 2, 0.05, None).significant


# Questions


def test_questions_are_asked_of_the_papers_methods_under_our_recipe() -> None:
    asked = [{*pairs} for pairs in QUESTIONS.values()]
    ours = [{(a[1], b) for a, b in pairs if a[0] == "ours"} for pairs in asked]
    untrained = ("baselines", "untrained")  # of the paper's recipe
    assert [one for one in ours if one] == [
        {(m, ("ours", "untrained")) for m in REPORTED},
        {("hucl", ("ours", "ucl")), ("hscl", ("ours", "scl"))},
        {("scl", ("ours", "ucl")), ("hscl", ("ours", "hucl"))},
        {(m, ("paper", m)) for m in REPORTED},
        {("hucl", ("baselines", "wl-oa")), ("hscl", ("baselines", "wl-oa"))},
        {("hscl", ("ours", "supervised"))},
    ]
    assert {(("paper", m), untrained) for m in REPORTED} in asked
    assert {(("on", "two views"), untrained)} in asked


def test_answers_are_of_inductive_and_p_is_corrected_over_the_whole_question() -> None:
    found = compared(lambda r, d: 0.6 * (r.part == "ours") + 0.3 * of(r, "ours", "hucl"))
    assert [*found.questions] == [*QUESTIONS]
    moved = 0
    for question, asked in QUESTIONS.items():
        pairs = [(row(found, *a), row(found, *b)) for a, b in asked]
        whole = [by_hand(found, a, b, d, SEEDS) for a, b in pairs for d in SETS]
        adjusted = iter(step_down([p for *_, p in whole]))
        for (a, b), pair in zip(pairs, found.questions[question], strict=True):
            assert (pair.ours, pair.theirs) == (a, b)
            assert a.protocol == b.protocol == "inductive"
            for dataset in SETS:
                *numbers, raw = by_hand(found, a, b, dataset, SEEDS)
                expected = next(adjusted)
                moved += expected > raw
                assert close(pair.on[dataset], (*numbers, expected))  # type: ignore[arg-type]
    assert moved > 10


def test_holm_counts_what_is_finished_alone() -> None:
    found = compared(
        lambda r, d: 0.8 * of(r, "ours", "hucl", "hscl"),
        finished=lambda r, d, s: r.method != "scl" and (r.method, d) != ("hucl", "PTC_MR"),
    )
    (pair,) = found.questions[HARD]
    assert [*pair.on] == ["MUTAG"]
    expected = by_hand(found, row(found, "ours", "hucl"), row(found, "ours", "ucl"), "MUTAG", SEEDS)
    assert close(pair.on["MUTAG"], expected)
    assert [len(pair.on) for pair in found.questions[CONTRAST]] == [2, 1, 2]


def test_correction_keeps_order_and_all_but_p() -> None:
    found = compared(lambda r, d: 0.7 * of(r, "ours", "hscl"))
    pairs = [
        p for m in REPORTED if (p := found.pair(row(found, "ours", m), row(found, "paper", m)))
    ]
    raw = [one for pair in pairs for one in pair.on.values()]
    new = corrected(raw)
    assert [one.p for one in new] == pytest.approx(step_down([one.p for one in raw]))
    for a, b in zip(raw, new, strict=True):
        assert (a.mean, a.low, a.high, a.seeds) == (b.mean, b.low, b.high, b.seeds)
    by_p = sorted(zip((one.p for one in raw), (one.p for one in new), strict=True))
    assert all(a[1] <= b[1] for a, b in pairwise(by_p))
    assert corrected([]) == []


# Rows


def test_a_row_is_found_by_its_part_name_and_protocol() -> None:
    found = compared()
    assert found.datasets == [*SETS]
    assert found.protocols == [*PROTOCOLS]
    for one in found.entries:
        if one.part != "fewer":
            assert found.row(one.part, one.name, one.protocol) is one
    assert row(found, "ours", "hscl", "transductive").protocol == "transductive"
    assert found.row("ours", "wl-oa") is None
    assert found.row("baselines", "untrained", "transductive") is None
    assert {one.part for one in found.rows("off", "fewer")} == {"off", "fewer"}


def test_all_configs_of_a_command_stand_in_rows_and_the_other_way_round() -> None:
    for asked in (
        {}, {"protocols": ("transductive",)}, {"methods": ("hscl",)},
        {"methods": ("wl-oa", "untrained")},
        {"methods": ("hscl", "untrained"), "datasets": ("PTC_MR",)}, {"quick": True},
        {"protocols": ("transductive",), "methods": ("wl-oa", "untrained")},
        {"protocols": ("transductive", "inductive"), "methods": ("scl", "hucl", "majority")},
    ):  # fmt: skip
        found = compared(**asked)
        configs = [config for one in found.entries for config in one.configs.values()]
        assert configs == [*found.results.configs]


def test_a_result_is_that_of_the_config_and_none_while_it_is_open() -> None:
    found = compared(finished=lambda r, d, s: r.method == "hscl" and d == "MUTAG")
    hscl = row(found, "ours", "hscl")
    scores = found.scores(hscl, "MUTAG")
    assert scores is not None
    assert scores.seeds == SEEDS
    assert [r.run.config for r in found.records(hscl, "MUTAG")] == [hscl.configs["MUTAG"]] * 2
    assert found.scores(hscl, "PTC_MR") is None
    assert found.scores(hscl, "ENZYMES") is None
    assert found.scores(row(found, "ours", "ucl"), "MUTAG") is None


# The first questions' answers


def told(shift: Any = lambda r, d: 0.0, **asked: Any) -> dict[tuple[str, str], list[str]]:
    """Points, sets above 0, and how many sets are significantly above and below."""
    _, body = summary(compared(shift, **asked))
    return {(question, rows): rest for question, rows, *rest in body}


def counts(found: dict[tuple[str, str], list[str]], question: str) -> list[list[str]]:
    return [rest[2:] for (asked, _), rest in found.items() if asked == question]


def test_nothing_finished_is_no_answer() -> None:
    for asked in (
        {"finished": lambda r, d, s: False}, {"protocols": ("transductive",)},
        {"methods": ("majority",)},
        {"finished": lambda r, d, s: r.part == "paper"},
    ):  # fmt: skip
        assert told(**asked) == {}


def test_sets_that_differ_significantly_are_counted_by_their_side() -> None:
    none = ["0", "0"]
    assert counts(told(), CONTRAST) == [none] * 4
    above = told(lambda r, d: 5.0 * of(r, "ours", *REPORTED))
    assert counts(above, CONTRAST) == [["2", "0"]] * 4
    assert counts(above, HARD) == counts(above, LABELS) == [none] * 2
    some = told(lambda r, d: 5.0 * (of(r, "ours", "hucl") and d == "PTC_MR"))
    assert sorted(counts(some, CONTRAST)) == [none] * 3 + [["1", "0"]]
    assert counts(some, HARD) == [["1", "0"], none]
    assert counts(some, LABELS) == [none, ["0", "1"]]  # hscl against hucl
    below = told(lambda r, d: -5.0 * of(r, "ours", *REPORTED) * (d == "MUTAG"))
    assert counts(below, CONTRAST) == [["0", "1"]] * 4
    both = told(lambda r, d: (5.0 if d == "MUTAG" else -5.0) * of(r, "ours", "hscl"))
    assert counts(both, HARD) == [none, ["1", "1"]]


def test_means_and_sets_above_are_those_of_the_pairs() -> None:
    def shift(r: Entry, d: str) -> float:
        hucl = {"MUTAG": 1.0, "PTC_MR": -3.0}[d] * of(r, "ours", "hucl")
        return hucl + 2.0 * of(r, "ours", "hscl")

    found, shown = compared(shift), told(shift)
    for ours, theirs in (("hucl", "ucl"), ("hscl", "scl")):
        a, b = row(found, "ours", ours), row(found, "ours", theirs)
        pairs = [by_hand(found, a, b, d, SEEDS) for d in SETS]
        each = [one[0] for one in pairs]
        halves = [(high - low) / 2 for _, low, high, *_ in pairs]
        mean, half = np.mean(each), np.hypot(*halves) / 2
        points, above, *_ = shown[HARD, f"{ours} − {theirs}"]
        assert points == f"{mean:+z.1f} [{mean - half:+z.1f},{NBSP}{mean + half:+z.1f}]"
        assert numbers(above) == [sum(mean > 0 for mean in each), 2]
    assert numbers(shown[HARD, "hucl − ucl"][1]) == [1, 2]
    assert numbers(shown[HARD, "hscl − scl"][1]) == [2, 2]


def test_sets_that_are_not_finished_do_not_count() -> None:
    found = told(finished=lambda r, d, s: d == "MUTAG" and r.method in ("ucl", "hucl"))
    ((key, rest),) = found.items()
    assert key == (HARD, "hucl − ucl")
    assert rest[0] == "open"  # a set is no mean over sets
    assert numbers(rest[1])[1] == 1


def test_a_question_without_its_baseline_has_no_pairs() -> None:
    found = compared(methods=METHODS[:5])
    assert CONTRAST not in found.questions
    assert [(pair.ours.name, pair.theirs.name) for pair in found.questions[HARD]] == [
        ("hucl", "ucl"), ("hscl", "scl")
    ]  # fmt: skip
