"""Checkpoints of a training run: written atomically; on a CPU a resumed run has the same bits."""

from __future__ import annotations

import glob
import json
import math
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gcl_hard.errors import InputError, check_number
from gcl_hard.files.io import atomic_write, reading
from gcl_hard.files.stored import load_torch, unlike

__all__ = [
    "Checkpoint",
]

SCHEMA_VERSION = 2
MOST_NAMED = 5  # differing settings listed in a message

State = dict[str, Any]


class Checkpoint:
    """One run's state on disk.

    Args:
        path: path of the file.
        run: description of the run, JSON-like; a file of another run is refused.
        resume: whether to continue from an existing file; otherwise it is overwritten.
        every: least seconds between two writes, ≥ 0; 0 writes after every step.

    Attributes:
        notes: JSON-like, the caller's own; saved with the state and restored in place.
        stopping: whether :meth:`stop` was called.

    Raises:
        InputError: for ``every`` below 0.

    Example:
        >>> checkpoint = Checkpoint(Path("run.ckpt"), {"lr": 0.1}, resume=True)
        >>> checkpoint.load() is None  # there is none yet
        True
    """

    def __init__(
        self, path: Path, run: Mapping[str, Any], *, resume: bool = False, every: float = 600.0
    ) -> None:
        if every != math.inf:
            check_number("every", every, least=0)
        self.path = path
        self.run: dict[str, Any] = _as_json("run", dict(run))
        self.resume = resume
        self.every = every
        self.notes: dict[str, Any] = {}
        self.stopping = False
        self._last = time.monotonic()

    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.exists()

    def remove(self) -> None:
        """Remove the file, if there is one."""
        self.path.unlink(missing_ok=True)
        self._sweep()

    def stop(self) -> None:
        """Let training save after its current step, and end by KeyboardInterrupt.

        Signal handlers may call it. Of processes that train together the first saves and ends; the
        others end with it.

        Example:
            >>> import signal
            >>> checkpoint = Checkpoint(Path("run.ckpt"), {"lr": 0.1}, resume=True)
            >>> before = signal.signal(signal.SIGTERM, lambda *_: checkpoint.stop())
            >>> _ = signal.signal(signal.SIGTERM, before)  # after training
        """
        self.stopping = True

    def due(self) -> bool:
        """Whether to write now: enough time has passed since the last write, or it must stop."""
        return self.stopping or time.monotonic() - self._last >= self.every

    def save(self, state: State) -> None:
        """Write a state atomically.

        Args:
            state: tensors, numbers and strings in plain containers.

        Raises:
            InputError: if the file cannot be written; names it.
        """
        whole = {
            "schema_version": SCHEMA_VERSION,
            "torch": str(torch.__version__),
            "run": self.run,
            "notes": _as_json("notes", self.notes),
            "state": state,
        }
        self._sweep()
        with atomic_write(self.path) as file:
            torch.save(whole, file)
        self._last = time.monotonic()

    def _sweep(self) -> None:
        """Remove half-written files of killed processes."""
        for leftover in self.path.parent.glob(f".{glob.escape(self.path.name)}.*"):
            leftover.unlink(missing_ok=True)

    def load(self) -> State | None:
        """The saved state, or None without one or without ``resume``.

        Raises:
            InputError: for a file that is no complete checkpoint, has another version, or belongs
                to another run; says which, and what to do.
        """
        if not self.resume or not self.exists():
            return None
        kind, remedy = "a checkpoint", ": remove it to start over"
        whole = load_torch(self.path, kind, {"schema_version": int}, remedy)
        version = whole["schema_version"]
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{self.path} has checkpoint version {version}, not {SCHEMA_VERSION}: upgrade "
                f"gcl_hard, or remove the file to start over"
            )
        with reading(self.path, kind, remedy):
            if why := unlike(whole, {"run": dict, "notes": dict, "state": dict}):
                raise ValueError(why)
            run = whole["run"]
            is_ours = bool(run == self.run)
        if not is_ours:
            raise InputError(
                f"{self.path} belongs to another run: {differences(run, self.run)}; run with its "
                f"settings, or remove it to start over"
            )
        self.notes |= whole["notes"]
        self._last = time.monotonic()
        return whole["state"]


def random_state() -> State:
    """States of Python's, NumPy's and PyTorch's random generators."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002 - users may draw from it
    version, internal, gauss = random.getstate()
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],  # type: ignore[no-untyped-call]
    }


def restore_random_state(state: State) -> None:
    """Set the generators to what :func:`random_state` returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state["numpy"]
    if not 0 <= rest[0] <= len(keys):
        raise ValueError(f"a generator at position {rest[0]} of {len(keys)}")
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.device_count() >= len(state["cuda"]):
        torch.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def fits(path: Path, part: str) -> Iterator[None]:
    """Turn errors of loading a part of a state into an InputError that names the file."""
    try:
        yield
    except Exception as error:
        # For a model the second line names the weight.
        lines = str(error).split("\n")
        raise InputError(
            f"{path}: its {part} does not match the current training "
            f"({lines[:2][-1].strip()}); remove it to start over"
        ) from error


def _as_json(name: str, value: dict[str, Any]) -> Any:
    """A value after a round trip through JSON."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be strings and numbers in plain containers, as in JSON: {error}"
        ) from error


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Differences between two descriptions of runs, in words, nested ones included.

    Example:
        >>> differences({"config": {"lr": 0.1, "n": 1}}, {"config": {"lr": 0.2, "n": 1}})
        'lr 0.1 there, 0.2 here'
    """
    unset = "not set"
    theirs, ours = _flat(theirs), _flat(ours)
    names = [n for n in (*ours, *theirs) if theirs.get(n, unset) != ours.get(n, unset)]
    names = list(dict.fromkeys(names))
    changes = [
        f"{n} {theirs.get(n, unset)} there, {ours.get(n, unset)} here" for n in names[:MOST_NAMED]
    ]
    more = len(names) - MOST_NAMED
    return ", ".join(changes) + (f", and {more} more" if more > 0 else "")


def _flat(nested: dict[str, Any]) -> dict[str, Any]:
    """A dictionary with nested ones flattened."""
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        inner = _flat(value) if isinstance(value, dict) and value else {}
        flat |= {
            key if key not in (flat | nested) else f"{name}.{key}": inner_value
            for key, inner_value in inner.items()
        } or {name: value}
    return flat
