"""What the four losses average, on one batch and anchor by anchor.

Everything is taken in float64 and in logs. An anchor's expectation under a distribution without
support is NaN, and its log α is −inf; what is NaN among its own scores comes back as NaN under a
log α that is not −inf.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional import masked
from gcl_hard.functional.negatives import log_expectation, log_negative_distribution
from gcl_hard.functional.scores import Objective, Scores, log_integrand


class PerDistribution(NamedTuple):
    """A number per anchor under each negative distribution, float64 [A] each.

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


class Comparison(NamedTuple):
    """What the losses of a batch are made of, per anchor.

    Attributes:
        log_mean: log E_q[h], NaN where q has no support.
        log_alpha: log α, −inf there.
        t_pos: float64 [A], t⁺.
        n_others: int64 [A], M of every loss.
        n_same: int64 [A], others that carry the anchor's label.
        objective: ``"infonce"`` (h = e^t) or ``"jsd"`` (h = softplus(t)).
    """

    log_mean: PerDistribution
    log_alpha: PerDistribution
    t_pos: Tensor
    n_others: Tensor
    n_same: Tensor
    objective: Objective


def compare(scores: Scores, log_eta: Tensor) -> Comparison:
    r"""Expectations of the integrand under the five negative distributions, per anchor.

    .. math:: \alpha = \mathbb{E}_{\text{others}}[1[\text{admitted}]\, \eta], \qquad
              \mathbb{E}_q[h] = \mathbb{E}_{\text{others}}[1[\text{admitted}]\, \eta\, h] / \alpha

    with η = 1 for UCL and SCL; h = e^t or softplus(t).

    Args:
        scores: the table; outside ``others`` it may hold anything.
        log_eta: float [A, K], −inf where η is 0; outside ``others`` it may hold anything.

    Returns:
        :class:`Comparison`.

    Raises:
        InputError: for a ``log_eta`` of another shape.

    Source:
        H-SCL paper, Proposition 1 and sections III-B, III-C and IV.

    Example:
        >>> from gcl_hard.functional.scores import two_view_scores
        >>> z = torch.eye(3)
        >>> scores = two_view_scores(z, z, torch.tensor([0, 0, 1]))
        >>> compare(scores, torch.zeros(6, 6)).log_alpha.hcol.exp()
        tensor([0.5000, 0.5000, 0.0000, 0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    if log_eta.shape != scores.t.shape:
        raise InputError(
            f"log_eta must have the shape of the scores, {list(scores.t.shape)}, got "
            f"{list(log_eta.shape)}"
        )
    others, same = scores.others, scores.same
    log_h, log_eta = log_integrand(scores).detach(), log_eta.detach().double()
    log_n = others.sum(1).clamp(min=1).double().log()

    def plain(admitted: Tensor) -> tuple[Tensor, Tensor]:
        log_count = admitted.sum(1).double().log()
        log_mean = masked.logsumexp(log_h, admitted)[:, 0] - log_count
        return log_mean.where(log_count > -math.inf, math.nan), log_count - log_n

    def hardened(admitted: Tensor) -> tuple[Tensor, Tensor]:
        log_q, empty = log_negative_distribution(log_eta, admitted)
        log_mean = log_expectation(log_q, log_h).masked_fill(empty, math.nan)
        # log Σ η = log η − log q at every candidate, and so at the hardest.
        hardest = log_eta.masked_fill(~admitted, -math.inf).amax(1)
        return log_mean, hardest - log_q.amax(1) - log_n

    found = (
        plain(others),
        plain(others & ~same),
        hardened(others),
        hardened(others & ~same),
        hardened(others & same),
    )
    log_mean, log_alpha = zip(*found, strict=True)
    return Comparison(
        PerDistribution(*log_mean), PerDistribution(*log_alpha), scores.t_pos.detach().double(),
        others.sum(1), (others & same).sum(1), scores.objective,
    )  # fmt: skip


def joined(parts: Sequence[Comparison]) -> Comparison:
    """Batches as one, so that means run over anchors and not over batches.

    Args:
        parts: at least one, of one objective.

    Returns:
        :class:`Comparison` of all their anchors.

    Raises:
        InputError: for none, or for two objectives.

    Example:
        >>> from gcl_hard.functional.scores import two_view_scores
        >>> scores = two_view_scores(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
        >>> len(joined([compare(scores, torch.zeros(4, 4))] * 3).t_pos)
        12
    """
    kinds = {part.objective for part in parts}
    if len(kinds) != 1:
        raise InputError(f"parts must be comparisons of one objective, got {sorted(kinds)}")

    def cat(tensors: Iterable[Tensor]) -> Tensor:
        return torch.cat(list(tensors))

    def cat_each(five: Iterable[PerDistribution]) -> PerDistribution:
        return PerDistribution(*map(cat, zip(*five, strict=True)))

    return Comparison(
        cat_each(part.log_mean for part in parts),
        cat_each(part.log_alpha for part in parts),
        cat(part.t_pos for part in parts),
        cat(part.n_others for part in parts),
        cat(part.n_same for part in parts),
        parts[0].objective,
    )
