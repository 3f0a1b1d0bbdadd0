"""Where and how a seed is run; none of it changes its numbers, but for rounding."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Running:
    """How seeds are run; none of it changes their numbers, but for rounding (``members``).

    Attributes:
        resume: whether a seed goes on from its checkpoint.
        workers: processes that make views of images, 0 for none.
        monitor_every: epochs between two points of the monitoring curve, 0 for no curve.
        checkpoint_minutes: least time between two checkpoints; 0 is one after every step.
        save_encoder: whether the trained encoder is kept beside the record.
        members: encoders trained side by side, None for the usual number.
        diagnostics: epochs between two looks at a seed's first encoder, 0 for none.
    """

    resume: bool = False
    workers: int = 0
    monitor_every: int = 10
    checkpoint_minutes: float = 10.0
    save_encoder: bool = False
    members: int | None = None
    diagnostics: int = 0


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
