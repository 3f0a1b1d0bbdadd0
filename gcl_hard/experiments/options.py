"""Command line and YAML for the doors: flags from the fields of a config, with nearest names."""

from __future__ import annotations

import itertools
import re
from argparse import SUPPRESS, Action
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from jsonargparse import ArgumentError, ArgumentParser, DefaultHelpFormatter
from jsonargparse.typing import register_type

from gcl_hard.errors import InputError, nearest, unknown
from gcl_hard.experiments.config import CellConfig

LISTED = {"dataset": str, "method": str, "protocol": str, "beta": float}
"""Fields of a cell of which a command takes several, comma-separated; it runs all combinations."""


class Words(tuple[str, ...]):
    """Names: ``ucl,hscl`` or a YAML list."""

    __slots__ = ()


class Numbers(tuple[float, ...]):
    """Numbers: ``1,2,10`` or a YAML list."""

    __slots__ = ()


class Seeds(tuple[int, ...]):
    """Seeds: a count (``5`` is 0 … 4), or a list (``0,1,2``; ``7,`` is seed 7 alone)."""

    __slots__ = ()


def _words(value: Any) -> Words:
    return Words(str(word).strip() for word in _items(value))


def _numbers(value: Any) -> Numbers:
    return Numbers(float(item) for item in _items(value))


MOST_SEEDS = 10_000
SEEDS = "a count of at least 1, or different whole numbers from 0 to 2**32 - 1"


def _seeds(value: Any) -> Seeds:
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


def _items(value: Any) -> list[Any]:
    if isinstance(value, str):
        items: list[Any] = [item for item in value.split(",") if item.strip()]
    else:
        items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not items:
        raise ValueError("at least one is needed")
    return items


_READERS: list[tuple[type, Callable[[Any], Any]]] = [
    (Words, _words), (Numbers, _numbers), (Seeds, _seeds),
]  # fmt: skip
for _type, _reader in _READERS:
    register_type(_type, serializer=list, deserializer=_reader, fail_already_registered=False)


class _Help(DefaultHelpFormatter):
    """Help with defaults as one would write them, and without Python's names of types."""

    def _get_help_string(self, action: Action) -> str:
        text, default = action.help or "", action.default
        if default is None or default == SUPPRESS or not action.option_strings:
            return text
        if isinstance(default, tuple):
            default = ",".join(f"{item:g}" if isinstance(item, float) else str(item)
                               for item in default)  # fmt: skip
        return f"{text} (default: {str(default).lower() if isinstance(default, bool) else default})"


@dataclass(frozen=True)
class BenchOptions:
    """What ``python -m gcl_hard.bench`` was asked for.

    Attributes:
        cells: every combination of data set, method, β and protocol, in that order.
        seeds: to run each of them with.
        device: ``auto``, ``cpu``, ``cuda``, …
        data_dir: an offline mirror of TU archives, or None.
        output: folder of the records.
        json: the result file; None for one in ``output``.
        threads: of the CPU; None to choose.
    """

    cells: tuple[CellConfig, ...]
    seeds: Seeds
    device: str
    data_dir: Path | None
    output: Path
    json: Path | None
    threads: int | None


def bench_parser() -> ArgumentParser:
    """The parser of ``python -m gcl_hard.bench``."""
    parser = ArgumentParser(
        prog="python -m gcl_hard.bench",
        description="Train graph encoders with hard negatives and score them by a nested 10-fold "
        "SVM. Several data sets, methods, β or protocols (a,b,c) run in all combinations; what "
        "is finished is not run again.",
        epilog="Example: python -m gcl_hard.bench --dataset PTC --method ucl,hscl --seeds 3",
        usage="python -m gcl_hard.bench [--dataset NAMES] [--method NAMES] [--beta NUMBERS] [...]",
        formatter_class=_Help,
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument(
        "--config", action="config", metavar="FILE", help="YAML with any of these; flags win"
    )
    hints = get_type_hints(CellConfig, include_extras=True)
    for field in fields(CellConfig):
        kind, text = hints[field.name].__origin__, hints[field.name].__metadata__[0]
        default: Any = field.default
        if field.name in LISTED:
            kind = Numbers if LISTED[field.name] is float else Words
            default = kind([default])
        elif field.name == "augmentations":
            kind = Words | None
        metavar: Any = {} if kind is bool else {"metavar": _metavar(field.name)}
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=kind, default=default, help=text,
            **metavar,
        )  # fmt: skip
    options: list[tuple[str, Any, Any, str]] = [
        ("seeds", Seeds, Seeds(range(5)), "a count (5 is 0…4) or a list (0,1,2)"),
        ("device", str, "auto", "auto, cpu, cuda or cuda:N"),
        ("data-dir", Path | None, None, "folder with TU archives (or set GCL_HARD_DATA)"),
        ("output", Path, Path("results"), "folder that finished seeds are saved in at once"),
        ("json", Path | None, None, "result file; one in the output folder if not given"),
        ("threads", int | None, None, "CPU threads; chosen by the size of the work if not given"),
    ]
    for name, kind, default, text in options:
        parser.add_argument(
            f"--{name}", type=kind, default=default, help=text, metavar=_metavar(name)
        )
    return parser


def parse_bench(arguments: Sequence[str]) -> BenchOptions:
    """Read a command line.

    Args:
        arguments: without the program's name.

    Returns:
        The options; every cell is checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    values = _parse(bench_parser(), arguments)
    shared = {f.name: values[f.name] for f in fields(CellConfig) if f.name not in LISTED}
    if shared["augmentations"] is not None:
        shared["augmentations"] = tuple(shared["augmentations"])
    cells = [
        CellConfig(**dict(zip(LISTED, combination, strict=True)), **shared)
        for combination in itertools.product(*(values[name] for name in LISTED))
    ]
    if values["threads"] is not None and values["threads"] < 1:
        raise InputError(f"threads must be at least 1, got {values['threads']}")
    return BenchOptions(
        cells=tuple(dict.fromkeys(cells)),
        **{name: values[name] for name in
           ("seeds", "device", "data_dir", "output", "json", "threads")},
    )  # fmt: skip


def _parse(parser: ArgumentParser, arguments: Sequence[str]) -> dict[str, Any]:
    try:
        return dict(vars(parser.parse_args(_config_first(arguments))))
    except ArgumentError as error:
        raise InputError(_explain(str(error), parser)) from error


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


def _explain(message: str, parser: ArgumentParser) -> str:
    """The parser's message in the words of the command line, with the nearest flags."""
    flags = [o for a in parser._actions for o in a.option_strings if o.startswith("--")]
    if match := re.match(r"unrecognized arguments: (.*)", message, re.DOTALL):
        wrong = match[1].split()[0].split("=")[0]
        if not wrong.startswith("-"):
            return f"{wrong!r} belongs to no flag; several values are separated by commas (a,b)"
        return f"unknown flag {wrong}{_hint(wrong, flags)}"
    if match := re.search(r"Option '(.*?)' is not accepted", message):
        keys = [flag.removeprefix("--").replace("-", "_") for flag in flags]
        return f"unknown key {match[1]!r} in the config file{_hint(match[1], keys)}"
    if match := re.match(r'Parser key "(\w+)":\s*(.*)', message, re.DOTALL):
        return _explain_value(match[1], " ".join(match[2].split()))
    return message


def _explain_value(key: str, message: str) -> str:
    """What is wrong with a value, without the parser's names of types."""
    flag, got = key.replace("_", "-"), message.rpartition("value: ")[2].strip()
    if words := re.search(r"Literal\[(.*?)\]", message):
        return str(unknown(flag, got, re.findall(r"'(.*?)'", words[1])))
    if "Expected a <class 'float'>" in message:  # on its own or in a union
        return f"--{flag} must be {PLAIN['float']}, got {got}"
    if expected := re.match(r"Expected a <class '(\w+)'>", message):
        return f"--{flag}: expected {PLAIN.get(expected[1], expected[1])}, got {got}"
    jargon = r"Not of type \w+: (could not convert string to float: |invalid literal for .*?: )?"
    if plain := re.search(jargon + r"(.*)", message):
        return f"--{flag}: {plain[2].strip()}{WANTED.get(key, '') if plain[1] else ''}"
    return f"--{flag}: {message}"


PLAIN = {"float": "a finite number", "int": "a whole number", "bool": "true or false"}
WANTED = {"beta": "; expected numbers, separated by commas", "seeds": f"; expected {SEEDS}"}


def _hint(word: str, options: list[str]) -> str:
    close = nearest(word, options)
    return f"; did you mean {' or '.join(close)}?" if close else "; --help lists them"


def _metavar(name: str) -> str:
    special = {"json": "FILE", "data-dir": "DIR", "output": "DIR", "beta": "NUMBERS"}
    special |= dict.fromkeys(("dataset", "method", "protocol", "augmentations"), "NAMES")
    return special.get(name, name.upper().replace("-", "_").split("_")[-1])


__all__ = ["BenchOptions", "bench_parser", "parse_bench"]
