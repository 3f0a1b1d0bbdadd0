"""Flags of settings, settings from YAML, and messages about wrong ones."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import fields
from functools import cache, reduce
from operator import or_
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentError, ArgumentParser

from gcl_hard.errors import InputError, nearest, unknown
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.settings import (
    COMMON,
    HEAD,
    Domain,
    RunConfig,
    defaults,
    flag,
    known,
    of_part,
)
from gcl_hard.experiments.values import BY_TYPE, READERS, Readers, several
from gcl_hard.losses.methods import SETTINGS

METAVARS = {
    "seeds": "N",
    **dict.fromkeys(("json", "report", "search", "config"), "FILE"),
    **dict.fromkeys(("data_dir", "output", "best", "compact"), "DIR"),
}
"""For options that are not settings."""


def _metavar(name: str, kind: Any, default: Any, readers: Container[str], *, listed: bool) -> str:
    """Placeholder of a flag's value in the help."""
    union = get_origin(kind) in (Union, UnionType)
    kinds = [member for member in get_args(kind) if member is not NoneType] if union else [kind]
    if isinstance(default, Path) and default.suffix:
        return "FILE"
    if name in METAVARS:
        return METAVARS[name]
    if listed or get_origin(kinds[0]) is tuple:
        value_type = get_args(kinds[0])[0] if get_origin(kinds[0]) is tuple else kinds[0]
        return "NUMBERS" if value_type in (int, float) else "NAMES"
    if name in readers and kinds[0] not in (int, float):
        return "NAME"
    number = kinds[0] is int and not name.endswith("seed")
    return "N" if number else name.upper().split("_")[-1]


def add_flag(
    group: Any, name: str, kind: Any, text: str, default: Any, *, readers: Readers, listed: bool
) -> Any:
    """Add and return a flag; without it on the command line its value is absent after parsing."""
    if name in _SWITCHES:
        return group.add_argument(f"--{flag(name)}", action="store_true", help=text)
    read = readers.get(name) if listed else None
    metavar = _metavar(name, kind, default, readers, listed=read is not None)
    kind = read or READERS.get(name) or BY_TYPE.get(kind, kind)
    shown = "" if default is None else f" (default: {_written(default)})"
    named = {} if kind is bool else {"metavar": metavar}  # the parser shows true and false
    return group.add_argument(f"--{flag(name)}", type=kind, help=text + shown, **named)


_SWITCHES = ("quick", "small", "force", "report_only", "resume", "save_encoder", "save_embeddings")


def _written(default: Any) -> str:
    if isinstance(default, dict):
        domains: dict[str, list[str]] = {}
        for domain, domain_default in default.items():
            if domain_default is not None:
                domains.setdefault(_written(domain_default), []).append(domain)
        (first, _), *others = domains.items()
        return ", ".join([first, *(f"{'/'.join(names)} {text}" for text, names in others)])
    if isinstance(default, tuple):
        return ",".join(f"{item:g}" if isinstance(item, float) else str(item) for item in default)
    return str(default).lower() if isinstance(default, bool) else str(default)


@cache
def options_of(options: type) -> dict[str, tuple[Any, str, Any]]:
    """The fields of a dataclass that are flags, annotated with a help text: type, help, default."""
    hints = get_type_hints(options, include_extras=True)
    flags = (field for field in fields(options) if get_origin(hints[field.name]) is Annotated)
    return {field.name: (*get_args(hints[field.name])[:2], field.default) for field in flags}


def common_options(options: type) -> set[str]:
    """The options that most people set."""
    hints = get_type_hints(options, include_extras=True)
    return {name for name, hint in hints.items() if COMMON in get_args(hint)}


def _common_text(texts: Mapping[Domain, str]) -> str:
    """The help text of a setting of several domains; a common beginning is not repeated."""
    first, *others = dict.fromkeys(texts.values())
    head = first.rpartition(": ")[0]
    domain_of = {text: domain for domain, text in reversed([*texts.items()])}
    rest = (f"{domain_of[text]}: {text.removeprefix(f'{head}: ')}" for text in others)
    return "; ".join([first, *rest])


def all_settings(
    domains: Iterable[Domain] = CONFIGS,
) -> dict[str, tuple[tuple[Domain, ...], Any, str, Any]]:
    """Settings of domains: those that have them, type, help and default."""
    return _settings_of(tuple(CONFIGS[domain] for domain in domains))


@cache
def _settings_of(
    configs: tuple[type[RunConfig], ...],
) -> dict[str, tuple[tuple[Domain, ...], Any, str, Any]]:
    settings = {}
    for name in dict.fromkeys(name for config in configs for name in known(config)):
        fields = {c.domain: known(c)[name] for c in configs if name in known(c)}
        kinds = list(dict.fromkeys(field.kind for field in fields.values()))
        kind = Any if len(kinds) > 1 and str in kinds else reduce(or_, kinds)
        defaults = {domain: field.default for domain, field in fields.items()}
        if name in SETTINGS:
            defaults = dict.fromkeys(defaults, SETTINGS[name].default)
        default = next(iter(defaults.values()))
        text = _common_text({domain: field.setting.help for domain, field in fields.items()})
        alike = all(value == default for value in defaults.values())
        settings[name] = (tuple(fields), kind, text, default if alike else defaults)
    return settings


def add_settings(
    parser: ArgumentParser,
    *,
    listed: bool,
    own: Mapping[str, Any],
    texts: Mapping[str, str],
    common: bool | None = None,
    names: Container[str] | None = None,
    domains: Iterable[Domain] = CONFIGS,
) -> None:
    """Add a flag for every setting; settings of one domain form a group.

    Args:
        parser: parser to add them to.
        listed: whether settings of which ``bench`` takes several values do so.
        own: defaults to show in place of those of the configurations.
        texts: help texts to show in place of those of the configurations.
        common: only the common ones, or only the others; None for all.
        names: only these; None for all.
        domains: whose settings.
    """
    common_names = {
        name
        for domain in domains
        for name, declared in known(CONFIGS[domain]).items()
        if declared.setting.common
    }
    readers = several(domains)
    groups: dict[str, Any] = {}
    for name, (having, kind, text, default) in all_settings(domains).items():
        is_common = name in common_names
        if common in (None, is_common) and (names is None or name in names):
            whole = len(having) == len(CONFIGS)
            title = "losses and training" if whole else " and ".join(having)
            title = "common settings" if is_common else title
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            shown = texts.get(name, text), own.get(name, default)
            added = add_flag(groups[title], name, kind, *shown, readers=readers, listed=listed)
            added.common = is_common


def add_options(parser: ArgumentParser, title: str, options: type, names: Iterable[str]) -> None:
    """Add a group of flags for fields of a dataclass."""
    group, known = parser.add_argument_group(title), options_of(options)
    for name in names:
        added = add_flag(group, name, *known[name], readers={}, listed=False)
        added.common = name in common_options(options)


def not_of_recipes(config: type[RunConfig]) -> list[str]:
    """Settings that a command or a search states, and that no recipe has."""
    return list(dict.fromkeys([*HEAD, *of_part(config, "split")]))


def settings_from(
    config: type[RunConfig], settings: Any, where: str, *, without: Iterable[str] | None = None
) -> dict[str, Any]:
    """Settings from YAML, checked like those of a command line.

    Args:
        config: their class of configurations.
        settings: settings as read from YAML.
        where: their source, for messages.
        without: settings that are refused; None for those that a command or a search states, and
            no recipe has.

    Raises:
        InputError: for an unknown setting, one that must not be stated, or a value of a wrong
            type; names it.

    Example:
        >>> settings_from(CONFIGS["graphs"], {"lr": 1, "c_grid": [1, 10]}, "mine.yaml")
        {'lr': 1.0, 'c_grid': (1.0, 10.0)}
    """
    excluded = {*(not_of_recipes(config) if without is None else without)}
    names = [name for name in defaults(config) if name not in excluded]
    if not isinstance(settings, dict):
        raise InputError(f"{where}: expected settings, got {settings!r}")
    for name in settings:
        if name in excluded:
            raise InputError(f"{where}: {name} is no part of a recipe")
        if name not in names:
            raise InputError(f"{where}: {unknown('setting', str(name), names)}")
    try:
        parsed = vars(_settings_parser(config.domain).parse_object(settings, defaults=False))
    except ArgumentError as error:
        message = explain(str(error), _settings_parser(config.domain)).removeprefix("--")
        raise InputError(f"{where}: {message}") from error
    return {name: parsed[name] for name in settings}


@cache
def _settings_parser(domain: Domain) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    add_settings(parser, listed=False, own={}, texts={}, domains=[domain])
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
        keys = [option.removeprefix("--").replace("-", "_") for option in flags]
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
    if kinds := re.findall(r"<class '(\w+)'>", message.partition("Given value type")[0]):
        kind = "float" if "float" in kinds else kinds[0]  # several of a union
        return f"--{name} must be {PLAIN.get(kind, kind)}, got {got}"
    return f"--{name}: {message}"


def _hint(word: str, options: list[str]) -> str:
    close = nearest(word, options)
    return f"; did you mean {' or '.join(close)}?" if close else "; --help lists them"
