"""Execution of the runs of ``bench`` and ``evaluate``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gcl_hard.commands.options import BenchOptions, shortened
from gcl_hard.errors import InputError
from gcl_hard.evaluation.metrics import alike, metric
from gcl_hard.experiments import hardware, processes
from gcl_hard.experiments.choice import choices
from gcl_hard.experiments.custom import UserParts
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.logs import Logger, opened_log
from gcl_hard.experiments.plan import candidate_groups, inner_run, plan
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.registry import canonical, experiment_of, runnable
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.runner import Runner
from gcl_hard.experiments.settings import RunConfig, flag, selectable
from gcl_hard.files.io import check_writable
from gcl_hard.losses.gathering import world_size

if TYPE_CHECKING:
    from rich.console import Console

    from gcl_hard.reports.frame import Results


def execute(
    options: BenchOptions, user_parts: UserParts, console: Console, logger: Logger | None = None
) -> tuple[Results, list[str]]:
    """Execute the runs of a command that are not finished.

    Args:
        options: options of the command.
        user_parts: the user's own encoders and graphs; those that options name are added.
        console: console for progress.
        logger: the user's own, which takes losses and scores as they come.

    Returns:
        Results of finished runs, and a message for every run that failed.

    Raises:
        InputError: for anything wrong with data, device or folders, before training starts.
    """
    _check_targets(options)
    for name in options.metric or ():
        metric(name)  # refuses an unknown one
    resolved = map(user_parts.resolved, options.configs)
    configs = [c if c.dataset in user_parts.graphs else canonical(c) for c in resolved]
    configs = list(dict.fromkeys(configs))
    if options.select and options.table is None:  # a part of a table may have no choice
        _check_selection(configs)
    console.print("\n".join(protocol_lines(configs)), style="dim", highlight=False)
    context = RunContext(
        options.output, options.data_dir, str(hardware.choose_device(options.device)),
        options.threads, cores=max(1, hardware.available_cores() // processes.here()),
        versions=hardware.versions(),  # with the source as it is now, not when a run ends
        experiment_of=runnable, options=options.run, parts=user_parts.parts,
        processes=world_size(),
    )  # fmt: skip
    with opened_log(options.log or (), options.output, logger) as log:
        runner = Runner(
            context, console, jobs=options.jobs, scheduler=options.scheduler, force=options.force,
            report_only=options.report_only, own_sets=user_parts.graphs, log=log,
        )  # fmt: skip
        return _execute(options, configs, user_parts, runner)


def _execute(
    options: BenchOptions, configs: list[RunConfig], user_parts: UserParts, runner: Runner
) -> tuple[Results, list[str]]:
    from gcl_hard.reports.frame import Results

    shorter = dict[RunConfig, Run]()
    tried, first_failures = dict[Run, RunResult](), list[str]()
    if shortened(vars(options)) or (
        options.select and any(experiment_of(c).chooses_once for c in configs)
    ):
        shorter = _shorter_runs(options, configs)
        tried, first_failures = _run(runner, user_parts, [*shorter.values()])
        tried, *_ = _by_metrics(tried, options.metric, chosen=True)
        chosen = {choice.best for choice in choices(shorter, tried)}
        configs = [c for c in configs if c not in shorter or c in chosen]
    select = options.select and not shorter
    records, failures = _run(runner, user_parts, plan(configs, options.seeds, select=select))
    first, *further = _by_metrics(records, options.metric, chosen=select)
    results = Results(
        configs, tuple(options.seeds), tried | first, select, shorter, options.control,
        further=tuple(tried | scored for scored in further),
    )  # fmt: skip
    return results, first_failures + failures


def _run(
    runner: Runner, user_parts: UserParts, runs: Sequence[Run]
) -> tuple[dict[Run, RunResult], list[str]]:
    """Results by the runs asked for, each with the file of its seed; and failures."""
    stored = {run: user_parts.resolved_run(run) for run in runs}
    records, failures = runner.run([*dict.fromkeys(stored.values())])
    return {run: records[key] for run, key in stored.items() if key in records}, failures


def _by_metrics(
    records: dict[Run, RunResult], names: Sequence[str] | None, *, chosen: bool
) -> list[dict[Run, RunResult]]:
    """Results by each metric, or by their own and those shown beside it.

    Raises:
        InputError: for a metric that no result has.
    """
    if not records:
        return [records] * len(names or (None,))

    def scored_by(name: str, *, recorded: bool) -> dict[Run, RunResult]:
        known = (run for run, record in records.items() if not recorded or name in record.scores)
        scored = {run: records[run].by(name) for run in known}
        return {run: record for run, record in scored.items() if record is not None}

    if not names:
        beside = dict.fromkeys(
            name for run in records for name in experiment_of(run.config).further_metrics
        )
        return [records, *filter(None, (scored_by(name, recorded=True) for name in beside))]
    other = next((record for record in records.values() if record.metric != names[0]), None)
    if chosen and other is not None and any(record.validation for record in records.values()):
        raise InputError(
            f"settings of {other.domain} are chosen by validation scores, which are recorded by "
            f"{other.metric} alone: leave --metric {names[0]} or --select out"
        )
    by_name = [scored_by(name, recorded=False) for name in names]
    known = dict.fromkeys(other for record in records.values() for other in alike(record.metric))
    for name, scored_runs in zip(names, by_name, strict=True):
        if not scored_runs and name not in known:
            raise InputError(
                f"these runs predict what is scored by {', '.join(known)}, and not by {name}"
            )
        lacking = [run for run in records if run not in scored_runs]
        if lacking:
            warnings.warn(
                f"{len(lacking)} of {len(records)} results have no score by {name}, such as "
                f"{lacking[0]}: they are left out (--force runs them again)",
                stacklevel=2,
            )
    return by_name


def _shorter_runs(options: BenchOptions, configs: Sequence[RunConfig]) -> dict[RunConfig, Run]:
    """The short run on its first seed by which each candidate is compared."""
    changed = shortened(vars(options))
    return {
        config: inner_run(
            replace(config, **changed), experiment_of(config).seeds_used(config, options.seeds)[0]
        )
        for group in candidate_groups(configs)
        for config in group
    }


def protocol_lines(configs: Sequence[RunConfig]) -> list[str]:
    """Notes on what each protocol of a command measures, and what the other one is for."""
    notes = (experiment_of(c).protocol_notes.get(c.protocol) for c in configs if not c.is_baseline)
    return [note for note in dict.fromkeys(notes) if note]


def _check_selection(configs: Sequence[RunConfig]) -> None:
    """Refuse a selection without anything to choose."""
    if candidate_groups(configs):
        return
    names = dict.fromkeys(name for config in configs for name in selectable(type(config)))
    protocols = dict.fromkeys(config.protocol for config in configs)
    raise InputError(
        f"select chooses between several values of {', '.join(map(flag, names))} inside training "
        f"folds (--protocol inductive), and there is nothing to choose under {', '.join(protocols)}"
    )


def _check_targets(options: BenchOptions) -> None:
    """Check that output paths are writable before the runs begin."""
    if options.json is not None:
        check_writable(options.json.absolute().parent)
        if options.json.is_dir():
            raise InputError(f"json must be a file, got the folder {options.json}")
    if options.report is not None:
        from gcl_hard.reports.rendering import check_target

        check_writable(options.report.absolute().parent)
        check_target(options.report, quick=options.quick)
