"""The store: one small JSON file per finished run, or all of them in one sorted .jsonl."""

from __future__ import annotations

import contextlib
import glob
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from gcl_hard.errors import InputError
from gcl_hard.io import atomic_write, check_writable, json_text, locked, reading
from gcl_hard.runs.experiment import ENCODERS
from gcl_hard.runs.plan import Run
from gcl_hard.runs.snapshots import snapshot_epochs
from gcl_hard.settings.domains import from_dict

SCHEMA_VERSION = 2
COMPACT = "runs.jsonl"
"""File name of the compact form."""
SHARED = ("config", "data", "versions", "device")
"""Fields that many runs have in common; the compact form states each value once."""


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        config: every setting.
        seed: seed of encoder and folds.
        fold_accuracies: percent, in fold order; of images one, of the test split.
        fold_c: the choice of each fold's classifier inside its training part: C of an SVM, the
            learning rate or C of a linear probe; empty where there is no such choice.
        final_losses: of the encoders trained, nats.
        seconds_train: of training.
        seconds_eval: of embedding and scoring.
        data: sizes, what was resolved by reading the data set, and its digest.
        device: name of the hardware that trained.
        versions: versions of the packages that numbers depend on.
        finished: date, UTC, ISO 8601.
        inner: whether accuracies are of hold-outs inside the training folds, by which settings
            are chosen, and not of the test folds.
        knn: of images the accuracy in percent of nearest neighbours among the training images, on
            the same test images; None for graphs and in earlier results.
        curve: monitoring of images: epochs and accuracies in percent of nearest neighbours among
            training images. No number of a table comes from it.
        diagnostics: snapshots of the run's first encoder, in the order of their epochs (docs:
            theory).
        seconds_diagnostics: of the snapshots, in neither of the other times.
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
    knn: float | None = None
    curve: list[list[float]] = field(default_factory=list)
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    seconds_diagnostics: float = 0.0

    @cached_property
    def run(self) -> Run:
        """The run of this result."""
        return Run(from_dict(self.config), self.seed, self.inner)

    @property
    def name(self) -> str:
        """Stem of its file names."""
        return self.run.name(self.data.get("processes", 1))

    def lacks_snapshots(self, every: int) -> bool:
        """Whether a requested snapshot is missing.

        Args:
            every: epochs between snapshots, 0 for none. Baselines and inner hold-outs have none.
        """
        if not every or self.inner or self.run.config.is_baseline:
            return False
        epochs = {snapshot["epoch"] for snapshot in self.diagnostics}
        return not epochs >= {*snapshot_epochs(every, self.run.config.epochs)}


class Store:
    """Results of runs in a folder: single files and a compact file.

    A single file is newer than the line of the same run in the compact form. Folders merge by
    copying single files.

    Args:
        folder: made when the first result is stored.
        processes: those that train a run together, whose results may have names of their own.

    Example:
        >>> store = Store(Path("results"))
        >>> from gcl_hard.settings.graphs import GraphConfig
        >>> store.path(Run(GraphConfig(method="ucl"), 0)).name
        'MUTAG_ucl_transductive_c90e8e0b9f_seed0.json'
    """

    def __init__(self, folder: Path, processes: int = 1) -> None:
        self.folder, self.processes = folder, processes

    def path(self, run: Run) -> Path:
        """The single file of a run; its encoder has the same stem."""
        return self.folder / f"{run.name(self.processes)}.json"

    def get(self, run: Run) -> RunResult | None:
        """The result of a run; None if there is none, or none that can be trusted."""
        path = self.path(run)
        found = _read(path)
        if isinstance(found, str) and not path.exists():
            found = self._compact.get(path.stem, found)
        if isinstance(found, str) or not _is_whole(found, run) or found.name != path.stem:
            return None
        return found

    def problem(self, run: Run) -> str | None:
        """Why a run's file cannot be used, or None.

        Raises:
            InputError: if a newer version wrote it, or another number of processes without a name
                of its own, which is not overwritten.
        """
        path = self.path(run)
        if not path.exists():
            return None
        found = _read(path)
        if isinstance(found, str):
            return f"{path.name} {found}"
        if not _is_whole(found, run):
            return f"{path.name} is not what its name says"
        if found.name == path.stem:
            return None
        raise InputError(
            f"{path} is a result of {found.data.get('processes', 1)} processes: rename it to "
            f"{found.name}.json"
        )

    def put(self, run: Run, result: RunResult) -> None:
        """Store a result atomically.

        One that replaces a result of a later date, of a clock that was set back, takes that date.

        Raises:
            InputError: if the folder cannot be written to.
        """
        if (known := self._compact.get(self.path(run).stem)) is not None:
            result = replace(result, finished=max(result.finished, known.finished))
        content = {"schema_version": SCHEMA_VERSION, **asdict(result)}
        snapshots = ",\n".join(f"  {json_text(one)}" for one in content.pop("diagnostics"))
        text = json_text(content | {"diagnostics": []}, 1)
        if snapshots:  # a line each: two hundred of them stay readable
            text = text.replace('"diagnostics": []', f'"diagnostics": [\n{snapshots}\n ]')
        with atomic_write(self.path(run)) as file:
            file.write(f"{text}\n".encode())

    def put_arrays(
        self, run: Run, arrays: Mapping[str, NDArray[Any]] | None, suffix: str = ".npz"
    ) -> None:
        """Store arrays next to the result (those of the last snapshot); None removes old ones."""
        path = self.path(run).with_suffix(suffix)
        if arrays is None:
            path.unlink(missing_ok=True)
            return
        with atomic_write(path) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    def put_encoders(self, run: Run, state: Mapping[str, Any] | None) -> None:
        """Store trained encoders next to the result; None removes old ones.

        They are read by ``torch.load(…, weights_only=True)``.
        """
        path = self.path(run).with_suffix(ENCODERS)
        if state is None:
            path.unlink(missing_ok=True)
            return
        with atomic_write(path) as file:
            torch.save(state, file)

    def rows(self) -> Iterator[RunResult]:
        """All results in the folder, sorted by the names of their runs.

        Raises:
            InputError: if a file is damaged; names it.
        """
        for _, result in self.files():
            yield result

    def files(self) -> Iterator[tuple[Path, RunResult]]:
        """All results, as :meth:`rows` gives them, each with the file that it is in."""
        singles = {path.stem: path for path in self.folder.glob("[!.]*_seed*.json")}
        for key in sorted(singles.keys() | self._compact.keys()):
            if key in singles:
                yield singles[key], read_result(singles[key])
            else:
                yield self.folder / COMPACT, self._compact[key]

    @contextlib.contextmanager
    def lock(self, run: Run) -> Iterator[bool]:
        """Keep other processes from training a run; yields False if one of them does."""
        path = self.path(run)
        lock = path.with_name(f".{path.name}.lock")
        with locked(lock) as mine:
            if mine:
                for leftover in path.parent.glob(f".{glob.escape(path.stem)}.*"):
                    if leftover != lock:  # half-written when a process was killed
                        leftover.unlink(missing_ok=True)
            yield mine

    def compact(self) -> int:
        """Move the single files into the compact form; of two results of a run the newer is kept.

        Returns:
            Results in the compact form.

        Raises:
            InputError: if the folder cannot be written to, a file is damaged, or another process
                compacts it.
        """
        check_writable(self.folder)
        with locked(self.folder / f".{COMPACT}.lock") as mine:
            if not mine:
                raise InputError(f"{self.folder} is being compacted by another command")
            self.__dict__.pop("_compact", None)  # another process may have written it since
            results = {found.name: found for found in self._compact.values()}
            singles = sorted(self.folder.glob("[!.]*_seed*.json"))
            for path in singles:
                found = read_result(path)
                known = results.get(found.name)
                if known is None or found.finished >= known.finished:
                    results[found.name] = found
            with atomic_write(self.folder / COMPACT) as file:
                rows = {key: asdict(result) for key, result in results.items()}
                for row in rows.values():
                    if row["knn"] is None:
                        del row["knn"]
                file.writelines(f"{line}\n".encode() for line in compact_lines(rows, SHARED))
            for path in singles:
                path.unlink()
            self.__dict__.pop("_compact", None)
            return len(results)

    @cached_property
    def _compact(self) -> Mapping[str, RunResult]:
        return dict(compact_rows(self.folder / COMPACT, SHARED, _result_of))


def read_result(path: Path) -> RunResult:
    """The result in a single file.

    Raises:
        InputError: if it cannot be used; says why.
    """
    found = _read(path)
    if isinstance(found, str):
        raise InputError(f"{path} {found}: remove it, or run its command again")
    return found


def read_compact(path: Path) -> list[RunResult]:
    """The results in a file of the compact form.

    Raises:
        InputError: if it cannot be used; names the line.
    """
    return [result for _, result in compact_rows(path, SHARED, _result_of)]


def _result_of(row: dict[str, Any]) -> RunResult:
    missing: dict[str, Any] = {"fold_accuracies": [], "fold_c": [], "final_losses": []}
    return RunResult(**missing | row)


def _is_whole(result: RunResult, run: Run) -> bool:
    try:
        return (
            all(isinstance(a, (int, float)) and 0 <= a <= 100 for a in result.fold_accuracies)
            and len(result.fold_accuracies) == run.config.n_scores
            and isinstance(result.finished, str)
            and isinstance(result.data, dict)
            and all("epoch" in one and "settings" in one for one in result.diagnostics)
            and result.run == run
        )
    except (InputError, TypeError, AttributeError):
        return False


def _read(path: Path) -> RunResult | str:
    """The result in a single file, or why it cannot be used."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        version = stored.pop("schema_version")
        if version == SCHEMA_VERSION:
            return RunResult(**stored)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "is half-written or damaged"
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise _other_schema(path, version)
    return f"is of the older schema {version}"


def compact_lines(
    rows: Mapping[str, Mapping[str, Any]], shared_fields: Sequence[str]
) -> Iterator[str]:
    """Lines of the compact form: shared values first, then the runs in order of their names.

    Args:
        rows: JSON-like results by name.
        shared_fields: fields that many have in common; each of their values is stated once.
    """
    yield json_text({"schema_version": SCHEMA_VERSION})
    numbers: dict[tuple[str, str], int] = {}
    counts = dict.fromkeys(shared_fields, 0)
    for key in sorted(rows):
        for name in shared_fields:
            value = json_text(rows[key][name])
            if (name, value) not in numbers:
                numbers[name, value] = counts[name]
                counts[name] += 1
                yield f'{{"{name}": {value}}}'
    for key in sorted(rows):
        row = dict(rows[key])
        row |= {name: numbers[name, json_text(row[name])] for name in shared_fields}
        yield json_text(
            {"run": key, **{k: v for k, v in row.items() if v != [] and v is not False}}
        )


R = TypeVar("R")


def compact_rows(
    path: Path, shared_fields: Sequence[str], make: Callable[[dict[str, Any]], R]
) -> Iterable[tuple[str, R]]:
    """Names and results in a file of the compact form; none if there is no file.

    Args:
        path: the file.
        shared_fields: as it was written with.
        make: makes a result of its fields.

    Raises:
        InputError: if it cannot be used; names the line.
    """
    with reading(path, "a file of results"):
        if not path.is_file():
            return
        text = path.read_text(encoding="utf-8")
    shared: dict[str, list[Any]] = {name: [] for name in shared_fields}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            stored = json.loads(line)
            if "schema_version" in stored:
                if stored["schema_version"] != SCHEMA_VERSION:
                    raise _other_schema(path, stored["schema_version"])
            elif (key := stored.pop("run", None)) is None:
                ((name, value),) = stored.items()
                shared[name].append(value)
            else:
                of_all = {name: shared[name][stored[name]] for name in shared_fields}
                yield key, make(stored | of_all)
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise InputError(
                f"{path}, line {number}, is torn or damaged ({type(error).__name__}): restore the "
                f"file, or remove the line"
            ) from error


def _other_schema(path: Path, version: Any) -> InputError:
    return InputError(
        f"{path} is of schema {version}, and this version writes {SCHEMA_VERSION}: upgrade "
        f"gcl_hard, or give another --output"
    )
