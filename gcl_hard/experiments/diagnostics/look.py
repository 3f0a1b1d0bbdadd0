"""One look at an encoder: what the theory says of it, as plain numbers for a record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gcl_hard.experiments.diagnostics.sample import Sample
from gcl_hard.experiments.diagnostics.settings import OWN, name_of, with_own
from gcl_hard.functional.assumptions import diagnose
from gcl_hard.functional.collapse import cdnv, equiangularity, equinorm, nc1
from gcl_hard.functional.geometry import (
    alignment,
    class_centres,
    effective_rank,
    least_angle,
    packing,
    uniformity,
    widest_angle,
)
from gcl_hard.functional.hardening import Hardening
from gcl_hard.functional.similarity import cosine_histograms, overlap

Look = dict[str, Any]
"""``epoch``, ``anchors``, ``settings`` by hardening, ``geometry``, and perhaps ``histograms``."""

DIGITS = 6


def look_at(sample: Sample | None, current: Hardening, epoch: int, *, last: bool) -> Look:
    """Measure a sample.

    Args:
        sample: of an encoder; None where its embeddings are not finite.
        current: the hardening of its training, as it is in this epoch.
        epoch: after which it is looked at.
        last: whether histograms are kept too.

    Returns:
        The look; a number that is not defined, or not finite, is None.
    """
    if sample is None:
        return {"epoch": epoch, "anchors": 0, "settings": {}, "geometry": {}}
    hardenings = with_own(current)
    tables = [batch.scores for batch in sample.batches]
    settings: dict[str, dict[str, Any]] = {
        name: plain(found._asdict()) for name, found in diagnose(tables, hardenings).items()
    }
    if OWN in settings:
        settings[OWN]["setting"] = name_of(current)
    cosines = cosine_histograms(sample.z, sample.labels)
    geometry = _geometry(sample) | {"overlap": overlap(cosines.same, cosines.different)}
    look: Look = {
        "epoch": epoch,
        "anchors": sum(len(table.t) for table in tables),
        "settings": settings,
        "geometry": plain(geometry),
    }
    if last:
        look["histograms"] = {
            "same": cosines.same.tolist(), "different": cosines.different.tolist()
        }  # fmt: skip
    return look


def _geometry(sample: Sample) -> dict[str, Tensor | float | None]:
    z, labels = sample.z, sample.labels
    centres = class_centres(z, labels)
    n_classes, width = centres.directions.shape
    widest = widest_angle(n_classes, width) if n_classes > 1 else None
    angles = equiangularity(z, labels)
    return {
        "alignment": alignment(*sample.positives),
        "uniformity": uniformity(sample.items),
        "effective_rank": effective_rank(z),
        "nc1": nc1(z, labels),
        "equinorm": equinorm(z, labels),
        "equiangular_spread": angles.spread,
        "equiangular_gap": angles.gap,
        "cdnv": cdnv(z, labels),
        "packing": packing(centres),
        "least_angle": torch.rad2deg(least_angle(centres.directions)),
        "widest_angle": None if widest is None else math.degrees(widest),
    }


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as JSON has them, floats in six digits; None for what is not finite.

    Example:
        >>> plain({"a": math.nan, "b": 1 / 3, "c": {"d": torch.tensor(2.0)}, "e": 7})
        {'a': None, 'b': 0.333333, 'c': {'d': 2.0}, 'e': 7}
    """
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
