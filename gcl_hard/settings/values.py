"""Readers of values that flags and YAML give as text or lists."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from typing import Any

MOST_SEEDS = 10_000


SEEDS = "a count of at least 1, or different whole numbers from 0 to 2**32 - 1"


class BadValueError(ArgumentTypeError, ValueError):
    """Invalid text for a setting, an error of both the flag parser and YAML."""


def _items(value: Any) -> list[Any]:
    if isinstance(value, str):
        items: list[Any] = [item.strip() for item in value.split(",") if item.strip()]
    else:
        items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not items:
        raise BadValueError("at least one value is needed")
    return items


def _list_of(kind: Callable[[str], Any], what: str) -> Callable[[Any], tuple[Any, ...]]:
    """A reader of several values, from comma-separated text or from a list."""

    def read(value: Any) -> tuple[Any, ...]:
        items = _items(value)
        try:
            return tuple(kind(str(item)) for item in items)
        except ValueError:
            raise BadValueError(f"expected {what}, separated by commas, got {value}") from None

    return read


_words, _numbers = _list_of(str, "names"), _list_of(float, "numbers")


def as_seeds(value: Any) -> tuple[int, ...]:
    """Seeds from a count (``5`` is 0 … 4) or a list (``0,1,2``; ``7,`` is seed 7 alone).

    Raises:
        BadValueError: for anything else.

    Example:
        >>> as_seeds("3"), as_seeds([7])
        ((0, 1, 2), (7,))
    """
    wrong = BadValueError(f"expected {SEEDS}, got {value}")
    if isinstance(value, bool):
        raise wrong
    seeds: Sequence[int]
    try:
        if isinstance(value, int) or (isinstance(value, str) and "," not in value):
            seeds = range(int(value))
        else:
            seeds = [int(str(item)) for item in _items(value)]
    except (TypeError, ValueError):
        raise wrong from None
    if isinstance(seeds, range) and len(seeds) > MOST_SEEDS:
        raise BadValueError(
            f"{value} seeds are more than {MOST_SEEDS}; for seed {value} alone write {value},"
        )
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**32 or len(set(seeds)) != len(seeds):
        raise wrong
    return tuple(seeds)


def _auto(value: Any) -> int | None:
    if value is None or value == "auto":
        return None
    if isinstance(value, bool) or not str(value).strip().isdecimal() or int(value) < 1:
        raise BadValueError(f"expected auto or a whole number of at least 1, got {value}")
    return int(value)


def _optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value in (None, "null") else read(value)


def _several(read: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    """A reader of several values, or of none."""
    return lambda value: (None,) if value in (None, "null", [None], (None,)) else read(value)


LISTED: dict[str, Callable[[Any], Any]] = {
    "dataset": _words,
    "method": _words,
    "protocol": _words,
    "beta": _numbers,
    "threshold_start": _several(_numbers),
    "threshold_end": _several(_numbers),
    "lr": _numbers,
    "epochs": _list_of(int, "whole numbers"),
    "beta_changes": _list_of(int, "whole numbers"),
    "hardness_scale": _several(_words),
    "views": _several(_list_of(int, "whole numbers")),
    "without": _several(_words),
    "temperature": _several(_numbers),
    "batch_size": _list_of(int, "whole numbers"),
    "classes": _several(_list_of(int, "whole numbers")),
    "label_noise": _numbers,
}
"""Settings of which ``bench`` takes several, comma-separated, and runs all combinations."""


READERS: dict[str, Callable[[Any], Any]] = {
    "seeds": as_seeds,
    "protocol": str,  # an alias is none of its values
    "ensemble_size": _auto,
    "batch": _auto,
}
"""Flags whose values the parser cannot read by their types."""


BY_TYPE: dict[Any, Callable[[Any], Any]] = {
    tuple[str, ...]: _words,
    tuple[float, ...]: _numbers,
    tuple[int, ...]: _list_of(int, "whole numbers"),
    tuple[str, ...] | None: _optional(_words),
    tuple[float, ...] | None: _optional(_numbers),
}
"""Readers of lists."""
