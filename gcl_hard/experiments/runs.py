"""Runs: one seed of one configuration each, and the order in which a command does them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import NamedTuple

from gcl_hard.experiments.config import SELECTABLE, RunConfig


class Run(NamedTuple):
    """One seed of one configuration, the unit of storage and of resuming.

    Attributes:
        config: the settings.
        seed: of encoder and folds.
        inner: whether it is scored on hold-outs inside the training folds.
    """

    config: RunConfig
    seed: int
    inner: bool = False

    @property
    def key(self) -> str:
        """Stem of the names of its files."""
        return f"{self.config.key()}{'_inner' * self.inner}_seed{self.seed}"

    def cost(self, size: tuple[int, int]) -> float:
        """Work in the unit of its domain; ``size`` as in :meth:`RunConfig.cost`."""
        training, scoring = self.config.cost(size)
        return training * (0.8 if self.inner else 1.0) + scoring

    @property
    def training(self) -> Run:
        """Equal for runs that differ in scoring alone, which are trained once."""
        return self._replace(config=self.config.encoder_config)

    def __str__(self) -> str:
        """Name in messages and progress bars."""
        return f"{self.config}, seed {self.seed}" + (", inner hold-out" if self.inner else "")


def candidate_groups(configs: Iterable[RunConfig]) -> list[tuple[RunConfig, ...]]:
    """Configurations that differ only in what can be chosen inside training data.

    Args:
        configs: any.

    Returns:
        The groups of two or more, in the order given.

    Example:
        >>> from gcl_hard.experiments.config import GraphConfig
        >>> configs = [GraphConfig(protocol="inductive", beta=b) for b in (1, 2)]
        >>> [[config.beta for config in group] for group in candidate_groups(configs)]
        [[1.0, 2.0]]
    """
    groups: dict[tuple[object, ...], list[RunConfig]] = {}
    for config in configs:
        if config.can_select:
            fixed = (type(config), *(v for k, v in asdict(config).items() if k not in SELECTABLE))
            groups.setdefault(fixed, []).append(config)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def plan(configs: Sequence[RunConfig], seeds: Sequence[int], *, select: bool) -> list[Run]:
    """Every run of a command: one encoder for all folds first, then seed by seed.

    Stopped early, it leaves all methods with the same seeds, so that they can be compared.

    Args:
        configs: without repeats.
        seeds: of each.
        select: whether settings are chosen inside training folds.

    Returns:
        The runs.

    Example:
        >>> from gcl_hard.experiments.config import GraphConfig
        >>> [str(run) for run in plan([GraphConfig(method="ucl")], [0, 1], select=True)]
        ['MUTAG ucl transductive, seed 0', 'MUTAG ucl transductive, seed 1']
    """
    candidates = (
        {config for group in candidate_groups(configs) for config in group} if select else set()
    )
    runs = [
        Run(config, seed, inner)
        for seed in seeds
        for config in configs
        for inner in ((False, True) if config in candidates else (False,))
    ]
    return sorted(runs, key=lambda run: run.config.encoders > 1)
