"""Figures of snapshots: Assumption 1 and the geometry of embeddings against the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gcl_hard.errors import InputError
from gcl_hard.experiments.record import RunResult
from gcl_hard.reports import theme
from gcl_hard.reports.rendering import caption
from gcl_hard.reports.runs import (
    COUNTS,
    by_config,
    labels,
    over_seeds,
    require_snapshots,
    snapshots,
    subject,
    usual_temperature,
    versions,
)
from gcl_hard.reports.tables import between
from gcl_hard.reports.theme import Drawn, themed
from gcl_hard.theory.snapshots import OWN

PANELS = {
    "l=-0.25": (r"$l = -0.25$", r"  ($\tau = e^{-0.5}$)"),
    "l=-0.05": (r"$l = -0.05$", r"  ($\tau = e^{-0.1}$)"),
    "beta=1": ("β = 1", ""), "beta=2": ("β = 2", ""),
}  # fmt: skip
"""Hardenings of the paper's Fig. 4 and 5: titles, and what they add at γ = 0.5."""
CLAIMED = 0.95
"""The paper's "over 95 % of all anchors across all epochs" (section V-B, CIFAR100)."""


class MeasuredEpochs(NamedTuple):
    """Snapshots of runs, for figures against the epoch.

    Attributes:
        frame: output of :func:`gcl_hard.reports.runs.snapshots`.
        records: those in it.
        methods: the method of each line, by label.
        facts: for the caption: whether encoders come from the first of several folds, whether there
            are epochs that not all seeds have, or gaps; and the lines left out for having fewer
            than two snapshots.
    """

    frame: pd.DataFrame
    records: list[RunResult]
    methods: dict[str, str]
    facts: dict[str, Any]


def diagnostics(records: Sequence[RunResult]) -> MeasuredEpochs:
    """The snapshots of runs whose configurations make lines, or of all runs if none does.

    Raises:
        InputError: if a run has no snapshots, or no epoch is common to the seeds of a
            configuration.
    """
    require_snapshots(records)
    frame = snapshots(records)
    epochs = frame[frame["shared"]].groupby("line")["epoch"].nunique()
    if epochs.empty:
        raise InputError(
            "seeds have no epoch in common: run them with the same --diagnostics, or choose one, "
            f"as --only seed={records[0].seed}"
        )
    called = labels(by_config(records))
    short = [n for n in called.values() if epochs.get(n, 0) < 2] if epochs.max() > 1 else []
    kept = [record for record in records if called[record.run.config] not in short]
    frame = frame[~frame["line"].isin(short)]
    facts = {
        "first_fold": kept[0].run.config.encoders > 1, "gaps": not frame["finite"].all(),
        "short": short, "unshared": not frame["shared"].all(),
    }  # fmt: skip
    methods = {called[record.run.config]: record.run.config.method for record in kept}
    return MeasuredEpochs(frame, kept, methods, facts)


def check_defined(frame: pd.DataFrame, count: str, condition: str) -> None:
    """Check that some anchor of a snapshot is defined."""
    if not frame[count].any():
        raise InputError(
            f"at no snapshot has an anchor {condition}: batches are too small or of one class, or "
            f"embeddings were not finite"
        )


def anchors_text(frame: pd.DataFrame) -> str:
    """The number of anchors of snapshots."""
    numbers = frame.loc[frame["anchors"] > 0, "anchors"]
    return f"{between(numbers) if len(numbers) else 0} anchors"


def panel_titles(records: Sequence[RunResult]) -> dict[str, str]:
    """Titles of the hardenings' panels, with τ where it has the papers' meaning."""
    return {n: title + tau * usual_temperature(records) for n, (title, tau) in PANELS.items()}


def epoch_axis(panel: Axes) -> None:
    """Few ticks, at whole epochs."""
    panel.xaxis.set_major_locator(
        MaxNLocator(nbins=5, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1)
    )


def epoch_panels(n: int, across: int, height: float, sharey: Any) -> tuple[Any, list[Axes]]:
    """Panels that share an axis of epochs, ``across`` in a row."""
    figure, panels = theme.panels(
        n, across=across, height=height, top=0.7, sharex=True, sharey=sharey
    )
    for panel in panels[-across:]:
        panel.set_xlabel("epoch")
        epoch_axis(panel)
    return figure, panels


def plot_line(panel: Axes, curve: pd.DataFrame, style: dict[str, Any], offset: float) -> None:
    """A line of means and a band; ``offset`` in [0, 1) moves the markers of lines that coincide."""
    epochs = curve.index.get_level_values("epoch")
    every = len(curve) // 6 if len(curve) > 12 else 1
    panel.plot(epochs, curve["mean"], markevery=(int(offset * every), every), **style)
    panel.fill_between(epochs, curve["min"], curve["max"], color=style["color"], alpha=0.15, lw=0)


def _lines(
    panel: Axes, frame: pd.DataFrame, value: str, styles: dict[str, dict[str, Any]]
) -> list[pd.DataFrame]:
    """A number against epoch, a line and band for each training; returns what is drawn."""
    groups = over_seeds(frame, value).groupby("line", sort=False)
    for index, (line, curve) in enumerate(groups):
        plot_line(panel, curve, styles[str(line)], index / len(groups))
    return [curve for _, curve in groups]


def assumption_data(frame: pd.DataFrame, records: Sequence[RunResult]) -> pd.DataFrame:
    """The numbers of :func:`fig4`: the share of anchors that satisfy Assumption 1.

    Args:
        frame: output of :func:`gcl_hard.reports.runs.snapshots`.
        records: those in it.

    Returns:
        A row for each seed, epoch and panel; for the training's own hardening, if all runs have it.
    """
    with_own = all(
        any(OWN in snapshot["settings"] for snapshot in record.diagnostics) for record in records
    )
    shown = frame[(frame["panel"] != OWN) | with_own]
    panel = shown["panel"].where(shown["setting"] == "", f"{OWN} (" + shown["setting"] + ")")
    shown = shown.assign(fraction=shown["assumption_1"], panel=panel)
    return shown[["dataset", "method", "trained_with", "seed", "epoch", "panel", "fraction",
                  *COUNTS[:4], "anchors", "lemma_1"]].reset_index(drop=True)  # fmt: skip


@themed
def fig4(records: Sequence[RunResult]) -> Drawn:
    """The share of anchors that satisfy Assumption 1 against epoch, one panel per hardening.

    A line is a training method: mean over seeds, with a band from the lowest to the highest seed.
    Shares count the anchors at which it is defined; a snapshot without any is a gap.

    Args:
        records: runs of one data set, protocol, contrast and objective.

    Returns:
        The figure; its rows hold every seed, epoch and panel.

    Raises:
        InputError: if a run has no snapshots, or none of them defines the share at any anchor.

    Source: H-SCL paper, section V-B and Fig. 4.
    """
    frame, records, methods, facts = diagnostics(records)
    check_defined(frame, "defined", "at which Assumption 1 says something")
    data, titles = assumption_data(frame, records), panel_titles(records)
    if data["panel"].str.startswith(OWN).any():
        hardenings = sorted({*frame["setting"]} - {""})
        words = (
            f": {hardenings[0]}".replace("=", " = ").replace("beta", "β")
            if len(hardenings) == 1
            else ""
        )
        titles[OWN] = f"as trained{words}"
    frame = frame[frame["panel"].isin(titles)]
    figure, panels = epoch_panels(len(titles), len(titles), 2.4, "all")
    styles, low = theme.line_styles(methods), 1.0
    rule: dict[str, Any] = {"color": theme.INK, "linestyle": (0, (2, 2)), "linewidth": 1,
            "label": f"the paper, CIFAR100: above {CLAIMED}"}  # fmt: skip
    for panel, (name, title) in zip(panels, titles.items(), strict=True):
        panel.set_title(title)
        panel.axhline(CLAIMED, **rule)
        drawn = _lines(panel, frame[frame["panel"] == name], "assumption_1", styles)
        low = min([low, *(curve["min"].min() for curve in drawn if curve["min"].notna().any())])
    bottom = next(edge for edge in (0.8, 0.5, 0.0) if edge < low or edge == 0)
    panels[0].set_ylim(bottom, 1 + 0.02 * (1 - bottom))
    panels[0].set_ylabel("share of anchors")
    theme.legend(figure, [*styles.values(), rule], "trained with")
    theme.heading(figure, f"Assumption 1 while training. {subject(records)}, {anchors_text(frame)}")
    note = caption(
        "fig4", facts=facts, last=frame[frame["last"]], shares=data["fraction"].dropna(),
        claimed=CLAIMED, bottom=bottom, versions=versions(records),
    )  # fmt: skip
    return Drawn(figure, data, note)


MEASURES = {
    "alignment": "alignment", "uniformity": "uniformity", "overlap": "overlap of histograms",
    "effective_rank": "effective rank", "nc1": "NC1", "cdnv": "CDNV",
    "packing": "packing of classes", "least_angle": "least angle, degrees",
    "collisions": r"mean $\mathbb{E}_{\mathrm{Hcol}}$, β = 1",
    "negatives": r"mean $\mathbb{E}_{\mathrm{H\text{-}SCL}}$, β = 1",
    "same_label_weight": "H-UCL on own label, β = 1",
    "effective_hscl": "negatives in effect, β = 1",
}  # fmt: skip
"""Panels of :func:`geometry`: the column of a snapshot, and the title."""
OPTIMALITY = {
    "cone_distance": "p from the cone of others",
    "stationarity_angle": "stationarity at p, degrees",
    "gradient_norm": "norm of the gradient",
}
"""Further panels, of two views."""


def geometry_data(frame: pd.DataFrame) -> pd.DataFrame:
    """The numbers of :func:`geometry`: every measure of every seed and epoch.

    Args:
        frame: output of :func:`gcl_hard.reports.runs.snapshots`.

    Returns:
        The rows; weights are those of β = 1.
    """
    frame = frame[frame["panel"] == "beta=1"]
    columns = ["dataset", "method", "trained_with", "seed", "epoch", *_measures(frame), "others",
               "other_labels", "widest_angle"]  # fmt: skip
    return frame[columns].reset_index(drop=True)


def _measures(frame: pd.DataFrame) -> dict[str, str]:
    """Panels of :func:`geometry`; those of two views where they have been measured."""
    return MEASURES | {k: text for k, text in OPTIMALITY.items() if frame[k].notna().any()}


@themed
def geometry(records: Sequence[RunResult]) -> Drawn:
    """Geometry of embeddings: one panel per measure, one line and band per training method.

    Args:
        records: runs of one data set, protocol, contrast and objective.

    Returns:
        The figure; its rows hold every seed, epoch and measure.

    Raises:
        InputError: if a run has no snapshots.

    Source: Wang & Isola (2020); Papyan, Han, Donoho (2020); Galanti, György, Hutter (2021);
        Robinson et al. (2021), Theorem 2; Roy & Vetterli (2007); SPACL, Theorem 2.1, Corollary 2.2
        and Lemma 2.4.
    """
    frame, records, methods, facts = diagnostics(records)
    data, frame = geometry_data(frame), frame[frame["panel"] == "beta=1"]
    measures = _measures(frame)
    figure, panels = epoch_panels(len(measures), 4, 1.7, "none")
    styles, rules = theme.line_styles(methods), list[dict[str, Any]]()
    for panel, (name, title) in zip(panels, measures.items(), strict=True):
        panel.set_title(title)
        drawn = pd.concat(_lines(panel, frame, name, styles))
        least, most = drawn["min"].min(), drawn["max"].max()
        if 0 < 100 * least < most:
            panel.set_yscale("log")
    if len(widest := data["widest_angle"].dropna().unique()):
        rules.append({"color": theme.INK, "linestyle": (0, (2, 2)), "linewidth": 1,
                      "label": "widest possible"})  # fmt: skip
        for angle in widest:
            panels[[*measures].index("least_angle")].axhline(angle, **rules[-1])
    negatives = frame.loc[frame["finite"], "other_labels"]
    if len(negatives) and negatives.notna().all():
        rules.append({"color": theme.GREY, "linestyle": (0, (6, 2)), "linewidth": 1,
                      "label": "all negatives"})  # fmt: skip
        panels[[*measures].index("effective_hscl")].axhline(negatives.mean(), **rules[-1])
    for panel in panels:
        _plain_ticks(panel)
    theme.legend(figure, [*styles.values(), *rules], "trained with")
    theme.heading(figure, f"How embeddings lie. {subject(records)}, {anchors_text(frame)}")
    note = caption(
        "geometry", facts=facts, versions=versions(records),
        optimality=len(measures) > len(MEASURES),
    )  # fmt: skip
    return Drawn(figure, data, note)


def _plain_ticks(panel: Axes) -> None:
    """Ticks without an offset, on an axis that does not magnify rounding."""
    if panel.get_yscale() == "log":
        return
    panel.ticklabel_format(axis="y", useOffset=False, scilimits=(-3, 5))
    low, high = panel.get_ylim()
    lacking = 1e-3 * max(abs(low), abs(high)) - (high - low)
    if lacking > 0:
        panel.set_ylim(low - lacking / 2, high + lacking / 2)
