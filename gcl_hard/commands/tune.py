"""The command ``tune``: a search over the settings of a method."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jsonargparse import ArgumentParser

from gcl_hard.commands.datasets import domain_of, named_paths
from gcl_hard.commands.parser import (
    check_domain,
    entry_parser,
    flags_in,
    option_defaults,
    print_config,
    public_command,
    read_settings,
)
from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.flags import add_options, add_settings, all_settings, options_of
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.searches import SearchOptions
from gcl_hard.experiments.settings import Domain, defaults
from gcl_hard.experiments.values import as_declared

if TYPE_CHECKING:
    from gcl_hard.tuning.options import TuneOptions


def tune_parser(domains: Iterable[Domain] = CONFIGS) -> ArgumentParser:
    """The parser of ``python -m gcl_hard.tune``, with settings of some domains, or of all."""
    parser = entry_parser(
        "gcl_hard.tune",
        "Search settings of a method with Optuna, scored inside training data alone; then score "
        "the best ones once on data that the search never saw. The same command continues a "
        "search that was stopped.",
        "--dataset PTC --method hscl --trials 64",
        domains=True,
    )
    protocols = {
        name: experiment_of(CONFIGS[name]).search_defaults.get(
            "protocol", defaults(CONFIGS[name])["protocol"]
        )
        for name in domains
    }
    shown = {"protocol": protocols}
    texts = {"method": all_settings(domains)["method"][2].partition(";")[0]}  # without baselines
    add_settings(parser, listed=False, own=shown, texts=texts, common=True, domains=domains)
    add_options(parser, "the search", SearchOptions, options_of(SearchOptions))
    add_settings(parser, listed=False, own=shown, texts=texts, common=False, domains=domains)
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
    try:
        stated = read_settings(tune_parser, arguments)
    except InputError as error:
        raise _explained_tune(error) from error
    from gcl_hard.tuning.options import tune_options, warn_of_untried

    stated |= named_paths(stated)
    printing = stated.pop("print_config", False)
    domain = domain_of(stated)
    check_domain(stated, domain, SearchOptions)
    settings = {name: stated.pop(name) for name in defaults(CONFIGS[domain]) if name in stated}
    settings = as_declared(CONFIGS[domain], settings, listed=False)
    named = {"domain": stated.pop("domain")} if "domain" in stated else {}
    options = tune_options(domain, settings, **stated)
    warn_of_untried(options, {n: settings[n] for n in flags_in(arguments) & {*settings}})
    if printing:
        config = CONFIGS[domain]
        usual = (
            defaults(config)
            | {**experiment_of(config).search_defaults}
            | option_defaults(SearchOptions)
        )
        for dimension in options.search_space.dimensions:
            usual.pop(dimension.name, None)
        print_config(named | usual | settings | stated)
    return options


def _explained_tune(error: InputError) -> InputError:
    """The error, with the flag or entry point that a file belongs to."""
    message = str(error)
    if message.startswith("--space"):
        return InputError("give a file with a search space to --space FILE, not to --config")
    if "got [" in message:
        return InputError(
            f"{message}; a search takes one value of each setting (a file of lists is for "
            f"python -m gcl_hard.bench)"
        )
    return error


def tune(options: TuneOptions, arguments: Sequence[str]) -> int:
    """Execute a command.

    Args:
        options: as parsed.
        arguments: arguments of the command line, which the page shows.

    Returns:
        Exit status: 0, or 1 if no trial has a score.

    Raises:
        InputError: for anything wrong with data, space, storage or folders, before training.
    """
    from rich.console import Console

    from gcl_hard.commands.study import search
    from gcl_hard.experiments import processes
    from gcl_hard.reports.study import terminal
    from gcl_hard.tuning.result import AllFailed

    if processes.started():
        raise InputError(
            "a search trains each encoder in one process: start it without torchrun; --jobs N and "
            "--scheduler use more"
        )
    console = Console()
    try:
        result, written = search(options, console, public_command(arguments, "gcl_hard.tune"))
    except AllFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    console.print(terminal(result), highlight=False)
    line = f"results: {', '.join(map(str, written))}"
    console.print(line, highlight=False, markup=False, soft_wrap=True)
    return 0


STOPPED = "stopped; trials that have ended are saved, the same command continues"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    return tune(parse_tune(arguments), arguments)
