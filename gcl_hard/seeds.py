"""Seeds and random generators derived from whole numbers."""

from __future__ import annotations

from typing import Any

import torch


def seed_for(*key: int) -> int:
    """A seed derived from whole numbers such as seed, epoch and step.

    Args:
        key: each from 0 to 2**32 − 1; different keys of the same length give unrelated seeds.

    Returns:
        A 64-bit number.

    Example:
        >>> seed_for(0, 1) == seed_for(0, 1), seed_for(0, 1) == seed_for(1, 0)
        (True, False)
    """
    import numpy as np  # `import gcl_hard` needs torch alone

    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])


def seeded(*key: int) -> torch.Generator:
    """A new generator on the CPU; arguments as for :func:`seed_for`.

    Example:
        >>> torch.randperm(4, generator=seeded(0, 1)).sort().values
        tensor([0, 1, 2, 3])
    """
    return torch.Generator().manual_seed(seed_for(*key))


class Generators:
    """One generator per device, created on first use from one seed; their state can be saved.

    Args:
        seed: ≥ 0.

    Example:
        >>> a, b = Generators(0), Generators(0)
        >>> cpu = torch.device("cpu")
        >>> _ = torch.rand(3, generator=a.on(cpu))
        >>> b.restore(a.state())
        >>> bool(torch.rand(1, generator=a.on(cpu)) == torch.rand(1, generator=b.on(cpu)))
        True
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._by_device: dict[str, torch.Generator] = {}

    def on(self, device: torch.device) -> torch.Generator:
        """The generator of a device."""
        key = str(device)
        if key not in self._by_device:
            self._by_device[key] = torch.Generator(device).manual_seed(self.seed)
        return self._by_device[key]

    def state(self) -> dict[str, Any]:
        """The state of each generator."""
        return {key: generator.get_state() for key, generator in self._by_device.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state` returned."""
        self._by_device.clear()
        for key, value in state.items():
            self.on(torch.device(key)).set_state(value.cpu())
