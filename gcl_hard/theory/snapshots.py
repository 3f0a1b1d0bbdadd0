"""Snapshots of the theory's quantities: when they are taken, and the hardenings compared."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from gcl_hard.functional.hardening import Exponential, Hardening, Threshold, Uniform

Points = dict[str, NDArray[Any]]
"""A batch as arrays: tensors of :class:`Batch`, ``temperature``, ``objective``, and under JSD
``similarity``."""


SETTINGS: dict[str, Hardening] = {
    "l=-0.25": Threshold(-0.25),
    "l=-0.05": Threshold(-0.05),
    "beta=1": Exponential(1.0),
    "beta=2": Exponential(2.0),
}
"""Hardenings of H-SCL's Fig. 4 and 5: τ = e^(−0.5) and e^(−0.1) at γ = 0.5, β = 1 and 2."""


OWN = "own"
"""Name of the training's hardening, if it is none of these."""


def snapshot_epochs(every: int, epochs: int) -> list[int]:
    """Epochs with a snapshot: every ``every``-th, and the last.

    Args:
        every: epochs between snapshots; 0 for none.
        epochs: epochs of the training.

    Example:
        >>> snapshot_epochs(10, 25), snapshot_epochs(10, 5), snapshot_epochs(0, 5)
        ([10, 20, 25], [5], [])
    """
    if not every:
        return []
    return [*range(every, epochs, every), epochs]


def with_own(current: Hardening) -> dict[str, Hardening]:
    """The paper's hardenings, and the training's if it is another.

    Args:
        current: the sampler's hardening in this epoch.

    Example:
        >>> list(with_own(Exponential(2.0))) == list(SETTINGS), list(with_own(Exponential(5.0)))[-1]
        (True, 'own')
    """
    if isinstance(current, Uniform) or name_of(current) in SETTINGS:
        return SETTINGS
    return {**SETTINGS, OWN: current}


def name_of(hardening: Hardening) -> str:
    """Name of a hardening, as in the keys of :data:`SETTINGS`.

    Example:
        >>> name_of(Exponential(5.0)), name_of(Threshold(-0.1))
        ('beta=5', 'l=-0.1')
    """
    if isinstance(hardening, Exponential) and isinstance(hardening.beta, float | int):
        return f"beta={_rounded(hardening.beta):g}"
    if isinstance(hardening, Threshold) and isinstance(hardening.cosine, float | int):
        return f"l={_rounded(hardening.cosine):g}"
    return type(hardening).__name__


def _rounded(scheduled: float) -> float:
    """A scheduled value rounded to remove floating-point noise; −0 becomes 0."""
    return round(scheduled, 6) + 0.0


Snapshot = dict[str, Any]
"""``epoch``, ``anchors``, ``settings`` by hardening, ``geometry``, and perhaps ``histograms``."""
