"""Which row the others are compared with, what a test could have found, and further columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
from scipy import stats

from gcl_hard.errors import InputError
from gcl_hard.experiments import record as records_of
from gcl_hard.experiments.record import RunResult, Scored
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.links.settings import LinkConfig
from gcl_hard.nodes.settings import NodeConfig
from gcl_hard.reports.frame import Results
from gcl_hard.reports.html import all_rows
from gcl_hard.reports.rows import Row, rows, rows_frame
from gcl_hard.reports.tables import difference_table, legend_of, remarks, score_tables
from tests.experiments import record
from tests.reports.test_frame import config, filled
from tests.reports.test_rows import SEEDS, check_tests, hscl, row_of
from tests.said import says

# Which row is the control


@pytest.mark.parametrize(
    ("name", "label"),
    [("majority", "majority"), ("dcl", "dcl"), ("hscl β=2", "hscl β=2"), ("hscl", "hscl inside")],
)
def test_any_row_is_a_control_by_its_method_or_label(name: str, label: str) -> None:
    configs = [config("ucl"), config("dcl"), *hscl("inductive"), config("majority")]
    table = rows(replace(filled(configs, SEEDS, select=True), control=(name,)))
    control = row_of(table, label)
    named = [row for row in table if row is control or name in (row.label, row.method)]
    block = [row for row in table if not any(row is other for other in named)]
    check_tests(block, {name: control})
    assert all(row.tests == {} for row in named)


def test_several_controls_are_corrected_each_by_itself_and_an_unknown_one_is_refused() -> None:
    results = filled([config("ucl"), config("dcl"), config("scl"), config("majority")], SEEDS)
    both = rows(replace(results, control=("dcl", "ucl")))
    for name in ("dcl", "ucl"):
        alone = rows(replace(results, control=(name,)))
        assert [row.tests.get(name) for row in both] == [row.tests.get(name) for row in alone]
    with pytest.raises(InputError) as caught:
        rows(replace(results, control=("mcl",)))
    assert says(str(caught.value), "mcl", "majority")


def test_without_the_usual_controls_the_first_finished_row_is_the_control() -> None:
    configs = [config("dcl"), config("hucl"), config("hscl", beta=10), config("majority")]
    results = filled(configs, SEEDS, missing=[Run(configs[0], seed) for seed in SEEDS])
    opened, *block = rows(results)
    assert opened.tests == {}
    check_tests(block[1:], {"hucl β=1": block[0]})
    assert block[0].tests == {}
    table = score_tables(block)[0]
    signs = [cell.endswith("†") for cell in table["MUTAG"]]
    assert signs == [False, *(row.tests["hucl β=1"].significant for row in block[1:])]
    assert True in signs
    assert any("hucl β=1" in text for sign, text in legend_of(block, table) if sign == "†")


# Links: two encoders, and a baseline without one

N, ENTITIES = 60, 40


def ranked(method: str, encoder: str, seed: int) -> RunResult:
    """Ranks of 60 facts, tails and heads: TransE's are worse, and frequency does not vary."""
    settings = {} if method == "frequency" else {"encoder": encoder}
    link = LinkConfig("UMLS", method, **settings)
    rng = np.random.default_rng([seed, len(method), len(encoder)])
    shift = {"distmult": 2, "transe": 4}[encoder] - (method == "hucl")
    ranks = 1 + rng.poisson(shift, 2 * N).astype(float)
    scored = Scored((records_of.Tested(np.arange(2 * N), np.full(2 * N, ENTITIES), ranks),))
    test, predicted = scored.packed()
    return record(
        link, seed, [0.0], scores=scored.scores(["mrr", "hits1", "hits3", "hits10"]), metric="mrr",
        test=test, predicted=predicted,
    )  # fmt: skip


def linked(methods: Sequence[str], **changed: Any) -> Results:
    records = {
        (result := ranked(method, encoder, seed)).run: result
        for method in methods
        for encoder in ("distmult", "transe")[: 1 if method == "frequency" else 2]
        for seed in (range(1) if method == "frequency" else range(3))
    }
    configs = list(dict.fromkeys(run.config for run in records))
    return Results(configs, (0, 1, 2), records, **changed)


def reciprocals(results: Results, method: str, encoder: str = "distmult") -> Any:
    """100 / rank, the mean of both questions of a fact, [seeds, facts]."""
    found = [
        result.tested()[0].predicted for run, result in results.records.items()
        if (run.config.method, run.config.encoder) == (method, encoder)
    ]  # fmt: skip
    return (100 / np.stack(found)).reshape(len(found), 2, N).mean(1)


def crossed(d: Any) -> tuple[float, float, float]:
    """Mean, half of the interval and p of differences [seeds, facts] by Obuchowski's formulas."""
    s, n = d.shape
    means, spread = d.mean(1), 0.0
    for i in range(s):
        for j in range(s):
            if i != j:
                product = (d[i] - means[i]) @ (d[j] - means[j]) / n
                spread += product / n / (s * (s - 1))
    of_seeds = means.var(ddof=1) / s
    variance = max(of_seeds + max(0.0, spread), d.mean(0).var() / n)
    degrees = (s - 1) * (variance / of_seeds) ** 2
    half = stats.t.ppf(0.975, degrees) * math.sqrt(variance)
    return means.mean(), half, 2 * stats.t.sf(abs(means.mean()) / math.sqrt(variance), degrees)


def of_row(table: Sequence[Row], method: str, encoder: str = "") -> Row:
    (row,) = [row for row in table if (row.method, row.encoder) == (method, encoder)]
    return row


def check_crossed(test: Any, d: Any, *, n: int = 1) -> None:
    """A test against the formulas, p of the least of n hypotheses."""
    mean, half, p = crossed(d)
    assert (test.mean, test.high - test.mean) == pytest.approx((mean, half))
    assert test.p == pytest.approx(min(1.0, n * p))


def test_two_encoders_are_compared_over_facts_and_seeds() -> None:
    for methods, name in (("hucl", "hucl β=1 distmult"), ("ucl hucl", "distmult")):
        results = linked(methods.split())
        table = rows(results)
        for method in methods.split():
            d = reciprocals(results, method, "transe") - reciprocals(results, method)
            check_crossed(of_row(table, method, "transe").tests[name], d)
            assert name not in of_row(table, method, "distmult").tests
    asked = rows(linked(["ucl", "hucl"], control=("transe",)))
    assert {name for row in asked for name in row.tests} == {"transe"}
    assert of_row(asked, "hucl", "distmult").tests["transe"].mean == pytest.approx(-d.mean())


def test_a_baseline_without_an_encoder_is_compared_with_the_control_of_each() -> None:
    results = linked(["ucl", "hucl", "frequency"])
    table = rows(results)
    frequency = of_row(table, "frequency")
    assert {*frequency.tests} == {"ucl distmult", "ucl transe"}
    for encoder in ("distmult", "transe"):
        control = reciprocals(results, "ucl", encoder)
        p = {
            "hucl": crossed(reciprocals(results, "hucl", encoder) - control)[2],
            "frequency": crossed(reciprocals(results, "frequency") - control)[2],
        }
        smaller = 2 * min(p.values())  # Holm's of two: the larger p is at least that
        tests = {"hucl": of_row(table, "hucl", encoder).tests["ucl"],
                 "frequency": frequency.tests[f"ucl {encoder}"]}  # fmt: skip
        for name, test in tests.items():
            assert test.p == pytest.approx(min(1.0, max(smaller, p[name])), rel=1e-6)


def test_hits_stand_beside_the_mrr_in_every_table() -> None:
    results = linked(["ucl", "hucl", "frequency"])
    table = rows(results)
    frame, page, whole = rows_frame(table), score_tables(table)[0], all_rows(table)
    for k in (1, 3, 10):
        for at, row in enumerate(table):
            ranks = np.concatenate([result.tested()[0].predicted for result in row.records])
            hits = 100 * sum(rank <= k for rank in ranks) / len(ranks)
            assert frame[f"hits{k}"][at] == pytest.approx(hits)
            assert page[f"UMLS, Hits@{k}"][at] == whole[f"Hits@{k}"][at] == f"{hits:.1f}"


# What a test could have found


@pytest.mark.parametrize("sign", [1, -1])
def test_the_least_difference_is_where_a_row_becomes_significant(sign: int) -> None:
    """The scores of a row are moved until its difference is just below, and just above it."""
    configs = [config("ucl"), config("dcl"), *hscl("inductive"), config("majority")]
    results = filled(configs, SEEDS)
    table = rows(results)
    checked = 0
    for row in table:
        test = row.tests.get("ucl")
        if test is None or test.significant:
            assert test is None or test.least is None
            continue
        for factor in (0.999, 1.001):
            by = sign * factor * test.least - test.mean
            moved = {
                run: replace(result, scores={"accuracy": [x + by for x in result.values]})
                if run.config == row.config else result
                for run, result in results.records.items()
            }  # fmt: skip
            (again,) = [x for x in rows(replace(results, records=moved)) if x.label == row.label]
            assert again.tests["ucl"].mean == pytest.approx(sign * factor * test.least)
            assert again.tests["ucl"].significant == (factor > 1)
        checked += 1
    assert checked > 1


def noded(n_test: int, n_train: int, wrong: float = 0.3) -> Results:
    """Two methods on five splits, of classes of which the third is rare."""
    truth = np.repeat([0, 1, 2], [n_test // 2, n_test // 2 - n_test // 10, n_test // 10])
    records: dict[Run, RunResult] = {}
    for k, method in enumerate(("raw", "hucl")):
        node = NodeConfig("Cora", method, splits=5)
        rng, folds = np.random.default_rng(k), []
        for _ in range(5):
            errors = rng.random(len(truth)) < wrong
            folds.append(
                records_of.Tested(np.arange(len(truth)), truth, np.where(errors, 0, truth))
            )
        test, predicted = Scored(tuple(folds)).packed()
        scores = [100 * float(np.mean(fold.targets == fold.predicted)) for fold in folds]
        data = {"n_train": n_train, "n_test": n_test, "n_nodes": 10 * n_test}
        records[Run(node, 0)] = record(node, 0, scores, data=data, test=test, predicted=predicted)
    return Results(list(dict.fromkeys(run.config for run in records)), (0,), records)


def test_the_legend_says_what_could_not_be_found_and_what_would_find_it() -> None:
    table = rows(noded(200, 25))
    (raw,) = (row for row in table if row.tests)
    (control,) = (row for row in table if not row.tests)
    assert raw.scores is not None
    assert control.scores is not None
    d = np.subtract(raw.scores.flat, control.scores.flat)
    least = stats.t.ppf(0.975, 4) * math.sqrt((1 / 5 + 200 / 25) * d.var(ddof=1))
    shown = difference_table(table)
    (text,) = (text for sign, text in legend_of(table, shown) if sign == "ns")
    assert says(
        text,
        f"{least:.1f}",
        "points",
        raw.label,
        control.label,
        1,
        5,
        "splits",
        25,
        200,
        "nodes",
        "--shares",
    )


# Uneven classes


def test_macro_f1_stands_beside_the_accuracy_of_uneven_classes() -> None:
    results = noded(200, 25)
    table = rows(results)
    frame = rows_frame(table)
    for at, row in enumerate(table):
        folds = row.records[0].tested()
        expected = np.mean([
            sklearn.metrics.f1_score(fold.targets, fold.predicted, average="macro")
            for fold in folds
        ])  # fmt: skip
        assert frame["f1_macro"][at] == pytest.approx(100 * expected)
        assert score_tables(table)[0]["Cora, macro-F1"][at] == f"{100 * expected:.1f}"


@pytest.mark.parametrize(("counts", "uneven"), [((10, 20), False), ((10, 21), True)])
def test_classes_are_uneven_if_one_has_more_than_twice_the_items_of_another(
    counts: tuple[int, int], uneven: bool
) -> None:
    truth = np.repeat([0, 1], counts)
    test, predicted = Scored((records_of.Tested(np.arange(len(truth)), truth, truth),)).packed()
    asked: RunConfig = config("ucl", folds=2)
    result = record(asked, 0, [100.0], test=test, predicted=predicted)
    frame: pd.DataFrame = rows_frame(rows(Results([asked], (0,), {result.run: result})))
    assert ("f1_macro" in frame) == uneven


def test_the_f1_of_what_is_best_on_the_test_folds_is_of_the_same_setting() -> None:
    """By macro-F1 the other setting would be the best."""
    truth = np.repeat([0, 1], [30, 10])
    guesses = {1.0: np.zeros(40, int), 2.0: np.where(np.arange(40) < 12, 1, truth)}
    records = {}
    for beta, guess in guesses.items():
        asked = config("hscl", "transductive", beta=beta, folds=2)
        test, predicted = Scored((records_of.Tested(np.arange(40), truth, guess),)).packed()
        score = 100 * float(np.mean(guess == truth))
        records[Run(asked, 0)] = record(asked, 0, [score], test=test, predicted=predicted)
    table = rows(Results([run.config for run in records], (0,), records))
    best = next(row for row in table if row.kind == "best")
    assert best.setting == "β=1"
    expected = 100 * sklearn.metrics.f1_score(truth, guesses[1.0], average="macro")
    assert best.beside["f1_macro"].mean == pytest.approx(expected)
    assert expected < table[1].beside["f1_macro"].mean


# The spread of every row


def test_every_row_of_the_html_has_a_spread() -> None:
    links, nodes = rows(linked(["ucl", "frequency"])), rows(noded(200, 25))
    whole = all_rows([*links, *nodes])
    spread = whole[["s.e.", "std of splits"]].max(axis=1)
    assert (spread != "").all()
    for at, row in enumerate(links):
        inverse = [100 / result.tested()[0].predicted.reshape(2, N) for result in row.records]
        values = np.mean(inverse, axis=(0, 1))
        assert whole["s.e."][at] == f"{values.std() / math.sqrt(N):.1f}"


@pytest.mark.parametrize("higher", [True, False])
def test_a_baseline_above_all_trained_rows_is_named(higher: bool) -> None:
    table = rows(filled([config("ucl"), config("dcl"), config("majority")], SEEDS))
    means = {row.method: row.scores.mean for row in table if row.scores}
    lift = max(means.values()) - means["majority"] + (1 if higher else -1)
    lifted = [
        row if row.method != "majority" or row.scores is None
        else replace(row, scores=replace(row.scores, folds=tuple(
            tuple(x + lift for x in folds) for folds in row.scores.folds
        )))
        for row in table
    ]  # fmt: skip
    named = [line for line in remarks(lifted) if says(line, "baseline", "majority")]
    assert bool(named) == higher
