"""JSD of nodes against graphs in one pass: one nodes × graphs tensor, gradient in closed form.

The general path keeps some ten such tensors for autograd. Here blocks of rows stay in the cache,
and the scores are overwritten by the gradient's coefficients, which is all that backward needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gcl_hard.functional.hardening import Hardening, Rows, Uniform
from gcl_hard.functional.objectives import softplus

BLOCK = 512
"""Rows of a block on a CPU: with 128 graphs in float32 a block fits a second-level cache."""


class Setting(NamedTuple):
    """What does not depend on the embeddings.

    Attributes:
        hardening: with a ``slope``.
        temperature: at which it sees t / m.
        detach: whether q is a constant to the gradient.
    """

    hardening: Hardening
    temperature: float
    detach: bool


class _JSDNegatives(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes them by position)
        ctx: Any, nodes: Tensor, graphs: Tensor, own: Tensor, same: Tensor | None, setting: Setting
    ) -> tuple[Tensor, Tensor, Tensor]:
        scores = nodes @ graphs.T
        t_pos = scores.gather(1, own[:, None])[:, 0].clone()
        uniform = isinstance(setting.hardening, Uniform)
        scale = scores.new_ones(()) if uniform else _scale(scores, own)
        expected = torch.empty_like(t_pos)
        empty = torch.empty_like(own, dtype=torch.bool)
        for rows in _blocks(scores):
            mine = own[rows, None]
            admitted = torch.ones_like(scores[rows], dtype=torch.bool).scatter_(1, mine, False)
            if same is not None:
                admitted &= ~same[own[rows]]
            expected[rows], empty[rows] = _overwrite(scores[rows], admitted, scale, setting)
        ctx.save_for_backward(nodes, graphs, own, scores)
        ctx.mark_non_differentiable(empty)
        return expected, t_pos, empty

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_expected: Tensor, grad_pos: Tensor, _: Tensor) -> Any:
        nodes, graphs, own, weights = ctx.saved_tensors
        with torch.autocast(nodes.device.type, enabled=False):
            grad_nodes = (weights @ graphs) * grad_expected[:, None]
            grad_nodes += grad_pos[:, None] * graphs[own]
            grad_graphs = weights.T @ (grad_expected[:, None] * nodes)
            grad_graphs.index_add_(0, own, grad_pos[:, None] * nodes)
        return grad_nodes, grad_graphs, None, None, None


def _overwrite(
    t: Tensor, admitted: Tensor, scale: Tensor, setting: Setting
) -> tuple[Tensor, Tensor]:
    """E_q[softplus(t)] and emptiness of a block's rows; t becomes dE/dt."""
    h, sigmoid = softplus(t), t.sigmoid()
    if isinstance(setting.hardening, Uniform):
        count = admitted.sum(1)
        empty = count == 0
        q = admitted.to(t.dtype).div_(count.clamp(min=1)[:, None])
    else:
        s = (t / scale).masked_fill_(~admitted, 0.0)
        log_eta = setting.hardening.log_eta(Rows(s, setting.temperature, s, admitted))
        log_eta = log_eta.masked_fill_(~admitted, -math.inf)
        empty = log_eta.amax(1) == -math.inf
        q = log_eta.masked_fill_(empty[:, None], 0.0).softmax(1)
    expected = torch.linalg.vecdot(q, h)
    torch.mul(q, sigmoid, out=t)
    slope = setting.hardening.slope(setting.temperature)
    if slope and not setting.detach:
        # dq/dt of an exponential tilt: q (h − E) times d log η / dt.
        t.add_(h.sub_(expected[:, None]).mul_(q).mul_(slope / scale))
    return expected, empty


def _scale(scores: Tensor, own: Tensor) -> Tensor:
    """m, the largest |t| over others; +inf if they are all 0 (``objectives.jsd_scale``)."""
    largest = scores.new_zeros(())
    for rows in _blocks(scores):
        others = scores[rows].abs().scatter_(1, own[rows, None], 0.0)
        largest = torch.maximum(largest, others.amax())
    return torch.where(largest > 0, largest, math.inf)


def _blocks(scores: Tensor) -> Iterator[slice]:
    size = BLOCK if scores.device.type == "cpu" else max(len(scores), 1)
    return (slice(start, start + size) for start in range(0, len(scores), size))


def jsd_negatives(
    nodes: Tensor,
    graphs: Tensor,
    own: Tensor,
    same: Tensor | None,
    *,
    hardening: Hardening,
    temperature: float,
    detach: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The negative side of JSD for nodes against graphs.

    .. math:: E_i = \sum_{j \ne \text{own}(i)} q_{ij} \operatorname{softplus}(t_{ij}), \qquad
              \frac{\partial E_i}{\partial t_{ij}} = q_{ij} \sigma(t_{ij})
              + q_{ij} (\operatorname{softplus}(t_{ij}) - E_i)
              \frac{\partial \log \eta}{\partial t_{ij}}

    with the second term only for undetached weights.

    Args:
        nodes: float [N, d].
        graphs: float [G, d].
        own: int64 [N], each node's graph.
        same: bool [G, G], which graphs share a label and are no negatives; None admits all.
        hardening: one whose ``slope`` is known.
        temperature: γ at which the hardening sees t / m.
        detach: whether q is a constant to the gradient.

    Returns:
        ``expected`` float [N], finite but without meaning in empty rows; ``t_pos`` float [N],
        score of the node's own graph; ``empty`` bool [N], nodes without a negative.

    Source:
        The general path of ``ContrastiveLoss`` is its oracle; the gradient is elementary.

    Example:
        >>> zeros = torch.zeros(2, 1)
        >>> e, t, empty = jsd_negatives(
        ...     zeros, zeros, torch.tensor([0, 1]), None,
        ...     hardening=Uniform(), temperature=0.5, detach=True
        ... )
        >>> e
        tensor([0.6931, 0.6931])
    """
    out: tuple[Tensor, Tensor, Tensor] = _JSDNegatives.apply(
        nodes, graphs, own, same, Setting(hardening, temperature, detach)
    )
    return out
