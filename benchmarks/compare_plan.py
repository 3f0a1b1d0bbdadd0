"""The commands that ``compare_commits.py`` runs, from ``compare_plan.yaml``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import yaml

PARSERS = {
    "bench": "gcl_hard.commands.bench:parse_bench",
    "tune": "gcl_hard.commands.tune:parse_tune",
    "figures": "gcl_hard.commands.figures:parse_figures",
    "pretrain": "gcl_hard.commands.pretrain:parse_pretrain",
}
"""Parsers of the entry points' command lines."""


@dataclass(frozen=True)
class Command:
    """A command line that runs once in each tree.

    Attributes:
        name: name of the command and of the folder that it runs in.
        entry: a name of :data:`PARSERS`, or ``python`` for a script.
        arguments: as typed; ``{tree}`` is the checkout, ``{scripts}`` the folder of our scripts,
            ``{shared}`` that of data beside the project, and ``../NAME`` the folder of another
            command.
        ensemble: whether several models train as one ensemble, so that numbers agree to a
            tolerance and not to the bit.
        after: commands whose results this one reads.
    """

    name: str
    entry: str
    arguments: str
    ensemble: bool = False
    after: tuple[str, ...] = ()


def _commands() -> dict[str, Command]:
    plan = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    flags: dict[str, str] = {}
    for name, text in plan["flags"].items():
        flags[name] = Template(text).substitute(flags)
    return {
        name: Command(
            name,
            line["entry"],
            Template(line["arguments"]).substitute(flags),
            line.get("ensemble", False),
            tuple(line.get("after", ())),
        )
        for name, line in plan["commands"].items()
    }


COMMANDS = _commands()
"""By name, in the order in which they are run."""


def chosen(names: Sequence[str]) -> list[Command]:
    """Some commands, and those whose results they read; all if none is named.

    Raises:
        KeyError: for a name that is none.
    """
    wanted = set(names or COMMANDS)
    while more := {need for name in wanted for need in COMMANDS[name].after} - wanted:
        wanted |= more
    return [command for name, command in COMMANDS.items() if name in wanted]
