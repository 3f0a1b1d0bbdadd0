"""Which seeds accuracies are compared over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gcl_hard.experiments.figures.runs import Run
from gcl_hard.reports.text import (
    count,
)


def same_seeds(lines: Mapping[str, Sequence[Sequence[Run]]]) -> tuple[list[Run], str]:
    """The runs that can be compared: of seeds that all points have, or else those of a line.

    Args:
        lines: by what they are called, of each point its seeds; at least one.

    Returns:
        The runs, and how many seeds there are, as a part of a sentence of the note. A line whose
        points share no seed keeps all that it has, and the words name it.
    """
    own = {name: _shared([_seeds(point) for point in points]) for name, points in lines.items()}
    every = _shared(list(own.values()))
    kept, said = [], []
    for name, points in lines.items():
        seeds = every or own[name]
        kept += [run for point in points for run in point if run.seed in seeds or not seeds]
        said.append(f"{name} {_listed(seeds) if seeds else 'at each point others'}")
    if every:
        there = set[int]().union(*(_seeds(point) for points in lines.values() for point in points))
        left = f", all that they share of {len(there)}" if every < there else ""
        return kept, f"{count(len(every), 'seed')}, the same at every point{left}"
    return kept, f"seeds that differ ({'; '.join(said)})"


def _seeds(runs: Sequence[Run]) -> set[int]:
    return {run.seed for run in runs}


def _shared(sets: Sequence[set[int]]) -> set[int]:
    return set.intersection(*sets) if sets else set()


def _listed(seeds: set[int]) -> str:
    """Such as ``0 to 4`` or ``0, 2, 5``."""
    low, high = min(seeds), max(seeds)
    if len(seeds) > 2 and high - low + 1 == len(seeds):
        return f"{low} to {high}"
    return ", ".join(map(str, sorted(seeds)))
