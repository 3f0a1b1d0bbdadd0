"""Execute runs of transfer on an engine, and store every result at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress, TaskID

from gcl_hard.errors import GclHardError
from gcl_hard.experiments.engine import Engine, Task, engine, work_through
from gcl_hard.experiments.labelled import Labelled
from gcl_hard.experiments.pretraining import loaded
from gcl_hard.experiments.runner import MOST_BARS, failure_message, progress
from gcl_hard.experiments.store import all_locked, locked, write_json
from gcl_hard.experiments.transfer_runs import TransferRun
from gcl_hard.experiments.transfer_scores import Context, embed_run, forget, score_run
from gcl_hard.experiments.transfer_store import SCHEMA_VERSION, result_in
from gcl_hard.graphs.pretrained import load_pretrained

Numbered = tuple[int, TransferRun]
"""A run with its number among all of a command."""


class _Group(NamedTuple):
    """Runs that read one encoder, and the locks of those that are open."""

    runs: tuple[Numbered, ...]
    locks: dict[int, ExitStack]


@dataclass(eq=False)
class Execution:
    """Executes the runs of a command that are not finished.

    Attributes:
        folder: folder of the results.
        total: number of runs of the command.
        context: where and how runs are scored.
        results: of finished runs, by number.
        too_large: runs that are left out because their sets are too large for the kernel of wl.
        failures: why runs have failed, by number.
    """

    folder: Path
    total: int
    context: Context
    results: dict[int, dict[str, Any]] = field(default_factory=dict)
    too_large: list[str] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    _begun: list[_Group] = field(default_factory=list)
    _embedding: dict[Task, _Group] = field(default_factory=dict)
    _scoring: dict[Task, tuple[Numbered, _Group]] = field(default_factory=dict)
    _open: int = field(init=False, default=0)
    _names: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    _shown: dict[str, TaskID] = field(default_factory=dict)
    _bars: Progress = field(init=False)
    _all: TaskID = field(init=False)
    _workers: Engine = field(init=False)

    def run(self, runs: Sequence[Numbered], jobs: int, scheduler: str | None) -> None:
        """Execute runs; a failure does not stop the others.

        Args:
            runs: with their numbers.
            jobs: processes on this machine.
            scheduler: address of a Dask scheduler, or None.

        Raises:
            InputError: for data or encoders that cannot be used, before anything is trained.
        """
        left = self._checked(runs)
        groups: dict[TransferRun, list[Numbered]] = {}
        for number, run in left:
            groups.setdefault(run.trained, []).append((number, run))
        if not groups:
            return
        self._open = len(left)
        with progress(Console(stderr=True)) as self._bars:
            self._all = self._bars.add_task(f"0 of {len(left)} runs done", total=len(left))
            with engine(min(jobs, len(groups)), scheduler, self._reported) as self._workers:
                try:
                    work_through(
                        self._workers, [tuple(group) for group in groups.values()],
                        begin=self._begin, ended=self._ended,
                        running=lambda: len(self._embedding) + len(self._scoring),
                        elsewhere=self._elsewhere,
                    )  # fmt: skip
                finally:
                    for group in self._begun:
                        for lock in group.locks.values():
                            lock.close()
                    forget()

    def _checked(self, runs: Sequence[Numbered]) -> list[Numbered]:
        """The runs whose kernels can be computed; checks every set and encoder file."""
        left: list[Numbered] = []
        by_set: dict[Any, list[Numbered]] = {}
        for number, run in runs:
            by_set.setdefault((run.dataset, run.targets), []).append((number, run))
        for encoder in dict.fromkeys(run.encoder for _, run in runs):
            if encoder not in (None, "untrained"):
                load_pretrained(encoder)
        for (name, targets), of_set in by_set.items():
            labelled = Labelled(loaded(name, data_dir=self.context.data_dir, targets=targets))
            large = [
                one for one in of_set
                if "wl" in one[1].parts and labelled.probe_of(one[1]) != "kernel"
            ]  # fmt: skip
            if any(run.split == "given" for _, run in of_set):
                labelled.split("given")
            if large:
                self.too_large += [f"{run.dataset} ({run.split}), {run.row}" for _, run in large]
                print(
                    f"{name} is too large for the kernel of wl: left out; --probe kernel computes "
                    f"it anyway",
                    file=sys.stderr,
                )
            left += [one for one in of_set if one not in large]
        return left

    def _begin(self, runs: tuple[Numbered, ...]) -> bool:
        """Submit runs; False if another command is at one of them."""
        paths = {number: self.folder / f".{run.key}.json.lock" for number, run in runs}
        locks = all_locked(paths, lambda number: locked(paths[number]))
        if locks is None:
            return False
        group = _Group(runs, locks)
        self._begun.append(group)
        for number, run in runs:  # another command may have ended it meanwhile
            if (found := stored(self.folder, run, {})) is not None:
                self._end(group, number, run, found)
        if not locks:
            return True
        first = next(run for number, run in runs if number in locks)
        epochs = first.finetuning.epochs if first.finetuning else None
        self._names[first.key] = f"{first.set_name} {first.row}, seed {first.seed}", epochs
        if first.needs_embedding:
            task = self._workers.submit(embed_run, self.context, first, remote=True)
            self._embedding[task] = group
        else:
            self._score(group, None)
        return True

    def _score(self, group: _Group, embedded: Task | None) -> None:
        for number, run in group.runs:
            if number in group.locks:
                task = self._workers.submit(
                    score_run, self.context, run, embedded, urgent=embedded is not None
                )
                self._scoring[task] = (number, run), group

    def _reported(self, key: str, epoch: int, loss: float) -> bool:
        name, epochs = self._names[key]
        if key not in self._shown and len(self._shown) < MOST_BARS:
            self._shown[key] = self._bars.add_task(name, total=epochs)
        if key in self._shown:
            text = f"epoch {epoch}, loss {loss:.3f}: {name}"
            self._bars.update(self._shown[key], completed=epoch, description=text)
        return True

    def _ended(self, task: Task) -> None:
        """A task has ended: score what was embedded, store what was scored."""
        if task in self._embedding:
            group = self._embedding.pop(task)
            mine = [one for one in group.runs if one[0] in group.locks]
        else:
            one, group = self._scoring.pop(task)
            mine = [one]
        self._hide(mine[0][1].key)
        try:
            found = _value(task)
        except Exception as error:
            remedy = "fewer --jobs, or workers with more memory"
            message = failure_message(mine[0][1].key, error, remedy)
            self._say(f"failed: {message.splitlines()[0]}")
            for number, run in mine:
                self.failures[number] = message
                self._end(group, number, run, None)
            return
        if task.remote:
            self._score(group, task)
            return
        ((number, run),) = mine
        write_json({"schema_version": SCHEMA_VERSION, **found}, self.folder / f"{run.key}.json")
        self._end(group, number, run, found)

    def _end(
        self, group: _Group, number: int, run: TransferRun, found: dict[str, Any] | None
    ) -> None:
        """A run has a result or has failed: other commands may be at it."""
        if found is not None:
            self.results[number] = found
            self._say(f"{number}/{self.total} {run.key}: {_said(found)}")
        group.locks.pop(number).close()
        self._bars.advance(self._all)
        done = int(self._bars.tasks[0].completed)
        self._bars.update(self._all, description=f"{done} of {self._open} runs done")

    def _hide(self, key: str) -> None:
        if key in self._shown:
            self._bars.remove_task(self._shown.pop(key))

    def _elsewhere(self, groups: Sequence[tuple[Numbered, ...]]) -> None:
        self._say(f"waiting for another command to end {sum(map(len, groups))} runs")

    def _say(self, line: str) -> None:
        self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)


def _value(task: Task) -> Any:
    """What a task returned; of one whose worker stopped that is nothing."""
    found = task.result()
    if found is None and not task.remote:
        raise GclHardError("its worker stopped: give the command again")
    return found


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
