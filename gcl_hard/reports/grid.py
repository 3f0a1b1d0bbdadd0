"""What hardness adds at equal other settings, and how hard the negatives are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from gcl_hard.evaluation.metrics import metric
from gcl_hard.evaluation.significance import Interval
from gcl_hard.experiments.choice import metric_of
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import HEAD, RunConfig
from gcl_hard.losses.methods import method
from gcl_hard.reports.frame import Results, compare, set_name
from gcl_hard.reports.result_figures import DIFFERENCES, difference_figure
from gcl_hard.reports.rows import apart, differing, in_symbols, symbols_that_differ
from gcl_hard.reports.tables import NOTHING, interval, text_frame
from gcl_hard.theory.snapshots import OWN, name_of

PAIRS = {"ucl": "hucl", "scl": "hscl"}
"""Methods and what hardens them; the first is the second at β = 0."""


def effective(record: RunResult, config: RunConfig) -> float | None:
    """Effective negatives of a run's last snapshot, in percent of all; None without one."""
    if not record.diagnostics:
        return None
    if experiment_of(config).reads_some_labels(config):  # a snapshot compares all classes
        return None
    if method(config.method).hardening is None or config.beta == 0:
        return 100.0
    kind, total = ("hscl", "other_labels") if config.reads_labels else ("hucl", "others")
    values = own_hardening(record, config)
    count, among = values.get(f"effective_{kind}"), values.get(total)
    return 100 * count / among if count and among else None


def own_hardening(record: RunResult, config: RunConfig) -> dict[str, Any]:
    """What the last snapshot says of the training's own hardening; empty if nothing."""
    settings: dict[str, dict[str, Any]] = record.diagnostics[-1]["settings"]
    loss = config.loss()
    loss.set_epoch(config.epochs, config.epochs)  # β may be annealed, a threshold rises
    return settings.get(name_of(loss.sampler.current)) or settings.get(OWN, {})


def negatives_table(results: Results, protocol: str, datasets: Sequence[str]) -> pd.DataFrame:
    """How hard the negatives of trained encoders are, after the last epoch, mean over seeds.

    Args:
        results: results of a command.
        protocol: protocol of the encoders.
        datasets: the data sets shown.

    Returns:
        As text, one line for each data set and setting with ``--diagnostics``: the effective
        number of negatives in percent of their number, the anchors at which Assumption 1 holds in
        percent of those at which it says something, and how far the similarities of an anchor to
        its class and to other classes overlap, in percent (100: no classes to be seen). Hardened
        methods alone have the first two. Empty without diagnostics.
    """
    lines = []
    by_config = {
        config: records
        for config in results.shown
        if config.protocol == protocol
        and set_name(config) in datasets
        and (records := [record for record in results.of(config) if record.diagnostics])
    }
    usual = ("temperature", "beta", "threshold_start", "threshold_end")
    named = dict.fromkeys([*usual, *_varied([*by_config])])
    for config, records in by_config.items():
        hardened = method(config.method).hardening is not None
        hardenings = [own_hardening(record, config) for record in records] if hardened else []
        measured = {
            "effective negatives": _mean(effective(r, config) for r in records if hardened),
            "Assumption 1 holds": _mean(
                _percent(hardening.get("assumption_1")) for hardening in hardenings
            ),
            "overlap of classes": _mean(
                _percent(r.diagnostics[-1]["geometry"].get("overlap")) for r in records
            ),
        }
        lines.append(
            {"data set": set_name(config), "method": config.method,
             "setting": in_symbols(config, named)} | measured
        )  # fmt: skip
    return pd.DataFrame(lines)


def _varied(configs: Sequence[RunConfig]) -> list[str]:
    """Settings that differ among configurations and have no column of their own."""
    return [name for name in differing(configs) if name not in (*HEAD, "classes")]


def _mean(values: Iterable[float | None]) -> str:
    """The mean of what is defined, as text."""
    defined = [value for value in values if value is not None]
    return f"{mean(defined):.1f} %" if defined else NOTHING


def _percent(share: float | None) -> float | None:
    return None if share is None or math.isnan(share) else 100 * share


def gains(results: Results) -> pd.DataFrame:
    """What hardness adds: hucl less ucl and hscl less scl, all other settings equal.

    Args:
        results: results of a command.

    Returns:
        ``dataset``, ``metric``, ``gain`` (``hucl − ucl`` or ``hscl − scl``), ``setting``, what
        tells the line from others (empty if nothing does), ``mean``, ``low`` and ``high``: the
        paired difference with its 95 % interval. Without two seeds there is no line, nor where
        lines differ in β alone, which :func:`~gcl_hard.reports.result_figures.beta_figure` shows.
    """
    hardened, asked = {method: plain for plain, method in PAIRS.items()}, {*results.configs}
    compared = [
        (config, hardened[config.method], ours.metric, difference)
        for config in results.configs
        if config.method in hardened
        and not experiment_of(config).row_fields(
            config
        )  # of molecules, scl is a control with equal settings
        and (plain := replace(config, method=hardened[config.method])) in asked
        and (ours := results.scores(config)) is not None
        and (difference := compare(ours, results.scores(plain))) is not None
    ]
    varied = _varied([config for config, *_ in compared])
    lines = [
        (set_name(config), name, f"{config.method} − {plain}", in_symbols(config, varied),
         difference.mean, difference.low, difference.high)
        for config, plain, name, difference in compared
    ]  # fmt: skip
    columns = ["dataset", "metric", "gain", "setting", "mean", "low", "high"]
    return pd.DataFrame(lines if {*varied} - {"beta"} else [], columns=columns)


def gain_table(data: pd.DataFrame) -> pd.DataFrame:
    """Gains of hardness as text.

    Args:
        data: from :func:`gains`.

    Returns:
        ``data set``, ``difference``, ``setting``, and a column for each metric, such as
        ``points`` of accuracy: the mean with its interval.
    """
    names = [*data["metric"].unique()]
    lines = (
        (row.dataset, row.gain, row.setting,
         *(interval(Interval(row.mean, row.low, row.high), name) if name == row.metric else NOTHING
           for name in names))
        for row in data.itertuples()
    )  # fmt: skip
    units = [metric(name).points for name in names]
    if len(names) > 1:
        units = [f"{metric(name).title}, {metric(name).points}" for name in names]
    return text_frame(["data set", "difference", "setting", *units], lines)


def gain_figure(data: pd.DataFrame) -> Figure | None:
    """Gains of hardness with their intervals: one panel per data set and pair, settings down.

    Args:
        data: from :func:`gains`.

    Returns:
        The figure; None with fewer than two settings.
    """
    if data["setting"].nunique() < 2:
        return None
    lines = data.assign(
        panel=data["dataset"] + "\n" + data["gain"], label=data["setting"],
        method=data["gain"].str.partition(" ")[0],
    )  # fmt: skip
    measures = [metric(name) for name in data["metric"].unique()]
    title = " and ".join(
        f"{'gain' if measure.higher else 'difference (less is better)'} in {measure.title}, "
        f"{measure.points}"
        for measure in measures
    )
    return difference_figure(lines[DIFFERENCES], f"{title}, with 95 % interval")


def choice_lines(results: Results) -> pd.DataFrame:
    """What was chosen by shorter runs.

    Args:
        results: results of a command.

    Returns:
        Texts: ``data set``, ``method``, ``chosen``, with ``‡`` at a value that ends what was
        compared, the held-out score, such as ``held-out accuracy, %``, and the number of
        ``settings tried``.
    """
    measure = metric(metric_of(results.records[run] for run in results.shorter.values()
                           if run in results.records))  # fmt: skip
    lines = []
    for choice in results.choices:
        if (config := choice.best) is None:
            continue
        rivals = choice.candidates
        alike = [
            c
            for other in results.choices
            for c in other.candidates
            if (set_name(c), c.method) == (set_name(config), config.method)
        ]
        named = f"{config.method} {in_symbols(config, apart(alike))}".strip()
        chosen = in_symbols(config, symbols_that_differ(rivals), ends=choice.ends)
        held_out = measure.text(choice.score(config) or 0.0)
        lines.append((set_name(config), named, chosen, held_out, str(len(rivals))))
    heads = ["data set", "method", "chosen", f"held-out {measure.label}", "settings tried"]
    return text_frame(heads, lines)
