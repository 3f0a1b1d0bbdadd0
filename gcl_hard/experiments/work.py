"""Do jobs: claim them, train and score, save the records."""

from __future__ import annotations

import traceback
from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from filelock import FileLock, Timeout

from gcl_hard.errors import DivergenceError, GclHardError, OutOfMemory
from gcl_hard.experiments import machine, records
from gcl_hard.experiments.backends import backend_of
from gcl_hard.experiments.data import Data
from gcl_hard.experiments.groups import Group
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.place import DEFAULT_RUNNING, Place, Running, checkpoint_of
from gcl_hard.experiments.seed_score import OnEpoch, SeedScore, Unscored

if TYPE_CHECKING:
    from gcl_hard.evaluation import FoldScore


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


class Waiting(NamedTuple):
    """A trained job that is to be scored, and its claim, which is held until then."""

    unscored: Unscored
    claim: ExitStack


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
        if records.lacks(record, self.setting.running.diagnostics):
            return None
        facts = self.data.facts(job.cell)
        return record if {**facts, **record.data} == facts else None

    def begin(self, group: Group, on_epochs: Sequence[OnEpoch]) -> Iterator[Done | Waiting]:
        """Claim and train the jobs of a group.

        Where one is missing all are trained, since each one's rounding depends on what is trained
        beside it; those that are finished, or another process's, are not stored again.

        Args:
            group: jobs that train together, or one.
            on_epochs: progress of each.

        Yields:
            Of each job what came of it, or what its scoring needs; its claim is held until
            :meth:`finish`, or until ``Waiting.claim`` is closed.
        """
        with ExitStack() as claims:
            held: dict[Job, ExitStack] = {}
            for job in group:
                claimed = claims.enter_context(ExitStack())
                if not claimed.enter_context(claim(self.setting.output / job.file_name)):
                    yield Done(job)
                elif (record := self.finished(job)) is not None:
                    claimed.close()
                    yield Done(job, record)
                else:
                    held[job] = claimed
            told = dict(zip(group, on_epochs, strict=True))
            for unscored in self._train(told, held) if held else ():
                if unscored.job not in held:
                    continue
                waiting = Waiting(unscored, held[unscored.job].pop_all())
                if unscored.error is None and unscored.scoring is not None:
                    yield waiting
                else:
                    yield self.finish(waiting)

    def _train(self, told: dict[Job, OnEpoch], wanted: Container[Job]) -> Iterator[Unscored]:
        """Train jobs together; the progress of those that are not wanted goes nowhere."""
        jobs, left = list(told), dict(told)
        try:
            on_epochs = [told[job] if job in wanted else _unheard for job in jobs]
            for unscored in self._run(jobs, on_epochs):
                del left[unscored.job]
                yield unscored
        except (BrokenPipeError, ConnectionResetError):  # nobody is left to work for
            raise
        except OutOfMemory as error:
            yield from (Unscored(job, error=error) for job in left)
        except Exception as error:
            if len(jobs) > 1:  # one job's accident does not stop the others
                for job, on_epoch in left.items():
                    if job in wanted:
                        yield from self._train({job: on_epoch}, wanted)
                return
            if isinstance(error, GclHardError):
                yield Unscored(jobs[0], error=error)
                return
            trace = "".join(traceback.format_exception(error))
            message = f"{jobs[0]}: {type(error).__name__}: {error}\n{trace}"
            yield Unscored(jobs[0], error=GclHardError(message))

    def finish(
        self, waiting: Waiting, folds: tuple[FoldScore, ...] = (), seconds: float = 0.0
    ) -> Done:
        """Save the record of a trained job and give its claim back.

        Args:
            waiting: the job.
            folds: its scores, if they were still to be made.
            seconds: that these took.
        """
        unscored = waiting.unscored
        job = unscored.job
        with waiting.claim:
            if unscored.error is not None:
                if isinstance(unscored.error, DivergenceError):
                    # going on from before it would end there again
                    self._checkpoint(job).unlink(missing_ok=True)
                return Done(job, failure=str(unscored.error))
            assert unscored.score is not None
            score = unscored.finished(folds, seconds) if folds else unscored.score
            try:
                record, path = self._record(job, score), self.setting.output / job.file_name
                records.save_points(score.seen.points if score.seen else None, path)
                records.save(record, path)
            except GclHardError as error:
                return Done(job, failure=str(error))
            self._checkpoint(job).unlink(missing_ok=True)
            return Done(job, record)

    def _checkpoint(self, job: Job) -> Path:
        return checkpoint_of(self.setting.output / job.file_name)

    def _run(self, jobs: list[Job], on_epochs: list[OnEpoch]) -> Iterator[Unscored]:
        cell, setting = jobs[0].cell, self.setting
        data = self.data.of(cell)
        place = Place(
            record=setting.output / jobs[0].file_name, device=torch.device(setting.device),
            threads=setting.threads, cores=setting.cores, running=setting.running,
            digest=self.data.facts(cell)["digest"],
        )  # fmt: skip
        return backend_of(cell).run(jobs, data, place, on_epochs)

    def _record(self, job: Job, score: SeedScore) -> records.Record:
        return records.Record(
            config=asdict(job.cell),
            seed=job.seed,
            fold_accuracies=[100 * fold.accuracy for fold in score.folds],
            fold_c=[fold.chosen for fold in score.folds if fold.chosen is not None],
            final_losses=list(score.final_losses),
            seconds_train=score.seconds_train,
            seconds_eval=score.seconds_eval,
            data=self.data.facts(job.cell),
            device=machine.device_name(torch.device(self.setting.device)),
            versions=self.setting.versions,
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            inner=job.inner,
            curve=[list(point) for point in score.curve],
            diagnostics=[] if score.seen is None else list(score.seen.looks),
            seconds_diagnostics=0.0 if score.seen is None else score.seen.seconds,
        )


def _unheard(encoder: int, epoch: float, loss: float, beside: int = 1) -> None:
    """Progress of a job that is trained along."""


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
