"""Rows of text, against records made by hand."""

from __future__ import annotations

import re

import pytest

from gcl_hard.experiments.lines import lines
from gcl_hard.experiments.reporting.rows import rows, rows_of_tests
from gcl_hard.experiments.results import Results
from tests.experiments import record
from tests.experiments.reporting.made import SEEDS, cell, results, shown


def test_a_row_shows_what_the_records_hold() -> None:
    # Seeds' means 85, 73, 88: mean 82, deviation √63 = 7.94; the paper's MUTAG hscl is 87.2.
    # Deviations over folds 5, √19 = 4.36, 4: mean 4.45. Three seeds of 20 + 3 s.
    (row,) = rows(shown(cell()))
    assert row == ("MUTAG", "hscl β=1", "paper", "82.0 ± 7.9", "4.5", "87.2", "-5.2", "3", "69")


def test_a_row_shows_a_dash_for_what_there_is_not() -> None:
    (row,) = rows(shown(cell(method="dcl", protocol="inductive"), n_seeds=1))
    assert (row.method, row.accuracy, row.paper, row.gap) == ("dcl", "85.0", "–", "–")
    assert row.seeds == "1/3"
    (row,) = rows(shown(cell(), n_seeds=0))
    assert (row.accuracy, row.folds, row.gap, row.seeds, row.seconds) == (
        "open", "–", "–", "0/3", "–",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("dataset", "method", "protocol", "figure"),
    [
        ("MUTAG", "ucl", "paper", 86.8),
        ("ENZYMES", "hucl", "paper", 50.4),
        ("IMDB-BINARY", "hscl", "paper", 73.0),
        ("IMDB-MULTI", "scl", "paper", 49.9),
        ("PTC_MR", "hucl", "paper", 57.3),
        ("PTC_MR", "hucl", "inductive", None),
        ("MUTAG", "hscl-tau", "paper", None),
        ("MUTAG", "untrained", "paper", None),
        ("PROTEINS", "hscl", "paper", None),
    ],
)
def test_the_papers_figure_stands_beside_its_own_cells_only(
    dataset: str, method: str, protocol: str, figure: float | None
) -> None:
    one = cell(dataset=dataset, method=method, protocol=protocol)
    assert one.paper == figure


def test_rows_keep_the_order_of_the_cells_and_name_how_a_setting_came_to_be() -> None:
    cells = [cell(beta=beta, protocol="inductive") for beta in (10.0, 0.5)]
    assert [row.method for row in rows(shown(*cells, select=True))] == [
        "hscl β=10", "hscl β=0.5", "hscl inside", "hscl best β=10",
    ]  # fmt: skip


def test_the_rows_of_tests_show_differences_and_what_is_not_significant() -> None:
    ucl, scl, far = cell(method="ucl"), cell(method="scl"), cell(method="hucl")
    found = rows_of_tests(lines(results(ucl, scl, far, shift={far: -40.0, scl: 0.5})))
    assert [(r.method, r.ucl, r.scl) for r in found] == [
        ("ucl", "–", "-0.5"), ("scl", "+0.5", "–"), ("hucl β=1", "-40.0", "-40.5"),
    ]  # fmt: skip
    noisy = results(ucl, cell(method="dcl"))
    other = dict(noisy.records)
    for job in other:
        if job.cell.method == "dcl":
            other[job] = record(job.cell, job.seed, [80.0, 85.0, 84.0])
    (line,) = rows_of_tests(lines(Results(noisy.cells, SEEDS, other)))
    assert line.ucl.endswith(" ns")
    assert re.fullmatch(r"(1|\.\d{3}) \((1|\.\d{3})\)", line.p_ucl)
