"""Results, table and notes against records made by hand."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from gcl_hard.experiments.config import CellConfig
from gcl_hard.experiments.records import SCHEMA_VERSION
from gcl_hard.experiments.report import HEADS, drawing, markdown, notes, rows
from gcl_hard.experiments.results import CellResult, result_json
from tests.experiments import record

ACCURACIES = [[80.0, 90.0, 85.0], [70.0, 71.0, 78.0], [92.0, 88.0, 84.0]]

SEEN, PICKED, CHOSEN = "have seen the labels", "best of β = 1, 2, 10", "Picking the best β"


def result(n_seeds: int = 3, **settings: object) -> CellResult:
    cell = CellConfig(**{"folds": 3, **settings})  # type: ignore[arg-type]
    return CellResult(
        cell, tuple(record(cell, 5 + i, ACCURACIES[i]) for i in range(n_seeds))
    )  # fmt: skip


def test_means_and_deviations_are_numpys() -> None:
    table = np.array(ACCURACIES)
    got = result()
    np.testing.assert_allclose(got.accuracies, table.mean(axis=1))
    assert got.mean == pytest.approx(table.mean(axis=1).mean())
    assert got.std == pytest.approx(table.mean(axis=1).std(ddof=1))
    assert got.fold_std == pytest.approx(table.std(axis=1, ddof=1).mean())


def test_one_seed_has_no_deviation() -> None:
    assert result(1).std is None
    assert result(1).as_json()["accuracy_std"] is None


def test_a_row_shows_what_the_records_hold() -> None:
    # Seeds' means 85, 73, 88: mean 82, deviation √63 = 7.94; the paper's MUTAG hscl is 87.2.
    # Deviations over folds 5, √19 = 4.36, 4: mean 4.45. Three seeds of 20 + 3 s.
    (row,) = rows([result()])
    assert row == ("MUTAG", "hscl", "1", "paper", "82.0 ± 7.9", "4.5", "87.2", "-5.2", "3", "69")


def test_a_row_shows_a_dash_for_what_there_is_not() -> None:
    (row,) = rows([result(1, method="dcl", protocol="inductive")])
    assert (row.beta, row.accuracy, row.paper, row.gap, row.seeds) == ("–", "85.0", "–", "–", "1")


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
        ("PROTEINS", "hscl", "paper", None),
    ],
)
def test_the_papers_figure_stands_beside_its_own_cells_only(
    dataset: str, method: str, protocol: str, figure: float | None
) -> None:
    assert result(dataset=dataset, method=method, protocol=protocol).paper == figure


def test_rows_keep_the_order_of_the_results() -> None:
    results = [result(beta=beta) for beta in (10.0, 0.5, 2.0)]
    assert [row.beta for row in rows(results)] == ["10", "0.5", "2"]


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
        ([{"method": "hcl", "beta": 1.0}, {"method": "hcl", "beta": 2.0}], {CHOSEN}),
        ([{"method": "hcl", "beta": 1.0}, {"method": "hucl", "beta": 2.0}], {PICKED}),
        (
            [
                {"method": "hcl", "beta": 1.0, "dataset": "PROTEINS"},
                {"method": "hcl", "beta": 2.0, "dataset": "PTC_MR"},
            ],
            set(),
        ),
        ([{"method": "hscl", "beta": 1.0}, {"method": "hscl", "beta": 2.0}],
         {SEEN, PICKED, CHOSEN}),
    ],
)  # fmt: skip
def test_a_note_stands_exactly_where_it_applies(
    cells: list[dict[str, object]], expected: set[str]
) -> None:
    found = notes([result(**settings) for settings in cells])  # type: ignore[arg-type]
    assert "standard deviation over seeds" in found[0]
    text = " ".join(found)
    assert {mark for mark in (SEEN, PICKED, CHOSEN) if mark in text} == expected
    assert len(found) == 1 + len(expected)


# Drawings


def cells_of(line: str) -> list[str]:
    return [part.strip() for part in line.strip().strip("|").split("|")]


def test_markdown_has_as_many_cells_as_heads_in_every_line() -> None:
    results = [result(), result(1, method="ucl", protocol="inductive")]
    table, _, rest = markdown(results).partition("\n\n")
    lines = table.splitlines()
    assert [len(cells_of(line)) for line in lines] == [len(HEADS)] * 4
    assert [tuple(cells_of(line)) for line in lines[2:]] == [tuple(row) for row in rows(results)]
    assert rest.splitlines() == [f"- {note}" for note in notes(results)]


def test_the_drawing_shows_every_row_and_note() -> None:
    results = [result(), result(1, method="ucl", protocol="inductive")]
    console = Console(file=StringIO(), width=300)
    console.print(drawing(results))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for row in rows(results):
        assert all(part in text for part in row)
    assert all(note in text for note in notes(results))


def test_heads_of_the_drawing_are_whole_in_a_terminal_of_80_columns() -> None:
    console = Console(file=StringIO(), width=80)
    console.print(drawing([result(dataset="IMDB-BINARY", method="hscl-tau", protocol="inductive")]))
    assert "…" not in console.file.getvalue()  # type: ignore[attr-defined]


# The result file


def test_the_result_file_holds_what_its_schema_says() -> None:
    content = result_json([result(), result(1, method="ucl", protocol="inductive")])
    assert content["schema_version"] == SCHEMA_VERSION
    first, second = content["cells"]
    assert list(first) == [
        "dataset", "method", "protocol", "beta", "seeds", "accuracies", "fold_accuracies",
        "accuracy_mean", "accuracy_std", "paper_accuracy", "n_graphs", "n_classes", "n_features",
        "features", "config", "versions", "device", "seconds_train", "seconds_eval",
    ]  # fmt: skip
    assert (first["seeds"], first["fold_accuracies"]) == ([5, 6, 7], ACCURACIES)
    assert (first["seconds_train"], first["seconds_eval"]) == (60.0, 9.0)
    assert (first["accuracy_mean"], first["paper_accuracy"]) == (pytest.approx(82.0), 87.2)
    assert set(first["config"]) == set(CellConfig.__dataclass_fields__)
    assert (second["beta"], second["paper_accuracy"], second["accuracies"]) == (None, None, [85.0])
