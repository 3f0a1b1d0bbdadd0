"""Diagnostics of a loss: its counts, and statistics of each anchor's negative distribution."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional import negatives as neg
from gcl_hard.functional.dense import DenseScores, debiased, distribution, expected, scores_of
from gcl_hard.functional.plan import Pairing, Plan

SCORES = 2**22
"""Scores computed at a time."""


class Measured(NamedTuple):
    """Quantities of each anchor; see :class:`Diagnostics`."""

    effective_negatives: Tensor
    own_label_weight: Tensor | None
    clamped: Tensor


class Diagnostics:
    """Counts and statistics of a loss, by anchor; tensors, so that no call waits for the device.

    With gathered negatives the counts are those of the joined batch. The three quantities of each
    anchor belong to this process; they are computed when first read, at about the cost of the
    loss. Until then the embeddings are kept: for many batches keep ``counts`` alone.

    Attributes:
        anchors: number of anchors in the batch.
        contributing: int64 [], anchors in the mean.
        pairs: int64 [], anchor–positive pairs that the mean ran over.
        without_negative: int64 [], anchors left out because they have no negative.
        without_positive: int64 [], anchors left out because they have no positive.

    Example:
        >>> from gcl_hard import ContrastiveLoss, NegativeSampler
        >>> z, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
        >>> loss = ContrastiveLoss(NegativeSampler())
        >>> seen = loss.with_diagnostics(z, z, y)[1]
        >>> seen.pairs, seen.effective_negatives.mean(), seen.own_label_weight.mean()
        (tensor(8), tensor(6.0000, dtype=torch.float64), tensor(0.3333, dtype=torch.float64))

        Printed, these two are means over the anchors:

        >>> print(str(seen).split(", without_positive=0, ")[1])
        effective_negatives=6, own_label_weight=0.3333)
    """

    def __init__(
        self, anchors: int, counts: Sequence[Tensor], measure: Callable[[bool], Measured]
    ) -> None:
        self.anchors = anchors
        self.contributing, self.pairs, self.without_negative, self.without_positive = counts
        self._measure = measure

    @property
    def counts(self) -> dict[str, int | Tensor]:
        """The counts by name, as for a log."""
        names = ("anchors", "contributing", "pairs", "without_negative", "without_positive")
        return {name: getattr(self, name) for name in names}

    @cached_property
    def _measured(self) -> Measured:
        return self._measure(False)

    @property
    def effective_negatives(self) -> Tensor:
        """1 / Σ q² of each anchor, float64 [A], 0 without a negative.

        :func:`~gcl_hard.functional.negatives.effective_negatives`; under admission ``"rest"`` of q
        over all but the anchor.
        """
        return self._measured.effective_negatives

    @cached_property
    def own_label_weight(self) -> Tensor | None:
        """Weight of q on candidates with the anchor's label, float64 [A].

        NaN for anchors whose label is unknown; None if the loss got no labels, or gathers and
        needs none. Labels that the loss has not read are read here: InputError for invalid ones.
        """
        return self._measure(True).own_label_weight

    @property
    def clamped(self) -> Tensor:
        """Whether the debiased expectation of each anchor is at its bound, bool [A].

        They have no gradient from their negatives. All False without a class prior.
        """
        return self._measured.clamped

    def __repr__(self) -> str:
        shown: dict[str, object] = {name: int(count) for name, count in self.counts.items()}
        means = {"effective_negatives": self.effective_negatives}
        with contextlib.suppress(InputError):  # of labels that the loss does not read
            if self.own_label_weight is not None:
                means["own_label_weight"] = self.own_label_weight
        shown |= {name: f"{of_anchors.nanmean().item():.4g}" for name, of_anchors in means.items()}
        return f"Diagnostics({', '.join(f'{name}={value}' for name, value in shown.items())})"


@torch.no_grad()
def measured(pairing: Pairing, plan: Plan) -> Measured:
    """Diagnostics of the anchors, computed in blocks."""
    n = len(pairing.anchors)
    # The largest score and hardenings of all anchors need the whole batch.
    whole = plan.scale == "batch-max" or plan.hardening.batch_wide
    size = max(n if whole else SCORES // len(pairing.candidates), 1)
    with (
        torch.autocast(pairing.anchors.device.type, enabled=False),
        warnings.catch_warnings(),  # the loss has warned
    ):
        warnings.simplefilter("ignore")
        blocks = (pairing.rows(slice(i, i + size)) for i in range(0, max(n, 1), size))
        effective, label_weights, clamped = zip(
            *(_measure_block(scores_of(block, plan), plan) for block in blocks), strict=True
        )
    known = [weight for weight in label_weights if weight is not None]
    weights = torch.cat(known) if known else None
    labels = pairing.labels
    if weights is not None and labels is not None and pairing.by_class:
        weights = weights.masked_fill(labels[pairing.label_columns] < 0, math.nan)
    return Measured(torch.cat(effective), weights, torch.cat(clamped))


@torch.no_grad()
def measured_scores(scores: DenseScores, plan: Plan, labels: bool) -> Measured:
    """Diagnostics of a table of scores; ``labels`` is ignored."""
    return _measure_block(scores, plan)


def _measure_block(scores: DenseScores, plan: Plan) -> Measured:
    t, log_q, empty = distribution(scores, plan)
    clamped = torch.zeros_like(empty)
    if plan.class_prior is not None:
        e = debiased(expected(t, log_q, plan), scores, plan)
        clamped = e <= (0.0 if plan.objective == "jsd" else -1 / plan.temperature)
    log_q = log_q.masked_fill(empty[:, None], -math.inf)
    weight = None
    if scores.labels is not None:
        weight = neg.same_label_weight(log_q, scores.labels.near)
    return Measured(neg.effective_negatives(log_q), weight, clamped & ~empty)
