"""What the benchmark of searches runs: whole studies, whole commands, and trials without work."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pairs import timed
from rich.console import Console

from gcl_hard.tuning.board import board
from gcl_hard.tuning.graph_part import GraphPart
from gcl_hard.tuning.options import parse_tune
from gcl_hard.tuning.part import REPORTS, Candidate, Inner, Score, Watch
from gcl_hard.tuning.run import worker
from gcl_hard.tuning.setup import setup

METHOD = "hscl"
EPOCHS = 50
"""Of a trial."""


@dataclass(frozen=True)
class Case:
    """What is searched: β and the learning rate of a method on a data set.

    Attributes:
        dataset: name.
        trials: of a study.
        epochs: of a trial.
        device: ``cpu`` or ``cuda``.
        data_dir: folder of the data, None for the cache.
    """

    dataset: str
    trials: int
    epochs: int = EPOCHS
    device: str = "cpu"
    data_dir: str | None = None

    def __str__(self) -> str:
        return f"{self.dataset} {METHOD}"

    def flags(self, output: str, *more: str, sampler: str = "random") -> list[str]:
        """Of the command; settings drawn at random depend on the number of a trial alone."""
        own = [] if self.data_dir is None else [f"--data-dir={self.data_dir}"]
        return [
            f"--dataset={self.dataset}", f"--method={METHOD}", "--space=beta",
            f"--epochs={self.epochs}", f"--trials={self.trials}", f"--sampler={sampler}",
            f"--device={self.device}", f"--output={output}", *own, *more,
        ]  # fmt: skip


@dataclass(frozen=True)
class Searched:
    """A study that is over.

    Attributes:
        seconds: of all of it, data read and studies made anew.
        scoring: of these, in embeddings and SVMs.
        batch: trials asked for at once.
        trials: settings by number.
        scores: by number, percent; None where a trial failed.
    """

    seconds: float
    scoring: float
    batch: int
    trials: dict[int, dict[str, Any]]
    scores: dict[int, float | None]


def whole_study(case: Case, *more: str) -> Searched:
    """A study from reading the data to its last trial, on a SQLite file of its own."""
    scoring: list[float] = []
    with TemporaryDirectory() as folder:

        def study() -> tuple[int, list[Any]]:
            found = setup(parse_tune(case.flags(folder, *more)))
            search = worker(found, found.join(), 0)
            assert isinstance(search.part, GraphPart)
            clock_scoring(search.part, scoring)
            tally = search.run()
            assert tally.finished == case.trials, f"{tally.finished} of {case.trials} trials ended"
            return search.batch, search.study.trials

        seconds, (batch, trials) = timed(study)
    return Searched(
        seconds, sum(scoring), batch,
        {trial.number: trial.params for trial in trials},
        {trial.number: trial.value for trial in trials},
    )  # fmt: skip


def clock_scoring(part: GraphPart, spent: list[float]) -> None:
    """Note the seconds that every scoring of a part takes."""
    score = part._score

    def clocked(*arguments: Any) -> Any:
        seconds, found = timed(lambda: score(*arguments))
        spent.append(seconds)
        return found

    part._score = clocked


def command(arguments: Sequence[str]) -> None:
    """A whole process; what it says on stderr is seen."""
    subprocess.run(
        [sys.executable, "-m", "gcl_hard.tune", *arguments], check=True, stdout=subprocess.DEVNULL
    )


def whole_search(case: Case, workers: int) -> tuple[float, float]:
    """A search by the command.

    Args:
        case: what is searched.
        workers: processes, with a thread each.

    Returns:
        Seconds of the command, and from the first trial's start to the last one's end.
    """
    with TemporaryDirectory() as folder:
        flags = case.flags(folder, f"--workers={workers}", f"--threads={workers}")
        seconds, _ = timed(lambda: command(flags))
        (path,) = Path(folder).glob("*_search.json")
        (study,) = json.loads(path.read_text(encoding="utf-8"))["studies"]
    ended = study["complete"] + study["pruned"]
    assert ended == case.trials, f"{workers} workers ended {ended} of {case.trials} trials"
    return seconds, study["seconds"]


@dataclass(frozen=True)
class NoWork:
    """A part whose scores take no time; methods as in ``Part``.

    Progress is told after every epoch as in training; what a pruner says is not followed, so that
    all trials report as often.

    Attributes:
        epochs: of a trial.
        reports: intermediate scores of a trial.
    """

    epochs: int
    reports: int

    def n_scored(self, inner: Inner) -> int:
        """Nothing is."""
        return 0

    def scores(
        self, candidates: Sequence[Candidate], inner: Inner, watch: Watch
    ) -> Iterator[Score]:
        """A number that depends on the settings, for samplers and pruners to look at."""
        looks = {round(self.epochs * k / REPORTS) for k in range(1, self.reports + 1)}
        scores = {one.number: 100 / (1 + one.cell.lr) for one in candidates}
        for epoch in range(1, self.epochs + 1):
            for number, score in scores.items():
                watch.progress(number, epoch / self.epochs)
                if epoch in looks:
                    watch.report(number, epoch, score)
        yield from (Score(number, score) for number, score in scores.items())


def overhead(case: Case, storage: str, batch: int, reports: int) -> float:
    """Seconds of a trial without work: sampler, lease, storage, pruner and progress.

    Args:
        case: of the study; its data are read, and not used.
        storage: suffix of its file.
        batch: trials asked for at once.
        reports: intermediate scores of a trial.
    """
    with TemporaryDirectory() as folder:
        flags = case.flags(
            folder, f"--batch={batch}", f"--storage={Path(folder) / 'study'}{storage}",
            f"--pruner={'median' if reports else 'none'}", sampler="tpe",
        )  # fmt: skip
        found = setup(parse_tune(flags))
        studies = found.join()
        with board(Console(file=io.StringIO()), studies, case.trials, "inside") as shown:
            search = worker(found, studies, 0, shown.move)
            search = replace(search, part=NoWork(case.epochs, reports))
            seconds, tally = timed(search.run)
    assert tally.complete == case.trials, f"{tally.complete} of {case.trials} trials have a score"
    return seconds / case.trials
