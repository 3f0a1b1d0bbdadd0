"""Values of flags that are lists: names, numbers, counts, seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jsonargparse.typing import register_type


class Words(tuple[str, ...]):
    """Names: ``ucl,hscl`` or a YAML list."""

    __slots__ = ()


class Numbers(tuple[float, ...]):
    """Numbers: ``1,2,10`` or a YAML list."""

    __slots__ = ()


class Counts(tuple[int, ...]):
    """Whole numbers: ``100,200`` or a YAML list."""

    __slots__ = ()


class Seeds(tuple[int, ...]):
    """Seeds: a count (``5`` is 0 … 4), or a list (``0,1,2``; ``7,`` is seed 7 alone)."""

    __slots__ = ()


def _words(value: Any) -> Words:
    return Words(str(word).strip() for word in _items(value))


def _numbers(value: Any) -> Numbers:
    return Numbers(float(item) for item in _items(value))


def _counts(value: Any) -> Counts:
    if not all(isinstance(item, int) or str(item).strip().isdecimal() for item in _items(value)):
        raise ValueError(f"expected {COUNTS}, got {value}")
    return Counts(int(item) for item in _items(value))


COUNTS = "whole numbers, separated by commas"
MOST_SEEDS = 10_000
SEEDS = "a count of at least 1, or different whole numbers from 0 to 2**32 - 1"


def as_seeds(value: Any) -> Seeds:
    """Seeds as a flag or a file states them.

    Raises:
        ValueError: for anything else; or a TypeError.

    Example:
        >>> as_seeds("3"), as_seeds([7])
        ((0, 1, 2), (7,))
    """
    if isinstance(value, bool):
        raise TypeError(SEEDS)
    if isinstance(value, int) or (isinstance(value, str) and "," not in value):
        seeds: Sequence[int] = range(int(value))
        if len(seeds) > MOST_SEEDS:
            raise ValueError(
                f"{value} seeds are more than {MOST_SEEDS}; for seed {value} alone write {value},"
            )
    else:
        seeds = [int(item) for item in _items(value)]
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**32 or len(set(seeds)) != len(seeds):
        raise ValueError(SEEDS)
    return Seeds(seeds)


MEMBERS = "auto or a whole number of at least 1"


class Members(int):
    """Encoders side by side; ``auto`` is 0."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{int(self)}" if self else "auto"


def _members(value: Any) -> Members:
    if value == "auto":
        return Members(0)
    if isinstance(value, bool) or not str(value).strip().isdecimal() or int(value) < 1:
        raise ValueError(f"expected {MEMBERS}, got {value}")
    return Members(int(value))


def _items(value: Any) -> list[Any]:
    if isinstance(value, str):
        items: list[Any] = [item for item in value.split(",") if item.strip()]
    else:
        items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not items:
        raise ValueError("at least one is needed")
    return items


_READERS: list[tuple[type, Callable[[Any], Any]]] = [
    (Words, _words), (Numbers, _numbers), (Counts, _counts), (Seeds, as_seeds),
]  # fmt: skip
for _type, _reader in _READERS:
    register_type(_type, serializer=list, deserializer=_reader, fail_already_registered=False)
register_type(Members, serializer=str, deserializer=_members, fail_already_registered=False)
