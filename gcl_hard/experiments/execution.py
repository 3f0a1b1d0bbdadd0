"""Execution of runs on an engine: train each group once, score its runs, store results at once."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from gcl_hard.errors import GclHardError
from gcl_hard.experiments.engine import QUEUED, Engine, Task
from gcl_hard.experiments.progress import AnyRun, Bars

if TYPE_CHECKING:
    from rich.console import Console

R = TypeVar("R", bound=AnyRun)


@dataclass(eq=False)
class OpenGroup(Generic[R]):
    """Runs that are trained together, with the locks of those still to be stored."""

    runs: tuple[R, ...]
    locks: dict[R, ExitStack]


@dataclass(eq=False)
class Execution(ABC, Generic[R]):
    """Executes groups of runs; a failure does not stop the others.

    Attributes:
        workers: the engine, started.
        locks: closed once the engine has ended, so that no run is locked after that.
        bars: progress bars of the runs to be stored.
        console: console for results and failures.
        pending: the runs to be stored that have not ended.
        results: results of the runs that ended.
        failures: messages about those that failed.
    """

    remedy: ClassVar[str]
    """What to do if workers ran out of memory."""
    workers: Engine
    locks: ExitStack
    bars: Bars
    console: Console
    pending: set[R]
    results: dict[R, Any] = field(default_factory=dict, init=False)
    failures: dict[R, str] = field(default_factory=dict, init=False)
    _open: list[OpenGroup[R]] = field(default_factory=list, init=False)
    _training: dict[Task, OpenGroup[R]] = field(default_factory=dict, init=False)
    _scoring: dict[Task, tuple[R, OpenGroup[R]]] = field(default_factory=dict, init=False)

    @abstractmethod
    def lock(self, run: R) -> AbstractContextManager[bool]:
        """Keep other commands from a run; False if another process holds the lock."""

    @abstractmethod
    def stored(self, run: R) -> Any:
        """The stored result of a run, None if there is none."""

    @abstractmethod
    def train(self, group: OpenGroup[R]) -> Task | None:
        """Submit the training of a group, whose result stays with the workers; None if none."""

    @abstractmethod
    def score(self, run: R, group: OpenGroup[R], trained: Task | None) -> Task:
        """Submit the scoring of a run of a trained group."""

    @abstractmethod
    def store(self, run: R, scored: Any) -> Any:
        """Store the scoring of a run; returns its result."""

    @abstractmethod
    def line(self, run: R, result: Any) -> str:
        """One-line summary of a result."""

    def clean_up(self, run: R, error: Exception) -> None:
        """Called before the lock of a failed run is released."""

    def execute(self, groups: Sequence[tuple[R, ...]]) -> None:
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

    def _fill(self, waiting: list[tuple[R, ...]]) -> None:
        for runs in [*waiting]:
            if len(self._open) >= QUEUED * self.workers.workers:
                break
            if self._begin(runs):
                waiting.remove(runs)

    def _begin(self, runs: tuple[R, ...]) -> bool:
        """Submit a group; False if another command works on one of its runs."""
        group = OpenGroup(runs, {})
        with ExitStack() as locks:
            for run in runs:
                if run in self.pending:
                    group.locks[run] = locks.enter_context(ExitStack())
                    if not group.locks[run].enter_context(self.lock(run)):
                        return False
            self.locks.push(locks.pop_all())
        self._open.append(group)
        for run in [*group.locks]:  # another command may have ended it meanwhile
            if (result := self.stored(run)) is not None:
                self.results[run] = result
                self._close(run, group)
        if group.locks:
            self._train(group)
        return True

    def _train(self, group: OpenGroup[R]) -> None:
        for run in group.locks:
            self.bars.started(run)
        task = self.train(group)
        if task is None:
            self._score(group, None)
        else:
            self._training[task] = group

    def _score(self, group: OpenGroup[R], trained: Task | None) -> None:
        for run in group.locks:
            self._scoring[self.score(run, group, trained)] = run, group

    def _handle(self, task: Task) -> None:
        """After a task has ended: score a trained group, store a scored run."""
        if (group := self._training.pop(task, None)) is not None:
            if task.error is None:
                self._score(group, task)
            else:
                self.training_failed(group, task.error)
        elif task in self._scoring:
            run, group = self._scoring.pop(task)
            if task.error is not None:
                self._failed([run], group, task.error)
                return
            self.results[run] = result = self.store(run, task.value)
            self._say(self.line(run, result))
            self._close(run, group)

    def training_failed(self, group: OpenGroup[R], error: Exception) -> None:
        """Record the failure of a group's runs."""
        self._failed([*group.locks], group, error)

    def split(self, group: OpenGroup[R]) -> None:
        """Train the runs of a group one by one."""
        self._open.remove(group)
        for run, lock in group.locks.items():
            self._open.append(OpenGroup((run,), {run: lock}))
            self._train(self._open[-1])

    def _failed(self, runs: Sequence[R], group: OpenGroup[R], error: Exception) -> None:
        message = failure_message(runs[0], error, self.remedy)
        if message not in self.failures.values():
            self._say(f"failed: {message.splitlines()[0]}", "red")
        for run in runs:
            self.failures[run] = message
            self.clean_up(run, error)
            self._close(run, group)

    def _close(self, run: R, group: OpenGroup[R]) -> None:
        """Release a run that has a result or has failed to other commands."""
        self.pending.discard(run)
        self.bars.ended(run)
        group.locks.pop(run).close()
        if not group.locks:
            self._open.remove(group)

    def _say(self, line: str, style: str | None = None) -> None:
        self.console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


def failure_message(run: object, error: Exception, remedy: str) -> str:
    """Message about a run that failed; the remedy is for workers that ran out of memory."""
    if isinstance(error, GclHardError):
        return str(error)
    if type(error).__name__ == "KilledWorker":
        return f"{run}: the workers that trained it were killed; if memory ran out, use {remedy}"
    if isinstance(error, OSError):
        return f"{run}: {error}"
    trace = "".join(traceback.format_exception(error))
    return f"{run}: {type(error).__name__}: {error}\n{trace}"
