"""Parsers of command lines, shared by all commands."""

from __future__ import annotations

import argparse
import itertools
import shlex
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser, DefaultHelpFormatter

from gcl_hard.commands.datasets import domain_of, named_paths
from gcl_hard.errors import InputError, without_password
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.experiment import RunOptions
from gcl_hard.experiments.flags import all_settings, explain, options_of
from gcl_hard.experiments.outside import import_domain
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import Domain, flag, known
from gcl_hard.files.io import public_path
from gcl_hard.files.stored import read_yaml
from gcl_hard.losses.methods import METHODS
from gcl_hard.version import __version__


def public_command(arguments: Sequence[str], entry_point: str = "gcl_hard.bench") -> str:
    """The command as pages of results show it, which runs on any machine.

    Args:
        arguments: arguments of the command.
        entry_point: the module, and a command of its own if it has several.

    Returns:
        The command without this machine's folders, passwords and one-off flags.

    Example:
        >>> public_command(["--table", "2", "--data-dir", "a/b", "--json=c.json", "--force"])
        'python -m gcl_hard.bench --table 2 --data-dir DIR'
        >>> public_command(["--dataset", "MUTAG,/home/me/MINE", "--output=/home/me/out"])
        'python -m gcl_hard.bench --dataset MUTAG,MINE --output=out'
    """
    words, remaining = ["python", "-m", *entry_point.split()], iter(arguments)
    for word in remaining:
        name, has_value, _ = word.partition("=")
        if name in ("--data-dir", "--json", "--scheduler"):
            if not has_value:
                next(remaining, None)
            words += ["--data-dir", "DIR"] * (name == "--data-dir")
        elif name not in ("--report-only", "--force", "--compact"):
            flag, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
            words.append(flag + equals + ",".join(map(public_path, value.split(","))))
    return shlex.join(map(without_password, words))


class _Help(DefaultHelpFormatter):
    """Help without the parser's defaults: the help texts state them."""

    def _get_help_string(self, action: Any) -> str:
        return str(action.help or "")


class _HelpFlag(argparse._HelpAction):
    """``--help`` shows the flags that most people set, ``--help all`` all of them."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.nargs, self.metavar = "?", "all"

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        shown = [action for action in parser._actions if action.help is not argparse.SUPPRESS]
        hidden = [action for action in shown if not getattr(action, "common", False)]
        if values != "all" and hidden:
            for action in hidden:
                action.help = argparse.SUPPRESS
            parser.epilog = f"--help all lists {len(hidden)} more flags. {parser.epilog}"
        parser.print_help()
        parser.exit()


def add_version(parser: argparse.ArgumentParser) -> argparse.Action:
    """Add ``--version``, which prints the version of the installed package."""
    version = f"gcl-hard {__version__}"
    return parser.add_argument(
        "--version", action="version", version=version, help="print the version, and exit"
    )


def entry_parser(
    entry_point: str, description: str, example: str, *, domains: bool = False, usage: str = ""
) -> ArgumentParser:
    """The parser of an entry point, without flags of its own.

    Args:
        entry_point: as in :func:`public_command`.
        description: what the command does.
        example: a command line, without ``python -m`` and the entry point.
        domains: whether it takes data of any domain.
        usage: first line of the help, if it is not that of training.
    """
    parser = ArgumentParser(
        prog=f"python -m {entry_point}",
        description=description,
        epilog="--domain NAME --help: those of a domain. " * domains
        + f"Example: python -m {entry_point} {example}",
        usage=usage or f"python -m {entry_point} [--dataset NAME] [--method NAME] [...]",
        formatter_class=_Help,
        allow_abbrev=False,
        exit_on_error=False,
        print_config=None,  # ours prints what the command makes of the flags
        add_help=False,  # ours has two lengths
    )
    parser.add_argument(
        "-h", "--help", action=_HelpFlag, help="show these flags, or all of them, and exit"
    )
    add_version(parser)
    parser.add_argument(
        "--config", action="config", metavar="FILE", help="YAML file with any of these; flags win"
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print the settings as YAML, and exit"
    )
    for action in parser._actions:
        action.common = True  # type: ignore[attr-defined]
    if domains:
        parser.add_argument(
            "--domain", metavar="NAME",
            help=f"kind of the data sets, where their names leave it open: {', '.join(CONFIGS)}, "
            f"or a module of yours that registers one (gcl_hard.experiments.register)",
        )  # fmt: skip
    return parser


def read_arguments(parser: ArgumentParser, arguments: Sequence[str]) -> dict[str, Any]:
    """Values given by a command line and its YAML file; flags override a ``--config``."""
    first, rest, words = [], [], iter(arguments)
    for word in words:
        if word == "--config":
            first += [word, *itertools.islice(words, 1)]
        elif word.startswith("--config="):
            first.append(word)
        else:
            rest.append(word)
    try:
        values = dict(vars(parser.parse_args(first + rest, defaults=False)))
    except ArgumentError as error:
        raise InputError(explain(str(error), parser)) from error
    except UnicodeDecodeError as error:
        raise InputError(f"the file of {' '.join(first)} is not UTF-8: {error}") from error
    values.pop("config", None)
    return values


def flags_in(arguments: Sequence[str]) -> set[str]:
    """Names of the flags of a command line, without those of its ``--config``.

    Example:
        >>> sorted(flags_in(["--lr=0.1", "--c-grid", "1", "2"]))
        ['c_grid', 'lr']
    """
    flags = (word[2:].partition("=")[0] for word in arguments if word.startswith("--"))
    return {name.replace("-", "_") for name in flags}


def words_as_flags(parser: ArgumentParser, arguments: Sequence[str], *names: str) -> list[str]:
    """Arguments with their positional words turned into flags.

    Args:
        parser: knows the flags without a value.
        arguments: of the command line; ``-o`` is the output.
        names: flags of the positional words, in their order.
    """
    without_value = {
        option for action in parser._actions
        if action.nargs == 0 or isinstance(action, _HelpFlag)
        for option in action.option_strings
    }  # fmt: skip
    flags: list[str] = []
    left, words = [*names], iter(arguments)
    for word in words:
        if word.startswith("-"):
            flags.append("--output" if word == "-o" else word)
            if word not in without_value and "=" not in word:
                flags += itertools.islice(words, 1)
        elif left:
            flags += [f"--{left.pop(0)}", word]
        else:
            flags.append(word)
    return flags


def option_defaults(options: type) -> dict[str, Any]:
    """Flags of a dataclass with their defaults, by name."""
    return {name: default for name, (*_, default) in options_of(options).items()}


def print_config(values: Mapping[str, Any]) -> None:
    """Print values as YAML that ``--config`` reads, and exit."""
    import yaml

    shown = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
    shown = {k: str(v) if isinstance(v, Path) else v for k, v in shown.items()}
    print(yaml.safe_dump(shown, sort_keys=False), end="")
    raise SystemExit(0)


def check_domain(stated: Mapping[str, Any], domain: Domain, options: type = RunOptions) -> None:
    """Refuse flags and baselines of other domains.

    Args:
        stated: values of flags.
        domain: domain of the data sets.
        options: the command's options; some apply to one domain.
    """
    texts = {name: text for name, (_, text, _) in options_of(options).items()}
    for name in stated:
        if name in known(CONFIGS[domain]) or name == "domain":
            continue
        first = texts.get(name, "").partition(":")[0]  # "images: …" applies to images
        domains = (
            [first if first in CONFIGS else domain] if name in texts else [*all_settings()[name][0]]
        )
        if domain not in domains:
            *others, last = domains
            whose = f"{', '.join(others)} and {last}" if others else last
            sets = " or ".join(experiment_of(CONFIGS[applied]).dataset_hint for applied in domains)
            raise InputError(
                f"unknown flag --{flag(name)}; it applies to {whose}, and the data sets given are "
                f"{domain}: give {sets}"
            )
    if "domain" not in stated:
        _check_baselines(stated, domain)


def _check_baselines(stated: Mapping[str, Any], domain: Domain) -> None:
    """Refuse baselines of other domains: the data set was taken for another kind."""
    names = stated.get("method", ())
    for name in [names] if isinstance(names, str) else names:
        if name.casefold() in (*METHODS, *CONFIGS[domain].baselines):
            continue
        having = [config for config in CONFIGS.values() if name.casefold() in config.baselines]
        if having:
            sets = stated.get("dataset", CONFIGS[domain].dataset)
            named = sets if isinstance(sets, str) else ", ".join(sets)
            needed = " or ".join(experiment_of(config).dataset_hint for config in having)
            raise InputError(
                f"{name} is a baseline of {' and '.join(config.domain for config in having)}, and "
                f"{named} was not found as such but taken for {domain}: give {needed}, or look at "
                f"its spelling and at the names of the arrays in its file"
            )


NAMING = ("domain", "dataset", "table", "data_dir")
"""Flags that name the data of a command."""


def _data_named(arguments: Sequence[str]) -> dict[str, Any]:
    """Flags on the data in a command line, or else its YAML files, before they are parsed.

    Raises:
        InputError: for a YAML file that cannot be read.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", action="append", nargs="?", default=[])
    for name in NAMING:
        parser.add_argument(f"--{flag(name)}", nargs="?", default=argparse.SUPPRESS)
    flags = vars(parser.parse_known_args(arguments)[0])
    named: dict[str, Any] = {}
    for file in filter(None, flags.pop("config")):
        if not Path(file).exists():
            continue  # the parser says so
        try:
            content = read_yaml(Path(file))
        except InputError as error:
            raise InputError(f"--config: {error}") from error
        named |= content if isinstance(content, dict) else {}
    named = {name: value for name, value in (named | flags).items() if name in NAMING and value}
    names = named.get("dataset", ())
    named["dataset"] = tuple(names.split(",") if isinstance(names, str) else map(str, names))
    return named | ({"data_dir": Path(named["data_dir"])} if "data_dir" in named else {})


def read_settings(
    make_parser: Callable[[Iterable[Domain]], ArgumentParser], arguments: Sequence[str]
) -> dict[str, Any]:
    """As :func:`read_arguments`, loading only the domain of the data where that suffices: help on
    no data lists the flags of all domains.

    Args:
        make_parser: a parser with the settings of some domains, or of all.
        arguments: of the command line.

    Raises:
        InputError: also if the module of ``--domain`` cannot be imported, or registers no domain
            or several.
    """
    named = _data_named(arguments)
    if "domain" in named:
        import_domain(named["domain"])
    named_any = named["dataset"] or {"domain", "table"} & named.keys()
    if named_any or not {"-h", "--help"} & {word.partition("=")[0] for word in arguments}:
        with suppress(InputError):  # which is raised again, about all domains
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                domain = domain_of(named | named_paths(named))
            return read_arguments(make_parser([domain]), arguments)
    return read_arguments(make_parser(CONFIGS), arguments)
