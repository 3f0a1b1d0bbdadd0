"""Queries against candidates by the scores of any model, as link prediction has them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.dense import DenseScores
from gcl_hard.functional.hardening import Exponential, Uniform
from gcl_hard.functional.labels import Relation
from gcl_hard.functional.negatives import described, readable, within
from gcl_hard.functional.plan import Plan, Totals, divisor
from gcl_hard.functional.streaming import (
    Barred,
    Work,
    in_blocks,
    refuse_second_derivative,
    row_blocks,
    streamed_products,
)

Known = Tensor | tuple[Tensor, Tensor]
"""Known facts of queries: bool [B, C], or int64 [K] and [K], rows and columns of the pairs."""


class ScoredBatch(NamedTuple):
    """A batch of queries and candidates, checked."""

    shape: tuple[int, int]  # B, C
    positive: Tensor  # int64 [B], columns of the positives
    known: Known | None  # known facts
    anchor_weights: Tensor | None  # [B]
    log_weights: Tensor | None  # [C], of candidates
    repeated: Known | None = None  # further columns of the positive

    def dense(self, scores: Tensor, plan: Plan) -> DenseScores:
        """The batch as anchors × candidates."""
        rows, columns = self.shape
        every = torch.arange(columns, device=scores.device)
        others, labels = every != self.positive[:, None], None
        if self.repeated is not None:
            others = others & ~_mask(self.repeated, self.shape)
        if self.known is not None:
            known = _mask(self.known, self.shape)
            labels = Relation(known, known)
        t = _logits(scores, plan)
        items = torch.arange(rows, device=scores.device), every
        return DenseScores(
            t, others, labels, self.positive[:, None], max(columns - 1, 0), None, items
        )

    def work(self, plan: Plan, bias: float = 0.0) -> Work:
        """The batch and its loss, to be computed in blocks; see :func:`streams`."""
        positive, device = self.positive[:, None], self.positive.device
        items = tuple(torch.arange(n, device=device) for n in self.shape)
        barred = [self.repeated, self.known if plan.admit == "other_labels" else None]
        barred_pairs = [_pairs(facts) for facts in barred if facts is not None]
        pairs = None
        if barred_pairs:
            rows, columns = (torch.cat([*indices]) for indices in zip(*barred_pairs, strict=True))
            pairs = Barred.of_pairs(rows, columns, row_blocks(*self.shape, device))
        if plan.objective == "infonce":  # where it cancels
            bias = 0.0
        return Work(
            plan, positive, positive, None, None, (items[0], items[1]),
            plan.hardening.slope(1.0) or 0.0, None, None, 1.0, 0.0,
            plan.log_m(max(self.shape[1] - 1, 0)), pairs, self.anchor_weights, bias,
        )  # fmt: skip

    def log_weights_of(self, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Log weights of candidates for every row; see :class:`Plan`."""
        if self.log_weights is None:
            return None
        return self.log_weights.to(dtype)[columns].expand(len(rows), -1)


def checked(
    shape: tuple[int, int],
    positive: Tensor,
    *,
    known: Known | None = None,
    anchor_weights: Tensor | None = None,
    log_proposal: Tensor | None = None,
    repeated: Known | None = None,
) -> ScoredBatch:
    """A batch of queries and candidates, checked.

    Args:
        shape: B and C.
        positive: int64 [B], 0 … C − 1; on a GPU, and compiled, its values are not read.
        known: bool [B, C], or rows and columns, int64 [K] each.
        anchor_weights: float [B], ≥ 0.
        log_proposal: float [C], finite.
        repeated: as ``known``.

    Raises:
        InputError: for mismatches; names shapes and values.

    Example:
        >>> checked((2, 3), torch.tensor([0, 2])).positive
        tensor([0, 2])
    """
    rows, columns = shape
    outside = rows and readable(positive) and not within(positive, columns)
    if positive.shape != (rows,) or positive.dtype != torch.int64 or outside:
        raise InputError(
            f"positive must be int64 [{rows}] from 0 to {columns - 1}, got {described(positive)}"
        )
    for name, pairs in (("known", known), ("repeated", repeated)):
        _check_pairs(name, pairs, shape)
    for name, value, n in (
        ("anchor_weights", anchor_weights, rows), ("log_proposal", log_proposal, columns),
    ):  # fmt: skip
        if value is not None and (
            not isinstance(value, Tensor) or value.shape != (n,) or not value.is_floating_point()
        ):
            raise InputError(f"{name} must be float [{n}], got {described(value)}")
        if value is not None and readable(value):
            usable = value.isfinite() & (value >= (0 if name == "anchor_weights" else -math.inf))
            if not usable.all():
                raise InputError(f"{name} must be finite, and anchor_weights at least 0")
    log_weights = None if log_proposal is None else -log_proposal.detach()
    return ScoredBatch((rows, columns), positive, known, anchor_weights, log_weights, repeated)


def streams(plan: Plan) -> bool:
    """Whether scores can be computed in blocks, JSD included."""
    simple = type(plan.hardening) in (Uniform, Exponential) and plan.sample is None
    return simple and plan.scale in (None, "score")


def blocks_of_scores(scores: Tensor, batch: ScoredBatch, plan: Plan) -> Totals:
    """The loss of each query, without the tables of the dense path.

    Args:
        scores: float [B, C].
        batch: the rest of the batch.
        plan: the loss, of reduction ``"none"``.
    """
    return Totals(*_OfScores.apply(_logits(scores, plan), batch.work(plan)))


def blocks_of_products(
    queries: Tensor, candidates: Tensor, batch: ScoredBatch, plan: Plan, bias: float
) -> Totals:
    """The loss of dot products, never all in memory at once.

    Args:
        queries: float [B, d].
        candidates: float [C, d].
        batch: the rest of the batch.
        plan: the loss; its weighted sum unless its reduction is ``"none"``.
        bias: added to every score.
    """
    return streamed_products(_logits(queries, plan), candidates, batch.work(plan, bias))


class _OfScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, work: Work) -> tuple[Tensor, ...]:
        result = in_blocks(scores, None, work, None, gradient=ctx.needs_input_grad[0])
        ctx.save_for_backward(result.to_rows)
        ctx.mark_non_differentiable(result.positives, result.empty)
        return result.loss, result.positives, result.empty

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, None]:
        refuse_second_derivative()
        (slopes,) = ctx.saved_tensors
        return slopes * grad[:, None], None


def _logits(scores: Tensor, plan: Plan) -> Tensor:
    return scores / divisor(plan.temperature) if plan.objective == "infonce" else scores


def _mask(pairs: Known, shape: tuple[int, int]) -> Tensor:
    if isinstance(pairs, Tensor):
        return pairs
    mask = torch.zeros(shape, dtype=torch.bool, device=pairs[0].device)
    mask[pairs] = True
    return mask


def _pairs(pairs: Known) -> tuple[Tensor, Tensor]:
    if isinstance(pairs, Tensor):
        rows, columns = pairs.nonzero(as_tuple=True)
        return rows, columns
    return pairs


def _check_pairs(name: str, pairs: Known | None, shape: tuple[int, int]) -> None:
    if isinstance(pairs, tuple):
        fits = len(pairs) == 2 and all(x.shape == pairs[0].shape for x in pairs)
        for x, size in zip(pairs, shape, strict=False):
            fits = fits and not (len(x) and readable(x) and not within(x, size))
    else:
        fits = pairs is None or (isinstance(pairs, Tensor) and pairs.shape == shape)
    if not fits:
        raise InputError(
            f"{name} must be bool {[*shape]}, or rows and columns of pairs in it, int64 [K] each"
        )
