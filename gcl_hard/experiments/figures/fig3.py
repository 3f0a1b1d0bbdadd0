"""The sets of the H-SCL paper around one anchor of a trained encoder, on a plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.figures.naming import labels, subject
from gcl_hard.experiments.figures.points import (
    SHARE,
    THRESHOLDS,
    Bools,
    Floats,
    Points,
    load_points,
    said,
    sets,
    typical_anchor,
    usual_threshold,
)
from gcl_hard.experiments.figures.runs import RERUN, Run
from gcl_hard.experiments.figures.written import Drawn, title
from gcl_hard.experiments.reporting.figures.drawing import COLOURS, INK, TEXT, panels

Projection = Literal["pca", "tsne", "mds"]

CUT, FREE = 0.01, 0.25
"""Of candidates, the share at either end that may lie outside; and of what is shown, the margin."""
REST, ANCHOR = "#D0D0D0", "#F0E442"
MARKS = {True: ("^", COLOURS["scl"]), False: ("o", COLOURS["ucl"])}
"""By whether a candidate carries the anchor's label."""
AXES = {"pca": "principal component", "tsne": "dimension of t-SNE", "mds": "dimension of MDS"}
NAMES = {
    name: rf"$\mathcal{{H}}_{{{index}}}$"
    for name, index in (
        ("in_scl", r"\mathrm{SCL}"), ("in_hucl", r"\mathrm{H}\text{-}\mathrm{UCL}"),
        ("in_hscl", r"\mathrm{H}\text{-}\mathrm{SCL}"), ("in_hcol", r"\mathrm{Hcol}"),
    )
}  # fmt: skip
KEPT = {
    "pca": "Two principal components keep {} of the variance",
    "tsne": "t-SNE keeps neighbours, not distances (two principal components keep {} of the "
    "variance)",
    "mds": "MDS keeps distances as well as a plane can (two principal components keep {} of the "
    "variance)",
}
QUANTILE = (
    f" l is what {100 * SHARE:.0f} % of all pairs reach: at the paper's -0.25 and -0.05 nearly all "
    f"others are hard, or a set is empty."
)


def draw(
    runs: Sequence[Run], *, seed: int | None = None, anchor: int | None = None,
    projection: Projection = "pca", setting: float | None = None,
) -> Drawn:  # fmt: skip
    """The four sets of one anchor, a panel each.

    Args:
        runs: of one cell; those without points are passed over.
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
        InputError: if no run kept its points, several cells did, or a choice is not there.

    Source: H-SCL paper, Fig. 2 and 3, which are schematic.
    """
    if projection not in AXES:
        raise unknown("projection", projection, AXES)
    if setting is not None and not -1 <= setting <= 1:
        raise InputError(f"setting is a threshold l, a cosine in [-1, 1], got {setting}")
    run, points = _chosen(runs, seed)
    if anchor is not None and not 0 <= anchor < len(points.anchors):
        raise InputError(f"anchor must be from 0 to {len(points.anchors) - 1}, got {anchor}")
    if len(set(points.labels.tolist())) == 1:
        raise InputError(
            f"candidates of {run} are all of 1 label ({run.points}), and with one class there are "
            f"no sets to draw: look at samples of several"
        )
    threshold = usual_threshold(points, anchor) if setting is None else setting
    one = typical_anchor(points, threshold) if anchor is None else anchor
    members = {name: mask[one] for name, mask in sets(points, threshold).items()}
    plane, kept = _plane(points, one, projection)
    figure = _figure(points, one, members, plane)
    outside = _zoom(figure, points, one, plane) if points.objective == "jsd" else 0
    figure.supxlabel(f"first {AXES[projection]}", fontsize=TEXT)
    figure.supylabel(f"second {AXES[projection]}", fontsize=TEXT)
    words = said(threshold) if setting is None else f"{threshold:g}"
    title(figure, _title(run, points, one, words))
    note = _note(points, one, KEPT[projection].format(f"{100 * kept:.0f} %"))
    if setting is None and threshold not in THRESHOLDS:
        note += QUANTILE
    if outside:
        note += f" {outside} of {len(points.labels)} candidates lie outside the picture."
    return Drawn(figure, _rows(points, one, members, plane), note)


def _chosen(runs: Sequence[Run], seed: int | None) -> tuple[Run, Points]:
    kept = [(run, run.points) for run in runs if run.points is not None]
    if not kept:
        again = f"{RERUN} --force (what is finished is not looked at again)"
        raise InputError(
            f"no embeddings of a look (.npz) lie beside {runs[0].source.name} or another record: "
            f"{again if any(run.looks for run in runs) else RERUN}, and give the folder of its "
            f"records"
        )
    called = labels(dict.fromkeys(run.cell for run, _ in kept))
    if len(called) > 1:
        raise InputError(
            f"fig3 is of one encoder, and there are embeddings of {', '.join(called.values())}: "
            f"choose with --only, as --only method=hscl --only beta=1"
        )
    seeds = {run.seed: (run, path) for run, path in kept}
    if seed is not None and seed not in seeds:
        there = ", ".join(map(str, sorted(seeds)))
        raise InputError(f"seed {seed} has no embeddings; there are those of {there}")
    run, path = seeds[min(seeds) if seed is None else seed]
    return run, load_points(path)


def _plane(points: Points, one: int, projection: Projection) -> tuple[Floats, float]:
    """Candidates, then the anchor, [K + 1, 2]; and the share of variance of two components."""
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


def _figure(points: Points, one: int, members: dict[str, Bools], plane: Floats) -> Figure:
    figure, axes = panels(len(members), height=2.4, sharey=True)
    candidates, others, same = plane[:-1], points.others[one], points.same[one]
    size = 24.0 if len(candidates) <= 300 else 12.0
    for panel, (name, inside) in zip(axes, members.items(), strict=True):
        panel.set_title(f"{NAMES[name]}: {inside.sum()} of {others.sum()}", fontsize=TEXT)
        panel.tick_params(labelsize=TEXT)
        panel.locator_params(nbins=4)
        for member in (False, True):
            for alike, (marker, hue) in MARKS.items():
                x, y = candidates[others & (inside == member) & (same == alike)].T
                panel.scatter(
                    x, y, s=size, marker=marker, color=hue if member else REST, linewidths=0.3,
                    edgecolors="white", zorder=2 + member, gid=f"{name} {member} {alike}",
                )  # fmt: skip
        for (x, y), (marker, scale) in (
            (candidates[points.positive[one]], ("^", 50)), (plane[-1], ("*", 150)),
        ):  # fmt: skip
            panel.scatter([x], [y], s=scale, marker=marker, color=ANCHOR, edgecolors=INK,
                          linewidths=0.8, zorder=4)  # fmt: skip
    handles = [
        Line2D([], [], linestyle="none", marker=marker, color=hue, markeredgecolor=edge,
               markersize=11 if marker == "*" else 7, label=label)
        for label, (marker, hue), edge in (
            ("anchor", ("*", ANCHOR), INK), ("its positive", ("^", ANCHOR), INK),
            ("in the set: of its label", MARKS[True], "white"),
            ("of another label", MARKS[False], "white"),
            ("not in the set", ("o", REST), "white"),
        )
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=5, frameon=False,
                  fontsize=TEXT, handletextpad=0.2)  # fmt: skip
    return figure


def _zoom(figure: Figure, points: Points, one: int, plane: Floats) -> int:
    """Leave out what lies so far off that all else would be a dot; gives how many candidates."""
    shown, candidates = plane[[points.positive[one], -1]], plane[:-1]
    low = np.quantile(candidates, CUT, axis=0, method="higher")
    high = np.quantile(candidates, 1 - CUT, axis=0, method="lower")
    low, high = np.minimum(low, shown.min(0)), np.maximum(high, shown.max(0))
    margin = FREE * (high - low)
    low, high = low - margin, high + margin
    outside = int(((candidates < low) | (candidates > high)).any(axis=1).sum())
    if outside:
        for panel in figure.axes:
            panel.set_xlim(low[0], high[0])
            panel.set_ylim(low[1], high[1])
    return outside


def _title(run: Run, points: Points, one: int, threshold: str) -> str:
    what = "a node" if points.own[one] < 0 else "a view"
    which = subject([run]).replace("1 seed", f"seed\N{NO-BREAK SPACE}{run.seed}")
    which += f", epoch {run.looks[-1]['epoch']}" if run.looks else ""
    return (
        f"Hard negatives at l = {threshold} of anchor {one}, {what} of label "
        f"{points.anchor_labels[one]}. {which}, trained with {labels([run.cell])[run.cell]}"
    )


def _rows(
    points: Points, one: int, members: dict[str, Bools], plane: Floats
) -> list[dict[str, object]]:
    own, label = int(points.own[one]), int(points.anchor_labels[one])
    roles = {int(points.positive[one]): "positive", own: "anchor"}
    rows: list[dict[str, object]] = [
        {
            "x": float(plane[k, 0]), "y": float(plane[k, 1]), "role": roles.get(k, "candidate"),
            "label": int(points.labels[k]), "same_label": bool(points.same[one, k]),
            "similarity": float(points.similarity[one, k]),
            **{name: bool(inside[k]) for name, inside in members.items()},
        }
        for k in range(len(points.labels))
    ]  # fmt: skip
    if own < 0:
        x, y = plane[-1].tolist()
        rows.append({
            "x": x, "y": y, "role": "anchor", "label": label, "same_label": True,
            "similarity": None, **dict.fromkeys(members, False),
        })  # fmt: skip
    return rows


def _note(points: Points, one: int, kept: str) -> str:
    similar = "cosine" if points.objective == "infonce" else "dot product as a share of the largest"
    other = (
        "is its own graph (the anchor is a node, all else are graphs)" if points.own[one] < 0
        else "comes from augmentation and label"
    )  # fmt: skip
    return (
        f"Candidates of one batch of training samples; hard are those with similarity s ≥ l "
        f"({similar}, in all {points.candidates.shape[1]} dimensions). {kept}, and the circle of "
        f"the paper's drawing is none here. The anchor's positive {other} and is in none of the "
        f"sets."
    )
