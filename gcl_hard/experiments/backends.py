"""What experiments ask of graphs and of images alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.seed_score import OnEpoch, SeedScore


@dataclass(frozen=True)
class Running:
    """How seeds are run; none of it changes their numbers.

    Attributes:
        resume: whether a seed goes on from its checkpoint.
        workers: processes that make views of images, 0 for none.
        monitor_every: epochs between two points of the monitoring curve, 0 for no curve.
        checkpoint_minutes: least time between two checkpoints; 0 is one after every step.
        save_encoder: whether the trained encoder is kept beside the record.
    """

    resume: bool = False
    workers: int = 0
    monitor_every: int = 10
    checkpoint_minutes: float = 10.0
    save_encoder: bool = False


DEFAULT_RUNNING = Running()


def checkpoint_of(record: Path) -> Path:
    """Where a seed's state is kept while it is trained, by the file of its record."""
    return record.with_suffix(".ckpt")


@dataclass(frozen=True)
class Place:
    """Where a seed is run.

    Attributes:
        record: file that its record will be; what else is kept lies beside.
        device: to train on.
        threads: of this process, None to choose.
        cores: that this process may use.
        running: how.
        digest: of the data, that a checkpoint of others is not gone on from.
    """

    record: Path
    device: torch.device
    threads: int | None
    cores: int
    running: Running
    digest: str

    @property
    def checkpoint(self) -> Path:
        """Of the run, if it is one that has checkpoints."""
        return checkpoint_of(self.record)


C_contra = TypeVar("C_contra", bound=Cell, contravariant=True)
D = TypeVar("D")


class Backend(Protocol[C_contra, D]):
    """One kind of data: how its sets are found, described, trained on and scored."""

    def canonical_name(self, name: str) -> str:
        """The name of a data set, spelt as its files are."""

    def key(self, cell: C_contra) -> Hashable:
        """What of a cell decides which data are loaded."""

    def load(
        self, cell: C_contra, data_dir: Path | None, device: torch.device, running: Running
    ) -> D:
        """The data of a cell, on the device unless workers prepare them."""

    def files(self, cell: C_contra, data_dir: Path | None) -> list[Path]:
        """What they are read from; empty if they are part of a package."""

    def facts(self, data: D) -> dict[str, Any]:
        """What a record says of the data; with a digest that tells two sets of a name apart."""

    def resolved(self, cell: C_contra, facts: dict[str, Any]) -> dict[str, Any]:
        """What a record says beside: settings that the data decided."""

    def size(self, data: D) -> tuple[int, int]:
        """What :meth:`Cell.cost` takes."""

    def check(self, cell: C_contra, data: D, *, inner: bool, device: torch.device) -> None:
        """Refuse before training what cannot be trained or scored."""

    def run(self, job: Job, data: D, place: Place, on_epoch: OnEpoch) -> SeedScore:
        """Train and score."""


def backend_of(cell: Cell | type[Cell]) -> Backend[Any, Any]:
    """The backend of a cell."""
    return _BACKENDS[cell.backend]()


def _graphs() -> Backend[Any, Any]:
    from gcl_hard.experiments.graph_backend import GraphBackend

    return GraphBackend()


def _images() -> Backend[Any, Any]:
    from gcl_hard.experiments.image_backend import ImageBackend

    return ImageBackend()


_BACKENDS: dict[str, Callable[[], Backend[Any, Any]]] = {"graphs": _graphs, "images": _images}
