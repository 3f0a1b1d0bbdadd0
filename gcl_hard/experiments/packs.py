"""Which seeds train together: of one data set and shape, as many as a population should have."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import ceil

from gcl_hard.experiments.population_limits import MOST
from gcl_hard.experiments.runs import Run

Pack = tuple[Run, ...]

FOLD_BY_FOLD = 4
"""Seeds of a pack whose every fold is a population: they are saved when the last fold ends."""


def packs(
    jobs: Sequence[Run], *, n_processes: int = 1, members: int | None = None, device: str = "cpu"
) -> list[Pack]:
    """Put seeds together that can train side by side.

    Args:
        jobs: in the order to do them.
        n_processes: that share them: none is to stand idle while another has a large pack.
        members: encoders side by side, None for as many as a device may take; on a CPU only those
            that hold out the same graphs are.
        device: as PyTorch writes it.

    Returns:
        Packs in the order of their first seeds; what trains alone is a pack of one.

    Example:
        >>> from gcl_hard.experiments.config import GraphConfig
        >>> jobs = [Run(GraphConfig(method=name), 0) for name in ("ucl", "wl", "hscl")]
        >>> [[job.cell.method for job in pack] for pack in packs(jobs)]
        [['ucl', 'hscl'], ['wl']]
    """
    kind = device.partition(":")[0]
    most = members or MOST.get(kind, 1)
    alike: dict[Hashable, list[Run]] = {}
    for job in jobs:
        shared = job.cell.group_key
        if shared is not None and kind == "cpu" and job.cell.encoders > 1:
            shared = shared, job.seed, job.inner  # who holds out the same graphs
        alike.setdefault(job if shared is None else (job.cell.backend, shared), []).append(job)
    found: list[Pack] = []
    for group in alike.values():
        some = _alike_together(group)
        beside = [job.cell.encoders if kind != "cpu" else 1 for job in some]
        folds = some[0].cell.encoders if kind == "cpu" else 1
        distinct = {job.trained: n for job, n in zip(some, beside, strict=True)}
        to_train = sum(distinct.values())
        size = min(most if folds <= 1 else members or FOLD_BY_FOLD, ceil(to_train / n_processes))
        found += _filled(some, beside, size)
    order = {job: place for place, job in enumerate(jobs)}
    return sorted(found, key=lambda pack: order[pack[0]])


def _alike_together(jobs: Sequence[Run]) -> list[Run]:
    """Jobs that differ in scoring alone next to each other, where the first of them stood."""
    groups: dict[Run, list[Run]] = {}
    for job in jobs:
        groups.setdefault(job.trained, []).append(job)
    return [job for group in groups.values() for job in group]


def _filled(jobs: Sequence[Run], members: Sequence[int], size: int) -> list[Pack]:
    """Seeds in order, as long as their members are at most ``size``; a larger one by itself.

    Those that differ in scoring alone are trained once.
    """
    found: list[Pack] = []
    room = 0
    for job, n in zip(jobs, members, strict=True):
        alike = bool(found) and job.trained == found[-1][-1].trained
        room -= 0 if alike else n
        if alike or (room >= 0 and found):
            found[-1] += (job,)
        else:
            found.append((job,))
            room = size - n
    return found
