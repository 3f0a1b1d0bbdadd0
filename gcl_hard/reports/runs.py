"""Finished runs with their diagnostics: read, selected, named, and as one tidy table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.cell import SELECTABLE, Cell, flag
from gcl_hard.experiments.cells import from_dict
from gcl_hard.experiments.diagnostics.settings import OWN, SETTINGS
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.image_cell import ImageCell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.lines import SYMBOLS
from gcl_hard.experiments.records import SCHEMA_VERSION, fault, points_of
from gcl_hard.experiments.reporting.words import count, values
from gcl_hard.graphs.datasets import ALIASES
from gcl_hard.images.datasets import canonical_name
from gcl_hard.methods import METHODS, method

WANTED = "expected what python -m gcl_hard.bench wrote: its --output folder, records, --json files"
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
    "least_angle", "widest_angle",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One seed of one configuration.

    Attributes:
        cell: the configuration.
        seed: of encoder and folds.
        accuracies: percent, of the folds; of images one, of the test split.
        curve: monitoring of images: epoch and accuracy in percent.
        snapshots: what ``--diagnostics`` measured, one mapping an epoch, ascending.
        points: file of the embeddings of the last snapshot, where they are kept.
        source: the file the run was read from.
        version: digest of the code that finished it, where the file has it.
        finished: date, ISO 8601; empty if read from a result file.
    """

    cell: Cell
    seed: int
    accuracies: tuple[float, ...]
    curve: tuple[tuple[int, float], ...]
    snapshots: tuple[Mapping[str, Any], ...]
    points: Path | None
    source: Path
    version: str | None = None
    finished: str = ""

    def __str__(self) -> str:
        return str(Job(self.cell, self.seed))


def by_cell(runs: Sequence[Run]) -> dict[Cell, list[Run]]:
    """The runs of each configuration, in their order."""
    found: dict[Cell, list[Run]] = {}
    for run in runs:
        found.setdefault(run.cell, []).append(run)
    return found


# Reading


def read(places: Iterable[Path]) -> list[Run]:
    """Finished runs of records, result files and folders of records.

    A run that is there twice counts once: the one with more snapshots, else the later one. Scores
    of inner hold-outs are skipped.

    Args:
        places: files and folders; of a folder, its records.

    Returns:
        The runs by data set, method and settings, whatever the order of the places.

    Raises:
        InputError: for a place that is missing, damaged, of another version or without a finished
            run; names it.
    """
    found: dict[tuple[Cell, int], Run] = {}
    for place in places:
        for run in _folder(place) if place.is_dir() else _file(place):
            known = found.setdefault((run.cell, run.seed), run)
            found[run.cell, run.seed] = max(known, run, key=_precedence)
    if not found:
        raise InputError("these results are of inner hold-outs alone, of which there is no figure")
    return sorted(found.values(), key=_order)


def _precedence(run: Run) -> tuple[Any, ...]:
    kept = len(run.snapshots), run.points is not None, len(run.curve)
    return *kept, run.finished, run.accuracies, run.version or "", str(run.source)


def _order(run: Run) -> tuple[Any, ...]:
    cell, known = run.cell, list(METHODS)
    index = known.index(cell.method) if cell.method in known else len(known)
    return cell.dataset, cell.protocol, index, cell.beta or 0.0, cell.epochs, cell.key(), run.seed


def _folder(folder: Path) -> list[Run]:
    runs, records = [], 0
    for path in sorted(folder.glob("[!.]*.json")):
        try:
            content = _content(path)
        except InputError:
            if re.search(r"_seed\d+$", path.stem):  # a damaged record must not go missing
                raise
            continue
        if _is_record(content):
            records += 1
            runs += _runs(path, content)
    if not records:
        raise InputError(f"{folder} has no record of a finished seed; {WANTED}")
    return runs


def _file(path: Path) -> list[Run]:
    if not path.exists():
        raise InputError(f"{path} does not exist; {WANTED}")
    content = _content(path)
    if _is_record(content):
        return _runs(path, content)
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise InputError(f"{path} is neither a record nor a result file; {WANTED}")
    runs = _runs(path, content)
    if not runs:
        raise InputError(f"{path} has no finished seed")
    return runs


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} {fault(path)}") from error


def _is_record(content: Any) -> bool:
    return isinstance(content, dict) and {"config", "seed"} <= content.keys()


def _runs(path: Path, content: Mapping[str, Any]) -> list[Run]:
    schema = content.get("schema_version")
    if isinstance(schema, int) and schema > SCHEMA_VERSION:
        raise InputError(
            f"{path} is of schema {schema}, and this version reads {SCHEMA_VERSION}: upgrade "
            f"gcl_hard"
        )
    if schema != SCHEMA_VERSION:
        raise InputError(f"{path} {fault(path)}")
    try:
        return [_run(path, **stored) for stored in _stored(content)]
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"{path} is damaged: it lacks what a run has, or has it wrong") from error


def _stored(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a record, or each seed of a result file, holds of a run."""
    if "cells" not in content:
        if not content.get("inner"):
            yield {
                "config": content["config"], "seed": content["seed"],
                "accuracies": content["fold_accuracies"], "curve": content.get("curve", []),
                "snapshots": content.get("diagnostics", []),
                "version": content.get("versions", {}).get("source"),
                "finished": str(content.get("finished", "")),
            }  # fmt: skip
        return
    for cell in content["cells"]:
        none: list[list[Any]] = [[] for _ in cell["seeds"]]
        for seed, accuracies, curve, snapshots in zip(
            cell["seeds"], cell["fold_accuracies"], cell.get("curves", none),
            cell.get("diagnostics", none), strict=True,
        ):  # fmt: skip
            yield {
                "config": cell["config"], "seed": seed, "accuracies": accuracies, "curve": curve,
                "snapshots": snapshots, "version": cell.get("versions", {}).get("source"),
            }  # fmt: skip


def _run(
    path: Path, *, config: dict[str, Any], seed: int, accuracies: Sequence[float],
    curve: Sequence[Sequence[float]], snapshots: Sequence[Mapping[str, Any]],
    version: str | None, finished: str = "",
) -> Run:  # fmt: skip
    if not all(map(_is_whole, snapshots)):
        raise KeyError("diagnostics")
    cell = from_dict(config)
    points = points_of(path.with_name(Job(cell, int(seed)).file_name))
    own = points_of(path)
    return Run(
        cell=cell,
        seed=int(seed),
        accuracies=tuple(float(accuracy) for accuracy in accuracies),
        curve=tuple((int(epoch), float(accuracy)) for epoch, accuracy in curve),
        snapshots=tuple(sorted(snapshots, key=lambda one: int(one["epoch"]))),
        points=next((one for one in (own, points) if one.exists()), None),
        source=path,
        version=None if version is None else str(version),
        finished=finished,
    )


def _is_whole(snapshot: Mapping[str, Any]) -> bool:
    """Whether a snapshot has what figures need; those of the first version lack two numbers."""
    needed = {"assumption_1", "lemma_1", "losses", *COUNTS, *WEIGHTS} - {"others", "other_labels"}
    found = snapshot["settings"]
    return (
        isinstance(snapshot["epoch"], int)
        and isinstance(snapshot["anchors"], int)
        and isinstance(snapshot["geometry"], Mapping)
        and all(
            needed <= found[name].keys() and set(LOSSES) <= found[name]["losses"].keys()
            for name in (SETTINGS if found else ())
        )
    )


# Selection


def select(runs: Sequence[Run], only: Mapping[str, Sequence[str]] | None = None) -> list[Run]:
    """The runs of trained methods with some settings, all of one data set, protocol and objective.

    Args:
        runs: any.
        only: the values to keep of settings, or of ``seed``.

    Returns:
        The runs, in their order, without baselines.

    Raises:
        InputError: for a key or value that is not there, or if several data sets, protocols,
            contrasts or objectives are left; says what would choose one.

    Example:
        >>> cells = [GraphCell(method="ucl"), GraphCell(), GraphCell(beta=2)]
        >>> runs = [Run(cell, 0, (80.0,), (), (), None, Path("a.json")) for cell in cells]
        >>> [run.cell.beta for run in select(runs, {"method": ["hscl"], "beta": ["2"]})]
        [2.0]
    """
    wanted = only or {}
    left = trained = [run for run in runs if not run.cell.is_floor]
    if not trained:
        raise InputError(
            f"these results are of baselines alone ({', '.join(_present(runs, 'method'))}); "
            f"figures are of trained methods"
        )
    for key, texts in wanted.items():
        _check(runs, trained, key, texts)
        left = [run for run in left if any(_matches(run, key, text) for text in texts)]
    if not left:
        asked = " and ".join(f"{key}={','.join(texts)}" for key, texts in wanted.items())
        raise InputError(f"no result has {asked} at once")
    for name, plural in ONE.items():
        if len(found := _present(left, name)) > 1:
            raise InputError(
                f"these results are of several {plural} ({', '.join(found)}), and a figure is of "
                f"one: choose it, as --only {name}={found[0]}"
            )
    return left


def _check(runs: Sequence[Run], trained: Sequence[Run], key: str, texts: Sequence[str]) -> None:
    known = [*dict.fromkeys(f.name for run in trained for f in fields(run.cell)), "seed"]
    if key not in known:
        raise unknown("setting in --only", flag(key), map(flag, known))
    for text in texts:
        if any(_matches(run, key, text) for run in trained):
            continue
        if any(_matches(run, key, text) for run in runs):
            raise InputError(f"{text} is a baseline; figures are of trained methods")
        raise unknown(f"{flag(key)} in these results", text, _present(trained, key))


def _matches(run: Run, key: str, text: str) -> bool:
    if key == "dataset":
        text = ALIASES.get(text.upper(), canonical_name(text))
    own = _word(run, key)
    if own.casefold() == text.casefold():
        return True
    try:
        return float(own) == float(text)
    except ValueError:
        return False


def _present(runs: Sequence[Run], key: str) -> list[str]:
    words = dict.fromkeys(_word(run, key) for run in runs)
    return [word for word in words if word != "none"]


def _word(run: Run, key: str) -> str:
    if key == "seed":
        return str(run.seed)
    value = getattr(run.cell, key, None)
    if value is None or isinstance(value, str):
        return value or "none"
    return values([run.cell], key)


# Names


def settings(cells: Iterable[Cell]) -> dict[Cell, str]:
    """What tells configurations apart beside their method: β, and every setting that differs.

    Args:
        cells: of one figure.

    Returns:
        The settings of each, such as ``β=1 epochs=50``; empty where the method says it all.

    Example:
        >>> cells = [GraphCell(method="ucl"), GraphCell(method="hucl"), GraphCell(beta=2)]
        >>> list(settings(cells).values())
        ['', 'β=1', 'β=2']
    """
    cells = list(cells)
    names = dict.fromkeys(f.name for cell in cells for f in fields(cell))
    ordered = [*SELECTABLE, *(n for n in names if n not in (*SELECTABLE, *ONE, "method"))]
    shown = [n for n in ordered if n == "beta" or len({_own(c, n) for c in cells} - {None}) > 1]
    return {cell: " ".join(filter(None, (_setting(cell, n) for n in shown))) for cell in cells}


def _setting(cell: Cell, name: str) -> str:
    value = _own(cell, name)
    if value is None:
        return ""
    if name == "beta_changes":
        return f"annealed in {value}" if value else ""
    return f"{SYMBOLS.get(name, name.replace('_', ' '))}={values([cell], name)}"


def _own(cell: Cell, name: str) -> object:
    """A setting; None where it does not apply or is what the method says."""
    value = getattr(cell, name, None)
    if name == "beta_changes" and cell.beta is None:
        return None
    if isinstance(cell, ImageCell) and name == "positives" and not cell.is_floor:
        return None if value == method(cell.method).positives else value
    return value


def labels(cells: Iterable[Cell]) -> dict[Cell, str]:
    """Method and :func:`settings` of each configuration.

    Example:
        >>> list(labels([GraphCell(), GraphCell(method="scl", epochs=20)]).values())
        ['hscl β=1 epochs=200', 'scl epochs=20']
    """
    return {cell: f"{cell.method} {own}".strip() for cell, own in settings(cells).items()}


def subject(runs: Sequence[Run]) -> str:
    """What a figure is of: data set, contrast, objective, protocol, seeds, and γ if not 0.5.

    Example:
        >>> subject([Run(GraphCell(), 0, (80.0,), (), (), None, Path("a.json"))])
        'MUTAG: nodes against graphs, JSD, protocol paper, 1 seed'
    """
    cell = runs[0].cell
    if isinstance(cell, GraphCell):
        contrast = "two views of a graph" if cell.contrast == "two-view" else "nodes against graphs"
        objective = "InfoNCE" if cell.objective == "infonce" else "JSD"
        what = f"{contrast}, {objective}, protocol {cell.protocol}"
    else:
        subset = getattr(cell, "subset", None)
        what = f"a part of {subset:,} images, " if subset else ""
        what += "two views of an image, InfoNCE"
    if not usual_temperature(runs):
        what += f", γ = {values((run.cell for run in runs), 'temperature')}"
    seeds = sorted({len(own) for own in by_cell(runs).values()})
    several = f"{seeds[0]} to " if len(seeds) > 1 else ""
    return f"{cell.dataset}: {what}, {several}{count(seeds[-1], 'seed')}"


def usual_temperature(runs: Sequence[Run]) -> bool:
    """Whether all have the papers' γ = 0.5, at which l = γ ln τ; JSD, which has none, counts."""
    return all(run.cell.temperature in (None, 0.5) for run in runs)


def stem(figure: str, cell: Cell) -> str:
    """The file name of a figure without suffix: its data set, and every unusual setting.

    Example:
        >>> stem("fig4", GraphCell()), stem("fig5", GraphCell(contrast="two-view"))
        ('fig4-MUTAG-jsd', 'fig5-MUTAG-two-view')
    """
    parts = [figure, cell.dataset]
    if isinstance(cell, GraphCell):
        two_view, objective = cell.contrast == "two-view", cell.objective or "jsd"
        parts += ["two-view"] * two_view
        parts += [objective] * (objective != "infonce" or not two_view)
        parts += [cell.protocol] * (cell.protocol != "paper")
    return "-".join(parts)


# Snapshots


def require_snapshots(runs: Sequence[Run]) -> None:
    """Check that all runs have diagnostics.

    Raises:
        InputError: names a run that has none, and says what measures them.
    """
    without = [run for run in runs if not run.snapshots]
    if runs and len(without) == len(runs):
        raise InputError(f"no result has diagnostics: {RERUN}")
    if without:
        others = f" (nor have {len(without) - 1} other seeds)" if len(without) > 1 else ""
        raise InputError(
            f"{without[0]} has no diagnostics{others}, see {without[0].source}: {RERUN}, or leave "
            f"it out with --only"
        )


def snapshots(runs: Sequence[Run]) -> pd.DataFrame:
    """The diagnostics of runs, one row for each run, epoch and hardening.

    Args:
        runs: with snapshots.

    Returns:
        ``dataset``, ``method``, ``trained_with``, ``line`` (the label), ``seed``, ``epoch``,
        ``shared`` (whether every seed of the line has the epoch), ``last`` (whether it is the
        run's last), ``panel`` (the hardening, as in the papers' figures, or ``own``), ``setting``
        (what ``own`` is, else empty), ``anchors``, ``finite`` (whether embeddings were),
        Assumption 1 and Lemma 1, the counts, the losses, the weights, and the geometry, which is
        the same for all hardenings of an epoch. What is not defined is NaN.
    """
    label, own = labels(by_cell(runs)), settings(by_cell(runs))
    rows = [
        {
            "dataset": run.cell.dataset, "method": run.cell.method, "trained_with": own[run.cell],
            "line": label[run.cell], "seed": run.seed, "epoch": snapshot["epoch"],
            "last": snapshot is run.snapshots[-1], "panel": panel,
            "anchors": snapshot["anchors"], "finite": bool(snapshot["settings"]),
            **(found := snapshot["settings"].get(panel, {})), **found.get("losses", {}),
            **snapshot["geometry"], "setting": found.get("setting", ""),
        }
        for run in runs
        for snapshot in run.snapshots
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


def versions(runs: Sequence[Run]) -> int:
    """How many versions of the code finished runs, of those that say it."""
    return len({run.version for run in runs} - {None})


def same_seeds(runs: Sequence[Run], lines: Mapping[Cell, str]) -> tuple[list[Run], str]:
    """Runs whose accuracies can be compared: of seeds that all points have, else of each line.

    Args:
        runs: of the configurations in ``lines``; each configuration is a point.
        lines: what the line of each configuration is called.

    Returns:
        The runs, and which seeds they have, in words. A line whose points share no seed keeps
        all of its own.
    """
    seeds = {cell: {run.seed for run in own} for cell, own in by_cell(runs).items()}
    names = list(dict.fromkeys(lines.values()))
    own = {n: set.intersection(*(seeds[c] for c in seeds if lines[c] == n)) for n in names}
    every, n_all = set.intersection(*own.values()), len(set.union(*seeds.values()))
    if every:
        left = f", all that they share of {n_all}" if len(every) < n_all else ""
        words = f"{count(len(every), 'seed')}, the same at every point{left}"
        return [run for run in runs if run.seed in every], words
    said = (f"{n} {_listed(own[n]) if own[n] else 'differing from point to point'}" for n in names)
    kept = [run for run in runs if run.seed in (own[lines[run.cell]] or {run.seed})]
    return kept, f"seeds that differ ({'; '.join(said)})"


def _listed(seeds: set[int]) -> str:
    """Such as ``0 to 4, 7``.

    Example:
        >>> _listed({0, 1, 2, 5})
        '0 to 2, 5'
    """
    ranges = groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0])
    found = [[seed for _, seed in group] for _, group in ranges]
    return ", ".join(
        f"{own[0]} to {own[-1]}" if len(own) > 2 else ", ".join(map(str, own)) for own in found
    )
