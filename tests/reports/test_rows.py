"""Which rows a table has, what is in them, and their tests against formulas in SciPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.runs import Run
from gcl_hard.reports.frame import (
    Results,
)
from gcl_hard.reports.rows import (
    Row,
    rows,
)
from tests.experiments import record
from tests.reports.test_frame import cell, filled, noise

FOLDS = 3
SEEDS = tuple(range(7))


def hscl(protocol: str, *betas: float) -> list[GraphConfig]:
    return [cell("hscl", protocol, beta=beta) for beta in betas or (1.0, 2.0, 10.0)]


def shown(results: Results) -> list[tuple[str, str]]:
    return [(line.kind, line.label) for line in rows(results)]


def row_of(found: Sequence[Row], label: str, protocol: str | None = None) -> Row:
    (line,) = [ln for ln in found if ln.label == label and protocol in (None, ln.protocol)]
    return line


FIXED = [("fixed", "hscl β=1"), ("fixed", "hscl β=2"), ("fixed", "hscl β=10")]
INSIDE, BEST = ("inside", "hscl chosen inside"), ("best", "hscl best on test (β=10)")

# Which lines


@pytest.mark.parametrize(
    ("cells", "select", "expected"),
    [
        ([cell("ucl", "paper")], False, [("fixed", "ucl")]),
        ([cell("ucl")], True, [("fixed", "ucl")]),
        (hscl("inductive", 2.0), True, [("fixed", "hscl β=2")]),
        ([cell("hscl-tau", "paper")], False, [("fixed", "hscl-tau")]),
        (hscl("paper"), False, [*FIXED, BEST]),
        (hscl("paper"), True, [*FIXED, BEST]),
        (hscl("inductive"), False, [*FIXED, BEST]),
        (hscl("inductive"), True, [*FIXED, INSIDE, BEST]),
    ],
)
def test_lines_of_a_method(
    cells: list[GraphConfig], select: bool, expected: list[tuple[str, str]]
) -> None:
    assert shown(filled(cells, select=select)) == expected


def test_a_label_names_what_differs_between_lines_of_its_method() -> None:
    cells = [
        cell(method, "paper", lr=lr, epochs=20) for method in ("ucl", "hscl") for lr in (0.01, 1e-3)
    ]
    fixed = [line.label for line in rows(filled(cells)) if line.kind == "fixed"]
    assert fixed == ["ucl lr=0.01", "ucl lr=0.001", "hscl β=1 lr=0.01", "hscl β=1 lr=0.001"]


def test_a_line_has_a_beta_where_its_setting_is_beta_alone() -> None:
    cells = [cell("ucl"), *hscl("inductive", 0.125, 10.0), cell("hcl", beta=3.0), cell("majority")]
    found = rows(filled(cells, select=True))
    assert {line.label: line.beta for line in found} == {
        "ucl": None, "hscl β=0.125": 0.125, "hscl β=10": 10.0, "hscl chosen inside": None,
        "hscl best on test (β=10)": 10.0, "hcl β=3": 3.0, "majority": None,
    }  # fmt: skip
    cells = [cell("hucl", "paper", beta=beta, lr=lr) for beta in (1.0, 2.0) for lr in (0.01, 1e-3)]
    assert {line.beta for line in rows(filled(cells))} == {None}


def test_a_floor_with_several_settings_has_the_lines_of_a_method() -> None:
    cells = [cell(m, lr=lr) for lr in (0.01, 1e-3) for m in ("supervised", "majority")]
    cells = list(dict.fromkeys(cells))  # nothing in a majority depends on lr
    results = filled(cells, select=True)
    means = [np.mean([noise(Run(c, s)) for s in results.seeds]) for c in (cells[0], cells[2])]
    best = ("lr=0.01", "lr=0.001")[int(np.argmax(means))]
    assert shown(results) == [
        ("baseline", "supervised lr=0.01"), ("baseline", "supervised lr=0.001"),
        ("inside", "supervised chosen inside"), ("best", f"supervised best on test ({best})"),
        ("baseline", "majority"),
    ]  # fmt: skip


@pytest.mark.parametrize("asked", [["paper"], ["inductive"], ["paper", "inductive"]])
def test_supervised_has_an_inductive_table_whatever_is_asked(asked: list[str]) -> None:
    cells = [*(cell("ucl", protocol) for protocol in asked), cell("supervised"), cell("majority")]
    found = rows(filled(cells))
    assert all(ln.is_baseline == (ln.method != "ucl") for ln in found)
    assert [ln.protocol for ln in found if ln.method == "supervised"] == ["inductive"]
    tables = list(dict.fromkeys((*asked, "inductive")))
    assert [ln.protocol for ln in found if ln.method == "majority"] == tables


@pytest.mark.parametrize(("protocol", "inside"), [("paper", []), ("inductive", [INSIDE])])
def test_there_is_no_best_over_epochs(protocol: str, inside: list[tuple[str, str]]) -> None:
    cells = [cell("hscl", protocol, epochs=epochs) for epochs in (20, 100)]
    fixed = [("fixed", "hscl β=1 epochs=20"), ("fixed", "hscl β=1 epochs=100")]
    assert shown(filled(cells, select=True)) == [*fixed, *inside]


def test_lines_go_by_protocol_data_set_and_method_with_floors_last() -> None:
    cells = [
        cell(method, protocol, dataset=dataset)
        for dataset in ("PTC_MR", "MUTAG")
        for method in ("majority", "scl", "supervised", "ucl")
        for protocol in ("inductive", "paper")
    ]
    found = rows(filled(list(dict.fromkeys(cells))))
    inductive = [
        ("scl", "fixed"),
        ("ucl", "fixed"),
        ("majority", "baseline"),
        ("supervised", "baseline"),
    ]
    paper = [("scl", "fixed"), ("ucl", "fixed"), ("majority", "baseline")]
    assert [(ln.protocol, ln.dataset, ln.method, ln.kind) for ln in found] == [
        (protocol, dataset, *rest)
        for protocol, block in (("inductive", inductive), ("paper", paper))
        for dataset in ("PTC_MR", "MUTAG")
        for rest in block
    ]


def test_floors_alone_stand_in_a_table_of_their_own_protocol() -> None:
    names = ("majority", "untrained", "supervised")
    found = rows(filled([cell(name) for name in names], SEEDS))
    expected = [("baseline", name, "inductive") for name in names]
    assert [(ln.kind, ln.label, ln.protocol) for ln in found] == expected
    assert all(ln.tests == {} for ln in found)
    assert rows(Results([], SEEDS, {})) == []


@pytest.mark.parametrize("protocol", ["paper", "inductive"])
def test_a_command_that_has_not_begun_shows_its_lines_open(protocol: str) -> None:
    cells = [cell("ucl", protocol), *hscl(protocol), cell("majority")]
    found = rows(Results(cells, SEEDS, {}, select=True))
    inside = [INSIDE] if protocol == "inductive" else []
    assert [(ln.kind, ln.label) for ln in found] == [
        ("fixed", "ucl"), *FIXED, *inside, ("best", "hscl best on test"), ("baseline", "majority"),
    ]  # fmt: skip
    for line in found:
        assert (line.scores, line.interval, line.gap, line.tests) == (None, None, None, {})
        assert (line.expected, line.seconds, line.optimism) == (7, 0.0, None)


# What stands in them


def test_a_line_holds_the_records_of_its_cell() -> None:
    cells = [cell("ucl"), *hscl("inductive"), cell("ucl", "paper"), cell("majority")]
    found = rows(filled(cells, (4, 0, 2), missing=[Run(cells[1], 4)]))
    labels = ("ucl", "hscl β=1", "hscl β=2", "hscl β=10", "ucl", "majority")
    expected = [(label, c.protocol, c) for label, c in zip(labels, cells, strict=True)]
    for label, protocol, asked in [*expected, ("majority", "paper", cells[-1])]:
        seeds = (0, 2) if asked == cells[1] else (4, 0, 2)
        line = row_of(found, label, protocol)
        assert line.scores is not None
        assert line.scores.seeds == seeds
        assert line.scores.flat == [a for seed in seeds for a in noise(Run(asked, seed))]
        assert line.seconds == pytest.approx(23.0 * len(seeds))
        assert line.expected == 3


def test_the_interval_is_students_with_the_corrected_variance() -> None:
    (line,) = rows(filled([cell("ucl")], SEEDS))
    x = np.array([noise(Run(cell("ucl"), seed)) for seed in SEEDS]).ravel()
    error = math.sqrt((1 / len(x) + 1 / (FOLDS - 1)) * x.var(ddof=1))
    assert line.interval is not None
    assert (line.interval.low, line.interval.high) == pytest.approx(
        stats.t.interval(0.95, len(x) - 1, loc=x.mean(), scale=error)
    )


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_fewer_training_graphs_widen_intervals_and_raise_p(share: float) -> None:
    """n_test / n_train counts the graphs trained on; of two lines, those of the one with fewer."""
    control, other = cell("ucl", train_share=share), cell("majority")
    assert other.train_share == 1
    found = lines(filled([control, other], SEEDS))
    a, b = (np.ravel([noise(Run(c, seed)) for seed in SEEDS]) for c in (other, control))
    to_train = 1 / ((FOLDS - 1) * share)
    error = math.sqrt((1 / len(b) + to_train) * b.var(ddof=1))
    interval = line_of(found, "ucl").interval
    assert interval is not None
    assert interval.high - interval.mean == pytest.approx(stats.t.ppf(0.975, len(b) - 1) * error)
    d = a - b
    t = d.mean() / math.sqrt((1 / len(d) + to_train) * d.var(ddof=1))
    p = 2 * stats.t.sf(abs(t), len(d) - 1)
    assert line_of(found, "majority").tests["ucl"].p == pytest.approx(p)


def with_accuracies(table: Mapping[Run, float], **settings: Any) -> Results:
    cells, seeds = (tuple(dict.fromkeys(job[i] for job in table)) for i in (0, 1))
    records = {j: record(j.cell, j.seed, [a] * FOLDS, inner=j.inner) for j, a in table.items()}
    return Results(cells, seeds, records, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", ["paper", "inductive"])
def test_best_on_test_is_found_on_the_seeds_that_all_candidates_have(protocol: str) -> None:
    """β = 1 has a seed of 99 % that the others lack; without it, β = 2 is the best."""
    one, two, ten = hscl(protocol)
    table = {
        **{Run(one, seed): a for seed, a in enumerate([99.0, 70.0, 71.0])},
        **{Run(two, seed): a for seed, a in enumerate([60.0, 75.0, 74.0])},
        **{Run(ten, seed): 50.0 for seed in (1, 2)},
    }
    found = rows(with_accuracies(table))
    best = row_of(found, "hscl best on test (β=2)")
    assert best.scores is not None
    assert (best.scores.seeds, best.scores.accuracies) == ((1, 2), [75.0, 74.0])


def test_what_was_chosen_inside_and_the_best_on_test_are_of_the_same_seeds() -> None:
    """Seed 0 lacks one hold-out. The hold-outs choose β = 2 in seed 1, β = 1 in seed 2."""
    one, two = hscl("inductive", 1.0, 2.0)
    table = {
        **{Run(one, seed): a for seed, a in enumerate([99.0, 70.0, 72.0])},
        **{Run(two, seed): a for seed, a in enumerate([10.0, 80.0, 90.0])},
        **{Run(one, seed, inner=True): a for seed, a in enumerate([1.0, 1.0, 3.0])},
        **{Run(two, seed, inner=True): 2.0 for seed in (1, 2)},
    }
    found = rows(with_accuracies(table, select=True))
    inside, best = row_of(found, "hscl chosen inside"), row_of(found, "hscl best on test (β=2)")
    assert inside.scores is not None
    assert best.scores is not None
    assert (inside.scores.seeds, inside.scores.accuracies) == ((1, 2), [80.0, 72.0])
    assert (best.scores.seeds, best.scores.accuracies) == ((1, 2), [80.0, 90.0])
    assert best.optimism == pytest.approx(85.0 - 76.0)
    assert [line.optimism for line in found if line is not best] == [None] * 3


def test_the_time_of_every_record_is_shown_once() -> None:
    cells = [cell("ucl"), *hscl("inductive"), cell("majority")]
    found = rows(filled(cells, SEEDS, select=True))
    seconds = [23.0, *[23.0] * 3, 3 * 10.0, 0.0, 23.0]  # ucl, fixed, inside, best, majority
    assert [ln.seconds for ln in found] == pytest.approx([7 * each for each in seconds])


# The paper's figure


def test_the_papers_figure_stands_beside_the_line_made_as_the_paper_made_it() -> None:
    several = rows(filled(hscl("paper"), SEEDS))
    assert [(ln.kind, ln.paper) for ln in several] == [("fixed", None)] * 3 + [("best", 87.2)]
    best = several[-1]
    assert best.scores is not None
    assert best.gap == pytest.approx(np.mean(best.scores.flat) - 87.2)
    (one,) = rows(filled(hscl("paper", 2.0), SEEDS))
    assert (one.kind, one.paper) == ("fixed", 87.2)
    assert rows(filled([cell("ucl", "paper", dataset="PTC_MR")]))[0].paper == 55.3


@pytest.mark.parametrize(
    "cells",
    [
        hscl("inductive"), hscl("inductive", 1.0), [cell("dcl", "paper")], [cell("majority")],
        [cell("hscl", "paper", beta=beta, contrast="two-view") for beta in (1.0, 2.0)],
    ],
)  # fmt: skip
def test_the_papers_figure_stands_nowhere_else(cells: list[GraphConfig]) -> None:
    for select in (False, True):
        for line in rows(filled(cells, SEEDS, select=select)):
            assert (line.paper, line.gap) == (None, None)


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


def accuracies(line: Row) -> Accuracies:
    assert line.scores is not None
    return {s: list(f) for s, f in zip(line.scores.seeds, line.scores.folds, strict=True)}


def check_tests(block: Sequence[Row], controls: Mapping[str, Row]) -> None:
    """The tests of one data set and protocol, each control's line being given."""
    for control, reference in controls.items():
        family = [ln for ln in block if ln.kind != "best" and ln.method != control and ln.scores]
        ours, theirs = [accuracies(line) for line in family], accuracies(reference)
        differences, raw = zip(*(t_test(one, theirs) for one in ours), strict=True)
        p, p_ranks = holm(raw), holm([signed_ranks(one, theirs) for one in ours])
        for i, line in enumerate(family):
            test = line.tests[control]
            assert test.seeds == len(ours[i].keys() & theirs.keys())
            assert test.mean == pytest.approx(differences[i])
            assert test.p == pytest.approx(p[i], rel=1e-9)
            assert test.p_wilcoxon == pytest.approx(p_ranks[i], rel=1e-9)
            assert test.significant == (p[i] < 0.05)
    for line in block:
        expected_controls = set(controls) - {line.method} if line.kind != "best" else set()
        assert set(line.tests) == expected_controls, line.label


METHODS = ("ucl", "dcl", "scl", "hscl-tau")


def everything(*datasets: str) -> Results:
    tables = [(dataset, protocol) for dataset in datasets for protocol in ("paper", "inductive")]
    settings = [(m, 1.0) for m in METHODS] + [(m, b) for m in ("hucl", "hscl") for b in (1.0, 2.0)]
    settings += [("majority", 1.0), ("supervised", 1.0)]
    cells = [cell(m, p, dataset=d, beta=b) for d, p in tables for m, b in settings]
    return filled(list(dict.fromkeys(cells)), SEEDS, select=True)


def block_of(found: Sequence[Row], dataset: str, protocol: str) -> list[Row]:
    return [line for line in found if (line.dataset, line.protocol) == (dataset, protocol)]


@pytest.mark.parametrize("protocol", ["paper", "inductive"])
def test_every_line_is_tested_against_both_controls(protocol: str) -> None:
    block = block_of(rows(everything("MUTAG")), "MUTAG", protocol)
    kinds = {line.kind for line in block}
    assert kinds == {"fixed", "best", "baseline"} | (
        {"inside"} if protocol == "inductive" else set()
    )
    check_tests(block, {control: row_of(block, control) for control in ("ucl", "scl")})
    p = [test.p for line in block for test in line.tests.values()]
    assert min(p) < 0.05 < max(p)  # the table is one where corrections matter
    assert len({round(value, 9) for value in p}) > 5


def test_a_family_does_not_spill_over_data_sets() -> None:
    alone, more = rows(everything("MUTAG")), rows(everything("MUTAG", "PTC_MR"))
    for protocol in ("paper", "inductive"):
        assert block_of(more, "MUTAG", protocol) == block_of(alone, "MUTAG", protocol)
        other = block_of(more, "PTC_MR", protocol)
        check_tests(other, {control: row_of(other, control) for control in ("ucl", "scl")})


@pytest.mark.parametrize("protocol", ["paper", "inductive"])
def test_a_family_does_not_spill_over_protocols(protocol: str) -> None:
    cells = [cell(m, p) for m in METHODS for p in ("paper", "inductive")] + [cell("majority")]
    own = [c for c in cells if c.is_baseline or c.protocol == protocol]
    both = rows(filled(cells, SEEDS))
    assert block_of(both, "MUTAG", protocol) == rows(filled(own, SEEDS))


@pytest.mark.parametrize("control", [[], [cell("ucl")]])
def test_a_table_whose_control_is_absent_or_open_has_no_tests(control: list[GraphConfig]) -> None:
    cells = [*control, cell("dcl"), *hscl("inductive"), cell("majority")]
    missing = [Run(c, seed) for c in control for seed in SEEDS]
    found = rows(filled(cells, SEEDS, select=True, missing=missing))
    assert all(line.tests == {} for line in found)


def test_a_control_chosen_inside_stands_for_its_candidates() -> None:
    cells = [cell(m, lr=lr) for m in ("ucl", "scl", "hscl") for lr in (0.01, 0.001)]
    block = rows(filled(cells, SEEDS, select=True))
    controls = {name: row_of(block, f"{name} chosen inside") for name in ("ucl", "scl")}
    check_tests(block, controls)
    fixed = accuracies(row_of(block, "ucl lr=0.01"))
    assert accuracies(controls["ucl"]) != fixed  # they can be told apart


@pytest.mark.parametrize(("protocol", "select"), [("paper", True), ("inductive", False)])
def test_several_lines_of_a_control_are_no_control(protocol: str, select: bool) -> None:
    cells = [cell("ucl", protocol, lr=lr) for lr in (0.01, 0.001)]
    cells += [cell(method, protocol) for method in ("scl", "dcl")]
    block = rows(filled(cells, SEEDS, select=select))
    check_tests(block, {"scl": row_of(block, "scl")})


def test_lines_of_different_seeds_are_compared_on_those_they_share() -> None:
    cells = [cell("ucl"), cell("dcl"), *hscl("inductive", 1.0), cell("majority")]
    missing = [Run(cells[0], 0), Run(cells[0], 5), Run(cells[1], 6), Run(cells[2], 0)]
    block = rows(filled(cells, SEEDS, missing=missing))
    check_tests(block, {"ucl": row_of(block, "ucl")})
    shared = {line.label: line.tests["ucl"].seeds for line in block if line.tests}
    assert shared == {"dcl": 4, "hscl β=1": 5, "majority": 5}


def test_one_shared_seed_has_folds_to_test_but_no_ranks() -> None:
    cells = [cell("ucl"), cell("dcl"), cell("hscl-tau")]
    missing = [Run(cells[1], seed) for seed in SEEDS[1:]]
    ucl, *others = rows(filled(cells, SEEDS, missing=missing))
    lone, whole = (line.tests["ucl"] for line in others)
    raw = [t_test(accuracies(line), accuracies(ucl))[1] for line in others]
    assert [lone.p, whole.p] == pytest.approx(holm(raw))
    assert (lone.seeds, lone.p_wilcoxon) == (1, None)
    expected = signed_ranks(accuracies(others[1]), accuracies(ucl))
    assert whole.p_wilcoxon == pytest.approx(expected)  # a family of one: nothing to correct


def test_open_lines_and_lines_without_a_shared_seed_have_no_tests_and_do_not_count() -> None:
    cells = [cell("ucl"), cell("dcl"), cell("hscl-tau"), cell("scl")]
    missing = [Run(cells[1], seed) for seed in SEEDS]
    missing += [Run(cells[0], seed) for seed in SEEDS[4:]]
    missing += [Run(cells[2], seed) for seed in SEEDS[:4]]
    ucl, opened, apart, scl = rows(filled(cells, SEEDS, missing=missing))
    assert opened.tests == {}
    assert set(apart.tests) == {"scl"}
    # Against ucl scl is alone, so its p is uncorrected.
    assert scl.tests["ucl"].p == pytest.approx(t_test(accuracies(scl), accuracies(ucl))[1])
    assert scl.tests["ucl"].seeds == 4
