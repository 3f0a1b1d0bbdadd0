"""The data sets of a command: loaded when needed, and told apart without loading them."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import torch

from gcl_hard.experiments.backends import backend_of
from gcl_hard.experiments.cell import Cell
from gcl_hard.experiments.place import DEFAULT_RUNNING, Running
from gcl_hard.experiments.records import write_json
from gcl_hard.io import cache_root


class Data:
    """Data sets by cell, each read once.

    Args:
        data_dir: an offline mirror, or None.
        device: where training happens.
        source: a digest of the source that reads the sets: what was known of a set is known for
            this source only.
        running: how seeds are run.
    """

    def __init__(
        self,
        data_dir: Path | None,
        device: torch.device,
        source: str,
        running: Running = DEFAULT_RUNNING,
    ) -> None:
        self._data_dir = data_dir
        self._device = device
        self._source = source
        self._running = running
        self._sets: dict[Hashable, Any] = {}
        self._facts: dict[Hashable, dict[str, Any]] = {}

    def of(self, cell: Cell) -> Any:
        """The data of a cell, on the device.

        Raises:
            InputError: if they cannot be had or lack what is asked for.
        """
        backend = backend_of(cell)
        key = cell.backend, backend.key(cell)
        if key not in self._sets:
            self._sets[key] = backend.load(cell, self._data_dir, self._device, self._running)
        return self._sets[key]

    def facts(self, cell: Cell) -> dict[str, Any]:
        """What a record says of its data; the digest tells two sets of one name apart.

        A finished table is read back without its sets being parsed: the digest of a file is
        remembered in the cache, for as long as neither the file nor this package changes.

        Raises:
            InputError: if the data cannot be had.
        """
        backend = backend_of(cell)
        key = cell.backend, backend.key(cell)
        if key not in self._facts:
            memory = Memory(cache_root() / "facts.json")
            known_as = self._fingerprint(cell)
            found = memory.get(known_as)
            if found is None:
                found = backend.facts(self.of(cell))
                memory.put(known_as, found)
            self._facts[key] = found
        return self._facts[key] | backend.resolved(cell, self._facts[key])

    def size(self, cell: Cell) -> tuple[int, int]:
        """What the cost of a cell is reckoned from."""
        return backend_of(cell).size(self.of(cell))

    def _fingerprint(self, cell: Cell) -> str:
        backend = backend_of(cell)
        files = [(str(f), f.stat()) for f in backend.files(cell, self._data_dir)]
        stamps = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in files]
        text = json.dumps([cell.backend, backend.key(cell), self._source, stamps])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Memory:
    """A small JSON file of what was worked out before; losing it costs time only."""

    LARGEST = 200  # entries; the oldest go first

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> dict[str, Any] | None:
        """What was put under a key."""
        found = self._read().get(key)
        return found if isinstance(found, dict) else None

    def put(self, key: str, value: dict[str, Any]) -> None:
        """Remember; a file that cannot be written is no error."""
        entries = [*self._read().items(), (key, value)][-self.LARGEST :]
        with contextlib.suppress(Exception):
            write_json(dict(entries), self._path)

    def _read(self) -> dict[str, Any]:
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stored if isinstance(stored, dict) else {}
