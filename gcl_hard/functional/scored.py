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
from gcl_hard.functional.negatives import readable
from gcl_hard.functional.plan import Plan, Totals, divisor
from gcl_hard.functional.streaming import (
    Barred,
    Work,
    in_blocks,
    of_products,
    refuse_second_derivative,
    row_blocks,
)

Known = Tensor | tuple[Tensor, Tensor]
"""Known facts of queries: bool [B, C], or int64 [K] and [K], rows and columns of the pairs."""


class ScoredBatch(NamedTuple):
    """A batch of queries and candidates, checked."""

    shape: tuple[int, int]  # B, C
    own: Tensor  # int64 [B], columns of the positives
    known: Known | None  # facts that are known
    anchor_weights: Tensor | None  # [B]
    log_weights: Tensor | None  # [C], of candidates
    repeated: Known | None = None  # the positive once more

    def dense(self, scores: Tensor, plan: Plan) -> DenseScores:
        """The batch as anchors × candidates."""
        rows, columns = self.shape
        every = torch.arange(columns, device=scores.device)
        others, labels = every != self.own[:, None], None
        if self.repeated is not None:
            others = others & ~_mask(self.repeated, self.shape)
        if self.known is not None:
            known = _mask(self.known, self.shape)
            labels = Relation(known, known)
        t = _logits(scores, plan)
        items = torch.arange(rows, device=scores.device), every
        return DenseScores(t, others, labels, self.own[:, None], max(columns - 1, 0), None, items)

    def work(self, plan: Plan, bias: float = 0.0) -> Work:
        """The batch and its loss as they are taken in blocks; see :func:`streams`."""
        own, device = self.own[:, None], self.own.device
        items = tuple(torch.arange(n, device=device) for n in self.shape)
        barred = [self.repeated, self.known if plan.admit == "other_labels" else None]
        given = [_pairs(one) for one in barred if one is not None]
        pairs = None
        if given:
            rows, columns = (torch.cat([*of]) for of in zip(*given, strict=True))
            pairs = Barred.of_pairs(rows, columns, row_blocks(*self.shape, device))
        if plan.objective == "infonce":  # where it cancels
            bias = 0.0
        return Work(
            plan, own, own, None, None, (items[0], items[1]), plan.hardening.slope(1.0) or 0.0,
            None, None, 1.0, 0.0, plan.log_m(max(self.shape[1] - 1, 0)),
            pairs, self.anchor_weights, bias,
        )  # fmt: skip

    def log_weights_of(self, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Log weights of candidates for every row; see :class:`Plan`."""
        if self.log_weights is None:
            return None
        return self.log_weights.to(dtype)[columns].expand(len(rows), -1)


def check_scores(scores: Tensor) -> tuple[int, int]:
    """The shape of scores.

    Raises:
        InputError: for what is no float [B, C].
    """
    if not isinstance(scores, Tensor) or scores.dim() != 2 or not scores.is_floating_point():
        raise InputError(f"scores must be float [B, C], queries × candidates, got {_of(scores)}")
    return scores.shape[0], scores.shape[1]


def check_vectors(queries: Tensor, candidates: Tensor) -> tuple[int, int]:
    """The shape of their dot products.

    Raises:
        InputError: for what is no float [B, d] and [C, d] of one type.
    """
    both = queries, candidates
    fit = all(isinstance(one, Tensor) and one.dim() == 2 and one.is_floating_point()
              for one in both)  # fmt: skip
    if not fit or queries.shape[1] != candidates.shape[1] or queries.dtype != candidates.dtype:
        raise InputError(
            f"queries and candidates must be float [B, d] and [C, d] of one type, got "
            f"{_of(queries)} and {_of(candidates)}"
        )
    return len(queries), len(candidates)


def checked(
    shape: tuple[int, int],
    own: Tensor,
    *,
    known: Known | None = None,
    anchor_weights: Tensor | None = None,
    log_proposal: Tensor | None = None,
    repeated: Known | None = None,
) -> ScoredBatch:
    """A batch of queries and candidates, checked.

    Args:
        shape: B and C.
        own: int64 [B], 0 … C − 1; on a GPU, and compiled, its values are not read.
        known: bool [B, C], or rows and columns, int64 [K] each.
        anchor_weights: float [B], ≥ 0.
        log_proposal: float [C], finite.
        repeated: as ``known``.

    Raises:
        InputError: for what does not fit; names shapes and numbers.

    Example:
        >>> checked((2, 3), torch.tensor([0, 2])).own
        tensor([0, 2])
    """
    rows, columns = shape
    if not isinstance(own, Tensor) or own.shape != (rows,) or own.dtype != torch.int64:
        raise InputError(
            f"own must be the column of the positive of each of {rows} queries, int64 [{rows}], "
            f"got {_of(own)}"
        )
    if rows and readable(own) and not 0 <= int(own.min()) <= int(own.max()) < columns:
        raise InputError(
            f"own must be columns from 0 to {columns - 1}, got {int(own.min())} to {int(own.max())}"
        )
    for name, pairs in (("known", known), ("repeated", repeated)):
        _check_pairs(name, pairs, shape)
    for name, given, n in (
        ("anchor_weights", anchor_weights, rows), ("log_proposal", log_proposal, columns),
    ):  # fmt: skip
        if given is not None and (
            not isinstance(given, Tensor) or given.shape != (n,) or not given.is_floating_point()
        ):
            raise InputError(f"{name} must be float [{n}], got {_of(given)}")
    if anchor_weights is not None and readable(anchor_weights):
        usable = (anchor_weights >= 0) & (anchor_weights < math.inf)
        if not usable.all():
            raise InputError("anchor_weights must be finite and at least 0")
    if log_proposal is not None and readable(log_proposal) and not log_proposal.isfinite().all():
        raise InputError("log_proposal must be finite: logs of how often a candidate is drawn")
    log_weights = None if log_proposal is None else -log_proposal.detach()
    return ScoredBatch((rows, columns), own, known, anchor_weights, log_weights, repeated)


def streams(plan: Plan) -> bool:
    """Whether scores can be taken in blocks: by closed forms of JSD, too."""
    simple = type(plan.hardening) in (Uniform, Exponential) and plan.sample is None
    return simple and plan.scale in (None, "score")


def blocks_of_scores(scores: Tensor, batch: ScoredBatch, plan: Plan) -> Totals:
    """The loss of each query, in place of the tables of the dense path.

    Args:
        scores: float [B, C].
        batch: the rest of the batch.
        plan: the loss, of reduction ``"none"``.
    """
    return Totals(*_OfScores.apply(_logits(scores, plan), batch.work(plan)))


def blocks_of_products(
    queries: Tensor, candidates: Tensor, batch: ScoredBatch, plan: Plan, bias: float
) -> Totals:
    """The loss of dot products, which are never all there at a time.

    Args:
        queries: float [B, d].
        candidates: float [C, d].
        batch: the rest of the batch.
        plan: the loss; its weighted sum unless its reduction is ``"none"``.
        bias: added to every score.
    """
    return of_products(_logits(queries, plan), candidates, batch.work(plan, bias))


class _OfScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, work: Work) -> tuple[Tensor, ...]:
        found = in_blocks(scores, None, work, None, gradient=ctx.needs_input_grad[0])
        ctx.save_for_backward(found.to_rows)
        ctx.mark_non_differentiable(found.positives, found.empty)
        return found.loss, found.positives, found.empty

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
    found = torch.zeros(shape, dtype=torch.bool, device=pairs[0].device)
    found[pairs] = True
    return found


def _pairs(given: Known) -> tuple[Tensor, Tensor]:
    if isinstance(given, Tensor):
        rows, columns = given.nonzero(as_tuple=True)
        return rows, columns
    return given


def _check_pairs(name: str, given: Known | None, shape: tuple[int, int]) -> None:
    if isinstance(given, tuple):
        fits = len(given) == 2 and all(
            isinstance(one, Tensor) and one.dim() == 1 and one.dtype == torch.int64 for one in given
        )
        for one, size in zip(given, shape, strict=False) if fits else ():
            fits = fits and len(one) == len(given[0])
            if len(one) and readable(one):
                fits = fits and 0 <= int(one.min()) <= int(one.max()) < size
    else:
        fits = given is None or (
            isinstance(given, Tensor) and given.shape == shape and given.dtype == torch.bool
        )
    if not fits:
        described = ", ".join(map(_of, given)) if isinstance(given, tuple) else _of(given)
        raise InputError(
            f"{name} must be bool {[*shape]}, or rows and columns of the pairs, int64 [K] each, "
            f"within it, got {described}"
        )


def _of(given: object) -> str:
    """A tensor as messages name it."""
    if not isinstance(given, Tensor):
        return type(given).__name__
    return f"{given.dtype} {[*given.shape]}"
