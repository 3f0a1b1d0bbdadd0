"""Tables of rows made by hand, against the numbers they were made of."""

from __future__ import annotations

import csv
import re
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from gcl_hard.experiments.choice import Choice
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.reports.frame import Results, Scores, Selection
from gcl_hard.reports.rows import Row, rows
from gcl_hard.reports.tables import (
    ACROSS,
    NBSP,
    best_row,
    choice_table,
    difference_table,
    markdown,
    score_tables,
    significance_table,
    terminal,
    text_frame,
    to_csv,
    to_latex,
)
from tests.experiments import record
from tests.reports.made import (
    BEST,
    FULL,
    OPEN,
    ROWS,
    SEEDS,
    at,
    cells_of,
    config,
    differs,
    lines_of,
    results,
    row,
    shown,
)
from tests.said import says

# Numbers as text


def test_markdown_tells_texts_from_numbers_and_keeps_them_as_they_are() -> None:
    table = markdown(text_frame(["a", "b"], [["x", "1.50"], ["y", "007"]]))
    assert cells_of(table) == [["a", "b"], ["x", "1.50"], ["y", "007"]]
    rule = table.splitlines()[1].strip("|").split("|")
    assert [text.endswith(":") for text in rule] == [False, True]
    assert markdown(text_frame(["a"], [])) == ""


# Choosing rows


def test_names_are_text_wherever_they_are_shown() -> None:
    """No formula of a spreadsheet, no element of a page, no line or cell of its own."""
    rendering = pytest.importorskip("markdown")
    name = "=1+1<script>alert(1)</script>\n# x|y"
    row = Row(name, "+ucl", "transductive", "fixed", "@", None, expected=1)
    line = list(csv.reader(StringIO(to_csv([row]))))[1]
    assert [text[:2] for text in line[:5] if text[:1] == "'"] == ["'=", "'+", "'@"]
    page = rendering.markdown(markdown(text_frame([name], [[name]])), extensions=["tables"])
    assert "<script" not in page
    assert "<h1" not in page
    assert len(re.findall(r"<t[hd]\b", page)) == 2


def test_the_best_row_row_is_whole_no_baseline_and_was_not_chosen_on_test() -> None:
    low = row("ucl", scores=at(50.0, 1), expected=1)
    inside = row(kind="inside")
    shown_rows = [low, inside, OPEN, row(kind="best", scores=at(99.0, 1), expected=1)]
    shown_rows += [row("wl", "baseline", scores=at(99.0, 1), expected=1)]
    shown_rows += [row("scl", scores=at(99.0, 1), expected=2)]
    assert best_row(shown_rows) is inside
    assert best_row([OPEN]) is None


# Tables on a page


def test_an_entry_has_mean_mark_gap_setting_and_seeds() -> None:
    shown_rows = [row("ucl", paper=78.0), row("scl", tests=differs(0.01)), OPEN, BEST]
    (table,) = score_tables(shown_rows)
    cells = [[cell.replace(NBSP, " ") for cell in line] for line in cells_of(markdown(table))]
    assert cells == [
        ["", "PTC_MR"],
        ["ucl", "79.0 ± 8.5 (+1.0)"],
        ["scl", "79.0 ± 8.5†§"],
        ["hscl β=10", "open"],
        [BEST.entry, "79.0 ± 8.5§ β=2 optimism +1.5 [2 of 5]"],
    ]


def test_a_table_is_at_most_five_data_sets_wide() -> None:
    sets = [f"SET{n}" for n in range(7)]
    tables = score_tables([row("ucl", dataset=name) for name in sets])
    assert [len(table.columns) - 1 for table in tables] == [ACROSS, 2]
    assert [name for table in tables for name in table.columns[1:]] == sets
    assert all(len(table) == 1 for table in tables)


def test_choices_count_the_folds_of_each_candidate() -> None:
    configs = [GraphConfig(protocol="inductive", beta=beta, folds=3) for beta in (1.0, 10.0)]
    inner = ([[50.0, 60.0, 70.0], [80.0] * 3], [[55.0, 59.0, 69.0], [80.0, 80.0, 90.0]])
    # The second is better in fold 0 of seed 0 and in fold 2 of seed 1; a tie is the first's.
    scores = tuple(Scores((0, 1), tuple(map(tuple, scores_of_seeds))) for scores_of_seeds in inner)
    table = choice_table([Selection(Choice(tuple(configs), inner), scores, 0.0)])
    assert says([*table.columns][-1], "folds")
    assert lines_of(table) == [["MUTAG", "hscl", "β=1", "4"], ["MUTAG", "hscl", "β=10", "2"]]


def test_comparisons_are_counted_by_protocol_control_and_kind() -> None:
    shown_rows = [
        row("ucl"), row("scl", tests=differs(0.05, 1.0)), row("hucl", tests=differs(0.049, -4.0)),
        row("hcl", tests=differs(0.01, 9.0)), row("hucl", "best", tests={}),
        row("wl", "baseline", tests=differs(0.001, 10.0)),
        row("dcl", protocol="inductive", tests=differs(0.5)),
    ]  # fmt: skip
    assert lines_of(significance_table(shown_rows)) == [
        ["transductive", "trained methods", "ucl", "3", "1", "1"],
        ["transductive", "baselines", "ucl", "1", "1", "0"],
        ["inductive", "trained methods", "ucl", "1", "0", "0"],
    ]
    assert significance_table([row("ucl")]).empty


def test_differences_are_shown_and_what_is_not_significant() -> None:
    ucl, scl, far = config(method="ucl"), config(method="scl"), config(method="hucl")
    table = difference_table(rows(results(ucl, scl, far, shift={far: -40.0, scl: 0.5})))
    run_record = table[["method", "− ucl", "− scl"]].replace(NBSP, " ", regex=True)
    assert run_record.to_numpy().tolist() == [
        ["ucl", "–", "-0.5 [-0.5, -0.5]"], ["scl §", "+0.5 [+0.5, +0.5]", "–"],
        ["hucl β=1", "-40.0 [-40.0, -40.0]", "-40.5 [-40.5, -40.5]"],
    ]  # fmt: skip
    noisy = results(ucl, config(method="dcl"))
    other = {
        run: record(run.config, run.seed, [80.0, 85.0, 84.0])
        if run.config.method == "dcl"
        else run_record
        for run, run_record in noisy.records.items()
    }
    ((*_, difference, p),) = lines_of(difference_table(rows(Results(noisy.configs, SEEDS, other))))
    assert re.fullmatch(r"\+[\d.]+ \[-[\d.]+, \+[\d.]+\] ns", difference.replace(NBSP, " "))
    assert re.fullmatch(r"(1|\.\d{3}) \((1|\.\d{3})\)", p)


# CSV


def csv_lines() -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(to_csv(ROWS))))


def test_csv_parses_back_to_the_numbers() -> None:
    """What is not there is empty, and what is zero is not."""
    line, opened = csv_lines()[:2]
    known = {"dataset", "protocol", "method", "kind", "choice", "seeds", "seeds_expected", "paper"}
    assert {name for name, value in opened.items() if value} == known
    (zero,) = csv.DictReader(StringIO(to_csv([row("dcl", tests=differs(0.0, mean=-0.00001))])))
    assert (zero["p_ucl"], zero["vs_ucl"], zero["p_scl"]) == ("0", "0.0000", "")
    span = FULL.interval
    assert FULL.scores is not None
    assert span is not None
    expected = {
        "mean": 79.0, "std_seeds": np.std([85.0, 73.0], ddof=1), "low": span.low,
        "high": span.high, "paper": 55.8, "gap": 23.2, "vs_ucl": 4.25, "p_ucl": 0.012345,
        "p_wilcoxon_ucl": 0.5, "vs_scl": -1.0, "p_scl": 1.0, "seconds": 46.0, "seeds": 2,
        "seeds_expected": 2,
        "std_folds": np.mean([np.std(f, ddof=1) for f in FULL.scores.folds]),
    }  # fmt: skip
    assert {name: float(line[name]) for name in expected} == pytest.approx(expected, abs=5e-5)


# LaTeX


def latex(*shown_rows: Row) -> str:
    return to_latex(shown_rows)


def body(source: str) -> dict[str, list[str]]:
    """The entries of each line by its label."""
    cells = [line.removesuffix(r" \\").split(" & ") for line in source.splitlines() if "&" in line]
    return {label.strip(): rest for label, *rest in cells}


def test_latex_is_balanced_and_every_line_has_an_entry_a_data_set() -> None:
    source = latex(*ROWS, row("ucl", dataset="MUTAG"), row(dataset="MUTAG", setting="β=10"))
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
        assert {line.count("&") for line in between.splitlines() if r"\\" in line} == {
            len(columns[0])
        }


def test_latex_shows_means_stars_what_is_open_and_a_rule_above_baselines() -> None:
    source = latex(
        row("ucl"), row("scl", tests=differs(0.2)), OPEN, row("hscl", setting="β=1", expected=5),
        row("majority", "baseline", tests=differs(0.01, -4.0), dataset="A_B&C%#{$}"),
        row("majority", "baseline", tests=differs(0.01, -4.0)),
    )  # fmt: skip
    assert r"A\_B\&C\%\#\{\$\}" in source
    entries = {label: cells[:1] for label, cells in body(source).items()}
    number = r"79.0~$\pm$~8.5"
    assert entries["ucl"] == [number]
    assert entries["scl"] == [rf"{number}$^\S$"]
    assert entries["majority"] == [rf"{number}$^\dagger$"]
    assert entries[r"hscl $\beta$=10"] == ["open"]
    assert entries[r"hscl $\beta$=1"] == [rf"{number}$^\S$ [2~of~5]"]
    lines = source.splitlines()
    above = lines.index(next(line for line in lines if line.startswith("majority"))) - 1
    assert lines[above] == r"\midrule"
    assert source.count(r"\midrule") == 2
    assert latex(row("ucl")).count(r"\midrule") == 1


@pytest.mark.parametrize(("difference", "bold"), [(4.0, True), (-4.0, False)])
def test_latex_is_bold_only_where_the_best_is_significantly_above_ucl(
    difference: float, bold: bool
) -> None:
    top = row("hscl", scores=at(90.0), tests=differs(0.01, difference))
    source = latex(row("ucl"), row("scl", tests=differs(0.01, 4.0)), top)
    assert (r"\textbf{90.0~$\pm$~0.0$^\dagger$$^\S$}" in source) is bold
    assert source.count("textbf") == source.count("bold:") == bold


# The terminal


def text_of(line: list[Row], width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as seen:
        console.print(terminal(line))
    return seen.get()


def test_a_line_of_the_terminal_shows_what_the_records_hold() -> None:
    # Seeds' means 85, 73, 88: mean 82, deviation √63 = 7.94; the paper's MUTAG hscl is 87.2.
    # Deviations over folds 5, √19 = 4.36, 4: mean 4.45. Three seeds of 20 + 3 s.
    line = next(x for x in text_of(shown(config()), 400).splitlines() if "MUTAG" in x)
    expected = [
        "MUTAG",
        "hscl",
        "β=1",
        "§",
        "transductive",
        "82.0",
        "±",
        "7.9",
        "4.5",
        "87.2",
        "-5.2",
        "3",
    ]
    assert line.split() == [*expected, "69"]


def test_optimism_is_best_less_inside() -> None:
    first, other = (config(beta=beta, protocol="inductive") for beta in (1.0, 2.0))
    outcome = results(first, other, select=True, shift={other: 2.0})
    records = {  # hold-outs prefer the worse candidate
        run: record(run.config, run.seed, [100.0 - a for a in r.values], inner=True)
        if run.inner
        else r
        for run, r in outcome.records.items()
    }
    table = rows(Results(outcome.configs, SEEDS, records, select=True))
    assert [r.optimism for r in table] == [None, None, None, pytest.approx(2.0)]
    text = text_of(table, 400)
    (line,) = (first for first in text.splitlines() if says(first, "MUTAG", "hscl best"))
    assert says(text, "data set", "optimism")
    assert says(line, "+2.0")
