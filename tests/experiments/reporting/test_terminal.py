"""Tables and notes of a terminal, against records made by hand."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from gcl_hard.experiments.lines import Line, lines
from gcl_hard.experiments.reporting.rows import DIFFERENCE_HEADS, HEADS, rows, rows_of_tests
from gcl_hard.experiments.reporting.terminal import drawing, notes
from gcl_hard.experiments.results import Results
from tests.experiments import record
from tests.experiments.reporting.made import SEEDS, cell, results, shown

SEEN, PICKED = "have seen the labels", "best of β = 1, 2, 10"
BEST = "no estimate of accuracy on new"
FLOORS, INSIDE, TESTED = "Floors see training folds", "chose its own setting", "Wilcoxon's test"
MARKS = (SEEN, PICKED, BEST, FLOORS, INSIDE, TESTED)


# Notes


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([{"method": "ucl", "protocol": "inductive"}], set()),
        ([{"method": "hscl", "protocol": "inductive"}], set()),
        ([{"method": "dcl"}], set()),
        ([{"method": "hscl-tau"}], {SEEN}),
        ([{"dataset": "PROTEINS", "method": "scl"}], {SEEN}),
        ([{"method": "hscl"}], {SEEN, PICKED}),
        ([{"method": "hucl"}], {PICKED}),
        ([{"method": "majority"}], {FLOORS}),
        ([{"method": "ucl"}, {"method": "hucl"}], {PICKED, TESTED}),
        ([{"method": "hcl", "beta": 1.0}, {"method": "hcl", "beta": 2.0}], {BEST}),
        ([{"method": "hcl", "beta": 1.0}, {"method": "hucl", "beta": 2.0}], {PICKED}),
        (
            [
                {"method": "hcl", "beta": 1.0, "dataset": "PROTEINS"},
                {"method": "hcl", "beta": 2.0, "dataset": "PTC_MR"},
            ],
            set(),
        ),
        ([{"method": "hscl", "beta": 1.0}, {"method": "hscl", "beta": 2.0}],
         {SEEN, PICKED, BEST}),
        ([{"method": "hscl", "beta": b, "protocol": "inductive"} for b in (1.0, 2.0)],
         {BEST, INSIDE}),
    ],
)  # fmt: skip
def test_a_note_stands_exactly_where_it_applies(
    cells: list[dict[str, object]], expected: set[str]
) -> None:
    found = notes(shown(*(cell(**settings) for settings in cells), select=True))
    assert "standard deviation over seeds" in found[0]
    text = " ".join(found[1:])
    assert {mark for mark in MARKS if mark in text} == expected
    assert len(found) == 1 + len(expected) + ("Optimism" in text)


def test_optimism_is_best_less_inside() -> None:
    one, other = (cell(beta=beta, protocol="inductive") for beta in (1.0, 2.0))
    told = results(one, other, select=True, shift={other: 2.0})
    records = {  # hold-outs prefer the worse candidate
        job: record(job.cell, job.seed, [100.0 - a for a in r.fold_accuracies], inner=True)
        if job.inner
        else r
        for job, r in told.records.items()
    }
    found = notes(lines(Results(told.cells, SEEDS, records, select=True)))
    assert "Optimism, best less inside, in points: MUTAG hscl +2.0." in found


# Drawings


def text_of(found: list[Line], width: int) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(drawing(found))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_the_drawing_shows_every_row_and_note() -> None:
    found = shown(cell(), cell(method="ucl"), cell(method="ucl", protocol="inductive"))
    text = text_of(found, 400)
    for row in (*rows(found), *rows_of_tests(found), HEADS, DIFFERENCE_HEADS):
        assert all(part in text for part in row)
    assert all(note in text for note in notes(found))


def test_both_tables_are_whole_in_a_terminal_of_80_columns() -> None:
    shared = {"dataset": "IMDB-BINARY", "protocol": "inductive"}
    cells = [cell(method=m, **shared) for m in ("ucl", "scl", "label-histogram")]
    cells += [cell(method="hucl", beta=b, **shared) for b in (1.0, 10.0)]
    assert "…" not in text_of(shown(*cells, select=True), 80)
