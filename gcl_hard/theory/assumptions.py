"""The claims of the H-SCL paper on a batch: Assumption 1, Lemma 1 and the four losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from gcl_hard.functional import objectives
from gcl_hard.functional.hardening import Hardening
from gcl_hard.functional.negatives import mean_or_nan
from gcl_hard.theory.comparison import LossComparison, compare_each, joined
from gcl_hard.theory.similarity import ScoreTable, log_etas

SLACK = 1e-12
"""Tolerance of ≥, in logs: equal sides differ by rounding."""


class Claim(NamedTuple):
    """An inequality at each anchor.

    Attributes:
        holds: bool [A], whether it holds; False where it is not defined.
        defined: bool [A], whether both sides have support.
    """

    holds: Tensor
    defined: Tensor

    @property
    def fraction(self) -> float:
        """Share of the defined anchors at which it holds; NaN if there are none."""
        defined = int(self.defined.sum())
        return int(self.holds.sum()) / defined if defined else math.nan


class Undefined(NamedTuple):
    """Why Assumption 1 is not defined at an anchor; bool [A] each, at most one of them true.

    Attributes:
        alone: no other item has its label.
        spared: some have, but η is 0 for all of them: α_Hcol = 0, and so H-UCL = H-SCL.
        unopposed: there are hard collisions, but no hard negative of another label:
            α_H-SCL = 0.
    """

    alone: Tensor
    spared: Tensor
    unopposed: Tensor


def assumption_1(comparison: LossComparison) -> Claim:
    r"""Assumption 1: hard collisions are closer to the anchor than hard negatives of other labels.

    .. math:: \mathbb{E}_{\text{Hcol}}[h] \ge \mathbb{E}_{\text{H-SCL}}[h]

    Args:
        comparison: comparison of a batch.

    Returns:
        :class:`Claim`; sides that differ by less than ``SLACK`` in logs count as equal.

    Source:
        H-SCL paper, Assumption 1; with softplus(t) for JSD.

    Example:
        >>> import torch
        >>> from gcl_hard.theory.comparison import compare
        >>> from gcl_hard.theory.similarity import two_view_scores
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
        >>> scores = two_view_scores(z, z, torch.tensor([0, 0, 1]))
        >>> claim = assumption_1(compare(scores, torch.zeros(6, 6)))
        >>> claim.fraction, int(claim.defined.sum())
        (1.0, 4)
    """
    return _at_least(comparison, comparison.log_mean.hcol, comparison.log_alpha.hcol)


def lemma_1(comparison: LossComparison) -> Claim:
    r"""Lemma 1's inequality: the H-UCL loss of an anchor is no smaller than its H-SCL loss.

    .. math:: \mathbb{E}_{\text{H-UCL}}[h] \ge \mathbb{E}_{\text{H-SCL}}[h]

    Both losses increase with their expectation and are otherwise the same. The inequality holds
    at an anchor if and only if Assumption 1 does; where Hcol has no support both sides are equal.

    Args:
        comparison: comparison of a batch.

    Returns:
        :class:`Claim`; sides that differ by less than ``SLACK`` in logs count as equal.

    Source:
        H-SCL paper, Lemma 1 (an "if", on average) and its proof (per anchor).

    Example:
        >>> import torch
        >>> from gcl_hard.theory.comparison import compare
        >>> from gcl_hard.theory.similarity import two_view_scores
        >>> scores = two_view_scores(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
        >>> lemma_1(compare(scores, torch.zeros(4, 4))).fraction
        1.0
    """
    return _at_least(comparison, comparison.log_mean.hucl, comparison.log_alpha.hucl)


def undefined(comparison: LossComparison) -> Undefined:
    """Why Assumption 1 is not defined at some anchors; every such anchor has one reason.

    Args:
        comparison: comparison of a batch.

    Returns:
        :class:`Undefined`.

    Source:
        H-SCL paper, section IV, which assumes that every α is above 0.

    Example:
        >>> import torch
        >>> from gcl_hard.theory.comparison import compare
        >>> from gcl_hard.theory.similarity import two_view_scores
        >>> scores = two_view_scores(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
        >>> undefined(compare(scores, torch.zeros(4, 4))).alone.all()
        tensor(True)
    """
    alone = comparison.n_same == 0
    no_collision = comparison.log_alpha.hcol == -math.inf
    no_negative = comparison.log_alpha.hscl == -math.inf
    return Undefined(alone, no_collision & ~alone, no_negative & ~no_collision)


def eq17_averages(comparison: LossComparison) -> tuple[float, float]:
    r"""Both sides of Assumption 1, averaged over its defined anchors.

    .. math:: \operatorname{mean}_i \mathbb{E}_{\text{Hcol}}[h], \qquad
              \operatorname{mean}_i \mathbb{E}_{\text{H-SCL}}[h]

    Args:
        comparison: comparison of a batch.

    Returns:
        The two averages; NaN if there are no such anchors.

    Source:
        Jiang et al. (2022), first version of the H-SCL paper, Eq. 17: 1.44 and 0.99 on STL-10.

    Example:
        >>> import torch
        >>> from gcl_hard.theory.comparison import compare
        >>> from gcl_hard.theory.similarity import two_view_scores
        >>> scores = two_view_scores(torch.eye(3), torch.eye(3), torch.tensor([0, 0, 1]))
        >>> eq17_averages(compare(scores, torch.zeros(6, 6)))
        (1.0, 1.0)
    """
    defined = assumption_1(comparison).defined
    left, right = comparison.log_mean.hcol, comparison.log_mean.hscl
    return mean_or_nan(left.exp(), defined), mean_or_nan(right.exp(), defined)


class FourLosses(NamedTuple):
    """The four losses, float64 [A] each, nats; NaN where the distribution has no support.

    Attributes:
        ucl: UCL.
        scl: SCL.
        hucl: H-UCL.
        hscl: H-SCL.
        common: bool [A], anchors at which all four are defined.
    """

    ucl: Tensor
    scl: Tensor
    hucl: Tensor
    hscl: Tensor
    common: Tensor

    def means(self) -> dict[str, float]:
        """Mean of each loss over the ``common`` anchors; NaN if there are none."""
        return {name: getattr(self, name)[self.common].mean().item() for name in self._fields[:-1]}


def four_losses(comparison: LossComparison) -> FourLosses:
    r"""UCL, SCL, H-UCL and H-SCL of every anchor, with the same positive and the same M.

    .. math:: \log\left(1 + M e^{-t^+} \mathbb{E}_q[e^t]\right)
              \quad\text{or}\quad
              \operatorname{softplus}(-t^+) + \mathbb{E}_q[\operatorname{softplus}(t)] - 2 \log 2

    Args:
        comparison: comparison of a batch; M is its ``n_others``.

    Returns:
        :class:`FourLosses`.

    Source:
        H-SCL paper, Eq. 3 and Fig. 5; InfoGraph's JSD.

    Example:
        >>> import torch
        >>> from gcl_hard.theory.comparison import compare
        >>> from gcl_hard.theory.similarity import two_view_scores
        >>> scores = two_view_scores(torch.ones(2, 1), torch.ones(2, 1), torch.tensor([0, 1]))
        >>> means = four_losses(compare(scores, torch.zeros(4, 4))).means()
        >>> {name: round(value, 4) for name, value in means.items()}
        {'ucl': 1.0986, 'scl': 1.0986, 'hucl': 1.0986, 'hscl': 1.0986}
    """
    t_pos = comparison.t_pos
    four = comparison.log_mean[:4]
    if comparison.objective == "infonce":
        log_m = comparison.n_others.double().log()
        values = [objectives.infonce(log_mean, t_pos, log_m) for log_mean in four]
    else:
        values = [objectives.jsd(log_mean.exp(), t_pos) for log_mean in four]
    # The unhardened distributions have support wherever the hardened ones do.
    alpha = comparison.log_alpha
    common = (alpha.hucl != -math.inf) & (alpha.hscl != -math.inf)
    ucl, scl, hucl, hscl = values
    return FourLosses(ucl, scl, hucl, hscl, common)


class Diagnosis(NamedTuple):
    """Effect of a hardening on some batches; a mean over no anchors is NaN.

    Attributes:
        assumption_1: share of the ``defined`` anchors at which the inequality of Assumption 1
            holds.
        lemma_1: share of them at which the H-UCL loss is at least the H-SCL loss.
        defined: number of anchors at which Assumption 1 is defined.
        alone: number of anchors whose label no other has.
        spared: number of anchors whose collisions all have η = 0: H-UCL = H-SCL.
        unopposed: number of anchors with hard collisions and no hard negative of another label.
        losses: means of ``ucl``, ``scl``, ``hucl`` and ``hscl`` over the ``common`` anchors, nats.
        common: number of anchors at which all four losses are defined.
        collisions: mean of E_Hcol[h] over the ``defined`` anchors.
        negatives: mean of E_H-SCL[h] over them.
        effective_hucl: mean effective number of negatives of H-UCL, 1/Σq².
        effective_hscl: the same for H-SCL.
        same_label_weight: mean weight of H-UCL's q on the anchor's own label.
        others: mean number of others, to compare ``effective_hucl`` with.
        other_labels: mean number of others of another label, to compare ``effective_hscl`` with.
    """

    assumption_1: float
    lemma_1: float
    defined: int
    alone: int
    spared: int
    unopposed: int
    losses: dict[str, float]
    common: int
    collisions: float
    negatives: float
    effective_hucl: float
    effective_hscl: float
    same_label_weight: float
    others: float
    other_labels: float


def diagnose(
    batches: Sequence[ScoreTable], hardenings: Mapping[str, Hardening | None]
) -> dict[str, Diagnosis]:
    """Assumption 1, Lemma 1, the four losses and the effective negatives under some hardenings.

    Args:
        batches: at least one, all of one objective; means run over all their anchors.
        hardenings: by name, each as it is in this epoch (``sampler.current``); None for η = 1.

    Returns:
        One :class:`Diagnosis` per hardening, by name.

    Raises:
        InputError: if there are no batches, or their objectives differ.

    Source:
        H-SCL paper, section V-B and Fig. 4 and 5.

    Example:
        >>> import torch
        >>> from gcl_hard import Exponential
        >>> from gcl_hard.theory.similarity import two_view_scores
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
        >>> scores = two_view_scores(z, z, torch.tensor([0, 0, 1]))
        >>> result = diagnose([scores], {"β = 1": Exponential(1.0)})["β = 1"]
        >>> result.assumption_1, result.defined, result.alone, result.losses["hscl"] < 2
        (1.0, 4, 2, True)
    """
    each = [compare_each(s, log_etas(s, hardenings.values())) for s in batches]
    if not each:
        joined([])
    by_hardening = zip(*each, strict=True)
    return {name: _diagnosis(joined(c)) for name, c in zip(hardenings, by_hardening, strict=True)}


def _diagnosis(comparison: LossComparison) -> Diagnosis:
    claim, lemma = assumption_1(comparison), lemma_1(comparison)
    why = undefined(comparison)
    four = four_losses(comparison)
    collisions, negatives = eq17_averages(comparison)
    alpha, effective = comparison.log_alpha, comparison.effective
    hucl, hscl = alpha.hucl.isfinite(), alpha.hscl.isfinite()
    return Diagnosis(
        assumption_1=claim.fraction,
        lemma_1=mean_or_nan(lemma.holds.double(), claim.defined),
        defined=int(claim.defined.sum()),
        alone=int(why.alone.sum()),
        spared=int(why.spared.sum()),
        unopposed=int(why.unopposed.sum()),
        losses=four.means(),
        common=int(four.common.sum()),
        collisions=collisions,
        negatives=negatives,
        effective_hucl=mean_or_nan(effective.hucl, hucl),
        effective_hscl=mean_or_nan(effective.hscl, hscl),
        # α_Hcol / α_H-UCL, since α_H-UCL = α_H-SCL + α_Hcol
        same_label_weight=mean_or_nan((alpha.hcol - alpha.hucl).exp(), hucl),
        others=comparison.n_others.double().mean().item(),
        other_labels=(comparison.n_others - comparison.n_same).double().mean().item(),
    )


def _at_least(comparison: LossComparison, log_left: Tensor, log_alpha: Tensor) -> Claim:
    """Whether an expectation is at least that of H-SCL, where both have support."""
    defined = (log_alpha != -math.inf) & (comparison.log_alpha.hscl != -math.inf)
    return Claim(defined & (log_left >= comparison.log_mean.hscl - SLACK), defined)
