"""The hardenings that every look compares, and when looks are taken."""

from __future__ import annotations

from gcl_hard.functional.hardening import Exponential, Hardening, Threshold, Uniform

SETTINGS: dict[str, Hardening] = {
    "l=-0.25": Threshold(-0.25),
    "l=-0.05": Threshold(-0.05),
    "beta=1": Exponential(1.0),
    "beta=2": Exponential(2.0),
}
"""Those of the H-SCL paper's Fig. 4 and 5: τ = e^(−0.5) and e^(−0.1) at γ = 0.5, β = 1 and 2."""
OWN = "own"
"""What the hardening of the training itself is called where it is none of them."""


def looked_at(every: int, epochs: int) -> list[int]:
    """Epochs after which an encoder is looked at: every so many, and the last.

    Args:
        every: 0 for none.
        epochs: of the training.

    Example:
        >>> looked_at(10, 25), looked_at(10, 5), looked_at(0, 5)
        ([10, 20, 25], [5], [])
    """
    if not every:
        return []
    return [*range(every, epochs, every), epochs]


def with_own(current: Hardening) -> dict[str, Hardening]:
    """The paper's settings, and the hardening that training uses if it is another.

    Args:
        current: of the sampler, as it is in this epoch.

    Example:
        >>> list(with_own(Exponential(2.0))) == list(SETTINGS), list(with_own(Exponential(5.0)))[-1]
        (True, 'own')
    """
    if isinstance(current, Uniform) or name_of(current) in SETTINGS:
        return SETTINGS
    return {**SETTINGS, OWN: current}


def name_of(hardening: Hardening) -> str:
    """A hardening as the keys of :data:`SETTINGS` write it.

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
    """Without what a schedule's arithmetic leaves, and never −0."""
    return round(scheduled, 6) + 0.0
