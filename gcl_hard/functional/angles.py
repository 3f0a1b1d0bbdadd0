"""Where class centres lie on the sphere, and how far apart they could be."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.classes import by_class, embeddings, unit


class Centres(NamedTuple):
    """A point of the unit sphere for each class that occurs, labels ascending.

    Attributes:
        directions: float64 [C, d], rows of length 1; NaN for a class whose embeddings cancel.
        share: float64 [C], ρ, the part of the items that the class holds.
    """

    directions: Tensor
    share: Tensor


def class_centres(z: Tensor, labels: Tensor) -> Centres:
    r"""Direction of the mean unit embedding of each class.

    .. math:: v_c = \bar z_c / \lVert \bar z_c \rVert, \qquad
              \bar z_c = \frac{1}{n_c} \sum_{i: y_i = c} z_i / \lVert z_i \rVert

    For an encoder that maps a class to one point, as HCL's optimum does, v_c is that point.

    Args:
        z: float [n, d]; rows need not be normalised.
        labels: int [n], ≥ 0.

    Returns:
        :class:`Centres`.

    Raises:
        InputError: for no row, values that are not finite, or labels that are no integers ≥ 0.

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
    r"""The smallest angle between two of some points of the unit sphere.

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
    r"""What the optimal embedding of HCL's Theorem 2 makes largest.

    .. math:: \sum_c \rho(c) \min_{c' \ne c} \lVert v_c - v_{c'} \rVert^2

    With equal shares it is at most 2 C / (C − 1), which the simplex of C ≤ d + 1 attains: no
    point's nearest neighbour is farther than the others are on average.

    Args:
        centres: of the classes.

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
    r"""The largest that the least angle between n points of the sphere in d dimensions can be.

    .. math:: \arccos\left(-\frac{1}{n - 1}\right) \; (n \le d + 1), \qquad
              \frac{\pi}{2} \; (d + 2 \le n \le 2 d), \qquad
              \frac{2 \pi}{n} \; (d = 2), \qquad
              \arccos \frac{\cot^2 \omega - 1}{2} \; (d = 3, n > 6)

    with ω = π n / (6 (n − 2)). All are attained (by the simplex, parts of the cross-polytope and
    the regular polygon) but the last, an upper bound that among n > 6 only the icosahedron,
    n = 12, attains.

    Args:
        n: number of points, ≥ 2.
        d: dimension, ≥ 1.

    Returns:
        Radians; None for d ≥ 4 and n > 2 d, where no closed form is known.

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
