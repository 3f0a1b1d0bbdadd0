"""Results as a table: rows first, drawing second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gcl_hard.experiments.results import CellResult
from gcl_hard.methods import method

if TYPE_CHECKING:
    from rich.console import RenderableType


class Row(NamedTuple):
    """A line of the table, as text."""

    dataset: str
    method: str
    beta: str
    protocol: str
    accuracy: str
    folds: str
    paper: str
    gap: str
    seeds: str
    seconds: str


HEADS = Row(
    "data set", "method", "β", "protocol", "accuracy %", "folds", "paper", "gap", "seeds", "s"
)


def rows(results: Sequence[CellResult]) -> list[Row]:
    """The table's lines.

    Args:
        results: cells in the order to show them.

    Returns:
        One row a cell.
    """
    return [_row(result) for result in results]


def _row(result: CellResult) -> Row:
    cell, std, paper = result.cell, result.std, result.paper
    seconds = sum(r.seconds_train + r.seconds_eval for r in result.records)
    return Row(
        dataset=cell.dataset,
        method=cell.method,
        beta="–" if cell.beta is None else f"{cell.beta:g}",
        protocol=cell.protocol,
        accuracy=f"{result.mean:.1f}" + ("" if std is None else f" ± {std:.1f}"),
        folds=f"{result.fold_std:.1f}",
        paper="–" if paper is None else f"{paper:.1f}",
        gap="–" if paper is None else f"{result.mean - paper:+.1f}",
        seeds=str(len(result.records)),
        seconds=f"{seconds:.0f}",
    )


def notes(results: Sequence[CellResult]) -> list[str]:
    """What a reader must know to read the table."""
    cells = [result.cell for result in results]
    found = [
        "± is the standard deviation over seeds (a seed varies the encoder and the folds); "
        "folds, the one over a seed's folds; s, seconds of training and scoring, all seeds."
    ]
    if any(c.protocol == "paper" and method(c.method).label_aware for c in cells):
        found.append(
            "Protocol paper trains on all graphs: label-aware encoders have seen the labels of "
            "the graphs they are tested on."
        )
    if any(r.paper is not None and r.cell.beta is not None for r in results):
        found.append(
            "The paper's figure for hucl and hscl is the best of β = 1, 2, 10, chosen on the test "
            "folds; ours is of the β shown."
        )
    betas: dict[tuple[str, str, str], set[float | None]] = {}
    for c in cells:
        betas.setdefault((c.dataset, c.method, c.protocol), set()).add(c.beta)
    if any(len(values) > 1 for values in betas.values()):
        found.append(
            "Picking the best β of this table is the paper's way, and chooses on the test folds; "
            "it is no estimate of accuracy on new graphs."
        )
    return found


def drawing(results: Sequence[CellResult]) -> RenderableType:
    """The table for a terminal."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    left = {"dataset", "method", "protocol"}
    for field, head in zip(Row._fields, HEADS, strict=True):
        table.add_column(head, justify="left" if field in left else "right", no_wrap=True)
    for row in rows(results):
        table.add_row(*row)
    return Group(table, *(Text(f"· {note}", style="dim") for note in notes(results)))


def markdown(results: Sequence[CellResult]) -> str:
    """The table and its notes as Markdown."""
    lines = [HEADS, ["---"] * len(HEADS), *rows(results)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return table + "\n\n" + "\n".join(f"- {note}" for note in notes(results)) + "\n"
