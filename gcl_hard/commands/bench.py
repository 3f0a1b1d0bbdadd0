"""The command ``bench``: from a data set to an accuracy, in a table or on a page."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gcl_hard.commands.datasets import DEFAULT
from gcl_hard.commands.options import BenchOptions, all_values, bench_configs, shortened
from gcl_hard.commands.parser import Parser, defaults_of, public_command, read_settings
from gcl_hard.errors import InputError, check_at_least
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.experiment import ENCODERS, RunOptions
from gcl_hard.experiments.presets import Preset, preset
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import HEAD, Domain, RunConfig, flag, known
from gcl_hard.experiments.store import Store
from gcl_hard.experiments.values import warn_of_unread
from gcl_hard.files.io import write_json

if TYPE_CHECKING:
    from rich.console import Console

    from gcl_hard.reports.frame import Results


def bench_parser(domain: Domain = DEFAULT, full: bool = True) -> Parser:
    """The parser of ``python -m gcl_hard.bench``, with the settings of a domain."""
    parser = Parser(
        "gcl_hard.bench",
        "Train encoders with hard negatives and score them as their domain does: graphs by a "
        "nested SVM, links by ranks, others by a probe. Lists (a,b,c) run in all combinations.",
        "--dataset PTC --method ucl,hscl --seeds 3",
        config=CONFIGS[domain], full=full,
    )  # fmt: skip
    parser.add_domain()
    parser.add_settings(listed=True, common=True)
    parser.add_options("runs and execution", BenchOptions)
    parser.add_options("training runs", RunOptions, common=False)
    parser.add_settings(listed=True, common=False)
    return parser


def parse_bench(arguments: Sequence[str]) -> BenchOptions:
    """Read the command line of ``python -m gcl_hard.bench``.

    Args:
        arguments: without the program's name.

    Returns:
        The options; every configuration is checked.

    Raises:
        InputError: for anything that cannot be run; names the flag and the nearest ones.
    """
    domain, stated, typed = read_settings(bench_parser, arguments)
    config, options = CONFIGS[domain], defaults_of(BenchOptions)
    table = preset(stated["table"]) if stated.get("table") else None
    quick: dict[str, Any] = {}
    if table is not None and stated.get("small"):
        quick |= table.small
    quick |= experiment_of(config).quick if stated.get("quick") else {}
    usual = {**options, **(table.values if table else {})}
    values = all_values(config, usual | quick | stated)
    _check_bench(values, config, table)
    configs: list[RunConfig] = []
    if values["compact"] is None:
        configs = bench_configs(config, values, table, {*stated, *quick})
        warn_of_unread(configs, typed)
    run = RunOptions(**{name: stated[name] for name in defaults_of(RunOptions) if name in stated})
    options = {name: values[name] for name in options}
    return BenchOptions(configs=tuple(dict.fromkeys(configs)), run=run, **options)


def _check_bench(values: Mapping[str, Any], config: type[RunConfig], table: Preset | None) -> None:
    if values["small"] and not (table and table.small):
        raise InputError("small applies to table 1: give --table 1 too")
    for name, value in shortened(values).items():
        option, field = flag(f"select_{name}"), known(config).get(name)
        check_at_least(option, value, 1)
        if not values["select"]:
            raise InputError(f"{option} is how settings are chosen: give --select true too")
        if field is None:
            raise InputError(f"{option}: {config.domain} have no setting {name}")
        if field.setting.chosen and field.setting.several and len(values[name]) > 1:
            raise InputError(
                f"{option} compares settings after equally many {name}: give one {name}"
            )


LONGEST = 120
"""The most characters of data sets, and of methods, in the name of a result file."""


SMOKE = "A smoke run with few seeds and epochs: not reportable."


def bench(options: BenchOptions, arguments: Sequence[str]) -> int:
    """Execute a command.

    Args:
        options: as parsed.
        arguments: arguments of the command line, which pages show.

    Returns:
        Exit status: 0, or 2 if a run failed.

    Raises:
        InputError: for anything wrong with data, device or folders, before training starts.
    """
    from rich.console import Console

    from gcl_hard.commands.execute import execute
    from gcl_hard.experiments import hardware, processes
    from gcl_hard.experiments.custom import UserParts
    from gcl_hard.experiments.runner import follow
    from gcl_hard.experiments.store import COMPACT, Store

    console, command = Console(), public_command(arguments)
    if options.compact is not None:
        n = Store(options.compact).compact()
        console.print(f"{n} results in {options.compact / COMPACT}", highlight=False)
        return 0
    device = hardware.choose_device(options.device)
    with processes.joined(device) as drives:
        if not drives:
            follow(processes.own_device(device))
            return 0
        results, failures = execute(options, UserParts(), console)
    if results.records:
        _show(options, results, console, command)
    elif not failures:
        console.print("no run of this command is finished: there is nothing to show")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 2 if failures else 0


def _show(options: BenchOptions, results: Results, console: Console, command: str) -> None:
    """Write the result file, print the table, write the page."""
    from gcl_hard.reports import frame, tables
    from gcl_hard.reports.rows import rows

    asked = [*dict.fromkeys((*results.configs, *results.shorter))]
    path = options.json or options.output / f"{_name(options, asked)}.json"
    write_json(frame.result_json(results, quick=options.quick), path)
    if options.quick:
        console.print(SMOKE, style="bold yellow")
    written, shown = [path], rows(results)
    console.print(tables.terminal(shown))
    if options.report is not None:
        from gcl_hard.reports.page import write

        written += write(results, options.report, command=command, quick=options.quick, shown=shown)
    lines = [f"results: {', '.join(map(str, written))}"]
    if options.run.save_encoder:
        store = Store(options.output)
        files = [path for run in results.records if (path := store.file(run, ENCODERS)).exists()]
        lines += [f"encoders: {', '.join(map(str, files))}"] * bool(files)
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)


def _name(options: BenchOptions, configs: Sequence[RunConfig]) -> str:
    """Stem of a command's result file: data sets, methods, protocols, and a digest of settings that
    are not the defaults, so that two experiments have two files.
    """
    digest = hashlib.sha256("".join(c.key() for c in configs).encode()).hexdigest()[:6]
    if options.table:
        kinds = ["quick"] * options.quick + ["small"] * options.small
        whole = parse_bench([f"--table={options.table}", *(f"--{kind}" for kind in kinds)])
        stem = "-".join(["table", options.table, *kinds])
        return stem if set(configs) == set(whole.configs) else f"{stem}-{digest}"
    parts = ["+".join(dict.fromkeys(getattr(c, name) for c in configs)) for name in HEAD]
    if max(map(len, parts)) > LONGEST:
        parts = [f"{part.count('+') + 1}-{name}s" for name, part in zip(HEAD, parts, strict=True)]
    elif not any(config.stated() for config in configs):
        return "_".join(parts)
    return "_".join([*parts, digest])


STOPPED = "stopped before any run; the same command begins again"


def command(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit status."""
    return bench(parse_bench(arguments), arguments)
