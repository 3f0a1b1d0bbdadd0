"""Execute runs of transfer on an engine, and store every result at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress, TaskID

from gcl_hard.errors import DivergenceError, GclHardError, InputError, OutOfMemory
from gcl_hard.experiments.engine import Engine, Task, engine, work_through
from gcl_hard.experiments.labelled import Labelled
from gcl_hard.experiments.pretraining import loaded
from gcl_hard.experiments.runner import progress
from gcl_hard.experiments.store import locked, write_json
from gcl_hard.experiments.transfer_runs import TransferRun
from gcl_hard.experiments.transfer_scores import score_runs
from gcl_hard.experiments.transfer_store import SCHEMA_VERSION, result_in

Numbered = tuple[int, TransferRun]
"""A run with its number among all of a command."""


class _Group(NamedTuple):
    """Runs that read one encoder, their locks, and their progress bar."""

    runs: tuple[Numbered, ...]
    locks: ExitStack
    bar: TaskID


@dataclass(eq=False)
class Execution:
    """Executes the runs of a command that are not finished.

    Attributes:
        folder: folder of the results.
        total: number of runs of the command.
        data_dir: folder with the molecules.
        threads: CPU threads of a process.
        results: of finished runs, by number.
        too_large: runs that are left out because their sets are too large for their kernels.
        failures: why runs have failed.
    """

    folder: Path
    total: int
    data_dir: Path | None
    threads: int
    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    too_large: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _running: dict[Task, _Group] = field(default_factory=dict)
    _shown: dict[str, tuple[TaskID, str]] = field(default_factory=dict)
    _bars: Progress = field(init=False)
    _all: TaskID = field(init=False)
    _workers: Engine = field(init=False)

    def run(self, runs: Sequence[Numbered], jobs: int, scheduler: str | None) -> None:
        """Execute runs.

        Args:
            runs: with their numbers.
            jobs: processes on this machine.
            scheduler: address of a Dask scheduler, or None.

        Raises:
            InputError: for data that cannot be scored, before anything is trained.
            GclHardError: if runs have failed, after the others have ended.
        """
        for name, targets in dict.fromkeys((run.dataset, run.targets) for _, run in runs):
            Labelled(loaded(name, data_dir=self.data_dir, targets=targets))
        groups: dict[TransferRun, list[Numbered]] = {}
        for number, run in runs:
            groups.setdefault(run.trained, []).append((number, run))
        with progress(Console(stderr=True)) as self._bars:
            self._all = self._bars.add_task("", total=len(runs))
            self._ended_runs(0)
            with engine(min(jobs, len(groups)), scheduler, self._reported) as self._workers:
                try:
                    work_through(
                        self._workers, [tuple(group) for group in groups.values()],
                        begin=self._begin, ended=self._ended,
                        running=lambda: len(self._running), elsewhere=self._elsewhere,
                    )  # fmt: skip
                finally:
                    for group in self._running.values():
                        group.locks.close()
        if self.failures:
            n, shown = len(self.failures), "; ".join(self.failures[:3])
            raise GclHardError(f"{n} of {len(runs)} runs failed, the others are finished: {shown}")

    def _begin(self, runs: tuple[Numbered, ...]) -> bool:
        """Submit runs; False if another command is at one of them."""
        with ExitStack() as locks:
            for _, run in runs:
                if not locks.enter_context(locked(self.folder / f".{run.key}.json.lock")):
                    return False
            left = tuple(one for one in runs if not self._found(*one))
            if left:
                first = left[0][1]
                name = f"{first.set_name} {first.row}, seed {first.seed}"
                epochs = first.finetuning.epochs if first.finetuning else None
                bar = self._bars.add_task(name, total=epochs)
                task = self._workers.submit(
                    score_runs, tuple(run for _, run in left), self.data_dir, self.threads
                )
                self._running[task] = _Group(left, locks.pop_all(), bar)
                self._shown[first.key] = bar, name
        return True

    def _found(self, number: int, run: TransferRun) -> bool:
        """Whether another command has ended a run meanwhile, whose result is then added."""
        found = stored(self.folder, run, {})
        if found is not None:
            self.results[number] = found
            self._ended_runs(1)
        return found is not None

    def _reported(self, key: str, epoch: int, loss: float) -> bool:
        bar, name = self._shown[key]
        text = f"epoch {epoch}, loss {loss:.3f}: {name}"
        self._bars.update(bar, completed=epoch, description=text)
        return True

    def _ended(self, task: Task) -> None:
        group = self._running.pop(task)
        with group.locks:
            self._bars.remove_task(group.bar)
            try:
                results = task.result()
            except InputError:
                raise
            except (DivergenceError, OutOfMemory) as error:
                self._fail(group, str(error))
            except Exception as error:
                if type(error).__name__ != "KilledWorker":
                    raise
                self._fail(group, "workers were killed; if memory ran out, use fewer --jobs")
            else:
                for (number, run), result in zip(group.runs, results, strict=True):
                    self._keep(number, run, result)
            self._ended_runs(len(group.runs))

    def _keep(self, number: int, run: TransferRun, result: dict[str, Any] | None) -> None:
        if result is None:
            self.too_large.append(f"{run.dataset} ({run.split}), {run.row}")
            self._say(
                f"{number}/{self.total} {run.key}: {run.set_name} is too large for the kernel of "
                f"wl: left out; --probe kernel computes it anyway"
            )
            return
        write_json({"schema_version": SCHEMA_VERSION, **result}, self.folder / f"{run.key}.json")
        self.results[number] = result
        self._say(f"{number}/{self.total} {run.key}: {_said(result)}")

    def _fail(self, group: _Group, message: str) -> None:
        self.failures.append(f"{group.runs[0][1].key}: {message}")
        self._say(f"failed: {self.failures[-1]}")

    def _elsewhere(self, groups: Sequence[tuple[Numbered, ...]]) -> None:
        self._say(f"waiting for another command to end {sum(map(len, groups))} runs")

    def _say(self, line: str) -> None:
        self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _ended_runs(self, n: int) -> None:
        self._bars.advance(self._all, n)
        done, of = (int(value or 0) for value in (
            self._bars.tasks[0].completed, self._bars.tasks[0].total
        ))  # fmt: skip
        self._bars.update(self._all, description=f"{done} of {of} runs done")


def stored(
    folder: Path, run: TransferRun, known: Mapping[str, dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of a finished run, in the row that it is asked for.

    Args:
        folder: folder of the results.
        run: the run.
        known: results of the compact form, by their keys.
    """
    path = folder / f"{run.key}.json"
    finished = result_in(path) if path.exists() else known.get(run.key)
    return finished and finished | {"row": run.row, "choice": run.choice}


def _said(result: dict[str, Any]) -> str:
    """A result in a line: its scores, what has none, and its seconds."""
    score = result["score"]
    said = [f"{k} {v:.3f}" for k, v in score.items() if isinstance(v, float)]
    if score.get("one_class"):
        said.append(
            f"one class alone in the training or the test part, left out: "
            f"{', '.join(score['one_class'])}"
        )
    return f"{'; '.join(said)} ({result['seconds']:.0f} s)"
