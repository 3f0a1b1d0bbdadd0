"""Neural collapse: classes that shrink to points, and points that form a simplex.

Everything is measured in float64, without a gradient, on the embeddings as given. Each class counts
the same, however many items it holds: the centre μ_G is the mean of the class means μ_c, and
Σ_W the mean over classes of their covariances. With classes of one size these are the papers'.
A class of one item has no variance. With a single class, or where a measure divides by distances
between class means that all coincide, there is nothing to measure: the value is NaN.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.functional.geometry import by_class
from gcl_hard.functional.similarity import embeddings, unit


class Equiangularity(NamedTuple):
    """How much the directions of class means differ from a simplex's; float64 [] each.

    Attributes:
        spread: standard deviation of the cosines of two classes.
        gap: mean distance of these cosines from −1 / (C − 1).
    """

    spread: Tensor
    gap: Tensor


class _Classes(NamedTuple):
    means: Tensor  # [C, d]
    centred: Tensor  # [C, d], μ_c − μ_G
    residuals: Tensor  # [n, d], z − μ_c
    of: Tensor  # int64 [n]
    counts: Tensor  # int64 [C]
    noise: float  # lengths up to this are rounding


def nc1(z: Tensor, labels: Tensor) -> Tensor:
    r"""Variability within classes, in units of that between them, where classes differ at all.

    .. math:: \operatorname{tr}(\Sigma_W \Sigma_B^+) / C, \qquad
              \Sigma_B = \frac{1}{C} \sum_c (\mu_c - \mu_G)(\mu_c - \mu_G)^\top

    Args:
        z: float [n, d].
        labels: int [n], ≥ 0.

    Returns:
        float64 [], ≥ 0; 0 if every class is a point. NaN for one class or class means that
        coincide.

    Raises:
        InputError: for no row, values that are not finite, or labels that are no integers ≥ 0.

    Source:
        Papyan, Han, Donoho (2020), (NC1) and its Fig. 6.

    Example:
        >>> nc1(torch.tensor([[0.0], [2.0], [10.0], [12.0]]), torch.tensor([0, 0, 1, 1]))
        tensor(0.0200, dtype=torch.float64)
    """
    c = _classes(z, labels)
    n_classes = len(c.counts)
    _, sigma, axes = torch.linalg.svd(c.centred / math.sqrt(n_classes), full_matrices=False)
    # Centred means span at most C − 1 dimensions; what else is left of them is rounding.
    kept = int((sigma[: n_classes - 1] > c.noise).sum())
    if kept == 0:
        return z.new_full((), math.nan, dtype=torch.float64)
    ratios: Tensor = (c.residuals @ axes[:kept].T / sigma[:kept]).square().sum(1)
    per_class = ratios / c.counts[c.of]
    return per_class.sum() / n_classes**2


def equinorm(z: Tensor, labels: Tensor) -> Tensor:
    r"""Coefficient of variation of the distances of class means from their centre.

    .. math:: \operatorname{Std}_c \lVert \mu_c - \mu_G \rVert \,/\,
              \operatorname{Avg}_c \lVert \mu_c - \mu_G \rVert

    Args:
        z: float [n, d].
        labels: int [n], ≥ 0.

    Returns:
        float64 [], ≥ 0 (Std divides by C); 0 for a simplex, and always for two classes. NaN for
        one class or class means that coincide.

    Raises:
        InputError: as :func:`nc1`.

    Source:
        Papyan, Han, Donoho (2020), (NC2) and its Fig. 2.

    Example:
        >>> equinorm(torch.tensor([[3.0], [0.0], [-3.0]]), torch.tensor([0, 1, 2]))
        tensor(0.7071, dtype=torch.float64)
    """
    c = _classes(z, labels)
    norms = torch.linalg.vector_norm(c.centred, dim=1)
    mean = norms.mean()
    return torch.where(mean > c.noise, norms.std(correction=0) / mean, math.nan)


def equiangularity(z: Tensor, labels: Tensor) -> Equiangularity:
    r"""How far class means are from standing at one angle, and at the widest there is.

    .. math:: \operatorname{Std}_{c < c'} \cos(c, c'), \qquad
              \operatorname{Avg}_{c < c'} \left| \cos(c, c') + \frac{1}{C - 1} \right|

    with the cosines of μ_c − μ_G. Both are 0 for a simplex, and always for two classes; with
    C > d + 1 there is none, and they cannot both reach 0.

    Args:
        z: float [n, d].
        labels: int [n], ≥ 0.

    Returns:
        :class:`Equiangularity`; NaN for one class, or if a class mean lies in the centre.

    Raises:
        InputError: as :func:`nc1`.

    Source:
        Papyan, Han, Donoho (2020), (NC2) and its Fig. 3 and 4.

    Example:
        >>> equiangularity(torch.eye(3), torch.tensor([0, 1, 2])).gap < 1e-12
        tensor(True)
    """
    c = _classes(z, labels)
    n_classes = len(c.counts)
    in_centre = torch.linalg.vector_norm(c.centred, dim=1) <= c.noise
    directions = unit(c.centred).masked_fill(in_centre[:, None], math.nan)
    first, second = torch.triu_indices(n_classes, n_classes, 1, device=directions.device)
    cosines = (directions @ directions.T)[first, second]
    gap = (cosines + 1 / max(n_classes - 1, 1)).abs().mean()
    return Equiangularity(_std(cosines), gap)


def cdnv(z: Tensor, labels: Tensor) -> Tensor:
    r"""Class-distance normalised variance, averaged over pairs of classes.

    .. math:: \operatorname{Avg}_{c < c'} \frac{\operatorname{Var}_c + \operatorname{Var}_{c'}}
              {2 \lVert \mu_c - \mu_{c'} \rVert^2}, \qquad
              \operatorname{Var}_c = \frac{1}{n_c} \sum_{i: y_i = c} \lVert z_i - \mu_c \rVert^2

    Args:
        z: float [n, d].
        labels: int [n], ≥ 0.

    Returns:
        float64 [], ≥ 0; 0 if every class is a point of its own. +inf if two class means coincide
        and their classes vary; NaN if they coincide and do not, or for one class.

    Raises:
        InputError: as :func:`nc1`.

    Source:
        Galanti, György, Hutter (2021), section 3.

    Example:
        >>> cdnv(torch.tensor([[0.0], [2.0], [10.0], [12.0]]), torch.tensor([0, 0, 1, 1]))
        tensor(0.0100, dtype=torch.float64)
    """
    c = _classes(z, labels)
    squares = c.residuals.square().sum(1)
    variance = c.means.new_zeros(len(c.counts)).index_add_(0, c.of, squares) / c.counts
    variance = torch.where(variance > c.noise**2, variance, 0.0)
    first, second = torch.triu_indices(len(c.counts), len(c.counts), 1, device=c.of.device)
    distance = torch.pdist(c.means)
    distance = torch.where(distance > c.noise, distance, 0.0)
    return ((variance[first] + variance[second]) / (2 * distance.square())).mean()


def _classes(z: Tensor, labels: Tensor) -> _Classes:
    z = embeddings(z)
    # Nothing here depends on the origin: from the first row, equal rows are exactly 0.
    z = z - z[0]
    means, of, counts = by_class(z, labels)
    largest = torch.linalg.vector_norm(z, dim=1).amax()
    noise = float(largest) * sum(z.shape) * torch.finfo(z.dtype).eps
    return _Classes(means, means - means.mean(0), z - means[of], of, counts, noise)


def _std(values: Tensor) -> Tensor:
    """Standard deviation of all there is; NaN, without a warning, of nothing."""
    return (values - values.mean()).square().mean().sqrt()
