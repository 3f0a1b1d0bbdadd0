"""Reductions over marked entries that are safe, value and gradient, where none is marked."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def at_positives(values: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    """Values at the positives of each anchor.

    Args:
        values: float [A, C].
        positive: int64 [A, 1], the one positive of each anchor, or bool [A, C].

    Returns:
        ``values`` float [A, P], 0 where there is no positive, and which are: bool [A, P]; P is 1
        or C.

    Example:
        >>> at_positives(torch.tensor([[1.0, 2.0]]), torch.tensor([[1]]))
        (tensor([[2.]]), tensor([[True]]))
    """
    if positive.dtype == torch.bool:
        return torch.where(positive, values, 0.0), positive
    return values.gather(1, positive), torch.ones_like(positive, dtype=torch.bool)


def mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of the marked entries; an attached 0 if none is.

    Args:
        values: float, any shape.
        mask: bool, the same shape.

    Returns:
        float [].

    Example:
        >>> mean(torch.tensor([1.0, 3.0, math.nan]), torch.tensor([True, True, False]))
        tensor(2.)
    """
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)


def mean_or_nan(values: Tensor, mask: Tensor) -> float:
    """Mean of the marked entries as a number; NaN if none is.

    Args:
        values: float, any shape.
        mask: bool, the same shape.

    Example:
        >>> mean_or_nan(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([True, True, False]))
        2.0
    """
    return values[mask].mean().item()


def logsumexp(values: Tensor, mask: Tensor) -> Tensor:
    """Log-sum-exp of the marked entries of each row.

    Args:
        values: float [A, C].
        mask: bool [A, C].

    Returns:
        float [A, 1]; log C, which means nothing, in rows without a marked entry.

    Example:
        >>> logsumexp(torch.tensor([[0.0, 0.0, 9.0]]), torch.tensor([[True, True, False]]))
        tensor([[0.6931]])
    """
    none = ~mask.any(1, keepdim=True)
    return torch.where(mask, values, -math.inf).masked_fill(none, 0.0).logsumexp(1, keepdim=True)
