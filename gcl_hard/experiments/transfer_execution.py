"""Execute runs of transfer on an engine, and store every result at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from gcl_hard.experiments.labelled import Labelled
from gcl_hard.experiments.pretraining import loaded
from gcl_hard.experiments.transfer_scores import Context, embed_run, forget, score_run
from gcl_hard.experiments.transfer_store import SCHEMA_VERSION, result_in
from gcl_hard.graphs.pretrained import USUAL_SHAPE, load_pretrained
from gcl_hard.io import locked, write_json
from gcl_hard.runs.engine import Task, engine
from gcl_hard.runs.execution import Execution, OpenGroup
from gcl_hard.runs.progress import Bars, progress
from gcl_hard.settings.molecules import UNTRAINED, TransferRun


@dataclass(eq=False)
class _Execution(Execution[TransferRun]):
    """Executes runs in groups that read one encoder."""

    _: KW_ONLY
    folder: Path
    context: Context
    remedy = "fewer --jobs, or workers with more memory"

    def lock(self, run: TransferRun) -> AbstractContextManager[bool]:
        return locked(self.folder / f".{run.key}.json.lock")

    def stored(self, run: TransferRun) -> dict[str, Any] | None:
        return stored_result(self.folder, run, {})

    def train(self, group: OpenGroup[TransferRun]) -> Task | None:
        first = next(iter(group.locks))
        if not first.needs_embedding:
            return None
        return self.workers.submit(embed_run, self.context, first, remote=True)

    def score(self, run: TransferRun, group: OpenGroup[TransferRun], trained: Task | None) -> Task:
        return self.workers.submit(
            score_run, self.context, run, trained, urgent=trained is not None
        )

    def store(self, run: TransferRun, scored: dict[str, Any]) -> dict[str, Any]:
        write_json({"schema_version": SCHEMA_VERSION, **scored}, self.folder / f"{run.key}.json")
        return scored

    def line(self, run: TransferRun, result: dict[str, Any]) -> str:
        score = result["score"]
        said = [f"{k} {v:.3f}" for k, v in score.items() if isinstance(v, float)]
        if score.get("one_class"):
            said.append(
                f"one class alone, or none, in the training or the test part, left out: "
                f"{', '.join(score['one_class'])}"
            )
        return f"{run.key}: {'; '.join(said)} ({result['seconds']:.0f} s)"


def execute(
    runs: Sequence[TransferRun], folder: Path, context: Context, jobs: int, scheduler: str | None
) -> tuple[dict[TransferRun, dict[str, Any]], dict[TransferRun, str]]:
    """Execute runs; a failure does not stop the others.

    Args:
        runs: without those that are finished.
        folder: folder of the results.
        context: where and how runs are scored.
        jobs: processes on this machine.
        scheduler: address of a Dask scheduler, or None.

    Returns:
        The results, and a message for every run that failed.
    """
    groups: dict[TransferRun, list[TransferRun]] = {}
    for run in runs:
        groups.setdefault(run.trained, []).append(run)
    console = Console(stderr=True)
    with progress(console) as shown, ExitStack() as locks:
        bars = Bars(shown, dict.fromkeys(runs, 1.0), dict.fromkeys(runs, 0.0))
        with engine(min(jobs, len(groups)), scheduler, bars.report) as workers:
            execution = _Execution(
                workers, locks, bars, console, {*runs}, folder=folder, context=context
            )  # fmt: skip
            try:
                execution.execute([tuple(group) for group in groups.values()])
            finally:
                forget()
    return execution.results, execution.failures


def check(runs: Sequence[TransferRun], context: Context) -> list[TransferRun]:
    """Check every set of runs, and find those that cannot be run.

    Returns:
        Runs whose sets are too large for the kernel of wl.

    Raises:
        InputError: for data that cannot be used.
    """
    by_set: dict[Any, list[TransferRun]] = {}
    for run in runs:
        by_set.setdefault((run.dataset, run.targets), []).append(run)
    too_large: list[TransferRun] = []
    for (name, targets), of_set in by_set.items():
        labelled = Labelled(loaded(name, data_dir=context.data_dir, targets=targets))
        if any(run.split == "given" for run in of_set):
            labelled.split("given")
        large = [
            run for run in of_set if "wl" in run.parts and labelled.probe_of(run) != "kernel"
        ]  # fmt: skip
        if large:
            too_large += large
            print(
                f"{name} is too large for the kernel of wl: left out; --probe kernel computes it "
                f"anyway",
                file=sys.stderr,
            )
    return too_large


def check_encoders(runs: Sequence[TransferRun]) -> None:
    """Read every file of an encoder, and tell if ``untrained`` has another shape than one.

    Raises:
        InputError: for a file that cannot be used.
    """
    files = [file for file in dict.fromkeys(run.file for run in runs) if file]
    other = [file for file in files if load_pretrained(file).shape != USUAL_SHAPE]
    untrained = {run.encoder for run in runs if run.is_untrained}
    if other and untrained == {UNTRAINED}:
        print(
            f"{UNTRAINED} has another shape than {other[0]}: {UNTRAINED}:{other[0]} has the same",
            file=sys.stderr,
        )


def stored_result(
    folder: Path, run: TransferRun, known: Mapping[str, dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of a finished run, in the row and by the name of its split that it is asked for.

    Args:
        folder: folder of the results.
        run: the run.
        known: results of the compact form, by their keys.
    """
    path = folder / f"{run.key}.json"
    finished = result_in(path) if path.exists() else known.get(run.key)
    named = {"row": run.row, "choice": run.choice, "split": run.split}
    return finished and finished | named
