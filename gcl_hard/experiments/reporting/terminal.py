"""Lines of results in a terminal: two tables, and what a reader must know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gcl_hard.experiments.lines import Line
from gcl_hard.experiments.reporting.pick import label_aware
from gcl_hard.experiments.reporting.rows import (
    DIFFERENCE_HEADS,
    DifferenceRow,
    Row,
    heads,
    rows,
    rows_of_tests,
)
from gcl_hard.experiments.reporting.words import of_images, test_name

if TYPE_CHECKING:
    from rich.console import RenderableType

TEXT_COLUMNS = {"dataset", "method", "protocol"}


SPREAD_FOLDS = (
    "± is the standard deviation over seeds (a seed varies the encoder and the folds); folds, the "
    "one over a seed's folds; s, seconds of training and scoring, all seeds."
)
SPREAD_SPLIT = (
    "± is the standard deviation over seeds (the split is the same for all); s.e., the standard "
    "error that the number of test images leaves; s, seconds of training and scoring, all seeds."
)
PAPER_FOLDS = (
    "The paper's figure for hucl and hscl is the best of β = 1, 2, 10, chosen on the test folds; "
)
PAPER_SPLIT = (
    "The paper's figures are of ResNet-50 after 200 epochs on all training images, the best of a "
    "grid; "
)


def notes(lines: Sequence[Line]) -> list[str]:
    """What a reader must know to read the table."""
    split = any(of_images(line.protocol) for line in lines)
    found = [SPREAD_SPLIT if split else SPREAD_FOLDS]
    trained = [line for line in lines if not line.is_baseline]
    if any(line.protocol == "paper" and label_aware(line) for line in trained):
        found.append(
            "Protocol paper trains on all graphs: label-aware encoders have seen the labels of "
            "the graphs they are tested on."
        )
    if any(line.paper is not None and line.setting for line in trained):
        best = any(line.kind == "best" for line in lines)
        found.append(
            (PAPER_SPLIT if split else PAPER_FOLDS)
            + (
                "it stands beside ours of the same kind."
                if best
                else f"ours is of {'the setting' if split else 'the β'} shown."
            )
        )
    if any(line.kind == "best" for line in lines):
        part = "test images" if split else "test folds"
        found.append(
            f"best: of several settings the one with the best mean on the {part}, which is the "
            "paper's way and no estimate of accuracy on new data."
        )
    if any(line.kind == "inside" for line in lines):
        part = "each seed" if split else "every training fold"
        of = "the training images" if split else "it"
        found.append(
            f"inside: {part} chose its own setting on a fifth of {of} that the encoder had not "
            "seen."
        )
    optimism = [
        f"{line.dataset} {line.method} {line.optimism:+.1f}"
        for line in lines
        if line.optimism is not None
    ]
    if optimism:
        found.append(f"Optimism, best less inside, in points: {', '.join(optimism)}.")
    if any(line.is_baseline for line in lines) and not split:
        found.append("Floors see training folds alone, so they stand under both protocols.")
    if any(line.tests for line in lines):
        found.append(
            f"− ucl, − scl: differences in points. p: {test_name(lines[0].protocol)}"
            + ("" if split else " on paired folds")
            + ", in brackets Wilcoxon's test over seeds; both Holm-corrected over what is compared "
            "with one control on one data set. ns: not significant at 5 %."
        )
    return found


def drawing(lines: Sequence[Line]) -> RenderableType:
    """The tables and notes for a terminal."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_table(heads(lines), rows(lines))]
    if tested := rows_of_tests(lines):
        parts.append(_table(DIFFERENCE_HEADS, tested))
    return Group(*parts, *(Text(f"· {note}", style="dim") for note in notes(lines)))


def _table(head: Row | DifferenceRow, body: Sequence[Row | DifferenceRow]) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    for field, text in zip(head._fields, head, strict=True):
        side = "left" if field in TEXT_COLUMNS else "right"
        table.add_column(text, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for row in body:
        table.add_row(*row)
    return table
