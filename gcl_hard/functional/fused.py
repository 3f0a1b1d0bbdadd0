"""JSD of nodes against graphs in one pass.

One nodes × graphs table, where :mod:`gcl_hard.functional.dense` keeps some ten for autograd. Blocks
of rows stay in the cache, and the scores are overwritten by the gradient's coefficients, which is
all that backward needs. On a GPU there is one block, so the temporaries of that block are as large
as the scores. Scores must be finite: an embedding that is not shows in the loss, as a divergence
should.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gcl_hard.functional.hardening import Hardening, Rows, Uniform
from gcl_hard.functional.hardness import (
    DEFAULT_SCALE,
    TEMPERATURE,
    HardnessScale,
    bounded,
    jsd_hardness,
    norms,
)
from gcl_hard.functional.labels import relation
from gcl_hard.functional.negatives import debiased
from gcl_hard.functional.objectives import jsd, softplus
from gcl_hard.functional.plan import Pairing, Plan, Totals

ROWS = 512
"""Nodes of a block on a CPU, so that with 128 graphs a block fits a second-level cache."""
SINGLE = 60.0
"""Largest span of log η that float32 holds without a row maximum, with room for counts in sums and
their inverses."""


class Rule(NamedTuple):
    """Hardening and admission of one model.

    Attributes:
        hardening: Uniform, Exponential or Threshold, as it is this epoch.
        other_labels: whether only graphs of other labels are negatives.
        detach: whether q is a constant to the gradient.
        class_prior: τ⁺ of the debiased loss, or None.
        scale: hardness scale.
    """

    hardening: Hardening
    other_labels: bool = False
    detach: bool = True
    class_prior: float | None = None
    scale: HardnessScale = DEFAULT_SCALE

    @property
    def kind(self) -> tuple[object, ...]:
        """Key of models that are computed together."""
        return (
            type(self.hardening), self.other_labels, self.detach, self.class_prior is None,
            self.scale, self.span > SINGLE,
        )  # fmt: skip

    @property
    def slope(self) -> float:
        """d log η / dh where η > 0."""
        return self.hardening.slope(TEMPERATURE[self.scale]) or 0.0

    @property
    def relative(self) -> bool:
        """Whether hardness depends on the others of an anchor."""
        return not isinstance(self.hardening, Uniform) and not bounded(self.scale)

    @property
    def span(self) -> float:
        """Range of log η over similarities in [−1, 1]; 0 where row maxima are subtracted."""
        return 2 * self.slope if bounded(self.scale) else 0.0

    def log_eta(self, hardness: Tensor, others: Tensor) -> Tensor:
        """Log η of rows."""
        rows = Rows(hardness, TEMPERATURE[self.scale], hardness, others, bounded(self.scale))
        return self.hardening.log_eta(rows)


def fused(pairing: Pairing, plan: Plan) -> Totals:
    """The loss of nodes against graphs, without the intermediate tensors of the dense path.

    Args:
        pairing: the batch.
        plan: the loss, of a hardening whose ``slope`` is known.
    """
    same, labels = None, pairing.labels
    if labels is not None:
        same = relation(labels, labels, plan.label_gap).barred
    rule = Rule(plan.hardening, detach=plan.detach, scale=plan.scale or DEFAULT_SCALE)
    expected, t_pos, empty = jsd_negatives(
        pairing.anchors, pairing.candidates, pairing.items, same, rule
    )
    if plan.class_prior is not None:
        expected = debiased(expected, softplus(t_pos), plan.class_prior)
    number = torch.ones_like(t_pos, dtype=torch.int64)
    return Totals.of(jsd(expected, t_pos), number, empty, plan.reduction)


def jsd_negatives(
    nodes: Tensor, graphs: Tensor, batch: Tensor, same: Tensor | None, rule: Rule
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The negative side of JSD for nodes against graphs.

    .. math:: E_i = \sum_{j \ne \text{batch}(i)} q_{ij} \operatorname{softplus}(t_{ij}), \qquad
              \frac{\partial E_i}{\partial t_{ij}} = q_{ij} \sigma(t_{ij})
              + q_{ij} (\operatorname{softplus}(t_{ij}) - E_i)
              \frac{\partial \log \eta}{\partial t_{ij}}

    with the second term only for undetached weights.

    Args:
        nodes: float [N, d].
        graphs: float [G, d].
        batch: int64 [N], graph of each node.
        same: bool [G, G], which graphs share a label and are no negatives; None admits all.
        rule: how negatives are weighed, with a hardening whose ``slope`` is known; its labels and
            class prior are not used.

    Returns:
        ``expected`` float [N], finite but meaningless in empty rows; ``t_pos`` float [N], score of
        the node's own graph; ``empty`` bool [N], nodes without a negative.

    Source:
        The general path of ``ContrastiveLoss`` is its oracle; the gradient is elementary.

    Example:
        >>> zeros = torch.zeros(2, 1)
        >>> e, t, empty = jsd_negatives(
        ...     zeros, zeros, torch.tensor([0, 1]), None, Rule(Uniform())
        ... )
        >>> e
        tensor([0.6931, 0.6931])
    """
    return _JSDNegatives.apply(nodes, graphs, batch, same, rule)


# :func:`gcl_hard.functional.jsd.counted_jsd` of one model with a colour for each node has the same
# value, but takes up to 1.2 times as long for batches of 512 graphs, and 1.6 times for weights that
# need float64; it has no losses of single anchors and no label gaps.
class _JSDNegatives(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes them by position)
        ctx: Any, nodes: Tensor, graphs: Tensor, batch: Tensor, same: Tensor | None, rule: Rule
    ) -> tuple[Tensor, Tensor, Tensor]:
        scores = nodes @ graphs.T
        t_pos = scores.gather(1, batch[:, None])[:, 0].clone()
        # Nodes of a graph share their negatives: one row per graph, gathered, avoids masks.
        excluded = torch.eye(len(graphs), dtype=torch.bool, device=batch.device)
        excluded = excluded if same is None else excluded | same
        empty = excluded.all(1)[batch]
        expected = torch.empty_like(t_pos)
        if isinstance(rule.hardening, Uniform):
            admitted = (~excluded).to(scores.dtype)
            weights = admitted / admitted.sum(1, keepdim=True).clamp(min=1)
            for rows in _row_blocks(scores):
                expected[rows] = expected_softplus(scores[rows], weights[batch[rows]])
        else:
            largest = _largest(scores, batch) if rule.scale == "batch-max" else None
            sizes = (norms(nodes), norms(graphs)) if rule.scale == "cosine" else None
            every = torch.arange(len(graphs), device=batch.device)
            penalty = torch.zeros_like(excluded, dtype=scores.dtype)
            penalty.masked_fill_(excluded, -math.inf)
            slope = 0.0 if rule.detach else rule.slope
            for rows in _row_blocks(scores):
                others = every != batch[rows, None]
                hardness = jsd_hardness(
                    scores[rows], others, rule.scale,
                    lengths=None if sizes is None else sizes[0][rows, None] * sizes[1],
                    largest=largest,
                )  # fmt: skip
                log_eta = rule.log_eta(hardness.value, others) + penalty[batch[rows]]
                empty[rows] = empty_rows = log_eta.amax(1) == -math.inf
                if empty_rows.is_cuda or empty_rows.any():  # without waiting for a GPU
                    log_eta.masked_fill_(empty_rows[:, None], 0.0)
                rate = slope * hardness.rate if slope else None
                expected[rows] = expected_softplus(scores[rows], log_eta.softmax(1), rate)
        ctx.save_for_backward(nodes, graphs, batch, scores)
        ctx.mark_non_differentiable(empty)
        return expected, t_pos, empty

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_expected: Tensor, grad_pos: Tensor, _: Tensor) -> Any:
        nodes, graphs, batch, weights = ctx.saved_tensors
        with torch.autocast(nodes.device.type, enabled=False):
            grad_nodes = (weights @ graphs) * grad_expected[:, None]
            grad_nodes += grad_pos[:, None] * graphs[batch]
            grad_graphs = weights.T @ (grad_expected[:, None] * nodes)
            grad_graphs.index_add_(0, batch, grad_pos[:, None] * nodes)
        return grad_nodes, grad_graphs, None, None, None


def expected_softplus(t: Tensor, q: Tensor, slope: Tensor | None = None) -> Tensor:
    """E_q[softplus(t)] of a block's rows; t becomes dE/dt, with ``slope`` that of q in t."""
    h, sigmoid = softplus(t), t.sigmoid()
    expected: Tensor = torch.linalg.vecdot(q, h)
    torch.mul(q, sigmoid, out=t)
    if slope is not None:
        t.add_(h.sub_(expected[..., None]).mul_(q).mul_(slope))
    return expected


def _largest(scores: Tensor, batch: Tensor) -> Tensor:
    """m, the largest |t| over others; +inf if they are all 0 (``hardness.jsd_scale``)."""
    largest = scores.new_zeros(())
    for rows in _row_blocks(scores):
        others = scores[rows].abs().scatter_(1, batch[rows, None], 0.0)
        largest = torch.maximum(largest, others.amax())
    return torch.where(largest == 0, math.inf, largest)


def _row_blocks(scores: Tensor) -> Iterator[slice]:
    size = ROWS if scores.device.type == "cpu" else max(len(scores), 1)
    return (slice(start, start + size) for start in range(0, len(scores), size))
