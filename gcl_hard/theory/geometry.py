"""Geometry of embeddings: alignment, uniformity, rank, class centres, and neural collapse.

Everything is measured in float64 and without a gradient. Measures of directions normalise the rows;
a row of zeros stays zero.

Neural collapse means classes that shrink to points, and points that form a simplex; it is measured
on the embeddings as given. Each class counts the same, however many items it holds: the centre μ_G
is the mean of the class means μ_c, and Σ_W the mean over classes of their covariances. With classes
of one size these are the papers'. A class of one item has no variance. With a single class, or if
a measure divides by distances between class means that all coincide, the value is NaN.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.negatives import check_labels
from gcl_hard.theory.similarity import embeddings, unit


def alignment(z1: Tensor, z2: Tensor, alpha: float = 2.0) -> Tensor:
    r"""Alignment: how far apart the embeddings of positive pairs are.

    .. math:: \mathbb{E}_{(x, x^+)} \lVert f(x) - f(x^+) \rVert^\alpha

    Args:
        z1: float [B, d], first embedding of each positive pair.
        z2: float [B, d], second embedding.
        alpha: exponent > 0.

    Returns:
        float64 [], from 0 (positives coincide) to 2^α.

    Raises:
        InputError: for shapes that differ, no pair, or values that are not finite.

    Source:
        Wang & Isola (2020), section 4.1, with their α = 2.

    Example:
        >>> alignment(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
        tensor(2.0000, dtype=torch.float64)
    """
    if z1.shape != z2.shape:
        raise InputError(f"z1 and z2 must be [B, d] each, got {[*z1.shape]} and {[*z2.shape]}")
    gap = unit(embeddings(z1, "z1")) - unit(embeddings(z2, "z2"))
    distances: Tensor = torch.linalg.vector_norm(gap, dim=1)
    return distances.pow(alpha).mean()


def uniformity(z: Tensor, t: float = 2.0) -> Tensor:
    r"""Uniformity: log of the mean Gaussian potential of distinct pairs.

    .. math:: \log \frac{2}{n (n - 1)} \sum_{i < j} e^{-t \lVert f(x_i) - f(x_j) \rVert^2}

    Args:
        z: float [n, d], n ≥ 2.
        t: > 0, inverse width of the potential.

    Returns:
        float64 [], 0 if all rows coincide, and lower the more evenly they are spread.

    Raises:
        InputError: for fewer than two rows, or values that are not finite.

    Source:
        Wang & Isola (2020), section 4.1, with their t = 2; over distinct pairs, as their code.

    Example:
        >>> uniformity(torch.tensor([[1.0, 0.0], [-3.0, 0.0]]))
        tensor(-8., dtype=torch.float64)
    """
    potentials = -t * torch.pdist(unit(embeddings(z, at_least=2))).square()
    return potentials.logsumexp(0) - torch.tensor(float(len(potentials))).double().log()


def effective_rank(z: Tensor) -> Tensor:
    r"""Effective rank: the exponential of the entropy of the normalised singular values.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big), \qquad p_k = \sigma_k / \textstyle\sum_l \sigma_l

    The rows are neither normalised nor centred.

    Args:
        z: float [n, d].

    Returns:
        float64 [], from 1 (one direction) to min(n, d); 0 for a matrix of zeros.

    Raises:
        InputError: for no row, or values that are not finite.

    Source:
        Roy & Vetterli (2007), definition 1.

    Example:
        >>> effective_rank(torch.eye(3))
        tensor(3.0000, dtype=torch.float64)
    """
    sigma = torch.linalg.svdvals(embeddings(z))
    p = sigma / sigma.sum()
    return torch.where(sigma[0] > 0, torch.special.entr(p).sum().exp(), 0.0)


class ByClass(NamedTuple):
    """Means of the classes that occur, in ascending order of their labels.

    Attributes:
        means: float64 [C, d].
        ids: int64 [n], class of each row, 0 … C − 1.
        counts: int64 [C].
    """

    means: Tensor
    ids: Tensor
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
        InputError: for labels other than integers ≥ 0, one per row.

    Example:
        >>> by_class(torch.tensor([[1.0], [3.0], [7.0]]), torch.tensor([4, 4, 9]))
        ByClass(means=tensor([[2.],
                [7.]]), ids=tensor([0, 0, 1]), counts=tensor([2, 1]))
    """
    labels = check_labels(labels, len(z), "a measure of classes")
    _, ids, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    sums = z.new_zeros(len(counts), z.shape[1]).index_add_(0, ids, z)
    return ByClass(sums / counts[:, None], ids, counts)


class Centres(NamedTuple):
    """A point on the unit sphere for each class that occurs, in ascending order of the labels.

    Attributes:
        directions: float64 [C, d], rows of length 1; NaN for a class whose embeddings cancel.
        share: float64 [C], ρ, the share of the items in the class.
    """

    directions: Tensor
    share: Tensor


def class_centres(z: Tensor, labels: Tensor) -> Centres:
    r"""Direction of the mean unit embedding of each class.

    .. math:: v_c = \bar z_c / \lVert \bar z_c \rVert, \qquad
              \bar z_c = \frac{1}{n_c} \sum_{i: y_i = c} z_i / \lVert z_i \rVert

    If an encoder maps a class to one point, as the optimum of HCL does, v_c is that point.

    Args:
        z: float [n, d]; rows need not be normalised.
        labels: int [n], ≥ 0.

    Returns:
        :class:`Centres`.

    Raises:
        InputError: for no row, values that are not finite, or labels other than integers ≥ 0.

    Source:
        v_c and ρ(c) of Robinson et al. (2021), Theorem 2.

    Example:
        >>> z = torch.tensor([[2.0, 0.0], [5.0, 0.0], [0.0, 1.0]])
        >>> class_centres(z, torch.tensor([0, 0, 1])).directions
        tensor([[1., 0.],
                [0., 1.]], dtype=torch.float64)
    """
    means, _, counts = by_class(unit(embeddings(z)), labels)
    cancelled = torch.linalg.vector_norm(means, dim=1, keepdim=True) < 1e-12
    return Centres(unit(means).masked_fill(cancelled, math.nan), counts / counts.double().sum())


def least_angle(directions: Tensor) -> Tensor:
    r"""The smallest angle between any two points on the unit sphere.

    .. math:: \min_{c < c'} 2 \operatorname{atan2}(\lVert v_c - v_{c'} \rVert,
              \lVert v_c + v_{c'} \rVert)

    Args:
        directions: float64 [C, d], rows of length 1.

    Returns:
        float64 [], radians, from 0 to π; NaN for fewer than two points, or if one is NaN.

    Source:
        Kahan (2006) for the angle, which keeps its digits near 0 and near π.

    Example:
        >>> least_angle(torch.eye(3, dtype=torch.float64)) * 180 / math.pi
        tensor(90., dtype=torch.float64)
    """
    if len(directions) < 2:
        return directions.new_full((), math.nan)
    n = len(directions)
    pairs = torch.triu_indices(n, n, 1, device=directions.device)
    u, v = directions[pairs[:, torch.pdist(directions).argmin()]]
    return 2 * torch.atan2(torch.linalg.vector_norm(u - v), torch.linalg.vector_norm(u + v))


def packing(centres: Centres) -> Tensor:
    r"""The objective that the optimal embedding of HCL's Theorem 2 maximises.

    .. math:: \sum_c \rho(c) \min_{c' \ne c} \lVert v_c - v_{c'} \rVert^2

    With equal shares it is at most 2 C / (C − 1), which the simplex of C ≤ d + 1 attains: no
    point's nearest neighbour is farther than the others are on average.

    Args:
        centres: centres of the classes.

    Returns:
        float64 [], from 0 to 4, on the unit sphere; a sphere of radius r has r² times this. NaN
        for fewer than two classes, or if one has no direction.

    Source:
        Robinson et al. (2021), Theorem 2, Eq. 5, there with radius 1/t.

    Example:
        >>> packing(Centres(torch.eye(2).double(), torch.tensor([0.5, 0.5]).double()))
        tensor(2.0000, dtype=torch.float64)
    """
    v, share = centres
    if len(v) < 2:
        return v.new_full((), math.nan)
    distances = torch.cdist(v, v, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distances.fill_diagonal_(math.inf).amin(1)
    return (share * nearest.square()).sum()


def widest_angle(n: int, d: int) -> float | None:
    r"""Upper bound of the least angle between n points on the sphere in d dimensions.

    .. math:: \arccos\left(-\frac{1}{n - 1}\right) \; (n \le d + 1), \qquad
              \frac{\pi}{2} \; (d + 2 \le n \le 2 d), \qquad
              \frac{2 \pi}{n} \; (d = 2), \qquad
              \arccos \frac{\cot^2 \omega - 1}{2} \; (d = 3, n > 6)

    with ω = π n / (6 (n − 2)). All are attained (by the simplex, parts of the cross-polytope and
    the regular polygon) except the last, an upper bound that only the icosahedron, n = 12,
    attains for n > 6.

    Args:
        n: number of points, ≥ 2.
        d: dimension, ≥ 1.

    Returns:
        The angle in radians; None for d ≥ 4 and n > 2 d, where no closed form is known.

    Raises:
        InputError: for fewer than two points or no dimension.

    Source:
        Rankin (1955) for n ≤ 2 d; Fejes Tóth (1943) for d = 3. This is the Tammes problem, which
        Robinson et al. (2021) refer to.

    Example:
        >>> [round(math.degrees(widest_angle(n, 3)), 2) for n in (2, 4, 6, 12)]
        [180.0, 109.47, 90.0, 63.43]
        >>> widest_angle(100, 32) is None
        True
    """
    if n < 2 or d < 1:
        raise InputError(f"n must be at least 2 and d at least 1, got {n} points and d = {d}")
    if d == 1:
        return math.pi if n == 2 else 0.0
    if d == 2:
        return 2 * math.pi / n
    if n <= d + 1:
        return math.acos(-1 / (n - 1))
    if n <= 2 * d:
        return math.pi / 2
    if d == 3:
        cot = 1 / math.tan(math.pi * n / (6 * (n - 2)))
        return math.acos((cot * cot - 1) / 2)
    return None


class Equiangularity(NamedTuple):
    """Deviation of the directions of class means from a simplex's; float64 [] each.

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
    ids: Tensor  # int64 [n]
    counts: Tensor  # int64 [C]
    noise: float  # lengths up to this are rounding


def nc1(z: Tensor, labels: Tensor) -> Tensor:
    r"""Variability within classes relative to that between class means, where these differ.

    .. math:: \operatorname{tr}(\Sigma_W \Sigma_B^+) / C, \qquad
              \Sigma_B = \frac{1}{C} \sum_c (\mu_c - \mu_G)(\mu_c - \mu_G)^\top

    Args:
        z: float [n, d].
        labels: int [n], ≥ 0.

    Returns:
        float64 [], ≥ 0; 0 if every class is a point. NaN for one class or class means that
        coincide.

    Raises:
        InputError: for no row, values that are not finite, or labels other than integers ≥ 0.

    Source:
        Papyan, Han, Donoho (2020), (NC1) and its Fig. 6.

    Example:
        >>> nc1(torch.tensor([[0.0], [2.0], [10.0], [12.0]]), torch.tensor([0, 0, 1, 1]))
        tensor(0.0200, dtype=torch.float64)
    """
    c = _classes(z, labels)
    n_classes = len(c.counts)
    _, sigma, axes = torch.linalg.svd(c.centred / math.sqrt(n_classes), full_matrices=False)
    # Centred means span at most C − 1 dimensions; the rest is rounding.
    kept = int((sigma[: n_classes - 1] > c.noise).sum())
    if kept == 0:
        return z.new_full((), math.nan, dtype=torch.float64)
    ratios: Tensor = (c.residuals @ axes[:kept].T / sigma[:kept]).square().sum(1)
    per_class = ratios / c.counts[c.ids]
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
    r"""Deviation of the angles between class means from one another and from a simplex's.

    .. math:: \operatorname{Std}_{c < c'} \cos(c, c'), \qquad
              \operatorname{Avg}_{c < c'} \left| \cos(c, c') + \frac{1}{C - 1} \right|

    with the cosines of μ_c − μ_G. Both are 0 for a simplex, and always for two classes; with
    C > d + 1 there is none, and they cannot both reach 0.

    Args:
        z: float [n, d].
        labels: int [n], ≥ 0.

    Returns:
        :class:`Equiangularity`; NaN for one class, or if a class mean is the centre.

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
    variance = c.means.new_zeros(len(c.counts)).index_add_(0, c.ids, squares) / c.counts
    variance = torch.where(variance > c.noise**2, variance, 0.0)
    first, second = torch.triu_indices(len(c.counts), len(c.counts), 1, device=c.ids.device)
    distance = torch.pdist(c.means)
    distance = torch.where(distance > c.noise, distance, 0.0)
    return ((variance[first] + variance[second]) / (2 * distance.square())).mean()


def _classes(z: Tensor, labels: Tensor) -> _Classes:
    z = embeddings(z)
    # Nothing here depends on the origin: relative to the first row, equal rows are exactly 0.
    z = z - z[0]
    means, ids, counts = by_class(z, labels)
    largest = torch.linalg.vector_norm(z, dim=1).amax()
    noise = float(largest) * sum(z.shape) * torch.finfo(z.dtype).eps
    return _Classes(means, means - means.mean(0), z - means[ids], ids, counts, noise)


def _std(values: Tensor) -> Tensor:
    """Standard deviation; NaN, without a warning, of an empty tensor."""
    return (values - values.mean()).square().mean().sqrt()
