"""The objectives: InfoNCE and JSD of a positive score and an expectation over negatives."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Objective = Literal["infonce", "jsd"]


def softplus(x: Tensor) -> Tensor:
    r"""Log(1 + e^x), accurate to full precision.

    Args:
        x: float, any shape.

    Returns:
        float, the same shape.

    Example:
        >>> softplus(torch.tensor([0.0])).item() == math.log(2)
        False
        >>> abs(softplus(torch.zeros(1, dtype=torch.float64)).item() - math.log(2)) < 1e-15
        True
    """
    if x.dtype == torch.float32 and x.device.type == "cpu" and not _in_graph(x):
        # log(1 + u) = 2 artanh(u / (2 + u)) to the same precision, several times faster: PyTorch
        # has no vectorised log1p for float32. Subnormal numbers are slow: there the result is 0.
        u = x.abs().neg_().clamp_(min=-86.0).exp_()
        tail = F.threshold(u.div_(u + 2).atanh_().mul_(2), 1e-37, 0.0, inplace=True)
        return tail.add_(x.clamp(min=0))
    # PyTorch's softplus is linear above its threshold: at the default, 20, that leaves ten
    # digits in float64; above 40 the error is below half a unit in the last place.
    return F.softplus(x, threshold=40.0)


def log_softplus(x: Tensor) -> Tensor:
    r"""Log log(1 + e^x), accurate to full precision also where log(1 + e^x) underflows.

    Args:
        x: float, any shape.

    Returns:
        float, the same shape.

    Example:
        >>> log_softplus(torch.tensor([-200.0, 0.0]))
        tensor([-200.0000,   -0.3665])
    """
    # From −40 down the two differ by e^x / 2, less than half a unit in the last place of float64.
    return torch.where(x <= -40, x, softplus(x.clamp(min=-40)).log())


def _in_graph(x: Tensor) -> bool:
    return torch.is_grad_enabled() and x.requires_grad


def infonce(log_expectation: Tensor, t_pos: Tensor, log_weight: float | Tensor) -> Tensor:
    r"""InfoNCE in the limit of many negatives.

    .. math:: \ell = \log\left(1 + M e^{-t^+} \mathbb{E}_q[e^t]\right)
              = \operatorname{softplus}(\log M + \log \mathbb{E}_q[e^t] - t^+)

    Args:
        log_expectation: float, log E_q[e^t], broadcastable with ``t_pos``.
        t_pos: float, logits t⁺ = s⁺ / γ of the positives.
        log_weight: log M; M = 1 is the paper's ψ_∞, M = n − 2 with uniform q is NT-Xent.

    Returns:
        float, nats, of the broadcast shape.

    Source:
        H-SCL paper, Eq. 3.

    Example:
        >>> infonce(torch.zeros(1), torch.zeros(1), log_weight=0.0)
        tensor([0.6931])
    """
    return softplus(log_weight + log_expectation - t_pos)


def jsd(expectation: Tensor, t_pos: Tensor) -> Tensor:
    r"""InfoGraph's Jensen–Shannon objective.

    .. math:: \ell = \operatorname{softplus}(-t^+) + \mathbb{E}_q[\operatorname{softplus}(t)]
              - 2 \log 2

    Zero for a constant encoder (t = 0 everywhere).

    Args:
        expectation: float, E_q[softplus(t)], broadcastable with ``t_pos``.
        t_pos: float, raw scores of the positives.

    Returns:
        float, nats, of the broadcast shape.

    Source:
        sunfanyunn/InfoGraph, ``cortex_DIM/functions/gan_losses.py`` ("JSD"); the objective and
        its sign come from that code, not from a paper's equation.

    Example:
        >>> jsd(torch.tensor([math.log(2)]), torch.zeros(1))
        tensor([0.])
    """
    return softplus(-t_pos) + expectation - 2 * math.log(2)
