"""The loss from a table of anchors × candidates, for any objective, hardening and sampler.

The oracle of :mod:`gcl_hard.functional.streaming` and :mod:`gcl_hard.functional.fused`.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from gcl_hard.functional import negatives as neg
from gcl_hard.functional import objectives
from gcl_hard.functional.exclusive import logsumexp_without
from gcl_hard.functional.hardness import jsd_hardness, norms
from gcl_hard.functional.labels import Relation, relation
from gcl_hard.functional.plan import Pairing, Plan, Totals, divisor, unit

T = TypeVar("T", Tensor, float | Tensor)
_Negatives = tuple[Tensor, float | Tensor, Tensor]


class DenseScores(NamedTuple):
    """A batch as anchors × candidates."""

    t: Tensor  # [A, C] logits (InfoNCE) or raw scores (JSD)
    others: Tensor  # bool [A, C]; under admission rest all candidates but the anchor
    labels: Relation | None  # relation of the pairs' labels; None if nothing needs them
    positive: Tensor  # int64 [A, 1] candidate, or bool [A, C]
    n_others: int
    lengths: Tensor | None  # [A, C] products of norms, None if no hardness reads them
    items: tuple[Tensor, Tensor]  # int64 [A] and [C], items of anchors and candidates
    rest: bool = False  # whether each positive has negatives of its own

    def with_columns(self, t: Tensor, negative: Tensor | None = None) -> DenseScores:
        """The scores with further columns [A, K], candidates of one anchor each.

        Args:
            t: float [A, K].
            negative: bool [A, K], which are negatives of their anchors; None for none.
        """
        none = torch.zeros_like(t, dtype=torch.bool)
        more = 0 if negative is None else t.shape[1]
        negative = none if negative is None else negative
        positive, labels = self.positive, self.labels
        if positive.dtype == torch.bool:
            positive = torch.cat([positive, none], 1)
        if labels is not None:
            labels = Relation(*(torch.cat([mask, none], 1) for mask in labels))
        return self._replace(
            t=torch.cat([self.t, t], 1), others=torch.cat([self.others, negative], 1),
            labels=labels, positive=positive, n_others=self.n_others + more,
        )  # fmt: skip


def dense(pairing: Pairing | None, plan: Plan, scores: DenseScores | None = None) -> Totals:
    """The loss of a batch.

    Args:
        pairing: the batch; None if its scores are passed.
        plan: the loss.
        scores: scores of the batch, if they have been computed.
    """
    if scores is None:
        assert pairing is not None
        scores = scores_of(pairing, plan)
    e, log_m, empty = _negative_side(scores, plan)
    t_pos, positive = _positive_side(scores, plan)
    if empty.dim() == 2:
        had, positive = positive.any(1), positive & ~empty
        empty = empty.all(1) | (had & ~positive.any(1))
    count = positive.sum(1)
    if t_pos.shape[1] == 1 or not neg.readable(t_pos):
        terms = _terms(_each(e), _each(log_m), t_pos, plan)
        total = torch.where(positive, terms, 0.0).sum(1)
    else:  # at the positives alone: on a CPU their number is known without waiting
        row = torch.arange(len(t_pos)).repeat_interleave(count)
        e, log_m = _each(e, row, positive), _each(log_m, row, positive)
        terms = _terms(e, log_m, t_pos.masked_select(positive), plan)
        total = terms.new_zeros(len(t_pos)).index_add(0, row, terms)
    return Totals.of(total, count, empty, plan.reduction)


def scores_of(pairing: Pairing, plan: Plan) -> DenseScores:
    """Scores, admission and positives of a batch."""
    anchors, candidates, items, columns, *_ = pairing
    others, labels = items[:, None] != columns, None
    if pairing.labels is not None:
        anchor_labels = pairing.labels[pairing.label_columns]
        labels = relation(anchor_labels, pairing.labels, plan.label_gap)
    rest, positive, me = False, items[:, None], pairing.me
    if me is not None:
        rest = plan.admit == "rest"
        is_me = me[:, None] == torch.arange(len(columns), device=me.device)
        if plan.class_positives and labels is not None:
            positive = (labels.near | ~others) & ~is_me
        elif pairing.n_views == 2:
            positive = pairing.item_columns()[:, 1:]
        else:
            positive = ~others & ~is_me
        others = ~is_me if rest else others
    if plan.objective == "jsd":
        t = anchors @ candidates.T
    else:
        t = unit(anchors) @ unit(candidates).T / divisor(plan.temperature)
    lengths = norms(anchors)[:, None] * norms(candidates) if plan.scale == "cosine" else None
    item_ids = items, columns
    scores = DenseScores(t, others, labels, positive, pairing.n_others, lengths, item_ids, rest)
    if pairing.positives is not None:
        logits = own_logits(anchors, unit(pairing.positives), plan)
        positive = torch.arange(logits.shape[1], device=logits.device) + t.shape[1]
        scores = scores.with_columns(logits)._replace(positive=positive.expand(len(logits), -1))
    if pairing.synthetic is not None:
        z, real = pairing.synthetic
        scores = scores.with_columns(own_logits(anchors, z, plan), real)
    return scores


def own_logits(anchors: Tensor, candidates: Tensor, plan: Plan) -> Tensor:
    """Logits of each anchor with unit candidates of its own, [A, K, d]."""
    return torch.einsum("ad,akd->ak", unit(anchors), candidates) / divisor(plan.temperature)


def distribution(scores: DenseScores, plan: Plan) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of the others and log q, [A, C] each, and anchors without a negative, [A]."""
    # Excluded scores are replaced before any function sees them, or their gradient is 0 · NaN.
    t = torch.where(scores.others, scores.t, 0.0)
    row_wise = plan.hardening.row_wise and plan.objective == "jsd"
    log_w = plan.log_weights(*scores.items, scores.t.dtype)
    if log_w is not None:
        log_w = nn.functional.pad(log_w, (0, scores.t.shape[1] - len(scores.items[1])))
    log_q, empty = plan.sampler(
        _similarity(t, scores, plan),
        others=scores.others,
        temperature=plan.temperature,
        same_label=None if scores.labels is None else scores.labels.barred,
        log_integrand=objectives.log_softplus(t) if row_wise else t,
        bounded=plan.bounded,
        log_weights=log_w,
    )
    return t, log_q.detach() if plan.detach else log_q, empty


def negative_similarities(pairing: Pairing, plan: Plan) -> Tensor:
    """Similarities, as a hardening sees them, of a batch's negatives with weight, float [n]."""
    scores = scores_of(pairing, plan)
    t, log_q, empty = distribution(scores, plan)
    return _similarity(t, scores, plan)[(log_q > -math.inf) & ~empty[:, None]]


def expected(t: Tensor, log_q: Tensor, plan: Plan) -> Tensor:
    """E over negatives [A], its log for InfoNCE."""
    if plan.objective == "infonce":
        return neg.log_expectation(log_q, t)
    return neg.expectation(log_q, objectives.softplus(torch.where(log_q > -math.inf, t, 0.0)))


def debiased(expected: Tensor, scores: DenseScores, plan: Plan) -> Tensor:
    """E, or its log, less the share of the anchor's class."""
    prior, positive = plan.class_prior, scores.positive
    assert prior is not None
    if positive.dtype != torch.bool and positive.shape[1] > 1:
        positive = torch.zeros_like(scores.others).scatter_(1, positive, True)
    if positive.dtype == torch.bool:
        t_pos = torch.where(positive, scores.t, 0.0)
        seen = torch.where(positive | scores.others, scores.t, 0.0)
        log_eta = plan.log_eta(
            _similarity(seen, scores, plan),
            others=positive, temperature=plan.temperature, bounded=plan.bounded,
        )  # fmt: skip
        log_q_pos, _ = neg.log_negative_distribution(log_eta, positive)
        if plan.detach:
            log_q_pos = log_q_pos.detach()
    else:  # the only positive has all the weight, whatever its η
        t_pos = scores.t.gather(1, positive)
        log_q_pos = torch.zeros_like(t_pos)
    if plan.objective == "infonce":
        log_e_pos = neg.log_expectation(log_q_pos, t_pos)
        return neg.log_debiased(expected, log_e_pos, prior, -1 / plan.temperature)
    return neg.debiased(expected, neg.expectation(log_q_pos, objectives.softplus(t_pos)), prior)


def _similarity(t: Tensor, scores: DenseScores, plan: Plan) -> Tensor:
    """The scores t as a hardening sees them."""
    if plan.scale is None:
        return t / (1 / plan.temperature)
    hardness = jsd_hardness(t, scores.others, plan.scale, lengths=scores.lengths)
    return hardness.value if plan.detach else hardness.with_gradient(t)


def _negative_side(scores: DenseScores, plan: Plan) -> _Negatives:
    """E or its log, log M, and which lack a negative: per anchor, or per pair [A, P]."""
    t, log_q, empty = distribution(scores, plan)
    if scores.rest:
        return _rest(log_q.masked_fill(empty[:, None], -math.inf), t, scores, plan)
    log_m: float | Tensor | None = plan.log_m(scores.n_others)
    if log_m is None:
        log_m = (log_q > -math.inf).sum(1).to(log_q.dtype).log()
    if plan.sample is not None:
        t = t.gather(1, plan.sample(log_q, scores.t))
        log_q = torch.full_like(t, -math.log(t.shape[1]))
    e = expected(t, log_q, plan)
    if plan.class_prior is not None:
        e = debiased(e, scores, plan)
    return e, log_m, empty


def _rest(log_q: Tensor, t: Tensor, scores: DenseScores, plan: Plan) -> _Negatives:
    """E over the candidates without the anchor and one positive, for each positive."""
    kept = log_q > -math.inf
    number = kept.sum(1, keepdim=True) - kept.long()
    infonce = plan.objective == "infonce"
    log_h = t if infonce else objectives.log_softplus(torch.where(kept, t, 0.0))
    above = logsumexp_without((log_q + log_h).masked_fill(~kept, -math.inf))
    log_e = torch.where(number > 0, above - logsumexp_without(log_q), 0.0)
    log_m: float | Tensor | None = plan.log_m(scores.n_others)
    if log_m is None:
        log_m = number.clamp(min=1).to(t.dtype).log()
    e, empty, at = log_e if infonce else log_e.exp(), number == 0, scores.positive
    if at.dtype != torch.bool:
        e, empty = e.gather(1, at), empty.gather(1, at)
        log_m = log_m.gather(1, at) if isinstance(log_m, Tensor) else log_m
    return e, log_m, empty


def _positive_side(scores: DenseScores, plan: Plan) -> tuple[Tensor, Tensor]:
    """Scores of positives [A, P], and which entries are positives, bool [A, P]."""
    t, positive = scores.t, scores.positive
    if positive.dtype != torch.bool:
        t = t.gather(1, positive)
        t = t.logsumexp(1, keepdim=True) if plan.pooled else t
        return t, torch.ones_like(t, dtype=torch.bool)
    if plan.pooled:
        return neg.masked_logsumexp(t, positive), positive.any(1, keepdim=True)
    return torch.where(positive, t, 0.0), positive


def _terms(expected: Tensor, log_m: float | Tensor, t_pos: Tensor, plan: Plan) -> Tensor:
    if plan.objective == "infonce":
        return objectives.infonce(expected, t_pos, log_m)
    return objectives.jsd(expected, t_pos)


def _each(x: T, row: Tensor | None = None, positive: Tensor | None = None) -> T:
    """A quantity per anchor [A] or per pair [A, P] for every pair, or for the positive pairs."""
    if isinstance(x, float):
        return x
    if row is None or positive is None:
        return x[:, None] if x.dim() == 1 else x
    return x[row] if x.dim() == 1 else x.masked_select(positive)
