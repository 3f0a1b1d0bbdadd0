"""The negative distribution q in log space, expectations under it, draws from it, debiasing."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def log_negative_distribution(log_eta: Tensor, admitted: Tensor) -> tuple[Tensor, Tensor]:
    r"""Log q: admission times hardening, normalised per anchor.

    .. math:: \log q_{ij} = \log \eta_{ij} + \log 1[\text{admitted}_{ij}]
              - \operatorname{logsumexp}_j (\ldots)

    Entries that are not admitted may hold anything, NaN included: neither they nor their
    gradient are looked at.

    Args:
        log_eta: float [A, C], log hardening; −inf where η is 0.
        admitted: bool [A, C].

    Returns:
        ``log_q`` float [A, C], −inf where a candidate has no weight, and ``empty`` bool [A]:
        anchors without a negative, whose row of ``log_q`` is uniform so that nothing later
        meets a NaN; leave them out of the loss.

    Source:
        q_H-SCL of the H-SCL paper, section III-C.

    Example:
        >>> log_q, empty = log_negative_distribution(torch.zeros(1, 3),
        ...                                          torch.tensor([[True, True, False]]))
        >>> log_q.exp()
        tensor([[0.5000, 0.5000, 0.0000]])
    """
    log_eta = log_eta.masked_fill(~admitted, -math.inf)
    empty = (log_eta == -math.inf).all(1)
    return log_eta.masked_fill(empty[:, None], 0.0).log_softmax(1), empty


def log_expectation(log_q: Tensor, t: Tensor) -> Tensor:
    r"""Log of E_q[e^t], per anchor.

    .. math:: \log \mathbb{E}_q[e^t] = \operatorname{logsumexp}_j (\log q_{ij} + t_{ij})

    Args:
        log_q: float [A, C].
        t: float [A, C], logits; ignored where ``log_q`` is −inf.

    Returns:
        float [A].

    Example:
        >>> log_expectation(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 1.0]]))
        tensor([1.])
    """
    kept = log_q > -math.inf
    return (log_q + torch.where(kept, t, 0.0)).logsumexp(1)


def expectation(log_q: Tensor, h: Tensor) -> Tensor:
    r"""E_q[h], per anchor.

    .. math:: \mathbb{E}_q[h] = \sum_j q_{ij} h_{ij}

    Args:
        log_q: float [A, C].
        h: float [A, C], values; ignored where ``log_q`` is −inf.

    Returns:
        float [A].

    Example:
        >>> expectation(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 3.0]]))
        tensor([2.])
    """
    kept = log_q > -math.inf
    return (log_q.exp() * torch.where(kept, h, 0.0)).sum(1)


def draw(log_q: Tensor, k: int, generator: torch.Generator | None = None) -> Tensor:
    """k candidates per anchor, drawn with replacement from q.

    Args:
        log_q: float [A, C]; no gradient flows through the drawing.
        k: draws per anchor, ≥ 1.
        generator: source of randomness on the device of ``log_q``.

    Returns:
        int64 [A, k], indices of candidates.

    Source:
        ψ_k of the H-SCL paper, section III-A.

    Example:
        >>> draw(torch.tensor([[0.0, 1.0]]).log(), k=3)
        tensor([[1, 1, 1]])
    """
    return torch.multinomial(log_q.detach().exp(), k, replacement=True, generator=generator)


def log_debiased(log_e: Tensor, log_e_pos: Tensor, class_prior: float, floor: float) -> Tensor:
    r"""Log of the debiased expectation, clamped from below.

    .. math:: E^- = \max\left\{
              \frac{E_q[e^t] - \tau^+ E_{q^+}[e^t]}{1 - \tau^+},\; e^{\text{floor}} \right\}

    Args:
        log_e: float [A], log E_q[e^t].
        log_e_pos: float [A], log E_{q⁺}[e^t], over the anchor's positives.
        class_prior: τ⁺ in [0, 1): probability that a candidate shares the anchor's class.
        floor: log of the smallest value allowed; −1/γ is the smallest that e^t can be.

    Returns:
        float [A]; where the clamp acts the gradient is zero.

    Source:
        Robinson et al. (2021), Eq. 2 for the difference. The clamp is that of its code, e^{−1/γ}
        for the mean and so N e^{−1/γ} for the sum (its N is our weight M); Fig. 5 writes
        e^{−1/t} for the sum, and Eq. 2 has none.

    Example:
        >>> log_debiased(torch.zeros(1), torch.zeros(1), class_prior=0.1, floor=-2.0).abs() < 1e-6
        tensor([True])
    """
    if class_prior == 0.0:
        return log_e.clamp(min=floor)
    gap = log_e_pos + math.log(class_prior) - log_e
    above = gap < 0
    # log(1 − e^gap) only where it is defined, or its gradient is NaN behind the where.
    rest = torch.log(-torch.expm1(torch.where(above, gap, -1.0)))
    debiased = log_e + rest - math.log1p(-class_prior)
    return torch.where(above, debiased, floor).clamp(min=floor)


def debiased(e: Tensor, e_pos: Tensor, class_prior: float) -> Tensor:
    r"""The debiased expectation of a non-negative integrand, clamped at 0.

    .. math:: E^- = \max\left\{ \frac{E_q[h] - \tau^+ E_{q^+}[h]}{1 - \tau^+},\; 0 \right\}

    Args:
        e: float [A], E_q[h], h = softplus(t) for JSD.
        e_pos: float [A], E_{q⁺}[h].
        class_prior: τ⁺ in [0, 1).

    Returns:
        float [A].

    Source:
        Robinson et al. (2021), Eq. 2, by analogy for the JSD objective.

    Example:
        >>> debiased(torch.tensor([1.0]), torch.tensor([1.0]), class_prior=0.5)
        tensor([1.])
    """
    return ((e - class_prior * e_pos) / (1 - class_prior)).clamp(min=0.0)
