"""Choosing among the lines of a table."""

from __future__ import annotations

from collections.abc import Iterable

from gcl_hard.experiments.lines import Line


def protocols(lines: Iterable[Line]) -> list[str]:
    """Protocols of lines, in their order."""
    return list(dict.fromkeys(line.protocol for line in lines))


def datasets(lines: Iterable[Line]) -> list[str]:
    """Data sets of lines, in their order."""
    return list(dict.fromkeys(line.dataset for line in lines))


def grid(lines: Iterable[Line]) -> dict[str, dict[str, Line]]:
    """Lines of one protocol by what their row is called, and by data set.

    Args:
        lines: of one protocol.

    Returns:
        Rows in the order of the lines; what was best on the test folds is one row, whatever the
        setting was that was best.
    """
    rows: dict[str, dict[str, Line]] = {}
    for line in lines:
        name = f"{line.method} best on test" if line.kind == "best" else line.label
        rows.setdefault(name, {})[line.dataset] = line
    return rows


def whole(line: Line | None) -> bool:
    """Whether a line has all its seeds."""
    return line is not None and line.scores is not None and len(line.scores.seeds) == line.expected


def label_aware(line: Line) -> bool:
    """Whether its encoder was trained with labels."""
    return line.reads_labels


def best_trained(lines: Iterable[Line]) -> Line | None:
    """The line with the highest mean, of whole ones that were fixed or chosen inside."""
    scored = [
        line
        for line in lines
        if whole(line) and line.kind in ("fixed", "inside") and not line.is_baseline
    ]
    return max(scored, key=lambda line: line.scores.mean if line.scores else 0.0, default=None)
