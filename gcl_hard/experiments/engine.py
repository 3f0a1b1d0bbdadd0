"""Engines run tasks in this process, or on the workers of a Dask cluster.

A task is a module-level function with small arguments; its last argument, ``report``, tells the
driver its progress and returns whether to go on. Results come as tasks end. The store provides
fault tolerance; the engine provides speed.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pickle import PicklingError
from types import FrameType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from gcl_hard.core.extras import check_extra
from gcl_hard.core.signals import leave_to_parent
from gcl_hard.errors import GclHardError, InputError, check_main_guard
from gcl_hard.experiments.hardware import source_digest

if TYPE_CHECKING:
    from distributed.worker import Worker

QUEUED = 2
"""Maximum number of groups of runs per worker, including the one in training."""
TRIES = 3
"""Number of workers that may die while they run a task before the task fails."""
STOP_TIMEOUT = 20.0
"""Seconds that running tasks have to save a checkpoint after Ctrl-C, and workers to end."""
COUNT_SECONDS = 5.0
"""Seconds between two counts of a scheduler's workers."""
REPORT_INTERVAL = 0.2
"""Seconds between two reports of a task's progress to the driver."""

OnReport = Callable[..., bool]
"""Called in the driver with what a task reports; returns whether the task goes on."""


@dataclass(eq=False)
class Task:
    """A submitted call of a function; its attributes are for the engine only."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    urgent: bool = False
    remote: bool = False
    value: Any = None
    error: Exception | None = None
    future: Any = None

    def result(self) -> Any:
        """The function's return value; raises its exception."""
        if self.error is not None:
            raise self.error
        return self.value


class Engine(ABC):
    """Executes tasks.

    The first Ctrl-C lets running tasks save a checkpoint; the second ends all at once.

    Args:
        on_report: called in the driver's thread with the reports of tasks.

    Attributes:
        workers: number of tasks that run at a time.
    """

    workers = 1

    def __init__(self, on_report: OnReport) -> None:
        self._on_report = on_report
        self._queue: list[Task] = []
        self._stopping = self._raised = False
        self._handler = ExitStack()

    def submit(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        urgent: bool = False,
        remote: bool = False,
    ) -> Task:
        """Queue ``function(*arguments, report=report)``; tasks as arguments become their results.

        Args:
            function: a module-level function.
            arguments: small, and picklable.
            urgent: whether it runs before tasks that were queued earlier.
            remote: whether the result stays with the workers, as an argument of other tasks.
        """
        task = Task(function, arguments, urgent, remote)
        self._queue.append(task)
        return task

    def _next(self) -> Task:
        """Remove the next task from the queue: the first urgent one, or else the first."""
        task = next((task for task in self._queue if task.urgent), self._queue[0])
        self._queue.remove(task)
        return task

    @abstractmethod
    def completed(self) -> Iterator[Task]:
        """Yield tasks as they end, until none is left; more may be submitted meanwhile.

        Raises:
            KeyboardInterrupt: after Ctrl-C, once running tasks have saved their checkpoints.
        """

    def wait(self, seconds: float) -> None:
        """Sleep; KeyboardInterrupt after Ctrl-C."""
        end = time.monotonic() + seconds
        while not self._stopping and time.monotonic() < end:
            time.sleep(0.1)
        self._check_interrupt()

    def __enter__(self) -> Self:
        """Start; Ctrl-C no longer interrupts the driver wherever it is."""
        self._handler.enter_context(on_interrupt(self._interrupt))
        return self

    def __exit__(self, *error: object) -> None:
        """Stop running tasks, and end the workers that the engine started."""
        self._queue.clear()
        self._handler.close()
        if not self._raised and not any(error):
            self._check_interrupt()

    def _run(self, task: Task) -> Task:
        """Run a task in this process."""
        try:
            arguments = [a.result() if isinstance(a, Task) else a for a in task.arguments]
            task.value = task.function(*arguments, report=self._report)
        except Exception as error:
            task.error = error
        return task

    def _report(self, *values: Any, wait: bool = False) -> bool:
        return self._on_report(*values) and not self._stopping

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._check_interrupt()
        self._stopping = True

    def _check_interrupt(self) -> None:
        if self._stopping:
            self._raised = True
            raise KeyboardInterrupt


def engine(jobs: int, scheduler: str | None, on_report: OnReport, *, beside: int = 0) -> Engine:
    """The engine for a number of processes, or for a cluster.

    Args:
        jobs: processes on this machine; 1 runs tasks in this one.
        scheduler: address of a Dask scheduler, or None.
        on_report: called in the driver's thread with the reports of tasks.
        beside: worker processes that score beside a single process.

    Returns:
        The engine, not started.

    Raises:
        InputError: for a cluster that cannot be reached or used.
    """
    if scheduler is None and jobs == 1:
        return Beside(beside, on_report) if beside else InProcess(on_report)
    return Cluster(jobs, scheduler, on_report)


def check_engine(jobs: int, scheduler: str | None) -> None:
    """Refuse several processes and clusters if Dask is not installed.

    Args:
        jobs: as of :func:`engine`.
        scheduler: likewise.

    Raises:
        MissingExtraError: names the command that installs it.
    """
    if scheduler is not None or jobs > 1:
        feature = "a scheduler"
        if scheduler is None:
            feature = f"more than one process (--jobs {jobs}; --jobs 1 is one)"
        check_extra("cluster", feature)


@contextmanager
def on_interrupt(handler: Callable[[int, FrameType | None], object]) -> Iterator[Any]:
    """Call a handler on Ctrl-C while a block runs.

    Args:
        handler: as of :func:`signal.signal`.

    Yields:
        The handler that Ctrl-C had before, or None outside the main thread, the only one with
        signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return

    def handle(number: int, frame: FrameType | None) -> None:
        handler(number, frame)

    # Not the handler itself: signal.signal takes the repr of the handler that it replaces, and a
    # method's includes its whole object.
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield before
    finally:
        signal.signal(signal.SIGINT, before)


class InProcess(Engine):
    """Runs tasks one after the other in this process."""

    def completed(self) -> Iterator[Task]:
        """Run tasks; see :class:`Engine`."""
        self._check_interrupt()
        while self._queue:
            yield self._run(self._next())  # before a Ctrl-C is heeded: its result is stored
            self._check_interrupt()


class Cluster(Engine):
    """Runs tasks on the workers of a Dask cluster, of this machine or given by its scheduler.

    At most one task per worker is submitted at a time, because Dask counts a worker's death against
    every task assigned to it, even if not begun.

    Args:
        jobs: worker processes to start on this machine, with one thread each.
        scheduler: address of a scheduler that has workers already, or None to start them. Workers
            that join it later get tasks as well.
        on_report: called in the driver's thread with the reports of tasks.
    """

    def __init__(self, jobs: int, scheduler: str | None, on_report: OnReport) -> None:
        super().__init__(on_report)
        self.workers, self._scheduler = jobs, scheduler
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._topic = f"gcl-hard-{uuid4().hex}"
        self._sent: set[Task] = set()
        self._client: Any = None
        self._cluster: Any = None
        self._before: set[Any] = set()
        self._counted = 0.0

    def __enter__(self) -> Self:
        import dask
        import distributed
        from distributed.comm.addressing import get_address_host_port

        dask.config.set({
            "distributed.scheduler.allowed-failures": TRIES - 1,
            "distributed.worker.daemon": False,  # loader workers are children of a worker
            "distributed.comm.timeouts.connect": "10s",
        })  # fmt: skip
        if self._scheduler is None:
            check_main_guard(f"jobs={self.workers}")
        make_cluster: Any = distributed.LocalCluster
        make_client: Any = distributed.Client
        try:
            if self._scheduler is not None:
                # A client that fails at the address does not close itself, and its collection can
                # wait for ever for the start of the next one.
                host, _ = get_address_host_port(self._scheduler)
                _warn_of_open(self._scheduler, host)
            else:
                self._before = set(multiprocessing.active_children())
                self._cluster = make_cluster(  # with a certificate, or any local user runs code
                    security=True, n_workers=self.workers, threads_per_worker=1, processes=True,
                    memory_limit=0, dashboard_address="127.0.0.1:0", silence_logs="CRITICAL",
                    preload=__name__,
                )  # fmt: skip
            self._client = make_client(self._cluster or self._scheduler, set_as_default=False)
        except (OSError, RuntimeError, ValueError) as error:
            self.__exit__(type(error), error, None)
            if self._scheduler is None:
                raise InputError(
                    f"the {self.workers} worker processes of this machine could not be started: "
                    f"{error}; give fewer --jobs, or --jobs 1, which starts none"
                ) from error
            raise InputError(
                f"the scheduler {self._scheduler} cannot be reached: {error}; give --scheduler "
                f"tcp://HOST:PORT of a running dask scheduler, or leave it out"
            ) from error
        try:
            self._check(self._client.run(_worker_facts))
            self._counted = time.monotonic()
            self._client.subscribe_topic(self._topic, self._reported)
        except BaseException as error:  # the cluster ends with this process, not before
            self.__exit__(error)
            raise
        return super().__enter__()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        super()._interrupt(number, frame)
        self._events.put(("interrupt", None))

    def _check(self, facts: Mapping[str, Mapping[str, Any]]) -> None:
        if not facts:
            raise InputError(
                f"the scheduler {self._scheduler} has no workers: start some with dask worker "
                f"{self._scheduler} --nthreads 1"
            )
        self.workers = len(facts)
        for address, fact in facts.items():
            if fact["threads"] != 1:
                raise InputError(
                    f"the worker {address} has {fact['threads']} threads, which share one random "
                    f"state: start workers with --nthreads 1"
                )
            if fact["source"] != source_digest():
                raise InputError(
                    f"the worker {address} runs another version of gcl_hard: install this one there"
                )

    def submit(self, *call: Any, **options: Any) -> Task:
        """Queue a task for the cluster; see :class:`Engine`."""
        task = super().submit(*call, **options)
        self._fill()
        return task

    def _fill(self) -> None:
        while self._queue and len(self._sent) < self.workers:
            self._send(self._next())

    def _send(self, task: Task) -> None:
        for argument in task.arguments:
            if isinstance(argument, Task) and argument.future is None:
                self._queue.remove(argument)
                self._send(argument)
        arguments = [a.future if isinstance(a, Task) else a for a in task.arguments]
        task.future = self._client.submit(
            _call, task.function, self._topic, *arguments, pure=False, priority=int(task.urgent)
        )
        self._sent.add(task)

        def done(future: Any) -> None:
            # Here, and not in the driver's thread, which answers the reports of a task that is
            # computed again because the worker with its result died.
            try:
                if future.status != "finished" or not task.remote:
                    task.value = future.result()
            except Exception as error:
                task.error = error
            self._events.put(("done", task))

        task.future.add_done_callback(done)

    def completed(self) -> Iterator[Task]:
        """Tasks as they end; see :class:`Engine`."""
        self._check_interrupt()
        while self._sent:
            yield from self._ended(1.0)

    def _ended(self, seconds: float) -> Iterator[Task]:
        """The task that ends with the next event, if one comes in this time."""
        from distributed import CancelledError
        from distributed.comm.core import CommClosedError

        self._count_workers()
        try:
            kind, value = self._events.get(timeout=seconds)
        except queue.Empty:
            if self._client.status != "running":
                raise self._lost() from None
            return
        self._check_interrupt()
        if kind == "report":
            self._answer(value)
            return
        self._sent.discard(value)
        self._fill()
        if isinstance(value.error, CancelledError | CommClosedError):
            raise self._lost() from value.error
        yield value
        self._check_interrupt()

    def _count_workers(self) -> None:
        """Count the workers of a running scheduler now and then: they may join and leave."""
        if self._scheduler is None or time.monotonic() < self._counted + COUNT_SECONDS:
            return
        with suppress(OSError):  # a lost scheduler is noticed by its tasks
            if facts := self._client.run(_worker_facts, on_error="ignore"):
                self._check(facts)
        self._counted = time.monotonic()
        self._fill()

    def _answer(self, message: Mapping[str, Any]) -> None:
        goes_on = self._on_report(*message["values"])
        if message["answer"] is not None:
            with suppress(Exception):  # the worker may have died since
                worker = message["worker"]
                self._client.run(_deliver, message["answer"], goes_on, workers=[worker])

    def _reported(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Called in Dask's thread."""
        self._events.put(("report", event[1]))

    def _lost(self) -> GclHardError:
        return GclHardError(
            "the connection to the scheduler was lost; the same command goes on with what is left"
        )

    def __exit__(self, *error: object) -> None:
        try:
            with suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if self._sent:
                    self._client.cancel([task.future for task in self._sent], force=True)
                    end = time.monotonic() + STOP_TIMEOUT
                    while any(self._client.run(_running_tasks).values()) and time.monotonic() < end:
                        time.sleep(0.1)
                self._client.close(timeout=5)
            if self._cluster is not None:
                with suppress(Exception):
                    self._cluster.close(timeout=STOP_TIMEOUT)
                for process in set(multiprocessing.active_children()) - self._before:
                    process.kill()  # a worker that is left, for which Python would wait at its end
        finally:
            super().__exit__(*error)


class Beside(Cluster):
    """Runs tasks whose results stay (training, on a GPU) one after the other in this process, and
    all others (scoring) on worker processes meanwhile.

    Args:
        jobs: worker processes to start on this machine, with one thread each.
        on_report: as of :class:`Cluster`.
    """

    def __init__(self, jobs: int, on_report: OnReport) -> None:
        super().__init__(jobs, None, on_report)
        self._local: list[Task] = []

    def submit(self, *call: Any, **options: Any) -> Task:
        """Queue a task; see :class:`Engine`."""
        if not options.get("remote"):
            return super().submit(*call, **options)
        self._local.append(Task(call[0], call[1:], **options))
        return self._local[-1]

    def _fill(self) -> None:
        while self._queue:  # all of them: nothing is sent while this process trains
            self._send(self._next())

    def _send(self, task: Task) -> None:
        """Send a task with its arguments, so that another worker can do it if one dies; run it here
        if they cannot be sent.
        """
        task.arguments = tuple(a.result() if isinstance(a, Task) else a for a in task.arguments)
        try:
            super()._send(task)
        except (TypeError, AttributeError, PicklingError):
            self._sent.add(task)
            self._events.put(("done", self._run(task)))

    def completed(self) -> Iterator[Task]:
        """Tasks as they end; see :class:`Engine`."""
        self._check_interrupt()
        while self._local or self._sent:
            if self._local:
                try:
                    task = self._run(self._local.pop(0))
                except KeyboardInterrupt:  # runs scored meanwhile are still stored
                    self._stopping = True
                    yield from self._drained()
                    self._check_interrupt()
                yield task
            yield from self._drained()
            self._check_interrupt()
            if not self._local:
                yield from self._ended(1.0)

    def _drained(self) -> Iterator[Task]:
        """The tasks that have ended."""
        while not self._events.empty():
            kind, task = self._events.get()
            if kind == "done":
                self._sent.discard(task)
                yield task
            elif kind == "report":
                self._answer(task)

    def __exit__(self, *error: object) -> None:
        self._local.clear()
        super().__exit__(*error)


def _warn_of_open(address: str, host: str) -> None:
    """Warn of a scheduler to which everyone on its network may send code."""
    if address.startswith("tls://") or host == "localhost":
        return
    with suppress(ValueError):  # a name, of any machine
        if ip_address(host).is_loopback:
            return
    warnings.warn(
        f"the scheduler {address} has no TLS: anyone who reaches its port can run code on its "
        f"workers and read what is sent; start it with certificates and give tls://{host}:PORT "
        f"(docs: Several machines)",
        stacklevel=3,
    )


# What runs inside a worker: the call of a task, and its reports to the driver.

_answers: dict[str, bool] = {}
_answered = threading.Condition()


def dask_setup(worker: Worker) -> None:
    """Leave signals that reach all processes of a terminal or a job to the driver.

    Dask calls it by this name in the main thread of every worker that a driver starts.
    """
    leave_to_parent()
    _ignore_deprecation()


def _ignore_deprecation() -> None:
    """Silence a warning of torch-geometric's import, which users cannot change."""
    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")


def _worker_facts(dask_worker: Worker) -> dict[str, Any]:
    """Threads and source digest of a worker, which the driver checks."""
    return {"threads": dask_worker.state.nthreads, "source": source_digest()}


def _running_tasks(dask_worker: Worker) -> int:
    """Number of tasks running on this worker, including cancelled ones."""
    return len(dask_worker.active_threads)


def _deliver(answer: str, goes_on: bool) -> None:
    """Deliver the driver's answer to a report that waits for it."""
    with _answered:
        _answers[answer] = goes_on
        _answered.notify_all()


def _call(function: Callable[..., Any], topic: str, *arguments: Any) -> Any:
    """Run a task with a ``report`` function that reaches the driver.

    ``report(*values)`` returns at once and tells whether the driver still wants the result;
    ``report(*values, wait=True)`` waits for the driver's answer.
    """
    from distributed import Reschedule, get_worker

    _ignore_deprecation()
    worker = get_worker()
    key = worker.get_current_task()
    last, number = 0.0, 0

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing" and worker.status.name == "running"

    def report(*values: Any, wait: bool = False) -> bool:
        nonlocal last, number
        now = time.monotonic()
        answer = None
        if wait:
            number += 1
            answer = f"{topic}-{key}-{number}"
        if wait or now - last > REPORT_INTERVAL:
            message = {"answer": answer, "values": values, "worker": worker.address}
            worker.log_event(topic, message)
            last = now
        if answer is None:
            return wanted()
        with _answered:
            while wanted() and answer not in _answers:
                _answered.wait(timeout=1.0)
            return _answers.pop(answer, False)

    try:
        return function(*arguments, report=report)
    except KeyboardInterrupt as error:
        # Stopped from outside, as on a worker short of memory: another worker runs the task. Not
        # raised further, since this worker serves other drivers.
        raise Reschedule from error
