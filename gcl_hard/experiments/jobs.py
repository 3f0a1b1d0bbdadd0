"""What a command has to do: seeds of cells, in the order to do them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import NamedTuple

from gcl_hard.experiments.config import CellConfig

SELECTABLE = ("beta", "lr", "epochs")
"""Settings that can be chosen inside training folds."""


class Job(NamedTuple):
    """One seed of one cell; ``inner`` scores it on hold-outs inside the training folds."""

    cell: CellConfig
    seed: int
    inner: bool = False

    @property
    def file_name(self) -> str:
        """Of its record."""
        return f"{self.cell.key()}{'_inner' * self.inner}_seed{self.seed}.json"

    def cost(self, n_nodes: int, n_graphs: int) -> float:
        """Work in node-epochs, so that one bar's ETA holds over sets and methods.

        The SVM of n graphs costs about 0.4 n² of them (measured on the sets of the paper).
        """
        training = n_nodes * self.cell.epochs * self.cell.encoders
        return training * (0.8 if self.inner else 1.0) + 0.4 * n_graphs**2

    def __str__(self) -> str:
        """How messages and progress bars call it."""
        return f"{self.cell}, seed {self.seed}" + (", inner hold-out" if self.inner else "")


def candidate_groups(cells: Iterable[CellConfig]) -> list[tuple[CellConfig, ...]]:
    """Inductive cells that differ only in what can be chosen inside training folds.

    Args:
        cells: any.

    Returns:
        The groups of two or more, cells in the order given.

    Example:
        >>> cells = [CellConfig(protocol="inductive", beta=b) for b in (1, 2)]
        >>> [[cell.beta for cell in group] for group in candidate_groups(cells)]
        [[1.0, 2.0]]
    """
    groups: dict[tuple[object, ...], list[CellConfig]] = {}
    for cell in cells:
        if cell.protocol == "inductive" and cell.encoders:
            fixed = tuple(v for k, v in asdict(cell).items() if k not in SELECTABLE)
            groups.setdefault(fixed, []).append(cell)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def plan(cells: Sequence[CellConfig], seeds: Sequence[int], *, select: bool) -> list[Job]:
    """Every job of a command: floors and protocol ``paper`` first, then seed by seed.

    Stopped early, it leaves all methods with the same seeds, so that they can be compared.

    Args:
        cells: without repeats.
        seeds: of each.
        select: whether settings are to be chosen inside training folds.

    Returns:
        The jobs.

    Example:
        >>> [str(job) for job in plan([CellConfig(method="ucl")], [0, 1], select=True)]
        ['MUTAG ucl paper, seed 0', 'MUTAG ucl paper, seed 1']
    """
    chosen = {cell for group in candidate_groups(cells) for cell in group} if select else set()
    jobs = [
        Job(cell, seed, inner)
        for seed in seeds
        for cell in cells
        for inner in ((False, True) if cell in chosen else (False,))
    ]
    return sorted(jobs, key=lambda job: job.cell.encoders > 1)
