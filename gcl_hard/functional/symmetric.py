r"""InfoNCE where every candidate is an anchor: each score is computed once for both its ends.

.. math:: t_{ij} = x_i x_j, \quad x = z / \sqrt{\gamma}, \qquad
          \frac{\partial \ell}{\partial x_i} = \sum_j (P_{ij} + P_{ji})\, x_j

with P the slopes of the loss in the scores. A first pass over tiles on and above the diagonal adds
up both ends' sums, a second one makes the tiles again and turns them into P + Pᵀ: four products of
matrices of half the scores, where :mod:`gcl_hard.functional.streaming`, its oracle, has three of
all. Rows are sorted by what keeps them from being negatives of each other, their item or their
class, so that masks are needed only near the diagonal. No maximum of a row is needed, as scores are
between −1/γ and 1/γ; where their exponentials could leave the range of numbers that module takes
over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gcl_hard.functional.hardening import Exponential, Uniform
from gcl_hard.functional.negatives import log_debiased
from gcl_hard.functional.objectives import infonce, softplus
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
    if pairing.anchors is not z or plan.admit == "rest" or isinstance(gamma, Tensor):
        return False
    if type(hardening) not in (Uniform, Exponential):
        return False
    if len(z) != pairing.n_views * pairing.n_items or len(z) < FEWEST_TILES * _side(z):
        return False
    if plan.class_positives:
        ours = plan.admit == "other_labels" and not plan.pooled
    else:
        ours = pairing.n_views == 2 or (pairing.n_views > 2 and plan.class_prior is None)
    if not ours or (pairing.labels is not None and not (pairing.by_class and not plan.label_gap)):
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
    order, groups = _groups(pairing)
    place = order.argsort()
    x = unit(pairing.candidates) / math.sqrt(plan.temperature)
    log_m: float | Tensor | None = plan.log_m(pairing.n_others)
    if log_m is None:
        log_m = (len(x) - groups.sizes).clamp(min=1).to(x.dtype).log()
    beta = plan.hardening.slope(1.0) or 0.0
    work = _Work(groups, beta, plan.detach, plan.class_positives, log_m)
    log_e, class_terms = (sums[place] for sums in _Sums.apply(x[order], work))
    sizes = groups.sizes[place]
    empty = sizes == len(x)
    if plan.class_positives:
        return Totals.of(class_terms, sizes - 1, empty, plan.reduction)
    t_pos = torch.einsum("ad,apd->ap", x, x[pairing.item_columns()[:, 1:]])
    t_pos = t_pos.logsumexp(1, keepdim=True) if plan.pooled else t_pos
    log_e = log_e[:, None]
    if plan.class_prior is not None:
        log_e = log_debiased(log_e, t_pos, plan.class_prior, -1 / plan.temperature)
    log_m = log_m[place, None] if isinstance(log_m, Tensor) else log_m
    number = torch.full_like(sizes, t_pos.shape[1])
    return Totals.of(infonce(log_e, t_pos, log_m).sum(1), number, empty, plan.reduction)


class _Groups(NamedTuple):
    """Rows sorted by group; rows of one group are no negatives of each other."""

    keys: Tensor  # int64 [A], their groups
    sizes: Tensor  # int64 [A], rows in the group of each
    parts: list[slice]  # rows of a tile
    ends: list[tuple[int, int]]  # first and last group of a part


class _Work(NamedTuple):
    groups: _Groups
    beta: float
    detach: bool
    class_positives: bool  # whether the others of a group are positives
    log_m: float | Tensor


class _Tile(NamedTuple):
    """Scores of some rows with some columns."""

    t: Tensor
    rows: slice
    columns: slice
    same: Tensor | None  # bool, which are within a group; None if none is

    @property
    def mirrored(self) -> bool:
        """Whether its transpose is another tile, which is not computed."""
        return self.rows != self.columns


def _side(x: Tensor) -> int:
    return TILE if x.device.type == "cpu" else TILE_ELSEWHERE


def _groups(pairing: Pairing) -> tuple[Tensor, _Groups]:
    """The order of rows by group, and the groups in that order."""
    n, side, labels = len(pairing.candidates), _side(pairing.candidates), pairing.labels
    parts = [slice(start, min(start + side, n)) for start in range(0, n, side)]
    if labels is None:  # nothing is read from a device
        views = pairing.n_views
        order = torch.arange(n, device=pairing.columns.device).view(views, -1).T.flatten()
        keys = pairing.columns[order]
        ends = [(part.start // views, (part.stop - 1) // views) for part in parts]
        return order, _Groups(keys, torch.full_like(keys, views), parts, ends)
    order = labels.argsort(stable=True)
    keys = labels[order]
    sizes = torch.searchsorted(keys, keys, right=True) - torch.searchsorted(keys, keys)
    at = keys[[x for part in parts for x in (part.start, part.stop - 1)]].view(-1, 2)
    return order, _Groups(keys, sizes, parts, [(a, b) for a, b in at.tolist()])


def _tiles(x: Tensor, groups: _Groups, *, within: bool = False) -> Iterator[_Tile]:
    """The tiles on and above the diagonal, or only those with pairs within a group."""
    for i, rows in enumerate(groups.parts):
        for j, columns in enumerate(groups.parts[i:], i):
            overlap = groups.ends[i][1] >= groups.ends[j][0]
            if within and not overlap:
                break
            t, same = x[rows] @ x[columns].T, None
            if overlap:
                same = groups.keys[rows, None] == groups.keys[columns]
            yield _Tile(t, rows, columns, same)


def _exponentials(tile: _Tile, beta: float) -> tuple[Tensor, Tensor | None]:
    """exp((1 + β) t) of negatives, and exp(βt), None for β = 0; overwrites the scores."""
    t = tile.t if tile.same is None else tile.t.masked_fill_(tile.same, -math.inf)
    if beta == 0:
        return t.exp_(), None
    if beta == 1:
        weights = t.exp_()
        return weights.square(), weights
    weights = torch.exp(t * beta)
    return t.exp_().mul_(weights), weights


def _positive(tile: _Tile) -> Tensor:
    """Which pairs of a tile are positives of each other."""
    assert tile.same is not None
    same = tile.same.clone()
    if not tile.mirrored:
        same.fill_diagonal_(False)
    return same


class _Sums(torch.autograd.Function):
    """log E_q[e^t] of each row's negatives, and the sums of its terms over class positives."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, work: _Work) -> tuple[Tensor, Tensor]:
        groups = work.groups
        number = (len(x) - groups.sizes).to(x.dtype)
        total, norm = torch.zeros_like(number), torch.zeros_like(number)
        for tile in _tiles(x, groups):
            for sums, exponentials in zip(
                (total, norm), _exponentials(tile, work.beta), strict=True
            ):
                if exponentials is not None:
                    sums[tile.rows] += exponentials.sum(1)
                    if tile.mirrored:
                        sums[tile.columns] += exponentials.sum(0)
        empty = number == 0
        norm = number if work.beta == 0 else norm
        total, norm = (sums.masked_fill(empty, 1.0) for sums in (total, norm))
        log_e = total.log() - norm.log()
        level, terms, pull = log_e + work.log_m, torch.zeros_like(log_e), torch.zeros_like(log_e)
        if work.class_positives:
            for tile in _tiles(x, groups, within=True):
                positive = _positive(tile)
                ends = [(tile.rows, level[tile.rows, None], 1)]
                if tile.mirrored:
                    ends.append((tile.columns, level[tile.columns], 0))
                for part, part_level, axis in ends:
                    gap = part_level - tile.t
                    terms[part] += softplus(gap).masked_fill_(~positive, 0.0).sum(axis)
                    pull[part] += gap.sigmoid_().masked_fill_(~positive, 0.0).sum(axis)
        ctx.save_for_backward(x, total, norm, level, pull)
        ctx.work = work
        return log_e, terms

    @staticmethod
    def backward(ctx: Any, to_log_e: Tensor, to_terms: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivative()
        x, total, norm, level, pull = ctx.saved_tensors
        work: _Work = ctx.work
        push = to_log_e + to_terms * pull
        steep = work.beta > 0 and not work.detach
        above = push * (1 + work.beta if steep else 1.0) / total
        below = push * -work.beta / norm
        slopes = torch.zeros_like(x)
        for tile in _tiles(x, work.groups):
            rows, columns, positive_slopes = tile.rows, tile.columns, None
            if work.class_positives and tile.same is not None:
                positive_slopes = to_terms[rows, None] * (level[rows, None] - tile.t).sigmoid_()
                positive_slopes.addcmul_(to_terms[columns], (level[columns] - tile.t).sigmoid_())
                positive_slopes.masked_fill_(~_positive(tile), 0.0)
            terms, weights = _exponentials(tile, work.beta)
            both = terms.mul_(above[rows, None] + above[columns])
            if steep and weights is not None:
                both.addcmul_(weights, below[rows, None] + below[columns])
            if positive_slopes is not None:
                both.sub_(positive_slopes)
            slopes[rows].addmm_(both, x[columns])
            if tile.mirrored:
                slopes[columns].addmm_(both.T, x[rows])
        return slopes, None
