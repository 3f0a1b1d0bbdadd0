"""Hardenings of whole rows: weights that depend on an anchor's other candidates."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Annotated, Self

import torch
from torch import Tensor

from gcl_hard.core.setting import Setting
from gcl_hard.core.tracing import refuse_vmap
from gcl_hard.errors import InputError, check_number
from gcl_hard.functional.hardening import Hardening, Rows, now
from gcl_hard.functional.hardness import mid_ranks, rounding, sort
from gcl_hard.functional.negatives import readable
from gcl_hard.functional.schedules import Schedule, as_schedule


@dataclass(frozen=True)
class MeanThreshold(Hardening):
    r"""The adaptive step of the H-SCL paper: only negatives at least as hard as the mean count.

    .. math:: \eta = 1[h \ge \tau(x, f)], \qquad
              \tau(x, f) = \mathbb{E}_{x^- \sim \text{others}}[h]

    with h = e^t for InfoNCE and softplus(t) for JSD. The mean runs over the anchor's `others`,
    also when only other labels are admitted; that makes H-SCL ≥ UCL wherever a negative is left.

    Source:
        H-SCL paper, end of section IV.

    Example:
        >>> t = torch.tensor([[0.0, 0.0, 3.0]])
        >>> MeanThreshold().log_eta(Rows(t / 2, 0.5, t, torch.ones_like(t, dtype=torch.bool)))
        tensor([[-inf, -inf, 0.]])
    """

    step = True
    row_wise = True
    positive = False

    def log_eta(self, rows: Rows) -> Tensor:
        """0 where the integrand reaches its row mean, −inf elsewhere, float [A, C]."""
        log_h = rows.log_integrand.detach().masked_fill(~rows.others, -math.inf)
        count = rows.others.expand_as(log_h).sum(1, keepdim=True).clamp(min=1)
        mean = log_h.logsumexp(1, keepdim=True) - count.to(log_h.dtype).log()
        # In a row of equal entries rounding can lift the mean above all of them.
        threshold = torch.minimum(mean, log_h.amax(1, keepdim=True))
        return torch.zeros_like(log_h).masked_fill(log_h < threshold, -math.inf)


@dataclass(frozen=True)
class RankPosterior(Hardening):
    r"""BCL's weights: how likely the rank of a negative makes it a hard true negative.

    .. math:: \omega = \frac{\alpha (1 - h)(1 - F) + (1 - \alpha) h F}
              {\tau^- (\alpha (1 - F) + (1 - \alpha) F)
               + \tau^+ ((1 - \alpha)(1 - F) + \alpha F)}, \qquad
              F = \frac{2 \hat\Phi}{b + \sqrt{b^2 + 4 a \hat\Phi}}

    up to a factor, which q does not see, with :math:`\hat\Phi` the mid-rank among the anchor's
    others, a = (1 − 2α)(τ⁻ − τ⁺), b = 2(ατ⁻ + (1 − α)τ⁺) and τ⁻ = 1 − τ⁺. It depends on ranks
    alone, has no gradient and may fall, so that it is no hardening of Definition 1: Propositions
    1 and 2 do not hold for it. It corrects for false negatives itself, and is not debiased again.

    Args:
        auc: α in [0.5, 1], the encoder's AUC between true and false negatives; 0.5 knows nothing.
        hardness: h in [0.5, 1]: 0.5 weighs true negatives alike, 1 the hardest most.
        class_prior: τ⁺ in (0, 1): probability that a candidate shares the anchor's class.

    Raises:
        InputError: for values out of range, or both 1, which leaves no weight.

    Source:
        Liu & Wang (2023), *Bayesian Self-Supervised Contrastive Learning*; the code liubin06/BCL,
        which adds 1e-3 to a, breaks ties upwards and does not normalise.

    Example:
        >>> s = torch.tensor([[0.1, 0.2, 0.3]])
        >>> RankPosterior(0.5, 1.0).log_eta(Rows(s, 0.5, s / 0.5, s > 0)).exp()
        tensor([[0.1667, 0.5000, 0.8333]])
    """

    auc: Annotated[float, Setting("α of bcl", least=0.5, most=1, space=(0.5, 0.95))] = 0.5
    hardness: Annotated[float, Setting("h of bcl", least=0.5, most=1, space=(0.5, 1.0))] = 1.0
    class_prior: float = 0.1
    row_wise = True
    positive = False

    def __post_init__(self) -> None:
        check_number("auc", self.auc, least=0.5, most=1)
        check_number("hardness", self.hardness, least=0.5, most=1)
        check_number("class_prior", self.class_prior, above=0, below=1)
        if self.auc == self.hardness == 1:
            raise InputError("auc and hardness of 1 leave no weight on any negative: lower one")

    def log_eta(self, rows: Rows) -> Tensor:
        """Log ω, float [A, C]."""
        alpha, hard, prior = self.auc, self.hardness, self.class_prior
        rest = 1 - prior
        a = (1 - 2 * alpha) * (rest - prior)
        b = 2 * (alpha * rest + (1 - alpha) * prior)
        share = mid_ranks(rows.similarity, rows.others)
        f = 2 * share / (b + (b * b + 4 * a * share).clamp(min=0).sqrt())
        true, false = alpha * (1 - f) + (1 - alpha) * f, (1 - alpha) * (1 - f) + alpha * f
        wanted = alpha * (1 - hard) * (1 - f) + (1 - alpha) * hard * f
        return (wanted / (rest * true + prior * false)).log()


@dataclass(frozen=True)
class RelativeThreshold(Hardening):
    r"""SPACL's filter: the most similar negatives that together have a share of all similarity.

    .. math:: \eta = 1[s \ge c], \qquad c = \max \Big\{ c : \sum_{s_j \ge c} e^{s_j / \gamma}
              \ge \lambda_Q \sum_j e^{s_j / \gamma} \Big\}

    over the admitted negatives. The quota is of exponentials: a sum of cosines, as in the paper's
    equation, may be negative. Similarities that differ by rounding are kept or dropped together.

    Args:
        quota: λ_Q in (0, 1]; 1 keeps all.

    Raises:
        InputError: for a quota outside (0, 1].

    Source:
        SPACL, section "Relative Threshold Negative Filtering".

    Example:
        >>> s = torch.tensor([[-1.0, 0.0, 1.0]])
        >>> RelativeThreshold(0.95).log_eta(Rows(s, 0.5, s / 0.5, s > -2))
        tensor([[-inf, 0., 0.]])
    """

    quota: Annotated[float, Setting("λ_Q of spacl", above=0, most=1, space=(0.5, 1.0))] = 0.95
    step = True
    row_wise = True
    positive = False

    def __post_init__(self) -> None:
        check_number("quota", self.quota, above=0, most=1)

    @torch.no_grad()
    def log_eta(self, rows: Rows) -> Tensor:
        """0 for kept negatives, −inf elsewhere, float [A, C]."""
        kept = torch.zeros_like(rows.similarity)
        if self.quota == 1 or kept.shape[1] == 0:
            return kept
        s = torch.where(rows.negatives, rows.similarity, -math.inf)
        ordered = sort(s)
        least = ordered[:, -1:].masked_fill(ordered[:, -1:] == -math.inf, 0.0)
        below = ((ordered - least) / rows.temperature).exp_().cumsum(1)
        dropped = (below <= (1 - self.quota) * below[:, -1:]).sum(1, keepdim=True)
        cut = ordered.gather(1, dropped.clamp(max=s.shape[1] - 1))
        return torch.where(s < cut - _slack(rows), -math.inf, kept)


@dataclass(frozen=True)
class Ring(Hardening):
    r"""Ring negatives: similar ones, but not the most similar, which may be false negatives.

    .. math:: \eta = 1[\,\omega_\ell \le s \le \omega_u\,]

    where ω_u leaves out the share ``inner`` of the most similar admitted negatives (rounded down)
    and ω_ℓ is passed by the share ``outer`` (rounded up). η falls at ω_u, so this is no hardening
    of Definition 1.

    Args:
        inner: share in [0, 1) of the most similar that are left out.
        outer: share in (0, 1] of the most similar down to which negatives count, or a schedule; the
            paper begins with all and closes the ring while it trains.

    Raises:
        InputError: for shares out of range, or ``inner`` ≥ ``outer`` anywhere on the schedule.

    Source:
        Wu, Mosse, Zhuang, Yamins, Goodman (2021), *Conditional Negative Sampling for Contrastive
        Learning of Visual Representations*.

    Example:
        >>> s = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
        >>> Ring(inner=0.25, outer=0.75).log_eta(Rows(s, 0.5, s / 0.5, s > -2))
        tensor([[-inf, 0., 0., -inf]])
    """

    inner: Annotated[
        float,
        Setting("share of the nearest that ring leaves out", name="ring_inner", least=0, below=1),
    ] = 0.01
    outer: Annotated[
        float | Schedule,
        Setting("share that ring closes to in the last epoch", name="ring_outer", above=0, most=1),
    ] = 0.1
    step = True
    row_wise = True
    positive = False

    def __post_init__(self) -> None:
        check_number("ring inner", self.inner, least=0, below=1)
        low, high = as_schedule(self.outer, "ring outer").bounds
        check_number("ring outer", high, above=0, most=1)
        if self.inner >= low:
            raise InputError(f"ring inner must be below ring outer, got {self.inner:g}, {low:g}")

    def at(self, epoch: int, epochs: int) -> Self:
        """The ring with its outer share as scheduled for ``epoch``."""
        return replace(self, outer=as_schedule(self.outer).at(epoch, epochs))

    @torch.no_grad()
    def log_eta(self, rows: Rows) -> Tensor:
        """0 in the ring, −inf elsewhere, float [A, C]."""
        kept = torch.zeros_like(rows.similarity)
        if kept.shape[1] == 0:
            return kept
        s = torch.where(rows.negatives, rows.similarity, -math.inf)
        ordered, n = sort(s), rows.negatives.sum(1, keepdim=True).double()
        # 0.1 × 30 is above 3 by rounding.
        first = (self.inner * n + 1e-9).floor().long()
        last = torch.maximum((now(self.outer) * n - 1e-9).ceil().long(), first + 1)
        end = s.shape[1] - 1
        upper = ordered.gather(1, (end - first).clamp(0, end))
        lower = ordered.gather(1, (end + 1 - last).clamp(0, end))
        slack = _slack(rows)
        return torch.where((s > upper + slack) | (s < lower - slack), -math.inf, kept)


@dataclass(frozen=True)
class Transport(Hardening):
    r"""Optimal-transport negatives: the entropic coupling of anchors and candidates.

    .. math:: \eta_{ij} = P_{ij}, \qquad P = \arg\min_P \sum_{ij} P_{ij} \lVert u_i - u_j
              \rVert^2 + \varepsilon \sum_{ij} P_{ij} \log P_{ij}

    over couplings of two uniform distributions, of the anchors and of the candidates, that couple
    no anchor with what is not admitted. With the squared distance 2 − 2 s of unit vectors,
    :math:`P_{ij} = a_i b_j e^{2 s_{ij} / \varepsilon}`: the exponential tilt with β = 2 γ / ε, and
    a factor b_j that keeps any candidate from being everybody's negative. It depends on all rows of
    the batch and has no gradient. On a GPU it waits for the error once in twenty steps.

    Args:
        epsilon: ε > 0, or None for 2 γ, where the tilt is that of β = 1.
        tolerance: largest relative error of a candidate's weight at which iterations stop.
        steps: most iterations; if they do not suffice, or labels leave no such coupling, a
            warning names the error, once for a setting, and the last iterate is used.

    Raises:
        InputError: for values that are not above 0.

    Source:
        Jiang, Ishwar, Aeron (2023), *Hard Negative Sampling via Regularized Optimal Transport for
        Contrastive Representation Learning*; the code rjiang03/HCL-OT.

    Example:
        >>> s = torch.tensor([[0.5, 0.1], [0.5, 0.1]])
        >>> Transport(1.0).log_eta(Rows(s, 0.5, s / 0.5, s > -2)).exp() * 2
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """

    epsilon: Annotated[
        float | None, Setting("ε of ot, 2 γ if not given", above=0, space=(0.1, 10.0, "log"))
    ] = None
    tolerance: float = 1e-3
    steps: int = 100
    row_wise = True
    batch_wide = True
    positive = False

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            check_number("epsilon", self.epsilon, above=0)
        check_number("tolerance", self.tolerance, above=0)
        check_number("steps", self.steps, least=1)

    @torch.no_grad()
    def log_eta(self, rows: Rows) -> Tensor:
        """Log P, float [A, C]."""
        refuse_vmap(rows.similarity, "optimal transport")
        epsilon = 2 * rows.temperature if self.epsilon is None else self.epsilon
        log_kernel = rows.similarity * (2 / epsilon)
        return self._coupling(log_kernel.masked_fill(~rows.negatives, -math.inf))

    def _coupling(self, log_p: Tensor) -> Tensor:
        """Sinkhorn's iteration: scales rows and columns in turn until both sums are uniform."""
        if log_p.numel() == 0:
            return log_p
        possible = log_p > -math.inf
        rows, columns = possible.any(1), possible.any(0)
        row_mass = rows.to(log_p.dtype) / rows.sum().clamp(min=1)
        column_mass = columns.to(log_p.dtype) / columns.sum().clamp(min=1)
        error, done, on_cpu = math.inf, 0, readable(log_p)
        while done < self.steps:
            # In logs, so that the plain steps below neither overflow nor underflow.
            for dim, share in ((1, row_mass[:, None]), (0, column_mass[None])):
                total = log_p.logsumexp(dim, keepdim=True)
                log_p = log_p + torch.where(share > 0, share.log() - total, 0.0)
            done += 1
            p, scale = log_p.exp(), column_mass.new_ones(len(column_mass))
            by_row = row_mass.new_ones(len(row_mass))
            goes_on, change = p.new_ones((), dtype=torch.bool), p.new_full((), error)
            n_steps = torch.zeros((), dtype=p.dtype, device=p.device)
            for _ in range(max(1, min(BETWEEN_LOGS, self.steps - done))):
                n_steps = n_steps + goes_on
                next_row = torch.where(rows, row_mass / (p @ scale), 1.0)
                next_scale = torch.where(columns, column_mass / (next_row @ p), 1.0)
                scales = torch.cat([next_row, next_scale])
                # Without a coupling scales grow for ever: then logarithms take over.
                goes_on = goes_on & ((scales > 1 / FAR) & (scales < FAR)).all()
                moved = torch.where(columns, (scale / next_scale - 1).abs(), 0.0).max()
                change = torch.where(goes_on, moved, change)
                by_row = torch.where(goes_on, next_row, by_row)
                scale = torch.where(goes_on, next_scale, scale)
                goes_on = goes_on & (change > self.tolerance)
                if on_cpu and not bool(goes_on):
                    break
            error, new = torch.stack([change, n_steps]).tolist()  # the only wait for a GPU
            done += int(new)
            log_p = log_p + torch.where(rows, by_row.log(), 0.0)[:, None]
            log_p = log_p + torch.where(columns, scale.log(), 0.0)
            if error <= self.tolerance:
                return log_p
        if self not in _WARNED:
            _WARNED.add(self)
            warnings.warn(
                f"Sinkhorn's iteration left an error of {error:.2g} in the weights of candidates "
                f"after {self.steps} steps: raise epsilon",
                stacklevel=2,
            )
        return log_p


_WARNED: set[Transport] = set()
"""Settings that have warned: a command has many losses of one setting."""


def _slack(rows: Rows) -> Tensor:
    """The tolerance for ties among the similarities of a row."""
    return rounding(torch.where(rows.negatives, rows.similarity, 0.0))


BETWEEN_LOGS = 20
"""Steps of Sinkhorn's iteration without logarithms."""
FAR = 1e15
"""Largest scale without logarithms, far inside the range of float32."""
