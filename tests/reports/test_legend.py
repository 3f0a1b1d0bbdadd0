"""Signs in tables, each explained exactly where it is, in every format."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from gcl_hard.reports.frame import Results, Scores
from gcl_hard.reports.legend import LINES, legend, varied
from gcl_hard.reports.page import page
from gcl_hard.reports.rows import Row
from gcl_hard.reports.tables import terminal, to_latex
from tests.reports.made import BEST, FULL, OPEN, SCORES, config, differs, row

ONE = Scores((0, 1), ((80.0,), (70.0,)), n_test=50)
PLAIN = row("dcl", protocol="inductive", scores=Scores((0,), ((80.0, 90.0, 85.0),)), expected=1)
SIGNS = {
    "†": (FULL, "mx"), "§": (row("scl"), "mtx"), "°": (row("wl", "baseline", blind=True), "mtx"),
    "(+1.0)": (FULL, "m"), "open": (OPEN, "mtx"), "[1 of 3]": (BEST, "mx"), "best": (BEST, "mtx"),
    "inside": (row(kind="inside"), "mtx"),
    "↓": (row(metric="rmse"), "mt"), "kNN": (row(knn=(80.0,)), "m"),
    "paper": (FULL, "t"), "gap": (FULL, "t"), "optimism": (BEST, "t"),
    "s.e.": (row(protocol="split", scores=ONE), "t"),
    "seeds × splits": (row(common_splits=True), "mt"),
    "[a, b]": (FULL, "m"), "p": (FULL, "mt"), "(p)": (FULL, "mt"), "p, (p)": (FULL, "mt"),
    "ns": (row("hucl", tests=differs(0.5)), "mt"),
    "bold": (row("hucl", tests=differs(0.01)), "x"),
    "transductive": (FULL, "mtx"), "inductive": (PLAIN, "mtx"),
    "split": (row(protocol="split", scores=ONE), "mtx"),
}  # fmt: skip
"""A row that has each sign, and the formats that show it: m Markdown, t terminal, x LaTeX."""


def shown(format: str, *rows: Row) -> str:
    if format == "m":
        return page(Results([config()], (0, 1), {}), rows, command="x", quick=False, figures=[])
    if format == "x":
        return to_latex(rows)
    console = Console(width=400, color_system=None)
    with console.capture() as seen:
        console.print(terminal(rows))
    return seen.get()


def explained(format: str, sign: str, *rows: Row) -> bool:
    source = {"†": r"$^\dagger$", "§": r"$^\S$", "°": r"$^\circ$", "±": r"$\pm$"}
    text = shown(format, *rows)
    if format == "x":
        return f". {source.get(sign, sign)}: " in text
    start = rf"^- \*\*{re.escape(sign)}\*\*: " if format == "m" else rf"^{re.escape(sign)}  +\w"
    return bool(re.search(start, text, flags=re.M))


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("format", ["m", "t", "x"])
def test_a_sign_is_explained_exactly_where_it_is(sign: str, format: str) -> None:
    example, formats = SIGNS[sign]
    assert explained(format, sign, example) == (format in formats)
    assert not explained(format, sign, PLAIN) or sign == "inductive"


UNITS = Scores((0, 1), ((80.0,), (70.0,)), samples=((), ()))


@pytest.mark.parametrize(
    ("example", "over"),
    [
        (row("hucl", tests=differs(0.5)), "seeds and folds"),
        (row("hucl", common_splits=True, tests=differs(0.5)), "seeds and splits"),
        (row("hucl", protocol="split", tests=differs(0.5)), "seeds, on these test items"),
        (row("hucl", protocol="split", unit="fact", scores=UNITS, tests=differs(0.5)),
         "seeds and test items"),
        (row("hucl", protocol="split", unit="fact", tests=differs(0.5)),
         "seeds, on these test items"),  # whose predictions are not stored
    ],
)  # fmt: skip
def test_intervals_and_tests_say_what_they_are_over(example: Row, over: str) -> None:
    texts = ["− ucl", "p ucl", "+4.2 [+3.2, +5.2] ns"]
    meanings = [meaning for sign, meaning in legend([example], texts) if sign in ("[a, b]", "p")]
    whose = [meaning for meaning in meanings if "over" in meaning]
    assert len(whose) == 2
    assert all(over in meaning for meaning in whose)


def test_what_was_chosen_on_the_first_splits_is_told() -> None:
    some, every = (row(kind="inside", common_splits=True, chosen_on=n) for n in (2, None))
    texts = [some.label]
    assert len(legend([some], texts)) == len(legend([every], texts)) + 1


def test_every_line_is_one_line() -> None:
    assert all(len(line.meaning.split()) < 30 and "\n" not in line.meaning for line in LINES)
    assert varied(row(scores=SCORES)) == "folds"
