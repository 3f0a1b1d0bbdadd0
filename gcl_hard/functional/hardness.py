"""Hardness under JSD: how a hardening sees unbounded scores."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gcl_hard.core.tracing import transformed

HardnessScale = Literal["anchor", "rank", "cosine", "batch-max", "score"]
EmbeddedScale = Literal["anchor", "rank", "cosine", "batch-max"]
"""Hardness scales of embeddings."""
ScoredScale = Literal["anchor", "rank", "score"]
"""Hardness scales of any model's scores, which have no norms."""

DEFAULT_SCALE: EmbeddedScale = "rank"
TEMPERATURE: dict[HardnessScale, float] = {
    "anchor": 1.0, "rank": 1.0, "cosine": 0.5, "batch-max": 0.5, "score": 1.0
}  # fmt: skip
"""γ of a hardening under JSD: 1 for deviations, 0.5 for stand-ins of a cosine."""
FEWEST = 3
"""Others that an anchor needs for a meaningful deviation."""


class Hardness(NamedTuple):
    """Hardness of scores, and how it changes with them.

    Attributes:
        value: float [A, C], without a gradient; finite outside ``others`` too.
        rate: dh/dt, float, broadcastable to [A, C]: a constant to the gradient, as are the
            statistics of a row or batch behind it.
    """

    value: Tensor
    rate: Tensor

    def with_gradient(self, t: Tensor) -> Tensor:
        """The values with their gradient with respect to the scores t."""
        return self.value + self.rate * (t - t.detach())


def bounded(scale: HardnessScale) -> bool:
    """Whether a hardness stands for a cosine in [−1, 1]; else it is in deviations.

    Example:
        >>> bounded("cosine"), bounded("anchor")
        (True, False)
    """
    return scale in ("cosine", "batch-max")


def jsd_hardness(
    scores: Tensor,
    others: Tensor,
    scale: HardnessScale,
    *,
    lengths: Tensor | None = None,
    largest: Tensor | None = None,
) -> Hardness:
    r"""The hardness h of scores t, of which a hardening takes e^{βh/γ} or 1[h ≥ l].

    .. math:: h_{ij} = \begin{cases}
              (t_{ij} - \mu_i) / \sigma_i & \text{anchor} \\
              \Phi^{-1}(\hat F_i(t_{ij})) & \text{rank} \\
              t_{ij} / (\lVert u_i \rVert \lVert v_j \rVert) & \text{cosine} \\
              t_{ij} / m & \text{batch-max} \\
              t_{ij} & \text{score}
              \end{cases}

    with μ and the population's σ of the anchor's `others`, :math:`\hat F` the mid-rank among
    them, u and v the embeddings, and m of :func:`jsd_scale`. None depends on labels, so
    that all methods share one η. γ is 1 for the first two and 0.5 for the others. Where nearly
    equal scores, or fewer than three others of ``"anchor"``, leave no deviation, h = 0.

    Args:
        scores: float [..., A, C], t; must be finite, may hold any number outside ``others``.
        others: bool, broadcastable to the scores.
        scale: hardness scale.
        lengths: float, broadcastable to the scores: ‖u‖‖v‖, for ``"cosine"``.
        largest: m, broadcastable to the scores, for ``"batch-max"``; that of these scores if None.

    Returns:
        :class:`Hardness`. Of ``"rank"`` the rate is 0: ranks have no gradient.

    Source:
        anchor and rank: ours; they keep the meaning of β for scores of any size and tails.
        cosine: nearest to the text of the H-SCL paper, whose embeddings are on the unit sphere.
        batch-max: joshr17/HCL's graph code, without its sign.

    Example:
        >>> t, every = torch.tensor([[1.0, 2.0, 3.0]]), torch.ones(1, 3, dtype=torch.bool)
        >>> jsd_hardness(t, every, "anchor").value
        tensor([[-1.2247,  0.0000,  1.2247]])
        >>> jsd_hardness(t, every, "rank").value
        tensor([[-0.9674,  0.0000,  0.9674]])
    """
    t = scores.detach()
    if scale == "score":
        return Hardness(t, t.new_ones(()))
    if scale == "rank":
        return Hardness(torch.special.ndtri(mid_ranks(t, others)), t.new_zeros(()))
    if scale == "anchor":
        return _deviations(t, others)
    if scale == "cosine":
        assert lengths is not None
        divisor = lengths.detach()
        rate = torch.where(divisor > 0, 1 / divisor, 0.0)
    else:
        rate = 1 / (jsd_scale(t, others) if largest is None else largest)
    return Hardness((t * rate).clamp_(-1, 1), rate)


def jsd_scale(scores: Tensor, others: Tensor) -> Tensor:
    r"""The scale m of ``"batch-max"``, which turns scores into numbers in [−1, 1].

    .. math:: m = \max_{(i, j) \in \text{others}} |t_{ij}|

    m is one number for the batch, does not depend on labels and carries no gradient.

    Args:
        scores: float [A, C], t; may hold anything outside ``others``.
        others: bool [A, C].

    Returns:
        float [], m; +inf if all scores are 0, so that t / m is 0.

    Source:
        The scaling of joshr17/HCL's graph code without its sign; there m is the larger of the
        largest score and the absolute value of the smallest, masked positives included.

    Example:
        >>> jsd_scale(torch.tensor([[9.0, 2.0, -4.0]]), torch.tensor([[False, True, True]]))
        tensor(4.)
    """
    if scores.numel() == 0:
        return scores.new_tensor(math.inf)
    largest = scores.detach().masked_fill(~others, 0.0).abs().amax()
    return torch.where(largest == 0, math.inf, largest)


def norms(z: Tensor) -> Tensor:
    """Euclidean norms of rows, without a gradient, float [n].

    Example:
        >>> norms(torch.tensor([[3.0, 4.0]]))
        tensor([5.])
    """
    return z.detach().square().sum(-1).sqrt()


def _deviations(t: Tensor, others: Tensor) -> Hardness:
    n = others.sum(-1, keepdim=True).to(t.dtype)
    among = torch.where(others, t, 0.0)
    mean = among.sum(-1, keepdim=True) / n.clamp(min=1)
    centred = torch.where(others, t - mean, 0.0)
    deviation = (centred.square().sum(-1, keepdim=True) / n.clamp(min=1)).sqrt()
    known = (n >= FEWEST) & (deviation > rounding(among))
    rate = torch.where(known, 1 / deviation, 0.0)
    return Hardness((t - mean) * rate, rate)


def mid_ranks(t: Tensor, others: Tensor) -> Tensor:
    r"""Mid-ranks of t among the others of its row, as shares of them.

    .. math:: \hat F_i(t) = \frac{1}{n_i} \Big( \#\{j : t_{ij} < t\}
              + \tfrac{1}{2} \#\{j : t_{ij} = t\} \Big)

    Scores that differ by rounding are equal.

    Args:
        t: float [..., A, C], finite.
        others: bool, broadcastable to t.

    Returns:
        float [..., A, C], from 1 / 2n to 1 − 1 / 2n, without a gradient; what is not among the
        others is placed between them. 1/2 in a row without others.

    Example:
        >>> mid_ranks(torch.tensor([[3.0, 1.0, 1.0, 9.0]]), torch.ones(4, dtype=torch.bool))
        tensor([[0.6250, 0.2500, 0.2500, 0.8750]])
    """
    t, others = t.detach().contiguous(), others.expand_as(t)
    n = others.sum(-1, keepdim=True).clamp(min=1).to(t.dtype)
    slack = rounding(torch.where(others, t, 0.0))
    order = _argsort(t)
    asked = t.gather(-1, order)  # sorted queries are searched several times faster
    among = others.gather(-1, order)
    ordered = asked.masked_fill(~among, math.inf)
    if t.device.type == "cpu":  # where nearly sorted rows sort fast
        ordered = ordered.gather(-1, _argsort(ordered))
    else:
        ordered = torch.empty_like(t).scatter_(-1, _places(among), ordered)
    below = torch.searchsorted(ordered, asked - slack)
    up_to = torch.searchsorted(ordered, asked + slack, right=True)
    share = (below + up_to).to(t.dtype) / (2 * n)
    share = torch.minimum(torch.maximum(share, 0.5 / n), 1 - 0.5 / n)
    return torch.empty_like(t).scatter_(-1, order, share)


def _places(first: Tensor) -> Tensor:
    """New positions of the entries of rows that put some first, keeping the order of each kind.

    Example:
        >>> _places(torch.tensor([[False, True, False, True]]))
        tensor([[2, 0, 3, 1]])
    """
    number = first.cumsum(-1)
    after = torch.arange(first.shape[-1], device=first.device) - number + number[..., -1:]
    return torch.where(first, number - 1, after)


def _argsort(t: Tensor) -> Tensor:
    if t.device.type == "cpu" and t.dtype.itemsize >= 4 and not transformed():
        return torch.from_numpy(t.numpy().argsort(axis=-1))  # several times PyTorch's speed
    return t.argsort(dim=-1)


def sort(t: Tensor) -> Tensor:
    """Rows in ascending order, without a gradient.

    Example:
        >>> sort(torch.tensor([[3.0, 1.0, 2.0]]))
        tensor([[1., 2., 3.]])
    """
    t = t.detach()
    if t.device.type == "cpu" and t.dtype.itemsize >= 4 and not transformed():
        values = t.numpy().copy()
        values.sort(axis=-1)  # several times PyTorch's speed
        return torch.from_numpy(values)
    return t.sort(dim=-1).values


def rounding(among: Tensor) -> Tensor:
    """The tolerance for ties: equal graphs, summed in another order, differ by rounding.

    It is 1e-5 of a row's largest score in single and 4e-11 in double precision.
    """
    share: float = min(torch.finfo(among.dtype).eps ** (2 / 3), 1e-5)
    return share * among.abs().amax(-1, keepdim=True)
