"""Finished runs with their diagnostics: reading, selecting, naming, and one tidy table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, flag, known, selectable
from gcl_hard.experiments.store import Store
from gcl_hard.losses.methods import METHODS, method
from gcl_hard.reports.frame import defined
from gcl_hard.reports.rows import in_symbols
from gcl_hard.reports.tables import between, count, values
from gcl_hard.theory.snapshots import OWN, SETTINGS

RERUN = "run the same command again with --diagnostics 1"
ONE = ("dataset", "protocol", "contrast", "objective")
"""Settings of which a figure has one value."""
COUNTS = ("defined", "alone", "spared", "unopposed", "common")
LOSSES = ("ucl", "hucl", "scl", "hscl")
WEIGHTS = (
    "collisions", "negatives", "effective_hucl", "effective_hscl", "same_label_weight", "others",
    "other_labels",
)  # fmt: skip
GEOMETRY = (
    "alignment", "uniformity", "overlap", "effective_rank", "nc1", "cdnv", "packing",
    "least_angle", "widest_angle", "cone_distance", "stationarity_angle", "gradient_norm",
)  # fmt: skip


def by_config(records: Sequence[RunResult]) -> dict[RunConfig, list[RunResult]]:
    """The runs of each configuration, in their order."""
    groups: dict[RunConfig, list[RunResult]] = {}
    for record in records:
        groups.setdefault(record.run.config, []).append(record)
    return groups


# Reading


def read(folders: Iterable[Path]) -> list[RunResult]:
    """Read the finished runs in folders of results.

    A run that is in two folders counts once: the one with more snapshots, else the later one.
    Scores of inner hold-outs are skipped. A warning counts runs whose scores are not defined.

    Args:
        folders: what ``--output`` of a command named.

    Returns:
        The records by data set, method and settings, whatever the order of the folders.

    Raises:
        InputError: for a folder without a finished run; names it.
    """
    best: dict[Run, tuple[Any, RunResult]] = {}
    undefined: list[Run] = []
    for folder in folders:
        records = [*Store(folder).rows()]
        if not records:
            raise InputError(
                f"{folder} has no finished run: give the --output folder of python -m "
                f"gcl_hard.bench"
            )
        for record in records:
            if record.inner:
                continue
            if not defined(record):
                undefined.append(record.run)
                continue
            rank = len(record.diagnostics), len(record.curve), record.finished, record.values
            if record.run not in best or rank > best[record.run][0]:
                best[record.run] = rank, record
    if undefined:
        warnings.warn(
            f"{count(len(undefined), 'run')} without a defined score left out, the first "
            f"{undefined[0]}", stacklevel=2,
        )  # fmt: skip
    return [best[run][1] for run in sorted(best, key=_order)]


def _order(run: Run) -> tuple[Any, ...]:
    config, known = run.config, list(METHODS)
    index = known.index(config.method) if config.method in known else len(known)
    return (
        config.dataset, config.protocol, index, config.beta or 0.0, config.epochs, config.key(),
        run.seed,
    )  # fmt: skip


# Selection


def select(
    records: Sequence[RunResult],
    only: Mapping[str, Sequence[str]] | None = None,
    *,
    measured: bool = False,
) -> list[RunResult]:
    """The runs of trained methods with some settings, all of one data set, protocol and objective.

    Args:
        records: any.
        only: the values to keep of settings, or of ``seed``.
        measured: whether configurations without any diagnostics are left out, if some have them.

    Returns:
        The runs, in their order, without baselines.

    Raises:
        InputError: for a key or value that is not there, if no run is left, or if several data
            sets, protocols, contrasts or objectives are; says what would choose one.
    """
    left = trained = [record for record in records if not record.run.config.is_baseline]
    settings = dict.fromkeys(name for record in trained for name in record.run.config.values)
    for key, texts in (only or {}).items():
        if trained and key not in {*settings, "seed"}:
            raise unknown("setting in --only", flag(key), map(flag, (*settings, "seed")))
        for text in texts:
            if not any(_matches(record, key, text) for record in trained):
                raise unknown(f"{flag(key)} of trained methods", text, _present(trained, key))
        left = [record for record in left if any(_matches(record, key, text) for text in texts)]
    if not left:
        raise InputError("there is no run of a trained method with these settings")
    if measured and (known := {record.run.config for record in left if record.diagnostics}):
        left = [record for record in left if record.run.config in known]
    for name in ONE:
        if len(present := _present(left, name)) > 1:
            raise InputError(
                f"a figure shows one {name}, and these results have {', '.join(present)}: choose "
                f"it, as --only {name}={present[0]}"
            )
    return left


def _matches(record: RunResult, key: str, text: str) -> bool:
    word, text = _word(record, key), _canonical(record.run.config.domain, key, text)
    if word.casefold() == text.casefold():
        return True
    try:
        return float(word) == float(text)
    except ValueError:
        return False


@cache
def _canonical(domain: str, key: str, text: str) -> str:
    """The canonical name of a data set or a protocol, if the domain knows it."""
    config = CONFIGS[domain]
    if key == "dataset":
        return experiment_of(config).canonical_dataset(config(dataset=text))
    canonical = known(config)[key].setting.canonical if key == "protocol" else None
    return text if canonical is None else str(canonical(text.casefold(), {}))


def _present(records: Sequence[RunResult], key: str) -> list[str]:
    words = dict.fromkeys(_word(record, key) for record in records)
    return [word for word in words if word != "none"]


def _word(record: RunResult, key: str) -> str:
    """A setting as flags spell it; "none" where there is none."""
    config = record.run.config
    if key == "seed":
        return str(record.seed)
    return values([config], key) or "none" if key in config.values else "none"


# Names


def settings(configs: Iterable[RunConfig]) -> dict[RunConfig, str]:
    """Settings that distinguish configurations of one method: β, and every setting that differs.

    Args:
        configs: configs of one figure.

    Returns:
        The settings of each, such as ``β=1 epochs=50``; empty where the method says it all.

    Example:
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> configs = [GraphConfig(method="ucl"), GraphConfig(method="hucl"), GraphConfig(beta=2)]
        >>> list(settings(configs).values())
        ['', 'β=1', 'β=2']
    """
    configs = list(configs)
    names = dict.fromkeys(name for config in configs for name in config.values)
    first = dict.fromkeys(n for config in configs for n in selectable(type(config)))
    ordered = [*first, *(n for n in names if n not in (*first, *ONE, "method"))]
    several = [
        name
        for name in ordered
        if name == "beta" or len({_chosen(config, name) for config in configs} - {None}) > 1
    ]
    return {
        config: in_symbols(config, [n for n in several if _chosen(config, n) is not None])
        for config in configs
    }


def _chosen(config: RunConfig, name: str) -> object:
    """A setting; None if it does not apply or is the method's own."""
    if name in config.unread or (name == "beta_changes" and config.beta is None):
        return None
    value = getattr(config, name, None)
    usual = name == "positives" and not config.is_baseline
    return None if usual and value == method(config.method).positives else value


def labels(configs: Iterable[RunConfig]) -> dict[RunConfig, str]:
    """Method and :func:`settings` of each configuration.

    Example:
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> list(labels([GraphConfig(), GraphConfig(method="scl", epochs=20)]).values())
        ['hscl β=1 epochs=200', 'scl epochs=20']
    """
    return {config: f"{config.method} {text}".strip() for config, text in settings(configs).items()}


def subject(records: Sequence[RunResult]) -> str:
    """Description of a figure: data set, subset, views, objective, protocol, unusual γ, seeds."""
    config = records[0].run.config
    subset, contrast = getattr(config, "subset", None), getattr(config, "contrast", "two-view")
    parts = [f"{subset:,} {experiment_of(config).item}s"] if subset else []
    parts.append("local-global" if contrast == "local-global" else f"{config.views or 2} views")
    parts.append("JSD" if getattr(config, "objective", None) == "jsd" else "InfoNCE")
    if len(get_args(known(type(config))["protocol"].kind)) != 1:  # it has a choice of protocols
        parts.append(config.protocol)
    if not usual_temperature(records):
        parts.append(f"γ = {values((record.run.config for record in records), 'temperature')}")
    seeds = between(map(len, by_config(records).values()))
    return f"{config.dataset}: {', '.join(parts)}, {seeds} seed{'s' * (seeds != '1')}"


def usual_temperature(records: Sequence[RunResult]) -> bool:
    """Whether all runs have the papers' γ = 0.5, at which l = γ ln τ, or JSD."""
    return all(record.run.config.temperature in (None, 0.5) for record in records)


def stem(figure: str, config: RunConfig) -> str:
    """The file name of a figure without suffix: its data set, and every unusual setting.

    Example:
        >>> from gcl_hard.graphs.settings import GraphConfig
        >>> stem("fig4", GraphConfig()), stem("fig5", GraphConfig(contrast="two-view"))
        ('fig4-MUTAG-jsd', 'fig5-MUTAG-two-view')
    """
    parts, contrast = [figure, config.dataset], getattr(config, "contrast", None)
    objective = getattr(config, "objective", None) or "infonce"
    parts += ["two-view"] * (contrast == "two-view")
    parts += [objective] * (objective != "infonce" or contrast == "local-global")
    usual = known(type(config))["protocol"].keyed(config.values)
    parts += [config.protocol] * (config.protocol != usual)
    return "-".join(parts)


# Snapshots


def require_snapshots(records: Sequence[RunResult]) -> None:
    """Check that all runs have diagnostics.

    Raises:
        InputError: names a run that has none, and says what measures them.
    """
    without = [record for record in records if not record.diagnostics]
    if without:
        raise InputError(
            f"no diagnostics in {len(without)} of {count(len(records), 'run')}, the first "
            f"{without[0].run}: {RERUN}, or choose with --only"
        )


def snapshots(records: Sequence[RunResult]) -> pd.DataFrame:
    """The diagnostics of runs, one row for each run, epoch and hardening.

    Args:
        records: with snapshots.

    Returns:
        ``dataset``, ``method``, ``trained_with``, ``line`` (the label), ``seed``, ``epoch``,
        ``shared`` (whether every seed of the line has the epoch), ``last`` (whether it is the
        run's last), ``panel`` (the hardening, as in the papers' figures, or ``own``), ``setting``
        (what ``own`` is, else empty), ``anchors``, ``finite`` (whether embeddings were),
        Assumption 1 and Lemma 1, the counts, the losses, the weights, and the geometry, which is
        the same for all hardenings of an epoch. What is not defined is NaN.
    """
    label, trained_with = labels(by_config(records)), settings(by_config(records))
    rows = [
        {
            "dataset": record.run.config.dataset, "method": record.run.config.method,
            "trained_with": trained_with[record.run.config],
            "line": label[record.run.config], "seed": record.seed, "epoch": snapshot["epoch"],
            "last": snapshot is record.diagnostics[-1], "panel": panel,
            "anchors": snapshot["anchors"], "finite": bool(snapshot["settings"]),
            **(hardening := snapshot["settings"].get(panel, {})), **hardening.get("losses", {}),
            **snapshot["geometry"], "setting": hardening.get("setting", ""),
        }
        for record in records
        for snapshot in record.diagnostics
        for panel in (*SETTINGS, OWN)
    ]  # fmt: skip
    texts = ["dataset", "method", "trained_with", "line", "panel", "setting"]
    plain = ["seed", "epoch", "last", "anchors", "finite"]
    numbers = ["assumption_1", "lemma_1", *LOSSES, *WEIGHTS, *GEOMETRY]
    frame = pd.DataFrame(rows).reindex(columns=[*texts, *plain, *COUNTS, *numbers])
    frame[[*COUNTS]] = frame[[*COUNTS]].astype(float).fillna(0).astype(int)
    frame[numbers] = frame[numbers].astype(float)
    seeds = frame.groupby(["line", "epoch"])["seed"].transform("nunique")
    frame["shared"] = seeds == frame.groupby("line")["seed"].transform("nunique")
    return frame


def over_seeds(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """A number against epoch: mean, least and greatest over the seeds at which it is defined.

    Args:
        frame: rows of :func:`snapshots`, one for each line, seed and epoch.
        value: the column.

    Returns:
        ``mean``, ``min`` and ``max`` by line and epoch, of epochs that all seeds of a line have;
        NaN where it is defined at no seed.
    """
    shared = frame[frame["shared"]]
    return shared.groupby(["line", "epoch"], sort=False)[value].agg(["mean", "min", "max"])


def versions(records: Sequence[RunResult]) -> int:
    """Number of source versions of finished runs, as far as they are stored."""
    return len({record.versions.get("source") for record in records} - {None})
