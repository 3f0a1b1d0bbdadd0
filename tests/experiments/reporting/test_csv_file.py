"""The CSV of lines made by hand, against the numbers they were made of."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from gcl_hard.experiments.reporting.csv_file import COLUMNS, to_csv
from tests.experiments.reporting import FULL, LINES, differs, line


def rows() -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(to_csv(LINES))))


def test_csv_has_a_row_a_line_and_unix_ends() -> None:
    text = to_csv(LINES)
    assert "\r" not in text
    assert text.splitlines()[0] == ",".join(COLUMNS)
    assert [(r["method"], r["protocol"], r["kind"], r["choice"]) for r in rows()] == [
        ("scl", "paper", "fixed", ""), ("hscl", "paper", "fixed", "β=10"),
        ("hscl", "paper", "best", "best on test (β=2)"), ("majority", "inductive", "floor", ""),
    ]  # fmt: skip


def test_csv_parses_back_to_the_numbers() -> None:
    found = rows()[0]
    interval = FULL.interval
    assert interval is not None
    expected = {
        "seeds": 2, "seeds_expected": 2, "mean": 79.0, "std_seeds": 72**0.5,
        "std_folds": (5 + 19**0.5) / 2, "low": interval.low, "high": interval.high, "paper": 55.8,
        "gap": 23.2, "vs_ucl": 4.25, "p_ucl": 0.012345, "p_wilcoxon_ucl": 0.5, "vs_scl": -1.0,
        "p_scl": 1.0, "seconds": 46.0,
    }  # fmt: skip
    words = {"dataset", "protocol", "method", "kind", "choice"}
    numbers = {name: float(v) for name, v in found.items() if v and name not in words}
    assert numbers == pytest.approx(expected, abs=5e-5)


def test_an_open_line_has_a_kind_and_no_numbers() -> None:
    found = rows()[1]
    assert (found["kind"], found["seeds"], found["seeds_expected"]) == ("fixed", "0", "2")
    known = {"dataset", "protocol", "method", "kind", "choice", "seeds", "seeds_expected", "paper"}
    assert {name for name, value in found.items() if value} == known


def test_csv_tells_what_is_zero_from_what_is_not_there() -> None:
    zero = line("dcl", tests=differs(0.0, difference=-0.00001), optimism=0.0)
    (found,) = csv.DictReader(StringIO(to_csv([zero])))
    assert (found["p_ucl"], found["vs_ucl"], found["optimism"]) == ("0", "0.0000", "0.0000")
    assert (found["p_scl"], found["seconds"]) == ("", "")
