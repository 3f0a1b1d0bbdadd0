"""Do one job: claim it, train and score, save the record."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import torch
from filelock import FileLock, Timeout

from gcl_hard.errors import DivergenceError, GclHardError
from gcl_hard.experiments import machine, records
from gcl_hard.experiments.backends import backend_of
from gcl_hard.experiments.data import Data
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.place import DEFAULT_RUNNING, Place, Running, checkpoint_of
from gcl_hard.experiments.seed_score import OnEpoch


@dataclass(frozen=True)
class Setting:
    """What doing a job needs beside the job; travels to other processes.

    Attributes:
        output: folder of the records.
        data_dir: an offline mirror, or None.
        device: as PyTorch writes it.
        threads: of this process, None to choose by the size of the job.
        cores: that this process may use.
        versions: of what computes, read when the command began.
        since: records finished before this date (UTC, ISO 8601) do not count.
        running: how seeds are run.
    """

    output: Path
    data_dir: Path | None
    device: str
    threads: int | None
    cores: int
    versions: dict[str, str]
    since: str = ""
    running: Running = DEFAULT_RUNNING


class Done(NamedTuple):
    """What came of a job: a record, a failure in words, or neither if another process has it."""

    job: Job
    record: records.Record | None = None
    failure: str | None = None


class Worker:
    """Does jobs in this process; data sets stay loaded between them."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.data = Data(
            setting.data_dir, torch.device(setting.device), setting.versions["source"],
            setting.running,
        )  # fmt: skip

    def finished(self, job: Job) -> records.Record | None:
        """The saved record of a job, if it is of these data and new enough."""
        record = records.load(self.setting.output / job.file_name, job)
        if record is None or record.finished < self.setting.since:
            return None
        facts = self.data.facts(job.cell)
        return record if {**facts, **record.data} == facts else None

    def do(self, job: Job, on_epoch: OnEpoch) -> Done:
        """Run a job and save its record, unless another process does or did."""
        try:
            with claim(self.setting.output / job.file_name) as mine:
                if not mine:
                    return Done(job)
                record = self.finished(job)
                if record is None:
                    record = self._run(job, on_epoch)
                    records.save(record, self.setting.output / job.file_name)
                    self._checkpoint(job).unlink(missing_ok=True)
            return Done(job, record)
        except DivergenceError as error:  # going on from before it would end there again
            self._checkpoint(job).unlink(missing_ok=True)
            return Done(job, failure=str(error))
        except GclHardError as error:
            return Done(job, failure=str(error))
        except Exception as error:  # one job's accident does not stop the others
            trace = "".join(traceback.format_exception(error))
            return Done(job, failure=f"{job}: {type(error).__name__}: {error}\n{trace}")

    def _checkpoint(self, job: Job) -> Path:
        return checkpoint_of(self.setting.output / job.file_name)

    def _run(self, job: Job, on_epoch: OnEpoch) -> records.Record:
        cell, setting = job.cell, self.setting
        data = self.data.of(cell)
        place = Place(
            record=setting.output / job.file_name, device=torch.device(setting.device),
            threads=setting.threads, cores=setting.cores, running=setting.running,
            digest=self.data.facts(cell)["digest"],
        )  # fmt: skip
        score = backend_of(cell).run(job, data, place, on_epoch)
        return records.Record(
            config=asdict(cell),
            seed=job.seed,
            fold_accuracies=[100 * fold.accuracy for fold in score.folds],
            fold_c=[fold.chosen for fold in score.folds if fold.chosen is not None],
            final_losses=list(score.final_losses),
            seconds_train=score.seconds_train,
            seconds_eval=score.seconds_eval,
            data=self.data.facts(cell),
            device=machine.device_name(torch.device(setting.device)),
            versions=setting.versions,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            inner=job.inner,
            curve=[list(point) for point in score.curve],
        )


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Hold a record against other processes; yields False if one of them holds it.

    The claim ends with the process, however that ends.
    """
    lock_path = path.with_name(f".{path.name}.lock")
    lock = FileLock(lock_path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        for leftover in path.parent.glob(f".{path.name}.*"):
            if leftover != lock_path:  # half-written when a process was killed
                leftover.unlink(missing_ok=True)
        yield True
    finally:
        # Unlinked while held: whoever waits for the old file sees that it is gone.
        lock_path.unlink(missing_ok=True)
        lock.release()


def in_turn(jobs: list[Job], worker: Worker, started: Callable[..., OnEpoch]) -> Iterator[Done]:
    """Do jobs one after the other in this process."""
    for job in jobs:
        yield worker.do(job, started(job))
