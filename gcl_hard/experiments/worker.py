"""What runs inside a Dask worker: the call of a task, and its reports to the driver."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from distributed import WorkerPlugin, get_worker
from distributed.worker import Worker

from gcl_hard.experiments.hardware import source_digest

REPORT_INTERVAL = 0.2
"""Seconds between two reports of a task's progress to the driver."""
_answers: dict[str, bool] = {}
_answered = threading.Condition()


class IgnoreInterrupts(WorkerPlugin):
    """Leaves Ctrl-C, which reaches all processes of a terminal, to the driver."""

    def setup(self, worker: Worker) -> None:
        """Called in the main thread of a worker, also when it is restarted."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def worker_facts(dask_worker: Worker) -> dict[str, Any]:
    """What the driver checks before it sends work."""
    return {"threads": dask_worker.state.nthreads, "source": source_digest()}


def running_tasks(dask_worker: Worker) -> int:
    """Tasks that run on this worker, cancelled ones too."""
    return len(dask_worker.active_threads)


def answer_report(answer: str, goes_on: bool) -> None:
    """Deliver the driver's answer to a report that waits for it."""
    with _answered:
        _answers[answer] = goes_on
        _answered.notify_all()


def call(function: Callable[..., Any], topic: str, *arguments: Any) -> Any:
    """Run a task with a ``report`` that reaches the driver.

    ``report(*values)`` returns at once and tells whether the driver still wants the result;
    ``report(*values, wait=True)`` waits for the driver's answer.
    """
    # torch-geometric uses torch.jit at import; nothing here can change that.
    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")
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
    except KeyboardInterrupt:  # training that was asked to stop; the worker serves other drivers
        return None
