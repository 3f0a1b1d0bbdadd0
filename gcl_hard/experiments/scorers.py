"""Do groups one after the other; score them here, or elsewhere while training goes on."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    Future,
    ProcessPoolExecutor,
    as_completed,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from threadpoolctl import threadpool_limits

from gcl_hard.errors import GclHardError
from gcl_hard.experiments.groups import Group
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.scoring import Scoring, score
from gcl_hard.experiments.seed_score import OnEpoch
from gcl_hard.experiments.work import Done, Waiting, Worker

if TYPE_CHECKING:
    from gcl_hard.evaluation import FoldScore

WAITING = 16
"""Seeds a process that may wait to be scored: each holds its embeddings and its claim."""

Scored = tuple[tuple["FoldScore", ...], float]


def scored(worker: Worker, waiting: Waiting, n_jobs: int) -> Done:
    """Score a trained seed in this process.

    Args:
        worker: that trained it.
        waiting: the seed.
        n_jobs: folds side by side.
    """
    scoring = waiting.unscored.scoring
    assert scoring is not None
    return _finish(worker, waiting, lambda: score(scoring, n_jobs))


def _finish(worker: Worker, waiting: Waiting, result: Callable[[], Scored]) -> Done:
    try:
        return worker.finish(waiting, *result())
    except GclHardError as error:
        failed = error
    except Exception as error:
        trace = "".join(traceback.format_exception(error))
        job = waiting.unscored.job
        failed = GclHardError(f"{job}: {type(error).__name__}: {error}\n{trace}")
    return worker.finish(waiting._replace(unscored=replace(waiting.unscored, error=failed)))


class Scorers:
    """Processes that score; claims are held until records are saved, or given back at the end.

    Args:
        worker: that trains, and saves what is scored.
        processes: at least 1.
    """

    def __init__(self, worker: Worker, processes: int) -> None:
        self._worker = worker
        self._pool = ProcessPoolExecutor(
            processes, multiprocessing.get_context("spawn"), initializer=_alone
        )
        self._waiting: dict[Future[Scored], Waiting] = {}
        self._most = WAITING * processes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as claims:
            for future in [future for future in self._waiting if future.done()]:
                self._end(future)  # saved, though nobody hears of it
            for waiting in self._waiting.values():
                claims.enter_context(waiting.claim)
            below = list((self._pool._processes or {}).values()) if kind is not None else []
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in below:
                process.terminate()

    def add(self, waiting: Waiting) -> None:
        """Begin to score a trained seed."""
        scoring = waiting.unscored.scoring
        assert scoring is not None
        try:
            future = self._pool.submit(_score, scoring)
        except BrokenProcessPool as error:
            future = Future()
            future.set_exception(error)
        self._waiting[future] = waiting

    def ready(self) -> Iterator[Done]:
        """What is scored by now; waits where more is trained than can be scored."""
        while True:
            for future in [future for future in self._waiting if future.done()]:
                yield self._end(future)
            if len(self._waiting) <= self._most:
                return
            wait(self._waiting, return_when=FIRST_COMPLETED)

    def rest(self) -> Iterator[Done]:
        """Everything else, as it ends."""
        for future in as_completed(list(self._waiting)):
            yield self._end(future)

    def _end(self, future: Future[Scored]) -> Done:
        waiting = self._waiting.pop(future)
        if isinstance(future.exception(), BrokenProcessPool):  # killed: what it had is still here
            return scored(self._worker, waiting, 1)
        return _finish(self._worker, waiting, future.result)


def _score(scoring: Scoring) -> Scored:
    return score(scoring, 1)


def _alone() -> None:
    """Ctrl-C is the parent's to answer, every process has one thread and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    import sklearn.svm  # noqa: F401 (its threads can only be limited once they are there)

    threadpool_limits(1)


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def in_turn(
    groups: Iterable[Group],
    worker: Worker,
    started: Callable[[Job], OnEpoch],
    *,
    scorers: int = 0,
) -> Iterator[Done]:
    """Do groups one after the other in this process.

    Args:
        groups: in order.
        worker: that trains them.
        started: called as a job begins; gives what to call with its epochs.
        scorers: processes that score what is trained while the next group trains; 0 scores here.

    Yields:
        What came of each job.
    """
    n_jobs = worker.setting.threads or worker.setting.cores
    with Scorers(worker, scorers) if scorers else nullcontext() as elsewhere:
        for group in groups:
            for found in worker.begin(group, [started(job) for job in group]):
                if isinstance(found, Done):
                    yield found
                elif elsewhere is not None:
                    elsewhere.add(found)
                    yield from elsewhere.ready()
                else:
                    yield scored(worker, found, n_jobs)
        if elsewhere is not None:
            yield from elsewhere.rest()


def do(worker: Worker, job: Job, on_epoch: OnEpoch) -> Done:
    """Do one job in this process, unless another does or did."""
    (done,) = in_turn([(job,)], worker, lambda _: on_epoch)
    return done
