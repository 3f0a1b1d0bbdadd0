"""LaTeX tables of lines made by hand: what stands in them, and that they are balanced."""

from __future__ import annotations

import re

import pytest

from gcl_hard.experiments.reporting.latex import to_latex
from gcl_hard.experiments.results import Scores
from tests.experiments.reporting import BEST, FULL, LINES, OPEN, differs, line


def body(source: str) -> dict[str, list[str]]:
    """The cells of each row by the row's name."""
    cells = [row.removesuffix(r" \\").split(" & ") for row in source.splitlines() if " & " in row]
    return {name: rest for name, *rest in cells}


def test_latex_is_balanced_and_every_row_has_a_cell_a_data_set() -> None:
    shown = [*LINES, line("ucl", dataset="MUTAG"), line(dataset="MUTAG", setting="β=10")]
    source = to_latex(shown)
    for name in ("table", "tabular"):
        begins, ends = source.count(rf"\begin{{{name}}}"), source.count(rf"\end{{{name}}}")
        assert begins == ends == 2
    for table in source.split(r"\end{table}")[:-1]:
        plain = re.sub(r"\\[{}$]", "", table)
        assert plain.count("{") == plain.count("}")
        assert plain.count("$") % 2 == 0
        columns = re.findall(r"tabular\}\{l(c+)\}", table)
        rules = [table.index(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")]
        assert rules == sorted(rules)
        between = table[rules[0] : rules[2]]
        assert {row.count("&") for row in between.splitlines() if r"\\" in row} == {len(columns[0])}


def test_latex_shows_means_stars_and_what_is_open() -> None:
    shown = [
        line("ucl"),
        line("scl", tests=differs(0.2)),
        line("majority", "floor", tests=differs(0.01, -4.0)),
        OPEN,
        line("hscl", setting="β=1", expected=5),
    ]
    found = body(to_latex(shown))
    assert found["ucl"] == [r"$79.0 \pm 8.5$"]
    assert found["scl"] == [r"$79.0 \pm 8.5$"]
    assert found["majority"] == [r"$79.0 \pm 8.5^{*}$"]
    assert found[r"hscl $\beta$=10"] == ["--"]
    assert found[r"hscl $\beta$=1"] == [r"$79.0 \pm 8.5$ [2]"]


@pytest.mark.parametrize(("difference", "bold"), [(4.0, True), (-4.0, False)])
def test_latex_is_bold_only_where_the_best_is_significantly_above_ucl(
    difference: float, bold: bool
) -> None:
    higher = Scores((0, 1), ((90.0, 90.0), (90.0, 90.0)))
    top = line("hscl", scores=higher, tests=differs(0.01, difference))
    source = to_latex([line("ucl"), line("scl", tests=differs(0.01, 4.0)), top])
    assert (r"$\mathbf{90.0 \pm 0.0}^{*}$" in source) is bold
    assert source.count("mathbf") == bold


def test_latex_escapes_what_it_must() -> None:
    source = to_latex([line("majority", "floor", dataset="A_B&C%#{$}~^\\")])
    assert r"A\_B\&C\%\#\{\$\}\textasciitilde{}\textasciicircum{}\textbackslash{} \\" in source


def test_the_caption_says_what_a_reader_must_know_exactly_where_it_applies() -> None:
    marks = {
        "seen the labels": [FULL], "no estimate": [BEST], "differs from ucl": [FULL],
        "seeds so far": [BEST], "not finished": [OPEN],
    }  # fmt: skip
    plain = line("hucl")
    assert not any(mark in to_latex([plain]) for mark in marks)
    for mark, own in marks.items():
        assert mark in to_latex([plain, *own])
    assert "seen the labels" not in to_latex([line("scl", protocol="inductive")])
    assert "over 2 seeds." in to_latex([plain])
