"""CSV, LaTeX and Markdown of lines made by hand, against the numbers they were made of."""

from __future__ import annotations

import csv
import re
from io import StringIO

import pytest

from gcl_hard.experiments.config import CellConfig
from gcl_hard.experiments.export import (
    ACROSS,
    COLUMNS,
    best_trained,
    choices,
    grid,
    markdown_table,
    marks,
    points,
    to_csv,
    to_latex,
    to_markdown,
    values,
)
from gcl_hard.experiments.lines import Kind, Line
from gcl_hard.experiments.lines import Test as Difference
from gcl_hard.experiments.results import CellResult, Scores, Selection
from tests.experiments import record

SCORES = Scores((0, 1), ((80.0, 90.0, 85.0), (70.0, 71.0, 78.0)))  # means 85 and 73


def line(
    method: str = "hscl",
    kind: Kind = "fixed",
    *,
    dataset: str = "PTC_MR",
    protocol: str = "paper",
    setting: str = "",
    scores: Scores | None = SCORES,
    expected: int = 2,
    **rest: object,
) -> Line:
    return Line(dataset, method, protocol, kind, setting, scores, expected, **rest)  # type: ignore[arg-type]


def differs(p: float, difference: float = 4.25) -> dict[str, Difference]:
    return {"ucl": Difference("ucl", 2, difference, p, 0.5)}


OPEN = line(scores=None, setting="β=10", paper=57.7)
FULL = line(
    "scl",
    paper=55.8,
    seconds=46.0,
    tests={**differs(0.012345), "scl": Difference("scl", 2, -1, 1, None)},
)
BEST = line(kind="best", setting="β=2", optimism=1.5, expected=5)
LINES = [FULL, OPEN, BEST, line("majority", "floor", protocol="inductive")]


# CSV


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


# LaTeX


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


# Markdown


def test_markdown_cells() -> None:
    shown = [line("ucl", paper=78.0), line("scl", tests=differs(0.01)), OPEN, BEST]
    (table,) = to_markdown(shown)
    nbsp = "\u00a0"
    assert table.splitlines() == [
        "|  | PTC_MR |",
        "| --- | ---: |",
        f"| ucl | 79.0{nbsp}±{nbsp}8.5 (+1.0) |",
        f"| scl | 79.0{nbsp}±{nbsp}8.5† |",
        "| hscl β=10 | open |",
        f"| hscl best on test | 79.0{nbsp}±{nbsp}8.5 β=2 [2{nbsp}of{nbsp}5] |",
    ]


def test_markdown_is_at_most_five_data_sets_wide() -> None:
    names = [f"SET{n}" for n in range(7)]
    tables = to_markdown([line("ucl", dataset=name) for name in names])
    heads = [table.splitlines()[0].strip("| ").split(" | ") for table in tables]
    assert [len(head) for head in heads] == [ACROSS, 2]
    assert [name for head in heads for name in head] == names
    assert all(len(table.splitlines()) == 3 for table in tables)


def test_marks_stand_exactly_where_they_apply() -> None:
    assert marks([line("ucl")]) == []
    found = {
        "†": [FULL], "round brackets": [FULL], "open:": [OPEN], "square brackets": [BEST],
        "best on test:": [BEST], "chosen inside:": [line(kind="inside")],
    }  # fmt: skip
    for mark, own in found.items():
        assert sum(note.startswith(mark) or mark in note[:20] for note in marks(own)) == 1
    assert len(marks([FULL, OPEN, BEST, line(kind="inside")])) == len(found)


def test_choices_counts_the_folds_of_each_candidate() -> None:
    cells = [CellConfig(protocol="inductive", beta=beta, folds=3) for beta in (1.0, 10.0)]
    inner = ([[50.0, 60.0, 70.0], [80.0] * 3], [[55.0, 59.0, 69.0], [80.0, 80.0, 90.0]])
    # The second is better in fold 0 of seed 0 and in fold 2 of seed 1; a tie is the first's.
    results = [
        CellResult(c, tuple(record(c, s, folds) for s, folds in enumerate(accuracies)))
        for c, accuracies in zip(cells, inner, strict=True)
    ]
    table = choices([Selection(tuple(results), tuple(results))])
    assert table.splitlines()[2:] == ["| MUTAG | hscl | β=1 | 4 |", "| MUTAG | hscl | β=10 | 2 |"]


# Rows and words


def test_what_was_best_on_test_is_one_row_whatever_was_best() -> None:
    other = line(kind="best", setting="β=10", dataset="MUTAG")
    found = grid([BEST, other, line(setting="β=2")])
    assert found["hscl best on test"] == {"PTC_MR": BEST, "MUTAG": other}
    assert list(found) == ["hscl best on test", "hscl β=2"]


def test_the_best_trained_line_is_whole_no_floor_and_was_not_chosen_on_test() -> None:
    high = Scores((0,), ((99.0, 99.0),))
    low = line("ucl", scores=Scores((0,), ((50.0, 50.0),)), expected=1)
    inside = line(kind="inside")
    shown = [low, inside, OPEN, line(kind="best", scores=high, expected=1)]
    shown += [line("wl", "floor", scores=high, expected=1), line("scl", scores=high, expected=2)]
    assert best_trained(shown) is inside
    assert best_trained([OPEN]) is None


def test_a_table_and_points() -> None:
    assert (
        markdown_table(["a", "b"], [["x", "1"]], texts=1) == "| a | b |\n| --- | ---: |\n| x | 1 |"
    )
    assert [points(v) for v in (1.26, -1.26, -0.01)] == ["+1.3", "-1.3", "+0.0"]


def test_values_of_a_setting() -> None:
    cells = [CellConfig(beta=b, contrast="two-view") for b in (10.0, 1.0, 10.0)]
    assert values(cells, "beta") == "10, 1"
    assert values(cells, "augmentations") == "mask-attributes+perturb-edges"
    assert values(cells, "standardise") == "true"
    assert values([CellConfig(method="ucl")], "beta") == ""
