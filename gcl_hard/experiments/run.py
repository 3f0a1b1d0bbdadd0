"""Run the cells of a command, seed by seed; what is finished is read, not run again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gcl_hard.errors import InputError
from gcl_hard.experiments import machine, records
from gcl_hard.experiments.backends import backend_of
from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.groups import Group, groups
from gcl_hard.experiments.jobs import Job, plan
from gcl_hard.experiments.options import BenchOptions, parse_bench
from gcl_hard.experiments.place import checkpoint_of
from gcl_hard.experiments.progress import progress
from gcl_hard.experiments.results import Results, result_json
from gcl_hard.experiments.scorers import in_turn
from gcl_hard.experiments.seed_score import OnEpoch
from gcl_hard.experiments.work import Done, Setting, Worker, claim

if TYPE_CHECKING:
    from rich.console import Console


@dataclass
class Outcome:
    """What a command came to.

    Attributes:
        results: what is finished, and what is open.
        failures: a message for every seed that could not be finished.
        path: where the result file was written, None without results.
    """

    results: Results
    failures: list[str] = field(default_factory=list)
    path: str | None = None


def run(options: BenchOptions, console: Console) -> Outcome:
    """Run what is not finished, save every seed at once, and put the result file together.

    Args:
        options: as parsed.
        console: where progress goes.

    Returns:
        The outcome; a seed that fails is reported there and does not stop the others.

    Raises:
        InputError: for anything wrong with data, device or folders, before training starts.
    """
    cells = list(
        dict.fromkeys(
            c.with_dataset(backend_of(c).canonical_name(c.dataset)) for c in options.cells
        )
    )
    jobs = plan(cells, options.seeds, select=options.select)
    found, failures = do(jobs, options, console)
    results = Results(cells, tuple(options.seeds), found, select=options.select)
    path = None
    if found:
        path = options.json or options.output / f"{_name(options, cells)}.json"
        records.write_json(result_json(results, quick=options.quick), path)
    return Outcome(results, failures, None if path is None else str(path))


def do(
    jobs: list[Job], options: BenchOptions, console: Console
) -> tuple[dict[Job, records.Record], list[str]]:
    """Find the records of jobs, and make those that are not there.

    Args:
        jobs: without repeats, data sets spelt canonically.
        options: as parsed; their cells are not read.
        console: where progress goes.

    Returns:
        Records, and a message for every job that could not be finished.

    Raises:
        InputError: as :func:`run`.
    """
    if options.report_only:  # whatever data are at hand
        return _finished(jobs, options, console, records.load), []
    worker = Worker(_setting(options))
    found = _finished(jobs, options, console, lambda _, job: worker.finished(job))
    pending = [job for job in jobs if job not in found]
    if not pending:
        return found, []
    _check(options, pending, worker)
    together = groups(jobs, members=options.running.members, device=worker.setting.device)
    new, failures = _work(options, together, pending, worker, console)
    return found | new, failures


def _setting(options: BenchOptions) -> Setting:
    return Setting(
        output=options.output,
        data_dir=options.data_dir,
        device=str(machine.choose_device(options.device)),
        threads=options.threads,
        cores=machine.available_cores(),
        versions=machine.versions(),  # of the source as it is now, not when a seed ends
        since=datetime.now(UTC).isoformat(timespec="seconds") if options.force else "",
        running=options.running,
    )


def _finished(
    jobs: list[Job],
    options: BenchOptions,
    console: Console,
    read: Callable[[Path, Job], records.Record | None],
) -> dict[Job, records.Record]:
    """What need not be run; says what is there and cannot be used."""
    found, faults = {}, []
    for job in jobs:
        path = options.output / job.file_name
        record = read(path, job)
        if record is not None:
            found[job] = record
        elif path.exists():
            known, every = records.load(path, job), options.running.diagnostics
            lacking = known is not None and records.lacks(known, every)
            why = f"lacks diagnostics every {every} epochs" if lacking else records.fault(path)
            faults.append(f"{path.name} {why}")
    if faults and not options.force:
        shown = "; ".join(faults[:3]) + ("; …" if len(faults) > 3 else "")
        what = "left out" if options.report_only else "run again"
        console.print(f"{what}: {shown}", style="yellow", highlight=False)
    if found or options.report_only:
        console.print(f"{len(found)} of {len(jobs)} seeds were finished before", style="dim")
    return found


def _check(options: BenchOptions, pending: list[Job], worker: Worker) -> None:
    """Refuse before training what can be known before training."""
    from gcl_hard.experiments.reporting.page import check_target

    device = torch.device(worker.setting.device)
    for cell, inner in dict.fromkeys((job.cell, job.inner) for job in pending):
        backend_of(cell).check(cell, worker.data.of(cell), inner=inner, device=device)
    records.check_writable(options.output)
    if options.json is not None:
        records.check_writable(options.json.absolute().parent)
        if options.json.is_dir():
            raise InputError(f"json must be a file, got the folder {options.json}")
    if options.report is not None:
        records.check_writable(options.report.absolute().parent)
        check_target(options.report, quick=options.quick)
    _check_checkpoints(options, pending)


def _check_checkpoints(options: BenchOptions, pending: list[Job]) -> None:
    """Hours of training are neither gone on with nor thrown away unasked."""
    if options.running.resume:
        return
    paths = [checkpoint_of(options.output / job.file_name) for job in pending]
    found = [path for path in paths if path.exists()]
    if found and options.force:
        for path in found:
            path.unlink()
    elif found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise InputError(
            f"{found[0]}{more} is a checkpoint of what this command trains: --resume goes on from "
            f"it, --force starts over"
        )


def _work(
    options: BenchOptions, plan: list[Group], pending: list[Job], worker: Worker, console: Console
) -> tuple[dict[Job, records.Record], list[str]]:
    """Do the groups in which a job is pending; what another process does is waited for."""
    on_cpu = worker.setting.device == "cpu"
    n = options.jobs or (worker.setting.cores if on_cpu else 1)
    costs = {job: job.cost(worker.data.size(job.cell)) for job in pending}
    found: dict[Job, records.Record] = {}
    failures: list[str] = []
    elsewhere: list[Job] = []
    together = _with(pending, plan)
    n = min(n, len(together))
    lines = sum(sorted(len(costs.keys() & group) for group in together)[-n:])
    with progress(console, costs, lines=lines) as bars:

        def started(job: Job) -> OnEpoch:
            return bars.started(job) if job in pending else lambda *_: None

        while pending:
            for done in _do(together, worker, n, started):
                if done.job not in pending:  # finished before, and trained along
                    continue
                if done.record is not None:
                    found[done.job] = done.record
                    console.print(_line(done.job, done.record), highlight=False)
                elif done.failure is not None:
                    failures.append(done.failure)
                    console.print(f"failed: {done.failure.splitlines()[0]}", style="red")
                else:
                    elsewhere.append(done.job)
                bars.ended(done.job, for_good=done.job not in elsewhere)
            if elsewhere:
                waits = f"waiting for another command to end {len(elsewhere)} seeds"
                console.print(waits, style="dim", highlight=False)
            pending = _freed(elsewhere, worker)
            elsewhere = [job for job in elsewhere if job not in pending]
            together = _with(pending, plan)
    return found, list(dict.fromkeys(failures))


def _with(pending: list[Job], plan: list[Group]) -> list[Group]:
    """The groups in which a job is pending."""
    missing = set(pending)
    return [group for group in plan if not missing.isdisjoint(group)]


def _do(
    together: list[Group], worker: Worker, n_processes: int, started: Callable[[Job], OnEpoch]
) -> Iterator[Done]:
    if n_processes == 1:
        scorers = _scorers(worker, len(together))
        cores, threads = worker.setting.cores, worker.setting.threads
        beside = copy(worker)  # with the same data
        beside.setting = replace(
            worker.setting,
            cores=cores - scorers,
            threads=None if threads is None else max(1, threads - scorers),
        )
        return in_turn(together, beside, started, scorers=scorers)
    from gcl_hard.experiments.workers import in_processes

    cores, threads = worker.setting.cores, worker.setting.threads
    share = replace(
        worker.setting,
        cores=max(1, cores // n_processes),
        threads=None if threads is None else max(1, threads // n_processes),
    )
    return in_processes(together, share, n_processes, started)


def _scorers(worker: Worker, n_groups: int) -> int:
    """Processes beside the one that trains: where there is more to train, or a GPU trains."""
    free = min(worker.setting.threads or worker.setting.cores, worker.setting.cores) - 1
    return max(0, free) if n_groups > 1 or worker.setting.device != "cpu" else 0


def _freed(jobs: list[Job], worker: Worker) -> list[Job]:
    """Wait until other processes have ended some jobs; their records are then found, or made."""
    while jobs:
        freed = [job for job in jobs if _free(worker.setting.output / job.file_name)]
        if freed:
            return freed
        time.sleep(1.0)
    return []


def _free(path: Path) -> bool:
    with claim(path) as mine:
        return mine


def _line(job: Job, record: records.Record) -> str:
    mean = sum(record.fold_accuracies) / len(record.fold_accuracies)
    seconds = record.seconds_train + record.seconds_eval
    return f"{job}: {mean:.1f} % ({seconds:.0f} s)"


def _name(options: BenchOptions, cells: list[Cell]) -> str:
    """What a command's result file is called: its data sets, methods and protocols.

    And, where other settings are not the default, a digest: two experiments have two files.
    """
    digest = hashlib.sha256("".join(c.key() for c in cells).encode()).hexdigest()[:6]
    if options.table:
        whole = parse_bench([f"--table={options.table}", *["--quick"] * options.quick])
        stem = f"table-{options.table}" + "-quick" * options.quick
        return stem if set(cells) == set(whole.cells) else f"{stem}-{digest}"
    named = ("dataset", "method", "protocol")
    parts = ["+".join(dict.fromkeys(getattr(c, n) for c in cells)) for n in named]
    if any(c.changed().keys() - set(named) for c in cells):
        parts.append(digest)
    return "_".join(parts)
