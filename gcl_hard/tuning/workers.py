"""Several processes on the studies of one search."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.context import SpawnProcess

from optuna import Study

from gcl_hard.errors import GclHardError
from gcl_hard.experiments.command import STOPPED
from gcl_hard.tuning.board import Board
from gcl_hard.tuning.options import TuneOptions
from gcl_hard.tuning.search import Tally

LOOK = 1.0  # seconds between two looks at the studies
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
    context = multiprocessing.get_context("spawn")
    hands = [
        context.Process(target=_work, args=(options,), name=f"worker {k + 1}", daemon=True)
        for k in range(options.workers)
    ]
    for hand in hands:
        hand.start()
    try:
        while not _show(options, studies, shown):
            if not any(hand.is_alive() for hand in hands):
                if _show(options, studies, shown):
                    break
                raise GclHardError(
                    f"all {len(hands)} workers ended before the search ({_ends(hands)}); the same "
                    f"command goes on with it"
                )
            time.sleep(LOOK)
    finally:
        _end(hands)
    if any(hand.exitcode for hand in hands):
        print(f"note: {_ends(hands)}; others did its trials again", file=sys.stderr)


def _show(options: TuneOptions, studies: Sequence[Study], shown: Board) -> bool:
    """Whether all studies are over."""
    over = True
    for k, study in enumerate(studies):
        tally = Tally.of(study.get_trials(deepcopy=False))
        shown.move(k, tally)
        over &= tally.over(options.trials)
    return over


def _ends(hands: Sequence[SpawnProcess]) -> str:
    said = []
    for hand in hands:
        code = hand.exitcode
        if code:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
            said.append(f"{hand.name} ended {how}")
    return ", ".join(said) or "without an error"


def _end(hands: Sequence[SpawnProcess]) -> None:
    """Wait for those that end by themselves, and end the others."""
    until = time.monotonic() + PATIENCE
    for hand in hands:
        hand.join(max(0.0, until - time.monotonic()))
        if hand.is_alive():
            hand.terminate()
            hand.join()


def _work(options: TuneOptions) -> None:
    """A worker process."""
    from gcl_hard.tuning.run import worker
    from gcl_hard.tuning.setup import setup

    warnings.filterwarnings("ignore", message=".*torch.jit.* is deprecated")
    try:
        found = setup(replace(options, workers=options.workers), share=options.workers)
        studies = found.join()
        for k in range(len(studies)):
            worker(found, studies, k).run()
    except GclHardError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(STOPPED)
