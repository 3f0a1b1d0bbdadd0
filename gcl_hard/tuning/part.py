"""What an objective has: the outer-training part of a data set, and how it is scored inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gcl_hard.errors import GclHardError
from gcl_hard.evaluation import Fold, inner_holdout, outer_folds
from gcl_hard.experiments.config import RunConfig

Maker = Callable[..., nn.Module]
"""Makes an encoder of the user's own: called with the number of node features, and by name with
those of its settings that are searched."""
Steps = Literal["none", "epochs", "folds"]
REPORTS = 5
"""Intermediate scores of a trial at most: storing one in SQLite takes milliseconds."""


@dataclass(frozen=True)
class Inner:
    """How settings are scored inside the outer-training part.

    Attributes:
        folds: 1 for a stratified hold-out of a fifth; else of a stratified cross-validation.
        steps: after what a trial is scored in between: nothing, some epochs, or every fold.
        seed: of the split, and of the encoders.
    """

    folds: int = 1
    steps: Steps = "none"
    seed: int = 0

    def split(self, labels: NDArray[np.int64]) -> list[Fold]:
        """The folds, ids among the labels.

        Raises:
            InputError: for a class that is too small.
        """
        if self.folds == 1:
            return [inner_holdout(np.arange(len(labels)), labels, seed=self.seed)]
        return outer_folds(labels, seed=self.seed, n_folds=self.folds)

    def looks(self, epochs: int) -> tuple[int, ...]:
        """Epochs before the last after which a trial is scored.

        Example:
            >>> Inner(steps="epochs").looks(50), Inner(steps="epochs").looks(2)
            ((10, 20, 30, 40), (1,))
        """
        if self.steps != "epochs":
            return ()
        marks = {round(epochs * k / REPORTS) for k in range(1, REPORTS)}
        return tuple(sorted(marks - {0, epochs}))


@dataclass(frozen=True)
class Candidate:
    """Settings to be scored.

    Attributes:
        number: by which its score is known.
        cell: the settings.
        encoder: those of the user's own encoder.
    """

    number: int
    cell: RunConfig
    encoder: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Local:
    """What of the machine a search may use.

    A score depends on the number of threads as far as rounding goes, and on nothing else here.

    Attributes:
        device: to train on.
        cores: that this process may use.
        threads: of it, None to choose.
        members: encoders side by side, None for the usual number.
    """

    device: torch.device
    cores: int = 1
    threads: int | None = None
    members: int | None = None


class OwnError(GclHardError):
    """Something in the user's own encoder went wrong."""


class Watch(Protocol):
    """Whoever looks on while candidates are scored."""

    def progress(self, number: int, share: float) -> None:
        """A share of a candidate's work, in [0, 1], is done."""

    def report(self, number: int, step: int, score: float) -> bool:
        """An intermediate score, percent; returns whether the candidate goes on."""


@dataclass(frozen=True)
class Score:
    """What came of a candidate.

    Attributes:
        number: which.
        accuracy: percent; None where it left or failed.
        error: why it failed.
    """

    number: int
    accuracy: float | None
    error: Exception | None = None


class Part(Protocol):
    """The outer-training part of a data set; nothing of the outer test part can be reached."""

    def n_scored(self, inner: Inner) -> int:
        """Items that an inner score is over.

        Raises:
            InputError: for a class that is too small to be split.
        """

    def scores(
        self, candidates: Sequence[Candidate], inner: Inner, watch: Watch
    ) -> Iterator[Score]:
        """Inner scores, as they come; a candidate without settings that work has an error."""


class Outer(Protocol):
    """A data set cut in two: a part to search in, and a part that is scored once."""

    @property
    def part(self) -> Part:
        """What the objective gets."""

    @property
    def n_test(self) -> int:
        """Items of the outer test part."""

    def score(self, candidate: Candidate, seed: int) -> float | None:
        """Accuracy, percent, of settings trained on the whole part and tested outside it."""
