"""The command ``tune``: a search over the settings of a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gcl_hard.commands.datasets import DEFAULT
from gcl_hard.commands.parser import METHODS_ALONE, Parser, public_command, read_settings
from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.searches import SearchOptions
from gcl_hard.experiments.settings import Domain, defaults

if TYPE_CHECKING:
    from gcl_hard.tuning.options import TuneOptions


def tune_parser(domain: Domain = DEFAULT, full: bool = True) -> Parser:
    """The parser of ``python -m gcl_hard.tune``, with the settings of a domain."""
    config = CONFIGS[domain]
    parser = Parser(
        "gcl_hard.tune",
        "Search settings of a method with Optuna, scored inside training data alone; then score "
        "the best ones once on data that the search never saw. The same command continues a "
        "search that was stopped.",
        "--dataset PTC --method hscl --trials 64",
        config=config, full=full,
    )  # fmt: skip
    shown, texts = experiment_of(config).search_defaults, {"method": METHODS_ALONE}
    parser.add_domain()
    parser.add_settings(listed=False, common=True, shown=shown, texts=texts)
    parser.add_options("the search", SearchOptions)
    parser.add_settings(listed=False, common=False, shown=shown)
    return parser


def parse_tune(arguments: Sequence[str]) -> TuneOptions:
    """Read the command line of ``python -m gcl_hard.tune``.

    Args:
        arguments: without the program's name.

    Returns:
        The options; space and settings are checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    domain, stated, typed = read_settings(tune_parser, arguments)
    from gcl_hard.tuning.options import tune_options, warn_of_untried

    stated.pop("domain", None)
    settings = {name: stated.pop(name) for name in defaults(CONFIGS[domain]) if name in stated}
    options = tune_options(domain, settings, **stated)
    warn_of_untried(options, {name: settings[name] for name in typed if name in settings})
    return options


def tune(options: TuneOptions, arguments: Sequence[str]) -> int:
    """Execute a command.

    Args:
        options: as parsed.
        arguments: arguments of the command line, which the page shows.

    Returns:
        Exit status 0.

    Raises:
        InputError: for anything wrong with data, space, storage or folders, before training.
        AllFailed: if no trial has a score; the exit status is 1 then.
    """
    from rich.console import Console

    from gcl_hard.commands.study import search
    from gcl_hard.experiments import processes
    from gcl_hard.reports.study import terminal

    if processes.started():
        raise InputError(
            "a search trains each encoder in one process: start it without torchrun; --jobs N and "
            "--scheduler use more"
        )
    console = Console()
    result, written = search(options, console, public_command(arguments, "gcl_hard.tune"))
    console.print(terminal(result), highlight=False)
    line = f"results: {', '.join(map(str, written))}"
    console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


STOPPED = "stopped; trials that have ended are saved, the same command continues"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    return tune(parse_tune(arguments), arguments)
