"""Do jobs in several processes; one that dies loses its own jobs alone."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from gcl_hard.experiments.groups import Group
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.scorers import in_turn
from gcl_hard.experiments.seed_score import OnEpoch
from gcl_hard.experiments.work import Done, Setting, Worker

SPEAK = 0.1  # seconds between two words of a worker about its epochs
PATIENCE = 5.0  # seconds that a process has to end by itself


@dataclass
class _Hand:
    """A process, the pipe to it, and what it is doing."""

    process: SpawnProcess
    pipe: Connection
    group: Group
    on_epochs: dict[Job, OnEpoch]

    def give(self, group: Group, started: Callable[[Job], OnEpoch]) -> bool:
        """Send a group; False if the process is gone."""
        try:
            self.pipe.send(group)
        except OSError:
            return False
        self.group, self.on_epochs = group, {job: started(job) for job in group}
        return True


def in_processes(
    groups: Iterable[Group],
    setting: Setting,
    n_processes: int,
    started: Callable[[Job], OnEpoch],
) -> Iterator[Done]:
    """Do groups side by side; results come as they end.

    Args:
        groups: in the order to begin them.
        setting: what each process needs.
        n_processes: at least 1.
        started: called as a job begins; gives what to call with its epochs.

    Yields:
        What came of each job. A process that dies (killed, out of memory) is a failure of the
        jobs that it had, and another takes its place.
    """
    waiting, hands, ended = deque(groups), list[_Hand](), list[_Hand]()
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
                    yield from (Done(job, failure=_death(hand, job)) for job in hand.on_epochs)
                    continue
                if not isinstance(word, Done):
                    number, *epoch = word
                    hand.on_epochs[hand.group[number]](*epoch)
                    continue
                del hand.on_epochs[word.job]
                yield word
                if hand.on_epochs:
                    continue
                if not (waiting and hand.give(waiting[0], started)):
                    hands.remove(hand)
                    hand.pipe.close()  # it ends by itself
                    ended.append(hand)
                    continue
                waiting.popleft()
    finally:
        for hand in hands:
            hand.process.terminate()
        for hand in (*hands, *ended):
            hand.process.join(PATIENCE)
            hand.process.kill()


def _begin(setting: Setting, group: Group, started: Callable[[Job], OnEpoch]) -> _Hand:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, setting), daemon=True)
    process.start()
    theirs.close()  # so that the pipe ends with the process
    hand = _Hand(process, ours, group, {})
    if not hand.give(group, started):  # dead already: its end is read next
        hand.on_epochs = {job: started(job) for job in group}
    return hand


def _death(hand: _Hand, job: Job) -> str:
    hand.process.join()
    code = hand.process.exitcode
    if code is not None and code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    else:
        how = f"ended with status {code}"
    return f"{job}: its process {how}; if memory ran out, use fewer --jobs or --members"


def _serve(pipe: Connection, setting: Setting) -> None:
    """What a process does: jobs from the pipe until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # gives claims back
    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")
    worker = Worker(setting)
    # A parent that is gone closes the pipe: nobody is left to work for.
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            group = pipe.recv()
            numbers = {job: number for number, job in enumerate(group)}
            for done in in_turn([group], worker, lambda job: _told(pipe, numbers[job])):  # noqa: B023
                pipe.send(done)


def _told(pipe: Connection, number: int) -> OnEpoch:
    """Send epochs of a group's job through a pipe, now and then."""
    spoken = 0.0

    def on_epoch(encoder: int, epoch: float, loss: float, beside: int = 1) -> None:
        nonlocal spoken
        if time.monotonic() - spoken > SPEAK:
            pipe.send((number, encoder, epoch, loss, beside))
            spoken = time.monotonic()

    return on_epoch
