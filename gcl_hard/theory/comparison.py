"""Expectations under the negative distributions of the four losses, anchor by anchor.

Everything is computed in float64 and in logs. Without support a distribution's expectation is NaN
and its log α −inf; a NaN score makes the expectation NaN, but not log α −inf.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.objectives import Objective
from gcl_hard.theory.similarity import ScoreTable, log_integrand

TINY = 1e-200
"""A sum of products below this has lost digits."""


class PerDistribution(NamedTuple):
    """A number per anchor for each negative distribution, float64 [A] each.

    Attributes:
        ucl: all others.
        scl: others of another label.
        hucl: all others, hardened.
        hscl: others of another label, hardened.
        hcol: others of the anchor's label, hardened: the collisions.
    """

    ucl: Tensor
    scl: Tensor
    hucl: Tensor
    hscl: Tensor
    hcol: Tensor


class LossComparison(NamedTuple):
    """The components of the losses of a batch, per anchor.

    Attributes:
        log_mean: log E_q[h], NaN where q has no support.
        log_alpha: log α, −inf where q has no support.
        effective: 1/Σq², the effective number of negatives, NaN where q has no support.
        t_pos: float64 [A], t⁺.
        n_others: int64 [A], the weight M, common to all losses.
        n_same: int64 [A], others that carry the anchor's label.
        objective: ``"infonce"`` (h = e^t) or ``"jsd"`` (h = softplus(t)).
    """

    log_mean: PerDistribution
    log_alpha: PerDistribution
    effective: PerDistribution
    t_pos: Tensor
    n_others: Tensor
    n_same: Tensor
    objective: Objective


def compare(scores: ScoreTable, log_eta: Tensor) -> LossComparison:
    r"""Expectations of the integrand under the five negative distributions, per anchor.

    .. math:: \alpha = \mathbb{E}_{\text{others}}[1[\text{admitted}]\, \eta], \qquad
              \mathbb{E}_q[h] = \mathbb{E}_{\text{others}}[1[\text{admitted}]\, \eta\, h] / \alpha

    with η = 1 for UCL and SCL; h = e^t or softplus(t).

    Args:
        scores: scores of the batch; they may hold anything outside ``others``.
        log_eta: float [A, K], −inf where η is 0; may hold anything outside ``others``.

    Returns:
        :class:`LossComparison`.

    Raises:
        InputError: for a ``log_eta`` of another shape.

    Source:
        H-SCL paper, Proposition 1 and sections III-B, III-C and IV.

    Example:
        >>> from gcl_hard.theory.similarity import two_view_scores
        >>> z = torch.eye(3)
        >>> scores = two_view_scores(z, z, torch.tensor([0, 0, 1]))
        >>> compare(scores, torch.zeros(6, 6)).log_alpha.hcol.exp()
        tensor([0.5000, 0.5000, 0.0000, 0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    return compare_each(scores, [log_eta])[0]


def compare_each(scores: ScoreTable, log_etas: Iterable[Tensor]) -> list[LossComparison]:
    """Compare several hardenings on one batch, sharing what does not depend on them.

    Args:
        scores: as for :func:`compare`.
        log_etas: each as for :func:`compare`.

    Returns:
        One :class:`LossComparison` per hardening.

    Raises:
        InputError: for a ``log_eta`` of another shape.

    Example:
        >>> from gcl_hard.theory.similarity import two_view_scores
        >>> scores = two_view_scores(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
        >>> len(compare_each(scores, [torch.zeros(4, 4), scores.t]))
        2
    """
    parts = _Parts.of(scores)
    log_h = log_integrand(scores).detach()
    t_pos = scores.t_pos.detach().double()
    n_others, n_same, n_other = (mask.sum(1) for mask in (parts.either, parts.same, parts.other))
    log_n = n_others.clamp(min=1).double().log()
    h = _powers(log_h, parts)
    same, other = (sums.log() + top for sums, top in zip(parts.sums(h.values), h.tops, strict=True))
    ucl, scl = torch.logaddexp(same, other), other
    counts = n_others.double().log(), n_other.double().log()
    plain = [_Sums(log_sum, n, n) for log_sum, n in zip((ucl, scl), counts, strict=True)]
    comparisons = []
    for log_eta in log_etas:
        if log_eta.shape != scores.t.shape:
            raise InputError(f"log_eta must be {[*scores.t.shape]}, got {[*log_eta.shape]}")
        five = *plain, *_hardened(log_eta.detach().double(), log_h, h, parts)
        comparisons.append(LossComparison(
            PerDistribution(*(sums.eta_h - sums.eta for sums in five)),
            PerDistribution(*(sums.eta - log_n for sums in five)),
            PerDistribution(*((2 * sums.eta - sums.eta_eta).exp() for sums in five)),
            t_pos, n_others, n_same, scores.objective,
        ))  # fmt: skip
    return comparisons


class _Parts(NamedTuple):
    """The others of each anchor, those of its label and those of other labels.

    As bool [A, K], and the latter two also as float64 [A, K] of zeros and ones.
    """

    either: Tensor
    same: Tensor
    other: Tensor
    is_same: Tensor
    is_other: Tensor

    @classmethod
    def of(cls, scores: ScoreTable) -> _Parts:
        same, other = scores.others & scores.same, scores.others & ~scores.same
        return cls(scores.others, same, other, same.double(), other.double())

    def sums(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Row sums over the candidates of the same label and over those of other labels."""
        return (values * self.is_same).sum(1), (values * self.is_other).sum(1)


class _Powers(NamedTuple):
    """Exponentials relative to the largest of each part, float64 [A, K]; 0 outside the parts."""

    values: Tensor
    tops: tuple[Tensor, Tensor]  # largest exponents [A] of both parts; 0 where a part is empty


class _Sums(NamedTuple):
    """Logs of Σ η h, Σ η and Σ η² over some candidates of each anchor, float64 [A] each."""

    eta_h: Tensor
    eta: Tensor
    eta_eta: Tensor


def _hardened(log_eta: Tensor, log_h: Tensor, h: _Powers, parts: _Parts) -> list[_Sums]:
    """The sums of H-UCL, H-SCL and Hcol."""
    eta = _powers(log_eta, parts)
    eta_sums = parts.sums(eta.values)
    products = h.values * eta.values
    product_sums = parts.sums(products)
    tops = [a + b for a, b in zip(h.tops, eta.tops, strict=True)]
    if any(
        bool(((product < TINY) & (sums > 0)).any())
        for product, sums in zip(product_sums, eta_sums, strict=True)
    ):  # if η falls where h rises, both factors may underflow though the product does not
        both = _powers(log_eta + log_h, parts)
        product_sums, tops = parts.sums(both.values), list(both.tops)
    eta_h = [sums.log() + top for sums, top in zip(product_sums, tops, strict=True)]
    once = [sums.log() + top for sums, top in zip(eta_sums, eta.tops, strict=True)]
    squares = parts.sums(eta.values.square())
    twice = [sums.log() + 2 * top for sums, top in zip(squares, eta.tops, strict=True)]
    united = [torch.logaddexp(*pair) for pair in (eta_h, once, twice)]
    each = [_Sums(*logs) for logs in zip(eta_h, once, twice, strict=True)]
    return [_Sums(*united), each[1], each[0]]


def _powers(values: Tensor, parts: _Parts) -> _Powers:
    tops = [torch.where(mask, values, -math.inf).amax(1) for mask in (parts.same, parts.other)]
    same_top, other_top = (torch.where(top == -math.inf, 0.0, top) for top in tops)
    below = torch.where(parts.either, values, -math.inf) - other_top[:, None]
    below.addcmul_(parts.is_same, (other_top - same_top)[:, None])
    return _Powers(below.exp_(), (same_top, other_top))


def joined(parts: Sequence[LossComparison]) -> LossComparison:
    """Comparisons of several batches as one, so that means run over anchors, not over batches.

    Args:
        parts: at least one, all of one objective.

    Returns:
        :class:`LossComparison` of all their anchors.

    Raises:
        InputError: if there are none, or their objectives differ.

    Example:
        >>> from gcl_hard.theory.similarity import two_view_scores
        >>> scores = two_view_scores(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
        >>> len(joined([compare(scores, torch.zeros(4, 4))] * 3).t_pos)
        12
    """
    kinds = {part.objective for part in parts}
    if len(kinds) != 1:
        raise InputError(f"parts must be comparisons of one objective, got {sorted(kinds)}")
    *columns, objectives = zip(*parts, strict=True)
    log_mean, log_alpha, effective = (
        PerDistribution(*map(torch.cat, zip(*column, strict=True))) for column in columns[:3]
    )
    t_pos, n_others, n_same = map(torch.cat, columns[3:])
    return LossComparison(log_mean, log_alpha, effective, t_pos, n_others, n_same, objectives[0])
