"""Layers of stacked models on rows with multiplicities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Tables = Mapping[str, Tensor]
"""Parameters or buffers of all models by name, [P, …]."""


class Sums(NamedTuple):
    """A sparse count matrix that sums rows of embeddings.

    Attributes:
        forward: float sparse CSR [R, C].
        backward: its transpose, for gradients.
    """

    forward: Tensor
    backward: Tensor


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""The linear layer of every model.

    .. math:: y_{pn} = W_p x_{pn} + b_p

    Args:
        x: float [P, N, F]; [1, N, F] if shared.
        weight: float [P, O, F].
        bias: float [P, O], or None.

    Returns:
        float [P, N, O].

    Example:
        >>> linear(torch.ones(1, 4, 2), torch.ones(3, 5, 2)).shape
        torch.Size([3, 4, 5])
    """
    x, transposed = x.expand(len(weight), -1, -1), weight.transpose(1, 2)
    return torch.bmm(x, transposed) if bias is None else torch.baddbmm(bias[:, None], x, transposed)


def add_rows(sums: Sums, x: Tensor) -> Tensor:
    """Sum rows of every model, float [P, C, d] to [P, R, d].

    Args:
        sums: counts of the summed rows.
        x: float [P, C, d].

    Returns:
        float [P, R, d].
    """
    return _AddRows.apply(x, sums)


class _AddRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sums: Sums) -> Tensor:
        ctx.sums = sums
        return _product(sums.forward, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _product(ctx.sums.backward, grad), None


def _product(matrix: Tensor, x: Tensor) -> Tensor:
    """A sparse matrix times each model's rows, models stacked by columns."""
    models, rows, width = x.shape
    flat = x.transpose(0, 1).reshape(rows, models * width)
    out: Tensor = torch.sparse.mm(matrix, flat)
    return out.view(-1, models, width).transpose(0, 1).contiguous()


class Counts:
    """Multiplicity of each row for each model.

    Args:
        count: float [P, N], or [1, N] where models agree.
    """

    def __init__(self, count: Tensor) -> None:
        self.row = count[:, None, :]
        self.total = count.sum(1)[:, None, None]
        self.share = count[:, :, None] / self.total

    def mean(self, x: Tensor) -> Tensor:
        """Mean over rows weighted by multiplicity, float [P, N, d] to [P, 1, d]."""
        return torch.bmm(self.row.expand(len(x), -1, -1), x) / self.total


def relu_norm(
    x: Tensor, counts: Counts, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    r"""ReLU, then batch normalisation by the statistics of each model.

    .. math:: y = \frac{\max(x, 0) - \mu_p}{\sqrt{\sigma_p^2 + \epsilon}} w_p + b_p

    with μ and σ² weighted by multiplicity: a row that never occurs affects neither them nor any
    gradient.

    Args:
        x: float [P, N, d].
        counts: counts of the rows.
        weight: float [P, d].
        bias: float [P, d].
        eps: ε > 0.

    Returns:
        y float [P, N, d], μ and σ² float [P, d] without gradient.

    Source:
        Ioffe, Szegedy (2015), *Batch Normalization*, Algorithm 1, with counts.
    """
    return _ReluNorm.apply(x, counts, weight, bias, eps)


def normed(
    x: Tensor, counts: Counts, tables: tuple[Tables, Tables], name: str, norm: nn.Module
) -> Tensor:
    """:func:`relu_norm` with the parameters of each model; updates running statistics.

    Args:
        x: float [P, N, d].
        counts: counts of the rows.
        tables: parameters, and buffers, which are updated in place.
        name: name of the normalisation in them.
        norm: the normalisation of one model, for ε and momentum.

    Returns:
        float [P, N, d].
    """
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.momentum is not None
    parameters, buffers = tables
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    x, mean, variance = relu_norm(x, counts, weight, bias, norm.eps)
    total = counts.total[:, 0]
    buffers[f"{name}.running_mean"].lerp_(mean, norm.momentum)
    buffers[f"{name}.running_var"].lerp_(variance * (total / (total - 1)), norm.momentum)
    buffers[f"{name}.num_batches_tracked"].add_(1)
    return x


class _ReluNorm(torch.autograd.Function):
    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes them by position)
        ctx: Any, x: Tensor, counts: Counts, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        h = x.relu()
        mean = counts.mean(h)
        positive = h > 0
        h.sub_(mean)
        variance = counts.mean(h.square())
        inverse = (variance + eps).rsqrt_()
        h.mul_(inverse)
        ctx.save_for_backward(h, positive, inverse, weight)
        ctx.counts = counts
        mean, variance = mean[:, 0], variance[:, 0]
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias[:, None], h, weight[:, None]), mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> Any:
        h, positive, inverse, weight = ctx.saved_tensors
        to_bias, to_weight = grad.sum(1), (grad * h).sum(1)
        scale = weight[:, None] * inverse
        centre = h.mul_(to_weight[:, None]).add_(to_bias[:, None]).mul_(ctx.counts.share)
        to_x = (grad - centre).mul_(scale).mul_(positive)
        return to_x, None, to_weight, to_bias, None
