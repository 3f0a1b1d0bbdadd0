"""How embeddings lie on the sphere, and whom a negative distribution weighs.

Everything is measured in float64 and without a gradient. Rows need not be normalised where a
measure is of directions; a row of zeros then stays one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.functional.classes import embeddings, unit


def alignment(z1: Tensor, z2: Tensor, alpha: float = 2.0) -> Tensor:
    r"""How far positives lie apart.

    .. math:: \mathbb{E}_{(x, x^+)} \lVert f(x) - f(x^+) \rVert^\alpha

    Args:
        z1: float [B, d], one embedding of each positive pair.
        z2: float [B, d], the other.
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
        raise InputError(
            f"z1 and z2 must be the two sides of positive pairs, [B, d] each, got "
            f"{list(z1.shape)} and {list(z2.shape)}"
        )
    gap = unit(embeddings(z1, "z1")) - unit(embeddings(z2, "z2"))
    distances: Tensor = torch.linalg.vector_norm(gap, dim=1)
    return distances.pow(alpha).mean()


def uniformity(z: Tensor, t: float = 2.0) -> Tensor:
    r"""Log of the mean Gaussian potential of distinct pairs.

    .. math:: \log \frac{2}{n (n - 1)} \sum_{i < j} e^{-t \lVert f(x_i) - f(x_j) \rVert^2}

    Args:
        z: float [n, d], n ≥ 2.
        t: > 0, inverse width of the potential.

    Returns:
        float64 [], 0 for rows that coincide, lower the more evenly they are spread.

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


def effective_negatives(log_q: Tensor) -> Tensor:
    r"""How many equally weighted negatives would concentrate as q does.

    .. math:: 1 / \textstyle\sum_j q_{ij}^2

    Args:
        log_q: float [A, K], log of a distribution, −inf where it has no weight.

    Returns:
        float64 [A], from 1 (a single negative) to the number of candidates with weight; 0 for a
        row without any weight.

    Source:
        Kish (1965), the effective sample size of weights.

    Example:
        >>> effective_negatives(torch.tensor([[0.5, 0.5, 0.0]]).log())
        tensor([2.0000], dtype=torch.float64)
    """
    squares = log_q.detach().double().exp().square().sum(1)
    return torch.where(squares > 0, 1 / squares, 0.0)


def same_label_weight(log_q: Tensor, same: Tensor) -> Tensor:
    r"""Weight that a negative distribution puts on items of the anchor's own label.

    .. math:: \textstyle\sum_j q_{ij}\, 1[y_j = y_i]

    For the q of H-UCL this is α_Hcol / α_H-UCL.

    Args:
        log_q: float [A, K], −inf where q has no weight.
        same: bool [A, K].

    Returns:
        float64 [A], from 0 to 1.

    Raises:
        InputError: for shapes that differ.

    Source:
        Class collisions of the H-SCL paper, sections I and IV.

    Example:
        >>> same = torch.tensor([[True, False, False]])
        >>> same_label_weight(torch.tensor([[0.25, 0.75, 0.0]]).log(), same)
        tensor([0.2500], dtype=torch.float64)
    """
    if log_q.shape != same.shape:
        raise InputError(
            f"same must have the shape of log_q, {list(log_q.shape)}, got {list(same.shape)}"
        )
    return torch.where(same, log_q.detach().double().exp(), 0.0).sum(1)


def effective_rank(z: Tensor) -> Tensor:
    r"""Dimensions that embeddings use: e to the entropy of their normalised singular values.

    .. math:: \exp\Big(-\sum_k p_k \log p_k\Big), \qquad p_k = \sigma_k / \textstyle\sum_l \sigma_l

    The rows are taken as given: normalise or centre them first if that is what you ask about.

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
