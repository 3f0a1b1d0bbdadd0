"""Accuracy against epochs, and against β with the effect of debiasing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from gcl_hard.errors import InputError
from gcl_hard.evaluation.metrics import Metric, metric
from gcl_hard.experiments.choice import metric_of
from gcl_hard.experiments.record import ACCURACY, RunResult
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import RunConfig
from gcl_hard.losses.methods import METHODS, method
from gcl_hard.reports import theme
from gcl_hard.reports.frame import Scores
from gcl_hard.reports.grid import own_hardening
from gcl_hard.reports.rendering import caption
from gcl_hard.reports.runs import by_config, labels, subject, versions
from gcl_hard.reports.snapshot_figures import epoch_axis
from gcl_hard.reports.tables import count, fold_name
from gcl_hard.reports.theme import Drawn, themed

FOLDER = Path(__file__).parent
"""Of captions."""


class ScoreRows(NamedTuple):
    """Scores, and the runs that they come from.

    Attributes:
        data: rows of the figure, with ``mean`` and ``std`` of scores and the data they are ``on``.
        kept: the runs that the numbers are over.
        seeds: description of their seeds.
        metric: name of the metric.
    """

    data: pd.DataFrame
    kept: list[RunResult]
    seeds: str
    metric: str

    @property
    def named(self) -> pd.DataFrame:
        """The rows as they are written, with columns named by the metric."""
        return self.data.rename(columns={n: f"{self.metric}_{n}" for n in ("on", "mean", "std")})


def test_part(item: str, *, one_split: bool, fold: str) -> str:
    """Name of the data that scores are measured on."""
    return f"test {item}s" if one_split else f"test {fold}s"


def _on(measure: Metric, on: str) -> str:
    """The label of an axis of scores on some data."""
    return f"{measure.title} on {on}" + (f", {measure.unit}" if measure.unit else "")


def _folds(kept: Sequence[RunResult]) -> str:
    """What means are over beside seeds: folds, splits or nothing."""
    config = kept[0].run.config
    return f"{fold_name([experiment_of(config)])}s" if config.n_scores > 1 else ""


def _row(line: str, config: RunConfig, scores: Scores, **more: object) -> dict[str, object]:
    """Mean and standard deviation of scores."""
    return {
        "line": line, "method": config.method, **more, "seeds": len(scores.seeds),
        "mean": scores.mean, "std": scores.std,
    }  # fmt: skip


def epochs_data(records: Sequence[RunResult]) -> ScoreRows:
    """The numbers of :func:`fig1`: scores against epochs.

    Raises:
        InputError: if neither several numbers of epochs nor a monitoring curve are there.
    """
    longest: dict[str, Any] = {"epochs": max(record.run.config.epochs for record in records)}
    lines = {config: replace(config, **longest) for config in by_config(records)}
    tested = len(set(lines.values())) < len(lines)
    shown = records if tested else [record for record in records if record.curve]
    lines = lines if tested else {record.run.config: record.run.config for record in shown}
    called = labels(dict.fromkeys(lines.values()))
    names = {config: called[line] for config, line in lines.items()}
    kept, words = same_seeds(shown, names) if shown else ([], "")
    rows = []
    for config, config_records in by_config(kept).items():
        if tested:
            rows.append(
                _row(
                    names[config],
                    config,
                    Scores.of_records(config_records, config),
                    epoch=config.epochs,
                )
            )
            continue
        curves = [{int(epoch): value for epoch, value in record.curve} for record in config_records]
        epochs = sorted(set.intersection(*map(set, curves)))
        for epoch in epochs if len(epochs) > 1 else ():
            scores = Scores(
                tuple(record.seed for record in config_records), tuple((c[epoch],) for c in curves)
            )
            rows.append(_row(names[config], config, scores, epoch=epoch))
    if not rows:
        raise InputError(
            "accuracy against epochs needs several numbers of epochs (--epochs 10,50,200) or, of "
            "images, monitoring curves (--monitor-every 1)"
        )
    config = records[0].run.config
    on = test_part(
        experiment_of(config).item,
        one_split=config.n_scores == 1,
        fold=fold_name([experiment_of(config)]),
    )
    on = on if tested else f"training {experiment_of(config).item}s (monitoring)"
    order = [*names.values()]
    rows.sort(key=lambda row: (order.index(str(row["line"])), row["epoch"]))
    data = pd.DataFrame(rows).assign(dataset=records[0].run.config.dataset, on=on)
    columns = ["dataset", "method", "line", "on", "epoch", "seeds", "mean",
               "std"]  # fmt: skip
    name = metric_of(kept) if tested else ACCURACY
    return ScoreRows(data[columns].astype({"std": float}), kept, words, name)


@themed
def fig1(records: Sequence[RunResult]) -> Drawn:
    """Accuracy against epochs, one line per method.

    Of configurations that differ in their number of epochs, every point is the test accuracy of
    encoders trained that long. Otherwise the monitoring curves of images are drawn, never both.
    Points are means over the same seeds, where there are such.

    Args:
        records: runs of one data set and protocol.

    Returns:
        The figure, and a row for each point.

    Raises:
        InputError: if there is neither.

    Source: H-SCL paper, Fig. 1.
    """
    rows = epochs_data(records)
    data, kept, measure = rows.data, rows.kept, metric(rows.metric)
    methods = dict(zip(data["line"], data["method"], strict=True))
    on = data["on"].iloc[0]
    tested = "monitoring" not in on
    band = not tested and len(methods) <= 4  # more of them would hide each other
    figure, (panel,) = theme.panels(1, height=3.4, top=0.6)
    styles = theme.line_styles(methods)
    for line, points in data.groupby("line", sort=False):
        style, epochs, mean = styles[str(line)], points["epoch"], points["mean"]
        low, high = (mean + sign * points["std"].fillna(0) for sign in (-1, 1))
        panel.plot(epochs, mean, markevery=1 if tested else max(1, len(points) // 10), **style)
        if tested:
            panel.vlines(epochs, low, high, color=style["color"], linewidth=1.2, alpha=0.7)
        elif band:
            panel.fill_between(epochs, low, high, color=style["color"], alpha=0.15, linewidth=0)
    epoch_axis(panel)
    if len(ticks := sorted(data["epoch"].unique())) <= 8:
        panel.set_xticks(ticks)
    panel.set_xlabel("epochs trained" if tested else "epoch")
    panel.set_ylabel(_on(measure, on) if tested else f"monitoring {measure.label}")
    theme.legend(figure, list(styles.values()))
    title = f"{'Test' if tested else 'Monitoring, not test,'} {measure.title}"
    theme.heading(figure, f"{title} against epochs. {subject(kept)}")
    note = caption(
        "fig1", folder=FOLDER, tested=tested, band=band, folds=_folds(kept), seeds=rows.seeds,
        readers=label_readers(kept), versions=versions(kept),
        missing=[name for name in labels(by_config(records)).values() if name not in methods],
    )  # fmt: skip
    return Drawn(figure, rows.named, note)


def label_readers(records: Sequence[RunResult]) -> list[str]:
    """Methods trained on labels of test samples."""
    readers = {
        record.run.config.method
        for record in records
        if experiment_of(record.run.config).sees_test_labels(record.run.config)
    }
    return [name for name in METHODS if name in readers]


PARTS = {"ucl": "neither", "dcl": "debiased", "hucl": "hard", "hcl": "hard,\ndebiased"}
"""Methods of the ablation, and what each adds to plain contrast."""
WITHOUT_BETA = ("ucl", "dcl", "scl")
"""Methods drawn as horizontal lines, next to those with β."""


def beta_data(records: Sequence[RunResult]) -> ScoreRows:
    """The numbers of :func:`beta`: rows of panels ``beta``, ``collisions`` and ``ablation``.

    Raises:
        InputError: if there are neither two β of a method, nor a debiased method and one that is
            not.
    """
    configs = list(by_config(records))
    beta_one: dict[str, Any] = {"beta": 1.0}
    lines = {config: replace(config, **beta_one) for config in configs if config.beta is not None}
    if len(set(lines.values())) == len(lines):
        lines = {}
    lines |= {config: config for config in configs if config.method in WITHOUT_BETA and lines}
    dots = _ablation(configs)
    if not lines and not dots:
        raise InputError(
            "accuracy against β needs two β of a method (--beta 0.5,1,2), and the ablation dcl or "
            "hcl alongside ucl or hucl (--method ucl,dcl,hucl,hcl)"
        )
    names, called = _beta_names(lines), labels(dots)
    shown = [record for record in records if record.run.config in {*lines, *dots}]
    kept, words = same_seeds(shown, called | names)
    grouped, order = by_config(kept), [*lines.values()]
    ranked = sorted(lines, key=lambda c: (c.beta is not None, order.index(lines[c]), c.beta or 0))
    rows = [_beta_row("beta", names[config], grouped[config]) for config in ranked]
    weights = [
        _collision_row(names[config], grouped[config])
        for config in ranked
        if not config.reads_labels and all(map(_has_weight, grouped[config]))
    ]
    rows += weights if sum(row["beta"] is not None for row in weights) > 1 else []
    rows += [_beta_row("ablation", called[config], grouped[config]) for config in dots]
    data = pd.DataFrame(rows).assign(
        dataset=configs[0].dataset,
        on=test_part(
            experiment_of(configs[0]).item,
            one_split=configs[0].n_scores == 1,
            fold=fold_name(map(experiment_of, configs)),
        ),
    )
    columns = [
        "dataset", "on", "panel", "method", "line", "beta", "beta_changes", "seeds",
        "mean", "std", "interval_low", "interval_high",
    ]  # fmt: skip
    numbers = ["beta", *columns[-4:]]
    if "weight_mean" in data:
        columns, numbers = [*columns, *WEIGHTS], [*numbers, *WEIGHTS]
    data = data[columns].astype(dict.fromkeys(numbers, float))
    return ScoreRows(data, kept, words, metric_of(kept))


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
    """Methods at one common β > 0 for the debiasing panel, or none."""
    configs = [c for c in configs if c.method in PARTS and not c.beta_changes and c.beta != 0]
    each = [{c.beta for c in configs if c.method == name} for name in ("hucl", "hcl")]
    shared = set.intersection(*filter(None, each)) if any(each) else set()
    common = 1.0 if 1.0 in shared else min((beta for beta in shared if beta), default=None)
    kept = [config for config in configs if config.beta in (None, common)]
    kept.sort(key=lambda config: [*PARTS].index(config.method))
    return kept if len({method(config.method).debias for config in kept}) == 2 else []


def _beta_row(panel: str, line: str, records: Sequence[RunResult]) -> dict[str, object]:
    config = records[0].run.config
    scores = Scores.of_records(records, config)
    interval = scores.interval if panel == "ablation" else None
    return _row(
        line, config, scores, panel=panel, beta=config.beta, beta_changes=config.beta_changes,
        interval_low=interval and interval.low, interval_high=interval and interval.high,
    )  # fmt: skip


WEIGHTS = ["weight_mean", "weight_std"]
"""Columns of the weight of q on the anchor's own class."""


def _collision_row(line: str, records: Sequence[RunResult]) -> dict[str, object]:
    """The weight of q on the anchor's own class in the last snapshot, percent."""
    config = records[0].run.config
    values = [100 * _own_class_weight(record) for record in records]
    return {
        "line": line, "method": config.method, "panel": "collisions", "beta": config.beta,
        "beta_changes": config.beta_changes, "seeds": len(values), "weight_mean": fmean(values),
        "weight_std": stdev(values) if len(values) > 1 else None,
    }  # fmt: skip


def _has_weight(record: RunResult) -> bool:
    """Whether the last snapshot has the hardening that the encoder was trained with."""
    config = record.run.config
    return bool(record.diagnostics) and (
        config.beta is None or "same_label_weight" in own_hardening(record, config)
    )


def _own_class_weight(record: RunResult) -> float:
    config, settings = record.run.config, record.diagnostics[-1]["settings"]
    if config.beta is None:  # without hardening the share of the others
        counted = next(iter(settings.values()))
        return 1 - float(counted["other_labels"]) / float(counted["others"])
    return float(own_hardening(record, config)["same_label_weight"])


@themed
def beta(records: Sequence[RunResult]) -> Drawn:
    """Accuracy against β, and the debiasing ablation; one of them if the other is missing.

    Beside accuracies, where runs have snapshots, the weight of q on the anchor's own class in the
    last one, of methods that read no labels. All points are over the same seeds, if there are such.

    Args:
        records: runs of one data set and protocol.

    Returns:
        The figure and a row for each point.

    Raises:
        InputError: if there are neither two β of a method, nor a debiased method and one that is
            not.

    Source: Robinson et al. (2021), Fig. 2 and appendix C.
    """
    rows = beta_data(records)
    data, kept, measure = rows.data, rows.kept, metric(rows.metric)
    parts = ("beta", "collisions", "ablation")
    curves, weights, dots = (data[data["panel"] == name] for name in parts)
    widths = [width for rows, width in ((curves, 5), (weights, 4), (dots, 3)) if len(rows)]
    slanted = len(dots) > len(PARTS)
    figure, panels = theme.panels(len(widths), height=3.6 + 0.9 * slanted, width_ratios=widths)
    on = data["on"].iloc[0]
    panels[0].set_ylabel(_on(measure, on))
    shown = []
    if len(curves):
        lines = curves.sort_values("beta", key=pd.Series.isna, kind="stable")
        styles = theme.line_styles(dict(zip(lines["line"], lines["method"], strict=True)))
        _draw_curves(panels[0], curves, styles)
        theme.legend(figure, list(styles.values()))
        shown.append(f"{measure.title} against β")
    if len(weights):
        mean, std = (weights[name] for name in WEIGHTS)
        _draw_curves(panels[1], weights.assign(mean=mean, std=std), styles)
        panels[1].set_ylabel("weight of q on the anchor's class, %")
        panels[1].set_ylim(0, 1.05 * panels[1].get_ylim()[1])
    if len(dots):
        _draw_ablation(panels[-1], dots, slanted=slanted)
        shown.append("debiasing ablation")
    scored = [panel for panel in panels if not len(weights) or panel is not panels[1]]
    for panel in scored if measure.share else ():  # an interval may go beyond what a share can be
        panel.set_ylim(top=min(100.5, panel.get_ylim()[1]))
    heading = " and ".join(shown)
    theme.heading(figure, f"{heading[0].upper()}{heading[1:]}. {subject(kept)}")
    note = caption(
        "beta", folder=FOLDER, curves=len(curves), weights=len(weights), dots=len(dots),
        annealed=curves["beta_changes"].any(), folds=_folds(kept), seeds=rows.seeds,
        readers=label_readers(kept), versions=versions(kept),
    )  # fmt: skip
    return Drawn(figure, rows.named, note)


def _draw_curves(panel: Axes, curves: pd.DataFrame, styles: dict[str, dict[str, Any]]) -> None:
    ticks = sorted(curves["beta"].dropna().unique())
    lines = curves[curves["beta"].notna()].groupby("line", sort=False)
    dodge = min(0.09, 0.6 / len(lines))
    rules = curves[curves["beta"].isna()]
    for index, row in enumerate(theme.rows(rules)):
        style = styles[row.line]
        style |= {"marker": "", "linestyle": theme.DASHES[1:][index % 4]}
        panel.axhline(row.mean, **style)
        _bar(panel, len(ticks) - 0.55 + 0.09 * index, rules.iloc[[index]], style)
    for index, (line, points) in enumerate(lines):
        x = [ticks.index(b) + dodge * (index - (len(lines) - 1) / 2) for b in points["beta"]]
        panel.plot(x, points["mean"], **styles[str(line)])
        _bar(panel, x, points, styles[str(line)])
    panel.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
    panel.set_xlim(-0.5, len(ticks) - 0.55 + 0.09 * len(rules))
    panel.set_xlabel("β")


def _bar(panel: Axes, x: Any, points: pd.DataFrame, style: Mapping[str, Any]) -> None:
    low, high = (points["mean"] + sign * points["std"] for sign in (-1, 1))
    if points["std"].notna().any():
        panel.vlines(x, low, high, color=style["color"], linewidth=1.2)


def _draw_ablation(panel: Axes, dots: pd.DataFrame, *, slanted: bool) -> None:
    for x, row in enumerate(theme.rows(dots)):
        hue = theme.colour(row.method)
        panel.plot([x], [row.mean], "o", markersize=7, color=hue)
        if not math.isnan(row.interval_low):
            panel.vlines(x, row.interval_low, row.interval_high, color=hue, linewidth=1.8)
    names = [f"{PARTS[row.method]}\n({row.line})" for row in theme.rows(dots)]
    if slanted:
        names = [name.replace("\n", " ") for name in names]
        panel.set_xticks(range(len(dots)), names, rotation=30, ha="right", rotation_mode="anchor")
    else:
        panel.set_xticks(range(len(dots)), names)
    panel.set_xlim(-0.5, len(dots) - 0.5)
    panel.set_title("added to plain contrast")


def same_seeds(
    records: Sequence[RunResult], lines: Mapping[RunConfig, str]
) -> tuple[list[RunResult], str]:
    """Runs whose accuracies can be compared: with seeds common to all points, else to each line.

    Args:
        records: runs of the configurations in ``lines``; each configuration is a point.
        lines: name of each configuration's line.

    Returns:
        The runs, and which seeds they have, in words. A line whose points share no seed keeps
        all of its own.
    """
    seeds = {
        config: {record.seed for record in group} for config, group in by_config(records).items()
    }
    names = list(dict.fromkeys(lines.values()))
    common = {n: set.intersection(*(seeds[c] for c in seeds if lines[c] == n)) for n in names}
    every, n_all = set.intersection(*common.values()), len(set.union(*seeds.values()))
    if every:
        left = f", all that they share of {n_all}" if len(every) < n_all else ""
        words = f"{count(len(every), 'seed')}{left}"
        return [record for record in records if record.seed in every], words
    kept = [
        record
        for record in records
        if record.seed in (common[lines[record.run.config]] or {record.seed})
    ]
    return kept, "seeds that differ between lines"
