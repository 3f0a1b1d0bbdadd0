"""What a hardening would do on some batches, as a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gcl_hard.functional import claims
from gcl_hard.functional.comparison import Comparison, compare_each, joined
from gcl_hard.functional.four_losses import losses
from gcl_hard.functional.hardening import Hardening
from gcl_hard.functional.masked import mean_or_nan
from gcl_hard.functional.scores import Scores, log_etas


class Diagnosis(NamedTuple):
    """A hardening on some batches; a number that no anchor has is NaN.

    Attributes:
        assumption_1: share, of the ``defined`` anchors, at which collisions weigh at least as much
            as hard negatives of other labels.
        lemma_1: share of them at which the H-UCL loss is no smaller than the H-SCL loss.
        defined: anchors at which Assumption 1 says something.
        alone: anchors without another of their label.
        spared: anchors with some, of which the hardening takes none: H-UCL = H-SCL.
        unopposed: anchors with hard collisions and without a hard negative of another label.
        losses: means of ``ucl``, ``scl``, ``hucl`` and ``hscl`` over the ``common`` anchors, nats.
        common: anchors that have all four losses.
        collisions: mean of E_Hcol[h] over the ``defined`` anchors.
        negatives: mean of E_H-SCL[h] over them.
        effective_hucl: mean number of negatives that H-UCL takes in effect, 1/Σq².
        effective_hscl: the same of H-SCL.
        same_label_weight: mean weight that H-UCL puts on the anchor's own label.
        others: mean number of others, of which ``effective_hucl`` is a part.
        other_labels: mean number of others of another label, of which ``effective_hscl`` is one.
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
    batches: Sequence[Scores], hardenings: Mapping[str, Hardening | None]
) -> dict[str, Diagnosis]:
    """Assumption 1, Lemma 1, the four losses and whom H-UCL and H-SCL weigh.

    Args:
        batches: tables of one objective, at least one; means run over all their anchors.
        hardenings: by name, each as it is this epoch (``sampler.current``); None for η = 1.

    Returns:
        A :class:`Diagnosis` of each, by name.

    Raises:
        InputError: for no batch, or batches of two objectives.

    Source:
        H-SCL paper, section V-B and Fig. 4 and 5.

    Example:
        >>> import torch
        >>> from gcl_hard import Exponential
        >>> from gcl_hard.functional.scores import two_view_scores
        >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
        >>> scores = two_view_scores(z, z, torch.tensor([0, 0, 1]))
        >>> found = diagnose([scores], {"β = 1": Exponential(1.0)})["β = 1"]
        >>> found.assumption_1, found.defined, found.alone, found.losses["hscl"] < 2
        (1.0, 4, 2, True)
    """
    each = [compare_each(s, log_etas(s, hardenings.values())) for s in batches]
    if not each:
        joined([])
    by_hardening = zip(*each, strict=True)
    return {name: _told(joined(c)) for name, c in zip(hardenings, by_hardening, strict=True)}


def _told(comparison: Comparison) -> Diagnosis:
    claim, lemma = claims.assumption_1(comparison), claims.lemma_1(comparison)
    why = claims.undefined(comparison)
    four = losses(comparison)
    collisions, negatives = claims.eq17_averages(comparison)
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
