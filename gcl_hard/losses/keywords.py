"""Typed keyword arguments of losses, so that type checkers see misspelt ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from gcl_hard.functional.hardness import HardnessScale
from gcl_hard.functional.objectives import Objective
from gcl_hard.functional.pool import HardPositives
from gcl_hard.functional.schedules import Schedule
from gcl_hard.losses.loss import Negatives, OnEmpty, Pooling, Positives, Reduction, Streaming


class LossOptions(TypedDict, total=False):
    """Arguments of :class:`ContrastiveLoss` that a method does not decide."""

    temperature: float | None
    objective: Objective
    pooling: Pooling
    weight: Literal["others", "kept"] | float
    detach_weights: bool
    detach_candidates: bool
    reduction: Reduction | None
    streaming: Streaming
    hardness_scale: HardnessScale | None
    negatives: Negatives
    unknown: int | None
    on_empty: OnEmpty


class OwnOptions(LossOptions, total=False):
    """Further options of :func:`contrastive_loss`."""

    auc: float | None
    hardness: float | None
    fit_after: float | None
    ring_inner: float | None
    ring_outer: float | Schedule | None
    epsilon: float | None
    hardest: int | None
    mixed: int | None
    mixed_with_anchor: int | None
    quota: float | None
    hard_positives: int | None


class MethodOptions(OwnOptions, total=False):
    """Options of :func:`contrastive_loss`, but ``seed``."""

    beta: float | Schedule
    threshold: float | Schedule | None
    class_prior: float | None
    positives: Positives | HardPositives | None
    without: Sequence[str]


class SeededOptions(MethodOptions, total=False):
    """Options of :func:`contrastive_loss`."""

    seed: int
