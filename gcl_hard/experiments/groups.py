"""Which runs train together: groups of one data set and shape, cut from a command's full plan."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from math import ceil

from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.jobs import Job

Group = tuple[Job, ...]

USUAL = {"cpu": 8, "cuda": 256}
"""Models of an ensemble. Neither the clock nor free memory nor the number of processes decides, so
that the same command trains the same models together. On a CPU 16 train the most models an hour on
every set of benchmarks/results/population.csv, and 4 already 76 to 97 % of that on most; 8 leave
two processes with work for ten seeds of one configuration. On a GPU a step of many costs hardly
more than one of few, and 256 models of these sets fit in 16 GB."""
FOLD_BY_FOLD = 4
"""Runs of a group on a CPU whose every fold is an ensemble: they are saved when the last fold
ends, and 4 train within 10 % of the best."""


def groups(jobs: Sequence[Job], *, members: int | None = None, device: str = "cpu") -> list[Group]:
    """Cut the runs of a command into groups that train as ensembles.

    The same runs give the same groups, whatever is finished already, however many processes share
    them and however much memory is free: a model's rounding depends on what is trained beside it.

    Args:
        jobs: the full plan of the command, in the order to do them.
        members: models of an ensemble, None for the usual number on the device.
        device: as PyTorch writes it.

    Returns:
        Groups in the order of their first runs; what trains alone is a group of one.

    Example:
        >>> from gcl_hard.experiments.graph_cell import GraphCell
        >>> jobs = [Job(GraphCell(method=name), 0) for name in ("ucl", "wl", "hscl")]
        >>> [[job.cell.method for job in group] for group in groups(jobs)]
        [['ucl', 'hscl'], ['wl']]
    """
    alike: dict[Hashable, dict[Job, list[Job]]] = {}
    for job in jobs:
        own = _together(job, on_cpu=device == "cpu")
        # Those that differ in scoring alone are trained once.
        alike.setdefault(own, {}).setdefault(job.trained, []).append(job)
    found: list[Group] = []
    for those in alike.values():
        n = _size(next(iter(those)), members, device)
        trained = list(those.values())
        found += [
            tuple(job for runs in trained[start:end] for job in runs)
            for start, end in equal_parts(len(trained), n)
        ]
    order = {job: place for place, job in enumerate(jobs)}
    return sorted(found, key=lambda group: order[group[0]])


def usual_size(device: str) -> int:
    """Models of an ensemble where no size is asked for.

    Args:
        device: as PyTorch writes it.
    """
    return USUAL.get(device.partition(":")[0], 1)


def equal_parts(n: int, most: int) -> list[tuple[int, int]]:
    """Cut n things in order into as few parts of at most ``most`` as there can be, about equal.

    Args:
        n: at least 1.
        most: at least 1.

    Returns:
        First and past the last of each part.

    Example:
        >>> equal_parts(10, 8)
        [(0, 5), (5, 10)]
    """
    parts = ceil(n / most)
    cuts = [round(n * part / parts) for part in range(parts + 1)]
    return list(itertools.pairwise(cuts))


def _together(job: Job, *, on_cpu: bool) -> Hashable:
    """What runs of one group share."""
    shared = job.cell.together
    if shared is None:
        return job
    # On a CPU those that hold out the same graphs; those that draw the same views on any device.
    views = isinstance(job.cell, GraphCell) and job.cell.two_view
    same_seed = views or (on_cpu and job.cell.encoders > 1)
    return (job.cell.backend, shared, (job.seed, job.inner) if same_seed else None)


def _size(job: Job, members: int | None, device: str) -> int:
    """Distinct runs of a group."""
    if job.cell.encoders <= 1:
        return members or usual_size(device)
    if device == "cpu":
        return members or FOLD_BY_FOLD
    return max(1, (members or usual_size(device)) // job.cell.encoders)
