"""Readers of values that flags and YAML give as text or lists, and warnings about them."""

from __future__ import annotations

import warnings
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.settings import HEAD, RunConfig, defaults, flag, known, of_part, reads

MOST_SEEDS = 10_000
BOOLS = {"true": True, "false": False}
EXPECTED = {bool: "true or false", int: "a whole number", float: "a number"}


class BadValueError(InputError, ArgumentTypeError):
    """Text that is no value of a setting or option."""


def members(kind: Any) -> tuple[Any, ...]:
    """The types of a union, or the type by itself."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _value(kind: Any, value: Any) -> Any:
    """One value of a type, from text or from YAML."""
    if get_origin(kind) is tuple:
        return (_value(get_args(kind)[0], value),)
    if value is None or isinstance(value, list | tuple | dict):
        raise BadValueError(f"expected one value, got {value}")
    text = str(value)
    try:
        if kind is bool:
            return BOOLS[text.strip().lower()]
        return kind(text) if kind in (int, float, Path) else text
    except (KeyError, ValueError):
        raise BadValueError(f"expected {EXPECTED[kind]}, got {value}") from None


def reader(kind: Any, *, several: bool = False) -> Callable[[Any], Any]:
    """A reader of values of a type, from text or from YAML.

    Values of a list are separated by commas; null stands for None, and so does auto for a number.

    Args:
        kind: type of the value, or of each of several: the first of a union; an ``Annotated`` one
            is read by what it is annotated with.
        several: whether there is a list of such values.

    Example:
        >>> reader(float | None, several=True)("1,2,10"), reader(int | None)("auto")
        ((1.0, 2.0, 10.0), None)
    """
    first, *others = members(kind)
    if get_origin(first) is Annotated:  # with a reader of its own
        return get_args(first)[1]
    listed = get_origin(first) is tuple
    item = get_args(first)[0] if listed and not several else first

    def read_item(value: Any) -> Any:
        empty = value in (None, "null") or (value == "auto" and item is int)
        return None if empty and NoneType in others else _value(item, value)

    def read(value: Any) -> Any:
        if not several and (not listed or value in (None, "null")):
            return read_item(value)
        texts = value.split(",") if isinstance(value, str) else value
        items = [*texts] if isinstance(texts, list | tuple) else [texts]
        items = [text.strip() if isinstance(text, str) else text for text in items]
        items = [text for text in items if text != ""]
        if not items:
            raise BadValueError("at least one value is needed")
        return tuple(map(read_item, items))

    return read


def as_seeds(value: Any) -> tuple[int, ...]:
    """Seeds from a count (``5`` is 0 … 4) or a list (``0,1,2``; ``7,`` is seed 7 alone).

    Raises:
        BadValueError: for anything else.

    Example:
        >>> as_seeds("3"), as_seeds([7])
        ((0, 1, 2), (7,))
    """
    listed = value.split(",") if isinstance(value, str) and "," in value else value
    seeds: Sequence[int]
    try:
        if isinstance(listed, str | Integral):
            seeds = range(int(str(listed)))
        else:
            seeds = [int(str(seed)) for seed in listed if str(seed).strip()]
    except (TypeError, ValueError):
        seeds = ()
    n_different = len({*seeds[: MOST_SEEDS + 1]})
    if (
        not 0 < n_different <= MOST_SEEDS
        or n_different != len(seeds)
        or not 0 <= min(seeds) <= max(seeds) < 2**32
    ):
        raise BadValueError(
            f"seeds are a count from 1 to {MOST_SEEDS:,}, or different whole numbers from 0 to "
            f"2**32 - 1 (7, is seed 7 alone), got {value}"
        )
    return tuple(seeds)


def settings_from(config: type[RunConfig], settings: Any, where: str) -> dict[str, Any]:
    """Settings of a recipe from YAML.

    Args:
        config: their class of configurations.
        settings: settings as read from YAML.
        where: their source, for messages.

    Raises:
        InputError: for an unknown setting, one that is no part of a recipe, or a value of a wrong
            type; names it.

    Example:
        >>> settings_from(CONFIGS["graphs"], {"lr": 1, "c_grid": [1, 10]}, "mine.yaml")
        {'lr': 1.0, 'c_grid': (1.0, 10.0)}
    """
    excluded = {*HEAD, *of_part(config, "split")}
    names = [name for name in known(config) if name not in excluded]
    if not isinstance(settings, dict):
        raise InputError(f"{where}: expected settings, got {settings!r}")
    values = {}
    for name, value in settings.items():
        if name not in names:
            raise InputError(f"{where}: {unknown('setting', str(name), names)}")
        try:
            values[name] = reader(known(config)[name].kind)(value)
        except BadValueError as error:
            raise InputError(f"{where}: {name}: {error}") from None
    return values


def unknown_setting(name: str, config: type[RunConfig], options: Iterable[str] = ()) -> InputError:
    """The error for a word that is no setting of a domain, but perhaps of others.

    Args:
        name: the word.
        config: the domain's class of configurations.
        options: names of options that the word may mean.
    """
    if name == "dataset":
        return InputError("dataset is no setting here: give it as data")
    domains = [domain for domain, other in CONFIGS.items() if name in known(other)]
    if domains and name not in known(config):
        return InputError(
            f"{flag(name)} is no setting of {config.domain}, but of {' and '.join(domains)}"
        )
    return unknown("setting", name, dict.fromkeys([*defaults(config), *options]))


def check_report(path: Path | None, *suffixes: str) -> None:
    """Refuse a file name that a page cannot have.

    Example:
        >>> check_report(Path("page.html"), ".md", ".html")
    """
    if path is not None and path.suffix not in suffixes:
        raise InputError(f"report is NAME{' or NAME'.join(suffixes)}, got {path}")


def warn_of_unread(configs: Sequence[RunConfig], stated: Mapping[str, Any]) -> None:
    """Warn about settings that no configuration of a command reads.

    Args:
        configs: configurations of one class.
        stated: values by name, or tuples of them; names that are not settings are ignored, and so
            are values that stand for "does not apply".
    """
    if not any(config.encoders for config in configs):  # nothing is trained, whatever the settings
        return
    unread = []
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
            f"{flags}: read by no run of this command ({methods}), so left out", stacklevel=2
        )
