"""Embeddings as measures take them, and what a class has in common. No gradient flows here."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from gcl_hard.errors import InputError
from gcl_hard.functional.pairs import check_labels


def embeddings(z: Tensor, name: str = "z", at_least: int = 1) -> Tensor:
    """Rows to be measured, in float64 and cut from the graph.

    Args:
        z: float [n, d], n ≥ ``at_least``, d ≥ 1, finite.
        name: of the argument, for the message.
        at_least: how many rows are needed.

    Returns:
        float64 [n, d].

    Raises:
        InputError: for another shape or dtype, or a value that is not finite.

    Example:
        >>> embeddings(torch.ones(1, 2)).dtype
        torch.float64
    """
    if z.dim() != 2 or len(z) < at_least or z.shape[1] < 1:
        raise InputError(
            f"{name} must be [n, d] with n of at least {at_least} and d of at least 1, got "
            f"{list(z.shape)}"
        )
    if not z.is_floating_point():
        raise InputError(f"{name} must be floating point, got {z.dtype}")
    if not bool(z.isfinite().all()):
        raise InputError(f"{name} must be finite, got {int((~z.isfinite()).sum())} NaN or infinite")
    return z.detach().double()


def unit(z: Tensor) -> Tensor:
    """Rows of length 1; a row of zeros stays one, at cosine 0 to every other.

    Args:
        z: float64 [n, d].

    Returns:
        float64 [n, d].

    Example:
        >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]], dtype=torch.float64)
    """
    return F.normalize(z, dim=1, eps=torch.finfo(z.dtype).tiny)


class ByClass(NamedTuple):
    """Means of classes; only labels that occur are classes, in ascending order.

    Attributes:
        means: float64 [C, d].
        of: int64 [n], class of each row, 0 … C − 1.
        counts: int64 [C].
    """

    means: Tensor
    of: Tensor
    counts: Tensor


def by_class(z: Tensor, labels: Tensor) -> ByClass:
    r"""Mean of the rows of each class.

    .. math:: \mu_c = \frac{1}{n_c} \sum_{i: y_i = c} z_i

    Args:
        z: float64 [n, d].
        labels: int [n], ≥ 0.

    Returns:
        :class:`ByClass`.

    Raises:
        InputError: for labels that are no integers ≥ 0, one per row.

    Example:
        >>> by_class(torch.tensor([[1.0], [3.0], [7.0]]), torch.tensor([4, 4, 9]))
        ByClass(means=tensor([[2.],
                [7.]]), of=tensor([0, 0, 1]), counts=tensor([2, 1]))
    """
    labels = check_labels(labels, len(z), "a measure of classes")
    _, of, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    sums = z.new_zeros(len(counts), z.shape[1]).index_add_(0, of, z)
    return ByClass(sums / counts[:, None], of, counts)
