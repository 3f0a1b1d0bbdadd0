"""Readers of values that flags and YAML give as text or lists, and warnings about them."""

from __future__ import annotations

import warnings
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from gcl_hard.core.setting import Field
from gcl_hard.errors import InputError, check_option
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.settings import LogKind, RunConfig, flag, known, reads

Readers = dict[str, Callable[[Any], tuple[Any, ...]]]
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


def _list_of(kind: Callable[[str], Any], expected: str) -> Callable[[Any], tuple[Any, ...]]:
    """A reader of several values, from comma-separated text or from a list."""

    def read(value: Any) -> tuple[Any, ...]:
        items = _items(value)
        try:
            return tuple(kind(str(item)) for item in items)
        except BadValueError:
            raise
        except ValueError:
            raise BadValueError(f"expected {expected}, separated by commas, got {value}") from None

    return read


_words, _numbers = _list_of(str, "names"), _list_of(float, "numbers")
_WHOLE = _list_of(int, "whole numbers")


def _log_kind(text: str) -> str:
    try:
        return check_option("log", text, get_args(LogKind))
    except InputError as error:
        raise BadValueError(str(error)) from None


def _alone(values: tuple[Any, ...]) -> Any:
    """The value of a list of one, or the list."""
    return values[0] if len(values) == 1 else values


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


def reader(field: Field) -> Callable[[Any], tuple[Any, ...]]:
    """A reader of several values of a setting."""
    read = {float: _numbers, int: _WHOLE}.get(field.kinds[0], _words)
    if field.setting.several and get_origin(field.kinds[0]) is tuple:
        read = _list_of(lambda text: (text,), "names")  # each is a text, with parts joined by +
    return _several(read) if field.optional else read


def several(domains: Iterable[str] = CONFIGS) -> Readers:
    """Readers of the settings of which ``bench`` takes several values and runs all combinations.

    Args:
        domains: whose settings.

    Example:
        >>> several()["lr"]("0.1,0.01")
        (0.1, 0.01)
    """
    readers: Readers = {}
    for name, field in (item for domain in domains for item in known(CONFIGS[domain]).items()):
        if field.setting.several and (field.optional or name not in readers):
            readers[name] = reader(field)
    return readers


def as_declared(
    config: type[RunConfig], values: Mapping[str, Any], *, listed: bool
) -> dict[str, Any]:
    """Values in the form that a domain declares, one value or a list; domains may differ in it.

    Args:
        config: class of the domain's configurations.
        values: values by name, as flags are read.
        listed: whether settings of which ``bench`` takes several have lists.

    Raises:
        InputError: for several values of a setting that takes one.

    Example:
        >>> as_declared(CONFIGS["nodes"], {"neighbours": 15, "lr": (0.1,)}, listed=True)
        {'neighbours': (15,), 'lr': (0.1,)}
    """
    declared = dict(values)
    for name, field in known(config).items():
        value = declared.get(name)
        if value is None or (listed and field.setting.several):
            continue
        if get_origin(field.kinds[0]) is tuple:
            declared[name] = value if isinstance(value, list | tuple) else (value,)
        elif isinstance(value, tuple):
            if len(value) > 1:
                raise InputError(
                    f"{flag(name)} takes one value for {config.domain}, got "
                    f"{','.join(map(str, value))}"
                )
            (declared[name],) = value
    return declared


READERS: dict[str, Callable[[Any], Any]] = {
    "seeds": as_seeds,
    "ensemble_size": _auto,
}
"""Flags whose values the parser cannot read by their types."""


BY_TYPE: dict[Any, Callable[[Any], Any]] = {
    tuple[str, ...]: _words,
    tuple[float, ...]: _numbers,
    tuple[int, ...]: _WHOLE,
    tuple[str, ...] | None: _optional(_words),
    tuple[float, ...] | None: _optional(_numbers),
    tuple[int, ...] | None: _optional(_WHOLE),
    tuple[LogKind, ...] | None: _optional(_list_of(_log_kind, "kinds of logs")),
    int | tuple[int, ...] | None: _optional(lambda value: _alone(_WHOLE(value))),
}
"""Readers of lists."""


def check_report(path: Path | None, *, html: bool = True) -> None:
    """Refuse a file name that a page cannot have.

    Args:
        path: file of the page; None for none.
        html: whether it may be a single HTML file.

    Raises:
        InputError: for another suffix.

    Example:
        >>> check_report(Path("page.html"))
    """
    kinds = {".md": "NAME.md, a page of Markdown"} | (
        {".html": "NAME.html, one file whose tables can be sorted and filtered"} if html else {}
    )
    if path is not None and path.suffix not in kinds:
        raise InputError(f"report is {', or '.join(kinds.values())}; got {path}")


def warn_of_unread(configs: Sequence[RunConfig], stated: Mapping[str, Any]) -> None:
    """Warn about settings that no configuration of a command reads.

    Args:
        configs: configurations of one class.
        stated: values by name, or tuples of them; names that are not settings are ignored, and so
            are values that stand for "does not apply".
    """
    unread = []
    if not any(config.encoders for config in configs):  # nothing is trained, whatever the settings
        return
    for name in [name for name in stated if name in known(type(configs[0]))]:
        values = stated[name] if isinstance(stated[name], tuple | list) else (stated[name],)
        run_values = [getattr(config, name) for config in configs]
        if not any(reads(config, name) for config in configs) and any(
            value not in run_values for value in values
        ):
            unread.append(flag(name))
    if unread:
        methods = ", ".join(dict.fromkeys(config.method for config in configs))
        flags = ", ".join(f"--{name}" for name in unread)
        warnings.warn(
            f"{flags}: read by no run of this command ({methods}), so left out",
            stacklevel=2,
        )
