"""Loggers of a command's runs: a CSV file, TensorBoard, Weights & Biases, or the user's own.

A logger is any object with ``log_metrics(metrics, step)``, as those of Lightning have; one with
``finalize(status)`` is ended by it, as Lightning's trainer does.
"""

from __future__ import annotations

import csv
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from gcl_hard.errors import InputError, MissingExtraError, check_option

PROJECT = "gcl_hard"
"""Project of Weights & Biases, if ``WANDB_PROJECT`` names none."""


class Logger(Protocol):
    """Takes numbers, such as a logger of Lightning."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Take numbers by name, of an epoch or a trial."""


class Log:
    """Passes the numbers of runs to loggers, each as ``RUN/NAME``.

    Args:
        loggers: the loggers.

    Attributes:
        status: the status that loggers are ended with, ``"success"`` or ``"failed"``.
    """

    def __init__(self, loggers: Sequence[Logger] = ()) -> None:
        self.loggers = [*loggers]
        self.status = "success"
        self._epochs: dict[str, int] = {}

    def epoch(self, run: str, reached: float, loss: float) -> None:
        """Log the mean loss of the last epoch that has ended, once.

        Args:
            run: name of the run.
            reached: epochs that have passed, such as 2.5 within the third.
            loss: loss of the epoch that has ended; NaN is not logged.
        """
        epoch = math.floor(reached + 1e-9)  # 0.3 * 10 may be less than 3
        if epoch > self._epochs.get(run, 0) and not math.isnan(loss):
            self._epochs[run] = epoch
            self.numbers(run, {"loss": loss}, epoch)

    def numbers(self, run: str, values: Mapping[str, float], step: int) -> None:
        """Log numbers of a run after an epoch or a trial."""
        named = {f"{run}/{name}": value for name, value in values.items()}
        self._call("log_metrics", named, step)

    def end(self) -> None:
        """End the loggers that have ``finalize``, which may write what they held back."""
        self._call("finalize", self.status)

    def _call(self, method: str, *values: Any) -> None:
        """Call a method of all loggers that have it; one that fails is warned of and left out."""
        for logger in [*self.loggers]:
            try:
                getattr(logger, method, lambda *_: None)(*values)
            except Exception as error:  # from a library or the user's code: a run is worth more
                self.loggers.remove(logger)
                warnings.warn(
                    f"{type(logger).__name__} failed ({type(error).__name__}: {error}) and is not "
                    f"called again",
                    stacklevel=3,
                )


@contextmanager
def opened_log(kinds: Sequence[str], folder: Path, logger: Logger | None = None) -> Iterator[Log]:
    """A log for as long as a command runs.

    Args:
        kinds: of :data:`gcl_hard.experiments.settings.LogKind`.
        folder: folder of the results, for ``log.csv`` and the folder ``tensorboard``.
        logger: the user's own logger.

    Raises:
        InputError: for another kind, or a logger without ``log_metrics``.
        MissingExtraError: without the library; names it.
    """
    users = [] if logger is None else [logger]
    if isinstance(logger, type) or not all(hasattr(user, "log_metrics") for user in users):
        raise InputError(
            f"logger must have log_metrics(metrics, step), as loggers of Lightning have, got "
            f"{type(logger).__name__}"
        )
    log = Log([*users, *(_OPENED[check_option("log", k, _OPENED)](folder) for k in kinds)])
    try:
        yield log
    except BaseException:
        log.status = "failed"
        raise
    finally:
        log.end()


class _Csv:
    """Lines of run, name, step and value, each on the disk at once; a command that goes on adds to
    them. (Lightning's CSVLogger has a column for each run, and deletes the file of an earlier
    command.)
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "log.csv").open("a", encoding="utf-8", newline="")
        self._lines = csv.writer(self._file, lineterminator="\n")
        if not self._file.tell():
            self._lines.writerow(["run", "name", "step", "value"])

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        for name, value in metrics.items():
            run, _, metric = name.rpartition("/")
            self._lines.writerow([run, metric, step, f"{value:.9g}"])
        self._file.flush()

    def finalize(self, status: str) -> None:
        self._file.close()


def _tensorboard(folder: Path) -> Logger:
    try:
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        return TensorBoardLogger(folder, name="tensorboard", version="")
    except ImportError as error:
        raise MissingExtraError(
            "--log tensorboard needs them: pip install tensorboard lightning-fabric"
        ) from error


class _Wandb:
    """Each run's numbers against its own epochs, for several runs may be under way."""

    def __init__(self, folder: Path) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("--log wandb needs it: pip install wandb") from error
        folder.mkdir(parents=True, exist_ok=True)
        project = os.environ.get("WANDB_PROJECT", PROJECT)
        self._run, self._known = wandb.init(project=project, dir=str(folder)), set[str]()

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        for run in {name.rpartition("/")[0] for name in metrics} - self._known:
            self._known.add(run)
            self._run.define_metric(f"{run}/*", step_metric=f"{run}/step")
        steps = {f"{name.rpartition('/')[0]}/step": step for name in metrics}
        self._run.log({**metrics, **steps})

    def finalize(self, status: str) -> None:
        self._run.finish(exit_code=int(status != "success"))


_OPENED: Mapping[str, Callable[[Path], Logger]] = {
    "csv": _Csv, "tensorboard": _tensorboard, "wandb": _Wandb,
}  # fmt: skip
