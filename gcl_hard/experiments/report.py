"""Lines of results as text: rows first, drawing second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gcl_hard.experiments.lines import CONTROLS, Line, Test
from gcl_hard.methods import METHODS

if TYPE_CHECKING:
    from rich.console import RenderableType


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


class TestRow(NamedTuple):
    """A line's differences from the controls, as text."""

    dataset: str
    method: str
    protocol: str
    ucl: str
    p_ucl: str
    scl: str
    p_scl: str


TEST_HEADS = TestRow("data set", "method", "protocol", "− ucl", "p", "− scl", "p")
TEXT_COLUMNS = {"dataset", "method", "protocol"}


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
        folds=f"{scores.fold_std:.1f}" if scores else "–",
        paper="–" if line.paper is None else f"{line.paper:.1f}",
        gap="–" if line.gap is None else f"{line.gap:+.1f}",
        seeds=str(n_seeds) if whole else f"{n_seeds}/{line.expected}",
        seconds=f"{line.seconds:.0f}" if line.seconds else "–",
    )


def name(line: Line) -> str:
    """Method and setting, short enough for a terminal."""
    kind = line.kind if line.kind in ("inside", "best") else ""
    return " ".join(part for part in (line.method, kind, line.setting) if part)


def accuracy(line: Line) -> str:
    """Mean ± deviation over seeds, percent."""
    if line.scores is None:
        return "open"
    std = line.scores.std
    return f"{line.scores.mean:.1f}" + ("" if std is None else f" ± {std:.1f}")


def test_rows(lines: Sequence[Line]) -> list[TestRow]:
    """The rows of the tests, of lines that have one."""
    return [_test_row(line) for line in lines if line.tests]


def _test_row(line: Line) -> TestRow:
    ucl, scl = (line.tests.get(control) for control in CONTROLS)
    return TestRow(
        line.dataset, name(line), line.protocol,
        difference(ucl), p_values(ucl), difference(scl), p_values(scl),
    )  # fmt: skip


def difference(test: Test | None) -> str:
    """Points, marked if they are not significant."""
    if test is None:
        return "–"
    points = round(test.difference, 1) + 0.0  # no -0.0
    return f"{points:+.1f}" + ("" if test.significant else " ns")


def p_values(test: Test | None) -> str:
    """Of the t-test, and of Wilcoxon's in brackets."""
    if test is None:
        return "–"
    other = "–" if test.p_wilcoxon is None else _p(test.p_wilcoxon)
    return f"{_p(test.p)} ({other})"


def _p(p: float) -> str:
    if p < 0.001:
        return "<.001"
    return "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")


def notes(lines: Sequence[Line]) -> list[str]:
    """What a reader must know to read the table."""
    found = [
        "± is the standard deviation over seeds (a seed varies the encoder and the folds); "
        "folds, the one over a seed's folds; s, seconds of training and scoring, all seeds."
    ]
    trained = [line for line in lines if line.kind != "floor"]
    if any(line.protocol == "paper" and METHODS[line.method].label_aware for line in trained):
        found.append(
            "Protocol paper trains on all graphs: label-aware encoders have seen the labels of "
            "the graphs they are tested on."
        )
    if any(line.paper is not None and line.setting for line in trained):
        found.append(
            "The paper's figure for hucl and hscl is the best of β = 1, 2, 10, chosen on the test "
            "folds; " + (
                "it stands beside ours of the same kind."
                if any(line.kind == "best" for line in lines)
                else "ours is of the β shown."
            )
        )  # fmt: skip
    if any(line.kind == "best" for line in lines):
        found.append(
            "best: of several settings the one with the best mean on the test folds, which is the "
            "paper's way and no estimate of accuracy on new graphs."
        )
    if any(line.kind == "inside" for line in lines):
        found.append(
            "inside: every training fold chose its own setting on a fifth of it that the encoder "
            "had not seen."
        )
    optimism = [
        f"{line.dataset} {line.method} {line.optimism:+.1f}"
        for line in lines
        if line.optimism is not None
    ]
    if optimism:
        found.append(f"Optimism, best less inside, in points: {', '.join(optimism)}.")
    if any(line.kind == "floor" for line in lines):
        found.append("Floors see training folds alone, so they stand under both protocols.")
    if any(line.tests for line in lines):
        found.append(
            "− ucl, − scl: differences in points, on paired folds. p: corrected resampled t-test, "
            "in brackets Wilcoxon's test over seeds; both Holm-corrected over what is compared "
            "with one control on one data set. ns: not significant at 5 %."
        )
    return found


def drawing(lines: Sequence[Line]) -> RenderableType:
    """The tables and notes for a terminal."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_table(HEADS, rows(lines))]
    if tested := test_rows(lines):
        parts.append(_table(TEST_HEADS, tested))
    return Group(*parts, *(Text(f"· {note}", style="dim") for note in notes(lines)))


def _table(heads: Row | TestRow, body: Sequence[Row | TestRow]) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for field, head in zip(heads._fields, heads, strict=True):
        side = "left" if field in TEXT_COLUMNS else "right"
        table.add_column(head, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for row in body:
        table.add_row(*row)
    return table
