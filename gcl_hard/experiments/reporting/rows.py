"""Lines of results as rows of text: accuracies, and differences from the controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gcl_hard.experiments.lines import CONTROLS, Comparison, Line
from gcl_hard.experiments.reporting.words import accuracy
from gcl_hard.experiments.results import Scores


class Row(NamedTuple):
    """A line of the table, as text."""

    dataset: str
    method: str
    protocol: str
    accuracy: str
    folds: str
    paper: str
    gap: str
    seeds: str
    seconds: str


HEADS = Row("data set", "method", "protocol", "accuracy %", "folds", "paper", "gap", "seeds", "s")


class DifferenceRow(NamedTuple):
    """A line's differences from the controls, as text."""

    dataset: str
    method: str
    protocol: str
    ucl: str
    p_ucl: str
    scl: str
    p_scl: str


DIFFERENCE_HEADS = DifferenceRow("data set", "method", "protocol", "− ucl", "p", "− scl", "p")


def rows(lines: Sequence[Line]) -> list[Row]:
    """The table's rows.

    Args:
        lines: in the order to show them.

    Returns:
        One row a line.
    """
    return [_row(line) for line in lines]


def _row(line: Line) -> Row:
    scores = line.scores
    n_seeds = len(scores.seeds) if scores else 0
    whole = n_seeds == line.expected
    return Row(
        dataset=line.dataset,
        method=name(line),
        protocol=line.protocol,
        accuracy=accuracy(line),
        folds=_spread(scores),
        paper="–" if line.paper is None else f"{line.paper:.1f}",
        gap="–" if line.gap is None else f"{line.gap:+.1f}",
        seeds=str(n_seeds) if whole else f"{n_seeds}/{line.expected}",
        seconds=f"{line.seconds:.0f}" if line.seconds else "–",
    )


def heads(lines: Sequence[Line]) -> Row:
    """The table's head: of one test split, the deviation over folds is its standard error."""
    one_split = any(line.scores and line.scores.one_split for line in lines)
    return HEADS._replace(folds="s.e.") if one_split else HEADS


def _spread(scores: Scores | None) -> str:
    if scores is None:
        return "–"
    spread = scores.test_error if scores.one_split else scores.fold_std
    return "–" if spread is None else f"{spread:.1f}"


def name(line: Line) -> str:
    """Method and setting, short enough for a terminal."""
    kind = line.kind if line.kind in ("inside", "best") else ""
    return " ".join(part for part in (line.method, kind, line.setting) if part)


def rows_of_tests(lines: Sequence[Line]) -> list[DifferenceRow]:
    """The rows of the tests, of lines that have one."""
    return [_row_of_tests(line) for line in lines if line.tests]


def _row_of_tests(line: Line) -> DifferenceRow:
    ucl, scl = (line.tests.get(control) for control in CONTROLS)
    return DifferenceRow(
        line.dataset, name(line), line.protocol,
        difference(ucl), p_values(ucl), difference(scl), p_values(scl),
    )  # fmt: skip


def difference(test: Comparison | None) -> str:
    """Points, marked if they are not significant."""
    if test is None:
        return "–"
    points = round(test.difference, 1) + 0.0  # no -0.0
    return f"{points:+.1f}" + ("" if test.significant else " ns")


def p_values(test: Comparison | None) -> str:
    """Of the t-test, and of Wilcoxon's in brackets."""
    if test is None:
        return "–"
    other = "–" if test.p_wilcoxon is None else _p(test.p_wilcoxon)
    return f"{_p(test.p)} ({other})"


def _p(p: float) -> str:
    if p < 0.001:
        return "<.001"
    return "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")
