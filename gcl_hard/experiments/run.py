"""Runs: one seed of one configuration each."""

from __future__ import annotations

from typing import NamedTuple

from gcl_hard.experiments.settings import RunConfig


class Run(NamedTuple):
    """One seed of one configuration, the unit of storage and of resuming.

    Attributes:
        config: the settings.
        seed: seed of encoder and folds.
        inner: whether it is scored on hold-outs inside the training folds.
    """

    config: RunConfig
    seed: int
    inner: bool = False

    @property
    def key(self) -> str:
        """Its name, and the stem of its file names if one process trains it."""
        return self.name(processes=1)

    @property
    def epochs(self) -> int:
        """Passes of its encoders over the training data, at most."""
        return self.config.most_epochs

    def name(self, processes: int) -> str:
        """Stem of the file names of its result.

        Args:
            processes: number that train it together; part of the name if it changes the loss.
        """
        together = f"_{processes}processes" * (processes > 1 and self.config.local_negatives)
        return f"{self.config.key()}{'_inner' * self.inner}{together}_seed{self.seed}"

    def cost(self, size: tuple[int, int]) -> float:
        """Work in the unit of its domain; ``size`` as in :meth:`RunConfig.cost`."""
        training, scoring = self.config.cost(size)
        return training * (0.8 if self.inner else 1.0) + scoring

    @property
    def training(self) -> Run:
        """Key of the training, shared by runs that differ only in scoring and are trained once."""
        return self._replace(config=self.config.encoder_config)

    def __str__(self) -> str:
        """Name in messages and progress bars."""
        return f"{self.config}, seed {self.seed}" + (", inner hold-out" if self.inner else "")
