"""The command ``bench``: execute runs, then print, write and report what is finished."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gcl_hard.cli import BenchOptions, parse_bench, public_command
from gcl_hard.errors import GclHardError, InputError
from gcl_hard.experiments import hardware, processes
from gcl_hard.experiments.config import SELECTABLE, RunConfig, flag
from gcl_hard.experiments.custom import Own
from gcl_hard.experiments.domains import canonical
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.runner import Runner, follow
from gcl_hard.experiments.runs import Run, candidate_groups, plan
from gcl_hard.experiments.store import RunResult, Store, check_writable, write_json
from gcl_hard.gathering import world_size

if TYPE_CHECKING:
    from rich.console import Console

    from gcl_hard.reports.frame import Results

PROTOCOLS = {
    "transductive": (
        "protocol transductive, the paper's: encoders see all graphs, so accuracies compare with "
        "the paper's; --protocol inductive estimates the accuracy on new graphs"
    ),
    "inductive": (
        "protocol inductive: encoders see training graphs alone, which estimates the accuracy on "
        "new graphs; --protocol transductive is the paper's"
    ),
}
MOST_NAMED, LONGEST = 3, 60
"""Settings and characters that the name of a result file has at most."""
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
        GclHardError: if a search lacks a score because its training failed.
    """
    import sys

    from rich.console import Console

    console, command = Console(), public_command(arguments)
    if options.compact is not None:
        n = Store(options.compact).compact()
        console.print(f"{n} results in {options.compact / 'runs.jsonl'}", highlight=False)
        return 0
    device = hardware.choose_device(options.device)
    with processes.joined(device) as drives:
        if not drives:
            follow(processes.own_device(device))
            return 0
        if options.search is not None:
            _search(options, _runner(options, Own(), console), command)
            return 0
        results, failures = execute(options, Own(), console)
    if results.records or results.trials.records:
        _show(options, results, console, command)
    elif not failures:
        console.print("no run of this command is finished: there is nothing to show")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 2 if failures else 0


def execute(options: BenchOptions, own: Own, console: Console) -> tuple[Results, list[str]]:
    """Execute the runs of a command that are not finished.

    Args:
        options: which.
        own: encoders and graphs of the user's own; those that options name are added.
        console: console for progress.

    Returns:
        Results of finished runs, and a message for every run that failed.

    Raises:
        InputError: for anything wrong with data, device or folders, before training starts.
    """
    from gcl_hard.reports.frame import Results, Trials

    _check_targets(options)
    resolved = map(own.resolved, options.configs)
    configs = [one if one.dataset in own.graphs else canonical(one) for one in resolved]
    configs = list(dict.fromkeys(configs))
    if options.select and options.table is None:  # a part of a table may have no choice
        _check_selection(configs)
    console.print("\n".join(protocol_lines(configs)), style="dim", highlight=False)
    runner, trials, first_failures = _runner(options, own, console), Trials(), list[str]()
    if options.select_epochs or options.select_subset:
        shorter = _shorter_runs(options, configs)
        tried, first_failures = runner.run([*shorter.values()])
        trials = Trials(shorter, tried)
        configs = [c for c in configs if c not in shorter or c in trials.chosen]
    select = options.select and not trials.runs
    found, failures = runner.run(plan(configs, options.seeds, select=select))
    results = Results(configs, tuple(options.seeds), found, select=select, trials=trials)
    return results, first_failures + failures


def _shorter_runs(options: BenchOptions, configs: Sequence[RunConfig]) -> dict[RunConfig, Run]:
    """The run by which each candidate is compared, on the first seed."""
    asked = {"epochs": options.select_epochs, "subset": options.select_subset}
    changed: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    return {
        config: Run(replace(config, **changed), options.seeds[0], inner=True)
        for group in candidate_groups(configs)
        for config in group
    }


def protocol_lines(configs: Sequence[RunConfig]) -> list[str]:
    """What each protocol of a command measures, and what the other one is for."""
    trained = [config.protocol for config in configs if not config.is_baseline]
    return [PROTOCOLS[name] for name in dict.fromkeys(trained) if name in PROTOCOLS]


def _runner(options: BenchOptions, own: Own, console: Console) -> Runner:
    context = RunContext(
        output=options.output,
        data_dir=options.data_dir,
        device=str(hardware.choose_device(options.device)),
        threads=options.threads,
        cores=max(1, hardware.available_cores() // processes.here()),
        versions=hardware.versions(),  # of the source as it is now, not when a run ends
        options=options.run,
        parts=own.parts,
        processes=world_size(),
    )
    return Runner(
        context, console, jobs=options.jobs, scheduler=options.scheduler, force=options.force,
        report_only=options.report_only, graphs=own.graphs,
    )  # fmt: skip


def _check_selection(configs: Sequence[RunConfig]) -> None:
    """Refuse a selection that would choose nothing."""
    if candidate_groups(configs):
        return
    if not any(config.can_select for config in configs):
        protocols = ", ".join(dict.fromkeys(config.protocol for config in configs))
        raise InputError(
            f"select chooses settings inside training folds, and protocol {protocols} has none: "
            f"use --protocol inductive, or leave --select out"
        )
    raise InputError(
        f"select chooses between values, and every setting has one: give several, of "
        f"{', '.join(map(flag, SELECTABLE))}, or leave --select out"
    )


def _check_targets(options: BenchOptions) -> None:
    """Check that output paths are writable before the runs begin."""
    if options.json is not None:
        check_writable(options.json.absolute().parent)
        if options.json.is_dir():
            raise InputError(f"json must be a file, got the folder {options.json}")
    if options.report is not None:
        from gcl_hard.reports.page import check_target

        check_writable(options.report.absolute().parent)
        check_target(options.report, quick=options.quick)


def _show(options: BenchOptions, results: Results, console: Console, command: str) -> None:
    """Write the result file, print the table, write the page."""
    from gcl_hard.reports import frame, tables
    from gcl_hard.reports.rows import rows

    asked = [*dict.fromkeys((*results.configs, *results.trials.runs))]
    path = options.json or options.output / f"{_name(options, asked)}.json"
    write_json(frame.result_json(results, quick=options.quick), path)
    if options.quick:
        console.print(SMOKE, style="bold yellow")
    written = [path]
    if options.table == "recipe":
        from gcl_hard.reports import recipe

        table = recipe.RecipeTable(results, quick=options.quick)
        console.print(recipe.terminal(table), highlight=False)
    else:
        console.print(tables.terminal(rows(results)))
    if options.report is not None:
        if options.table == "recipe":
            from gcl_hard.reports.recipe import write
        else:
            from gcl_hard.reports.page import write
        written += write(results, options.report, command=command, quick=options.quick)
    line = f"results: {', '.join(map(str, written))}"
    console.print(line, highlight=False, soft_wrap=True)


def _name(options: BenchOptions, configs: Sequence[RunConfig]) -> str:
    """Stem of a command's result file: data sets, methods, protocols, and settings that differ.

    Of many settings there is a digest, so that two experiments have two files.
    """
    digest = hashlib.sha256("".join(c.key() for c in configs).encode()).hexdigest()[:6]
    if options.table:
        kinds = ["quick"] * options.quick + ["small"] * options.small
        whole = parse_bench([f"--table={options.table}", *(f"--{kind}" for kind in kinds)])
        stem = "-".join(["table", options.table, *kinds])
        return stem if set(configs) == set(whole.configs) else f"{stem}-{digest}"
    named = ("dataset", "method", "protocol")
    parts = ["+".join(dict.fromkeys(getattr(c, n) for c in configs)) for n in named]
    stated = [one.stated() for one in configs]
    names = sorted({name for one in stated for name in one})
    values = {n: dict.fromkeys(_value(one[n]) for one in stated if n in one) for n in names}
    text = "_".join(f"{name}={'+'.join(several)}" for name, several in values.items())
    if names:
        parts.append(text if len(names) <= MOST_NAMED and len(text) <= LONGEST else digest)
    return "_".join(parts)


def _value(given: Any) -> str:
    """A value of a setting, as a part of a file's name."""
    text = "-".join(map(_value, given)) if isinstance(given, tuple) else f"{given}"
    text = f"{given:g}" if isinstance(given, float) else text
    return re.sub(r"[^\w.+@-]", "-", text)


def _search(options: BenchOptions, runner: Runner, command: str) -> None:
    """Search for a recipe, print what was chosen, write its page and configs."""
    from gcl_hard.experiments.ablations import check_folder, choose, read_search, write
    from gcl_hard.graphs.tudataset import MANIFEST, lacks_edge_labels
    from gcl_hard.reports import recipe

    assert options.search is not None
    search = read_search(options.search)
    if options.datasets is not None:
        search = search.on(options.datasets)
    for folder in (options.best, options.report and options.report.absolute().parent):
        if folder is not None:
            check_writable(folder)
    if options.best is not None:
        check_folder(options.best, search.datasets)
    failures: list[str] = []

    def execute(runs: list[Run]) -> Mapping[Run, RunResult]:
        found, failed = runner.run(runs)
        failures.extend(failed)
        return found

    def has_edges(name: str) -> bool:
        if name in MANIFEST:  # finished scores need no data
            return not lacks_edge_labels(name)
        found: int | None = runner.data.load(search.config(name, "untrained", {})).edge_dim
        return found is not None

    try:
        chosen = choose(search, execute, with_edges=has_edges)
    except InputError:
        raise
    except GclHardError as error:
        why = ["--report-only runs nothing: leave it out"] if options.report_only else failures
        raise GclHardError("\n".join([str(error), *why])) from error
    runner.console.print("\n".join(recipe.in_short(chosen)), highlight=False)
    written: list[Path] = []
    if options.best is not None:
        written += write(chosen, options.best, command=command)
    if options.report is not None:
        written += recipe.write_search(chosen, options.report, command=command)
    if written:
        line = f"written: {', '.join(map(str, written))}"
        runner.console.print(line, highlight=False, soft_wrap=True)
