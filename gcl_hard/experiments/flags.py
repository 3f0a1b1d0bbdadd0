"""Command line and YAML for the doors: flags from the fields of a cell, with nearest names."""

from __future__ import annotations

import itertools
from argparse import SUPPRESS, Action
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, get_type_hints

from jsonargparse import ArgumentError, ArgumentParser, DefaultHelpFormatter

from gcl_hard.errors import InputError
from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.mistakes import explain
from gcl_hard.experiments.values import Counts, Numbers, Words

TUPLES: dict[str, Any] = {
    "augmentations": Words | None, "probe_lr": Numbers, "encodings": Words | None,
    "c_grid": Numbers | None,
}  # fmt: skip
"""Fields of a cell that are lists themselves."""


class Help(DefaultHelpFormatter):
    """Help with defaults as one would write them, and without Python's names of types."""

    def _get_help_string(self, action: Action) -> str:
        text, default = action.help or "", action.default
        if default is None or default == SUPPRESS or not action.option_strings:
            return text
        if isinstance(default, tuple):
            default = ",".join(f"{item:g}" if isinstance(item, float) else str(item)
                               for item in default)  # fmt: skip
        return f"{text} (default: {str(default).lower() if isinstance(default, bool) else default})"


def add_settings(
    parser: ArgumentParser, cell: type[Cell], listed: Mapping[str, type], **own: Any
) -> None:
    """A flag for every setting of a kind of cell.

    Args:
        parser: to add them to.
        cell: the kind.
        listed: settings of which several may be given, with the types of their lists.
        **own: defaults that are not the cell's.
    """
    hints = get_type_hints(cell, include_extras=True)
    for field in fields(cell):
        kind, text = hints[field.name].__origin__, hints[field.name].__metadata__[0]
        default: Any = own.get(field.name, field.default)
        if field.name in listed:
            kind = listed[field.name]
            default = kind([] if default is None else [default])
        elif field.name in TUPLES:
            kind = TUPLES[field.name]
            default = None if default is None else Numbers(default)
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=kind, default=default, help=text,
            **_metavar(field.name, kind),
        )  # fmt: skip


def add_flags(
    parser: ArgumentParser,
    options: Iterable[tuple[str, Any, Any, str]],
    switches: Iterable[tuple[str, str]],
) -> None:
    """Other flags.

    Args:
        parser: to add them to.
        options: name, type, default and help of each.
        switches: name and help of those without a value.
    """
    for name, kind, default, text in options:
        parser.add_argument(
            f"--{name}", type=kind, default=default, help=text, **_metavar(name, kind)
        )
    for name, text in switches:
        parser.add_argument(f"--{name}", action="store_true", help=text)


def settings_of(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Parsed settings as a cell takes them."""
    found = {name: values[name] for name in names}
    for name in TUPLES.keys() & found.keys():
        found[name] = None if found[name] is None else tuple(found[name])
    return found


def parse(
    parser: ArgumentParser, arguments: Sequence[str], *, defaults: bool = True
) -> dict[str, Any]:
    """Values by flag; a ``--config`` stands before all else.

    Args:
        parser: of the door.
        arguments: of the command line.
        defaults: whether flags that are not given have their defaults, or are left out.

    Raises:
        InputError: in the words of the command line, with the nearest flags.
    """
    try:
        return dict(vars(parser.parse_args(_config_first(arguments), defaults=defaults)))
    except ArgumentError as error:
        raise InputError(explain(str(error), parser)) from error


def _config_first(arguments: Sequence[str]) -> list[str]:
    """``--config FILE`` before all else, so that flags win wherever they stand."""
    first, rest, items = [], [], iter(arguments)
    for item in items:
        if item == "--config":
            first += [item, *itertools.islice(items, 1)]
        elif item.startswith("--config="):
            first.append(item)
        else:
            rest.append("--print_config" if item == "--print-config" else item)
    return first + rest


def _metavar(name: str, kind: Any) -> dict[str, Any]:
    if kind is bool:  # the parser shows what it may be
        return {}
    lists = {Words: "NAMES", Words | None: "NAMES", Numbers: "NUMBERS", Counts: "NUMBERS"}
    lists |= {Numbers | None: "NUMBERS"}
    special = dict.fromkeys(("json", "report", "search"), "FILE")
    special |= dict.fromkeys(("data-dir", "output", "best"), "DIR")
    last = name.upper().replace("-", "_").split("_")[-1]
    return {"metavar": lists.get(kind) or special.get(name, last)}
