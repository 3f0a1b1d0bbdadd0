"""Graphs whose nodes are classified, by name: found, downloaded or read from an npz file."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile

from gcl_hard.errors import InputError
from gcl_hard.files import locating
from gcl_hard.files.io import array_of, expanded, given_folder, opened_npz, texts_of
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.graphs.parts import PARTS
from gcl_hard.nodes import KNOWN, canonical_name, is_file, npz_files
from gcl_hard.nodes.data import NodeSet
from gcl_hard.nodes.sources import RawNodes, entries, from_object

NAMES = {"class_names", "node_names", "columns"}
"""Arrays of names that a file may have."""


def load_nodes(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
) -> NodeSet:
    """A graph with classes of its nodes.

    It is looked for in the data folder, as the npz file that is published or as ``NAME.npz``, then
    in the cache's ``nodes``, and otherwise downloaded there by PyTorch Geometric.

    Args:
        name: Cora, CiteSeer, PubMed, WikiCS, Photo, Computers, CS, Physics, Roman-empire,
            Amazon-ratings, Minesweeper, Tolokers or Questions, in any case; or any other NAME of a
            NAME.npz, or its path, for which see :func:`read_npz`.
        data_dir: the data folder; by default that of ``GCL_HARD_DATA``.
        cache_dir: root of the cache, as for :func:`gcl_hard.files.io.cache_root`.
        download: whether the network may be used.

    Returns:
        The set, on the CPU. Downloaded sets have the published splits of Planetoid (one), WikiCS
        and the heterophilous sets; an npz file has those in it, which of Cora, CiteSeer and PubMed
        are none.

    Raises:
        InputError: if the set cannot be found, or its file cannot be used.

    Source:
        :data:`KNOWN` names the publications.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(
        ...         Path(folder) / "path.npz", node_features=np.eye(4), node_labels=[0, 0, 1, 1],
        ...         edges=[[0, 1], [1, 2], [2, 3]],
        ...     )
        ...     load_nodes("path", data_dir=folder)
        NodeSet(path: 4 nodes with 4 features, 3 edges, 2 classes)
    """
    name = os.fspath(name)
    path = locate(name, data_dir=data_dir, cache_dir=cache_dir, download=download)
    if is_file(name):
        return read_npz(path)
    name = canonical_name(name)
    return read_npz(path, name=name) if path.is_file() else _from_cache(path, name)


def paths(name: str, *, data_dir: str | Path | None = None) -> list[Path]:
    """The files that a set is read from."""
    return locating.members(locate(name, data_dir=data_dir))


def table_paths(nodes: str, edges: str, *, data_dir: str | Path | None = None) -> list[Path]:
    """The files of a table of nodes and one of edges, in the data folder or by their paths."""
    folder = given_folder(data_dir, files="tables") or Path()
    files = [folder / expanded(nodes), folder / expanded(edges)]
    if absent := [str(path) for path in files if not path.is_file()]:
        raise InputError(f"there is no file {absent[0]}")
    return files


def locate(
    name: str,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
) -> Path:
    """The npz file of a set, or the folder that it was downloaded to; arguments of load_nodes.

    Raises:
        InputError: if it cannot be found; lists what was tried, and where to put which file.
    """
    if is_file(name):
        path = expanded(name)
        if not path.is_file():
            raise InputError(
                f"there is no file {path}: a file in the data folder is named without .npz, "
                f"{path.stem}"
            )
        return path
    name = canonical_name(name)
    places = locating.folders(
        "nodes", data_dir=data_dir, cache_dir=cache_dir, files="NAME.npz files"
    )
    known = KNOWN.get(name)
    put, published = [("a file of nodes", f"{name}.npz")], None
    if known is not None:
        if known.file:
            put = [(f"{known.url}/{known.file}", known.file)]
        published = Download(known.url, name, by=partial(_read_by_pyg, name=name))
    wanted = Wanted(
        look=partial(_in_folder, name=name, cache=places["cache"]),
        lacks=partial(_absence, name=name),
        headline=locating.headline("graph", name, KNOWN, f"needs its {name}.npz"),
        put=put,
        hint="no set of nodes is in the package: NodeSet.from_graph makes one of a graph of your "
        "own, such as networkx.karate_club_graph()",
        download=published,
    )
    return locating.locate(wanted, places, download=download)


def _in_folder(folder: Path, name: str, cache: Path) -> Path | None:
    """The npz file of a set in a folder, or in the cache the folder that it was downloaded to."""
    files = [path for path in npz_files(folder, name) if locating.npz_kind(path) in ("nodes", None)]
    exact = [path for path in files if path.stem == name]
    if (path := locating.single(exact or files, name)) is not None:
        return path
    processed = folder / name
    downloaded = folder == cache and name in KNOWN and any(processed.rglob("*.pt"))
    return processed if downloaded else None


def _absence(folder: Path, name: str) -> str:
    """What a folder lacks, and what there is instead."""
    known = KNOWN.get(name)
    files = [*dict.fromkeys([known.file if known else "", f"{name}.npz"])]
    others = "".join(f"; {path.name} holds images" for path in npz_files(folder, name))
    return f"no {' or '.join(filter(None, files))}{others}"


def _read_by_pyg(root: Path, name: str) -> Any:
    """The graph of a known set by its class in PyTorch Geometric, which downloads what it needs."""
    from torch_geometric import datasets

    known = KNOWN[name]
    # WikiCS, the only one without a name, is made symmetric here, where that is counted.
    arguments = {"name": known.named} if known.named else {"is_undirected": False}
    return getattr(datasets, known.reader)(str(root), **arguments)[0]


def _from_cache(folder: Path, name: str) -> NodeSet:
    graph = _read_by_pyg(folder, name)
    notes: tuple[str, ...] = ()
    if "stopping_mask" in graph:
        del graph.stopping_mask
        notes = ("nodes for early stopping (stopping_mask) belong to no part of the splits",)
    raw = from_object(graph, None, None, {})
    raw = replace(raw, notes=(*raw.notes, *notes))
    return _checked(NodeSet.from_raw(raw, name=name, where=f"{name} in {folder}"), str(folder))


def read_npz(path: str | Path, *, name: str | None = None) -> NodeSet:
    """A graph of an npz file in one of two published layouts; no pickle is loaded.

    - That of Shchur et al.: ``adj_data``, ``adj_indices``, ``adj_indptr`` and ``adj_shape``, the
      rows of the adjacency matrix in CSR format, whose entries are weights unless all are 1;
      ``attr_data``, …, likewise the features, or dense ones as ``attr_matrix``; ``labels``.
    - That of Platonov et al.: ``node_features`` [N, F], ``node_labels`` [N], and ``edges`` [E, 2],
      undirected ones listed once; perhaps ``edge_weight`` [E].

    Both may have ``train_masks``, ``val_masks`` and ``test_masks`` [S, N], ``class_names`` [C],
    ``columns`` [F], what the columns of features stand for, and ``node_names`` [N], numbers or
    words, by which embeddings are joined. Names are text, not Python objects.

    Args:
        path: the file.
        name: name of the set in results; that of the file if None. Of Photo, Computers, CS and
            Physics features above 0 are read as 1, as PyTorch Geometric does.

    Raises:
        InputError: for a file that cannot be read, or whose arrays do not fit.
    """
    path = Path(path)
    with opened_npz(path) as stored:
        if locating.npz_kind(path) != "nodes":
            raise InputError(
                f"{path} holds no graph with classes of nodes: it has "
                f"{', '.join(sorted(stored.files))}; expected adj_…, attr_… and labels, or "
                f"node_features, node_labels and edges"
            )
        raw = _csr_layout(stored, path) if "adj_indptr" in stored.files else _listed(stored, path)
    name = name or canonical_name(path.stem)
    if name in KNOWN and KNOWN[name].counts:
        raw = _as_presence(raw)
    return _checked(NodeSet.from_raw(raw, name=name, where=str(path)), str(path))


def _checked(nodes: NodeSet, where: str) -> NodeSet:
    """A set, if it has as many features and classes as the known set of its name."""
    known = KNOWN.get(nodes.name)
    if known is not None and (nodes.n_features, nodes.n_classes) != known[2:4]:
        raise InputError(
            f"{where} is not {nodes.name}: {nodes.n_features} features and {nodes.n_classes} "
            f"classes, where it has {known.n_features} and {known.n_classes}"
        )
    return nodes


def _csr_layout(stored: NpzFile, path: Path) -> RawNodes:
    adjacency = _csr(stored, path, "adj")
    n = adjacency.shape[0]
    if adjacency.shape != (n, n):
        raise InputError(
            f"{path}: adj_shape is {[*adjacency.shape]}; expected a square one, [N, N]"
        )
    if "attr_matrix" in stored.files:
        x, read = array_of(stored, path, "attr_matrix"), {"attr_matrix"}
    else:
        x, read = _csr(stored, path, "attr"), _members("attr")
    ends = np.stack([np.repeat(np.arange(n), np.diff(adjacency.indptr)), adjacency.indices])
    ends, weight, notes = entries(ends, adjacency.data)
    raw = RawNodes(x, ends, array_of(stored, path, "labels"), weight, n_nodes=n, notes=notes)
    return _with_others(raw, stored, path, {*read, *_members("adj"), "labels"})


def _listed(stored: NpzFile, path: Path) -> RawNodes:
    x, ends = (array_of(stored, path, key) for key in ("node_features", "edges"))
    weight = array_of(stored, path, "edge_weight") if "edge_weight" in stored.files else None
    raw = RawNodes(x, ends.T, array_of(stored, path, "node_labels"), weight, once=True)
    read = {"node_features", "edges", "node_labels", "edge_weight"}
    return _with_others(raw, stored, path, read)


def _with_others(raw: RawNodes, stored: NpzFile, path: Path, read: set[str]) -> RawNodes:
    """A graph with what both layouts may have, and the names of arrays that are left out."""
    stored_names = {*stored.files}
    masks = {part: f"{part}_masks" for part in PARTS if f"{part}_masks" in stored_names}
    notes, words = [*raw.notes], dict[str, tuple[Any, ...]]()
    for key in sorted(NAMES & stored_names):
        try:
            names = array_of(stored, path, key)
            numbers = key == "node_names" and names.dtype.kind in "iu"
            words[key] = tuple(names.tolist()) if numbers else texts_of(stored, path, key)
        except InputError as error:  # Python objects in the published files
            published = canonical_name(path.stem) in KNOWN
            if not (published and isinstance(error.__cause__, ValueError)):
                raise
            notes.append(f"{key} are not read, which are Python objects")
    left_out = stored_names - {*read, *masks.values(), *NAMES}
    if left_out:
        notes.append(f"arrays not read: {', '.join(sorted(left_out))}")
    return replace(
        raw, masks={part: array_of(stored, path, key) for part, key in masks.items()},
        class_names=words.get("class_names", ()), ids=words.get("node_names"),
        columns=words.get("columns", ()), notes=tuple(notes),
    )  # fmt: skip


def _members(part: str) -> set[str]:
    return {f"{part}_{field}" for field in ("data", "indices", "indptr", "shape")}


def _csr(stored: NpzFile, path: Path, part: str) -> Any:
    """A matrix of rows in CSR format, whose arrays are checked against each other."""
    from scipy import sparse

    data, indices, indptr, shape = (
        array_of(stored, path, f"{part}_{field}")
        for field in ("data", "indices", "indptr", "shape")
    )
    try:
        if {array.dtype.kind for array in (indices, indptr, shape)} - {"i", "u"}:
            raise InputError("indices, indptr and shape must be whole numbers")
        matrix = sparse.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise InputError(
            f"{path}: the arrays {part}_… are no matrix in CSR format: {error}"
        ) from error
    return matrix


def _as_presence(raw: RawNodes) -> RawNodes:
    """Features of counts as 0 and 1, and edges without weights, as PyTorch Geometric reads them."""
    from scipy import sparse

    x, notes = raw.x.copy(), list(raw.notes)
    values = x.data if sparse.issparse(x) else x
    if ((values > 0) & (values != 1)).any():
        notes.append("features above 0 read as 1, as PyTorch Geometric does")
    values[values > 0] = 1
    if raw.weight is not None:
        notes.append("weights of edges left out, as PyTorch Geometric does")
    return replace(raw, x=x, weight=None, notes=tuple(notes))
