"""Signs in tables, each explained exactly where it is, in every format."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from gcl_hard.reports.frame import Results, Scores
from gcl_hard.reports.legend import SOURCES, legend, varied
from gcl_hard.reports.page import page
from gcl_hard.reports.rows import Row
from gcl_hard.reports.tables import terminal, to_latex
from tests.reports.made import BEST, FULL, OPEN, config, differs, row

ONE = Scores((0, 1), ((80.0,), (70.0,)), n_test=50)
UNITS = Scores((0, 1), ((80.0,), (70.0,)), samples=((), ()))
ROWS = [FULL, OPEN, BEST, row("wl", "baseline", blind=True), row(kind="inside"),
        row("hucl", tests=differs(0.01)), row("dcl", tests=differs(0.5)),
        row("hcl", knn=(80.0,), common_splits=True),
        row("bcl", metric="rmse", protocol="split", scores=ONE)]  # fmt: skip
PLAIN = row("dcl", protocol="inductive", scores=Scores((0,), ((80.0, 90.0, 85.0),)), expected=1)


def shown(format: str, *rows: Row) -> str:
    if format == "m":
        return page(Results([config()], (0, 1), {}), rows, command="x", quick=False, figures={})
    if format == "x":
        return to_latex(rows)
    console = Console(width=400, color_system=None)
    with console.capture() as seen:
        console.print(terminal(rows))
    return seen.get()


@pytest.mark.parametrize(
    ("format", "signs"),
    [
        ("m", "† § ° (+1.0) open [1|of|3] best optimism inside ↓ kNN seeds|×|splits [a,|b] p (p) ns"
         " transductive split ±"),
        ("t", "§ ° ↓ paper gap optimism s.e. open best inside p (p) ns transductive split ±"),
        ("x", "† § ° open [1|of|3] best inside bold transductive split ±"),
    ],
)  # fmt: skip
def test_a_sign_is_explained_where_it_is(format: str, signs: str) -> None:
    latex = {"†": r"$^\dagger$", "§": r"$^\S$", "°": r"$^\circ$", "±": r"$\pm$"}
    text, plain = shown(format, *ROWS), shown(format, PLAIN)
    for sign in (name.replace("|", " ") for name in signs.split()):
        start = {"m": f"- **{sign}**: ", "x": f". {latex.get(sign, sign)}: "}.get(format)
        pattern = re.escape(start) if start else rf"(?m)^{re.escape(sign)}  +\w"
        assert re.search(pattern, text), sign
        assert not re.search(pattern, plain), sign


@pytest.mark.parametrize(
    ("example", "source"),
    [
        (row("hucl"), "folds"), (row("hucl", common_splits=True), "splits"),
        (row("hucl", protocol="split"), "seeds"),
        (row("hucl", protocol="split", unit="fact", scores=UNITS), "items"),
        (row("hucl", protocol="split", unit="fact"), "seeds"),  # predictions are not stored
    ],
)  # fmt: skip
def test_intervals_and_tests_say_what_they_are_over(example: Row, source: str) -> None:
    assert varied(example) == source
    over, test = SOURCES[source]
    meanings = dict(legend([example], ["− ucl", "p ucl", "+4.2 [+3.2, +5.2] ns"]))
    assert over in meanings["[a, b]"]
    assert over in meanings["p"]
    assert test in meanings["p"]
