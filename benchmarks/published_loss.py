"""H-SCL as its published program computes it, restated: a class indicator filled anchor by anchor.

Scores, indicators and terms are dense n × n matrices of floats and lists of positions; the
positions of ones are looked up in the indicators, and values are gathered there. The published
program does all of it on a GPU, where every anchor of the loop waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import normalize

Indicator = Callable[[Tensor], Tensor]


def same_class_by_loop(labels: Tensor) -> Tensor:
    """Which embeddings belong to an anchor's class, float [n, n], one anchor at a time."""
    same = torch.zeros(len(labels), len(labels), device=labels.device)
    for anchor, label in enumerate(labels):
        members = (labels == label).nonzero().flatten()
        same[anchor, members] = 1.0
    return same


def same_class_at_once(labels: Tensor) -> Tensor:
    """The same indicator without the loop."""
    return (labels[:, None] == labels).float()


def published_loss(
    z1: Tensor, z2: Tensor, labels: Tensor, *, beta: float, indicator: Indicator
) -> Tensor:
    """H-SCL at γ = 0.5, the mean over pairs; the weights carry gradient.

    Every class of the batch must have embeddings of other classes beside it.

    Args:
        z1: float [B, d], first views.
        z2: float [B, d], second views.
        labels: int64 [B].
        beta: β ≥ 0.
        indicator: fills the matrix of same classes.

    Returns:
        float [], nats.
    """
    z = normalize(torch.cat([z1, z2]))
    n = len(z)
    same = indicator(labels.repeat(2))
    scores = torch.exp(2 * z @ z.T)

    rows, columns = (1 - same).nonzero(as_tuple=True)
    negative = scores[rows, columns]
    importance = negative**beta
    sums = scores.new_zeros(2, n)
    weighed, weights = sums.index_add(1, rows, torch.stack([importance * negative, importance]))
    expectation = weighed / weights

    rows, columns = (same - torch.eye(n, device=z.device)).nonzero(as_tuple=True)
    positive = scores[rows, columns]
    return -torch.log(positive / (positive + (n - 2) * expectation[rows])).mean()
