"""JSD of nodes against graphs in one pass: one nodes × graphs tensor, gradient in closed form.

The general path keeps some ten such tensors for autograd. Here blocks of rows stay in the cache,
and the scores are overwritten by the gradient's coefficients, which is all that backward needs.
On a GPU there is one block, so the temporaries of that block are as large as the scores.
Scores must be finite: an embedding that is not shows in the loss, as a divergence should.
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
        # Nodes of a graph share their negatives: a row a graph, gathered, spares every mask.
        excluded = torch.eye(len(graphs), dtype=torch.bool, device=own.device)
        excluded = excluded if same is None else excluded | same
        empty = excluded.all(1)[own]
        expected = torch.empty_like(t_pos)
        if isinstance(setting.hardening, Uniform):
            admitted = (~excluded).to(scores.dtype)
            weights = admitted / admitted.sum(1, keepdim=True).clamp(min=1)
            for rows in _blocks(scores):
                expected[rows] = _overwrite(scores[rows], weights[own[rows]])
        else:
            scale = _scale(scores, own)
            penalty = torch.zeros_like(excluded, dtype=scores.dtype)
            penalty.masked_fill_(excluded, -math.inf)
            for rows in _blocks(scores):
                q, empty[rows] = _weights(scores[rows], penalty[own[rows]], scale, setting)
                slope = 0.0 if setting.detach else setting.hardening.slope(setting.temperature)
                expected[rows] = _overwrite(scores[rows], q, slope / scale if slope else None)
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


def _weights(t: Tensor, penalty: Tensor, scale: Tensor, setting: Setting) -> tuple[Tensor, Tensor]:
    """q of a block's rows, and which of them are empty (there q is uniform)."""
    s = t / scale
    rows = Rows(s, setting.temperature, s, penalty == 0)
    log_eta = setting.hardening.log_eta(rows) + penalty
    empty = log_eta.amax(1) == -math.inf
    if empty.is_cuda or empty.any():  # no waiting for a GPU's answer
        log_eta.masked_fill_(empty[:, None], 0.0)
    return log_eta.softmax(1), empty


def _overwrite(t: Tensor, q: Tensor, slope: Tensor | None = None) -> Tensor:
    """E_q[softplus(t)] of a block's rows; t becomes dE/dt, for a q of that slope in t."""
    h, sigmoid = softplus(t), t.sigmoid()
    expected: Tensor = torch.linalg.vecdot(q, h)
    torch.mul(q, sigmoid, out=t)
    if slope is not None:
        t.add_(h.sub_(expected[:, None]).mul_(q).mul_(slope))
    return expected


def _scale(scores: Tensor, own: Tensor) -> Tensor:
    """m, the largest |t| over others; +inf if they are all 0 (``objectives.jsd_scale``)."""
    largest = scores.new_zeros(())
    for rows in _blocks(scores):
        others = scores[rows].abs().scatter_(1, own[rows, None], 0.0)
        largest = torch.maximum(largest, others.amax())
    return torch.where(largest == 0, math.inf, largest)


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
