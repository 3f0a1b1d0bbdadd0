"""What is seen of long work: one bar with the time left, and a line for what runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.seed_score import OnEpoch

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

MOST_LINES = 4


class Bars:
    """One bar over everything, and one for each running job where they are few."""

    def __init__(self, bars: Progress, costs: dict[Job, float], lines: int) -> None:
        self._bars, self._costs, self._lines = bars, costs, lines
        self._all = bars.add_task(f"{len(costs)} seeds", total=sum(costs.values()))
        self._tasks: dict[Job, TaskID] = {}
        self._shares: dict[Job, float] = {}
        bars.update(self._all, visible=len(costs) > 1)

    def started(self, job: Job) -> OnEpoch:
        """A job begins; gives what to call with its epochs."""
        epochs, encoders = job.cell.epochs, max(1, job.cell.encoders)
        total = epochs * encoders
        task = self._bars.add_task(str(job), total=total, visible=self._lines <= MOST_LINES)
        self._tasks[job] = task

        def on_epoch(encoder: int, epoch: float, loss: float, beside: int = 1) -> None:
            of = f" {_numbers(encoder + 1, encoder + beside)}/{encoders}" if encoders > 1 else ""
            done = encoder * epochs + beside * epoch
            mean = "" if math.isnan(loss) else f" loss {loss:.3f}"
            text = f"{job}{of} epoch {math.ceil(epoch)}/{epochs}{mean}"
            last = epoch == epochs  # drawn at once: what took less than a frame was there too
            self._bars.update(task, completed=done, description=text, refresh=last)
            self._advance(job, done / total)

        return on_epoch

    def ended(self, job: Job, *, for_good: bool) -> None:
        """A job is over, one way or another; or not for good: another command has it."""
        if job in self._tasks:
            self._bars.remove_task(self._tasks.pop(job))
        if for_good:
            self._advance(job, 1.0)
        left = sum(self._shares.get(j, 0.0) < 1 for j in self._costs)
        self._bars.update(self._all, description=f"{left} of {len(self._costs)} seeds")

    def _advance(self, job: Job, share: float) -> None:
        self._bars.advance(self._all, (share - self._shares.get(job, 0.0)) * self._costs[job])
        self._shares[job] = share


def _numbers(first: int, last: int) -> str:
    return f"encoder {first}" if first == last else f"encoders {first}-{last}"


def columned(console: Console, **options: Any) -> Progress:
    """Bars with what they are of, the share done, the time passed and the time left.

    Args:
        console: where.
        **options: of rich's ``Progress``.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"),
        TimeElapsedColumn(), TextColumn("ETA"), TimeRemainingColumn(elapsed_when_finished=False),
    )  # fmt: skip
    return Progress(*columns, console=console, transient=True, **options)


@contextmanager
def progress(console: Console, costs: dict[Job, float], lines: int) -> Iterator[Bars]:
    """Bars on a console while work goes on.

    Args:
        console: where.
        costs: of every job to do, in one unit of work.
        lines: jobs that run at a time.
    """
    with columned(console) as bars:
        yield Bars(bars, costs, lines)
