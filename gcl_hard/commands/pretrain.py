"""The command ``pretrain``: an encoder of molecules, trained without targets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from jsonargparse import ArgumentParser

from gcl_hard.commands.parser import (
    entry_parser,
    option_defaults,
    print_config,
    read_arguments,
)
from gcl_hard.commands.running import run_command
from gcl_hard.extras import check_extra
from gcl_hard.settings.base import defaults
from gcl_hard.settings.flags import add_options, add_settings, all_settings, options_of
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.presets import PRETRAINING
from gcl_hard.settings.pretraining import OTHERS, PretrainOptions


def pretrain_parser() -> ArgumentParser:
    """The parser of ``python -m gcl_hard.pretrain``."""
    parser = entry_parser(
        "gcl_hard.pretrain",
        "Train an encoder of molecules on a large set without targets, and save it. The same "
        "command goes on where it was stopped.",
        "--dataset MOSES --subset 100000 --output encoder.pt",
    )
    texts = {
        "dataset": "a set of molecules: MOSES, one of MoleculeNet's, or a file NAME.csv",
        "method": all_settings()["method"][2].partition(";")[0],
        "epochs": "passes over the molecules", "batch_size": "molecules in a batch",
    }  # fmt: skip
    names = {*defaults(GraphConfig)} - {*OTHERS}
    of: dict[str, Any] = {"listed": False, "own": PRETRAINING, "texts": texts, "names": names}
    add_settings(parser, common=True, **of)
    add_options(parser, "pre-training", PretrainOptions, options_of(PretrainOptions))
    add_settings(parser, common=False, **of)
    return parser


def parse_pretrain(arguments: Sequence[str]) -> PretrainOptions:
    """Read the command line of ``python -m gcl_hard.pretrain``.

    Args:
        arguments: without the program's name.

    Returns:
        The options, checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    stated = read_arguments(pretrain_parser(), arguments)
    printing = stated.pop("print_config", False)
    settings = {name: stated.pop(name) for name in defaults(GraphConfig) if name in stated}
    if printing:
        values = PRETRAINING | option_defaults(PretrainOptions) | settings | stated
        print_config({name: value for name, value in values.items() if name not in OTHERS})
    return PretrainOptions(GraphConfig(**PRETRAINING | settings), **stated)


STOPPED = "stopped; the same command goes on from the last checkpoint"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: arguments of the command line; ``sys.argv`` if None.

    Returns:
        Exit status: 0; 2 if something was wrong with the input; 130 after Ctrl-C.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)

    def command() -> int:
        options = parse_pretrain(given)
        check_extra("molecules", "pre-training")
        from gcl_hard.experiments.pretraining import pretrain

        pretrain(options)
        return 0

    return run_command(command, stopped=lambda: STOPPED)
