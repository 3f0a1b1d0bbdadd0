"""Rows on common splits in words: how many seeds and splits, what is compared on which."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial

from gcl_hard.reports.rows import Row
from gcl_hard.settings.base import CONTROLS, RunConfig


def fold_name(of: Iterable[Row | RunConfig]) -> str:
    """What one of several test parts is called: a split where it is the same for all, or a fold."""
    return "split" if any(one.common_splits for one in of) else "fold"


def extent(row: Row) -> str:
    """The seeds and splits of a row in a column of the terminal's table; no seed if none matters.

    Example:
        >>> extent(Row("Cora", "ucl", "split", "fixed", "", None, 3, n_folds=20,
        ...            common_splits=True))
        '0/3 × 20'
    """
    n = len(row.scores.seeds) if row.scores else 0
    seeds = str(n) if row.whole else f"{n}/{row.expected}"
    if row.is_deterministic and row.whole:
        seeds = "–"
    return f"{seeds} × {row.n_folds}" if row.common_splits else seeds


def split_notes(rows: Iterable[Row]) -> list[str]:
    """What a reader of rows on common splits has to know of them; nothing of other rows."""
    own = [row for row in rows if row.common_splits and row.scores]
    extents = _named(own, lambda row: _extent(len(row.scores.seeds) if row.scores else 0, row))
    said = []
    if extents:
        said.append("; ".join(f"{', '.join(who)}: {what}" for what, who in extents.items()) + ".")
    for control in CONTROLS:
        less = _named(own, partial(_compared_on, control))
        said += [
            f"− {control}: {', '.join(who)} compared on {what}, those that both rows have."
            for what, who in less.items()
        ]
    fixed = _named(own, lambda row: row.is_deterministic or None)
    said += [
        f"No seed changes {', '.join(who)}: run once, and compared with every seed of another row."
        for who in fixed.values()
    ]
    chosen = _named(own, lambda row: row.chosen_on)
    said += [
        f"{', '.join(who)}: chosen on the validation {_items(own)} of the first "
        f"{'split' if n == 1 else f'{n} splits'} and fixed: not on the others, whose test "
        f"{_items(own)} those may be."
        for n, who in chosen.items()
    ]
    return said


def _items(rows: Sequence[Row]) -> str:
    return f"{rows[0].item}s"


def _extent(seeds: int, row: Row) -> str:
    splits = _count(row.n_folds, "split")
    return splits if row.is_deterministic else f"{_count(seeds, 'seed')} × {splits}"


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'s' * (n != 1)}"


def _compared_on(control: str, row: Row) -> str | None:
    test = row.tests.get(control)
    if test is None or not test.is_partial:
        return None
    return f"{_count(test.seeds, 'seed')} × {_count(test.folds, 'split')}"


def _named(rows: Sequence[Row], key: Callable[[Row], Hashable | None]) -> dict[Hashable, list[str]]:
    """Names of rows by a key, without those of none: their methods, with settings and data set
    where rows of one method differ in it.
    """
    ways: Sequence[Callable[[Row], str]] = (
        lambda row: row.method, lambda row: row.label, lambda row: f"{row.label} on {row.dataset}",
    )  # fmt: skip
    for way in ways:
        keys: dict[str, dict[Hashable | None, None]] = {}
        for row in rows:
            keys.setdefault(way(row), {})[key(row)] = None
        if all(len(of) == 1 for of in keys.values()):
            break
    found: dict[Hashable, list[str]] = {}
    for name, of in keys.items() if rows else ():
        for one in of:
            if one is not None:
                found.setdefault(one, []).append(name)
    return found
