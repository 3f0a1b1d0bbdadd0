"""Queries against candidates by the scores of any model, as link prediction has them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.dense import DenseScores
from gcl_hard.functional.labels import Relation
from gcl_hard.functional.negatives import readable
from gcl_hard.functional.plan import Plan, divisor

Known = Tensor | tuple[Tensor, Tensor]
"""Known facts of queries: bool [B, C], or int64 [K] and [K], rows and columns of the pairs."""


class ScoredBatch(NamedTuple):
    """A batch of queries and candidates, checked."""

    scores: Tensor  # [B, C]
    own: Tensor  # int64 [B], columns of the positives
    known: Tensor | None  # bool [B, C], facts that are known
    anchor_weights: Tensor | None  # [B]
    log_weights: Tensor | None  # [C], of candidates
    repeated: Tensor | None = None  # bool [B, C], the positive once more

    def dense(self, plan: Plan) -> DenseScores:
        """The batch as anchors × candidates."""
        rows, columns = self.scores.shape
        device = self.scores.device
        every = torch.arange(columns, device=device)
        others, labels = every != self.own[:, None], None
        if self.repeated is not None:
            others = others & ~self.repeated
        if self.known is not None:
            labels = Relation(self.known, self.known)
        t = self.scores / divisor(plan.temperature) if plan.objective == "infonce" else self.scores
        items = torch.arange(rows, device=device), every
        return DenseScores(t, others, labels, self.own[:, None], max(columns - 1, 0), None, items)

    def log_weights_of(self, rows: Tensor, columns: Tensor, dtype: torch.dtype) -> Tensor | None:
        """Log weights of candidates for every row; see :class:`Plan`."""
        if self.log_weights is None:
            return None
        return self.log_weights.to(dtype)[columns].expand(len(rows), -1)


def checked(
    scores: Tensor,
    own: Tensor,
    *,
    known: Known | None = None,
    anchor_weights: Tensor | None = None,
    log_proposal: Tensor | None = None,
    repeated: Known | None = None,
) -> ScoredBatch:
    """A batch of scores, checked.

    Args:
        scores: float [B, C].
        own: int64 [B], 0 … C − 1; on a GPU, and compiled, its values are not read.
        known: bool [B, C], or rows and columns, int64 [K] each.
        anchor_weights: float [B], ≥ 0.
        log_proposal: float [C], finite.
        repeated: as ``known``.

    Raises:
        InputError: for what does not fit; names shapes and numbers.

    Example:
        >>> checked(torch.zeros(2, 3), torch.tensor([0, 2])).own
        tensor([0, 2])
    """
    if not isinstance(scores, Tensor) or scores.dim() != 2 or not scores.is_floating_point():
        raise InputError(f"scores must be float [B, C], queries × candidates, got {_of(scores)}")
    rows, columns = scores.shape
    if not isinstance(own, Tensor) or own.shape != (rows,) or own.dtype != torch.int64:
        raise InputError(
            f"own must be the column of the positive of each of {rows} queries, int64 [{rows}], "
            f"got {_of(own)}"
        )
    if rows and readable(own) and not 0 <= int(own.min()) <= int(own.max()) < columns:
        raise InputError(
            f"own must be columns from 0 to {columns - 1}, got {int(own.min())} to {int(own.max())}"
        )
    known, repeated = _pairs("known", known, scores), _pairs("repeated", repeated, scores)
    for name, given, n in (
        ("anchor_weights", anchor_weights, rows), ("log_proposal", log_proposal, columns),
    ):  # fmt: skip
        if given is not None and (given.shape != (n,) or not given.is_floating_point()):
            raise InputError(f"{name} must be float [{n}], got {_of(given)}")
    if anchor_weights is not None and readable(anchor_weights):
        usable = (anchor_weights >= 0) & (anchor_weights < math.inf)
        if not usable.all():
            raise InputError("anchor_weights must be finite and at least 0")
    if log_proposal is not None and readable(log_proposal) and not log_proposal.isfinite().all():
        raise InputError("log_proposal must be finite: logs of how often a candidate is drawn")
    half = scores.dtype in (torch.float16, torch.bfloat16)
    log_weights = None if log_proposal is None else -log_proposal.detach()
    scores = scores.float() if half else scores
    return ScoredBatch(scores, own, known, anchor_weights, log_weights, repeated)


def _pairs(name: str, given: Known | None, scores: Tensor) -> Tensor | None:
    """Pairs as a mask."""
    if isinstance(given, tuple):
        pairs, given = given, torch.zeros_like(scores, dtype=torch.bool)
        given[pairs] = True
    if given is not None and (given.shape != scores.shape or given.dtype != torch.bool):
        raise InputError(
            f"{name} must be bool {[*scores.shape]}, or rows and columns of the pairs, got "
            f"{_of(given)}"
        )
    return given


def _of(given: object) -> str:
    """A tensor as messages name it."""
    if not isinstance(given, Tensor):
        return type(given).__name__
    return f"{given.dtype} {[*given.shape]}"
