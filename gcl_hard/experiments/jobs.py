"""What a command has to do: seeds of cells, in the order to do them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import NamedTuple

from gcl_hard.experiments.cell import SELECTABLE, Cell


class Job(NamedTuple):
    """One seed of one cell; ``inner`` scores it on hold-outs inside the training folds."""

    cell: Cell
    seed: int
    inner: bool = False

    @property
    def file_name(self) -> str:
        """Of its record."""
        return f"{self.cell.key()}{'_inner' * self.inner}_seed{self.seed}.json"

    def cost(self, size: tuple[int, int]) -> float:
        """Work in the unit of the cell's backend, so that one bar's ETA holds over sets."""
        training, scoring = self.cell.cost(size)
        return training * (0.8 if self.inner else 1.0) + scoring

    @property
    def trained(self) -> Job:
        """Of jobs that differ in scoring alone, the one that stands for their training."""
        return self._replace(cell=self.cell.trained)

    def __str__(self) -> str:
        """How messages and progress bars call it."""
        return f"{self.cell}, seed {self.seed}" + (", inner hold-out" if self.inner else "")


def candidate_groups(cells: Iterable[Cell]) -> list[tuple[Cell, ...]]:
    """Cells that differ only in what can be chosen inside training data.

    Args:
        cells: any.

    Returns:
        The groups of two or more, cells in the order given.

    Example:
        >>> from gcl_hard.experiments.graph_cell import GraphCell
        >>> cells = [GraphCell(protocol="inductive", beta=b) for b in (1, 2)]
        >>> [[cell.beta for cell in group] for group in candidate_groups(cells)]
        [[1.0, 2.0]]
    """
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        if cell.can_select:
            fixed = (type(cell), *(v for k, v in asdict(cell).items() if k not in SELECTABLE))
            groups.setdefault(fixed, []).append(cell)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def plan(cells: Sequence[Cell], seeds: Sequence[int], *, select: bool) -> list[Job]:
    """Every job of a command: floors and protocol ``paper`` first, then seed by seed.

    Stopped early, it leaves all methods with the same seeds, so that they can be compared.

    Args:
        cells: without repeats.
        seeds: of each.
        select: whether settings are to be chosen inside training folds.

    Returns:
        The jobs.

    Example:
        >>> from gcl_hard.experiments.graph_cell import GraphCell
        >>> [str(job) for job in plan([GraphCell(method="ucl")], [0, 1], select=True)]
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
