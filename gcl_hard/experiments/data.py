"""The graph sets of a command: loaded when needed, and told apart without loading them."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from gcl_hard.experiments.config import CellConfig
from gcl_hard.experiments.records import write_json
from gcl_hard.graphs.batches import GraphSet
from gcl_hard.graphs.datasets import load, locate
from gcl_hard.places import cache_root


class Data:
    """Graph sets by cell, each read once.

    Args:
        data_dir: an offline mirror of TU archives, or None.
        device: where training happens.
        source: a digest of the source that reads the sets: what was known of a set is known for
            this source only.
    """

    def __init__(self, data_dir: Path | None, device: torch.device, source: str) -> None:
        self._data_dir = data_dir
        self._device = device
        self._source = source
        self._sets: dict[tuple[str, str], GraphSet] = {}
        self._facts: dict[tuple[str, str], dict[str, Any]] = {}

    def graphs(self, cell: CellConfig) -> GraphSet:
        """The set of a cell, on the device.

        Raises:
            InputError: if it cannot be had or lacks the features asked for.
        """
        key = cell.dataset, cell.features
        if key not in self._sets:
            graphs = load(cell.dataset, data_dir=self._data_dir, features=cell.features)
            self._sets[key] = graphs.to(self._device)
        return self._sets[key]

    def facts(self, cell: CellConfig) -> dict[str, Any]:
        """What a record says of its set; the digest tells two sets of one name apart.

        A finished table is read back without its sets being parsed: the digest of a file is
        remembered in the cache, for as long as neither the file nor this package changes.

        Raises:
            InputError: if the set cannot be had.
        """
        key = cell.dataset, cell.features
        if key not in self._facts:
            memory = Memory(cache_root() / "facts.json")
            known_as = self._fingerprint(cell)
            found = memory.get(known_as)
            if found is None:
                found = facts(self.graphs(cell))
                memory.put(known_as, found)
            self._facts[key] = found
        return self._facts[key]

    def size(self, cell: CellConfig) -> tuple[int, int]:
        """Nodes and graphs."""
        graphs = self.graphs(cell)
        return graphs.n_nodes, graphs.n_graphs

    def _fingerprint(self, cell: CellConfig) -> str:
        path = locate(cell.dataset, data_dir=self._data_dir).resolve()
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        stamps = [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files]
        text = json.dumps([cell.dataset, cell.features, self._source, stamps])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def facts(graphs: GraphSet) -> dict[str, Any]:
    """Sizes, the resolved kind of features, and a digest of the graphs themselves."""
    digest = hashlib.sha256()
    for tensor in (graphs.x, graphs.edge_index, graphs.y, graphs.node_ptr):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return {
        "n_graphs": graphs.n_graphs,
        "n_classes": graphs.n_classes,
        "n_features": graphs.n_features,
        "features": graphs.features,
        "digest": digest.hexdigest()[:16],
    }


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
