"""Finished seeds as small JSON files, and the result file that is assembled from them.

A record holds one seed of one cell. Its name carries a hash of the cell's whole config, so that
the same command finds what is finished and a changed setting never meets an old number.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gcl_hard.errors import InputError
from gcl_hard.experiments.cells import from_dict
from gcl_hard.experiments.diagnostics.sample import Points
from gcl_hard.experiments.diagnostics.settings import looked_at
from gcl_hard.experiments.jobs import Job
from gcl_hard.io import written_whole

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Record:
    """One finished seed of a cell.

    Attributes:
        config: every setting of the cell.
        seed: of encoder and folds.
        fold_accuracies: percent, in fold order; of images one, of the test split.
        fold_c: what each fold's classifier chose inside its training part: C of an SVM, the
            learning rate or C of a linear probe; empty where there is no such choice.
        final_losses: of the encoders trained, nats.
        seconds_train: in training.
        seconds_eval: in embedding and SVMs.
        data: sizes and what was resolved by looking at the data set, and a digest of it.
        device: what trained it, in words.
        versions: of the packages that matter.
        finished: date, UTC, ISO 8601.
        inner: whether accuracies are of hold-outs inside the training folds, by which settings
            are chosen, and not of the test folds.
        curve: monitoring of images: epochs and accuracies in percent of nearest neighbours among
            training images. No number of a table comes from it.
        diagnostics: looks at the seed's first encoder while it trained, in the order of their
            epochs (docs: theory).
        seconds_diagnostics: that these took, in neither of the other times.
    """

    config: dict[str, Any]
    seed: int
    fold_accuracies: list[float]
    fold_c: list[float]
    final_losses: list[float]
    seconds_train: float
    seconds_eval: float
    data: dict[str, Any]
    device: str
    versions: dict[str, str]
    finished: str
    inner: bool = False
    curve: list[list[float]] = field(default_factory=list)
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    seconds_diagnostics: float = 0.0

    @property
    def job(self) -> Job:
        """What it is the record of."""
        return Job(from_dict(self.config), self.seed, self.inner)


def points_of(path: Path) -> Path:
    """Where the points of the last look lie, by the file of a record."""
    return path.with_suffix(".npz")


def save(record: Record, path: Path) -> None:
    """Write a record; whoever reads at the same time sees the old file or the whole new one."""
    content = {"schema_version": SCHEMA_VERSION, **asdict(record)}
    looks = ",\n".join(f"  {_json(look, None)}" for look in content.pop("diagnostics"))
    text = _json(content | {"diagnostics": []}, 1)
    if looks:  # a line each: two hundred of them stay readable
        text = text.replace('"diagnostics": []', f'"diagnostics": [\n{looks}\n ]')
    _write(text, path)


def save_points(points: Points | None, path: Path) -> None:
    """Write the points of the last look beside a record; without any, none are left there."""
    if points is None:
        points_of(path).unlink(missing_ok=True)
        return
    with written_whole(points_of(path)) as file:
        np.savez_compressed(file, allow_pickle=False, **points)


def load(path: Path, job: Job) -> Record | None:
    """The record of a finished job; None if there is none, or none that can be trusted.

    Args:
        path: of the record.
        job: what it must be the record of.

    Returns:
        The record; None if the file is absent, half-written, of another schema or job.
    """
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("schema_version") != SCHEMA_VERSION:
            return None
        record = Record(**stored)
        whole = all(isinstance(a, (int, float)) and 0 <= a <= 100 for a in record.fold_accuracies)
        whole = whole and len(record.fold_accuracies) == job.cell.n_scores
        whole = whole and isinstance(record.finished, str) and isinstance(record.data, dict)
        whole = whole and all("epoch" in look and "settings" in look for look in record.diagnostics)
        ours = whole and record.job == job
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if ours else None


def lacks(record: Record, every: int) -> bool:
    """Whether a record has not all looks that are asked for.

    Args:
        record: of a seed; floors and inner hold-outs are not looked at.
        every: epochs between looks, 0 for none.
    """
    if not every or record.inner:  # no config is read for nothing
        return False
    cell = record.job.cell
    if cell.is_floor:
        return False
    return not {look["epoch"] for look in record.diagnostics} >= {*looked_at(every, cell.epochs)}


def fault(path: Path) -> str:
    """Why a record that is there cannot be used, in words.

    Args:
        path: of a file that :func:`load` did not trust.

    Returns:
        The reason.

    Raises:
        InputError: if a newer version wrote it: it is not ours to overwrite.
    """
    try:
        version = json.loads(path.read_text(encoding="utf-8"))["schema_version"]
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError):
        return "is half-written or damaged"
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise InputError(
            f"{path} is of schema {version}, and this version writes {SCHEMA_VERSION}: upgrade "
            f"gcl_hard, or give another --output"
        )
    if version != SCHEMA_VERSION:
        return f"is of the older schema {version}"
    return "is not what its name says"


def write_json(content: dict[str, Any], path: Path) -> None:
    """Write JSON atomically.

    Raises:
        InputError: if the place cannot be written to; names it.
    """
    _write(_json(content, 1), path)


def _json(content: Any, indent: int | None) -> str:
    return json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False)


def _write(text: str, path: Path) -> None:
    with written_whole(path) as file:
        file.write(f"{text}\n".encode())


def check_writable(folder: Path) -> None:
    """Make a folder and try to write in it, before hours of work depend on it.

    Raises:
        InputError: if that fails; names the folder and the reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from error
