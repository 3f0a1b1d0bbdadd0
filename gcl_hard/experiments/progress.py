"""Progress bars of commands."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gcl_hard.experiments.logs import Log

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from gcl_hard.experiments.run import Run

MOST_BARS = 4
"""Maximum number of runs with a progress bar of their own."""


class Bars:
    """Progress bars: one over all runs, and one per training run if they are few."""

    def __init__(
        self,
        bars: Progress,
        costs: Mapping[Run, float],
        scoring: Mapping[Run, float],
        log: Log | None = None,
    ) -> None:
        self._log = log or Log()
        self._bars, self._costs, self._scoring = bars, costs, scoring
        self._runs = {run.key: run for run in costs}
        self._all = bars.add_task(f"0 of {len(costs)} runs done", total=sum(costs.values()))
        self._tasks: dict[Run, TaskID] = {}
        self._shares: dict[Run, float] = {}
        self._done = 0
        bars.update(self._all, visible=len(costs) > 1)

    def started(self, run: Run) -> None:
        """Show that a run has started, or starts over."""
        self._advance(run, 0.0)

    def report(self, key: str, share: float, loss: float) -> bool:
        """Show the progress of a run; never stops it."""
        run = self._runs.get(key)
        if run is not None:
            self._log.epoch(str(run), share * run.epochs, loss)
            # Not before: runs that wait in the queue need no bar.
            if run not in self._tasks and len(self._tasks) < MOST_BARS:
                self._tasks[run] = self._bars.add_task(str(run), total=1.0)
            if run in self._tasks:
                mean = "" if math.isnan(loss) else f" loss {loss:.3f}"
                epoch = math.ceil(share * run.epochs - 1e-9)
                text = f"epoch {epoch}/{run.epochs}{mean}" if share < 1 else "scoring"
                text = f"{text}: {run}"
                done = share * self._trained(run)
                self._bars.update(self._tasks[run], completed=done, description=text)
            self._advance(run, share * self._trained(run))
        return True

    def _trained(self, run: Run) -> float:
        """Share of a run's work that is training."""
        cost = self._costs[run]
        return 1 - min(self._scoring[run] / cost, 1.0) if cost else 1.0

    def ended(self, run: Run) -> None:
        """Show that a run has ended."""
        if run in self._tasks:
            self._bars.remove_task(self._tasks.pop(run))
        self._advance(run, 1.0)
        self._done += 1
        self._bars.update(self._all, description=f"{self._done} of {len(self._costs)} runs done")

    def _advance(self, run: Run, share: float) -> None:
        self._bars.advance(self._all, (share - self._shares.get(run, 0.0)) * self._costs[run])
        self._shares[run] = share


@contextmanager
def progress(console: Console, *, every: float = 60.0, **options: Any) -> Iterator[Progress]:
    """Progress bars: the share done, the time passed and left, and a description.

    Where the output is no terminal, each unfinished bar is a plain line at regular intervals, with
    the time since the command began.

    Args:
        console: console to draw on.
        every: seconds between two lines.
        **options: options of rich's ``Progress``.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    text = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    bars = Progress(
        TextColumn("{task.percentage:3.0f} %"), BarColumn(12), TimeElapsedColumn(),
        TextColumn("ETA"), TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.description}", table_column=text, markup=False),
        console=console, transient=True, expand=True, **options,
    )  # fmt: skip
    ended, begun = threading.Event(), time.monotonic()

    def lines() -> None:
        while not ended.wait(every):
            for task in bars.tasks:
                if task.visible and not task.finished:
                    left = task.time_remaining
                    passed = timedelta(seconds=int(time.monotonic() - begun))
                    eta = "" if left is None else f", ETA {timedelta(seconds=int(left))}"
                    line = f"{task.percentage:.0f} % after {passed}{eta}: {task.description}"
                    console.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)

    plain = not (console.is_terminal or console.is_jupyter or console.quiet)
    thread = threading.Thread(target=lines, daemon=True)
    with bars:
        if plain:
            thread.start()
        try:
            yield bars
        finally:
            ended.set()
            if plain:
                thread.join()


def bar_of(description: str, unit: str, total: int | None = None) -> Any:
    """A bar of tqdm for work that takes long, on standard error.

    Args:
        description: the work.
        unit: unit that is counted.
        total: number of units; None if unknown.
    """
    from tqdm import tqdm

    every = 1.0 if sys.stderr.isatty() else 60.0
    return tqdm(
        total=total, desc=description, unit=unit, unit_scale=True, mininterval=every, delay=every,
        leave=total is not None,
    )  # fmt: skip
