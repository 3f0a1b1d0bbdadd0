"""What experiments ask of graphs and of images alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.place import Place, Running
from gcl_hard.experiments.seed_score import OnEpoch, Unscored

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

    def run(
        self, jobs: Sequence[Job], data: D, place: Place, on_epochs: Sequence[OnEpoch]
    ) -> Iterator[Unscored]:
        """Train seeds of cells that share ``Cell.together``, or one of any; perhaps score them."""


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
