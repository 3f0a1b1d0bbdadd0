"""Markdown tables of lines made by hand, and what stands under them."""

from __future__ import annotations

from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.reporting.markdown import (
    ACROSS,
    choices,
    markdown_table,
    marks,
    to_markdown,
)
from gcl_hard.experiments.results import CellResult, Scores, Selection
from tests.experiments import record
from tests.experiments.reporting import BEST, FULL, OPEN, differs, line


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


def test_a_table() -> None:
    assert (
        markdown_table(["a", "b"], [["x", "1"]], texts=1) == "| a | b |\n| --- | ---: |\n| x | 1 |"
    )


def test_marks_stand_exactly_where_they_apply() -> None:
    assert marks([line("ucl", kind="floor")]) == []
    found = {
        "Standard deviation": [line("ucl")],
        "†": [FULL], "round brackets": [FULL], "open:": [OPEN], "square brackets": [BEST],
        "best on test:": [BEST], "chosen inside:": [line(kind="inside")],
    }  # fmt: skip
    for mark, own in found.items():
        assert sum(note.startswith(mark) or mark in note[:20] for note in marks(own)) == 1
    assert len(marks([FULL, OPEN, BEST, line(kind="inside")])) == len(found)


def test_deviations_over_folds_are_averaged_over_fixed_lines_of_a_set() -> None:
    one, other = Scores((0,), ((80.0, 90.0),)), Scores((0,), ((70.0, 72.0),))
    own = [
        line("ucl", scores=one),
        line("scl", scores=other),
        line("hscl", kind="best", scores=one),
    ]
    (note,) = (n for n in marks(own) if n.startswith("Standard"))
    # √50 and √2: their mean is 4.24
    assert note.endswith("mean of the trained methods: PTC_MR 4.2.")


def test_choices_counts_the_folds_of_each_candidate() -> None:
    cells = [GraphCell(protocol="inductive", beta=beta, folds=3) for beta in (1.0, 10.0)]
    inner = ([[50.0, 60.0, 70.0], [80.0] * 3], [[55.0, 59.0, 69.0], [80.0, 80.0, 90.0]])
    # The second is better in fold 0 of seed 0 and in fold 2 of seed 1; a tie is the first's.
    results = [
        CellResult(c, tuple(record(c, s, folds) for s, folds in enumerate(accuracies)))
        for c, accuracies in zip(cells, inner, strict=True)
    ]
    table = choices([Selection(tuple(results), tuple(results))])
    assert table.splitlines()[2:] == ["| MUTAG | hscl | β=1 | 4 |", "| MUTAG | hscl | β=10 | 2 |"]
