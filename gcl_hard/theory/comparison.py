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
    masks = scores.others & scores.same, scores.others & ~scores.same
    log_h = log_integrand(scores).detach()
    t_pos = scores.t_pos.detach().double()
    n_same, n_other = (mask.sum(1) for mask in masks)
    n_others = n_same + n_other
    log_n = n_others.clamp(min=1).double().log()
    _, scl, ucl = _sums(torch.zeros_like(log_h), log_h, masks)
    comparisons = []
    for log_eta in log_etas:
        if log_eta.shape != scores.t.shape:
            raise InputError(f"log_eta must be {[*scores.t.shape]}, got {[*log_eta.shape]}")
        hcol, hscl, hucl = _sums(log_eta.detach().double(), log_h, masks)
        five = ucl, scl, hucl, hscl, hcol
        comparisons.append(LossComparison(
            PerDistribution(*(sums.eta_h - sums.eta for sums in five)),
            PerDistribution(*(sums.eta - log_n for sums in five)),
            PerDistribution(*((2 * sums.eta - sums.eta_eta).exp() for sums in five)),
            t_pos, n_others, n_same, scores.objective,
        ))  # fmt: skip
    return comparisons


class _Sums(NamedTuple):
    """Logs of Σ η h, Σ η and Σ η² over some candidates of each anchor, float64 [A] each."""

    eta_h: Tensor
    eta: Tensor
    eta_eta: Tensor


def _sums(log_eta: Tensor, log_h: Tensor, masks: tuple[Tensor, Tensor]) -> list[_Sums]:
    """The sums over candidates of the same label, over those of other labels, and over both."""
    parts = []
    for mask in masks:
        kept = torch.where(mask, log_eta, -math.inf)
        parts.append(_Sums(*(x.logsumexp(1) for x in (kept + log_h, kept, 2 * kept))))
    return [*parts, _Sums(*map(torch.logaddexp, *parts))]


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
