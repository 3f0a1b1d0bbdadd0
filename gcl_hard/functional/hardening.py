"""Hardening functions η: negatives that resemble their anchor more get more weight.

All work in log space on whole rows (anchors × candidates), so that the sampler treats an
elementwise η and one that depends on the row alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from gcl_hard.errors import InputError, check_number
from gcl_hard.functional.schedules import Schedule, as_schedule

DEVIATIONS = 10.0
"""Deviations up to which a hardening is checked."""


class Rows(NamedTuple):
    """Input of a hardening: similarities of anchors × candidates.

    Attributes:
        similarity: cosine similarities s, float [A, C], in [−1, 1]; under JSD their stand-in
            (:func:`~gcl_hard.functional.hardness.jsd_hardness`).
        temperature: γ > 0; t = s / γ.
        log_integrand: log of the loss's integrand, float [A, C]: t for InfoNCE,
            log softplus(t) for JSD. Only row-wise hardenings use it.
        others: bool [A, C] or broadcastable: the candidates that are neither the anchor nor its
            other view; a mean threshold averages over them.
        bounded: whether similarities are in [−1, 1]; else they are in deviations.
        admitted: bool [A, C], the others that labels allow as negatives; None for all of them.
    """

    similarity: Tensor
    temperature: float
    log_integrand: Tensor
    others: Tensor
    bounded: bool = True
    admitted: Tensor | None = None

    @property
    def negatives(self) -> Tensor:
        """The candidates that may be negatives, bool [A, C]."""
        negatives = self.others if self.admitted is None else self.admitted
        return negatives.expand_as(self.similarity)


class Hardening(ABC):
    r"""A non-negative, non-decreasing function η of t = s / γ.

    Source:
        Jiang, Nguyen, Ishwar, Aeron, *Supervised Contrastive Learning with Hard Negative
        Samples*, Definition 1.
    """

    row_wise = False
    """Whether η depends on the whole row and not on t alone."""

    batch_wide = False
    """Whether η depends on the rows of the other anchors, too."""

    step = False
    """Whether η is 0 or 1."""

    positive: bool = True
    """Whether η(t) > 0 for every t in [−1/γ, 1/γ]; debiasing needs it."""

    @abstractmethod
    def log_eta(self, rows: Rows) -> Tensor:
        """Log η, float [A, C], −inf where η is 0."""

    def slope(self, temperature: float) -> float | None:
        """d log η / ds where η > 0, if it is constant, else None."""
        return None

    def at(self, epoch: int, epochs: int) -> Hardening:
        """The hardening in ``epoch`` (from 1) of ``epochs``."""
        return self

    def check(self, temperature: float, *, bounded: bool = True) -> None:
        """Raise InputError if this is no hardening at ``temperature`` (Definition 1).

        Elementwise hardenings are evaluated on a grid of [−1/γ, 1/γ], or of ±10 deviations if
        similarities are unbounded; row-wise ones are not checked.
        """
        if self.row_wise:
            return
        with torch.device("cpu"):  # under torch.device("meta") there are no values
            self._check(temperature, bounded=bounded)

    def _check(self, temperature: float, *, bounded: bool) -> None:
        end = 1 / temperature if bounded else DEVIATIONS
        t = torch.linspace(-end, end, 201, dtype=torch.float64)
        log_eta = self._on(t, temperature)
        halves = torch.cat([self._on(half, temperature) for half in (t[:100], t[100:])])
        if not torch.equal(log_eta.nan_to_num(), halves.nan_to_num()):
            raise InputError("a hardening must work elementwise: this one reads other entries")
        if (bad := log_eta.isnan() | (log_eta == math.inf)).any():
            i = int(bad.nonzero()[0])
            raise InputError(f"log η must be below +inf, got {log_eta[i]} at t = {t[i]:.3g}")
        if self.positive and (log_eta == -math.inf).any():
            raise InputError("positive=True, but log η is -inf somewhere on [−1/γ, 1/γ]")
        if len(falls := (log_eta[1:] < log_eta[:-1]).nonzero()):
            i = int(falls[0])
            raise InputError(
                f"a hardening must not decrease (Definition 1), but this one falls from "
                f"{log_eta[i]:.3g} to {log_eta[i + 1]:.3g} at t = {t[i + 1]:.3g}"
            )

    def _on(self, t: Tensor, temperature: float) -> Tensor:
        """Log η at the values t, float [len(t)]."""
        row = t[None]
        rows = Rows(row * temperature, temperature, row, torch.ones_like(row, dtype=torch.bool))
        log_eta = self.log_eta(rows)
        if not isinstance(log_eta, Tensor) or log_eta.shape != row.shape:
            raise InputError("a hardening must work elementwise, as a tensor of the shape of t")
        return log_eta[0]


@dataclass(frozen=True)
class Uniform(Hardening):
    """No hardening, η = 1: all admitted negatives have the same weight.

    Example:
        >>> s = torch.tensor([[0.1, 0.9]])
        >>> Uniform().log_eta(Rows(s, 0.5, s / 0.5, torch.ones_like(s, dtype=torch.bool)))
        tensor([[0., 0.]])
    """

    def slope(self, temperature: float) -> float:
        """0."""
        return 0.0

    def log_eta(self, rows: Rows) -> Tensor:
        """Zeros, float [A, C]."""
        return torch.zeros_like(rows.similarity)


@dataclass(frozen=True)
class Exponential(Hardening):
    r"""Exponential tilting with concentration β.

    .. math:: \eta(t) = e^{\beta t}, \qquad t = s / \gamma

    β acts after the temperature: to use a β that another code applies to the cosine, multiply
    it by γ.

    Args:
        beta: concentration, ≥ 0, unitless, or a schedule of it; 0 is no hardening.

    Raises:
        InputError: if β is negative, NaN or infinite anywhere on its schedule.

    Source:
        Robinson, Chuang, Sra, Jegelka (2021), *Contrastive Learning with Hard Negative Samples*,
        section 3; η_exp of the H-SCL paper, section III-C.

    Example:
        >>> s = torch.tensor([[0.0, 0.5]])
        >>> Exponential(beta=2.0).log_eta(Rows(s, 0.5, s / 0.5, s > -1))
        tensor([[0., 2.]])
    """

    beta: float | Schedule = 1.0

    def __post_init__(self) -> None:
        for bound in as_schedule(self.beta, "beta").bounds:
            check_number("beta", bound, least=0)

    def at(self, epoch: int, epochs: int) -> Self:
        """The hardening with β as scheduled for ``epoch``."""
        return replace(self, beta=as_schedule(self.beta).at(epoch, epochs))

    def slope(self, temperature: float) -> float:
        """β / γ."""
        return now(self.beta) / temperature

    def log_eta(self, rows: Rows) -> Tensor:
        """β s / γ, float [A, C]."""
        return rows.similarity * self.slope(rows.temperature)


@dataclass(frozen=True)
class Threshold(Hardening):
    r"""Step at a cosine similarity l: only negatives at least that similar count.

    .. math:: \eta(t) = 1[s \ge l] = 1[e^t \ge \tau], \qquad \tau = e^{l / \gamma}

    Args:
        cosine: l ≤ 1, or a schedule of it; l ≤ −1 admits every candidate. Under JSD with a hardness
            in deviations (``"anchor"``, ``"rank"``) it is their number, of any size; then only −∞
            admits every candidate.

    Raises:
        InputError: if l is NaN anywhere on its schedule; by the loss, if it is above 1 and no
            deviation.

    Source:
        H-SCL paper, section IV-A and Eq. 4. Its text says "similarity ≥ γτ" where
        e^t ≥ τ means s ≥ γ ln τ.

    Example:
        >>> s = torch.tensor([[-0.2, 0.3]])
        >>> Threshold(0.0).log_eta(Rows(s, 0.5, s / 0.5, s > -1))
        tensor([[-inf, 0.]])
        >>> round(Threshold.from_tau(math.exp(-0.5), temperature=0.5).cosine, 3)
        -0.25
    """

    cosine: float | Schedule
    positive = False

    def __post_init__(self) -> None:
        as_schedule(self.cosine, "a threshold")

    def check(self, temperature: float, *, bounded: bool = True) -> None:
        """Raise InputError for a cosine above 1."""
        if bounded and as_schedule(self.cosine).bounds[1] > 1:
            raise InputError(f"a threshold is a cosine, at most 1, got {self.cosine}")

    @classmethod
    def from_tau(cls, tau: float, temperature: float) -> Self:
        """The step 1[e^t ≥ τ] for a literal τ > 0: l = γ ln τ."""
        check_number("tau", tau, above=0)
        return cls(temperature * math.log(tau))

    def at(self, epoch: int, epochs: int) -> Self:
        """The hardening with l as scheduled for ``epoch``."""
        return replace(self, cosine=as_schedule(self.cosine).at(epoch, epochs))

    def slope(self, temperature: float) -> float:
        """0 on either side of the step."""
        return 0.0

    def log_eta(self, rows: Rows) -> Tensor:
        """0 where s ≥ l, −inf elsewhere, float [A, C]."""
        kept = torch.zeros_like(rows.similarity)
        least = self.least(kept.dtype, bounded=rows.bounded)
        return kept if least is None else kept.masked_fill(rows.similarity < least, -math.inf)

    def least(self, dtype: torch.dtype, *, bounded: bool = True) -> float | None:
        """The smallest similarity that counts, rounding allowed for; None if all do."""
        cosine = now(self.cosine)
        if cosine <= (-1 if bounded else -math.inf):
            return None
        # The cosine of equal rows may round to just below 1, that of opposite rows to below −1.
        return cosine - 4 * torch.finfo(dtype).eps


@dataclass(frozen=True)
class Custom(Hardening):
    """A custom hardening, given as a function log η.

    Args:
        function: maps t = s / γ, float tensor of any shape, elementwise to log η(t) of the same
            shape; −inf where η is 0. It must be non-decreasing on [−1/γ, 1/γ].
        positive: True if η is above 0 on all of [−1/γ, 1/γ]; debiasing needs it.

    Source:
        H-SCL paper, Definition 1.

    Example:
        >>> ring = Custom(lambda t: t.clamp(max=1.0))
        >>> ring.check(temperature=0.5)
        >>> Custom(lambda t: -t).check(temperature=0.5)
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: a hardening must not decrease (Definition 1), but this one \
falls from 2 to 1.98 at t = -1.98
    """

    function: Callable[[Tensor], Tensor]
    positive: bool = False

    def log_eta(self, rows: Rows) -> Tensor:
        """The function at t = s / γ, float [A, C]."""
        return self.function(rows.similarity / rows.temperature)


def as_hardening(value: Hardening | Callable[[Tensor], Tensor] | None) -> Hardening:
    """Convert None to Uniform and a function t → log η(t) to Custom; keep a hardening.

    Args:
        value: a hardening, a function or None.

    Returns:
        A hardening.

    Raises:
        InputError: for anything else, such as a number.

    Example:
        >>> as_hardening(None)
        Uniform()
    """
    if value is None:
        return Uniform()
    if isinstance(value, type) or not (isinstance(value, Hardening) or callable(value)):
        raise InputError(f"hardening is one such as Exponential(beta=1.0), got {value!r}")
    return value if isinstance(value, Hardening) else Custom(value)


def now(value: float | Schedule) -> float:
    """The current value of a parameter; before any epoch that of the first."""
    return value.at(1, 1) if isinstance(value, Schedule) else value
