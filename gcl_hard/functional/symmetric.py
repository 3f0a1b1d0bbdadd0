r"""InfoNCE of views where every candidate is an anchor: each score is made once for both its ends.

.. math:: t_{ij} = x_i x_j, \quad x = z / \sqrt{\gamma}, \qquad
          \frac{\partial \ell}{\partial x_i} = \sum_j (P_{ij} + P_{ji})\, x_j

with P the slopes of the loss in the scores. A first pass over tiles on and above the diagonal adds
up both ends' sums, a second one makes the tiles again and turns them into P + Pᵀ: four products of
matrices of half the scores, where :mod:`gcl_hard.functional.streaming`, its oracle, has three of
all. All views of an item are next to each other, so that masks are needed only near the diagonal.
No maximum of a row is needed, as scores are between −1/γ and 1/γ; where their exponentials could
leave the range of numbers that module takes over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gcl_hard.functional.hardening import Exponential, Uniform
from gcl_hard.functional.negatives import log_debiased
from gcl_hard.functional.objectives import infonce
from gcl_hard.functional.plan import Pairing, Plan, Totals, unit
from gcl_hard.functional.streaming import refuse_second_derivative

TILE = 256
"""Rows and columns of a tile on a CPU: it stays in a second-level cache while it is worked on."""
TILE_ELSEWHERE = 4096
"""Rows and columns of a tile on another device."""
FEWEST_TILES = 4
"""Tiles along a side from which half the scores in two passes are less work than all in one."""


def is_symmetric(pairing: Pairing, plan: Plan) -> bool:
    """Whether :func:`symmetric` can take a batch, and is faster."""
    z, hardening, gamma = pairing.candidates, plan.hardening, plan.temperature
    if pairing.anchors is not z or plan.admit != "others" or plan.class_positives:
        return False
    if type(hardening) not in (Uniform, Exponential) or isinstance(gamma, Tensor):
        return False
    if len(z) != pairing.n_views * pairing.n_items or len(z) < FEWEST_TILES * _side(z):
        return False
    if pairing.n_items < 2 or (pairing.n_views > 2 and plan.class_prior is not None):
        return False
    if plan.log_weights(pairing.items[:1], pairing.columns[:1], z.dtype) is not None:
        return False
    largest = (1 + (hardening.slope(1.0) or 0.0)) / gamma + math.log(len(z))
    return bool(largest < -math.log(torch.finfo(z.dtype).tiny) / 2)


def symmetric(pairing: Pairing, plan: Plan) -> Totals:
    """InfoNCE of a batch, each score made once for both its ends.

    Args:
        pairing: a batch to which :func:`is_symmetric` applies; half precision is for the caller to
            convert.
        plan: the loss.

    Returns:
        The sums, of which the total has a gradient, and no second one.

    Raises:
        InputError: when a second derivative is asked for.

    Source:
        H-SCL paper, Eq. 3, of which this is a reordering.
    """
    x, n_views = unit(pairing.candidates) / math.sqrt(plan.temperature), pairing.n_views
    by_item = x.reshape(n_views, -1, x.shape[1]).transpose(0, 1).flatten(0, 1)
    beta = plan.hardening.slope(1.0) or 0.0
    sorted_log_e: Tensor = _LogExpectation.apply(by_item, n_views, beta, plan.detach)
    log_e = sorted_log_e.view(-1, n_views).T.reshape(-1, 1)
    t_pos = torch.einsum("ad,apd->ap", x, x[pairing.item_columns()[:, 1:]])
    t_pos = t_pos.logsumexp(1, keepdim=True) if plan.pooled else t_pos
    if plan.class_prior is not None:
        log_e = log_debiased(log_e, t_pos, plan.class_prior, -1 / plan.temperature)
    log_m = plan.log_m(pairing.n_others)
    log_m = math.log(pairing.n_others) if log_m is None else log_m  # all others are kept
    number = torch.full_like(pairing.columns, t_pos.shape[1])
    terms = infonce(log_e, t_pos, log_m).sum(1)
    return Totals.of(terms, number, torch.zeros_like(number, dtype=torch.bool), plan.reduction)


def _side(x: Tensor) -> int:
    return TILE if x.device.type == "cpu" else TILE_ELSEWHERE


def _tiles(x: Tensor, n_views: int) -> Iterator[tuple[Tensor, slice, slice]]:
    """Scores of tiles on and above the diagonal, −inf within an item, and rows and columns."""
    n, side = len(x), _side(x)
    parts = [slice(start, min(start + side, n)) for start in range(0, n, side)]
    items = torch.arange(n, device=x.device) // n_views
    for i, rows in enumerate(parts):
        for columns in parts[i:]:
            t = x[rows] @ x[columns].T
            if columns.start // n_views <= (rows.stop - 1) // n_views:
                t.masked_fill_(items[rows, None] == items[columns], -math.inf)
            yield t, rows, columns


def _exponentials(t: Tensor, beta: float) -> tuple[Tensor, Tensor | None]:
    """exp((1 + β) t), and exp(βt), None for β = 0; overwrites the scores."""
    if beta == 0:
        return t.exp_(), None
    if beta == 1:
        weights = t.exp_()
        return weights.square(), weights
    weights = torch.exp(t * beta)
    return t.exp_().mul_(weights), weights


class _LogExpectation(torch.autograd.Function):
    """log E_q[e^t] of each row's negatives."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, n_views: int, beta: float, detach: bool) -> Tensor:
        total, norm = x.new_zeros(len(x)), x.new_zeros(len(x))
        for t, rows, columns in _tiles(x, n_views):
            for sums, exponentials in zip((total, norm), _exponentials(t, beta), strict=True):
                if exponentials is not None:
                    sums[rows] += exponentials.sum(1)
                    if rows != columns:
                        sums[columns] += exponentials.sum(0)
        if beta == 0:
            norm.fill_(len(x) - n_views)
        ctx.save_for_backward(x, total, norm)
        ctx.n_views, ctx.beta, ctx.steep = n_views, beta, beta > 0 and not detach
        return total.log() - norm.log()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        refuse_second_derivative()
        x, total, norm = ctx.saved_tensors
        above = grad * (1 + ctx.beta if ctx.steep else 1.0) / total
        below = grad * -ctx.beta / norm
        slopes = torch.zeros_like(x)
        for t, rows, columns in _tiles(x, ctx.n_views):
            terms, weights = _exponentials(t, ctx.beta)
            both = terms.mul_(above[rows, None] + above[columns])
            if ctx.steep and weights is not None:
                both.addcmul_(weights, below[rows, None] + below[columns])
            slopes[rows].addmm_(both, x[columns])
            if rows != columns:
                slopes[columns].addmm_(both.T, x[rows])
        return slopes, None, None, None
