"""Do jobs in several processes; one that dies loses its own job alone."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.seed_score import OnEpoch
from gcl_hard.experiments.work import Done, Setting, Worker

SPEAK = 0.1  # seconds between two words of a worker about its epochs
PATIENCE = 5.0  # seconds that a process has to end by itself


@dataclass
class _Hand:
    """A process, the pipe to it, and what it is doing."""

    process: SpawnProcess
    pipe: Connection
    job: Job
    on_epoch: OnEpoch


def in_processes(
    jobs: list[Job], setting: Setting, n_processes: int, started: Callable[[Job], OnEpoch]
) -> Iterator[Done]:
    """Do jobs side by side; results come as they end.

    Args:
        jobs: in the order to begin them.
        setting: what each process needs.
        n_processes: at least 1.
        started: called as a job begins; gives what to call with its epochs.

    Yields:
        What came of each job. A process that dies (killed, out of memory) is a failure of its
        job, and another takes its place.
    """
    waiting, hands, ended = deque(jobs), list[_Hand](), list[_Hand]()
    try:
        while waiting or hands:
            while waiting and len(hands) < n_processes:
                hands.append(_begin(setting, waiting.popleft(), started))
            for pipe in wait([hand.pipe for hand in hands]):
                hand = next(h for h in hands if h.pipe is pipe)
                try:
                    word = hand.pipe.recv()
                except (EOFError, OSError):
                    hands.remove(hand)
                    yield Done(hand.job, failure=_death(hand))
                    continue
                if not isinstance(word, Done):
                    hand.on_epoch(*word)
                    continue
                yield word
                if not (waiting and _give(hand, waiting[0])):
                    hands.remove(hand)
                    hand.pipe.close()  # it ends by itself
                    ended.append(hand)
                    continue
                hand.job = waiting.popleft()
                hand.on_epoch = started(hand.job)
    finally:
        for hand in hands:
            hand.process.terminate()
        for hand in (*hands, *ended):
            hand.process.join(PATIENCE)
            hand.process.kill()


def _begin(setting: Setting, job: Job, started: Callable[[Job], OnEpoch]) -> _Hand:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, setting), daemon=True)
    process.start()
    theirs.close()  # so that the pipe ends with the process
    hand = _Hand(process, ours, job, started(job))
    _give(hand, job)  # if it is dead already, its end is read next
    return hand


def _give(hand: _Hand, job: Job) -> bool:
    """Send a job; False if the process is gone."""
    try:
        hand.pipe.send(job)
    except OSError:
        return False
    return True


def _death(hand: _Hand) -> str:
    hand.process.join()
    code = hand.process.exitcode
    if code is not None and code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    else:
        how = f"ended with status {code}"
    return f"{hand.job}: its process {how}; if memory ran out, use fewer --jobs"


def _serve(pipe: Connection, setting: Setting) -> None:
    """What a process does: jobs from the pipe until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # gives claims back
    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")
    worker = Worker(setting)
    # A parent that is gone closes the pipe: nobody is left to work for.
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            job = pipe.recv()
            pipe.send(worker.do(job, _told(pipe)))


def _told(pipe: Connection) -> OnEpoch:
    """Send epochs through a pipe, now and then."""
    spoken = 0.0

    def on_epoch(encoder: int, epoch: float, loss: float) -> None:
        nonlocal spoken
        if time.monotonic() - spoken > SPEAK:
            pipe.send((encoder, epoch, loss))
            spoken = time.monotonic()

    return on_epoch
