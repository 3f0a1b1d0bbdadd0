"""Cosines of pairs of one label and of two, in bins, and how much the two overlap."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.classes import embeddings, unit
from gcl_hard.functional.pairs import check_labels, same_label

BLOCK = 1024
"""Rows whose cosines with all others are held at once."""


class Histograms(NamedTuple):
    """Pairs by their cosine; counts of several batches may be added.

    Attributes:
        edges: float64 [bins + 1], from −1 to 1; a bin holds its left edge, the last one both.
        same: int64 [bins], pairs of one label.
        different: int64 [bins], pairs of two labels.
    """

    edges: Tensor
    same: Tensor
    different: Tensor


def cosine_histograms(z: Tensor, labels: Tensor, bins: int = 50) -> Histograms:
    """How many pairs of one label, and of two, have a cosine in each of ``bins`` equal parts.

    Args:
        z: float [n, d].
        labels: int [n], ≥ 0.
        bins: ≥ 1, number of equal parts of [−1, 1].

    Returns:
        :class:`Histograms` of the n (n − 1) / 2 pairs.

    Raises:
        InputError: for no row, values that are not finite, labels that are no integers ≥ 0, or
            less than one bin.

    Source:
        Robinson et al. (2021), Fig. 3 and 4.

    Example:
        >>> z = torch.tensor([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
        >>> cosine_histograms(z, torch.tensor([0, 0, 1]), bins=2)[1:]
        (tensor([0, 1]), tensor([2, 0]))
    """
    if bins < 1:
        raise InputError(f"bins must be at least 1, got {bins}")
    z = unit(embeddings(z))
    labels = check_labels(labels, len(z), "a histogram of pairs")
    every = torch.arange(len(z), device=z.device)
    counts = torch.zeros(2, bins, dtype=torch.int64, device=z.device)
    for start in range(0, len(z), BLOCK):
        rows = every[start : start + BLOCK]
        index = ((z[rows] @ z.T + 1) * (bins / 2)).long().clamp_(0, bins - 1)
        later, same = rows[:, None] < every, same_label(labels[rows], labels)
        for i, of in enumerate((later & same, later & ~same)):
            counts[i] += torch.bincount(index[of], minlength=bins)
    edges = torch.linspace(-1, 1, bins + 1, dtype=torch.float64, device=z.device)
    return Histograms(edges, counts[0], counts[1])


def overlap(first: Tensor, second: Tensor) -> Tensor:
    r"""Overlap coefficient of two histograms over the same bins.

    .. math:: \sum_b \min(p_b, q_b), \qquad p = \text{first} / \textstyle\sum \text{first}, \;
              q = \text{second} / \textstyle\sum \text{second}

    Args:
        first: int or float [bins], counts ≥ 0.
        second: likewise.

    Returns:
        float64 [], from 0 (no bin shared) to 1 (the same shape); NaN if either holds nothing.

    Raises:
        InputError: if they are no two rows of one length.

    Source:
        Inman & Bradley (1989), the overlapping coefficient, of binned densities; the amount that
        Robinson et al. (2021), appendix, speak of.

    Example:
        >>> overlap(torch.tensor([1, 1, 0]), torch.tensor([0, 3, 1]))
        tensor(0.5000, dtype=torch.float64)
    """
    if first.dim() != 1 or first.shape != second.shape:
        raise InputError(
            f"histograms must be two rows of one length, got {list(first.shape)} and "
            f"{list(second.shape)}"
        )
    p, q = (counts.double() / counts.sum() for counts in (first, second))
    return torch.minimum(p, q).sum()
