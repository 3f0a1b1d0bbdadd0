"""Which rows a table has, what is in them, and their tests against formulas in SciPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gcl_hard.experiments.run import Run
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.reports.frame import Results
from gcl_hard.reports.legend import marks
from gcl_hard.reports.rows import Row, rows
from gcl_hard.reports.tables import choice_table, score_tables
from tests.experiments import record
from tests.reports import made
from tests.reports.test_frame import config, filled, noise
from tests.said import says

FOLDS = 3
SEEDS = tuple(range(7))


def hscl(protocol: str, *betas: float) -> list[GraphConfig]:
    return [config("hscl", protocol, beta=beta) for beta in betas or (1.0, 2.0, 10.0)]


def name(row: Row) -> str:
    """The label; of what was chosen, method, kind and setting, which the label has to say."""
    if row.kind in ("fixed", "baseline"):
        return row.label
    facts = [row.method, row.kind, *filter(None, [row.setting])]
    assert says(row.label, *facts)
    return " ".join(facts)


def shown(results: Results) -> list[tuple[str, str]]:
    return [(row.kind, name(row)) for row in rows(results)]


def row_of(table: Sequence[Row], label: str, protocol: str | None = None) -> Row:
    (row,) = [row for row in table if name(row) == label and protocol in (None, row.protocol)]
    return row


FIXED = [("fixed", "hscl β=1"), ("fixed", "hscl β=2"), ("fixed", "hscl β=10")]
INSIDE, BEST = ("inside", "hscl inside"), ("best", "hscl best β=10")

# Which rows


@pytest.mark.parametrize(
    ("configs", "select", "expected"),
    [
        ([config("ucl", "transductive")], False, [("fixed", "ucl")]),
        ([config("ucl")], True, [("fixed", "ucl")]),
        (hscl("inductive", 2.0), True, [("fixed", "hscl β=2")]),
        ([config("hscl-tau", "transductive")], False, [("fixed", "hscl-tau")]),
        (hscl("transductive"), False, [*FIXED, BEST]),
        (hscl("transductive"), True, [*FIXED, BEST]),
        (hscl("inductive"), False, [*FIXED, BEST]),
        (hscl("inductive"), True, [*FIXED, INSIDE, BEST]),
    ],
)
def test_rows_of_a_method(
    configs: list[GraphConfig], select: bool, expected: list[tuple[str, str]]
) -> None:
    assert shown(filled(configs, select=select)) == expected


def test_each_group_of_candidates_chooses_for_itself() -> None:
    configs = [config("hscl", beta=b, batch_size=n) for n in (32, 128) for b in (1.0, 2.0)]
    results = filled(configs, select=True)
    inside = [row for row in rows(results) if row.kind == "inside"]
    assert [row.label for row in inside] == [
        "hscl chosen inside (batch-size=32)", "hscl chosen inside (batch-size=128)",
    ]  # fmt: skip
    for row, group in zip(inside, (configs[:2], configs[2:]), strict=True):
        alone = [row for row in rows(replace(results, configs=group)) if row.kind == "inside"]
        assert row.scores == alone[0].scores
    table = choice_table(results.selections)
    assert [text.split()[0] for text in table["setting"]] == [
        *["batch-size=32"] * 2, *["batch-size=128"] * 2
    ]  # fmt: skip


@pytest.mark.parametrize(("protocol", "inside"), [("transductive", []), ("inductive", [INSIDE])])
def test_there_is_no_best_over_epochs(protocol: str, inside: list[tuple[str, str]]) -> None:
    configs = [config("hscl", protocol, epochs=epochs) for epochs in (20, 100)]
    fixed = [("fixed", "hscl β=1 epochs=20"), ("fixed", "hscl β=1 epochs=100")]
    assert shown(filled(configs, select=True)) == [*fixed, *inside]


def test_sets_of_other_classes_are_other_sets_and_wrong_labels_are_nothing_to_choose() -> None:
    clean = [
        ImageConfig("CIFAR10", "scl", classes=n, batch_size=size)
        for n in (2, 10)
        for size in (64, 512)
    ]
    table = rows(
        with_accuracies({Run(run_config, seed): 50.0 for run_config in clean for seed in (0, 1)})
    )
    assert [(row.dataset, row.kind) for row in table] == [
        (f"CIFAR10, {n} classes", kind) for n in (2, 10) for kind in ("fixed", "fixed", "best")
    ]
    assert not any("classes" in " ".join([row.label, *row.changed]) for row in table)
    noisy = [ImageConfig("CIFAR10", "scl", label_noise=share) for share in (0.0, 0.4)]
    table = rows(
        with_accuracies({Run(run_config, seed): 50.0 for run_config in noisy for seed in (0, 1)})
    )
    assert [row.kind for row in table] == ["fixed", "fixed"]


def test_rows_go_by_protocol_data_set_and_method_with_baselines_last() -> None:
    configs = [
        config(method, protocol, dataset=dataset)
        for dataset in ("PTC_MR", "MUTAG")
        for method in ("majority", "scl", "supervised", "ucl")
        for protocol in ("inductive", "transductive")
    ]
    table = rows(filled(list(dict.fromkeys(configs))))
    inductive = [
        ("scl", "fixed"),
        ("ucl", "fixed"),
        ("majority", "baseline"),
        ("supervised", "baseline"),
    ]
    paper = [("scl", "fixed"), ("ucl", "fixed"), ("majority", "baseline")]
    assert [(row.protocol, row.dataset, row.method, row.kind) for row in table] == [
        (protocol, dataset, *rest)
        for protocol, block in (("inductive", inductive), ("transductive", paper))
        for dataset in ("PTC_MR", "MUTAG")
        for rest in block
    ]


# What stands in them


def test_a_row_holds_the_records_of_its_config() -> None:
    configs = [config("ucl"), *hscl("inductive"), config("ucl", "transductive"), config("majority")]
    table = rows(filled(configs, (4, 0, 2), missing=[Run(configs[1], 4)]))
    labels = ("ucl", "hscl β=1", "hscl β=2", "hscl β=10", "ucl", "majority")
    expected = [(label, c.protocol, c) for label, c in zip(labels, configs, strict=True)]
    for label, protocol, asked in [*expected, ("majority", "transductive", configs[-1])]:
        seeds = (0, 2) if asked == configs[1] else (4, 0, 2)
        row = row_of(table, label, protocol)
        assert row.scores is not None
        assert row.scores.seeds == seeds
        assert row.scores.flat == [a for seed in seeds for a in noise(Run(asked, seed))]
        assert row.seconds == pytest.approx(23.0 * len(seeds))
        assert row.expected == 3


def test_the_interval_is_students_with_the_corrected_variance() -> None:
    (row,) = rows(filled([config("ucl")], SEEDS))
    x = np.array([noise(Run(config("ucl"), seed)) for seed in SEEDS]).ravel()
    error = math.sqrt((1 / len(x) + 1 / (FOLDS - 1)) * x.var(ddof=1))
    assert row.interval is not None
    assert (row.interval.low, row.interval.high) == pytest.approx(
        stats.t.interval(0.95, len(x) - 1, loc=x.mean(), scale=error)
    )


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_fewer_training_graphs_widen_intervals_and_raise_p(share: float) -> None:
    """n_test / n_train counts the graphs trained on; of two rows, those of the one with fewer."""
    control, other = config("ucl", train_share=share), config("majority")
    assert other.train_share == 1
    table = rows(filled([control, other], SEEDS))
    a, b = (np.ravel([noise(Run(c, seed)) for seed in SEEDS]) for c in (other, control))
    to_train = 1 / ((FOLDS - 1) * share)
    error = math.sqrt((1 / len(b) + to_train) * b.var(ddof=1))
    interval = row_of(table, "ucl").interval
    assert interval is not None
    assert interval.high - interval.mean == pytest.approx(stats.t.ppf(0.975, len(b) - 1) * error)
    d = a - b
    t = d.mean() / math.sqrt((1 / len(d) + to_train) * d.var(ddof=1))
    p = 2 * stats.t.sf(abs(t), len(d) - 1)
    assert row_of(table, "majority").tests["ucl"].p == pytest.approx(p)


def with_accuracies(table: Mapping[Run, float], **settings: Any) -> Results:
    configs, seeds = (tuple(dict.fromkeys(run[i] for run in table)) for i in (0, 1))
    records = {j: record(j.config, j.seed, [a] * FOLDS, inner=j.inner) for j, a in table.items()}
    return Results(configs, seeds, records, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", ["transductive", "inductive"])
def test_best_on_test_is_found_on_the_seeds_that_all_candidates_have(protocol: str) -> None:
    """β = 1 has a seed of 99 % that the others lack; without it, β = 2 is the best."""
    first, two, ten = hscl(protocol)
    table = {
        **{Run(first, seed): a for seed, a in enumerate([99.0, 70.0, 71.0])},
        **{Run(two, seed): a for seed, a in enumerate([60.0, 75.0, 74.0])},
        **{Run(ten, seed): 50.0 for seed in (1, 2)},
    }
    shown_rows = rows(with_accuracies(table))
    best = row_of(shown_rows, "hscl best β=2")
    assert best.scores is not None
    assert (best.scores.seeds, best.scores.means) == ((1, 2), [75.0, 74.0])


def test_what_was_chosen_inside_and_the_best_on_test_are_of_the_same_seeds() -> None:
    """Seed 0 lacks one hold-out. The hold-outs choose β = 2 in seed 1, β = 1 in seed 2."""
    first, two = hscl("inductive", 1.0, 2.0)
    table = {
        **{Run(first, seed): a for seed, a in enumerate([99.0, 70.0, 72.0])},
        **{Run(two, seed): a for seed, a in enumerate([10.0, 80.0, 90.0])},
        **{Run(first, seed, inner=True): a for seed, a in enumerate([1.0, 1.0, 3.0])},
        **{Run(two, seed, inner=True): 2.0 for seed in (1, 2)},
    }
    shown_rows = rows(with_accuracies(table, select=True))
    inside, best = row_of(shown_rows, "hscl inside"), row_of(shown_rows, "hscl best β=2")
    assert inside.scores is not None
    assert best.scores is not None
    assert (inside.scores.seeds, inside.scores.means) == ((1, 2), [80.0, 72.0])
    assert (best.scores.seeds, best.scores.means) == ((1, 2), [80.0, 90.0])
    assert best.optimism == pytest.approx(85.0 - 76.0)
    assert [row.optimism for row in shown_rows if row is not best] == [None] * 3


# The paper's figure


def test_the_papers_figure_stands_beside_the_row_made_as_the_paper_made_it() -> None:
    several = rows(filled(hscl("transductive"), SEEDS))
    assert [(row.kind, row.paper) for row in several] == [("fixed", None)] * 3 + [("best", 87.2)]
    best = several[-1]
    assert best.scores is not None
    assert best.gap == pytest.approx(np.mean(best.scores.flat) - 87.2)
    (only,) = rows(filled(hscl("transductive", 2.0), SEEDS))
    assert (only.kind, only.paper) == ("fixed", 87.2)
    assert rows(filled([config("ucl", "transductive", dataset="PTC_MR")]))[0].paper == 55.3


@pytest.mark.parametrize(
    "configs",
    [
        hscl("inductive"), hscl("inductive", 1.0), [config("dcl", "transductive")],
        [config("majority")],
        [config("hscl", "transductive", beta=beta, contrast="two-view") for beta in (1.0, 2.0)],
    ],
)  # fmt: skip
def test_the_papers_figure_stands_nowhere_else(configs: list[GraphConfig]) -> None:
    for select in (False, True):
        for row in rows(filled(configs, SEEDS, select=select)):
            assert (row.paper, row.gap) == (None, None)


# Tests against the controls

Accuracies = dict[int, list[float]]
"""Folds of each seed."""


def t_test(a: Accuracies, b: Accuracies) -> tuple[float, float]:
    """Difference and p on the shared seeds, by Nadeau and Bengio's formula."""
    d = np.array([np.subtract(a[seed], b[seed]) for seed in sorted(a.keys() & b.keys())]).ravel()
    t = d.mean() / math.sqrt((1 / len(d) + 1 / (FOLDS - 1)) * d.var(ddof=1))
    return float(d.mean()), float(2 * stats.t.sf(abs(t), len(d) - 1))


def signed_ranks(a: Accuracies, b: Accuracies) -> float:
    seeds = sorted(a.keys() & b.keys())
    means = [[float(np.mean(side[seed])) for seed in seeds] for side in (a, b)]
    return float(stats.wilcoxon(*means, method="exact").pvalue)


def holm(raw: Sequence[float]) -> list[float]:
    """Each p times the number of hypotheses that are no likelier, the running maximum of it."""
    scaled = {p: sum(q >= p for q in raw) * p for p in raw}
    return [min(1.0, max(scaled[q] for q in raw if q <= p)) for p in raw]


def accuracies(row: Row) -> Accuracies:
    assert row.scores is not None
    return {s: list(f) for s, f in zip(row.scores.seeds, row.scores.folds, strict=True)}


def check_tests(block: Sequence[Row], controls: Mapping[str, Row]) -> None:
    """The tests of one data set and protocol, each control's row being given."""
    for control, reference in controls.items():
        family = [
            row for row in block if row.kind != "best" and row.method != control and row.scores
        ]
        ours, theirs = [accuracies(row) for row in family], accuracies(reference)
        differences, raw = zip(*(t_test(ours_scores, theirs) for ours_scores in ours), strict=True)
        p, p_ranks = holm(raw), holm([signed_ranks(ours_scores, theirs) for ours_scores in ours])
        for i, row in enumerate(family):
            test = row.tests[control]
            assert test.seeds == len(ours[i].keys() & theirs.keys())
            assert test.mean == pytest.approx(differences[i])
            assert test.p == pytest.approx(p[i], rel=1e-9)
            assert test.p_wilcoxon == pytest.approx(p_ranks[i], rel=1e-9)
            assert test.significant == (p[i] < 0.05)
    for row in block:
        expected_controls = set(controls) - {row.method} if row.kind != "best" else set()
        assert set(row.tests) == expected_controls, row.label


METHODS = ("ucl", "dcl", "scl", "hscl-tau")


def everything(*datasets: str) -> Results:
    tables = [
        (dataset, protocol) for dataset in datasets for protocol in ("transductive", "inductive")
    ]
    settings = [(m, 1.0) for m in METHODS] + [(m, b) for m in ("hucl", "hscl") for b in (1.0, 2.0)]
    settings += [("majority", 1.0), ("supervised", 1.0)]
    configs = [config(m, p, dataset=d, beta=b) for d, p in tables for m, b in settings]
    return filled(list(dict.fromkeys(configs)), SEEDS, select=True)


def block_of(table: Sequence[Row], dataset: str, protocol: str) -> list[Row]:
    return [row for row in table if (row.dataset, row.protocol) == (dataset, protocol)]


@pytest.mark.parametrize("protocol", ["transductive", "inductive"])
def test_every_row_is_tested_against_both_controls(protocol: str) -> None:
    block = block_of(rows(everything("MUTAG")), "MUTAG", protocol)
    kinds = {row.kind for row in block}
    assert kinds == {"fixed", "best", "baseline"} | (
        {"inside"} if protocol == "inductive" else set()
    )
    check_tests(block, {control: row_of(block, control) for control in ("ucl", "scl")})
    p = [test.p for row in block for test in row.tests.values()]
    assert min(p) < 0.05 < max(p)  # the table is one where corrections matter
    assert len({round(value, 9) for value in p}) > 5


def test_a_family_does_not_spill_over_data_sets() -> None:
    alone, more = rows(everything("MUTAG")), rows(everything("MUTAG", "PTC_MR"))
    for protocol in ("transductive", "inductive"):
        assert block_of(more, "MUTAG", protocol) == block_of(alone, "MUTAG", protocol)
        other = block_of(more, "PTC_MR", protocol)
        check_tests(other, {control: row_of(other, control) for control in ("ucl", "scl")})


def test_a_table_whose_control_is_open_has_no_tests() -> None:
    configs = [config("ucl"), config("dcl"), *hscl("inductive"), config("majority")]
    missing = [Run(configs[0], seed) for seed in SEEDS]
    table = rows(filled(configs, SEEDS, select=True, missing=missing))
    assert all(row.tests == {} for row in table)


@pytest.mark.parametrize("method", ["wl", "wl-oa", "graph-size", "label-histogram"])
def test_a_baseline_that_chose_no_c_is_not_tested_and_a_note_says_so(method: str) -> None:
    configs = [config("ucl"), config("hucl"), config(method), config("majority")]
    results = filled(configs, SEEDS)
    others = {
        run: run_record
        for run, run_record in results.records.items()
        if run.config.method != method
    }
    blind = {
        run: replace(run_record, fold_c=[]) if run.config.method == method else run_record
        for run, run_record in results.records.items()
    }
    shown_rows = rows(replace(results, records=blind))
    row = row_of(shown_rows, method)
    without = rows(replace(results, records=others))
    assert row.tests == {}
    assert row.scores == row_of(rows(results), method).scores
    for name in ("hucl β=1", "majority"):  # which are corrected for one comparison fewer
        assert row_of(shown_rows, name).tests == row_of(without, name).tests != {}
    assert {run_record.method for run_record in shown_rows if marks(run_record) == "°"} == {method}
    assert not any(map(marks, rows(results)))
    assert all(says(table.to_string(), method) for table in score_tables(shown_rows))


def test_a_control_chosen_inside_stands_for_its_candidates() -> None:
    configs = [config(m, lr=lr) for m in ("ucl", "scl", "hscl") for lr in (0.01, 0.001)]
    block = rows(filled(configs, SEEDS, select=True))
    controls = {control: row_of(block, f"{control} inside") for control in ("ucl", "scl")}
    check_tests(block, controls)
    fixed = accuracies(row_of(block, "ucl lr=0.01"))
    assert accuracies(controls["ucl"]) != fixed  # they can be told apart


@pytest.mark.parametrize(("protocol", "select"), [("transductive", True), ("inductive", False)])
def test_several_rows_of_a_control_are_no_control(protocol: str, select: bool) -> None:
    configs = [config("ucl", protocol, lr=lr) for lr in (0.01, 0.001)]
    configs += [config(method, protocol) for method in ("scl", "dcl")]
    block = rows(filled(configs, SEEDS, select=select))
    check_tests(block, {"scl": row_of(block, "scl")})


def test_rows_of_different_seeds_are_compared_on_those_they_share() -> None:
    configs = [config("ucl"), config("dcl"), *hscl("inductive", 1.0), config("majority")]
    missing = [Run(configs[0], 0), Run(configs[0], 5), Run(configs[1], 6), Run(configs[2], 0)]
    block = rows(filled(configs, SEEDS, missing=missing))
    check_tests(block, {"ucl": row_of(block, "ucl")})
    shared = {row.label: row.tests["ucl"].seeds for row in block if row.tests}
    assert shared == {"dcl": 4, "hscl β=1": 5, "majority": 5}


def test_one_shared_seed_has_folds_to_test_but_no_ranks() -> None:
    configs = [config("ucl"), config("dcl"), config("hscl-tau")]
    missing = [Run(configs[1], seed) for seed in SEEDS[1:]]
    ucl, *others = rows(filled(configs, SEEDS, missing=missing))
    lone, whole = (row.tests["ucl"] for row in others)
    raw = [t_test(accuracies(row), accuracies(ucl))[1] for row in others]
    assert [lone.p, whole.p] == pytest.approx(holm(raw))
    assert (lone.seeds, lone.p_wilcoxon) == (1, None)
    expected = signed_ranks(accuracies(others[1]), accuracies(ucl))
    assert whole.p_wilcoxon == pytest.approx(expected)  # a family of one: nothing to correct


def test_open_rows_and_rows_without_a_shared_seed_have_no_tests_and_do_not_count() -> None:
    configs = [config("ucl"), config("dcl"), config("hscl-tau"), config("scl")]
    missing = [Run(configs[1], seed) for seed in SEEDS]
    missing += [Run(configs[0], seed) for seed in SEEDS[4:]]
    missing += [Run(configs[2], seed) for seed in SEEDS[:4]]
    ucl, opened, apart, scl = rows(filled(configs, SEEDS, missing=missing))
    assert opened.tests == {}
    assert set(apart.tests) == {"scl"}
    # Against ucl scl is alone, so its p is uncorrected.
    assert scl.tests["ucl"].p == pytest.approx(t_test(accuracies(scl), accuracies(ucl))[1])
    assert scl.tests["ucl"].seeds == 4


def test_a_row_is_compared_with_the_control_of_its_own_encoder_alone() -> None:
    encoder = "mine:Net@1f"
    both = [made.config(method=m, encoder=e) for m in ("ucl", "hucl") for e in ("gin", encoder)]
    for configs, tested in (
        (both, {"gin", encoder}),
        (both[1:], {encoder}),
        ([*both[:1], *both[2:]], {"gin"}),
    ):
        table = {row.encoder: row for row in rows(made.results(*configs)) if row.method == "hucl"}
        assert {encoder for encoder, row in table.items() if "ucl" in row.tests} == tested
        assert not any(row.kind == "best" for row in table.values())
