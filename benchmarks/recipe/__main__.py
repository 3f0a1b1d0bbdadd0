r"""The research on our own recipe: ``python -m benchmarks.recipe search`` and ``... table``.

    python -m benchmarks.recipe search --data-dir DIR --output benchmarks/results/tables \
        --report docs/research/recipe.md --best configs/graphs/best
    python -m benchmarks.recipe table --data-dir DIR --output benchmarks/results/tables \
        --report docs/research/results.md

``search`` compares settings by inner scores alone and writes the recipe that ``--recipe best``
of the commands reads; ``table`` compares that recipe with the paper's, on seeds that the search
did not use. What is finished is not repeated.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from jsonargparse import ArgumentParser
from rich.console import Console

from benchmarks.recipe import page
from benchmarks.recipe.search import check_folder, choose, read_search, write
from benchmarks.recipe.table import DATASETS, METHODS, PROTOCOLS, SEEDS, entries
from gcl_hard.commands.bench import SMOKE
from gcl_hard.commands.datasets import domain_of, named_paths
from gcl_hard.commands.execute import execute, runner_of
from gcl_hard.commands.options import BenchOptions
from gcl_hard.commands.parser import (
    entry_parser,
    option_defaults,
    print_config,
    public_command,
    read_arguments,
)
from gcl_hard.commands.running import run_command
from gcl_hard.errors import GclHardError, InputError, check_at_least, unknown
from gcl_hard.experiments.custom import UserParts
from gcl_hard.graphs.tudataset import MANIFEST, canonical_name, lacks_edge_labels
from gcl_hard.io import check_writable, write_json
from gcl_hard.reports.frame import result_json
from gcl_hard.runs.experiment import RunOptions
from gcl_hard.runs.plan import Run
from gcl_hard.runs.record import RunResult
from gcl_hard.settings.flags import add_flag, add_options, options_of
from gcl_hard.settings.graphs import GraphConfig

EXECUTION = (
    "output", "report", "report_only", "force", "data_dir", "device", "threads", "scheduler",
)  # fmt: skip
"""Options of ``bench`` that the two commands have, too."""


SEARCHED = Path(__file__).with_name("search.yaml")
JOBS = "processes on this machine; one per core if not given"


@dataclass(frozen=True)
class SearchOptions:
    """Options of the search."""

    search: Annotated[Path, "what is searched"] = SEARCHED
    dataset: Annotated[tuple[str, ...] | None, "in place of the file's sets"] = None
    best: Annotated[Path | None, "folder for the configs that are chosen"] = None
    jobs: Annotated[int | None, JOBS] = None


@dataclass(frozen=True)
class TableOptions:
    """Options of the table."""

    dataset: Annotated[tuple[str, ...], "data sets"] = DATASETS
    method: Annotated[tuple[str, ...], "methods and baselines"] = METHODS
    protocol: Annotated[tuple[str, ...], "protocols"] = PROTOCOLS
    seeds: Annotated[tuple[int, ...], "a count (5 is 0…4) or a list (0,1,2)"] = SEEDS
    quick: Annotated[bool, "smoke run: two seeds and few epochs; not reportable"] = False
    json: Annotated[Path | None, "result file; one in the output folder if not given"] = None
    jobs: Annotated[int | None, JOBS] = None


OPTIONS: dict[str, type] = {"search": SearchOptions, "table": TableOptions}


@dataclass(frozen=True)
class Given:
    """What a command line stated, with the defaults of the rest.

    Attributes:
        values: by name.
        bench: the same as options of ``bench``, with the configurations of the table.
    """

    values: Mapping[str, Any]
    bench: BenchOptions


def parser_of(name: str) -> ArgumentParser:
    """The parser of ``search`` or ``table``."""
    entry_point = f"benchmarks.recipe {name}"
    parser = entry_parser(entry_point, COMMANDS[name].__doc__ or "", "--data-dir DIR")
    parser.usage = f"python -m {entry_point} [--data-dir DIR] [...]"
    group = parser.add_argument_group(name)
    for option, known in options_of(OPTIONS[name]).items():
        add_flag(group, option, *known, listed=True)
    add_options(parser, "execution", BenchOptions, EXECUTION)
    return parser


def parse(name: str, arguments: Sequence[str]) -> Given:
    """Read the command line of ``search`` or ``table``.

    Raises:
        InputError: for anything that cannot be run.
    """
    stated = read_arguments(parser_of(name), arguments)
    stated |= named_paths(stated)
    printing = stated.pop("print_config", False)
    values = option_defaults(OPTIONS[name]) | stated
    if values.get("quick") and "seeds" not in stated:
        values["seeds"] = SEEDS[:2]
    _check(values)
    configs = table_configs(values) if name == "table" else ()
    if printing:
        print_config({option: value for option, value in values.items() if value is not None})
    known = options_of(BenchOptions)
    options = {option: value for option, value in values.items() if option in known}
    return Given(values, BenchOptions(configs, RunOptions(), **options))


def _check(values: Mapping[str, Any]) -> None:
    for name in ("threads", "jobs"):
        if values.get(name) is not None:
            check_at_least(f"--{name}", values[name], 1)
    report, folder = values.get("report"), values.get("data_dir")
    if report is not None and report.suffix != ".md":
        raise InputError(f"--report is a page of Markdown, NAME.md, got {report}")
    for name in values["dataset"] or ():
        if domain_of({"dataset": (name,), "data_dir": folder}) == "images":
            raise InputError(
                f"--dataset: recipes exist for graphs only, and {name} is a set of images"
            )


def table_configs(values: Mapping[str, Any]) -> tuple[GraphConfig, ...]:
    """The configurations of the table, in the order to run them."""
    datasets = dict.fromkeys(map(canonical_name, values["dataset"]))
    methods = dict.fromkeys(GraphConfig(method=name).method for name in values["method"])
    protocols = dict.fromkeys(GraphConfig(protocol=name).protocol for name in values["protocol"])
    rows = entries([*datasets], [*methods], [*protocols], quick=values["quick"])
    return tuple(dict.fromkeys(config for row in rows for config in row.configs.values()))


def search(given: Given, command: str) -> int:
    """Search for a recipe, print what was chosen, write its page and configs."""
    options, console = given.bench, Console()
    runner = runner_of(options, UserParts(), console)
    asked = read_search(given.values["search"])
    if given.values["dataset"] is not None:
        asked = asked.on(given.values["dataset"])
    best: Path | None = given.values["best"]
    for folder in (best, options.report and options.report.absolute().parent):
        if folder is not None:
            check_writable(folder)
    if best is not None:
        check_folder(best, asked.datasets)
    failures: list[str] = []

    def run(runs: list[Run]) -> Mapping[Run, RunResult]:
        found, failed = runner.run(runs)
        failures.extend(failed)
        return found

    def has_edges(name: str) -> bool:
        if name in MANIFEST:  # finished scores need no data
            return not lacks_edge_labels(name)
        found: int | None = runner.data.load(asked.config(name, "untrained", {})).edge_dim
        return found is not None

    try:
        chosen = choose(asked, run, with_edges=has_edges)
    except InputError:
        raise
    except GclHardError as error:
        why = ["--report-only runs nothing: leave it out"] if options.report_only else failures
        raise GclHardError("\n".join([str(error), *why])) from error
    console.print("\n".join(page.in_short(chosen)), highlight=False)
    written: list[Path] = []
    if best is not None:
        written += write(chosen, best, command=command)
    if options.report is not None:
        written += page.write_search(chosen, options.report, command=command)
    if written:
        line = f"written: {', '.join(map(str, written))}"
        console.print(line, highlight=False, soft_wrap=True)
    return 0


def table(given: Given, command: str) -> int:
    """Run the table, print its first questions, write its page."""
    options, console = given.bench, Console()
    results, failures = execute(options, UserParts(), console)
    if results.records:
        written = [options.json or options.output / f"{_name(options)}.json"]
        write_json(result_json(results, quick=options.quick), written[0])
        if options.quick:
            console.print(SMOKE, style="bold yellow")
        made = page.RecipeTable(results, quick=options.quick)
        console.print(page.terminal(made), highlight=False)
        if options.report is not None:
            written += page.write(results, options.report, command=command, quick=options.quick)
        line = f"results: {', '.join(map(str, written))}"
        console.print(line, highlight=False, soft_wrap=True)
    elif not failures:
        console.print("no run of this command is finished: there is nothing to show")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 2 if failures else 0


def _name(options: BenchOptions) -> str:
    """Stem of the result file; with a digest if it holds a part of the table."""
    stem = "table-recipe" + "-quick" * options.quick
    whole = table_configs(option_defaults(TableOptions) | {"quick": options.quick})
    if {*options.configs} == {*whole}:
        return stem
    keys = "".join(config.key() for config in options.configs)
    return f"{stem}-{hashlib.sha256(keys.encode()).hexdigest()[:6]}"


COMMANDS = {"search": search, "table": table}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status."""
    name, *rest = (sys.argv[1:] if arguments is None else [*arguments]) or ["--help"]
    if name in ("--help", "-h"):
        print(__doc__)
        return 0

    def command() -> int:
        if name not in COMMANDS:
            raise unknown("command", name, COMMANDS)
        return COMMANDS[name](parse(name, rest), public_command(rest, f"benchmarks.recipe {name}"))

    return run_command(command, stopped=lambda: "stopped; the same command goes on")


if __name__ == "__main__":
    sys.exit(main())
