"""What is seen of a search while it goes on: trials, the best score, the time left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gcl_hard.experiments.progress import columned
from gcl_hard.reports.text import (
    settings,
)
from gcl_hard.tuning.tally import Tally, best_of

if TYPE_CHECKING:
    from optuna import Study
    from rich.console import Console
    from rich.progress import Progress


class Board:
    """A bar for each study, and a line whenever a better trial is found.

    Args:
        bars: to draw on.
        console: to print on.
        studies: in their order.
        asked: trials of each.
        where: trials are scored: "inside" the outer parts, or "on the test folds".
    """

    def __init__(
        self, bars: Progress, console: Console, studies: Sequence[Study], asked: int, where: str
    ) -> None:
        self._bars, self._console, self._studies = bars, console, studies
        self._asked, self._where = asked, where
        self._best: list[float | None] = []
        self._tasks = []
        for study in studies:
            tally = Tally.of(study.get_trials(deepcopy=False))
            self._best.append(tally.best)
            self._tasks.append(
                bars.add_task(self._text(study, tally), total=asked, completed=tally.finished)
            )
            if tally.finished:
                console.print(
                    f"{study.study_name}: {tally.finished} of {asked} trials were done before",
                    style="dim", highlight=False,
                )  # fmt: skip

    def move(self, k: int, tally: Tally, under_way: float = 0.0) -> None:
        """The k-th study has come so far.

        Args:
            k: which.
            tally: trials that have ended.
            under_way: how many trials' worth of work is done of those that run.
        """
        study, known = self._studies[k], self._best[k]
        if tally.best is not None and (known is None or tally.best > known):
            self._best[k] = tally.best
            best = best_of(study.get_trials(deepcopy=False))
            assert best is not None
            found = f"{study.study_name} trial {best.number}: {tally.best:.2f} % {self._where}"
            line = f"{found}, the best of {tally.finished} ({settings(best.params)})"
            self._console.print(line, highlight=False, markup=False)
        done = min(tally.finished + under_way, self._asked)
        self._bars.update(self._tasks[k], completed=done, description=self._text(study, tally))

    def _text(self, study: Study, tally: Tally) -> str:
        best = "" if tally.best is None else f", best {tally.best:.1f} % {self._where}"
        failed = f", {tally.failures.total()} failed" if tally.failures else ""
        count = f"{tally.finished} of {self._asked} trials, {tally.running} under way"
        return f"{study.study_name}: {count}{best}{failed}"


@contextmanager
def board(console: Console, studies: Sequence[Study], asked: int, where: str) -> Iterator[Board]:
    """A board on a console while a search goes on; arguments as of :class:`Board`."""
    with columned(console, speed_estimate_period=300) as bars:
        yield Board(bars, console, studies, asked, where)
