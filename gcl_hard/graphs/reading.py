"""Raw TUDataset text files, as a folder or a zip, into tensors; zips are read in memory."""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gcl_hard.errors import InputError

Array = npt.NDArray[Any]

REQUIRED = ("A", "graph_indicator", "graph_labels")
OPTIONAL = ("node_labels", "node_attributes", "edge_labels", "edge_attributes")


@dataclass(frozen=True, eq=False)
class RawGraphs:
    """A graph classification set as its files state it, before node features are chosen.

    Attributes:
        edge_index: int64 [2, E], global node ids, sorted by source node; no loops, no repeats.
        node_ptr: int64 [G + 1]; graph g owns the nodes node_ptr[g] to node_ptr[g + 1] - 1.
        edge_ptr: int64 [G + 1]; the same for edges.
        y: int64 [G] in 0..C-1, in the order of the labels in the file.
        node_labels: float32 [N, L] one-hot, or None.
        node_attributes: float32 [N, A], or None.
        edge_labels: float32 [E, K] one-hot, or None.
        edge_attributes: float32 [E, D], or None.
    """

    edge_index: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    y: Tensor
    node_labels: Tensor | None
    node_attributes: Tensor | None
    edge_labels: Tensor | None
    edge_attributes: Tensor | None


def read_texts(path: Path, name: str) -> dict[str, str]:
    """The texts of a set's raw files, keyed by the part of their name after ``NAME_``.

    Args:
        path: a folder with the files (flat or in ``raw/``), or a zip with them (flat or in
            ``NAME/``). Nothing is unpacked to disk, so no member can land outside a folder.
        name: the set's name, as its files spell it.

    Returns:
        Text by key; every key of ``REQUIRED`` is there, those of ``OPTIONAL`` when found.

    Raises:
        InputError: the zip is damaged, a required file is missing, or a file is not text.

    Example:
        >>> import gcl_hard.graphs.sources as sources
        >>> sorted(read_texts(sources.PACKAGED / "MUTAG.zip", "MUTAG"))
        ['A', 'edge_labels', 'graph_indicator', 'graph_labels', 'node_labels']
    """
    wanted = {key: f"{name}_{key}.txt" for key in (*REQUIRED, *OPTIONAL)}
    try:
        raw = _from_folder(path, wanted) if path.is_dir() else _from_zip(path, name, wanted)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise InputError(
            f"{path} cannot be read: {error}; replace it by an intact copy (or delete it to have "
            f"the set downloaded again)"
        ) from error
    missing = [wanted[key] for key in REQUIRED if key not in raw]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; a set needs all of them")
    try:
        return {key: content.decode() for key, content in raw.items()}
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: a {name}_*.txt file is not text: {error}") from error


def _from_folder(path: Path, wanted: dict[str, str]) -> dict[str, bytes]:
    folders = (path, path / "raw")
    return {
        key: (folder / file).read_bytes()
        for folder in folders
        for key, file in wanted.items()
        if (folder / file).is_file()
    }


def _from_zip(path: Path, name: str, wanted: dict[str, str]) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        members = set(archive.namelist())
        places = {key: (f"{name}/{file}", file) for key, file in wanted.items()}
        return {
            key: archive.read(next(place for place in options if place in members))
            for key, options in places.items()
            if members.intersection(options)
        }


def parse(texts: dict[str, str], origin: str) -> RawGraphs:
    """Parse and check the texts of one set.

    Self loops and repeated edges are removed (the first of a repeat keeps its attributes), label
    columns start at their smallest value: the same conventions as PyTorch Geometric's reader.

    Args:
        texts: what :func:`read_texts` returned.
        origin: where they come from, for messages.

    Returns:
        The set.

    Raises:
        InputError: a file is not numeric, has the wrong length, or contradicts another one.

    Source:
        File format: https://chrsmrrs.github.io/datasets/docs/format/

    Example:
        >>> texts = {"A": "1,2\\n2,1", "graph_indicator": "1\\n1\\n2", "graph_labels": "5\\n7"}
        >>> raw = parse(texts, "an example")
        >>> raw.y.tolist(), raw.node_ptr.tolist(), raw.edge_index.tolist()
        ([0, 1], [0, 2, 3], [[0, 1], [1, 0]])
    """
    tables = {key: _table(text, key, origin) for key, text in texts.items()}
    n_nodes, n_edges = len(tables["graph_indicator"]), len(tables["A"])
    graph = tables["graph_indicator"][:, 0] - 1
    n_graphs = len(tables["graph_labels"])
    if graph[0] != 0 or not np.isin(np.diff(graph), (0, 1)).all():
        raise InputError(f"{origin}: graph_indicator must count 1, 1, ..., 2, ... without gaps")
    if graph[-1] + 1 != n_graphs:
        raise InputError(
            f"{origin}: graph_labels has {n_graphs} lines, graph_indicator {graph[-1] + 1} graphs"
        )
    for key, table in tables.items():
        expected = {"node": n_nodes, "edge": n_edges}.get(key.split("_")[0], len(table))
        if len(table) != expected:
            raise InputError(f"{origin}: {key} has {len(table)} lines, expected {expected}")

    edges, first = _edges(tables["A"], graph, origin)
    node_ptr = np.searchsorted(graph, np.arange(n_graphs + 1))
    edge_ptr = np.searchsorted(edges[0], node_ptr)
    return RawGraphs(
        edge_index=torch.from_numpy(edges),
        node_ptr=torch.from_numpy(node_ptr),
        edge_ptr=torch.from_numpy(edge_ptr),
        y=torch.from_numpy(np.unique(tables["graph_labels"][:, 0], return_inverse=True)[1]),
        node_labels=_one_hot(tables.get("node_labels")),
        node_attributes=_real(tables.get("node_attributes")),
        edge_labels=_one_hot(tables.get("edge_labels"), first),
        edge_attributes=_real(tables.get("edge_attributes"), first),
    )


def _table(text: str, key: str, origin: str) -> Array:
    if not text.strip():
        if key == "A":
            return np.empty((0, 2), dtype=np.int64)
        raise InputError(f"{origin}: {key} is empty")
    dtype = np.float64 if key.endswith("attributes") else np.int64
    try:
        table = np.loadtxt(io.StringIO(text), dtype=dtype, delimiter=",", comments=None, ndmin=2)
    except (ValueError, OverflowError) as error:
        kind = "numbers" if dtype is np.float64 else "integers"
        raise InputError(f"{origin}: {key} must hold {kind} only: {error}") from error
    if not np.isfinite(table).all():
        raise InputError(f"{origin}: {key} holds NaN or infinite values; only finite ones will do")
    columns = {"A": 2, "graph_indicator": 1, "graph_labels": 1}.get(key, table.shape[1])
    if table.shape[1] != columns:
        raise InputError(f"{origin}: {key} has {table.shape[1]} columns, expected {columns}")
    return table


def _edges(table: Array, graph: Array, origin: str) -> tuple[Array, Array]:
    """Loop-free edges without repeats, sorted, as [2, E]; and the line each was first on."""
    n_nodes = len(graph)
    pairs = table - 1
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < n_nodes):
        raise InputError(f"{origin}: A names nodes outside 1..{n_nodes}")
    if (graph[pairs[:, 0]] != graph[pairs[:, 1]]).any():
        raise InputError(f"{origin}: A has edges between different graphs")
    lines = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
    codes, position = np.unique(pairs[lines] @ np.array([n_nodes, 1]), return_index=True)
    return np.stack([codes // n_nodes, codes % n_nodes]), lines[position]


def _one_hot(table: Array | None, rows: Array | None = None) -> Tensor | None:
    """One block of columns per label column, one column per value from the smallest on."""
    if table is None or not len(table):
        return None
    values = torch.from_numpy(table - table.min(axis=0))
    blocks = [torch.nn.functional.one_hot(column) for column in values.unbind(1)]
    encoded = torch.cat(blocks, dim=1).float()
    return encoded if rows is None else encoded[torch.from_numpy(rows)]


def _real(table: Array | None, rows: Array | None = None) -> Tensor | None:
    if table is None:
        return None
    return torch.from_numpy(table if rows is None else table[rows]).float()
