"""Runs from the files that ``python -m gcl_hard.bench`` writes; no data set is needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.config import RunConfig, from_dict
from gcl_hard.experiments.figures.runs import Run, is_whole
from gcl_hard.experiments.runs import Run
from gcl_hard.experiments.store import SCHEMA_VERSION, fault, points_of
from gcl_hard.methods import METHODS

WANTED = "expected what python -m gcl_hard.bench wrote: its --output folder, records, --json files"


def read(places: Iterable[Path]) -> list[Run]:
    """Finished seeds of records, result files and folders of records.

    A seed that is there twice counts once, with looks and points if one of the two has them, or
    else as it was finished last.
    Scores of inner hold-outs are passed over.

    Args:
        places: files and folders; of a folder its records are read and nothing else.

    Returns:
        The seeds by data set, method and settings, whatever the order of the places.

    Raises:
        InputError: for a place that is missing, damaged, of another version or without a finished
            seed; names it.
    """
    found: dict[tuple[RunConfig, int], Run] = {}
    for place in places:
        for run in _folder(place) if place.is_dir() else _file(place):
            known = found.setdefault((run.cell, run.seed), run)
            if _worth(run) > _worth(known):
                found[run.cell, run.seed] = run
    if not found:
        raise InputError("these results are of inner hold-outs alone, of which there is no figure")
    return sorted(found.values(), key=_order)


def _worth(run: Run) -> tuple[Any, ...]:
    """By which of two of one seed counts; no two that differ are worth the same."""
    kept = len(run.looks), run.points is not None, len(run.curve)
    return *kept, run.finished, run.accuracies, run.version or "", str(run.source)


def _order(run: Run) -> tuple[Any, ...]:
    cell, known = run.cell, list(METHODS)
    method = known.index(cell.method) if cell.method in known else len(known)
    return cell.dataset, cell.protocol, method, cell.beta or 0.0, cell.epochs, cell.key(), run.seed


def _folder(folder: Path) -> list[Run]:
    runs, records = [], 0
    for path in sorted(folder.glob("*.json")):
        if path.name.startswith("."):
            continue
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
    if not (_is_record(content) or _is_result(content)):
        raise InputError(f"{path} is neither a record nor a result file; {WANTED}")
    runs = _runs(path, content)
    if _is_result(content) and not runs:
        raise InputError(f"{path} has no finished seed")
    return runs


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} {fault(path)}") from error


def _is_record(content: Any) -> bool:
    return isinstance(content, dict) and {"config", "seed"} <= set(content)


def _is_result(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get("cells"), list)


def _runs(path: Path, content: Mapping[str, Any]) -> list[Run]:
    version = content.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise InputError(
            f"{path} is of schema {version}, and this version reads {SCHEMA_VERSION}: upgrade "
            f"gcl_hard"
        )
    if version != SCHEMA_VERSION:
        raise InputError(f"{path} {fault(path)}")
    try:
        if _is_record(content):
            return [] if content.get("inner") else [_of_record(path, content)]
        return [run for cell in content["cells"] for run in _of_cell(path, cell)]
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"{path} is damaged: it lacks what a seed has, or has it wrong") from error


def _of_record(path: Path, stored: Mapping[str, Any]) -> Run:
    cell = from_dict(stored["config"])
    return _run(
        cell, stored["seed"], path, accuracies=stored["fold_accuracies"],
        curve=stored.get("curve", []), looks=stored.get("diagnostics", []), points=points_of(path),
        version=_version(stored), finished=str(stored.get("finished", "")),
    )  # fmt: skip


def _of_cell(path: Path, stored: Mapping[str, Any]) -> list[Run]:
    cell, seeds = from_dict(stored["config"]), stored["seeds"]
    nothing: list[list[Any]] = [[] for _ in seeds]
    parts = zip(
        seeds, stored["fold_accuracies"], stored.get("curves", nothing),
        stored.get("diagnostics", nothing), strict=True,
    )  # fmt: skip
    return [
        _run(cell, seed, path, accuracies=accuracies, curve=curve, looks=looks,
             points=_beside(path, cell, seed), version=_version(stored))
        for seed, accuracies, curve, looks in parts
    ]  # fmt: skip


def _version(stored: Mapping[str, Any]) -> str | None:
    found = stored.get("versions", {}).get("source")
    return None if found is None else str(found)


def _beside(path: Path, cell: RunConfig, seed: int) -> Path:
    """The points of a seed whose result file lies in the folder of its record."""
    return points_of(path.with_name(Run(cell, int(seed)).file_name))


def _run(
    cell: RunConfig, seed: int, source: Path, *, accuracies: Sequence[float],
    curve: Sequence[Sequence[float]], looks: Sequence[Mapping[str, Any]], points: Path,
    version: str | None, finished: str = "",
) -> Run:  # fmt: skip
    if not all(map(is_whole, looks)):
        raise KeyError("looks")
    return Run(
        cell=cell,
        seed=int(seed),
        accuracies=tuple(float(accuracy) for accuracy in accuracies),
        curve=tuple((int(epoch), float(accuracy)) for epoch, accuracy in curve),
        looks=tuple(sorted(looks, key=lambda look: int(look["epoch"]))),
        points=points if points.exists() else None,
        source=source,
        version=version,
        finished=finished,
    )
