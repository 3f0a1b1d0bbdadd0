"""How many members a population has: what memory holds, and what is fastest."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from weakref import WeakKeyDictionary

import torch

from gcl_hard.errors import OutOfMemory
from gcl_hard.experiments.population_limits import MOST, SHARE
from gcl_hard.graphs import GraphSet, Population, ViewPopulation
from gcl_hard.graphs.colours import ColouredSet
from gcl_hard.training.loop import Optimisation
from gcl_hard.training.memory import memory_for
from gcl_hard.training.population import seconds_per_step

TRIED = (1, 4, 16)
"""Sizes that are timed on a CPU."""
_CHOSEN: WeakKeyDictionary[ColouredSet | GraphSet, dict[tuple[object, ...], int]] = (
    WeakKeyDictionary()
)

SideBySide = Population | ViewPopulation


def best_size(n: int, population: Callable[[int], SideBySide]) -> int:
    """Members side by side that train fastest within memory.

    On a CPU sizes are timed, a few steps each, once for each shape on a data set; on a GPU a step
    of many costs hardly more than one of few.

    Args:
        n: how many there are to train.
        population: makes one of the first so many of them.

    Returns:
        From 1 to ``n``.
    """
    if n == 1:
        return 1
    one = population(1)
    kind = one.device.type
    most = min(n, max(1, free_memory(one.device) // one.memory_per_member()), MOST.get(kind, n))
    if kind != "cpu":
        return most
    data = one.coloured if isinstance(one, Population) else one.graphs
    known = _CHOSEN.setdefault(data, {})
    model = one.models[0]
    shape = type(model), one.batch_size, model.out_dim, most, torch.get_num_threads()
    if shape not in known:
        sizes = {1, *(size for size in TRIED if size < most), most}
        known[shape] = min(sorted(sizes), key=lambda size: _seconds(population, size))
    return known[shape]


def _seconds(population: Callable[[int], SideBySide], size: int) -> float:
    """Of a member's step; infinite where memory does not suffice."""
    try:
        with memory_for(lambda: f"out of memory with {size} members"):
            return seconds_per_step(population(size), Optimisation()) / size
    except OutOfMemory:
        return math.inf


def check_size(size: int, one: SideBySide) -> None:
    """Refuse more members than memory holds.

    Args:
        size: asked for.
        one: a population of one.

    Raises:
        OutOfMemory: with the estimate and how many fit.
    """
    each, free = one.memory_per_member(), free_memory(one.device)
    if size * each > free:
        raise OutOfMemory(
            f"{size} members need about {size * each / 1e9:.2g} GB ({each / 1e6:.3g} MB each), and "
            f"{free / 1e9:.2g} GB of {one.device} are theirs: use --members {max(1, free // each)} "
            f"or fewer, or auto"
        )


def free_memory(device: torch.device) -> int:
    """Bytes of a device that populations may fill."""
    share = SHARE.get(device.type, 0.5)
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(share * (free + unused))
    info = Path("/proc/meminfo")
    for line in info.read_text(encoding="utf-8").splitlines() if info.exists() else ():
        if line.startswith("MemAvailable:"):
            return int(share * 1024 * int(line.split()[1]))
    return 2**32
