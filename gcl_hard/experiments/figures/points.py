"""The embeddings that a look keeps, and the paper's sets of negatives among them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.experiments.figures.runs import RERUN
from gcl_hard.reports.text import (
    count,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

THRESHOLDS = (-0.25, -0.05)
"""l of the paper's Fig. 4 and 5, tried before a quantile."""
SHARE = 0.25
"""Of all pairs, the share that is hard where those tell little apart."""
DAMAGED = (
    OSError, EOFError, KeyError, ValueError, TypeError, AttributeError, NotImplementedError,
    BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a file that is not whole may raise."""
MOST = 0.9
"""Share of an anchor's others above which calling them hard tells little apart."""


@dataclass(frozen=True)
class Points:
    """What the last look kept: anchors against candidates.

    Attributes:
        anchors: float64 [A, d], unit rows of InfoNCE, raw ones of JSD.
        candidates: float64 [K, d], likewise.
        anchor_labels: int [A].
        labels: int [K], of the candidates.
        positive: int [A], the candidate that is the anchor's positive.
        own: int [A], the candidate that is the anchor itself; −1 where it is none of them.
        similarity: float64 [A, K], s in [−1, 1].
        objective: ``"infonce"`` or ``"jsd"``.
    """

    anchors: Floats
    candidates: Floats
    anchor_labels: Ints
    labels: Ints
    positive: Ints
    own: Ints
    similarity: Floats
    objective: str

    @property
    def same(self) -> Bools:
        """Whether a candidate carries the anchor's label, [A, K]."""
        same: Bools = self.anchor_labels[:, None] == self.labels
        return same

    @property
    def others(self) -> Bools:
        """Whether a candidate is neither the anchor nor its positive, [A, K]."""
        every = np.arange(len(self.labels))
        others: Bools = (every != self.positive[:, None]) & (every != self.own[:, None])
        return others


def load_points(path: Path) -> Points:
    """Read what a look kept.

    Args:
        path: of the ``.npz`` beside a record.

    Returns:
        :class:`Points`.

    Raises:
        InputError: if it cannot be read, lacks an array, or has arrays that do not fit together.
    """
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            kept = dict(arrays)
        _check(kept)
        objective = str(kept["objective"])
        anchors, candidates = (kept[n].astype(np.float64) for n in ("anchors", "candidates"))
        if objective == "infonce":
            anchors, candidates = _unit(anchors), _unit(candidates)
            scale = 1.0
        else:
            scale = float(kept["scale"]) or 1.0
        return Points(
            anchors, candidates, kept["anchor_labels"], kept["candidate_labels"], kept["positive"],
            kept["own"], anchors @ candidates.T / scale, objective,
        )  # fmt: skip
    except DAMAGED as error:
        raise InputError(
            f"{path} does not hold the embeddings of a look ({error}): remove it, and {RERUN} "
            f"--force"
        ) from error


def _check(kept: Mapping[str, NDArray[Any]]) -> None:
    """Whether arrays fit together; a ValueError that names one that does not."""
    n, width = kept["anchors"].shape
    n_candidates = len(kept["candidates"])
    shapes = {
        "candidates": (n_candidates, width), "candidate_labels": (n_candidates,),
        "anchor_labels": (n,), "positive": (n,), "own": (n,),
    }  # fmt: skip
    for name, shape in shapes.items():
        if kept[name].shape != shape:
            raise ValueError(f"{name} is of shape {kept[name].shape}, expected {shape}")
    for name in ("anchors", "candidates"):
        if not np.isfinite(kept[name]).all():
            raise ValueError(f"{name} are not finite")
    for name, least in (("positive", 0), ("own", -1)):
        index = kept[name]
        if index.dtype.kind != "i" or index.min() < least or index.max() >= n_candidates:
            raise ValueError(f"{name} is not of {n_candidates} candidates")


def sets(points: Points, threshold: float) -> dict[str, Bools]:
    r"""Members of the paper's four sets, for every anchor.

    .. math:: H_\text{SCL} = \{y^- \ne y\}, \; H_\text{H-UCL} = \{s \ge l\}, \;
              H_\text{H-SCL} = H_\text{SCL} \cap H_\text{H-UCL}, \;
              H_\text{Hcol} = H_\text{SCL}^c \cap H_\text{H-UCL}

    Args:
        points: anchors against candidates; an anchor and its positive are in none of its sets.
        threshold: the cosine l.

    Returns:
        bool [A, K] each: ``in_scl``, ``in_hucl``, ``in_hscl`` and ``in_hcol``.

    Source:
        H-SCL paper, section IV-A and Fig. 3.

    Example:
        >>> z, one = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0])
        >>> points = Points(z[:1], z, one, np.array([0, 1]), one, one, z[:1] @ z.T, "infonce")
        >>> sets(points, -0.25)["in_hscl"]
        array([[False,  True]])
    """
    slack = 4 * np.finfo(np.float64).eps
    hard = points.others & (points.similarity >= threshold - slack)
    other = points.others & ~points.same
    return {
        "in_scl": other, "in_hucl": hard, "in_hscl": hard & other, "in_hcol": hard & points.same
    }  # fmt: skip


def _sizes(points: Points, threshold: float) -> Ints:
    """Of the four sets, [A, 4]."""
    return np.stack([mask.sum(1) for mask in sets(points, threshold).values()], axis=1)


def _telling(points: Points, threshold: float) -> tuple[Bools, Bools]:
    """Anchors [A] with members in all four sets; and those of them with a rest that is not hard."""
    sizes = _sizes(points, threshold)
    whole: Bools = np.all(sizes > 0, axis=1)
    return whole, whole & (sizes[:, 1] <= MOST * points.others.sum(1))


def usual_threshold(points: Points, anchor: int | None) -> float:
    """The first l at which being hard tells something apart: the paper's, or else a quantile.

    Args:
        points: anchors against candidates.
        anchor: where it must; None for most of them.

    Returns:
        −0.25, −0.05, or what a quarter of all pairs reach.
    """
    for threshold in THRESHOLDS:
        _, telling = _telling(points, threshold)
        if telling.mean() > 0.5 if anchor is None else telling[anchor]:
            return threshold
    return float(np.quantile(points.similarity[points.others], 1 - SHARE))


def said(threshold: float) -> str:
    """A threshold in words: in as many digits as tell it from 1, and at least two.

    Example:
        >>> said(-0.25), said(0.7431), said(0.99973)
        ('-0.25', '0.74', '0.9997')
    """
    digits = range(2, 17)
    return next(
        (text for n in digits if float(text := f"{threshold:.{n}g}") != 1), f"{threshold:g}"
    )


def typical_anchor(points: Points, threshold: float) -> int:
    """Of the anchors with members in all four sets, the one nearest to their median sizes.

    Args:
        points: anchors against candidates.
        threshold: the cosine l.

    Returns:
        Its index; the first of several.

    Raises:
        InputError: if there is no such anchor; says what similarities there are.
    """
    whole, telling = _telling(points, threshold)
    if not whole.any():
        s = points.similarity[points.others]
        raise InputError(
            f"at l = {threshold:g} no anchor has members in all four sets: similarities go from "
            f"{s.min():.3g} to {s.max():.3g}, and there are "
            f"{count(len(set(points.labels.tolist())), 'label')}; give another threshold "
            f"(--setting), or an anchor (--anchor)"
        )
    usual = telling if telling.any() else whole
    sizes = _sizes(points, threshold)
    median = np.median(sizes[usual], axis=0)
    distance = (np.abs(sizes - median) / median).sum(1)
    return int(np.where(usual, distance, np.inf).argmin())


def _unit(z: Floats) -> Floats:
    norms: Floats = np.linalg.norm(z, axis=1, keepdims=True)
    return z / np.where(norms > 0, norms, 1.0)
