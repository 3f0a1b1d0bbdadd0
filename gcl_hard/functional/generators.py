"""Seeded sources of randomness, one a device, whose state can be saved."""

from __future__ import annotations

from typing import Any

import torch


class Generators:
    """One generator a device, all from one seed, made when first asked for.

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
        """Where each generator stands."""
        return {key: generator.get_state() for key, generator in self._by_device.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        for key, value in state.items():
            self.on(torch.device(key)).set_state(value.cpu())
