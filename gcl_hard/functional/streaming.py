r"""InfoNCE in memory that grows with the batch and not with its square.

Rows of scores are made a block at a time, reduced, turned into the coefficients of the gradient and
dropped. With u = t − max t of an anchor's negatives and their weights in logs,

.. math:: \log \mathbb{E}_q[e^t] = \max t + \operatorname{LSE}((1 + \beta) u + \log w)
          - \operatorname{LSE}(\beta u + \log w)

whose gradient with respect to t is (1 + β) softmax((1 + β) u + log w) − β softmax(βu + log w), or
the first softmax alone with detached weights. The positives p of an anchor add −σ(x_p) with x_p =
log M + log E − t_p, and Σ σ(x_p) times that gradient. Where labels decide, rows and columns are
sorted by them, so that masks are needed only among the columns of a block's own classes. The oracle
is :mod:`gcl_hard.functional.dense`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.exclusive import SumsWithout
from gcl_hard.functional.fused import expected_softplus
from gcl_hard.functional.hardening import Exponential, Hardening, Rows, Threshold, Uniform
from gcl_hard.functional.labels import Relation, relation
from gcl_hard.functional.mixture import MixturePosterior
from gcl_hard.functional.negatives import warn_of_clamping
from gcl_hard.functional.objectives import jsd, softplus
from gcl_hard.functional.plan import Pairing, Plan, Totals, divisor, unit
from gcl_hard.functional.rowwise import MeanThreshold, RankPosterior, RelativeThreshold, Ring

HARDENINGS = {
    Uniform, Exponential, Threshold, MeanThreshold, RankPosterior, RelativeThreshold, Ring,
    MixturePosterior,
}  # fmt: skip
"""Hardenings that stream."""
SCORES = 2**19
"""Scores of a block on a CPU: 2 MB in float32, a second-level cache."""
FEWEST_ROWS, MOST_ROWS = 32, 512
"""Rows of a block on a CPU."""
ROWS_ELSEWHERE, SCORES_ELSEWHERE = 2048, 2**26
"""Rows of a block on another device, and its scores: 256 MB in float32."""


class Barred(NamedTuple):
    """Pairs of anchors and candidates that are no negatives."""

    rows: Tensor  # int64 [K], ascending if there are several blocks
    columns: Tensor  # int64 [K]
    starts: dict[int, int]  # first pair of each anchor at which a block begins or ends

    @classmethod
    def of_pairs(cls, rows: Tensor, columns: Tensor, parts: Sequence[slice]) -> Self:
        """Pairs in any order, for blocks of anchors; waits for a device if there are several."""
        if len(parts) < 2:
            return cls(rows, columns, {})
        if bool((rows[1:] < rows[:-1]).any()):
            order = rows.argsort()
            rows, columns = rows[order], columns[order]
        edges = [0, *(part.stop for part in parts)]
        starts = torch.searchsorted(rows, torch.tensor(edges, device=rows.device)).tolist()
        return cls(rows, columns, dict(zip(edges, starts, strict=True)))

    def block(self, part: slice) -> tuple[Tensor, Tensor]:
        """The pairs of a block, its anchors numbered from 0."""
        if not self.starts:
            return self.rows, self.columns
        span = slice(self.starts[part.start], self.starts[part.stop])
        return self.rows[span] - part.start, self.columns[span]


class Work(NamedTuple):
    """A plan on a batch."""

    plan: Plan
    excluded: Tensor  # int64 [A, V], columns of the anchor's item; under rest the anchor alone
    views: Tensor  # int64 [A, P], columns of the anchor's other views, or of its graph
    me: Tensor | None  # int64 [A], the column that is the anchor; None for nodes
    labels: tuple[Tensor, Tensor] | None  # [A] and [C], None if they decide nothing
    items: tuple[Tensor, Tensor]  # int64 [A] and [C], to which pair weights belong
    beta: float  # of the exponential hardening, 0 for none
    threshold: float | None  # t from which negatives count
    row_wise: Hardening | None  # a hardening of whole rows, without a gradient; β is then 0
    temperature: float  # of the hardening
    clamp: float  # smallest log E of the debiased loss
    log_m: float | None  # None for the number of kept negatives
    barred: Barred | None = None  # further pairs that are no negatives
    anchor_weights: Tensor | None = None  # [A], of the terms in their sum
    bias: float = 0.0  # of products

    @classmethod
    def of(cls, pairing: Pairing, plan: Plan) -> Self:
        """The work, in the order of the batch."""
        me, labels, hardening = pairing.me, pairing.labels, plan.hardening
        item_columns = pairing.item_columns()
        threshold = None
        if isinstance(hardening, Threshold):
            threshold = hardening.least(pairing.anchors.dtype)
        row_wise, gamma = hardening if hardening.row_wise else None, plan.temperature
        if isinstance(gamma, Tensor) and (threshold is not None or row_wise is not None):
            gamma = gamma.item()  # waits for a GPU
        return cls(
            plan, item_columns[:, :1] if me is not None and plan.admit == "rest" else item_columns,
            item_columns if me is None else item_columns[:, 1:], me,
            None if labels is None else (labels[pairing.label_columns], labels),
            (pairing.items, pairing.columns), hardening.slope(1.0) or 0.0,
            None if threshold is None else threshold / gamma, row_wise,
            1.0 if isinstance(gamma, Tensor) else gamma,
            0.0 if plan.class_prior is None else -1 / gamma, plan.log_m(pairing.n_others),
        )  # fmt: skip

    def sorted(self) -> tuple[Self, Tensor, Tensor]:
        """The work with anchors and candidates sorted by label, and both orders."""
        assert self.labels is not None
        rows, columns = (labels.argsort(stable=True) for labels in self.labels)
        place = torch.empty_like(columns)
        place[columns] = torch.arange(len(columns), device=columns.device)
        work = self._replace(
            excluded=place[self.excluded[rows]], views=place[self.views[rows]],
            me=None if self.me is None else place[self.me[rows]],
            labels=(self.labels[0][rows], self.labels[1][columns]),
            items=(self.items[0][rows], self.items[1][columns]),
        )  # fmt: skip
        return work, rows, columns

    @property
    def by_class(self) -> bool:
        """Whether labels are classes, by which anchors and candidates can be sorted."""
        return self.labels is not None and self.plan.label_gap is None

    @property
    def rest(self) -> bool:
        """Whether a positive's negatives are all candidates but the anchor and itself."""
        return self.me is not None and self.plan.admit == "rest"

    def relation(self, part: slice, window: slice) -> Relation | None:
        """Relation of the labels of rows and of a window of columns, bool [R, W] each."""
        if self.labels is None:
            return None
        return relation(self.labels[0][part], self.labels[1][window], self.plan.label_gap)


def streamed(pairing: Pairing, plan: Plan) -> Totals:
    """InfoNCE of a batch, block by block.

    Args:
        pairing: the batch; half precision is for the caller to convert.
        plan: the loss, with one of ``HARDENINGS``.

    Returns:
        The sums, of which the total has a gradient, and no second one.

    Raises:
        InputError: when a second derivative is asked for.

    Source:
        H-SCL paper, Eq. 3; dropping blocks but keeping their gradients as chunked cross-entropies
        do, here for hardened negatives.
    """
    anchors, candidates = pairing.anchors, pairing.candidates
    columns = unit(candidates)
    rows = columns if anchors is candidates else unit(anchors)
    work = Work.of(pairing, plan)
    return streamed_products(rows / divisor(plan.temperature), columns, work)


def streamed_products(rows: Tensor, columns: Tensor, work: Work) -> Totals:
    """The loss of anchors and candidates, [A, d] and [C, d], whose products are the logits."""
    return Totals(*_Streamed.apply(rows, columns, work))


class _Streamed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, columns: Tensor, work: Work) -> tuple[Tensor, ...]:
        wanted = any(ctx.needs_input_grad)
        whole = work.plan.reduction != "none"
        result = _run(rows, columns, work, gradient=wanted and whole)
        ctx.work, ctx.whole = work, whole
        if wanted:
            ctx.save_for_backward(
                *((result.to_rows, result.to_columns) if whole else (rows, columns))
            )
        ctx.mark_non_differentiable(result.positives, result.empty)
        return result.loss, result.positives, result.empty

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, None]:
        refuse_second_derivative()
        if ctx.whole:
            to_rows, to_columns = ctx.saved_tensors
            return to_rows * grad, to_columns * grad, None
        rows, columns = ctx.saved_tensors
        with torch.autocast(rows.device.type, enabled=False):
            result = _run(rows, columns, ctx.work, gradient=True, weights=grad)
        return result.to_rows, result.to_columns, None


def refuse_second_derivative() -> None:
    """InputError in a backward pass that is to be differentiated."""
    if torch.is_grad_enabled():
        raise InputError(
            "streaming keeps no scores and has no second derivative: pass streaming=False"
        )


class _Result(NamedTuple):
    loss: Tensor
    positives: Tensor
    empty: Tensor
    to_rows: Tensor
    to_columns: Tensor


def _run(
    rows: Tensor, columns: Tensor, work: Work, *, gradient: bool, weights: Tensor | None = None
) -> _Result:
    """The loss and its gradient; ``weights`` are dℓ/d(mean of an anchor) for reduction none."""
    if not work.by_class:
        return in_blocks(rows, columns, work, weights, gradient=gradient)
    work, order, back = work.sorted()
    weights = None if weights is None else weights[order]
    result = in_blocks(rows[order], columns[back], work, weights, gradient=gradient)

    def unsorted(x: Tensor, by: Tensor) -> Tensor:
        return torch.empty_like(x).index_copy_(0, by, x) if x.dim() and len(x) else x

    orders = order, order, order, order, back
    return _Result(*(unsorted(x, by) for x, by in zip(result, orders, strict=True)))


def in_blocks(
    rows: Tensor, columns: Tensor | None, work: Work, weights: Tensor | None, *, gradient: bool
) -> _Result:
    """The loss and its gradient, a block of anchors at a time.

    Args:
        rows: float [A, d], or scores [A, C].
        columns: float [C, d], or None for scores.
        work: the plan on the batch.
        weights: as for :func:`_run`.
        gradient: whether to compute the gradient.
    """
    n, every = len(rows), rows if columns is None else columns
    totals, counts = rows.new_zeros(n), torch.zeros(n, dtype=torch.int64, device=rows.device)
    empty = torch.zeros(n, dtype=torch.bool, device=rows.device)
    to_rows = torch.empty_like(rows) if gradient else rows[:0]
    to_columns = torch.zeros_like(every) if gradient and columns is not None else every[:0]
    compute_block = _rest_block if work.rest else _plain_block
    if work.plan.objective == "jsd":
        compute_block = _jsd_block
    clamped = counts.new_zeros(())
    for part, window in _parts(work, rows):
        if columns is not None:
            t = rows[part] @ columns.T
        else:  # a copy that its gradient overwrites
            t = (to_rows[part] if gradient else torch.empty_like(rows[part])).copy_(rows[part])
        t = t.add_(work.bias) if work.bias else t
        barred = None if work.barred is None else work.barred.block(part)
        where = _Where(part, window, work.relation(part, window), barred)
        anchor_weights = weights if work.anchor_weights is None else work.anchor_weights
        anchor_weights = None if anchor_weights is None else anchor_weights[part]
        block = compute_block(t, work, where, anchor_weights, gradient=gradient)
        totals[part], counts[part], empty[part] = block.totals, block.number, block.empty
        if block.clamped is not None:
            clamped += block.clamped.sum()
        if block.slopes is None:
            continue
        if columns is None:
            to_rows[part].copy_(block.slopes)
        else:
            torch.mm(block.slopes, columns, out=to_rows[part])
            to_columns.addmm_(block.slopes.T, rows[part])
    if work.plan.class_prior:
        warn_of_clamping(clamped, n, work.plan.class_prior)
    totals.masked_fill_((counts == 0) | empty, 0.0)
    if work.plan.reduction != "pairs":
        totals.div_(counts.clamp(min=1))
    if work.anchor_weights is not None:
        totals.mul_(work.anchor_weights)
    loss = totals if work.plan.reduction == "none" else totals.sum()
    return _Result(loss, counts, empty, to_rows, to_columns)


class _Where(NamedTuple):
    """A block of rows."""

    part: slice  # of rows
    window: slice  # of columns that have one of its labels
    labels: Relation | None  # [R, W]
    barred: tuple[Tensor, Tensor] | None = None  # further pairs that are no negatives


class _Block(NamedTuple):
    """Contribution of a block of rows."""

    totals: Tensor  # [R], sums over positives
    number: Tensor  # int64 [R], positives
    empty: Tensor  # bool [R]
    slopes: Tensor | None  # [R, C], dℓ/dt times the number that the loss is a mean over
    clamped: Tensor | None = None  # bool [R]


def _plain_block(
    t: Tensor, work: Work, where: _Where, weights: Tensor | None, *, gradient: bool
) -> _Block:
    """A block whose anchors have the same negatives for all their positives; overwrites t."""
    positives = _positives(t, work, where)
    negatives = _negatives(t, work, where)
    level, to_negative, to_positive = _level(negatives, positives, work)
    totals, pull = _terms(level[:, None], positives, work)
    clamped = to_negative == 0 if isinstance(to_negative, Tensor) else None
    if not gradient:
        return _Block(totals, positives.number, negatives.empty, None, clamped)
    share = _share(positives, negatives.empty, work, weights)
    push = share * pull.sum(1)
    slopes = negatives.slopes(push * to_negative, work)
    positive_slopes = pull.mul_(-share[:, None])
    if to_positive is not None:
        positive_slopes = positive_slopes + to_positive * push[:, None]
    positives.add_to(slopes, positive_slopes)
    return _Block(totals, positives.number, negatives.empty, slopes, clamped)


def _rest_block(
    t: Tensor, work: Work, where: _Where, weights: Tensor | None, *, gradient: bool
) -> _Block:
    """A block where each positive has its own negatives; overwrites t."""
    positives = _positives(t, work, where)
    log_w, kept = _admit(t, work, where)
    if log_w is None and _is_supcon(work, where, t.shape[1]):
        return _supcon_block(t, positives, work, weights, gradient=gradient)
    number = kept[:, None] - (positives.gather(t) > -math.inf).long()
    used = positives.kept(number > 0, False)
    empty = (kept == 0) | ((positives.number > 0) & ~used.any(1))
    positives = positives._replace(mask=used, number=used.sum(1))
    norms = t * work.beta if work.beta else None
    tilted = t.mul_(1 + work.beta)
    if log_w is not None:
        norms = log_w.clone() if norms is None else norms.add_(log_w)
        tilted.add_(log_w)
    sums = [SumsWithout.of(x) for x in (norms, tilted) if x is not None]
    parts = [(positives.gather(x.terms), positives.at_column(x.top)) for x in sums]
    logs = [x.without(*part) for x, part in zip(sums, parts, strict=True)]
    log_number = number.clamp(min=1).to(t.dtype).log()
    log_e = logs[-1] - (logs[0] if len(logs) == 2 else log_number)
    level = log_e + (log_number if work.log_m is None else work.log_m)
    totals, pull = _terms(level.masked_fill_(~used, 0.0), positives, work)
    if not gradient:
        return _Block(totals, positives.number, empty, None)
    push = pull * _share(positives, empty, work, weights)[:, None]
    steep = work.beta > 0 and not work.plan.detach
    slopes, excess = sums[-1].slopes(push * (1 + work.beta if steep else 1.0), *parts[-1])
    if steep:
        less, too_little = sums[0].slopes(push * -work.beta, *parts[0])
        slopes, excess = slopes.add_(less), excess.add_(too_little)
    positives.add_to(slopes, -(push + excess))
    return _Block(totals, positives.number, empty, slopes)


def _is_supcon(work: Work, where: _Where, n_columns: int) -> bool:
    """Whether M E_q[e^t] is the sum over all columns but the anchor and the positive."""
    plain = not work.beta and work.threshold is None and where.barred is None and n_columns > 2
    # A single positive may dominate the sum, which a difference could not resolve.
    if not plain or not work.plan.class_positives:
        return False
    return work.log_m is None or math.isclose(work.log_m, math.log(n_columns - 2))


def _supcon_block(
    t: Tensor, positives: _Positives, work: Work, weights: Tensor | None, *, gradient: bool
) -> _Block:
    r"""SupCon's closed form, as 1 + e^{-t⁺}(Σ_j e^{t_j} − e^{t⁺}) = Σ_j e^{t_j} / e^{t⁺};
    overwrites t, which is −inf at the anchors.
    """
    level = t.logsumexp(1, keepdim=True)
    totals = positives.kept(level - positives.t, 0.0).sum(1)
    empty = torch.zeros_like(positives.number, dtype=torch.bool)
    if not gradient:
        return _Block(totals, positives.number, empty, None)
    push = _share(positives, empty, work, weights)[:, None]
    slopes = t.sub_(level).exp_().mul_(push * positives.number[:, None])
    pulls = torch.zeros_like(positives.t).sub_(push)
    positives.add_to(slopes, positives.kept(pulls, 0.0))
    return _Block(totals, positives.number, empty, slopes)


def _jsd_block(
    t: Tensor, work: Work, where: _Where, weights: Tensor | None, *, gradient: bool
) -> _Block:
    """A block of JSD, whose hardness is the score itself; overwrites t."""
    positives = _positives(t, work, where)
    log_w, kept = _admit(t, work, where)
    empty = kept == 0
    if work.beta == 0 and log_w is None:
        q = (t > -math.inf).to(t.dtype).div_(kept.clamp(min=1)[:, None])
    else:
        z = t * work.beta if work.beta else torch.zeros_like(t).masked_fill_(t.isinf(), -math.inf)
        z = z if log_w is None else z.add_(log_w)
        q = z.masked_fill_(empty[:, None], 0.0).softmax(1)
    steep = work.beta > 0 and not work.plan.detach
    expected = expected_softplus(t, q, t.new_tensor(work.beta) if steep else None)
    t_pos = positives.t
    prior, clamped = work.plan.class_prior, None
    if prior is not None:
        expected = (expected - prior * softplus(t_pos[:, 0])) / (1 - prior)
        clamped = (expected <= 0) & ~empty
        expected = expected.clamp(min=0.0)
    totals = jsd(expected, t_pos[:, 0])
    if not gradient:
        return _Block(totals, positives.number, empty, None, clamped)
    share = _share(positives, empty, work, weights)[:, None]
    to_positive = -torch.sigmoid(-t_pos)
    if prior is not None and clamped is not None:
        t.mul_((~clamped)[:, None] / (1 - prior))
        to_positive -= (~clamped)[:, None] * prior / (1 - prior) * torch.sigmoid(t_pos)
    slopes = t.mul_(share)
    positives.add_to(slopes, share * to_positive)
    return _Block(totals, positives.number, empty, slopes, clamped)


def _share(positives: _Positives, empty: Tensor, work: Work, weights: Tensor | None) -> Tensor:
    """Weight of each anchor's positives in the mean, [R]."""
    share = ((positives.number > 0) & ~empty).to(positives.t.dtype)
    if work.plan.reduction != "pairs":
        share = share / positives.number.clamp(min=1)
    return share if weights is None else share * weights


def row_blocks(n_rows: int, n_columns: int, device: torch.device) -> list[slice]:
    """Blocks of the rows of a table, of bounded memory."""
    if device.type == "cpu":
        size = min(max(SCORES // max(n_columns, 1), FEWEST_ROWS), MOST_ROWS)
    else:
        size = min(max(SCORES_ELSEWHERE // max(n_columns, 1), 1), ROWS_ELSEWHERE)
    starts = range(0, n_rows, size)
    return [slice(start, min(start + size, n_rows)) for start in starts]


def _parts(work: Work, rows: Tensor) -> list[tuple[slice, slice]]:
    """Blocks of rows, each with the window of columns that have one of its labels."""
    n_columns = len(work.items[1])
    parts = row_blocks(len(rows), n_columns, rows.device)
    if work.labels is None or not work.by_class or len(parts) < 2:
        return [(part, slice(0, n_columns)) for part in parts]
    row_labels, column_labels = work.labels
    first = row_labels[:: parts[0].stop].contiguous()
    last = torch.cat([row_labels[parts[0].stop - 1 : -1 : parts[0].stop], row_labels[-1:]])
    low = torch.searchsorted(column_labels, first)
    high = torch.searchsorted(column_labels, last, right=True)
    windows = torch.stack([low, high], 1).tolist()  # waits once for a device
    return [(part, slice(*window)) for part, window in zip(parts, windows, strict=True)]


class _Positives(NamedTuple):
    """The positives of a block: at some columns, or masked in a window of columns."""

    t: Tensor  # [R, P]
    mask: Tensor | None  # bool [R, P], None for all
    number: Tensor  # int64 [R]
    at: Tensor | slice

    def add_to(self, slopes: Tensor, values: Tensor) -> None:
        if isinstance(self.at, slice):
            slopes[:, self.at] += values
        else:
            slopes.scatter_add_(1, self.at, values)

    def gather(self, x: Tensor) -> Tensor:
        """Entries of x [R, C] at the positives."""
        return x[:, self.at].clone() if isinstance(self.at, slice) else x.gather(1, self.at)

    def at_column(self, column: Tensor) -> Tensor:
        """Which positives are at a column, int64 [R, 1]."""
        at = self.at
        if isinstance(at, slice):
            at = torch.arange(at.start, at.stop, device=column.device)
        return at == column

    def kept(self, x: Tensor, other: float) -> Tensor:
        return x if self.mask is None else x.masked_fill_(~self.mask, other)


def _positives(t: Tensor, work: Work, where: _Where) -> _Positives:
    part, window, labels, _ = where
    if not work.plan.class_positives or work.me is None or labels is None:
        at = work.views[part]
        count = torch.full_like(at[:, 0], at.shape[1])
        return _Positives(t.gather(1, at), None, _once(count, work), at)
    mask = labels.near.clone()
    if work.plan.label_gap is not None:
        mask.scatter_(1, work.views[part], True)
    mask.scatter_(1, work.me[part, None] - window.start, False)
    return _Positives(t[:, window].clone(), mask, _once(mask.sum(1), work), window)


def _once(count: Tensor, work: Work) -> Tensor:
    return count.clamp(max=1) if work.plan.pooled else count


class _Negatives(NamedTuple):
    """The negatives of a block, with the terms of their sums."""

    log_e: Tensor  # [R]
    empty: Tensor  # bool [R]
    terms: Tensor  # [R, C], exp((1 + β) u) in place of the scores
    sum: Tensor  # [R]
    weights: Tensor | None  # [R, C], exp(β u), None for η = 1
    norm: Tensor  # [R]
    kept: Tensor  # [R], number with weight

    def slopes(self, push: Tensor, work: Work) -> Tensor:
        """dℓ/dt, in place of the terms."""
        steep = self.weights is not None and not work.plan.detach
        rate = 1 + work.beta if steep else 1.0
        slopes = self.terms.mul_((push * rate / self.sum)[:, None])
        if steep and self.weights is not None:
            slopes.addcmul_(self.weights, (push * (-work.beta) / self.norm)[:, None])
        return slopes


def _admit(t: Tensor, work: Work, where: _Where) -> tuple[Tensor | None, Tensor]:
    """Set t to −inf where there is no negative; returns log w, masked alike, and counts kept."""
    part, window, labels, _ = where
    scores = None if work.row_wise is None else t.clone()
    if work.plan.admit == "other_labels" and labels is not None:
        barred = labels.barred
        if work.plan.label_gap is not None:
            barred.scatter_(1, work.excluded[part], True)
        t[:, window].masked_fill_(barred, -math.inf)
        kept = t.shape[1] - barred.sum(1)
    else:
        excluded = work.excluded[part]
        t.scatter_(1, excluded, -math.inf)
        kept = torch.full_like(excluded[:, 0], t.shape[1] - excluded.shape[1])
    if where.barred is not None:
        t[where.barred] = -math.inf
        kept = (t > -math.inf).sum(1)
    if work.threshold is not None:
        t.masked_fill_(t < work.threshold, -math.inf)
        kept = (t > -math.inf).sum(1)
    log_w = None if scores is None else _row_wise(scores, t > -math.inf, work, part)
    if log_w is not None and work.row_wise is not None and work.row_wise.step:
        kept, log_w = (t.add_(log_w) > -math.inf).sum(1), None
    pair_log_w = work.plan.log_weights(work.items[0][part], work.items[1], t.dtype)
    if pair_log_w is not None:
        log_w = pair_log_w if log_w is None else log_w + pair_log_w
    if log_w is not None:
        t.masked_fill_(log_w == -math.inf, -math.inf)
        log_w = log_w.masked_fill(t == -math.inf, -math.inf)
        kept = (t > -math.inf).sum(1)
    return log_w, kept


def _row_wise(scores: Tensor, admitted: Tensor, work: Work, part: slice) -> Tensor:
    """Log η of a block by a hardening of whole rows, [R, C]."""
    assert work.row_wise is not None
    others = torch.ones_like(admitted).scatter_(1, work.excluded[part], False)
    scores = scores.masked_fill_(~others, 0.0)
    similarity = scores * work.temperature
    rows = Rows(similarity, work.temperature, scores, others, admitted=admitted)
    return work.row_wise.log_eta(rows)


def _negatives(t: Tensor, work: Work, where: _Where) -> _Negatives:
    """The negatives with their sums; overwrites t."""
    log_w, kept = _admit(t, work, where)
    kept = kept.to(t.dtype)
    top = t.amax(1, keepdim=True)
    empty = top[:, 0] == -math.inf
    u = t.sub_(top.masked_fill(empty[:, None], 0.0))
    weights = None
    if log_w is not None:
        return _weighted(u, log_w, top[:, 0], work, kept)
    if work.beta == 0:
        terms, norm = u.exp_(), kept
    else:
        weights = torch.exp(u if work.beta == 1 else u * work.beta)
        terms = torch.square(weights) if work.beta == 1 else u.exp_().mul_(weights)
        norm = weights.sum(1)
    total = terms.sum(1).masked_fill_(empty, 1.0)
    norm = norm.masked_fill(empty, 1.0)
    log_e = top[:, 0].masked_fill(empty, 0.0) + total.log() - norm.log()
    return _Negatives(log_e, empty, terms, total, weights, norm, kept)


def _weighted(u: Tensor, log_w: Tensor, top: Tensor, work: Work, kept: Tensor) -> _Negatives:
    """The sums with pair weights, whose row maxima differ from the scores'."""
    empty = kept == 0
    tilted = (u * (1 + work.beta)).add_(log_w)
    norms = log_w if work.beta == 0 else (u * work.beta).add_(log_w)
    tops = [x.amax(1, keepdim=True).masked_fill(empty[:, None], 0.0) for x in (tilted, norms)]
    terms, weights = tilted.sub_(tops[0]).exp_(), (norms - tops[1]).exp_()
    total, norm = (x.sum(1).masked_fill(empty, 1.0) for x in (terms, weights))
    log_e = top.masked_fill(empty, 0.0) + (tops[0] - tops[1])[:, 0] + total.log() - norm.log()
    return _Negatives(log_e, empty, terms, total, weights if work.beta else None, norm, kept)


def _level(
    negatives: _Negatives, positives: _Positives, work: Work
) -> tuple[Tensor, Tensor | float, Tensor | None]:
    """Log M + log E, and its slopes in log E and in the scores of positives."""
    log_e = negatives.log_e
    if work.log_m is None:
        log_m: Tensor | float = negatives.kept.clamp(min=1).log()
    else:
        log_m = work.log_m
    if work.plan.class_prior is None:
        return log_e + log_m, 1.0, None
    prior = work.plan.class_prior
    if prior == 0:
        return log_e.clamp(min=work.clamp) + log_m, (log_e > work.clamp).to(log_e.dtype), None
    tilted = positives.kept(positives.t * (1 + work.beta), -math.inf)
    norms = positives.kept(positives.t * work.beta, -math.inf)
    none = positives.number == 0
    above, below = (x.masked_fill(none[:, None], 0.0).logsumexp(1) for x in (tilted, norms))
    gap = above - below + math.log(prior) - log_e
    debiased = log_e + torch.log(-torch.expm1(gap.clamp(max=-1e-30))) - math.log1p(-prior)
    free = (gap < 0) & (debiased > work.clamp)
    level = torch.where(free, debiased, work.clamp) + log_m
    share = torch.where(free, gap, -1.0).exp()
    to_negative = torch.where(free, -1 / torch.expm1(torch.where(free, gap, -1.0)), 0.0)
    slope = (tilted - above[:, None]).exp()
    if not work.plan.detach:
        slope = (1 + work.beta) * slope - work.beta * (norms - below[:, None]).exp()
    to_positive = -(share * to_negative)[:, None] * slope
    return level, to_negative, to_positive.masked_fill(none[:, None], 0.0)


def _terms(level: Tensor, positives: _Positives, work: Work) -> tuple[Tensor, Tensor]:
    """Sums over positives [R] at a level [R, 1 or P], and the pull of each, σ(x) [R, P]."""
    t, share = positives.t, None
    if work.plan.pooled:
        masked = positives.kept(t, -math.inf)
        masked = masked.masked_fill(positives.number[:, None] == 0, 0.0)
        t = masked.logsumexp(1, keepdim=True)
        share = (masked - t).exp()
    x = level - t
    pull = x.sigmoid()
    # softplus(x) = max(x, 0) − log σ(|x|)
    total = x.clamp_(min=0).sub_(torch.maximum(pull, 1 - pull).log_())
    if share is not None:
        return total[:, 0], pull * share
    return positives.kept(total, 0.0).sum(1), positives.kept(pull, 0.0)
