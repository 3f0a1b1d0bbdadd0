"""Lines of results as Markdown tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from gcl_hard.experiments.lines import SYMBOLS, Line
from gcl_hard.experiments.reporting.pick import datasets, grid
from gcl_hard.experiments.reporting.words import NBSP, accuracy, of_images, points, test_part
from gcl_hard.experiments.results import Selection

ACROSS = 5  # data sets of a table on a page
PAPER_FOLDS = (
    "In round brackets: points above the figure of the H-SCL paper's Table II, a mean of ten runs; "
    "for hucl and hscl the paper took the best of β = 1, 2, 10 on the test folds."
)
PAPER_SPLIT = (
    "In round brackets: points above the figure of the H-SCL paper's Table I (ResNet-50, 200 "
    "epochs, all training images), best after a grid search over β or thresholds of which it does "
    "not say where it was scored."
)


def to_markdown(lines: Sequence[Line]) -> list[str]:
    """Tables of one protocol, methods down and at most five data sets across.

    A cell is the mean ± deviation over seeds, † if it differs significantly from ucl, points above
    the paper's figure, the setting of what was best on the test folds, and seeds where they are
    not all finished.

    Args:
        lines: of one protocol.

    Returns:
        The tables.
    """
    sets = datasets(lines)
    tables = []
    for start in range(0, len(sets), ACROSS):
        shown = sets[start : start + ACROSS]
        rows = grid(line for line in lines if line.dataset in shown)
        body = [[name, *(_cell(row.get(d)) for d in shown)] for name, row in rows.items()]
        tables.append(markdown_table(["", *shown], body, texts=1))
    return tables


def _cell(line: Line | None) -> str:
    if line is None or line.scores is None:
        return "–" if line is None else "open"
    seeds, ucl = len(line.scores.seeds), line.tests.get("ucl")
    parts = [accuracy(line).replace(" ", NBSP) + ("†" if ucl and ucl.significant else "")]
    if line.gap is not None:
        parts.append(f"({points(line.gap)})")
    if line.kind == "best":
        parts.append(line.setting.replace(" ", NBSP))
    if seeds < line.expected:
        parts.append(f"[{seeds}{NBSP}of{NBSP}{line.expected}]")
    return " ".join(parts)


def marks(lines: Sequence[Line]) -> list[str]:
    """What the marks and rows of :func:`to_markdown` mean, of those that are there."""
    notes = []
    protocol = lines[0].protocol if lines else ""
    split = of_images(protocol)
    if any("ucl" in line.tests for line in lines):
        notes.append(
            "†: significantly different from ucl. Without it: not significantly, or not tested, "
            "where ucl is open and of what was best on test."
        )
    if any(line.gap is not None for line in lines):
        notes.append(PAPER_SPLIT if split else PAPER_FOLDS)
    folds: dict[str, list[float]] = {}
    for line in lines:
        if line.scores and line.kind == "fixed" and line.scores.fold_std is not None:
            folds.setdefault(line.dataset, []).append(line.scores.fold_std)
    if folds:
        each = ", ".join(f"{name} {fmean(stds):.1f}" for name, stds in folds.items())
        notes.append(
            f"Standard deviation over the folds of a seed, mean of the trained methods: {each}."
        )
    if any(line.scores and len(line.scores.seeds) < line.expected for line in lines):
        notes.append("In square brackets: seeds that are finished, where some are open.")
    if any(line.scores is None for line in lines):
        notes.append("open: no seed is finished.")
    if any(line.kind == "inside" for line in lines):
        notes.append(
            f"chosen inside: every {'seed' if split else 'training fold'} chose a setting by "
            f"encoders trained without a fifth of {'the training images' if split else 'it'} and "
            "scored on that fifth, then trained anew on all of "
            f"{'them' if split else 'it'}."
        )
    if any(line.kind == "best" for line in lines):
        notes.append(
            f"best on test: of several settings the best on the {test_part(protocol)}, named "
            "beside it. That is the paper's way, too high on average, and no estimate."
        )
    return notes


def choices(chosen: Sequence[Selection]) -> str:
    """How many folds chose which setting, as Markdown."""
    body = []
    unit = "seeds" if any(s.scores.one_split for s in chosen) else "folds"
    for selection in chosen:
        counts = Counter(c for row in selection.chosen for c in row)
        cells = [result.cell for result in selection.outer]
        names = [n for n in SYMBOLS if len({getattr(c, n) for c in cells}) > 1]
        for index, cell in enumerate(cells):
            setting = " ".join(f"{SYMBOLS[n]}={getattr(cell, n):g}" for n in names)
            body.append([cell.dataset, cell.method, setting, str(counts[index])])
    return markdown_table(["data set", "method", "setting", unit], body, texts=3)


def markdown_table(heads: Sequence[str], body: Iterable[Sequence[str]], *, texts: int) -> str:
    """A table whose first columns are ``texts``, the others numbers."""
    rule = ["---"] * texts + ["---:"] * (len(heads) - texts)
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, rule, *body))
