"""ProGCL's weights: how likely a negative is a true one, by a mixture of two beta distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, Self

import torch
from torch import Tensor

from gcl_hard.core.setting import Setting
from gcl_hard.core.tracing import refuse_vmap
from gcl_hard.errors import InputError, check_number
from gcl_hard.functional.dense import negative_similarities
from gcl_hard.functional.hardening import Hardening, Rows, Uniform
from gcl_hard.functional.plan import Pairing, Plan

EPSILON = 1e-4
"""Least distance of values from 0 and 1, where a density may be infinite."""
LEAST_VARIANCE = 1e-8
"""Least variance of a component, so that it does not shrink to a point."""
STEPS, TOLERANCE = 200, 1e-5
"""Most steps of EM, and the change of a posterior below which it ends."""
MOST = 100_000
"""Most similarities to which a mixture is fitted; per process with gathered negatives."""
AT_A_TIME = 2**22
"""Similarities that are computed at a time."""
FEWEST_ANCHORS = 128
"""Anchors from whose negatives they are drawn, if the batch has that many."""


class Beta(NamedTuple):
    """A component: its two parameters, and its share of the mixture."""

    alpha: float
    beta: float
    share: float

    @property
    def mean(self) -> float:
        """Its mean."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def log_factor(self) -> float:
        """Log of its share times the normalising factor of its density."""
        a, b = self.alpha, self.beta
        return math.log(self.share) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)


class BetaMixture(NamedTuple):
    """A mixture of two beta distributions of similarities in (0, 1).

    Attributes:
        lower: the component with the lower mean, that of true negatives.
        upper: that of false negatives; None where one component explains all.

    Example:
        >>> mixture = BetaMixture(Beta(2.0, 2.0, 0.5), Beta(8.0, 2.0, 0.5))
        >>> mixture.log_posterior(torch.tensor([0.1, 0.9])).exp()
        tensor([1.0000, 0.1356])
    """

    lower: Beta
    upper: Beta | None = None

    def log_posterior(self, x: Tensor) -> Tensor:
        """Log p₀: how likely values x in (0, 1) belong to the lower component."""
        if self.upper is None:
            return torch.zeros_like(x)
        (a, b, _), (c, d, _) = self.lower, self.upper
        odds = (a - c) * x.log() + (b - d) * (1 - x).log()
        odds = odds + (self.lower.log_factor - self.upper.log_factor)
        # Log σ several times as fast as PyTorch's, and as exact as the odds are.
        return odds.clamp(max=0) - (1 + (-odds.abs()).exp()).log()

    @classmethod
    def fitted(cls, values: Tensor) -> Self:
        """The mixture of values in [0, 1], float [n] with n ≥ 1, by expectation maximisation.

        It begins with the values below and above their mean, and fits a component by its weighted
        mean and variance. If a component is left with less than one value, as for equal values,
        the other explains all.
        """
        x = values.detach().cpu().double().clamp(EPSILON, 1 - EPSILON)
        logs = torch.stack([x.log(), (-x).log1p()])
        above = x > x.mean()
        posterior = torch.stack([~above, above]).double()
        components: list[Beta] = []
        for _ in range(STEPS):
            if posterior.sum(1).min() < 1:
                return cls(_moments(x, torch.ones_like(x)))
            components = [_moments(x, weight) for weight in posterior]
            powers = x.new_tensor(
                [[component.alpha - 1, component.beta - 1] for component in components]
            )
            factors = x.new_tensor([[component.log_factor] for component in components])
            before, posterior = posterior, (powers @ logs + factors).softmax(0)
            if (posterior - before).abs().max() <= TOLERANCE:
                break
        return cls(*sorted(components, key=lambda component: component.mean))


def _moments(x: Tensor, weight: Tensor) -> Beta:
    """The beta distribution with the mean and variance of weighted values."""
    total = weight.sum()
    mean = (weight @ x) / total
    variance = ((weight @ (x - mean).square()) / total).clamp(min=LEAST_VARIANCE)
    both = mean * (1 - mean) / variance - 1
    return Beta(*map(float, (mean * both, (1 - mean) * both, total / len(x))))


@dataclass(frozen=True)
class MixturePosterior(Hardening):
    r"""ProGCL's weights: how likely a negative is a true one, times its similarity.

    .. math:: \eta = p_0(\hat s)\, \hat s, \qquad \hat s = \frac{s + 1}{2}, \qquad
              p_0 = \frac{\pi_0 f_0}{\pi_0 f_0 + \pi_1 f_1}

    with f₀ and f₁ two beta densities, f₀ that of the lower mean. Their mixture is fitted once to
    similarities of negatives, by the loss on its first batch from epoch E = 1 + ⌊``fit_after`` ·
    epochs⌋ on; η is 1 until then. It has no gradient and may fall, so that it is no hardening of
    Definition 1: Propositions 1 and 2 do not hold for it. It corrects for false negatives itself,
    and is not debiased again. Under JSD it needs a hardness that is bounded, such as ``"cosine"``.

    Args:
        fit_after: share in [0, 1) of the epochs before E; 0 fits in the first step.
        mixture: a fitted mixture; None to fit one.

    Raises:
        InputError: for a share out of range.

    Source:
        Xia, Wu, Wang, Chen, Li (2022), *ProGCL: Rethinking Hard Negative Mining in Graph
        Contrastive Learning*, ProGCL-weight; the code junxia97/ProGCL, which keeps the weights of
        epoch E.

    Example:
        >>> mixture = BetaMixture(Beta(2.0, 2.0, 0.5), Beta(8.0, 2.0, 0.5))
        >>> s = torch.tensor([[-0.8, 0.0, 0.8]])
        >>> MixturePosterior(mixture=mixture).log_eta(Rows(s, 0.5, s / 0.5, s > -1)).exp()
        tensor([[0.1000, 0.4211, 0.1220]])
    """

    fit_after: Annotated[
        float,
        Setting(
            "share of the epochs before progcl fits its mixture", least=0, below=1, space=(0.0, 0.9)
        ),
    ] = 0.2
    mixture: BetaMixture | None = None
    row_wise = True
    positive = False

    def __post_init__(self) -> None:
        check_number("fit_after", self.fit_after, least=0, below=1)

    def at(self, epoch: int, epochs: int) -> Hardening:
        """No hardening before epoch E, then this one."""
        before = math.floor(self.fit_after * epochs + 1e-9)  # 0.29 × 100 is below 29 by rounding
        return self if epoch > before else Uniform()

    def check(self, temperature: float, *, bounded: bool = True) -> None:
        """Raise InputError for unbounded similarities."""
        if not bounded:
            raise InputError('MixturePosterior (progcl) needs hardness_scale="cosine"')

    def fitted(self, similarity: Tensor) -> Self:
        """A copy whose mixture is fitted to similarities of negatives, float [n], n ≥ 1."""
        return replace(self, mixture=BetaMixture.fitted((similarity + 1) / 2))

    @torch.no_grad()
    def log_eta(self, rows: Rows) -> Tensor:
        """Log p₀(ŝ) + log ŝ, float [A, C]; 0 until a mixture is fitted."""
        if self.mixture is None:
            return torch.zeros_like(rows.similarity)
        x = ((rows.similarity + 1) / 2).clamp(EPSILON, 1 - EPSILON)
        return self.mixture.log_posterior(x) + x.log()


@torch.no_grad()
def drawn_similarities(pairing: Pairing, plan: Plan, seed: int) -> Tensor:
    """Similarities of negatives of a batch, float [n]: all, or :data:`MOST` of them drawn.

    They are drawn from the negatives of some anchors, which avoids a table of all pairs.
    """
    refuse_vmap(pairing.anchors, "the fit of a mixture")
    drawing: dict[str, Any] = {
        "generator": torch.Generator("cpu").manual_seed(seed), "device": "cpu"
    }  # fmt: skip
    n, device = len(pairing.anchors), pairing.anchors.device
    anchors = max(FEWEST_ANCHORS, -(-MOST // len(pairing.candidates)))
    if anchors < n and plan.scale != "batch-max":  # whose largest score belongs to the batch
        pairing = pairing.rows(torch.randperm(n, **drawing)[:anchors].to(device))
    few = len(pairing.anchors) * len(pairing.candidates) <= AT_A_TIME
    if few or plan.scale == "batch-max":
        return _subsample(negative_similarities(pairing, plan), MOST, drawing)
    size = max(AT_A_TIME // len(pairing.candidates), 1)
    share = -(-MOST * size // len(pairing.anchors))
    blocks = (pairing.rows(slice(i, i + size)) for i in range(0, len(pairing.anchors), size))
    parts = [_subsample(negative_similarities(block, plan), share, drawing) for block in blocks]
    return _subsample(torch.cat(parts), MOST, drawing)


def _subsample(values: Tensor, most: int, drawing: dict[str, Any]) -> Tensor:
    """The values, or ``most`` of them drawn."""
    if len(values) <= most:
        return values
    return values[torch.randint(len(values), (most,), **drawing).to(values.device)]
