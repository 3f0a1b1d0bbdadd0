"""Parsers of command lines, shared by all commands.

The flag of a setting derives from its declaration, that of an option from a field of a dataclass or
an argument of a function, and its help from their docstring.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import shlex
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from gcl_hard.commands.datasets import check_said, domain_of, named_paths, naming, with_domain
from gcl_hard.errors import InputError, nearest, without_password
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.settings import Domain, RunConfig, flag, known
from gcl_hard.experiments.values import BadValueError, members, reader, unknown_setting
from gcl_hard.files.io import public_path
from gcl_hard.files.stored import read_yaml
from gcl_hard.losses.methods import METHODS, SETTINGS
from gcl_hard.version import __version__

METAVARS = {int: "N", float: "X", str: "NAME", Path: "PATH", bool: "true|false"}
METHODS_ALONE = ", ".join(METHODS)
"""Help of ``--method`` where it is no baseline."""
TRAINING = "[--dataset NAME] [--method NAME] [...]"


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


def options_of(owner: Callable[..., Any]) -> dict[str, tuple[Any, Any, str]]:
    """Type, default and help of each option of a command.

    Args:
        owner: a dataclass or a function; what no text can stand for is left out of its fields or
            arguments.
    """
    hints, options = get_type_hints(owner, include_extras=True), {}
    docs = [inspect.getdoc(part) or "" for part in reversed(getattr(owner, "__mro__", [owner]))]
    entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", "\n".join(docs), re.MULTILINE)
    markup = r':\w+:`|`+"?|"?`+'
    texts = {name: re.sub(markup, "", " ".join(text.split())) for name, text in entries}
    for name, parameter in inspect.signature(owner).parameters.items():
        kinds = [kind for kind in members(hints[name]) if _is_text(kind)]
        if kinds:
            kind = kinds[0] | None if NoneType in members(hints[name]) else kinds[0]
            options[name] = (kind, parameter.default, texts.get(name, "").removesuffix("."))
    return options


def _is_text(kind: Any) -> bool:
    """Whether a text can stand for values of a type."""
    if get_origin(kind) in (tuple, Annotated):
        return _is_text(get_args(kind)[0])
    return kind in METAVARS or get_origin(kind) is Literal


def defaults_of(owner: Callable[..., Any]) -> dict[str, Any]:
    """Options of a command with their defaults, by name."""
    return {name: default for name, (_, default, _) in options_of(owner).items()}


def add_version(parser: argparse.ArgumentParser) -> None:
    """Add ``--version``, which prints the version of the installed package."""
    parser.add_argument("--version", action="version", version=f"gcl-hard {__version__}")


def program(command: str) -> str:
    """A command as it was called: ``gcl-hard bench`` or ``python -m gcl_hard.bench``."""
    if Path(sys.argv[0]).stem == "gcl-hard":
        return f"gcl-hard {re.split('[. ]', command)[-1]}"
    return f"python -m {command}"


class RaisingParser(argparse.ArgumentParser):
    """A parser whose errors are this package's; a flag that is not given has no value."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, argument_default=argparse.SUPPRESS, **options)

    def error(self, message: str) -> NoReturn:
        """Raise argparse's error."""
        raise InputError(message)


class Parser(RaisingParser):
    """A parser of a command line and its YAML files.

    Args:
        command: as in :func:`public_command`.
        description: what the command does.
        example: arguments of an example.
        usage: the arguments in short.
        config: class of configurations of the data; None for commands without settings.
        data: the data in a word, if it is not the domain of the configurations.
        full: whether the help shows all settings, or those that most people set.
    """

    def __init__(
        self,
        command: str,
        description: str,
        example: str,
        *,
        usage: str = TRAINING,
        config: type[RunConfig] | None = None,
        data: str = "",
        full: bool = True,
    ) -> None:
        super().__init__(
            prog=program(command), usage=f"%(prog)s {usage}", description=description,
            epilog="--help all shows all settings. " * (not full)
            + f"Example: {program(command)} {example}",
        )  # fmt: skip
        self.config, self.full = config, full
        self.data = data or (config.domain if config else "")
        self.readers: dict[str, Callable[[Any], Any]] = {}
        self.defaults: dict[str, Any] = {}
        self.elsewhere: dict[str, str] = {}
        add_version(self)
        if config is not None:
            self.add_argument(
                "--config", action="append", metavar="FILE", help="YAML file with any of these"
            )
            self.add_argument(
                "--print-config", action="store_true", help="print them as YAML, and exit"
            )

    def add_domain(self) -> None:
        """Add ``--domain``, of commands whose data may be of any."""
        self.add_option(
            self, "domain", str | None, None,
            f"kind of the data sets, where their names leave it open: {', '.join(CONFIGS)}, or a "
            f"module of yours that registers one (gcl_hard.experiments.register)",
        )  # fmt: skip
        self.description = (
            f"{self.description} These are the settings of {self.data}; --domain NAME --help shows "
            f"those of {', '.join(name for name in CONFIGS if name != self.data)}."
        )

    def add_option(
        self, group: Any, name: str, kind: Any, default: Any, text: str, *, several: bool = False
    ) -> None:
        """Add a flag; without it on the command line its value is absent after parsing."""
        read = self.readers[name] = reader(kind, several=several)
        self.defaults[name] = default
        if default is not None and default is not False and text is not argparse.SUPPRESS:
            text += f" (default: {_written(default)})"
        more: dict[str, Any] = {"type": read, "metavar": _metavar(kind, several)}
        if kind is bool:
            more |= {"nargs": "?", "const": True}
            if self._get_positional_actions():  # which may follow
                more = {"action": "store_true"}
        short = {"output": ["-o"], "k": ["-k"]}.get(name, [])
        group.add_argument(*short, f"--{flag(name)}", help=text.replace("%", "%%"), **more)

    def add_options(
        self,
        title: str,
        owner: Callable[..., Any],
        without: Container[str] = (),
        *,
        common: bool = True,
        **defaults: Any,
    ) -> None:
        """Add a flag for each option of a command; those of other data are left out.

        Args:
            title: of the flags in the help.
            owner: as of :func:`options_of`.
            without: options that are no flags.
            common: whether most people set them.
            **defaults: in place of the owner's.
        """
        group = self.add_argument_group(title)
        others = {*CONFIGS} - {self.data} if self.data else set()
        for name, (kind, default, text) in options_of(owner).items():
            data = text.partition(":")[0]  # "images: …" applies to images
            if data in others:
                self.elsewhere[name] = data
            elif name not in without:
                shown = text if common or self.full else argparse.SUPPRESS
                self.add_option(group, name, kind, defaults.get(name, default), shown)

    def add_settings(
        self,
        *,
        listed: bool,
        common: bool,
        shown: Mapping[str, Any] = {},
        texts: Mapping[str, str] = {},
        without: Container[str] = (),
    ) -> None:
        """Add a flag for each setting of the data's domain.

        Args:
            listed: whether settings of which ``bench`` takes several do so.
            common: whether to add those that most people set, or the others.
            shown: defaults to show in place of the declared ones.
            texts: likewise help texts.
            without: settings that are no flags.
        """
        assert self.config is not None
        group = self.add_argument_group("common settings" if common else "further settings")
        for name, field in known(self.config).items():
            setting = field.setting
            if name not in without and setting.common == common:
                default = SETTINGS[name].default if name in SETTINGS else field.default
                text = texts.get(name, setting.help) if common or self.full else argparse.SUPPRESS
                self.add_option(
                    group, name, field.kind, shown.get(name, default), text,
                    several=listed and setting.several,
                )  # fmt: skip

    def parse(self, arguments: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values of a command line and its YAML files; and those of the line alone, which win.

        Raises:
            InputError: for anything that is not understood; names it.
        """
        namespace, surplus = self.parse_known_args(arguments)
        if surplus:
            raise self._unknown(surplus[0].partition("=")[0])
        typed, values = vars(namespace), dict[str, Any]()
        printing = typed.pop("print_config", False)
        for path in map(Path, typed.pop("config", ())):
            content = read_yaml(path)
            if content is not None and not isinstance(content, dict):
                raise InputError(f"{path} as --config has settings, got {content!r}")
            for name, value in (content or {}).items():
                if name not in self.readers:
                    raise InputError(f"{path}: {self._unknown(f'--{name}')}")
                try:
                    values[name] = self.readers[name](value)
                except BadValueError as error:
                    raise InputError(f"{path}: {name}: {error}") from None
        if printing:
            self._print_config(values | typed)
        return values | typed, typed

    def _print_config(self, values: Mapping[str, Any]) -> NoReturn:
        """Print values as YAML that ``--config`` reads, with defaults as comments, and exit."""
        for name, default in {**self.defaults, **values}.items():
            written = json.dumps(values.get(name, default), ensure_ascii=False, default=str)
            print(f"{'' if name in values else '# '}{name}: {written}")
        raise SystemExit(0)

    def _unknown(self, word: str) -> InputError:
        name = word.lstrip("-").replace("-", "_")
        if not word.startswith("-"):
            return InputError(f"{word!r} is no flag; several values are joined by commas (a,b)")
        if self.config and name not in self.readers:
            if name in self.elsewhere:
                return InputError(f"{word} applies to {self.elsewhere[name]}, not to {self.data}")
            if name in known(self.config):
                return InputError(f"{word} is not read by this command: leave it out")
            if any(name in known(config) for config in CONFIGS.values()):
                return InputError(f"--{unknown_setting(name, self.config)}")
        close = nearest(f"--{flag(name)}", self._option_string_actions)
        hint = f"did you mean {' or '.join(close)}?" if close else "--help lists them"
        return InputError(f"unknown flag {word}; {hint}")


def _metavar(kind: Any, several: bool = False) -> str:
    """What stands for a value in the help."""
    kind = members(kind)[0]
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if get_origin(kind) is tuple:
        kind, several = get_args(kind)[0], True
    value = METAVARS.get(kind) or "|".join(map(str, get_args(kind)))
    return f"{value},…" if several else value


def _written(default: Any) -> str:
    """A default as it is typed."""
    if isinstance(default, tuple):
        return ",".join(map(_written, default))
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def data_named(arguments: Sequence[str]) -> dict[str, Any]:
    """What names the data in a command line, or else in its YAML files.

    A setting that a domain has among its ``marks`` names the domain.
    """
    names: dict[str, Any] = {
        **dict.fromkeys(naming("marks"), tuple[str, ...]),
        **dict.fromkeys(naming("files_beside"), str),
        "domain": str, "table": str, "dataset": tuple[str, ...], "data_dir": Path,
    }  # fmt: skip
    readers = {name: reader(kind | None) for name, kind in names.items()}
    parser = RaisingParser(add_help=False)
    parser.add_argument("--config", action="append", default=[])
    for name, read in readers.items():
        parser.add_argument(f"--{flag(name)}", type=read)
    typed = vars(parser.parse_known_args(arguments)[0])
    files = [read_yaml(Path(file)) for file in typed.pop("config")]
    named = {
        name: readers[name](value)
        for content in files if isinstance(content, dict)
        for name, value in content.items() if name in readers
    }  # fmt: skip
    return with_domain({k: value for k, value in (named | typed).items() if value is not None})


def read_settings(
    make_parser: Callable[[Domain, bool], Parser], arguments: Sequence[str]
) -> tuple[Domain, dict[str, Any], dict[str, Any]]:
    """The domain of a command's data, and its values as :meth:`Parser.parse` returns them.

    Args:
        make_parser: makes the parser of a domain, with a full help or a short one.
        arguments: of the command line.

    Raises:
        InputError: for anything that is not understood; also if the module of ``--domain`` cannot
            be imported, or registers no domain or several.
    """
    named = data_named(arguments)
    check_said(named)
    paths = named_paths(named)
    domain = domain_of(named | paths)
    stated, typed = make_parser(domain, "all" in arguments).parse(arguments)
    if paths and isinstance(stated["dataset"], str):
        (paths["dataset"],) = paths["dataset"]
    return domain, stated | paths, typed
