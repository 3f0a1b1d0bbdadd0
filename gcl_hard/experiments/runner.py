"""The runner: find finished runs, train and score the others, store every result at once."""

from __future__ import annotations

import math
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.errors import DivergenceError, GclHardError, InputError, OutOfMemory
from gcl_hard.experiments import hardware, processes
from gcl_hard.experiments.config import RunConfig
from gcl_hard.experiments.domains import DataSets, experiment_of
from gcl_hard.experiments.engine import Engine, Task, engine, work_through
from gcl_hard.experiments.experiment import EMBEDDINGS, RunContext, TrainedRun
from gcl_hard.experiments.runs import Run, groups_of
from gcl_hard.experiments.store import RunResult, Store, all_locked, check_writable
from gcl_hard.gathering import world_size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from gcl_hard.experiments.diagnostics import Points
    from gcl_hard.graphs import GraphSet

MOST_BARS = 4
"""Maximum number of runs with a progress bar of their own."""


class Outcome(NamedTuple):
    """The result of a run, or why there is none."""

    result: RunResult | None = None
    points: Points | None = None
    encoders: dict[str, Any] | None = None
    embeddings: dict[str, NDArray[Any]] | None = None
    failure: str | None = None
    diverged: bool = False


@dataclass
class Runner:
    """Runs a plan, except for what is finished.

    Attributes:
        context: where and how runs are executed.
        console: console for progress.
        jobs: processes, None for one per core.
        scheduler: address of a Dask scheduler, or None.
        force: whether finished runs are repeated.
        report_only: whether nothing is run.
        graphs: sets of the user's own, by name.
    """

    context: RunContext
    console: Console
    jobs: int | None = 1
    scheduler: str | None = None
    force: bool = False
    report_only: bool = False
    graphs: Mapping[str, GraphSet] = field(default_factory=dict)
    _before: dict[Run, RunResult | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.context.output, processes=self.context.processes)
        self.data = data_sets(self.context)

    def run(self, runs: Sequence[Run]) -> tuple[dict[Run, RunResult], list[str]]:
        """Load the results of finished runs, and execute the others.

        Args:
            runs: the whole plan, without repeats, data sets by their canonical names. Ensembles
                are cut from it, so that their numbers do not depend on what is finished.

        Returns:
            Results, and a message for every run that failed; a failure does not stop the others.

        Raises:
            InputError: for anything wrong with data, device or folders, before training.
        """
        results = self._finished(runs)
        pending = [run for run in runs if run not in results]
        if self.report_only or not pending:
            return results, []
        self._check_processes(pending)
        advice: dict[str | None, None] = {}
        for config, inner in dict.fromkeys((run.config, run.inner) for run in pending):
            data = self.data.load(config, self.own(config))
            experiment_of(config).check(config, data, self.context, inner=inner)
            advice[experiment_of(config).advice(config, data)] = None
        for line in filter(None, advice):
            self.console.print(line, style="yellow", highlight=False)
        check_writable(self.context.output)
        self._check_checkpoints(pending)
        size, device = self.context.options.ensemble_size, self.context.device
        groups = [
            group for group in groups_of(runs, size=size, device=device) if {*group} & {*pending}
        ]
        try:
            found, failures = self._execute(groups, pending)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._left(pending)) from None
        results |= found
        return {run: results[run] for run in runs if run in results}, failures

    def _check_processes(self, pending: Sequence[Run]) -> None:
        """Refuse what several processes cannot train together."""
        if world_size() == 1:
            return
        if self.jobs != 1 or self.scheduler is not None:
            raise InputError("torchrun starts the processes: leave --jobs and --scheduler out")
        if any(run.config.domain != "images" for run in pending):
            raise InputError(
                "processes of torchrun train image encoders together: graphs are trained side by "
                "side, with --jobs N or --scheduler"
            )

    def _left(self, pending: Sequence[Run]) -> str:
        """What an interrupted command leaves: saved runs, checkpoints, and what begins again."""
        # Read anew: workers may have ended runs since.
        open_runs = [run for run in pending if self.stored(run) is None]
        saved = sum(self.context.checkpoint(run).exists() for run in open_runs)
        parts = [f"stopped; {len(pending) - len(open_runs)} of {len(pending)} runs are finished"]
        if saved:
            parts.append(f"{saved} saved in checkpoints: the same command continues with --resume")
        if again := len(open_runs) - saved:
            parts.append(f"{again} not: the same command continues, and begins those anew")
        return ", ".join(parts)

    def _finished(self, runs: Sequence[Run]) -> dict[Run, RunResult]:
        """Stored results of runs; reports unusable files."""
        results, problems = {}, []
        for run in runs:
            if (result := self.stored(run)) is not None:
                results[run] = result
            elif (problem := self.store.problem(run)) is not None:
                problems.append(problem)
        if problems and not self.force:
            shown = "; ".join(problems[:3]) + ("; …" if len(problems) > 3 else "")
            what = "left out" if self.report_only else "run again"
            self.console.print(f"{what}: {shown}", style="yellow", highlight=False)
        if results or (self.report_only and runs):
            line = f"{len(results)} of {len(runs)} runs were finished before"
            self.console.print(line, style="dim")
        return results

    def stored(self, run: Run) -> RunResult | None:
        """The stored result of a run, if it matches the data and is recent enough."""
        result = self.store.get(run)
        before = self._before.setdefault(run, result)  # not by the clock, which may be set
        if result is None or self.report_only:
            return result
        if self.force and result == before:
            return None
        if result.lacks_snapshots(self.context.options.diagnostics):
            return None
        if not all(self.context.file(run, suffix).exists() for suffix in self.context.saves(run)):
            return None
        facts = self.data.facts(run.config, self.own(run.config))
        made = dict(result.data)
        made.pop("processes", None)
        return result if {**facts, **made} == facts else None

    def own(self, config: RunConfig) -> GraphSet | None:
        """The user's own set of a configuration, None for a named one."""
        return self.graphs.get(config.dataset)

    def _check_checkpoints(self, pending: Sequence[Run]) -> None:
        """Refuse to resume or overwrite checkpoints without a flag."""
        if self.context.options.resume:
            return
        found = [path for run in pending if (path := self.context.checkpoint(run)).exists()]
        if found and self.force:
            for path in found:
                path.unlink()
        elif found:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise InputError(
                f"{found[0]}{more} is a checkpoint of what this command trains: --resume continues "
                f"from it, --force starts over"
            )

    def _execute(
        self, groups: Sequence[tuple[Run, ...]], pending: Sequence[Run]
    ) -> tuple[dict[Run, RunResult], list[str]]:
        on_cpu = self.context.device == "cpu"
        jobs = self.jobs or (self.context.cores if on_cpu else 1)
        jobs = min(jobs, len(groups)) if self.scheduler is None else jobs
        sizes = {run: self.data.size(run.config, self.own(run.config)) for run in pending}
        costs = {run: run.cost(size) for run, size in sizes.items()}
        scoring = {run: run.config.cost(size)[1] for run, size in sizes.items()}
        context = share_of(self.context, jobs if self.scheduler is None else self.context.cores)
        with progress(self.console) as shown:
            bars = Bars(shown, costs, scoring)
            with engine(jobs, self.scheduler, bars.report) as workers:
                execution = _Execution(self, workers, context, bars, {*pending})
                execution.run(groups)
        return execution.results, list(dict.fromkeys(execution.failures))


def share_of(context: RunContext, processes: int) -> RunContext:
    """The context of one of several processes on this machine."""
    threads = context.threads
    return replace(
        context,
        cores=max(1, context.cores // processes),
        threads=None if threads is None else max(1, threads // processes),
    )


class _Group(NamedTuple):
    """A group, with the locks of its runs that are to be stored."""

    runs: tuple[Run, ...]
    locks: dict[Run, ExitStack]


@dataclass(eq=False)
class _Execution:
    """Executes the groups of a command."""

    runner: Runner
    workers: Engine
    context: RunContext
    bars: Bars
    pending: set[Run]
    results: dict[Run, RunResult] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _sets: dict[str, Task] = field(default_factory=dict)
    _training: dict[Task, _Group] = field(default_factory=dict)
    _scoring: dict[Task, tuple[Run, _Group]] = field(default_factory=dict)

    def run(self, groups: Sequence[tuple[Run, ...]]) -> None:
        """Execute groups, and wait for those that another command works on."""
        try:
            work_through(
                self.workers, groups, begin=self._begin, ended=self._ended,
                running=lambda: len(self._training), elsewhere=self._elsewhere,
            )  # fmt: skip
        finally:
            for group in (*self._training.values(), *(g for _, g in self._scoring.values())):
                for lock in group.locks.values():
                    lock.close()

    def _ended(self, task: Task) -> None:
        if task in self._training:
            self._trained(task)
        elif task in self._scoring:
            self._scored(task)

    def _elsewhere(self, groups: Sequence[tuple[Run, ...]]) -> None:
        line = f"waiting for another command to end {sum(map(len, groups))} runs"
        self.runner.console.print(line, style="dim", highlight=False)

    def _begin(self, runs: tuple[Run, ...]) -> bool:
        """Submit a group; False if another command is at one of its runs."""
        locks = all_locked(
            [run for run in runs if run in self.pending], self.runner.store.lock
        )  # fmt: skip
        if locks is None:
            return False
        group = _Group(runs, locks)
        for run in [*locks]:  # another command may have ended it meanwhile
            if (result := self.runner.stored(run)) is not None:
                self._end(group, run, Outcome(result), new=False)
        if locks:
            self._train(group)
        return True

    def _train(self, group: _Group) -> None:
        for run in group.locks:
            self.bars.started(run)
        own = self._own(group.runs[0])
        task = self.workers.submit(train_group, self.context, group.runs, own, remote=True)
        self._training[task] = group

    def _own(self, run: Run) -> Task | None:
        """The user's own set of a run, which each worker gets once."""
        name, graphs = run.config.dataset, self.runner.own(run.config)
        if graphs is not None and name not in self._sets:
            self._sets[name] = self.workers.submit(share_graphs, graphs, remote=True)
        return self._sets.get(name)

    def _trained(self, task: Task) -> None:
        group = self._training.pop(task)
        try:
            task.result()
        except Exception as error:
            self._failed(group, error)
            return
        for run in group.locks:
            number = group.runs.index(run)
            scored = self.workers.submit(
                score_run, self.context, task, number, self._own(run), urgent=True
            )
            self._scoring[scored] = run, group

    def _failed(self, group: _Group, error: Exception) -> None:
        """Train the runs of a failed group one by one; record the failure of a single run."""
        if len(group.locks) > 1 and not isinstance(error, OutOfMemory):
            for run, lock in group.locks.items():
                self._train(_Group((run,), {run: lock}))
            return
        for run in [*group.locks]:
            self._end(group, run, Outcome(failure=failure_message(run, error)))

    def _scored(self, task: Task) -> None:
        run, group = self._scoring.pop(task)
        try:
            outcome = task.result()
        except Exception as error:
            outcome = Outcome(failure=failure_message(run, error))
        self._end(group, run, outcome)

    def _end(self, group: _Group, run: Run, outcome: Outcome, *, new: bool = True) -> None:
        """Store a result or record a failure; other commands may then train the run."""
        result, failure = outcome.result, outcome.failure
        if new and result is not None:
            self.runner.store.put_arrays(run, outcome.points)
            self.runner.store.put_encoders(run, outcome.encoders)
            self.runner.store.put_arrays(run, outcome.embeddings, EMBEDDINGS)
            self.runner.store.put(run, result)
        if failure is None or outcome.diverged:  # resuming would diverge again
            self.runner.context.checkpoint(run).unlink(missing_ok=True)
        if failure is not None:
            self.failures.append(failure)
            line = f"failed: {failure.splitlines()[0]}"
            self.runner.console.print(line, style="red", highlight=False)
        elif result is not None:
            self.results[run] = result
            if new:
                self.runner.console.print(_line(run, result), highlight=False)
        self.pending.discard(run)
        self.bars.ended(run)
        group.locks.pop(run).close()


def failure_message(
    run: object, error: Exception, remedy: str = "fewer --jobs or a smaller --ensemble-size"
) -> str:
    """Message about a run that failed; the remedy is for workers that ran out of memory."""
    if isinstance(error, GclHardError):
        return str(error)
    if type(error).__name__ == "KilledWorker":
        return f"{run}: the workers that trained it were killed; if memory ran out, use {remedy}"
    trace = "".join(traceback.format_exception(error))
    return f"{run}: {type(error).__name__}: {error}\n{trace}"


def _line(run: Run, result: RunResult) -> str:
    mean = sum(result.fold_accuracies) / len(result.fold_accuracies)
    return f"{run}: {mean:.1f} % ({result.seconds_train + result.seconds_eval:.0f} s)"


# Tasks: these functions run in this process, or in the workers of a cluster.

_DATA: dict[tuple[object, ...], DataSets] = {}


def data_sets(context: RunContext) -> DataSets:
    """The data sets of this process."""
    on_cpu = context.options.loader_workers > 0
    key = context.data_dir, context.device, on_cpu, context.versions["source"]
    return _DATA.setdefault(key, DataSets(context))


def share_graphs(graphs: GraphSet, *, report: Callable[..., bool]) -> GraphSet:
    """Task: keep the user's own graphs on a worker."""
    return graphs


def train_group(
    context: RunContext,
    runs: tuple[Run, ...],
    own: GraphSet | None,
    *,
    report: Callable[..., bool],
) -> list[TrainedRun]:
    """Task: train the encoders of a group.

    Args:
        context: where and how runs are executed.
        runs: runs that share ``RunConfig.group_key``, or one run of any kind.
        own: the user's own set, None for a named one.
        report: called with the key of a run, the share of its training done, and its loss.

    Returns:
        The trained runs in their order.
    """
    data = data_sets(context)
    config = runs[0].config
    context = replace(context, digest=data.facts(config, own)["digest"])

    def tell(run: Run, share: float, loss: float) -> bool:
        return report(run.key, share, loss)

    found: dict[Run, TrainedRun] = {}
    if processes.leads():
        processes.send((context, runs))
    try:
        for one in experiment_of(config).train(runs, data.load(config, own), context, tell):
            found[one.run] = one
    except DivergenceError as error:
        if len(runs) > 1:
            raise
        found[runs[0]] = TrainedRun(runs[0], error=error)
    except Exception as error:
        if world_size() == 1:
            raise
        # The other processes wait for this one, and only its end ends them.
        raise SystemExit(f"error: {failure_message(runs[0], error)}") from error
    device = hardware.device_name(torch.device(context.device))
    if world_size() > 1:
        device = f"{world_size()} × {device}"
    for one in found.values():
        one.device = device
    return [found[run] for run in runs]


def follow(device: torch.device) -> None:
    """Train what the first of several processes trains, until it ends."""

    def train(work: tuple[RunContext, tuple[Run, ...]]) -> None:
        context, runs = work
        context = replace(context, device=str(device))
        train_group(context, runs, None, report=lambda *values: True)

    processes.follow(train)


def score_run(
    context: RunContext,
    group: Sequence[TrainedRun],
    number: int,
    own: GraphSet | None,
    *,
    report: Callable[..., bool],
) -> Outcome:
    """Task: score one run of a trained group.

    Args:
        context: where and how runs are executed.
        group: trained runs.
        number: index of the run among them.
        own: the user's own set, None for a named one.
        report: unused.

    Returns:
        The result, or why there is none.
    """
    trained = group[number]
    run, data = trained.run, data_sets(context)
    if trained.error is not None:
        return Outcome(failure=str(trained.error), diverged=True)
    start = time.perf_counter()
    experiment = experiment_of(run.config)
    scores, embeddings = trained.scores, None
    if scores is None:
        scores = experiment.score(trained, data.load(run.config, own), context)
    facts = dict(data.facts(run.config, own))
    if world_size() > 1:
        facts["processes"] = world_size()
    if EMBEDDINGS in context.saves(run):
        embeddings = experiment.arrays(trained, data.load(run.config, own))
        embeddings["data"] = np.array(facts["digest"])
    if trained.encoders is not None:
        trained.encoders["data"] = facts["digest"]
    result = RunResult(
        config=asdict(run.config),
        seed=run.seed,
        fold_accuracies=[100 * fold.accuracy for fold in scores],
        fold_c=[fold.chosen for fold in scores if fold.chosen is not None],
        final_losses=list(trained.losses),
        seconds_train=trained.seconds_train,
        seconds_eval=trained.seconds_eval + time.perf_counter() - start,
        data=facts,
        device=trained.device,
        versions=context.versions,
        finished=datetime.now(UTC).isoformat(timespec="microseconds"),
        inner=run.inner,
        knn=trained.knn,
        curve=[list(point) for point in trained.curve],
        diagnostics=list(trained.snapshots),
        seconds_diagnostics=trained.seconds_diagnostics,
    )
    return Outcome(result, trained.points, trained.encoders, embeddings)


class Bars:
    """Progress bars: one over all runs, and one per training run if they are few."""

    def __init__(self, bars: Progress, costs: dict[Run, float], scoring: dict[Run, float]) -> None:
        self._bars, self._costs, self._scoring = bars, costs, scoring
        self._runs = {run.key: run for run in costs}
        self._all = bars.add_task(f"0 of {len(costs)} runs done", total=sum(costs.values()))
        self._tasks: dict[Run, TaskID] = {}
        self._shares: dict[Run, float] = {}
        self._done = 0
        bars.update(self._all, visible=len(costs) > 1)

    def started(self, run: Run) -> None:
        """Show that a run has started or restarted."""
        self._advance(run, 0.0)
        if run not in self._tasks and len(self._tasks) < MOST_BARS:
            self._tasks[run] = self._bars.add_task(str(run), total=1.0)

    def report(self, key: str, share: float, loss: float) -> bool:
        """Show the progress of a run; never stops it."""
        run = self._runs.get(key)
        if run is not None:
            if run in self._tasks:
                mean = "" if math.isnan(loss) else f" loss {loss:.3f}"
                epoch = math.ceil(share * run.config.epochs)
                text = f"epoch {epoch}/{run.config.epochs}{mean}" if share < 1 else "scoring"
                text = f"{text}: {run}"
                done = share * self._trained(run)
                self._bars.update(self._tasks[run], completed=done, description=text)
            self._advance(run, share * self._trained(run))
        return True

    def _trained(self, run: Run) -> float:
        """Share of a run's work that is training."""
        cost = self._costs[run]
        return 1 - min(self._scoring[run] / cost, 1.0) if cost else 1.0

    def ended(self, run: Run) -> None:
        """Show that a run has ended."""
        if run in self._tasks:
            self._bars.remove_task(self._tasks.pop(run))
        self._advance(run, 1.0)
        self._done += 1
        self._bars.update(self._all, description=f"{self._done} of {len(self._costs)} runs done")

    def _advance(self, run: Run, share: float) -> None:
        self._bars.advance(self._all, (share - self._shares.get(run, 0.0)) * self._costs[run])
        self._shares[run] = share


@contextmanager
def progress(console: Console, *, every: float = 60.0, **options: Any) -> Iterator[Progress]:
    """Progress bars: the share done, the time passed and left, and a description.

    Where the output is no terminal, each unfinished bar is a plain line at regular intervals.

    Args:
        console: console to draw on.
        every: seconds between two lines.
        **options: options of rich's ``Progress``.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    text = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    bars = Progress(
        TextColumn("{task.percentage:3.0f} %"), BarColumn(12), TimeElapsedColumn(),
        TextColumn("ETA"), TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.description}", table_column=text),
        console=console, transient=True, expand=True, **options,
    )  # fmt: skip
    ended = threading.Event()

    def lines() -> None:
        while not ended.wait(every):
            for task in bars.tasks:
                if task.visible and not task.finished:
                    passed, left = timedelta(seconds=int(task.elapsed or 0)), task.time_remaining
                    eta = "" if left is None else f", ETA {timedelta(seconds=int(left))}"
                    line = f"{task.percentage:.0f} % after {passed}{eta}: {task.description}"
                    console.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)

    plain = not (console.is_terminal or console.is_jupyter or console.quiet)
    thread = threading.Thread(target=lines, daemon=True)
    with bars:
        if plain:
            thread.start()
        try:
            yield bars
        finally:
            ended.set()
            if plain:
                thread.join()
