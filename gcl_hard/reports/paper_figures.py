"""Figures of the papers, drawn from finished runs alone."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FormatStrFormatter,
    MaxNLocator,
    ScalarFormatter,
    SymmetricalLogLocator,
)

from gcl_hard.errors import InputError
from gcl_hard.evaluation.significance import corrected_interval
from gcl_hard.experiments.config import GraphConfig, RunConfig
from gcl_hard.experiments.diagnostics import OWN, SETTINGS
from gcl_hard.functional.similarity import overlap
from gcl_hard.methods import METHODS, method
from gcl_hard.reports import theme
from gcl_hard.reports.anchor_sets import fig3
from gcl_hard.reports.frame import Scores
from gcl_hard.reports.runs import (
    COUNTS,
    LOSSES,
    RERUN,
    StoredRun,
    by_config,
    labels,
    over_seeds,
    same_seeds,
    snapshots,
    subject,
    usual_temperature,
    versions,
    with_snapshots,
)
from gcl_hard.reports.text import of_images, test_part
from gcl_hard.reports.theme import Drawn, themed

__all__ = ["beta", "fig1", "fig3", "fig4", "fig5", "geometry", "histograms"]

# Accuracies


class Accuracies(NamedTuple):
    """Accuracies of runs, and how they are grouped.

    Attributes:
        data: rows of the figure.
        methods: the method of each line, by label.
        kept: the runs that the numbers are over.
        seeds: which seeds these are, in words.
    """

    data: pd.DataFrame
    methods: dict[str, str]
    kept: list[StoredRun]
    seeds: str


def _row(line: str, values: Sequence[float], **more: object) -> dict[str, object]:
    """Mean and standard deviation of accuracies over seeds."""
    std = stdev(values) if len(values) > 1 else math.nan
    return {
        "line": line, **more, "seeds": len(values), "accuracy_mean": fmean(values),
        "accuracy_std": std,
    }  # fmt: skip


def _means(runs: Sequence[StoredRun]) -> list[float]:
    return [fmean(run.accuracies) for run in runs]


def epochs_data(runs: Sequence[StoredRun]) -> Accuracies:
    """The numbers of :func:`fig1`: accuracy against epochs.

    Raises:
        InputError: if neither several numbers of epochs nor a monitoring curve are there.
    """
    longest: dict[str, Any] = {"epochs": max(run.config.epochs for run in runs)}
    lines = {config: replace(config, **longest) for config in by_config(runs)}
    tested = len(set(lines.values())) < len(lines)
    shown = runs if tested else [run for run in runs if run.curve]
    lines = lines if tested else {run.config: run.config for run in shown}
    called = labels(dict.fromkeys(lines.values()))
    names = {config: called[line] for config, line in lines.items()}
    kept, words = same_seeds(shown, names) if shown else ([], "")
    rows = []
    for config, own in by_config(kept).items():
        if tested:
            rows.append(_row(names[config], _means(own), method=config.method, epoch=config.epochs))
            continue
        curves = [dict(run.curve) for run in own]
        epochs = sorted(set.intersection(*map(set, curves)))
        for epoch in epochs if len(epochs) > 1 else ():
            values = [curve[epoch] for curve in curves]
            rows.append(_row(names[config], values, method=config.method, epoch=epoch))
    if not rows:
        raise InputError(
            "accuracy against epochs needs results of several numbers of epochs, or monitoring "
            "curves of images: run the same command with --epochs 10,50,200 or, of images, with "
            "--monitor-every 1"
        )
    on = test_part(runs[0].config.protocol) if tested else "training images (monitoring)"
    data = pd.DataFrame(rows).assign(dataset=runs[0].config.dataset, accuracy_on=on)
    order = {name: index for index, name in enumerate(dict.fromkeys(names.values()))}
    data = data.sort_values(
        ["line", "epoch"], key=lambda c: c.map(order) if c.name == "line" else c
    )
    data = data[["dataset", "method", "line", "accuracy_on", "epoch", "seeds", "accuracy_mean",
                 "accuracy_std"]].reset_index(drop=True)  # fmt: skip
    return Accuracies(data, dict(zip(data["line"], data["method"], strict=True)), kept, words)


@themed
def fig1(runs: Sequence[StoredRun]) -> Drawn:
    """Accuracy against epochs, a line a method.

    Of configurations that differ in their number of epochs, every point is the test accuracy of
    encoders trained that long. Otherwise the monitoring curves of images are drawn, never both.
    Points are means over the same seeds, where there are such.

    Args:
        runs: of one data set and protocol.

    Returns:
        The figure, a row for each point, and when H-SCL reaches SCL's last accuracy.

    Raises:
        InputError: if there is neither.

    Source: H-SCL paper, Fig. 1.
    """
    data, methods, kept, seeds = epochs_data(runs)
    on = data["accuracy_on"].iloc[0]
    tested = "monitoring" not in on
    band = not tested and len(methods) <= 4  # more of them would hide each other
    figure, (panel,) = theme.panels(1, height=3.4, top=0.6)
    styles = theme.line_styles(methods)
    for line, own in data.groupby("line", sort=False):
        style, epochs, mean = styles[str(line)], own["epoch"], own["accuracy_mean"]
        low, high = (mean + sign * own["accuracy_std"].fillna(0) for sign in (-1, 1))
        panel.plot(epochs, mean, markevery=1 if tested else max(1, len(own) // 10), **style)
        if tested:
            panel.vlines(epochs, low, high, color=style["color"], linewidth=1.2, alpha=0.7)
        elif band:
            panel.fill_between(epochs, low, high, color=style["color"], alpha=0.15, linewidth=0)
    _epoch_axis(panel)
    if len(ticks := sorted(data["epoch"].unique())) <= 8:
        panel.set_xticks(ticks)
    panel.set_xlabel("epochs trained" if tested else "epoch")
    panel.set_ylabel(f"accuracy on {on}, %" if tested else "monitoring accuracy, %")
    theme.legend(figure, list(styles.values()))
    what = "Test accuracy" if tested else "Monitoring, not test, accuracy"
    theme.heading(figure, f"{what} against epochs. {subject(kept)}")
    note = theme.caption(
        "fig1", tested=tested, band=band, seeds=seeds, readers=label_readers(kept),
        missing=[name for name in labels(by_config(runs)).values() if name not in methods],
        reached=reached(data), versions=versions(kept),
    )  # fmt: skip
    return Drawn(figure, data, note)


def reached(data: pd.DataFrame) -> list[dict[str, Any]]:
    """When each H-SCL reaches what each SCL ends with; the paper: within 50 of 200 epochs.

    Args:
        data: rows of :func:`fig1`.

    Returns:
        ``line`` reaches the ``goal`` of ``other`` (percent, at its ``last`` epoch) at ``epoch``;
        None if never.
    """
    found = []
    for own, ours in data[data["method"] == "hscl"].groupby("line", sort=False):
        for other, theirs in data[data["method"] == "scl"].groupby("line", sort=False):
            last, goal = theirs[["epoch", "accuracy_mean"]].iloc[-1]
            epochs = ours.loc[ours["accuracy_mean"] >= goal, "epoch"]
            epoch = None if epochs.empty else int(epochs.iloc[0])
            found.append({"line": own, "other": other, "last": last, "goal": goal, "epoch": epoch})
    return found


def label_readers(runs: Sequence[StoredRun]) -> list[str]:
    """Methods whose encoders have seen the labels of test samples."""
    readers = {run.config.method for run in runs if run.config.reads_labels}
    return [name for name in METHODS if name in readers and runs[0].config.protocol == "paper"]


PARTS = {"ucl": "neither", "dcl": "debiased", "hucl": "hard", "hcl": "hard,\ndebiased"}
"""Methods of the ablation, and what each adds to plain contrast."""
WITHOUT_BETA = ("ucl", "dcl", "scl")
"""Methods drawn as horizontal lines beside those with β."""


def beta_data(runs: Sequence[StoredRun]) -> Accuracies:
    """The numbers of :func:`beta`: rows of panel ``beta`` and of panel ``ablation``.

    Raises:
        InputError: if there are neither two β of a method, nor a debiased method and one that is
            not.
    """
    configs = list(by_config(runs))
    one: dict[str, Any] = {"beta": 1.0}
    lines = {config: replace(config, **one) for config in configs if config.beta is not None}
    if len(set(lines.values())) == len(lines):
        lines = {}
    lines |= {config: config for config in configs if config.method in WITHOUT_BETA and lines}
    dots = _ablation(configs)
    if not lines and not dots:
        raise InputError(
            "accuracy against β needs two β of hucl, hcl or hscl (--beta 0.5,1,2), and the "
            "debiasing ablation dcl or hcl beside ucl or hucl (--method ucl,dcl,hucl,hcl)"
        )
    names, called = _beta_names(lines), labels(dots)
    shown = [run for run in runs if run.config in {*lines, *dots}]
    kept, words = same_seeds(shown, called | names)
    found, rows = by_config(kept), []
    order = [*lines.values()]
    for config in sorted(
        lines, key=lambda c: (c.beta is not None, order.index(lines[c]), c.beta or 0)
    ):
        rows.append(_beta_row("beta", names[config], config, found[config]))
    for config in dots:
        rows.append(_beta_row("ablation", called[config], config, found[config]))
    data = pd.DataFrame(rows).assign(
        dataset=configs[0].dataset, accuracy_on=test_part(configs[0].protocol)
    )
    columns = [
        "dataset", "accuracy_on", "panel", "method", "line", "beta", "beta_changes", "seeds",
        "accuracy_mean", "accuracy_std", "interval_low", "interval_high",
    ]  # fmt: skip
    data = data[columns].astype({"beta": float})
    methods = dict(zip(data["line"], data["method"], strict=True))
    return Accuracies(data, methods, kept, words)


def _beta_names(lines: Mapping[RunConfig, RunConfig]) -> dict[RunConfig, str]:
    """Names without β, which is on the axis, and with the annealing in words."""
    constant: dict[str, Any] = {"beta_changes": 0}
    plain = {
        config: replace(line, **constant) if config.beta is not None else line
        for config, line in lines.items()
    }
    called = labels(dict.fromkeys(plain.values()))
    return {
        config: called[line].replace(" β=1", "", 1)
        + (f" annealed in {config.beta_changes} steps" if config.beta_changes else "")
        for config, line in plain.items()
    }


def _ablation(configs: Iterable[RunConfig]) -> list[RunConfig]:
    """Methods at one β > 0, 1 if all have it, else the least; none without both kinds."""
    configs = [c for c in configs if c.method in PARTS and not c.beta_changes and c.beta != 0]
    each = [{c.beta for c in configs if c.method == name} for name in ("hucl", "hcl")]
    shared = set.intersection(*filter(None, each)) if any(each) else set()
    one = 1.0 if 1.0 in shared else min((beta for beta in shared if beta), default=None)
    kept = [config for config in configs if config.beta in (None, one)]
    kept.sort(key=lambda config: [*PARTS].index(config.method))
    return kept if len({method(config.method).debias for config in kept}) == 2 else []


def _beta_row(
    panel: str, line: str, config: RunConfig, runs: Sequence[StoredRun]
) -> dict[str, object]:
    scores = Scores(
        tuple(run.seed for run in runs), tuple(run.accuracies for run in runs),
        train_share=config.share_of_fold,
    )  # fmt: skip
    interval = scores.interval if panel == "ablation" else None
    return _row(
        line, _means(runs), panel=panel, method=config.method, beta=config.beta,
        beta_changes=config.beta_changes, interval_low=interval.low if interval else math.nan,
        interval_high=interval.high if interval else math.nan,
    )  # fmt: skip


@themed
def beta(runs: Sequence[StoredRun]) -> Drawn:
    """Accuracy against β, and the debiasing ablation; one of them where the other is not there.

    All is over the same seeds, where there are such.

    Args:
        runs: of one data set and protocol.

    Returns:
        The figure and a row for each point.

    Raises:
        InputError: if there are neither two β of a method, nor a debiased method and one that is
            not.

    Source: Robinson et al. (2021), Fig. 2 and appendix C.
    """
    data, _, kept, seeds = beta_data(runs)
    curves, dots = (data[data["panel"] == name] for name in ("beta", "ablation"))
    there = [(own, width) for own, width in ((curves, 5), (dots, 3)) if len(own)]
    slanted = len(dots) > len(PARTS)
    figure, panels = theme.panels(
        len(there), height=3.6 + 0.9 * slanted, width_ratios=[width for _, width in there]
    )
    on = data["accuracy_on"].iloc[0]
    panels[0].set_ylabel(f"accuracy on {on}, %")
    shown = []
    if len(curves):
        lines = curves.sort_values("beta", key=pd.Series.isna, kind="stable")
        styles = theme.line_styles(dict(zip(lines["line"], lines["method"], strict=True)))
        _draw_curves(panels[0], curves, styles)
        theme.legend(figure, list(styles.values()))
        shown.append("accuracy against β")
    if len(dots):
        _draw_ablation(panels[-1], dots, slanted=slanted)
        shown.append("debiasing ablation")
    for panel in panels:  # an interval may go beyond what an accuracy can be
        panel.set_ylim(top=min(100.5, panel.get_ylim()[1]))
    heading = " and ".join(shown)
    theme.heading(figure, f"{heading[0].upper()}{heading[1:]}. {subject(kept)}")
    note = theme.caption(
        "beta", curves=len(curves), dots=len(dots), annealed=curves["beta_changes"].any(),
        folds=not of_images(kept[0].config.protocol), seeds=seeds, readers=label_readers(kept),
        versions=versions(kept),
    )  # fmt: skip
    return Drawn(figure, data, note)


def _draw_curves(panel: Axes, curves: pd.DataFrame, styles: dict[str, dict[str, Any]]) -> None:
    ticks = sorted(curves["beta"].dropna().unique())
    lines = curves[curves["beta"].notna()].groupby("line", sort=False)
    dodge = min(0.09, 0.6 / len(lines))
    rules = curves[curves["beta"].isna()]
    for index, row in enumerate(rules.itertuples()):
        style = styles[row.line]
        style |= {"marker": "", "linestyle": theme.DASHES[1:][index % 4]}
        panel.axhline(row.accuracy_mean, **style)
        _bar(panel, len(ticks) - 0.55 + 0.09 * index, rules.iloc[[index]], style)
    for index, (line, own) in enumerate(lines):
        x = [ticks.index(b) + dodge * (index - (len(lines) - 1) / 2) for b in own["beta"]]
        panel.plot(x, own["accuracy_mean"], **styles[str(line)])
        _bar(panel, x, own, styles[str(line)])
    panel.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
    panel.set_xlim(-0.5, len(ticks) - 0.55 + 0.09 * len(rules))
    panel.set_xlabel("β")


def _bar(panel: Axes, x: Any, own: pd.DataFrame, style: Mapping[str, Any]) -> None:
    low, high = (own["accuracy_mean"] + sign * own["accuracy_std"] for sign in (-1, 1))
    if own["accuracy_std"].notna().any():
        panel.vlines(x, low, high, color=style["color"], linewidth=1.2)


def _draw_ablation(panel: Axes, dots: pd.DataFrame, *, slanted: bool) -> None:
    for x, row in enumerate(dots.itertuples()):
        hue = theme.colour(row.method)
        panel.plot([x], [row.accuracy_mean], "o", markersize=7, color=hue)
        if not math.isnan(row.interval_low):
            panel.vlines(x, row.interval_low, row.interval_high, color=hue, linewidth=1.8)
    names = [f"{PARTS[row.method]}\n({row.line})" for row in dots.itertuples()]
    if slanted:
        names = [name.replace("\n", " ") for name in names]
        panel.set_xticks(range(len(dots)), names, rotation=30, ha="right", rotation_mode="anchor")
    else:
        panel.set_xticks(range(len(dots)), names)
    panel.set_xlim(-0.5, len(dots) - 0.5)
    panel.set_title("added to plain contrast")


# Against the epoch

PANELS = {
    "l=-0.25": (r"$l = -0.25$", r"  ($\tau = e^{-0.5}$)"),
    "l=-0.05": (r"$l = -0.05$", r"  ($\tau = e^{-0.1}$)"),
    "beta=1": ("β = 1", ""), "beta=2": ("β = 2", ""),
}  # fmt: skip
"""Hardenings of the paper's Fig. 4 and 5: titles, and what they add at γ = 0.5."""
CLAIMED = 0.95
"""The paper's "over 95 % of all anchors across all epochs" (section V-B, CIFAR100)."""


class Diagnostics(NamedTuple):
    """Snapshots of runs, for figures against the epoch.

    Attributes:
        frame: of :func:`gcl_hard.reports.runs.snapshots`.
        runs: those in it.
        methods: the method of each line, by label.
        facts: of the caption: whether encoders are of the first of several folds, whether there
            are several seeds, epochs that not all seeds have, or gaps; and the lines left out for
            having fewer than two snapshots.
    """

    frame: pd.DataFrame
    runs: list[StoredRun]
    methods: dict[str, str]
    facts: dict[str, Any]


def diagnostics(runs: Sequence[StoredRun]) -> Diagnostics:
    """The snapshots of runs whose configurations make lines; of all, if none does.

    Raises:
        InputError: if a run has no snapshots, or no epoch is common to the seeds of a
            configuration.
    """
    with_snapshots(runs)
    frame = snapshots(runs)
    epochs = frame[frame["shared"]].groupby("line")["epoch"].nunique()
    if epochs.empty:
        raise InputError(
            "seeds have no epoch in common: run them with the same --diagnostics, or choose one, "
            f"as --only seed={runs[0].seed}"
        )
    called = labels(by_config(runs))
    short = [n for n in called.values() if epochs.get(n, 0) < 2] if epochs.max() > 1 else []
    kept = [run for run in runs if called[run.config] not in short]
    frame = frame[~frame["line"].isin(short)]
    facts = {
        "first_fold": kept[0].config.encoders > 1, "gaps": not frame["finite"].all(),
        "several": max(map(len, by_config(kept).values())) > 1, "short": short,
        "unshared": not frame["shared"].all(),
    }  # fmt: skip
    methods = {called[run.config]: run.config.method for run in kept}
    return Diagnostics(frame, kept, methods, facts)


def _defined(frame: pd.DataFrame, count: str, what: str) -> None:
    """Check that something is defined at an anchor of a snapshot."""
    if frame[count].any():
        return
    if not frame["finite"].any():
        raise InputError("embeddings were not finite at any snapshot: there is nothing to draw")
    raise InputError(
        f"at no snapshot has an anchor {what}: that takes others of its label and of another, and "
        f"batches are too small or of one class; train with a larger --batch-size, or draw "
        f"geometry"
    )


def _anchors(frame: pd.DataFrame) -> str:
    numbers = frame.loc[frame["anchors"] > 0, "anchors"]
    return f"{theme.between(numbers) if len(numbers) else 0} anchors"


def _titles(runs: Sequence[StoredRun]) -> dict[str, str]:
    return {n: title + tau * usual_temperature(runs) for n, (title, tau) in PANELS.items()}


def _epoch_axis(panel: Axes) -> None:
    panel.xaxis.set_major_locator(
        MaxNLocator(nbins=5, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1)
    )


def _epoch_panels(n: int, across: int, height: float, sharey: Any) -> tuple[Any, list[Axes]]:
    figure, panels = theme.panels(
        n, across=across, height=height, top=0.7, sharex=True, sharey=sharey
    )
    for panel in panels[-across:]:
        panel.set_xlabel("epoch")
        _epoch_axis(panel)
    return figure, panels


def _plot(panel: Axes, own: pd.DataFrame, style: dict[str, Any], place: float) -> None:
    """A line of means and a band; ``place`` in [0, 1) moves the markers of lines that coincide."""
    epochs = own.index.get_level_values("epoch")
    every = len(own) // 6 if len(own) > 12 else 1
    panel.plot(epochs, own["mean"], markevery=(int(place * every), every), **style)
    panel.fill_between(epochs, own["min"], own["max"], color=style["color"], alpha=0.15, lw=0)


def _cut(lines: Sequence[pd.DataFrame]) -> float:
    """Where an axis ends if a few peaks are far above all else; infinite if none is."""
    means = pd.concat(lines)["mean"].dropna().sort_values()
    if means.empty:
        return math.inf
    first = [own["mean"].dropna().iloc[0] for own in lines if own["mean"].notna().any()]
    usual = max(1.0, means.iloc[int(0.95 * (len(means) - 1))], *first)
    return 2 * usual if means.iloc[-1] > 10 * usual else math.inf


def _limits(lines: Sequence[pd.DataFrame], top: float) -> tuple[float, float]:
    """Both ends of an axis that holds all up to ``top``, with a margin."""
    values = pd.concat(lines).stack()
    low, high = values[values <= top].min(), values[values <= top].max()
    margin = 0.05 * (high - low or 1.0)
    return low - margin, high + margin


def assumption_data(frame: pd.DataFrame, runs: Sequence[StoredRun]) -> pd.DataFrame:
    """The numbers of :func:`fig4`: the share of anchors that satisfy Assumption 1.

    Args:
        frame: of :func:`gcl_hard.reports.runs.snapshots`.
        runs: those in it.

    Returns:
        A row for each seed, epoch and panel; of the training's own hardening, if all runs have it.
    """
    own = all(any(OWN in one["settings"] for one in run.snapshots) for run in runs)
    shown = frame[(frame["panel"] != OWN) | own]
    panel = shown["panel"].where(shown["setting"] == "", f"{OWN} (" + shown["setting"] + ")")
    shown = shown.assign(fraction=shown["assumption_1"], panel=panel)
    return shown[["dataset", "method", "trained_with", "seed", "epoch", "panel", "fraction",
                  *COUNTS[:4], "anchors", "lemma_1"]].reset_index(drop=True)  # fmt: skip


@themed
def fig4(runs: Sequence[StoredRun]) -> Drawn:
    """The share of anchors that satisfy Assumption 1 against epoch, a panel a hardening.

    A line is a training method: mean over seeds, with a band from the lowest to the highest seed.
    Shares are of the anchors at which the assumption says something; a snapshot without any is a
    gap.

    Args:
        runs: of one data set, protocol, contrast and objective.

    Returns:
        The figure; its rows hold every seed, epoch and panel.

    Raises:
        InputError: if a run has no snapshots, or none of them defines the share at any anchor.

    Source: H-SCL paper, section V-B and Fig. 4.
    """
    frame, runs, methods, facts = diagnostics(runs)
    _defined(frame, "defined", "at which Assumption 1 says something")
    data, titles = assumption_data(frame, runs), _titles(runs)
    if data["panel"].str.startswith(OWN).any():
        own = sorted({*frame["setting"]} - {""})
        words = f": {own[0]}".replace("=", " = ").replace("beta", "β") if len(own) == 1 else ""
        titles[OWN] = f"as trained{words}"
    frame = frame[frame["panel"].isin(titles)]
    figure, panels = _epoch_panels(len(titles), len(titles), 2.4, "all")
    styles, low = theme.line_styles(methods), 1.0
    rule = {"color": theme.INK, "linestyle": (0, (2, 2)), "linewidth": 1,
            "label": f"the paper, CIFAR100: above {CLAIMED}"}  # fmt: skip
    for panel, (name, title) in zip(panels, titles.items(), strict=True):
        panel.set_title(title)
        panel.axhline(CLAIMED, **rule)
        lines = over_seeds(frame[frame["panel"] == name], "assumption_1").groupby(
            "line", sort=False
        )
        for index, (line, one) in enumerate(lines):
            _plot(panel, one, styles[str(line)], index / len(lines))
            low = min(low, one["min"].min()) if one["min"].notna().any() else low
    bottom = next(edge for edge in (0.8, 0.5, 0.0) if edge < low or edge == 0)
    panels[0].set_ylim(bottom, 1 + 0.02 * (1 - bottom))
    panels[0].set_ylabel("share of anchors")
    theme.legend(figure, [*styles.values(), rule], "trained with")
    theme.heading(figure, f"Assumption 1 while training. {subject(runs)}, {_anchors(frame)}")
    note = theme.caption(
        "fig4", facts=facts, last=frame[frame["last"]], shares=data["fraction"].dropna(),
        claimed=CLAIMED, bottom=bottom, versions=versions(runs),
    )  # fmt: skip
    return Drawn(figure, data, note)


def losses_data(frame: pd.DataFrame) -> pd.DataFrame:
    """The numbers of :func:`fig5`: four losses of every seed, epoch and hardening.

    Args:
        frame: of :func:`gcl_hard.reports.runs.snapshots`.

    Returns:
        The rows; ``hscl_at_most_hucl`` says whether Lemma 1 holds of the means, None if there
        are none.
    """
    frame = frame[frame["panel"].isin(SETTINGS)]
    holds = (frame["hscl"] <= frame["hucl"]).astype(object)
    holds[frame[["hscl", "hucl"]].isna().any(axis=1)] = None
    columns = ["dataset", "method", "trained_with", "seed", "epoch", "panel", *LOSSES, "common",
               "anchors", "hscl_at_most_hucl"]  # fmt: skip
    return frame.assign(hscl_at_most_hucl=holds)[columns].reset_index(drop=True)


@themed
def fig5(runs: Sequence[StoredRun], *, every: bool = False) -> Drawn:
    """UCL, H-UCL, SCL and H-SCL on one encoder against epoch: a column a hardening.

    A row is the method that the encoder was trained with; lines are means over seeds, with bands
    from the lowest to the highest.

    Args:
        runs: of one data set, protocol, contrast and objective.
        every: whether all methods have a row, and not hscl and hucl alone where they are there.

    Returns:
        The figure; its rows hold every seed, epoch and hardening.

    Raises:
        InputError: if a run has no snapshots, or no anchor of any of them has all four losses.

    Source: H-SCL paper, section V-B and Fig. 5.
    """
    usual = [run for name in ("hscl", "hucl") for run in runs if run.config.method == name]
    frame, runs, methods, facts = diagnostics(usual if usual and not every else runs)
    _defined(frame, "common", "with all four losses")
    data, titles, cut = losses_data(frame), _titles(runs), list[str]()
    figure, panels = _epoch_panels(4 * len(methods), 4, 2.0, "row")
    styles = {
        name: {"color": theme.colour(name), "label": label, "linestyle": dashes, "marker": marker}
        for (name, label), dashes, marker in zip(
            (("ucl", "UCL"), ("hucl", "H-UCL"), ("scl", "SCL"), ("hscl", "H-SCL")),
            (":", "--", "-.", "-"), theme.MARKERS, strict=False,
        )
    }  # fmt: skip
    for row, line in enumerate(methods):
        own, drawn = frame[frame["line"] == line], []
        for panel, (name, title) in zip(panels[4 * row :], titles.items(), strict=False):
            panel.set_title("" if row else title)
            for index, loss in enumerate(LOSSES):
                drawn.append(over_seeds(own[own["panel"] == name], loss))
                _plot(panel, drawn[-1], styles[loss], index / len(LOSSES))
        first, top = panels[4 * row], _cut(drawn)
        means = [one["mean"].dropna().clip(upper=top) for one in drawn if one["mean"].notna().any()]
        # a linear axis would hide where lines end that begin at many times as much
        last = min(float(one.iloc[-1]) for one in means)
        wide = float(max(map(max, means))) > 10 * max(1.0, last)
        if wide:
            first.set_yscale("symlog", linthresh=1.0)
            first.yaxis.set_major_locator(
                SymmetricalLogLocator(base=10, linthresh=1, subs=[1, 2, 5])
            )
            first.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        if math.isfinite(top):
            first.set_ylim((None, top) if wide else _limits(drawn, top))
            cut.append(f"{line}, up to {max(one['mean'].max() for one in drawn):.2g}")
        first.set_ylabel(
            f"trained with\n{textwrap.fill(line, 24)}\nloss, nats{', logarithmic' * wide}"
        )
    theme.legend(figure, list(styles.values()))
    theme.heading(figure, f"Four losses of one encoder. {subject(runs)}, {_anchors(frame)}")
    note = theme.caption(
        "fig5", facts=facts, last=frame[frame["last"] & frame["panel"].isin(SETTINGS)],
        nodes=_nodes(runs), held={line: held(frame[frame["line"] == line]) for line in methods},
        cut=cut, versions=versions(runs),
    )  # fmt: skip
    return Drawn(figure, data, note)


def held(frame: pd.DataFrame) -> dict[str, str]:
    """At how many snapshots Lemma 1's means are in order, by hardening: such as ``117 of 120``."""
    found = losses_data(frame).dropna(subset="hscl_at_most_hucl")
    counts = found.groupby("panel")["hscl_at_most_hucl"].agg(["sum", "count"])
    counts = counts.reindex(SETTINGS, fill_value=0)
    return {str(name): f"{one['sum']} of {one['count']}" for name, one in counts.iterrows()}


def _nodes(runs: Sequence[StoredRun]) -> bool:
    """Whether anchors are nodes."""
    config = runs[0].config
    return isinstance(config, GraphConfig) and config.contrast == "local-global"


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


def geometry_data(frame: pd.DataFrame) -> pd.DataFrame:
    """The numbers of :func:`geometry`: every measure of every seed and epoch.

    Args:
        frame: of :func:`gcl_hard.reports.runs.snapshots`.

    Returns:
        The rows; weights are those of β = 1.
    """
    frame = frame[frame["panel"] == "beta=1"]
    columns = ["dataset", "method", "trained_with", "seed", "epoch", *MEASURES, "others",
               "other_labels", "widest_angle"]  # fmt: skip
    return frame[columns].reset_index(drop=True)


@themed
def geometry(runs: Sequence[StoredRun]) -> Drawn:
    """How embeddings lie: a panel a measure, a line a training method, with a band over seeds.

    Args:
        runs: of one data set, protocol, contrast and objective.

    Returns:
        The figure; its rows hold every seed, epoch and measure.

    Raises:
        InputError: if a run has no snapshots.

    Source: Wang & Isola (2020); Papyan, Han, Donoho (2020); Galanti, György, Hutter (2021);
        Robinson et al. (2021), Theorem 2; Roy & Vetterli (2007).
    """
    frame, runs, methods, facts = diagnostics(runs)
    data, frame, cut = geometry_data(frame), frame[frame["panel"] == "beta=1"], list[str]()
    figure, panels = _epoch_panels(len(MEASURES), 4, 1.7, "none")
    styles, rules = theme.line_styles(methods), list[dict[str, Any]]()
    for panel, (name, title) in zip(panels, MEASURES.items(), strict=True):
        panel.set_title(title)
        lines = over_seeds(frame, name).groupby("line", sort=False)
        for index, (line, own) in enumerate(lines):
            _plot(panel, own, styles[str(line)], index / len(lines))
        drawn = [own for _, own in lines]
        if math.isfinite(top := _cut(drawn)):
            panel.set_ylim(*_limits(drawn, top))
            highest = max(own["mean"].max() for own in drawn)
            cut.append(f"{name.replace('_', ' ')}, up to {highest:.2g}")
    if len(widest := data["widest_angle"].dropna().unique()):
        rules.append({"color": theme.INK, "linestyle": (0, (2, 2)), "linewidth": 1,
                      "label": "widest possible"})  # fmt: skip
        for angle in widest:
            panels[[*MEASURES].index("least_angle")].axhline(angle, **rules[-1])
    negatives = frame.loc[frame["finite"], "other_labels"]
    if len(negatives) and negatives.notna().all():
        rules.append({"color": theme.GREY, "linestyle": (0, (6, 2)), "linewidth": 1,
                      "label": "all negatives"})  # fmt: skip
        panels[-1].axhline(negatives.mean(), **rules[-1])
    for panel in panels:
        _plain_ticks(panel)
    theme.legend(figure, [*styles.values(), *rules], "trained with")
    theme.heading(figure, f"How embeddings lie. {subject(runs)}, {_anchors(frame)}")
    note = theme.caption(
        "geometry", facts=facts, nodes=_nodes(runs), cut=cut, versions=versions(runs),
        scaled={getattr(run.config, "standardise", False) for run in runs},
    )  # fmt: skip
    return Drawn(figure, data, note)


def _plain_ticks(panel: Axes) -> None:
    """Ticks without an offset, on an axis that does not magnify rounding."""
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_powerlimits((-3, 5))
    panel.yaxis.set_major_formatter(formatter)
    low, high = panel.get_ylim()
    lacking = 1e-3 * max(abs(low), abs(high)) - (high - low)
    if lacking > 0:
        panel.set_ylim(low - lacking / 2, high + lacking / 2)


# Histograms

KINDS = {"same": "pairs of one label", "different": "pairs of two labels"}


def histogram_data(runs: Sequence[StoredRun]) -> pd.DataFrame:
    """The numbers of :func:`histograms`: cosines of pairs at the last snapshot.

    Args:
        runs: with snapshots.

    Returns:
        A row for each line, kind of pairs and bin: the count over all seeds, the density of
        cosines (its integral over [−1, 1] is 1), and the overlap coefficient of the two kinds,
        mean and standard deviation over seeds.

    Raises:
        InputError: if a last snapshot has no histograms, or all its pairs are of one kind.
    """
    rows = []
    for config, own in by_config(runs).items():
        each = [_histograms(run) for run in own]
        shares = [overlap(*(torch.from_numpy(one[k]) for k in KINDS)).item() for one in each]
        std = stdev(shares) if len(shares) > 1 else math.nan
        for kind in KINDS:
            counts = np.sum([one[kind] for one in each], axis=0)
            edges = np.linspace(-1, 1, len(counts) + 1)
            rows.append(
                pd.DataFrame(
                    {"dataset": config.dataset, "method": config.method,
                     "line": labels([config])[config], "pairs": kind,
                     "cosine_from": edges[:-1], "cosine_to": edges[1:],
                     "count": counts, "density": counts / counts.sum() * len(counts) / 2,
                     "seeds": len(own), "overlap_mean": fmean(shares), "overlap_std": std}
                ).assign(line=labels(by_config(runs))[config])
            )  # fmt: skip
    return pd.concat(rows, ignore_index=True)


def _histograms(run: StoredRun) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    last = run.snapshots[-1]
    if not last["anchors"]:
        raise InputError(
            f"the embeddings of {run} were not finite at the last snapshot ({run.source}): leave "
            f"it out with --only"
        )
    if last.get("histograms") is None:
        raise InputError(f"the last snapshot of {run} has no histograms ({run.source}): {RERUN}")
    counts = {kind: np.array(last["histograms"][kind], dtype=np.int64) for kind in KINDS}
    for kind, words in KINDS.items():
        if not counts[kind].sum():
            raise InputError(
                f"{run} has no {words}, so that there is nothing to compare ({run.source}): "
                f"diagnose samples of several classes, several of each"
            )
    return counts


@themed
def histograms(runs: Sequence[StoredRun]) -> Drawn:
    """Densities of cosines at the last snapshot, a column a variant.

    Every column lays a variant over the reference: ucl, or else the first of the least β.

    Args:
        runs: of one data set, protocol, contrast and objective.

    Returns:
        The figure, a row for each bin, and of which embeddings it is.

    Raises:
        InputError: if runs have no snapshots, the variants are more than six, or all pairs of a
            run are of one kind.

    Source: Robinson et al. (2021), Fig. 3 and 4, which show the overlap without a number.
    """
    with_snapshots(runs)
    data, called = histogram_data(runs), labels(by_config(runs))
    first = called[min(called, key=lambda config: (config.method != "ucl", config.beta or 0.0))]
    variants = [name for name in called.values() if name != first] or [first]
    if len(variants) > 6:
        raise InputError(
            f"at most 6 variants can be laid over {first}, and these are {len(variants)}: "
            f"{', '.join(variants)}; choose with --only"
        )
    words = {
        line: f"overlap {own['overlap_mean'].iloc[0]:.2f}"
        + (f" ± {own['overlap_std'].iloc[0]:.2f}" if own["seeds"].iloc[0] > 1 else "")
        for line, own in data.groupby("line")
    }
    n = len(variants)
    figure, panels = theme.panels(2 * n, across=n, height=1.9, sharex=True, sharey="row")
    for index, panel in enumerate(panels):
        kind, line = [*KINDS][index // n], variants[index % n]
        panel.set_title("" if index // n else f"{line}\n{words[line]}")
        for shown in dict.fromkeys((first, line)):
            own = data[(data["line"] == shown) & (data["pairs"] == kind)]
            edges = np.linspace(-1, 1, len(own) + 1)
            over = shown == line
            style = {"color": theme.colour(own["method"].iloc[0]), "linewidth": 1.6} if over else {
                "color": theme.GREY, "alpha": 0.4, "fill": True}  # fmt: skip
            panel.stairs(own["density"], edges, label="over" if over else "under", **style)
        if not index % n:
            panel.set_ylim(0, 1.05 * data.loc[data["pairs"] == kind, "density"].max())
            panel.set_ylabel(f"density,\n{KINDS[kind]}")
        panel.locator_params(axis="x", nbins=3)
    held = data[data["count"] > 0]
    panels[0].set_xlim(held["cosine_from"].min() - 0.02, held["cosine_to"].max() + 0.02)
    figure.supxlabel("cosine", fontsize=theme.TEXT)
    if variants != [first]:
        theme.legend(
            figure,
            [{"color": theme.GREY, "alpha": 0.4, "linewidth": 8,
              "label": f"in all columns: {first}, {words[first]}"},
             {"color": theme.INK, "linewidth": 1.6, "label": "line: as the column says"}],
        )  # fmt: skip
    last = theme.between(int(run.snapshots[-1]["epoch"]) for run in runs)
    theme.heading(
        figure, f"Cosines of pairs of one label and of two. {subject(runs)}, epoch {last}"
    )
    return Drawn(figure, data, theme.caption("histograms", versions=versions(runs)))
