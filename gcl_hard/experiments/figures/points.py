"""The embeddings that a look keeps, and the paper's sets of negatives among them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.experiments.figures.runs import RERUN

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

THRESHOLDS = (-0.25, -0.05)
"""l of the paper's Fig. 4 and 5, tried before a quantile."""
SHARE = 0.25
"""Of all pairs, the share that is hard where those tell little apart."""
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
        InputError: if it cannot be read or lacks an array.
    """
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            kept = dict(arrays)
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
    except (OSError, EOFError, KeyError, ValueError, BadZipFile) as error:
        raise InputError(
            f"{path} does not hold the embeddings of a look ({error}): remove it, and {RERUN} "
            f"--force"
        ) from error


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
        −0.25, −0.05, or, in two digits, what a quarter of all pairs reach.
    """
    for threshold in THRESHOLDS:
        _, telling = _telling(points, threshold)
        if telling.mean() > 0.5 if anchor is None else telling[anchor]:
            return threshold
    return float(f"{np.quantile(points.similarity[points.others], 1 - SHARE):.2g}")


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
            f"{s.min():.2f} to {s.max():.2f}, and there are {len(set(points.labels.tolist()))} "
            f"labels; give another threshold (--setting), or an anchor (--anchor)"
        )
    usual = telling if telling.any() else whole
    sizes = _sizes(points, threshold)
    median = np.median(sizes[usual], axis=0)
    distance = (np.abs(sizes - median) / median).sum(1)
    return int(np.where(usual, distance, np.inf).argmin())


def _unit(z: Floats) -> Floats:
    norms: Floats = np.linalg.norm(z, axis=1, keepdims=True)
    return z / np.where(norms > 0, norms, 1.0)
