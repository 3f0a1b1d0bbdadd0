"""Every command in README, docs and configs, and the configuration that it parses to.

    python benchmarks/documented_commands.py [TREE]

prints one JSON object per line: the page of a command, the command, and its configuration.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from compare_plan import PARSERS

SHOWN = re.compile(rf"(?:python -m gcl_hard\.|gcl-hard )({'|'.join(PARSERS)})\b([^`#\n]*)")
PAGES = ("README.md", "docs/**/*.md", "docs/**/*.yaml", "configs/**/*.yaml", "benchmarks/README.md")


class Shown(NamedTuple):
    """A command and the page that shows it."""

    page: str
    entry: str
    arguments: tuple[str, ...]


def documented(tree: Path) -> list[Shown]:
    """The commands that the pages of a checkout show, each once, in the order of the pages."""
    by_command: dict[tuple[str, tuple[str, ...]], Shown] = {}
    for page in (page for pattern in PAGES for page in sorted(tree.glob(pattern))):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        text = re.sub(r"\n#\s+(?=--)", " ", text)  # a comment continued on the next line
        for entry, typed in SHOWN.findall(text):
            arguments = tuple(shlex.split(typed))
            shown = Shown(page.relative_to(tree).as_posix(), entry, arguments)
            by_command.setdefault((entry, arguments), shown)
    return list(by_command.values())


def canonical(value: Any) -> Any:
    """A parsed configuration as JSON: fields by name, paths with slashes, the rest as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        if {"kind", "settings"} <= fields.keys():  # missing settings are the kind's defaults
            fields["settings"] = fields["kind"](**fields["settings"])
        return {name: canonical(item) for name, item in fields.items()}
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, Mapping):
        return {str(key): canonical(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(canonical, value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [canonical(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def parse_all(commands: Sequence[tuple[str, Sequence[str]]]) -> list[Any]:
    """The configurations of entry points with their arguments, or their errors."""
    parsers = {}
    for entry in {entry for entry, _ in commands}:  # another commit may lack the others
        module, _, function = PARSERS[entry].partition(":")
        parsers[entry] = getattr(importlib.import_module(module), function)
    parsed: list[Any] = []
    for entry, arguments in commands:
        try:
            parsed.append(canonical(parsers[entry](list(arguments))))
        except Exception as error:  # from this commit's parser
            parsed.append({"error": f"{type(error).__name__}: {error}"})
    return parsed


def configurations(tree: Path, commands: Sequence[tuple[str, Sequence[str]]]) -> list[Any]:
    """:func:`parse_all` by the code of a checkout, in a separate process."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--parse"],
        input=json.dumps(commands),
        env=os.environ | {"PYTHONPATH": str(tree.resolve())},
        cwd=tree,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))


def main(arguments: Sequence[str]) -> None:
    if list(arguments) == ["--parse"]:
        print(json.dumps(parse_all(json.load(sys.stdin))))
        return
    tree = Path(arguments[0] if arguments else Path(__file__).parents[1])
    shown = documented(tree)
    parsed = configurations(tree, [(command.entry, command.arguments) for command in shown])
    for command, configuration in zip(shown, parsed, strict=True):
        print(json.dumps({**command._asdict(), "configuration": configuration}, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
