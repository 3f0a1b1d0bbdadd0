"""The runner: find finished runs, train and score the others, store every result at once."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.core.extras import installed
from gcl_hard.errors import DivergenceError, GclHardError, InputError, OutOfMemory, check_main_guard
from gcl_hard.evaluation.metrics import alike, metric
from gcl_hard.experiments import hardware, processes
from gcl_hard.experiments.datasets import DataSets
from gcl_hard.experiments.engine import QUEUED, Engine, Task, check_engine, engine
from gcl_hard.experiments.experiment import EMBEDDINGS, OPTIONS, Experiment, RunContext, TrainedRun
from gcl_hard.experiments.logs import Log
from gcl_hard.experiments.plan import groups_of
from gcl_hard.experiments.progress import Bars, progress
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, as_json, flag
from gcl_hard.experiments.store import Store
from gcl_hard.files.io import check_writable
from gcl_hard.losses.gathering import world_size

if TYPE_CHECKING:
    from rich.console import Console

    from gcl_hard.theory.snapshots import Points


D = TypeVar("D")


class Outcome(NamedTuple):
    """The result of a run, and the arrays that are stored with it."""

    result: RunResult
    points: Points | None
    encoders: dict[str, Any] | None
    embeddings: dict[str, NDArray[Any]] | None


@dataclass
class Runner:
    """Executes the unfinished runs of a plan.

    Attributes:
        context: where and how runs are executed.
        console: console for progress.
        jobs: processes, None for one per core.
        scheduler: address of a Dask scheduler, or None.
        force: whether finished runs are repeated.
        report_only: whether nothing is run.
        own_sets: the user's own data, by name.
        log: takes losses and scores as they come.
    """

    context: RunContext
    console: Console
    jobs: int | None = 1
    scheduler: str | None = None
    force: bool = False
    report_only: bool = False
    own_sets: Mapping[str, Any] = field(default_factory=dict)
    log: Log = field(default_factory=Log)
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
        if world_size() > 1 and (self.jobs != 1 or self.scheduler is not None):
            raise InputError("torchrun starts the processes: leave --jobs and --scheduler out")
        check_engine(self._most_jobs(), self.scheduler)
        advice: dict[str | None, None] = {}
        for config, inner in dict.fromkeys((run.config, run.inner) for run in pending):
            experiment, data = self._checked(config, inner=inner)
            advice[experiment.advice(config, data)] = None
        for line in filter(None, advice):
            self._warn(line)
        check_writable(self.context.output)
        size, device = self.context.options.ensemble_size, self.context.device
        groups = [
            group for group in groups_of(runs, size=size, device=device) if {*group} & {*pending}
        ]
        try:
            executed, failures = self._execute(groups, pending)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._interruption(pending)) from None
        results |= executed
        if failures:
            self.log.status = "failed"
        return {run: results[run] for run in runs if run in results}, failures

    def _checked(self, config: RunConfig, *, inner: bool) -> tuple[Experiment[Any, Any], Any]:
        """The experiment and the data of a configuration that can be trained and scored."""
        experiment, options = self.context.experiment_of(config), self.context.options
        data = self.data.load(config, self.user_data(config))
        for name in experiment.metrics(config, data):
            metric(name)  # refuses an unknown one
        for name, lacking in OPTIONS.items():
            if getattr(options, name) and name not in experiment.options:
                raise InputError(f"runs on {config.domain} {lacking}: leave --{flag(name)} out")
        experiment.check(config, data, self.context, inner=inner)
        return experiment, data

    def _interruption(self, pending: Sequence[Run]) -> str:
        """Message of an interrupted command: finished runs, saved ones, and those that restart."""
        # Read again: workers may have ended runs since.
        open_runs = [run for run in pending if self.stored(run) is None]
        saved = sum(bool(self.context.checkpoints(run)) for run in open_runs)
        parts = [f"stopped; {len(pending) - len(open_runs)} of {len(pending)} runs are finished"]
        if saved:
            parts.append(f"{saved} saved in checkpoints, from which the same command continues")
        if again := len(open_runs) - saved:
            parts.append(f"{again} not: rerunning the command starts them again")
        return ", ".join(parts)

    def _finished(self, runs: Sequence[Run]) -> dict[Run, RunResult]:
        """Stored results of runs; reports unusable files, and those of other data."""
        results, problems, others = {}, [], []
        for run in runs:
            if (result := self.stored(run)) is not None:
                results[run] = result
            elif (problem := self.store.problem(run)) is not None:
                problems.append(problem)
            elif (stored := self.store.get(run)) is not None and self._has_other_data(run, stored):
                others.append(run)
        edited = [
            run
            for run, result in results.items()
            if (source := hardware.own_source(type(run.config).__module__))
            and source != result.versions["source"].partition("+")[2]
        ]
        if edited:
            names = ", ".join(dict.fromkeys(type(run.config).__module__ for run in edited))
            self._warn(
                f"{len(edited)} finished runs were made by another state of {names}: --force runs "
                f"them again"
            )
        if others:
            names = ", ".join(dict.fromkeys(run.config.dataset for run in others))
            self._warn(
                f"results of {len(others)} runs in {self.context.output} belong to other data "
                f"named {names}: they are made again and replaced; another --output keeps them"
            )
        if problems and not self.force:
            action = "left out" if self.report_only else "run again"
            self._warn(f"{action}: {'; '.join(problems[:3])}{'; …' * (len(problems) > 3)}")
        if results or (self.report_only and runs):
            line = f"{len(results)} of {len(runs)} runs were finished before"
            self.console.print(line, style="dim")
        return results

    def _warn(self, line: str) -> None:
        self.console.print(line, style="yellow", highlight=False)

    def stored(self, run: Run) -> RunResult | None:
        """The stored result of a run, if it matches the data and is recent enough."""
        result = self.store.get(run)
        before = self._before.setdefault(run, result)
        if result is None or self.report_only:
            return result
        if self.force and result == before:
            return None
        if result.lacks_snapshots(self.context.options.diagnostics):
            return None
        if not all(self.store.file(run, suffix).exists() for suffix in self.context.saves(run)):
            return None
        return None if self._has_other_data(run, result) else result

    def _has_other_data(self, run: Run, result: RunResult) -> bool:
        facts = dict(self.data.facts(run.config, self.user_data(run.config)))
        facts.pop("notes", None)  # words about the data, which the digest tells apart
        return any(result.data.get(name, value) != value for name, value in facts.items())

    def user_data(self, config: RunConfig) -> Any:
        """The user's own data of a configuration; None for a named set."""
        return self.own_sets.get(config.dataset)

    def _most_jobs(self) -> int:
        """Processes of this machine, unless there are fewer groups."""
        return self.jobs or (self.context.cores if self.context.device == "cpu" else 1)

    def _scorers(self, pending: Sequence[Run]) -> int:
        """Processes that score on the CPU while a GPU trains; 0 where this one does it."""
        if self.context.device == "cpu" or self.scheduler is not None or world_size() > 1:
            return 0
        for run in pending:
            on_cpu = self.context.experiment_of(run.config).scores_on_cpu
            if not on_cpu or self.user_data(run.config) is not None:
                return 0
        jobs = self.jobs
        if jobs is None:
            try:
                check_main_guard("scoring beside a GPU")
            except InputError:  # of a script whose processes would execute it again
                return 0
            jobs = self.context.cores if installed("cluster") else 1
        return 0 if len(pending) < 2 else min(jobs - 1, len(pending))

    def _execute(
        self, groups: Sequence[tuple[Run, ...]], pending: Sequence[Run]
    ) -> tuple[dict[Run, RunResult], list[str]]:
        beside = self._scorers(pending)
        jobs = 1 if beside else self._most_jobs()
        jobs = min(jobs, len(groups)) if self.scheduler is None else jobs
        sizes = {run: self.data.size(run.config, self.user_data(run.config)) for run in pending}
        costs = {run: run.cost(size) for run, size in sizes.items()}
        scoring = {run: run.config.cost(size)[1] for run, size in sizes.items()}
        context = share_of(self.context, jobs if self.scheduler is None else self.context.cores)
        with progress(self.console) as shown, ExitStack() as locks:
            bars = Bars(shown, costs, scoring, self.log)
            with engine(jobs, self.scheduler, bars.report, beside=beside) as workers:
                execution = _Execution(
                    self, context, workers, locks, bars, {*pending}, beside=beside > 0
                )
                execution.execute(groups)
        return execution.results, list(dict.fromkeys(execution.failures.values()))


def share_of(context: RunContext, processes: int) -> RunContext:
    """The context of one of several processes on this machine."""
    threads = context.threads
    return replace(
        context,
        cores=max(1, context.cores // processes),
        threads=None if threads is None else max(1, threads // processes),
    )


@dataclass(eq=False)
class _Group:
    """Runs that are trained together, with the locks of those still to be stored."""

    runs: tuple[Run, ...]
    locks: dict[Run, ExitStack]


@dataclass(eq=False)
class _Execution:
    """Executes groups of runs: trains each once, scores its runs, and stores results at once; a
    failure does not stop the others.

    Attributes:
        runner: the command's runner.
        context: that of one of its processes.
        workers: the engine, started.
        locks: closed once the engine has ended, so that no run is locked after that.
        bars: progress bars of the runs to be stored.
        pending: the runs to be stored that have not ended.
        beside: whether processes on the CPU score while this one trains on a GPU.
        results: results of the runs that ended.
        failures: messages about those that failed.
    """

    runner: Runner
    context: RunContext
    workers: Engine
    locks: ExitStack
    bars: Bars
    pending: set[Run]
    beside: bool
    results: dict[Run, RunResult] = field(default_factory=dict, init=False)
    failures: dict[Run, str] = field(default_factory=dict, init=False)
    _open: list[_Group] = field(default_factory=list, init=False)
    _training: dict[Task, _Group] = field(default_factory=dict, init=False)
    _scoring: dict[Task, tuple[Run, _Group]] = field(default_factory=dict, init=False)
    _sets: dict[str, Task] = field(default_factory=dict, init=False)

    def execute(self, groups: Sequence[tuple[Run, ...]]) -> None:
        """Execute groups, and wait for those that another command works on.

        Args:
            groups: in the order of their beginning.
        """
        waiting, announced = list(groups), False
        while waiting:
            self._fill(waiting)
            for task in self.workers.completed():
                self._handle(task)
                self._fill(waiting)
            if waiting and not announced:
                n = sum(run in self.pending for runs in waiting for run in runs)
                self._say(f"waiting for another command to end {n} runs", "dim")
                announced = True
            if waiting:
                self.workers.wait(1.0)

    def _fill(self, waiting: list[tuple[Run, ...]]) -> None:
        for runs in [*waiting]:
            if len(self._open) >= QUEUED * self.workers.workers:
                break
            if self._begin(runs):
                waiting.remove(runs)

    def _begin(self, runs: tuple[Run, ...]) -> bool:
        """Submit a group; False if another command works on one of its runs."""
        group = _Group(runs, {})
        with ExitStack() as locks:
            for run in runs:
                if run in self.pending:
                    group.locks[run] = locks.enter_context(ExitStack())
                    if not group.locks[run].enter_context(self.runner.store.lock(run)):
                        return False
            self.locks.push(locks.pop_all())
        self._open.append(group)
        for run in [*group.locks]:  # another command may have ended it meanwhile
            if (result := self.runner.stored(run)) is not None:
                self.context.forget(run)  # that command may have been killed before this
                self.results[run] = result
                self._close(run, group)
        if group.locks:
            self._train(group)
        return True

    def _train(self, group: _Group) -> None:
        for run in group.locks:
            self.bars.started(run)
            if self.runner.force:
                self.context.forget(run)
            elif kept := self.context.checkpoints(run):
                self._say(f"{run}: continues from {kept[-1].name}", "dim")
        user_data = self._user_data(group.runs[0])
        task = self.workers.submit(train_group, self.context, group.runs, user_data, remote=True)
        self._training[task] = group

    def _user_data(self, run: Run) -> Task | None:
        """The user's own data of a run, sent to each worker once."""
        name, data = run.config.dataset, self.runner.user_data(run.config)
        if data is not None and name not in self._sets:
            self._sets[name] = self.workers.submit(share, data, remote=True)
        return self._sets.get(name)

    def _handle(self, task: Task) -> None:
        """After a task has ended: score a trained group, store a scored run."""
        if (group := self._training.pop(task, None)) is not None:
            if task.error is None:
                for run in group.locks:
                    self._scoring[self._score(run, group, task)] = run, group
            elif len(group.locks) == 1 or isinstance(task.error, OutOfMemory):
                self._failed([*group.locks], group, task.error)
            else:  # which of the runs is at fault shows when they are trained one by one
                self._open.remove(group)
                for run, lock in group.locks.items():
                    self._open.append(_Group((run,), {run: lock}))
                    self._train(self._open[-1])
        elif task in self._scoring:
            run, group = self._scoring.pop(task)
            if task.error is not None:
                self._failed([run], group, task.error)
                return
            self._store(run, task.value)
            self._close(run, group)

    def _score(self, run: Run, group: _Group, trained: Task) -> Task:
        number, context = group.runs.index(run), self.context
        trained_runs: Any = trained
        if self.beside:  # it is sent to a process on the CPU, alone
            trained_runs, number = [trained.result()[number]], 0
            context = replace(context, device="cpu", cores=1, threads=1)
        user_data = self._user_data(run)
        return self.workers.submit(score_run, context, trained_runs, number, user_data, urgent=True)

    def _store(self, run: Run, scored: Outcome) -> None:
        store, result = self.runner.store, scored.result
        store.put_arrays(run, scored.points)
        store.put_encoders(run, scored.encoders)
        store.put_arrays(run, scored.embeddings, EMBEDDINGS)
        store.put(run, result)
        self.context.forget(run)
        self.results[run] = result
        score = sum(result.values) / len(result.values)
        self.runner.log.numbers(str(run), {result.metric: score}, run.epochs)
        remark = self.context.experiment_of(run.config).remark(result)
        shown = "; ".join(filter(None, (metric(result.metric).shown(score), remark)))
        self._say(f"{run}: {shown} ({result.seconds_train + result.seconds_eval:.0f} s)")

    def _failed(self, runs: Sequence[Run], group: _Group, error: Exception) -> None:
        message = failure_message(runs[0], error)
        if message not in self.failures.values():
            self._say(f"failed: {message.splitlines()[0]}", "red")
        for run in runs:
            self.failures[run] = message
            if isinstance(error, DivergenceError):  # resuming would diverge again
                self.context.forget(run)
            self._close(run, group)

    def _close(self, run: Run, group: _Group) -> None:
        """Release a run that has a result or has failed to other commands."""
        self.pending.discard(run)
        self.bars.ended(run)
        group.locks.pop(run).close()
        if not group.locks:
            self._open.remove(group)

    def _say(self, line: str, style: str | None = None) -> None:
        self.runner.console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


def failure_message(run: Run, error: Exception) -> str:
    """Message about a run that failed."""
    if isinstance(error, GclHardError):
        return str(error)
    if type(error).__name__ == "KilledWorker":
        return (
            f"{run}: the workers that trained it were killed; if memory ran out, use fewer --jobs "
            f"or a smaller --ensemble-size"
        )
    if isinstance(error, OSError):
        return f"{run}: {error}"
    trace = "".join(traceback.format_exception(error))
    return f"{run}: {type(error).__name__}: {error}\n{trace}"


# Tasks: these functions run in this process, or in the workers of a cluster.

_DATA: dict[tuple[object, ...], DataSets] = {}


def data_sets(context: RunContext) -> DataSets:
    """The data sets of this process."""
    on_cpu = context.options.loader_workers > 0
    key = context.data_dir, context.device, on_cpu, context.versions["source"]
    return _DATA.setdefault(key, DataSets(context)).of_call(context.call)


def share(data: D, *, report: Callable[..., bool]) -> D:
    """Task: keep the user's own data on a worker."""
    return data


def train_group(
    context: RunContext, runs: tuple[Run, ...], user_data: Any, *, report: Callable[..., bool]
) -> list[TrainedRun]:
    """Task: train the encoders of a group.

    Args:
        context: where and how runs are executed.
        runs: runs that share ``RunConfig.group_key``, or one run of any kind.
        user_data: the user's own data; None for a named set.
        report: called with the key of a run, the share of its training done, and its loss.

    Returns:
        The trained runs in their order.
    """
    data = data_sets(context)
    config = runs[0].config
    context = replace(context, digest=data.facts(config, user_data)["digest"])

    def tell(run: Run, share: float, loss: float) -> bool:
        return report(run.key, share, loss)

    trained: dict[Run, TrainedRun] = {}
    if processes.leads():
        processes.send((context, runs))
    where, options = torch.device(context.device), context.options
    unusual = ""
    arithmetic = hardware.arithmetic(where, tf32=options.tf32, deterministic=options.deterministic)
    try:
        with arithmetic as unusual:
            loaded = data.load(config, user_data)
            for trained_run in context.experiment_of(config).train(runs, loaded, context, tell):
                trained[trained_run.run] = trained_run
    except DivergenceError as error:
        if len(runs) > 1:
            raise
        trained[runs[0]] = TrainedRun(runs[0], error=error)
    except Exception as error:
        if world_size() == 1:
            raise
        # The other processes wait for this one, and only its end ends them.
        raise SystemExit(f"error: {failure_message(runs[0], error)}") from error
    device = f"{hardware.device_name(where)}{unusual}"
    if world_size() > 1:
        device = f"{world_size()} × {device}"
    for trained_run in trained.values():
        trained_run.device = device
    return [trained[run] for run in runs]


def follow(device: torch.device) -> None:
    """Train the groups that the first of several processes trains, until it ends."""

    def train(work: tuple[RunContext, tuple[Run, ...]]) -> None:
        context, runs = work
        context = replace(context, device=str(device))
        train_group(context, runs, None, report=lambda *values: True)

    processes.follow(train)


def score_run(
    context: RunContext,
    group: Sequence[TrainedRun],
    number: int,
    user_data: Any,
    *,
    report: Callable[..., bool],
) -> Outcome:
    """Task: score one run of a trained group.

    Args:
        context: where and how runs are executed.
        group: trained runs.
        number: index of the run among them.
        user_data: the user's own data; None for a named set.
        report: unused.

    Returns:
        The result.

    Raises:
        DivergenceError: if the training diverged.
    """
    where, options = torch.device(context.device), context.options
    with hardware.arithmetic(where, tf32=options.tf32, deterministic=options.deterministic):
        return _scored(context, group[number], user_data)


def _scored(context: RunContext, trained: TrainedRun, user_data: Any) -> Outcome:
    run, data = trained.run, data_sets(context)
    if trained.error is not None:
        raise trained.error
    start = time.perf_counter()
    experiment, loaded = context.experiment_of(run.config), data.load(run.config, user_data)
    scored = experiment.score(trained, loaded, context)
    if len(scored.folds) != run.config.n_scores and not run.inner:
        raise InputError(
            f"{run}: its experiment predicts {len(scored.folds)} test folds, and its "
            f"configuration has n_scores {run.config.n_scores}: make the two agree"
        )
    metrics = experiment.metrics(run.config, loaded)
    embeddings = None
    facts = dict(data.facts(run.config, user_data))
    if world_size() > 1:
        facts["processes"] = world_size()
    if EMBEDDINGS in context.saves(run):
        embeddings = experiment.arrays(trained, loaded)
        embeddings["data"] = np.array(facts["digest"])
    if trained.encoders is not None:
        trained.encoders["data"] = facts["digest"]
    # Predictions of an inner run are not kept, so its other scores are computed now.
    further = [name for name in alike(metrics[0]) if not metric(name).mask]
    versions = dict(context.versions)
    if source := hardware.own_source(type(run.config).__module__):
        versions["source"] += f"+{source}"
    # There are too many hold-outs inside the training part to keep their predictions.
    test, predicted = (None, None) if run.inner else scored.packed()
    result = RunResult(
        config=as_json(run.config),
        seed=run.seed,
        domain=run.config.domain,
        scores=scored.scores(dict.fromkeys((*metrics, *further))),
        metric=metrics[0],
        validation=list(scored.validation),
        test=test,
        predicted=predicted,
        threads=torch.get_num_threads(),
        fold_c=list(scored.chosen),
        final_losses=list(trained.losses),
        seconds_train=trained.seconds_train,
        seconds_eval=trained.seconds_eval + time.perf_counter() - start,
        data=facts | dict(scored.facts),
        device=trained.device,
        versions=versions,
        finished=datetime.now(UTC).isoformat(timespec="microseconds"),
        inner=run.inner,
        knn=trained.knn,
        curve=[list(point) for point in trained.curve],
        diagnostics=list(trained.snapshots),
        seconds_diagnostics=trained.seconds_diagnostics,
    )
    return Outcome(result, trained.points, trained.encoders, embeddings)
