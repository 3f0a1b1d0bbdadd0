"""InfoNCE of several models on the same views, each with its own hardness, in common operations.

The oracle is each model alone (:mod:`gcl_hard.functional.dense`). On a GPU the number of operations
does not grow with the number of models.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.functional.negatives import same_label
from gcl_hard.functional.objectives import infonce
from gcl_hard.functional.plan import unit


class Stack(NamedTuple):
    """Settings of the losses of several models.

    Attributes:
        slope: float [P], d log η / ds of each model.
        temperature: float [P].
        least: float [P], the smallest cosine that counts; −inf if all do.
        other_labels: bool [P], whether negatives belong to other labels.
        log_m: log M.
        class_positives: whether the positives of a view are the items of its class.
        detach: whether q is a constant to the gradient.
        reduction: ``"pairs"`` or ``"anchors"``.
    """

    slope: Tensor
    temperature: Tensor
    least: Tensor
    other_labels: Tensor
    log_m: float
    class_positives: bool
    detach: bool
    reduction: str


def stacked_infonce(
    z: Tensor, n_views: int, stack: Stack, labels: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The loss of every model, and the number of anchors that contribute to it.

    Args:
        z: float [P, V B, d], the views of each model's items, view after view.
        n_views: V.
        stack: the losses.
        labels: int64 [B], distinct numbers below 0 for unknown classes; None if nothing reads them.

    Returns:
        float [P], nats, and int64 [P].

    Example:
        >>> zero = torch.tensor([0.0])
        >>> stack = Stack(zero, zero + 0.5, zero - 1, zero > 0, 0.0, False, False, "anchors")
        >>> loss, n = stacked_infonce(torch.eye(4)[None], 2, stack, None)
        >>> loss, n  # log 2 each: all similarities are 0
        (tensor([0.6931]), tensor([4]))
    """
    n, n_items = z.shape[1], z.shape[1] // n_views
    index = torch.arange(n, device=z.device)
    slope, temperature, least, other_labels = (x[:, None, None] for x in stack[:4])
    others = index[:, None] % n_items != index % n_items
    z = unit(z)
    cosine = z @ z.transpose(1, 2)
    t = cosine / temperature
    admitted, positive = others & ~(cosine.detach() < least), ~others
    if labels is not None:
        same = same_label(labels, labels).repeat(n_views, n_views)
        admitted = admitted & ~(same & other_labels)
        positive = positive | same if stack.class_positives else positive
    positive.fill_diagonal_(False)
    # Excluded scores are replaced before any function sees them, or their gradient is 0 · NaN.
    negative = torch.where(others, t, 0.0)
    log_eta = negative * (slope * temperature)
    log_eta = (log_eta.detach() if stack.detach else log_eta).masked_fill(~admitted, -math.inf)
    empty = ~admitted.any(-1)
    log_q = log_eta.masked_fill(empty[..., None], 0.0).log_softmax(-1)
    log_e = (log_q + negative.masked_fill(~admitted & ~empty[..., None], 0.0)).logsumexp(-1)
    if stack.class_positives:
        terms = torch.where(positive, infonce(log_e[..., None], t, stack.log_m), 0.0).sum(-1)
    else:  # V − 1 columns of each row
        at = (index[:, None] + n_items * torch.arange(1, n_views, device=z.device)) % n
        t_pos = t.gather(2, at.expand(len(t), -1, -1))
        terms = infonce(log_e[..., None], t_pos, stack.log_m).sum(-1)
    number = positive.sum(-1).expand(t.shape[:2])
    used = (number > 0) & ~empty
    terms = torch.where(used, terms, 0.0)
    if stack.reduction == "anchors":
        return (terms / number.clamp(min=1)).sum(-1) / used.sum(-1).clamp(min=1), used.sum(-1)
    pairs = number.masked_fill(~used, 0).sum(-1)
    return terms.sum(-1) / pairs.clamp(min=1), used.sum(-1)
