"""The H-SCL paper's sets of negatives of one anchor, drawn in two dimensions."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import seaborn as sns
from numpy.typing import NDArray

from gcl_hard.errors import InputError, unknown
from gcl_hard.reports import theme
from gcl_hard.reports.rendering import caption
from gcl_hard.reports.runs import RERUN, by_config, labels, subject
from gcl_hard.reports.tables import count
from gcl_hard.runs.plan import Run
from gcl_hard.runs.record import RunResult

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Projection = Literal["pca", "tsne", "mds"]

THRESHOLDS = (-0.25, -0.05)
"""l of the paper's Fig. 4 and 5, tried before a quantile."""
SHARE = 0.25
"""Share of all pairs that is hard at that quantile."""
MOST = 0.9
"""Share of an anchor's others above which calling them hard says little."""
DAMAGED = (
    OSError, EOFError, KeyError, ValueError, TypeError, AttributeError, NotImplementedError,
    BadZipFile, zlib.error,
)  # fmt: skip
"""Errors that reading a damaged file may raise."""
AXES = {"pca": "principal component", "tsne": "dimension of t-SNE", "mds": "dimension of MDS"}
NAMES = {
    "in_scl": r"$\mathcal{H}_{\mathrm{SCL}}$",
    "in_hucl": r"$\mathcal{H}_{\mathrm{H}\text{-}\mathrm{UCL}}$",
    "in_hscl": r"$\mathcal{H}_{\mathrm{H}\text{-}\mathrm{SCL}}$",
    "in_hcol": r"$\mathcal{H}_{\mathrm{Hcol}}$",
}
HUES = {
    "in the set: own label": theme.COLOURS["scl"],
    "another label": theme.COLOURS["ucl"],
    "not in the set": "#D0D0D0",
}
ANCHOR = "#F0E442"


@dataclass(frozen=True)
class Points:
    """Anchors and candidates of the last snapshot.

    Attributes:
        anchors: float64 [A, d], unit rows for InfoNCE, raw ones for JSD.
        candidates: float64 [K, d], likewise.
        anchor_labels: int [A].
        labels: int [K], of the candidates.
        positive: int [A], the candidate that is the anchor's positive.
        own: int [A], the candidate that is the anchor itself; −1 if none is.
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
    """Read the embeddings of a snapshot.

    Args:
        path: the ``.npz`` file next to a result.

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
            similarity = anchors @ candidates.T
        else:
            similarity = kept["similarity"].astype(np.float64)
        return Points(
            anchors, candidates, kept["anchor_labels"], kept["candidate_labels"], kept["positive"],
            kept["own"], similarity, objective,
        )  # fmt: skip
    except DAMAGED as error:
        raise InputError(
            f"{path} does not hold the embeddings of a snapshot ({error}): remove it, and {RERUN} "
            f"--force"
        ) from error


def _unit(z: Floats) -> Floats:
    norms: Floats = np.linalg.norm(z, axis=1, keepdims=True)
    return z / np.where(norms > 0, norms, 1.0)


def _check(kept: Mapping[str, NDArray[Any]]) -> None:
    """Raise a ValueError that names an array that does not fit the others."""
    n, width = kept["anchors"].shape
    n_candidates = len(kept["candidates"])
    shapes = {
        "candidates": (n_candidates, width), "candidate_labels": (n_candidates,),
        "anchor_labels": (n,), "positive": (n,), "own": (n,),
    }  # fmt: skip
    for name, shape in shapes.items():
        if kept[name].shape != shape:
            raise ValueError(f"{name} has shape {kept[name].shape}, expected {shape}")
    for name in ("anchors", "candidates"):
        if not np.isfinite(kept[name]).all():
            raise ValueError(f"{name} are not finite")
    for name, least in (("positive", 0), ("own", -1)):
        index = kept[name]
        if index.dtype.kind != "i" or index.min() < least or index.max() >= n_candidates:
            raise ValueError(f"{name} does not index {n_candidates} candidates")


def sets(points: Points, threshold: float) -> dict[str, Bools]:
    r"""Masks of the paper's four sets for every anchor.

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


def _set_sizes(points: Points, threshold: float) -> tuple[Ints, Bools, Bools]:
    """Sizes [A, 4]; anchors with all sets non-empty; those of them with not all others hard."""
    sizes = np.stack([mask.sum(1) for mask in sets(points, threshold).values()], axis=1)
    whole: Bools = np.all(sizes > 0, axis=1)
    return sizes, whole, whole & (sizes[:, 1] <= MOST * points.others.sum(1))


def usual_threshold(points: Points, anchor: int | None) -> float:
    """The paper's threshold if it divides the others, else a quantile.

    Args:
        points: anchors against candidates.
        anchor: the anchor whose others it must divide; None for those of most anchors.

    Returns:
        −0.25, −0.05, or what a quarter of all pairs reach.
    """
    for threshold in THRESHOLDS:
        telling = _set_sizes(points, threshold)[2]
        if telling.mean() > 0.5 if anchor is None else telling[anchor]:
            return threshold
    return float(np.quantile(points.similarity[points.others], 1 - SHARE))


def rounded(threshold: float) -> str:
    """A threshold in as many digits as distinguish it from 1, and at least two.

    Example:
        >>> rounded(-0.25), rounded(0.7431), rounded(0.99973)
        ('-0.25', '0.74', '0.9997')
    """
    texts = (f"{threshold:.{n}g}" for n in range(2, 17))
    return next((text for text in texts if float(text) != 1), f"{threshold:g}")


def typical_anchor(points: Points, threshold: float) -> int:
    """The anchor with members in all four sets that is nearest to their median sizes.

    Args:
        points: anchors against candidates.
        threshold: the cosine l.

    Returns:
        Its index; on a tie the first.

    Raises:
        InputError: if there is no such anchor; says what similarities there are.
    """
    sizes, whole, telling = _set_sizes(points, threshold)
    if not whole.any():
        s = points.similarity[points.others]
        raise InputError(
            f"at l = {threshold:g} no anchor has members in all four sets: similarities go from "
            f"{s.min():.3g} to {s.max():.3g}, and there are "
            f"{count(len(set(points.labels.tolist())), 'label')}; give another threshold "
            f"(--setting), or an anchor (--anchor)"
        )
    usual = telling if telling.any() else whole
    median = np.median(sizes[usual], axis=0)
    distance = (np.abs(sizes - median) / median).sum(1)
    return int(np.where(usual, distance, np.inf).argmin())


def _chosen(
    records: Sequence[RunResult], files: Mapping[Run, Path], seed: int | None
) -> tuple[RunResult, Path]:
    with_points = [record for record in records if record.run in files]
    kept = {record.seed: (record, files[record.run]) for record in reversed(with_points)}
    if not kept:
        again = f"{RERUN} --force (what is finished is not measured again)"
        raise InputError(
            f"no embeddings of a snapshot (.npz) are next to {records[0].name}.json or another "
            f"result: {again if any(one.diagnostics for one in records) else RERUN}, and give "
            f"the folder of the results"
        )
    called = labels(by_config(with_points))
    if len(called) > 1:
        raise InputError(
            f"fig3 shows one encoder, and there are embeddings of {', '.join(called.values())}: "
            f"choose with --only, as --only method=hscl --only beta=1"
        )
    if seed is not None and seed not in kept:
        there = ", ".join(map(str, sorted(kept)))
        raise InputError(f"seed {seed} has no embeddings; these seeds have some: {there}")
    return kept[min(kept) if seed is None else seed]


def project(points: Points, one: int, projection: Projection) -> tuple[Floats, float]:
    """Project candidates and anchor to two dimensions.

    Args:
        points: anchors against candidates.
        one: the anchor.
        projection: ``"pca"``, ``"tsne"`` or ``"mds"``.

    Returns:
        float64 [K + 1, 2], and the share of variance that two principal components keep.

    Raises:
        InputError: for fewer than four embeddings, or width 1.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE, smacof
    from sklearn.metrics import pairwise_distances

    own = points.own[one]
    z = points.candidates if own >= 0 else np.vstack([points.candidates, points.anchors[one]])
    if len(z) < 4 or z.shape[1] < 2:
        raise InputError(f"nothing to project: {len(z)} embeddings of width {z.shape[1]}")
    pca = PCA(2, svd_solver="full").fit(z)
    plane = pca.transform(z)
    if projection == "tsne":
        perplexity = min(30.0, (len(z) - 1) / 3)
        plane = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(z)
    elif projection == "mds":
        plane, _ = smacof(pairwise_distances(z), init=plane, n_init=1, random_state=0)
    plane = np.asarray(plane, dtype=np.float64)
    kept = float(pca.explained_variance_ratio_.sum())
    return (plane if own < 0 else np.vstack([plane, plane[own]])), kept


def anchor_data(points: Points, one: int, threshold: float, plane: Floats) -> pd.DataFrame:
    """The numbers of :func:`fig3`, a row for each candidate.

    Args:
        points: anchors against candidates.
        one: the anchor.
        threshold: the cosine l.
        plane: output of :func:`project`.

    Returns:
        Position, role, label, similarity and the sets of each; the anchor's row is the last if it
        is no candidate.
    """
    own, n = int(points.own[one]), len(points.labels)
    frame = pd.DataFrame(
        {
            "x": plane[:n, 0], "y": plane[:n, 1], "role": "candidate", "label": points.labels,
            "same_label": points.same[one], "similarity": points.similarity[one],
            **{name: mask[one] for name, mask in sets(points, threshold).items()},
        }
    )  # fmt: skip
    frame.loc[int(points.positive[one]), "role"] = "positive"
    if own >= 0:
        frame.loc[own, "role"] = "anchor"
        return frame
    label = int(points.anchor_labels[one])
    frame.loc[n] = [*plane[-1], "anchor", label, True, np.nan, *[False] * len(NAMES)]
    return frame


@theme.themed
def fig3(
    records: Sequence[RunResult], files: Mapping[Run, Path], *, seed: int | None = None,
    anchor: int | None = None, projection: Projection = "pca", setting: float | None = None,
) -> theme.Drawn:  # fmt: skip
    """The four sets of one anchor, one panel each.

    Args:
        records: runs of one configuration; those without a file are skipped.
        files: by run, the file of the embeddings of its last snapshot.
        seed: the run to draw; the first that has points if not given.
        anchor: its index, from 0; if not given, of those with members in all four sets the one
            nearest to their median sizes.
        projection: ``"pca"``, ``"tsne"`` or ``"mds"``.
        setting: the cosine l in [−1, 1]; if not given, the first of −0.25, −0.05 and what a
            quarter of all pairs reach at which most anchors have members in all four sets and
            not nearly all others are hard.

    Returns:
        The figure, a row for each candidate, and what nearness in it means.

    Raises:
        InputError: if no run kept its points, several configurations did, or a choice is not
            there.

    Source: H-SCL paper, Fig. 2 and 3, which are schematic.
    """
    if projection not in AXES:
        raise unknown("projection", projection, AXES)
    if setting is not None and not -1 <= setting <= 1:
        raise InputError(f"setting is a threshold l, a cosine in [-1, 1], got {setting}")
    record, path = _chosen(records, files, seed)
    points = load_points(path)
    if anchor is not None and not 0 <= anchor < len(points.anchors):
        raise InputError(f"anchor must be from 0 to {len(points.anchors) - 1}, got {anchor}")
    if len(set(points.labels.tolist())) == 1:
        raise InputError(
            f"candidates of {record.run} all have 1 label ({path}), and with one class there are "
            f"no sets to draw: take samples of several"
        )
    threshold = usual_threshold(points, anchor) if setting is None else setting
    one = typical_anchor(points, threshold) if anchor is None else anchor
    plane, kept = project(points, one, projection)
    data = anchor_data(points, one, threshold, plane)
    figure = _draw(data)
    outside = _zoom(figure, data) if points.objective == "jsd" else 0
    figure.supxlabel(f"first {AXES[projection]}", fontsize=theme.TEXT)
    figure.supylabel(f"second {AXES[projection]}", fontsize=theme.TEXT)
    words = rounded(threshold) if setting is None else f"{threshold:g}"
    node = points.own[one] < 0
    (called,) = labels([record.run.config]).values()
    which = subject([record]).replace("1 seed", f"seed\N{NO-BREAK SPACE}{record.seed}")
    which += f", epoch {record.diagnostics[-1]['epoch']}" if record.diagnostics else ""
    theme.heading(
        figure,
        f"Hard negatives at l = {words} of anchor {one}, {'a node' if node else 'a view'} of label "
        f"{points.anchor_labels[one]}. {which}, trained with {called}",
    )
    note = caption(
        "fig3", infonce=points.objective == "infonce", width=points.candidates.shape[1],
        projection=projection, kept=f"{100 * kept:.0f}", node=node, outside=outside,
        quantile=setting is None and threshold not in THRESHOLDS and f"{100 * SHARE:.0f}",
        candidates=len(points.labels),
    )  # fmt: skip
    return theme.Drawn(figure, data, note)


def _draw(data: pd.DataFrame) -> Any:
    figure, panels = theme.panels(len(NAMES), height=2.5, sharex=True, sharey=True)
    others = data[data["role"] == "candidate"]
    kind = np.where(others["same_label"], *[*HUES][:2])
    for panel, (name, title) in zip(panels, NAMES.items(), strict=True):
        hue = np.where(others[name], kind, "not in the set")
        sns.scatterplot(
            others.assign(hue=hue).sort_values(name), x="x", y="y", hue="hue", palette=HUES,
            style="same_label", markers={True: "^", False: "o"}, s=24 if len(data) <= 300 else 14,
            linewidth=0.3, ax=panel, legend=False, zorder=2,
        )  # fmt: skip
        for role, marker, size in (("positive", "^", 50), ("anchor", "*", 150)):
            one = data[data["role"] == role]
            panel.scatter(one["x"], one["y"], s=size, marker=marker, color=ANCHOR,
                          edgecolors=theme.INK, linewidths=0.8, zorder=4)  # fmt: skip
        panel.set(title=f"{title}: {others[name].sum()} of {len(others)}", xlabel="", ylabel="")
        panel.locator_params(nbins=4)
        panel.grid(visible=False)
    marks = zip(HUES.items(), "^oo", strict=True)
    theme.legend(
        figure,
        [{"marker": marker, "color": ANCHOR, "markeredgecolor": theme.INK, "label": label,
          "markersize": size, "linestyle": "none"}
         for label, marker, size in (("anchor", "*", 11), ("its positive", "^", 7))]
        + [{"marker": marker, "color": hue, "label": label, "markersize": 6, "linestyle": "none"}
           for (label, hue), marker in marks],
    )  # fmt: skip
    return figure


def _zoom(figure: Any, data: pd.DataFrame) -> int:
    """Drop distant outliers from the plot; returns how many."""
    position, shown = data[["x", "y"]], data["role"] != "candidate"
    candidates = position[data["similarity"].notna()]
    low = candidates.quantile(0.01, interpolation="higher").combine(position[shown].min(), min)
    high = candidates.quantile(0.99, interpolation="lower").combine(position[shown].max(), max)
    low, high = low - 0.25 * (high - low), high + 0.25 * (high - low)
    outside = int(((candidates < low) | (candidates > high)).any(axis=1).sum())
    if outside:
        figure.axes[0].set_xlim(low["x"], high["x"])
        figure.axes[0].set_ylim(low["y"], high["y"])
    return outside
