"""The table of methods: admission, hardening, positives and debiasing of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

from gcl_hard.errors import InputError, unknown
from gcl_hard.functional.hardening import Exponential, Hardening, RankPosterior, Threshold
from gcl_hard.functional.hardness import DEFAULT_SCALE, HardnessScale, bounded
from gcl_hard.functional.objectives import Objective
from gcl_hard.functional.schedules import Linear, Schedule
from gcl_hard.losses import (
    ContrastiveLoss,
    Negatives,
    OnEmpty,
    Pooling,
    Positives,
    Reduction,
    Streaming,
)
from gcl_hard.sampling import Admission, NegativeSampler


@dataclass(frozen=True)
class Method:
    """A method, a row of the table.

    Args:
        name: its name, also on the command line.
        admit: which candidates may be negatives.
        hardening: kind of hardening function, None for none.
        positives: positives of two views; the positive of a node is always its own graph.
        debias: whether the class prior corrects for false negatives.
        source: its source.
    """

    name: str
    admit: Admission
    hardening: Literal["exponential", "threshold", "rank-posterior"] | None
    positives: Positives
    debias: bool
    source: str

    @property
    def label_aware(self) -> bool:
        """Whether training reads labels."""
        return self.admit == "other_labels" or self.positives == "class"


METHODS: dict[str, Method] = {
    row.name: row
    for row in (
        Method("ucl", "others", None, "view", False, "SimCLR, InfoGraph"),
        Method("dcl", "others", None, "view", True, "HCL with β = 0"),
        Method("hucl", "others", "exponential", "view", False, "H-UCL: HCL without debiasing"),
        Method("hcl", "others", "exponential", "view", True, "Robinson et al. (2021)"),
        Method("scl", "other_labels", None, "class", False, "SCL of the H-SCL paper"),
        Method("hscl", "other_labels", "exponential", "class", False, "H-SCL(β)"),
        Method("hscl-tau", "other_labels", "threshold", "class", False, "H-SCL(τ)"),
        Method("bcl", "others", "rank-posterior", "view", False, "BCL: Liu & Wang (2023)"),
    )
}
"""Every method by name."""

DEFAULT_BETA = 1.0
DEFAULT_CLASS_PRIOR = 0.1
DEFAULT_AUC, DEFAULT_HARDNESS = 0.5, 1.0
"""Of bcl, as in its published code."""
DEFAULT_THRESHOLD = Linear(-0.5, 0.0)
"""Cosines."""
DEFAULT_DEVIATIONS = Linear(-1.0, 0.0)
"""Thresholds of a hardness in deviations; from 1 on they would leave most anchors empty."""


class LossOptions(TypedDict, total=False):
    """Arguments of :class:`ContrastiveLoss` that the method does not decide."""

    temperature: float | None
    objective: Objective
    pooling: Pooling
    weight: Literal["others", "kept"] | float
    detach_weights: bool
    reduction: Reduction | None
    streaming: Streaming
    hardness_scale: HardnessScale | None
    negatives: Negatives
    on_empty: OnEmpty


def method(name: str) -> Method:
    """The method with a given name, in any case.

    Args:
        name: one of ``METHODS``.

    Returns:
        The method.

    Raises:
        InputError: if there is no such method; offers the closest names.

    Example:
        >>> method("hscl").admit
        'other_labels'
    """
    if name.casefold() not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name.casefold()]


def contrastive_loss(
    name: str,
    *,
    beta: float | Schedule = DEFAULT_BETA,
    threshold: float | Schedule | None = None,
    class_prior: float | None = None,
    auc: float | None = None,
    hardness: float | None = None,
    positives: Positives | None = None,
    **options: Unpack[LossOptions],
) -> ContrastiveLoss:
    """The loss of a method.

    Args:
        name: one of ``METHODS``.
        beta: concentration β ≥ 0 of the exponential hardening, or a schedule; ignored by other
            methods.
        threshold: cosine l ≤ 1 of the threshold hardening, or a schedule; ignored by other methods.
            From −0.5 to 0 if None; under JSD with a hardness in deviations from −1 to 0 of these.
        class_prior: τ⁺ in [0, 1) of the debiased methods and of bcl, 0.1 if None; an error with
            other methods.
        auc: α of bcl, see :class:`RankPosterior`; 0.5 if None, ignored by other methods.
        hardness: h of bcl, likewise; 1 if None.
        positives: ``"view"`` or ``"class"``; those of the method if None.
        options: further arguments of :class:`ContrastiveLoss`.

    Returns:
        The loss.

    Raises:
        InputError: for an unknown method, values out of range, or a class prior that the method
            cannot use.

    Example:
        >>> contrastive_loss("hucl", beta=2.0, temperature=0.5).sampler
        NegativeSampler(admit='others', hardening=Exponential(beta=2.0))
    """
    row = method(name)
    hardening: Hardening | None = None
    if row.hardening == "exponential":
        hardening = Exponential(beta)
    elif row.hardening == "threshold":
        hardening = Threshold(default_threshold(**options) if threshold is None else threshold)
    elif row.hardening == "rank-posterior":
        hardening = RankPosterior(
            DEFAULT_AUC if auc is None else auc,
            DEFAULT_HARDNESS if hardness is None else hardness,
            DEFAULT_CLASS_PRIOR if class_prior is None else class_prior,
        )
        class_prior = None
    return ContrastiveLoss(
        NegativeSampler(row.admit, hardening),
        positives=positives or row.positives,
        class_prior=_class_prior(row, class_prior),
        **options,
    )


def default_threshold(**options: Unpack[LossOptions]) -> Linear:
    """Thresholds of a loss with these options, from the first epoch to the last.

    Example:
        >>> default_threshold(objective="jsd", hardness_scale="cosine")
        Linear(start=-0.5, end=0.0)
    """
    jsd = options.get("objective") == "jsd"
    relative = jsd and not bounded(options.get("hardness_scale") or DEFAULT_SCALE)
    return DEFAULT_DEVIATIONS if relative else DEFAULT_THRESHOLD


def _class_prior(row: Method, given: float | None) -> float | None:
    if row.debias:
        return DEFAULT_CLASS_PRIOR if given is None else given
    if given is None:
        return None
    if row.label_aware:
        raise InputError(
            f"class prior {given} with {row.name}: a label-aware method admits no negative of the "
            f"anchor's class, so there is nothing to debias; leave it out"
        )
    debiased = ", ".join(m.name for m in METHODS.values() if m.debias)
    raise InputError(f"class prior {given} with {row.name}: only {debiased} and bcl have one")
