"""Several processes on the studies of one search."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import SpawnContext
from multiprocessing.synchronize import Event
from types import FrameType

from optuna import Study

from gcl_hard.cli import STOPPED
from gcl_hard.errors import GclHardError
from gcl_hard.tuning.board import Board
from gcl_hard.tuning.options import TuneOptions
from gcl_hard.tuning.tally import Tally

LOOK = 1.0  # seconds between two looks at the studies
UNGUARDED = (
    '; in a script, several workers need what calls the search under if __name__ == "__main__"'
)
PATIENCE = 10.0  # seconds that a process has to give its trials back


def in_processes(options: TuneOptions, studies: Sequence[Study], shown: Board) -> None:
    """Let workers do the studies; one that dies loses the batch it was at, which others do again.

    Args:
        options: of the search.
        studies: made already.
        shown: is kept up to date.

    Raises:
        GclHardError: if all workers ended before the studies had.
    """
    if _show(options, studies, shown):
        return
    context = multiprocessing.get_context("spawn")
    hands = [_Hand(context, options, f"worker {k + 1}") for k in range(options.workers)]
    over = False
    try:
        while not over:
            time.sleep(LOOK)
            living = [hand for hand in hands if hand.process.is_alive()]  # asks all: reaps the dead
            over = _show(options, studies, shown)
            if not over and not living:
                how = _ends(hands) or "without an error"
                script = "" if any(hand.begun.is_set() for hand in hands) else UNGUARDED
                raise GclHardError(
                    f"all {len(hands)} workers ended before the search ({how}); the same command "
                    f"goes on with it{script}"
                )
    finally:
        dead = _ends(hands)
        for hand in hands:
            if not over or not hand.begun.is_set():
                hand.process.terminate()
        for hand in hands:
            hand.end()
    if dead:
        print(f"note: {dead}; what it was at was done by others", file=sys.stderr)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes begun inside do not hear Ctrl-C, not even before their first line."""
    if threading.current_thread() is not threading.main_thread():  # which alone may say so
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Hand:
    """A worker process."""

    def __init__(self, context: SpawnContext, options: TuneOptions, name: str) -> None:
        self.begun = context.Event()
        self.process = context.Process(
            target=_work, args=(options, self.begun), name=name, daemon=True
        )
        # Ctrl-C reaches all processes of a terminal: this one tells the others.
        with _deaf():
            self.process.start()

    def end(self) -> None:
        """Wait until it has ended, or has given its trials back."""
        for more in (self.process.terminate, self.process.kill):
            self.process.join(PATIENCE)
            if not self.process.is_alive():
                return
            more()
        self.process.join()


def _show(options: TuneOptions, studies: Sequence[Study], shown: Board) -> bool:
    """Whether all studies are over."""
    over = True
    for k, study in enumerate(studies):
        tally = Tally.of(study.get_trials(deepcopy=False))
        shown.move(k, tally)
        over &= tally.over(options.trials)
    return over


def _ends(hands: Sequence[_Hand]) -> str:
    """Of those that did not end well, how."""
    said = []
    for hand in hands:
        code = hand.process.exitcode
        if code:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
            said.append(f"{hand.process.name} ended {how}")
    return ", ".join(said)


def _work(options: TuneOptions, begun: Event) -> None:
    """A worker process; it ends with the one that began it."""
    from gcl_hard.tuning.run import worker
    from gcl_hard.tuning.setup import setup

    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    try:
        found = setup(options, share=options.workers)
        studies = found.join()
        begun.set()
        for k in range(len(studies)):
            worker(found, studies, k, _orphan).run()
    except GclHardError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(STOPPED)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _orphan(k: int, tally: Tally, under_way: float) -> None:
    """Nobody waits for a worker whose command was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        raise KeyboardInterrupt
