"""The H-SCL paper's sets of negatives of one anchor, drawn in two dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.store import POINTS, Store
from gcl_hard.reports import theme
from gcl_hard.reports.runs import RERUN, by_config, labels, read, select, subject

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


def encoder(results: Sequence[Path], only: Mapping[str, Sequence[str]]) -> tuple[RunResult, Path]:
    """The encoder to draw: of the runs that have embeddings next to them, the first seed.

    Args:
        results: folders of results.
        only: the values to keep of settings, or of ``seed``.

    Returns:
        Its result, and the file of the embeddings of its last snapshot.

    Raises:
        InputError: if there is none, or several configurations are left.
    """
    records = read(results)
    files: dict[Run, Path] = {}
    for record in records:
        for folder in results:
            path = Store(folder, record.data.get("processes", 1)).file(record.run, POINTS)
            if path.exists():
                files[record.run] = path
    if not files:
        raise InputError(
            f"no embeddings of a snapshot (*{POINTS}) are next to these results: {RERUN} --force"
        )
    chosen = select([record for record in records if record.run in files], only)
    names = labels(by_config(chosen))
    if len(names) > 1:
        raise InputError(
            f"fig3 shows one encoder, and there are embeddings of {', '.join(names.values())}: "
            f"choose with --only, as --only method=hscl --only beta=1"
        )
    return chosen[0], files[chosen[0].run]


@dataclass(frozen=True)
class Embeddings:
    """Anchors and candidates of the last snapshot.

    Attributes:
        anchors: float64 [A, d], unit rows for InfoNCE, raw ones for JSD.
        candidates: float64 [K, d], likewise.
        anchor_labels: int [A].
        labels: int [K], of the candidates.
        positive: int [A], the candidate that is the anchor's positive.
        itself: int [A], the candidate that is the anchor; −1 if none is.
        similarity: float64 [A, K], s in [−1, 1].
        objective: ``"infonce"`` or ``"jsd"``.
    """

    anchors: Floats
    candidates: Floats
    anchor_labels: Ints
    labels: Ints
    positive: Ints
    itself: Ints
    similarity: Floats
    objective: str

    @classmethod
    def load(cls, path: Path) -> Embeddings:
        """Read the ``.npz`` file next to a result."""
        with np.load(path) as file:
            arrays = dict(file)
        objective = str(arrays["objective"])
        anchors, candidates = (arrays[n].astype(np.float64) for n in ("anchors", "candidates"))
        if objective == "infonce":
            anchors, candidates = _unit(anchors), _unit(candidates)
            similarity = anchors @ candidates.T
        else:
            similarity = arrays["similarity"].astype(np.float64)
        return cls(
            anchors, candidates, arrays["anchor_labels"], arrays["candidate_labels"],
            arrays["positive"], arrays["own"], similarity, objective,
        )  # fmt: skip

    @property
    def same(self) -> Bools:
        """Whether a candidate carries the anchor's label, [A, K]."""
        same: Bools = self.anchor_labels[:, None] == self.labels
        return same

    @property
    def others(self) -> Bools:
        """Whether a candidate is neither the anchor nor its positive, [A, K]."""
        index = np.arange(len(self.labels))
        others: Bools = (index != self.positive[:, None]) & (index != self.itself[:, None])
        return others


def _unit(z: Floats) -> Floats:
    norms: Floats = np.linalg.norm(z, axis=1, keepdims=True)
    return z / np.where(norms > 0, norms, 1.0)


def sets(batch: Embeddings, threshold: float) -> dict[str, Bools]:
    r"""Masks of the paper's four sets for every anchor.

    .. math:: H_\text{SCL} = \{y^- \ne y\}, \; H_\text{H-UCL} = \{s \ge l\}, \;
              H_\text{H-SCL} = H_\text{SCL} \cap H_\text{H-UCL}, \;
              H_\text{Hcol} = H_\text{SCL}^c \cap H_\text{H-UCL}

    Args:
        batch: anchors against candidates; an anchor and its positive are in none of its sets.
        threshold: the cosine l.

    Returns:
        bool [A, K] each: ``in_scl``, ``in_hucl``, ``in_hscl`` and ``in_hcol``.

    Source:
        H-SCL paper, section IV-A and Fig. 3.
    """
    slack = 4 * np.finfo(np.float64).eps
    hard = batch.others & (batch.similarity >= threshold - slack)
    other = batch.others & ~batch.same
    return {
        "in_scl": other, "in_hucl": hard, "in_hscl": hard & other, "in_hcol": hard & batch.same
    }  # fmt: skip


def _set_sizes(batch: Embeddings, threshold: float) -> tuple[Ints, Bools, Bools]:
    """Sizes [A, 4]; anchors with all sets non-empty; those of them with not all others hard."""
    sizes = np.stack([mask.sum(1) for mask in sets(batch, threshold).values()], axis=1)
    whole: Bools = np.all(sizes > 0, axis=1)
    return sizes, whole, whole & (sizes[:, 1] <= MOST * batch.others.sum(1))


def usual_threshold(batch: Embeddings, anchor: int | None) -> float:
    """The paper's threshold if it divides the others, else a quantile.

    Args:
        batch: anchors against candidates.
        anchor: the anchor whose others it must divide; None for those of most anchors.

    Returns:
        −0.25, −0.05, or what a quarter of all pairs reach.
    """
    for threshold in THRESHOLDS:
        telling = _set_sizes(batch, threshold)[2]
        if telling.mean() > 0.5 if anchor is None else telling[anchor]:
            return threshold
    return float(np.quantile(batch.similarity[batch.others], 1 - SHARE))


def rounded(threshold: float) -> str:
    """A threshold in as many digits as distinguish it from 1, and at least two."""
    texts = (f"{threshold:.{n}g}" for n in range(2, 17))
    return next((text for text in texts if float(text) != 1), f"{threshold:g}")


def typical_anchor(batch: Embeddings, threshold: float) -> int:
    """The anchor with members in all four sets that is nearest to their median sizes.

    Args:
        batch: anchors against candidates.
        threshold: the cosine l.

    Returns:
        Its index; on a tie the first.

    Raises:
        InputError: if there is no such anchor; says what similarities there are.
    """
    sizes, whole, telling = _set_sizes(batch, threshold)
    if not whole.any():
        s = batch.similarity[batch.others]
        raise InputError(
            f"at l = {threshold:g} no anchor has members in all four sets: similarities go from "
            f"{s.min():.3g} to {s.max():.3g}, and the number of labels is "
            f"{len(np.unique(batch.labels))}; give another --threshold, or an --anchor"
        )
    usual = telling if telling.any() else whole
    median = np.median(sizes[usual], axis=0)
    distance = (np.abs(sizes - median) / median).sum(1)
    return int(np.where(usual, distance, np.inf).argmin())


def project(batch: Embeddings, anchor: int, projection: Projection) -> tuple[Floats, float]:
    """Project candidates and anchor to two dimensions.

    Args:
        batch: anchors against candidates.
        anchor: its index.
        projection: ``"pca"``, ``"tsne"`` or ``"mds"``.

    Returns:
        float64 [K + 1, 2], and the share of variance that two principal components keep.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE, smacof
    from sklearn.metrics import pairwise_distances

    itself, z = batch.itself[anchor], batch.candidates
    if itself < 0:
        z = np.vstack([z, batch.anchors[anchor]])
    pca = PCA(2, svd_solver="full").fit(z)
    plane = pca.transform(z)
    if projection == "tsne":
        perplexity = min(30.0, (len(z) - 1) / 3)
        plane = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(z)
    elif projection == "mds":
        plane, _ = smacof(pairwise_distances(z), init=plane, n_init=1, random_state=0)
    plane = np.asarray(plane, dtype=np.float64)
    share = float(pca.explained_variance_ratio_.sum())
    return (plane if itself < 0 else np.vstack([plane, plane[itself]])), share


def anchor_data(batch: Embeddings, anchor: int, threshold: float, plane: Floats) -> pd.DataFrame:
    """The numbers of :func:`fig3`, a row for each candidate.

    Args:
        batch: anchors against candidates.
        anchor: its index.
        threshold: the cosine l.
        plane: output of :func:`project`.

    Returns:
        Position, role, label, similarity and the sets of each; the anchor's row is the last if it
        is no candidate.
    """
    itself, n = int(batch.itself[anchor]), len(batch.labels)
    frame = pd.DataFrame(
        {
            "x": plane[:n, 0], "y": plane[:n, 1], "role": "candidate", "label": batch.labels,
            "same_label": batch.same[anchor], "similarity": batch.similarity[anchor],
            **{name: mask[anchor] for name, mask in sets(batch, threshold).items()},
        }
    )  # fmt: skip
    frame.loc[int(batch.positive[anchor]), "role"] = "positive"
    if itself >= 0:
        frame.loc[itself, "role"] = "anchor"
        return frame
    label = int(batch.anchor_labels[anchor])
    frame.loc[n] = [*plane[-1], "anchor", label, True, np.nan, *[False] * len(NAMES)]
    return frame


@theme.themed
def fig3(
    record: RunResult, path: Path, *, anchor: int | None = None, projection: Projection = "pca",
    threshold: float | None = None,
) -> theme.Drawn:  # fmt: skip
    """The four sets of one anchor, one panel each.

    Args:
        record: result of a run.
        path: the file of the embeddings of its last snapshot.
        anchor: its index, from 0; if not given, of those with members in all four sets the one
            nearest to their median sizes.
        projection: ``"pca"``, ``"tsne"`` or ``"mds"``.
        threshold: the cosine l; if not given, the first of −0.25, −0.05 and what a quarter of all
            pairs reach at which most anchors have members in all four sets and not nearly all
            others are hard.

    Returns:
        The figure, a row for each candidate, and what nearness in it means.

    Raises:
        InputError: if there is no such anchor.

    Source: H-SCL paper, Fig. 2 and 3, which are schematic.
    """
    batch = Embeddings.load(path)
    if anchor is not None and not 0 <= anchor < len(batch.anchors):
        raise InputError(f"anchor must be from 0 to {len(batch.anchors) - 1}, got {anchor}")
    level = usual_threshold(batch, anchor) if threshold is None else threshold
    if anchor is None:
        anchor = typical_anchor(batch, level)
    plane, share = project(batch, anchor, projection)
    data = anchor_data(batch, anchor, level, plane)
    figure = _draw(data)
    outside = _zoom(figure, data) if batch.objective == "jsd" else 0
    figure.supxlabel(f"first {AXES[projection]}", fontsize=theme.TEXT)
    figure.supylabel(f"second {AXES[projection]}", fontsize=theme.TEXT)
    node = batch.itself[anchor] < 0
    (label,) = labels([record.run.config]).values()
    where = subject([record]).replace("1 seed", f"seed\N{NO-BREAK SPACE}{record.seed}")
    where += f", epoch {record.diagnostics[-1]['epoch']}" if record.diagnostics else ""
    theme.heading(
        figure,
        f"Hard negatives at l = {rounded(level) if threshold is None else f'{level:g}'} of anchor "
        f"{anchor}, {'a node' if node else 'a view'} of label {batch.anchor_labels[anchor]}. "
        f"{where}, trained with {label}",
    )
    scale = "cosine" if batch.objective == "infonce" else "dot product over the largest"
    components = f"wo principal components keep {100 * share:.0f} % of the variance"
    sentences = [
        f"Candidates of one batch of training samples; hard are those with similarity s ≥ l "
        f"({scale}, in all {batch.candidates.shape[1]} dimensions).",
        {
            "pca": f"T{components}.",
            "tsne": f"t-SNE keeps neighbours, not distances (t{components}).",
            "mds": f"MDS keeps distances as well as a plane can (t{components}).",
        }[projection],
        "There is no circle as in the paper's drawing.",
        f"The anchor's positive "
        f"{'is its own graph' if node else 'comes from augmentation and label'} and is in none of "
        f"the sets.",
    ]
    if node:
        sentences.append("The anchor is a node; all else are graphs.")
    if threshold is None and level not in THRESHOLDS:
        sentences.append(
            f"l is what {100 * SHARE:.0f} % of all pairs reach: at the paper's -0.25 and -0.05 "
            f"nearly all others are hard, or a set is empty."
        )
    if outside:
        sentences.append(f"{outside} of {len(batch.labels)} candidates lie outside the picture.")
    return theme.Drawn(figure, data, " ".join(sentences))


def _draw(data: pd.DataFrame) -> Figure:
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
            point = data[data["role"] == role]
            panel.scatter(point["x"], point["y"], s=size, marker=marker, color=ANCHOR,
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


def _zoom(figure: Figure, data: pd.DataFrame) -> int:
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
