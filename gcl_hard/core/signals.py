"""Signals that end a command: Ctrl-C, and SIGTERM, by which batch systems end jobs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 143
"""Exit status after SIGTERM, as in shells."""


class Termination:
    """A handler that treats SIGTERM as Ctrl-C, and records whether it came."""

    came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        self.came = True
        if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, signal.SIG_DFL):
            raise KeyboardInterrupt  # a shell without job control lets background jobs ignore it
        signal.raise_signal(signal.SIGINT)


@contextmanager
def terminated_as_interrupted() -> Iterator[Termination]:
    """Treat SIGTERM as Ctrl-C while a block runs, unless it has another handler.

    Yields:
        The handler, which nested blocks share.
    """
    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGTERM)
    if isinstance(before, Termination):
        yield before
        return
    termination = Termination()
    if before is not signal.SIG_DFL:  # another thread, or another handler
        yield termination
        return
    signal.signal(signal.SIGTERM, termination)
    try:
        yield termination
    finally:
        signal.signal(signal.SIGTERM, before)


def leave_to_parent(*_: object) -> None:
    """Leave Ctrl-C and the first SIGTERM, which reach all processes of a job, to the parent.

    A second SIGTERM ends this process, as it ends the parent.
    """

    def first(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, first)
