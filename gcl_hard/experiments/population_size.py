"""Whether memory holds an ensemble."""

from __future__ import annotations

from pathlib import Path

import torch

from gcl_hard.errors import OutOfMemory
from gcl_hard.experiments.population_limits import SHARE
from gcl_hard.graphs import Population, ViewPopulation

SideBySide = Population | ViewPopulation


def check_size(size: int, one: SideBySide) -> None:
    """Refuse more models than memory holds.

    Args:
        size: of the ensemble.
        one: an ensemble of one.

    Raises:
        OutOfMemory: with the estimate and how many fit.
    """
    each, free = one.memory_per_member(), free_memory(one.device)
    if size * each > free:
        raise OutOfMemory(
            f"{size} members need about {size * each / 1e9:.2g} GB ({each / 1e6:.3g} MB each), and "
            f"{free / 1e9:.2g} GB of {one.device} are theirs: use --members {max(1, free // each)} "
            f"or fewer"
        )


def free_memory(device: torch.device) -> int:
    """Bytes of a device that an ensemble may fill."""
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
