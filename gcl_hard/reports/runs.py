"""Finished runs with their diagnostics: reading, selecting, naming, and one tidy table."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.record import ACCURACY, RunResult
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.settings import RunConfig, flag, known, selectable, symbols
from gcl_hard.experiments.store import Store, read_compact, read_result
from gcl_hard.files.io import check_regular
from gcl_hard.losses.methods import METHODS, method
from gcl_hard.reports.frame import SCHEMA_VERSION, defined, scores_key
from gcl_hard.reports.tables import between, count, values
from gcl_hard.theory.snapshots import OWN, SETTINGS

WANTED = "expected the --output folder of python -m gcl_hard.bench, files in it, or --json files"
RERUN = "run the same command again with --diagnostics 1"
ONE = {
    "dataset": "data sets", "protocol": "protocols", "contrast": "contrasts",
    "objective": "objectives",
}  # fmt: skip
"""Settings of which a figure has one value, with their plurals."""
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


def read(paths: Iterable[Path]) -> list[RunResult]:
    """Read finished runs from run files, result files and folders.

    A run that occurs twice counts once: the one with more snapshots, else the later one. Scores
    of inner hold-outs are skipped. A warning counts runs whose scores are not defined.

    Args:
        paths: files, and folders of run files.

    Returns:
        The records by data set, method and settings, whatever the order of the paths.

    Raises:
        InputError: for a path that is missing, damaged, of another version or without a finished
            run; names it.
    """
    ranked: dict[Run, tuple[Any, RunResult]] = {}
    undefined: dict[Run, None] = {}
    for source, record in chain.from_iterable(map(_results, paths)):
        if record.inner:
            continue
        with _damage(source):
            _check_values(record)
            if not defined(record):
                undefined[record.run] = None
                continue
            kept = len(record.diagnostics), len(record.curve), record.finished
            rank = *kept, record.values, record.versions.get("source", ""), str(source)
        known = ranked.get(record.run)
        if known is None or rank > known[0]:
            ranked[record.run] = rank, record
    if undefined:
        warnings.warn(
            f"{count(len(undefined), 'run')} without a defined score left out, the first "
            f"{next(iter(undefined))}", stacklevel=2,
        )  # fmt: skip
    if not ranked:
        raise InputError(
            "these results come from inner hold-outs alone, or have no defined score: no figure "
            "shows those"
        )
    return [ranked[run][1] for run in sorted(ranked, key=_order)]


def _order(run: Run) -> tuple[Any, ...]:
    config, known = run.config, list(METHODS)
    index = known.index(config.method) if config.method in known else len(known)
    return (
        config.dataset, config.protocol, index, config.beta or 0.0, config.epochs, config.key(),
        run.seed,
    )  # fmt: skip


def _results(path: Path) -> Iterable[tuple[Path, RunResult]]:
    """The results in a folder or file, each with the file that it is in."""
    if path.is_dir():
        results = list(Store(path).files())
        if not results:
            raise InputError(f"{path} has no result of a finished run; {WANTED}")
        return results
    if not path.exists():
        raise InputError(f"{path} does not exist; {WANTED}")
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return [(path, result) for result in read_compact(path)]
    check_regular(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged or not JSON; {WANTED}") from error
    if isinstance(content, dict) and {"config", "seed"} <= content.keys():
        return [(path, read_result(path))]
    if not isinstance(content, dict) or not isinstance(content.get("configs"), list):
        raise InputError(f"{path} is neither a run's result nor a result file; {WANTED}")
    if (schema := content.get("schema_version")) != SCHEMA_VERSION:
        raise InputError(
            f"{path} has schema {schema}, and this version reads {SCHEMA_VERSION}: make it again"
        )
    with _damage(path):
        results = [(path, result) for stored in content["configs"] for result in _of_config(stored)]
    if not results:
        raise InputError(f"{path} has no finished run")
    return results


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Name the file in an error about its contents."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"{path} is damaged: a run lacks a field or has a wrong one") from error


def _of_config(stored: Mapping[str, Any]) -> Iterator[RunResult]:
    """The runs of a configuration in a result file."""
    none: list[list[Any]] = [[] for _ in stored["seeds"]]
    name = stored.get("metric", ACCURACY)
    for seed, scores, curve, snapshots in zip(
        stored["seeds"], stored[f"fold_{scores_key(name)}"], stored.get("curves", none),
        stored.get("diagnostics", none), strict=True,
    ):  # fmt: skip
        yield RunResult.read({
            "config": stored["config"], "domain": stored.get("domain", ""), "seed": seed,
            "scores": {name: scores}, "metric": name,
            "seconds_train": 0.0, "seconds_eval": 0.0, "data": {}, "device": "", "finished": "",
            "versions": stored.get("versions", {}), "curve": curve, "diagnostics": snapshots,
        })  # fmt: skip


def _check_values(record: RunResult) -> None:
    """Raise for a record that lacks what figures need, or has something else in its place."""
    numbers = [record.seed, *(x for epoch, accuracy in record.curve for x in (epoch, accuracy))]
    if (
        any(map(math.isinf, record.values))
        or not all(map(math.isfinite, numbers))
        or not all(map(_is_whole, record.diagnostics))
    ):
        raise ValueError


def _is_whole(snapshot: Mapping[str, Any]) -> bool:
    """Whether a snapshot has all numbers that figures need; the first version lacks two."""
    needed = {"assumption_1", "lemma_1", "losses", *COUNTS, *WEIGHTS} - {"others", "other_labels"}
    hardenings = snapshot["settings"]
    return (
        isinstance(snapshot["epoch"], int)
        and isinstance(snapshot["anchors"], int)
        and isinstance(snapshot["geometry"], Mapping)
        and all(
            needed <= hardenings[name].keys() and set(LOSSES) <= hardenings[name]["losses"].keys()
            for name in (SETTINGS if hardenings else ())
        )
    )


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
        InputError: for a key or value that is not there, or if several data sets, protocols,
            contrasts or objectives are left; says what would choose one.
    """
    wanted = only or {}
    left = trained = [record for record in records if not record.run.config.is_baseline]
    if not trained:
        raise InputError(
            f"these results are baselines alone ({', '.join(_present(records, 'method'))}); "
            f"figures show trained methods"
        )
    for key, texts in wanted.items():
        _check(records, trained, key, texts)
        left = [record for record in left if any(_matches(record, key, text) for text in texts)]
    if not left:
        asked = " and ".join(f"{key}={','.join(texts)}" for key, texts in wanted.items())
        raise InputError(f"no result has {asked} at once")
    if measured and (known := {record.run.config for record in left if record.diagnostics}):
        left = [record for record in left if record.run.config in known]
    for name, plural in ONE.items():
        if len(present := _present(left, name)) > 1:
            raise InputError(
                f"these results have several {plural} ({', '.join(present)}), and a figure shows "
                f"one: choose it, as --only {name}={present[0]}"
            )
    return left


def _check(
    records: Sequence[RunResult], trained: Sequence[RunResult], key: str, texts: Sequence[str]
) -> None:
    known = [
        *dict.fromkeys(name for record in trained for name in record.run.config.values),
        "seed",
    ]
    if key not in known:
        raise unknown("setting in --only", flag(key), map(flag, known))
    for text in texts:
        if any(_matches(record, key, text) for record in trained):
            continue
        if any(_matches(record, key, text) for record in records):
            raise InputError(f"{text} is a baseline; figures show trained methods")
        raise unknown(f"{flag(key)} in these results", text, _present(trained, key))


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
    try:
        return text if canonical is None else str(canonical(text.casefold(), {}))
    except InputError:
        return text


def _present(records: Sequence[RunResult], key: str) -> list[str]:
    words = dict.fromkeys(_word(record, key) for record in records)
    return [word for word in words if word != "none"]


def _word(record: RunResult, key: str) -> str:
    if key == "seed":
        return str(record.seed)
    value = getattr(record.run.config, key, None)
    if value is None or isinstance(value, str):
        return value or "none"
    return values([record.run.config], key)


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
    shown = [
        n for n in ordered if n == "beta" or len({_shown_value(c, n) for c in configs} - {None}) > 1
    ]
    return {
        config: " ".join(filter(None, (_setting(config, n) for n in shown))) for config in configs
    }


def _setting(config: RunConfig, name: str) -> str:
    value = _shown_value(config, name)
    if value is None:
        return ""
    if name == "beta_changes":
        return f"annealed in {value}" if value else ""
    shown = symbols(type(config)).get(name, name.replace("_", " "))
    return f"{shown}={values([config], name)}"


def _shown_value(config: RunConfig, name: str) -> object:
    """A setting; None if it does not apply or is the method's own."""
    value = getattr(config, name, None)
    if name == "beta_changes" and config.beta is None:
        return None
    if name == "positives" and not config.is_baseline:
        return None if value == method(config.method).positives else value
    return value


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
    if records and len(without) == len(records):
        raise InputError(f"no result has diagnostics: {RERUN}")
    if without:
        raise InputError(
            f"no diagnostics in {count(len(without), 'run')}, the first {without[0].run} "
            f"({without[0].name}.json): {RERUN}, or choose with --only"
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
