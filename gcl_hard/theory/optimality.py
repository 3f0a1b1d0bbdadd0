"""SPACL's optimality conditions, measured on embeddings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import Floats, as_array


class ConeDistance(NamedTuple):
    """Distance of the line of a positive from the convex hull of the negatives.

    Attributes:
        forward: distance of p from the cone of the negatives, 0 to 1.
        backward: distance of −p.
    """

    forward: float
    backward: float


def cone_distance(positive: Any, negatives: Any) -> ConeDistance:
    r"""Distance of p and of −p from the cone of the negatives.

    .. math:: \min_{a \ge 0} \Big\lVert \sum_j a_j n_j \mp p \Big\rVert

    c p with c ≠ 0 is in conv{n} for some c exactly if one of the two is 0. If neither is, the
    optimal anchor is not its positive (Corollary 2.2).

    Args:
        positive: float [d], p, scaled to length 1 here.
        negatives: float [K, d].

    Returns:
        :class:`ConeDistance`; 1 without negatives.

    Raises:
        InputError: for other shapes, values that are not finite, or p = 0.

    Source:
        SPACL, Corollary 2.2; solved by non-negative least squares.

    Example:
        >>> cone_distance([1.0, 0.0], [[0.6, 0.8], [0.6, -0.8]])
        ConeDistance(forward=0.0, backward=1.0)
    """
    from scipy.optimize import nnls

    p, n = _checked(positive, negatives)
    distances = [1.0 if len(n) == 0 else float(nnls(n.T, sign * p)[1]) for sign in (1, -1)]
    return ConeDistance(
        *(0.0 if distance < ROUNDING else min(distance, 1.0) for distance in distances)
    )


ROUNDING = 1e-12
"""Distances below this count as 0."""


def stationarity_angle(positive: Any, negatives: Any, temperature: float = 1.0) -> float:
    r"""Angle between the weighted sum of the negatives at p and the line of p.

    .. math:: \angle\Big( \sum_j w_j n_j,\; \pm p \Big), \qquad
              w_j = \frac{e^{\langle n_j, p \rangle / \gamma}}
                         {\sum_k e^{\langle n_k, p \rangle / \gamma}}

    With a single positive, x = p is a stationary point exactly if it is 0 (Theorem 2.1).

    Args:
        positive: float [d], p, scaled to length 1 here.
        negatives: float [K, d], K ≥ 1.
        temperature: γ > 0.

    Returns:
        Radians, 0 to π / 2; 0 if the sum is 0, which has no component across p.

    Raises:
        InputError: as :func:`cone_distance`, or without negatives.

    Source:
        SPACL, Theorem 2.1.

    Example:
        >>> stationarity_angle([1.0, 0.0], [[0.6, 0.8], [0.6, -0.8]])
        0.0
    """
    p, n = _checked(positive, negatives)
    if len(n) == 0:
        raise InputError("there are no negatives to sum")
    total = _softmax(n @ p / temperature) @ n
    along = total @ p
    across = np.linalg.norm(total - along * p)
    return float(np.arctan2(across, abs(along)))


def gradient_norm(anchor: Any, positives: Any, negatives: Any, temperature: float = 1.0) -> float:
    r"""Norm of the gradient of InfoNCE with respect to an anchor.

    .. math:: \nabla_x \log\Big(1 + \frac{s^-}{s^+}\Big) = \frac{1}{\gamma}
              \frac{s^-}{s^- + s^+} \Big( \sum_j w^-_j n_j - \sum_j w^+_j p_j \Big), \qquad
              s^\pm = \sum_j e^{\langle x, \cdot_j \rangle / \gamma}

    with w the softmax of the exponents of each sum. For unit vectors it is at most 2 / γ, and with
    one positive, one negative and γ = 1 at most 2 σ(2) = 1.76 (Lemma 2.4).

    Args:
        anchor: float [d], x, scaled to length 1 here.
        positives: float [P, d], P ≥ 1.
        negatives: float [K, d].
        temperature: γ > 0.

    Returns:
        The norm; 0 without negatives.

    Raises:
        InputError: as :func:`cone_distance`, or without positives.

    Source:
        SPACL, Lemma 2.4.

    Example:
        >>> round(gradient_norm([1.0, 0.0], [[-1.0, 0.0]], [[1.0, 0.0]]), 2)
        1.76
    """
    x, n = _checked(anchor, negatives)
    _, p = _checked(anchor, positives)
    if len(p) == 0:
        raise InputError("there are no positives: the loss has no value")
    if len(n) == 0:
        return 0.0
    t_pos, t_neg = p @ x / temperature, n @ x / temperature
    gap = np.logaddexp.reduce(t_pos) - np.logaddexp.reduce(t_neg)
    share = np.exp(-np.logaddexp(0, gap))
    difference = _softmax(t_neg) @ n - _softmax(t_pos) @ p
    return float(share * np.linalg.norm(difference) / temperature)


def _softmax(t: Floats) -> Floats:
    weights = np.exp(t - t.max())
    return weights / weights.sum()


def _checked(vector: Any, rows: Any) -> tuple[Floats, Floats]:
    """A unit vector and rows of its width, in double precision."""
    x, z = (
        as_array(name, values).astype(np.float64)
        for name, values in (("the vector", vector), ("the rows", rows))
    )
    if x.ndim != 1 or z.ndim != 2 or z.shape[1] != len(x):
        raise InputError(
            f"a vector [d] and rows [K, d] are needed, got {list(x.shape)} and {list(z.shape)}"
        )
    if not (np.isfinite(x).all() and np.isfinite(z).all()):
        raise InputError("embeddings must be finite")
    if not x.any():
        raise InputError("a zero vector has no direction")
    return x / np.linalg.norm(x), z
