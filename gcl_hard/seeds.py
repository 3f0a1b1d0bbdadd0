"""Seeds and generators made from the whole numbers that say what a draw is for."""

from __future__ import annotations

import numpy as np
import torch


def seed_for(*key: int) -> int:
    """A seed for whole numbers such as seed, epoch and step.

    Args:
        key: from 0 to 2**32 − 1 each; other keys of the same length give unrelated seeds.

    Returns:
        A number of 64 bits.

    Example:
        >>> seed_for(0, 1) == seed_for(0, 1), seed_for(0, 1) == seed_for(1, 0)
        (True, False)
    """
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])


def seeded(*key: int) -> torch.Generator:
    """A new generator on the CPU; arguments as in :func:`seed_for`.

    Example:
        >>> torch.randperm(4, generator=seeded(0, 1)).sort().values
        tensor([0, 1, 2, 3])
    """
    return torch.Generator().manual_seed(seed_for(*key))
