"""Parts of the benchmark of searches: whole studies, whole commands, and trials without work."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from pairs import timed
from rich.console import Console

from gcl_hard.commands import study as api
from gcl_hard.commands.tune import parse_tune
from gcl_hard.experiments import runner
from gcl_hard.experiments.trials import REPORTS, TrialGroup
from gcl_hard.tuning import objective, search

METHOD = "hscl"
EPOCHS = 50
"""Epochs of a trial."""


@dataclass(frozen=True)
class Case:
    """A search of β and the learning rate of a method on a data set.

    Attributes:
        dataset: name.
        trials: trials of a study.
        epochs: epochs of a trial.
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
        """Flags of the command; random settings depend on the number of a trial alone."""
        data_flags = [] if self.data_dir is None else [f"--data-dir={self.data_dir}"]
        return [
            f"--dataset={self.dataset}", f"--method={METHOD}", "--space=beta",
            f"--epochs={self.epochs}", f"--trials={self.trials}", f"--sampler={sampler}",
            f"--device={self.device}", f"--output={output}", *data_flags, *more,
        ]  # fmt: skip


@dataclass(frozen=True)
class Searched:
    """A finished study.

    Attributes:
        seconds: its seconds, including reading data and creating studies.
        scoring: the seconds of them spent on embeddings and SVMs.
        batch: trials requested at once.
        trials: settings by number.
        scores: scores by number, percent; None if a trial failed.
    """

    seconds: float
    scoring: float
    batch: int
    trials: dict[int, dict[str, Any]]
    scores: dict[int, float | None]


def searched(arguments: Sequence[str]) -> tuple[float, Any]:
    """A search in this process without the outer score: its seconds, and Optuna's study.

    The data are read again.
    """
    runner._DATA.clear()
    objective._CUT.clear()
    options = parse_tune(arguments)
    with patch.object(search, "score_outside", lambda *_task, report: 0.0):
        run = partial(api.search, options, Console(file=io.StringIO()))
        seconds, (result, _) = timed(run)
    return seconds, result.study


def whole_study(case: Case, *more: str) -> Searched:
    """A study from reading the data to its last trial, on a new SQLite file."""
    scoring: list[float] = []
    with TemporaryDirectory() as folder, clocked_scoring(scoring):
        flags = case.flags(folder, *more)
        seconds, study = searched(flags)
        trials = study.trials
    complete = sum(trial.value is not None for trial in trials)
    assert complete == case.trials, f"{complete} of {case.trials} trials have a score"
    return Searched(
        seconds, sum(scoring), parse_tune(flags).ensemble_on(case.device),
        {trial.number: trial.params for trial in trials},
        {trial.number: trial.value for trial in trials},
    )  # fmt: skip


@contextmanager
def clocked_scoring(spent: list[float]) -> Iterator[None]:
    """Note the seconds that every scoring of a part takes."""
    score = TrialGroup.values

    def clocked(*arguments: Any) -> Any:
        seconds, values = timed(lambda: score(*arguments))
        spent.append(seconds)
        return values

    with patch.object(TrialGroup, "values", clocked):
        yield


def command(arguments: Sequence[str]) -> None:
    """The command in a process of its own, with its stderr shown."""
    subprocess.run(
        [sys.executable, "-m", "gcl_hard.tune", *arguments], check=True, stdout=subprocess.DEVNULL
    )


def whole_search(case: Case, jobs: int) -> tuple[float, float]:
    """A search by the command.

    Args:
        case: what is searched.
        jobs: processes, with a thread each.

    Returns:
        Seconds of the command, and from the first trial's start to the last one's end.
    """
    with TemporaryDirectory() as folder:
        flags = case.flags(folder, f"--jobs={jobs}", f"--threads={jobs}")
        seconds, _ = timed(lambda: command(flags))
        (path,) = Path(folder).glob("*_search.json")
        (study,) = json.loads(path.read_text(encoding="utf-8"))["studies"]
    ended = study["complete"] + study["pruned"]
    assert ended == case.trials, f"{jobs} jobs ended {ended} of {case.trials} trials"
    return seconds, study["seconds"]


def no_work(epochs: int, reports: int, *task: Any, report: Callable[..., bool]) -> None:
    """A substitute for the task that scores trials: scores that take no time.

    Progress is reported after every epoch as in training; the pruner's answer is ignored, so that
    all trials report equally often.

    Args:
        epochs: epochs of a trial.
        reports: intermediate scores of a trial.
        task: arguments of ``score_trials``.
        report: report of a task.
    """
    _, _, study, _, candidates = task
    steps = {round(epochs * k / REPORTS) for k in range(1, reports + 1)}
    scores = {candidate.number: 100 / (1 + candidate.config.lr) for candidate in candidates}
    for epoch in range(1, epochs + 1):
        for number, score in scores.items():
            report("progress", study, number, epoch / epochs)
            if epoch in steps:
                report("intermediate", study, number, epoch, score, wait=True)
    for number, score in scores.items():
        report("scored", study, number, score, None, wait=True)


def overhead(case: Case, storage: str, batch: int, reports: int) -> float:
    """Seconds of a trial without work: sampler, storage, pruner and progress.

    Args:
        case: case of the study; its data are read, but not used.
        storage: suffix of its file.
        batch: trials requested at once.
        reports: intermediate scores of a trial.
    """
    with TemporaryDirectory() as folder:
        flags = case.flags(
            folder, f"--ensemble-size={batch}", f"--storage={Path(folder) / 'study'}{storage}",
            f"--pruner={'median' if reports else 'none'}", sampler="tpe",
        )  # fmt: skip
        seconds = 0.0

        def clocked(run: Callable[..., None], *arguments: Any) -> None:
            nonlocal seconds
            seconds, _ = timed(lambda: run(*arguments))

        real = search.PreparedSearch.run
        with (
            patch.object(search, "score_trials", partial(no_work, case.epochs, reports)),
            patch.object(
                search.PreparedSearch, "run", lambda *arguments: clocked(real, *arguments)
            ),
        ):
            _, study = searched(flags)
            complete = sum(trial.value is not None for trial in study.trials)
    assert complete == case.trials, f"{complete} of {case.trials} trials have a score"
    return seconds / case.trials
