"""Flags of settings, settings from YAML, and messages about wrong ones."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentError, ArgumentParser

from gcl_hard.errors import InputError, nearest, unknown
from gcl_hard.settings.base import Domain, defaults, flag
from gcl_hard.settings.domains import CONFIGS
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.values import BY_TYPE, LISTED, READERS

NOT_OF_RECIPES = ("dataset", "method", "protocol", "folds", "train_share")
"""Settings that a command or a search states, and no recipe has."""
COMMON = ("dataset", "method", "protocol", "beta", "epochs", "lr")
"""Settings listed first in the help."""


METAVARS = {
    "seeds": "N",
    **dict.fromkeys(("json", "report", "search", "config"), "FILE"),
    **dict.fromkeys(("data_dir", "output", "best", "compact"), "DIR"),
    **dict.fromkeys(
        (
            "dataset",
            "method",
            "protocol",
            "embeddings",
            "finetune",
            "split",
            "augmentations",
            "encodings",
            "hardness_scale",
            "without",
        ),
        "NAMES",
    ),
    **dict.fromkeys(
        (
            "beta",
            "threshold_start",
            "threshold_end",
            "lr",
            "epochs",
            "c_grid",
            "probe_lr",
            "beta_changes",
            "views",
            "batch_size",
            "label_gap",
            "temperature",
            "classes",
            "label_noise",
        ),
        "NUMBERS",
    ),
}


def add_flag(group: Any, name: str, kind: Any, text: str, default: Any, *, listed: bool) -> None:
    """Add a flag; values that are not given are absent after parsing."""
    if name in _SWITCHES:
        group.add_argument(f"--{flag(name)}", action="store_true", help=text)
        return
    read = LISTED.get(name) if listed else None
    number = kind in (int, int | None) and not name.endswith("seed")
    several = kind in BY_TYPE
    kind = read or READERS.get(name) or BY_TYPE.get(kind, kind)
    shown = "" if default is None else f" (default: {_written(default)})"
    metavar = METAVARS.get(name, "N" if number else name.upper().split("_")[-1])
    if isinstance(default, Path) and default.suffix:
        metavar = "FILE"
    if name in LISTED and not (listed or several):
        metavar = metavar.removesuffix("S")
    named = {} if kind is bool else {"metavar": metavar}  # the parser shows true and false
    group.add_argument(f"--{flag(name)}", type=kind, help=text + shown, **named)


_SWITCHES = ("quick", "small", "force", "report_only", "resume", "save_encoder", "save_embeddings")


def _written(default: Any) -> str:
    if isinstance(default, dict):
        several = dict.fromkeys(_written(one) for one in default.values())
        return ", images ".join(several)
    if isinstance(default, tuple):
        return ",".join(f"{item:g}" if isinstance(item, float) else str(item) for item in default)
    return str(default).lower() if isinstance(default, bool) else str(default)


@cache
def options_of(options: type) -> dict[str, tuple[Any, str, Any]]:
    """The fields of a dataclass that are flags, annotated with a help text: type, help, default."""
    hints = get_type_hints(options, include_extras=True)
    flags = (one for one in fields(options) if get_origin(hints[one.name]) is Annotated)
    return {one.name: (*get_args(hints[one.name]), one.default) for one in flags}


def _common_text(graphs: str, images: str) -> str:
    """The help text of a setting of both domains; a common beginning is not repeated."""
    if graphs == images:
        return graphs
    head = graphs.rpartition(": ")[0]
    return f"{graphs}; images: {images.removeprefix(f'{head}: ')}"


@cache
def all_settings() -> dict[str, tuple[tuple[Domain, ...], Any, str, Any]]:
    """Settings of configurations: the domains that have them, type, help and default."""
    found: dict[str, tuple[tuple[Domain, ...], Any, str, Any]] = {}
    for config in CONFIGS.values():
        domain = config.domain
        for name, (kind, text, own) in options_of(config).items():
            if name not in found:
                found[name] = ((domain,), kind, text, own)
                continue
            _, known, first, default = found[name]
            found[name] = (
                ("graphs", "images"),
                known if known == kind else Any if str in (known, kind) else known | kind,
                _common_text(first, text),
                default if default == own else {"graphs": default, "images": own},
            )
    return found


def add_settings(
    parser: ArgumentParser,
    *,
    listed: bool,
    own: Mapping[str, Any],
    texts: Mapping[str, str],
    common: bool | None = None,
    names: Container[str] | None = None,
) -> None:
    """Add a flag for every setting; settings of one domain form a group.

    Args:
        parser: parser to add them to.
        listed: whether settings of :data:`LISTED` take several values.
        own: defaults to show in place of those of the configurations.
        texts: help texts to show in place of those of the configurations.
        common: only the common ones, or only the others; None for all.
        names: only these; None for all.
    """
    titles = {
        ("graphs", "images"): "losses and training", ("graphs",): "graphs", ("images",): "images",
    }  # fmt: skip
    groups: dict[str, Any] = {}
    for name, (domains, kind, text, default) in all_settings().items():
        is_common = name in COMMON
        if common in (None, is_common) and (names is None or name in names):
            title = "common settings" if is_common else titles[domains]
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            shown = texts.get(name, text), own.get(name, default)
            add_flag(groups[title], name, kind, *shown, listed=listed)


def add_options(parser: ArgumentParser, title: str, options: type, names: Iterable[str]) -> None:
    """Add a group of flags for fields of a dataclass."""
    group, known = parser.add_argument_group(title), options_of(options)
    for name in names:
        add_flag(group, name, *known[name], listed=False)


def settings_from(
    settings: Any, where: str, *, without: Iterable[str] = NOT_OF_RECIPES
) -> dict[str, Any]:
    """Settings of graphs from YAML, checked like those of a command line.

    Args:
        settings: settings as read from YAML.
        where: their source, for messages.
        without: settings that are refused.

    Raises:
        InputError: for an unknown setting, one that must not be stated, or a value of a wrong
            type; names it.

    Example:
        >>> settings_from({"lr": 1, "c_grid": [1, 10]}, "mine.yaml")
        {'lr': 1.0, 'c_grid': (1.0, 10.0)}
    """
    excluded = {*without}
    names = [name for name in defaults(GraphConfig) if name not in excluded]
    if not isinstance(settings, dict):
        raise InputError(f"{where}: expected settings, got {settings!r}")
    for name in settings:
        if name in excluded:
            raise InputError(f"{where}: {name} is no part of a recipe")
        if name not in names:
            raise InputError(f"{where}: {unknown('setting', str(name), names)}")
    try:
        found = vars(_settings_parser().parse_object(settings, defaults=False))
    except ArgumentError as error:
        message = explain(str(error), _settings_parser()).removeprefix("--")
        raise InputError(f"{where}: {message}") from error
    return {name: found[name] for name in settings}


@cache
def _settings_parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    add_settings(parser, listed=False, own={}, texts={})
    return parser


# Errors of the parser, in the words of the command line.

PLAIN = {"float": "a finite number", "int": "a whole number", "bool": "true or false"}


def explain(message: str, parser: ArgumentParser) -> str:
    """The parser's error in terms of the command line, with the nearest flags."""
    flags = [o for a in parser._actions for o in a.option_strings if o.startswith("--")]
    if match := re.match(r"[Uu]nrecognized arguments: (.*)", message, re.DOTALL):
        wrong = (match[1].split() or [""])[0].split("=")[0]
        if not wrong.startswith("-"):
            return f"{wrong!r} belongs to no flag; several values are separated by commas (a,b)"
        return f"unknown flag {wrong}{_hint(wrong, flags)}"
    if match := re.search(r"Option '(.*?)' is not accepted", message):
        keys = [one.removeprefix("--").replace("-", "_") for one in flags]
        return f"unknown key {match[1]!r} in the config file{_hint(match[1], keys)}"
    if match := re.match(r"argument (--[\w-]+): (.*)", message, re.DOTALL):
        return f"{match[1]}: {match[2]}"
    if match := re.match(r'Parser key "(\w+)":\s*(.*)', message, re.DOTALL):
        return _explained_value(match[1], " ".join(match[2].split()))
    return message


def _explained_value(key: str, message: str) -> str:
    """What is wrong with a value, without the parser's names of types."""
    name, got = flag(key), message.rpartition("value: ")[2].strip()
    if words := re.search(r"Literal\[(.*?)\]", message):
        return str(unknown(name, got, re.findall(r"'(.*?)'", words[1])))
    if kinds := re.findall(r"<class '(\w+)'>", message):  # several of a union
        kind = "float" if "float" in kinds else kinds[0]
        return f"--{name} must be {PLAIN.get(kind, kind)}, got {got}"
    return f"--{name}: {message}"


def _hint(word: str, options: list[str]) -> str:
    close = nearest(word, options)
    return f"; did you mean {' or '.join(close)}?" if close else "; --help lists them"
