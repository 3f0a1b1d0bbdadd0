"""Loading of TUDataset sets by name: search or download, parsing and validation."""

from __future__ import annotations

import io
import os
import re
import warnings
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gcl_hard.errors import InputError
from gcl_hard.files import locating
from gcl_hard.files.io import reading
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.graphs import (
    ALIASES,
    MANIFEST,
    OPTIONAL,
    PACKAGED,
    REQUIRED,
    Sizes,
    canonical_name,
    files_of,
    in_folder,
    members,
)
from gcl_hard.graphs.attributes import Attributes
from gcl_hard.graphs.data import GraphSet, RawGraphs
from gcl_hard.graphs.features import check_kind

Array = npt.NDArray[Any]

SITE = "https://www.chrsmrrs.com/graphkerneldatasets"

EVERY = slice(None)
MOST_LABELS = 10_000  # values of a column, each a feature


def load_graphs(
    name: str | Path,
    *,
    data_dir: str | Path | None = None,
    features: str = "auto",
    download: bool = True,
    cache_dir: str | Path | None = None,
) -> GraphSet:
    """A graph classification set of the TUDataset collection.

    It is searched as ``NAME/`` or ``NAME.zip`` in the data folder, the cache and the package
    (MUTAG), and otherwise downloaded into the cache. Its files may be in any single folder in
    there, in any case.

    Args:
        name: PTC_MR (PTC), MUTAG, ENZYMES, IMDB-BINARY (IMDB-B), IMDB-MULTI (IMDB-M), or any
            other TUDataset classification set.
        data_dir: the data folder; by default that of ``GCL_HARD_DATA``.
        features: a kind of :data:`gcl_hard.graphs.features.KINDS`.
        download: whether the network may be used.
        cache_dir: root of the cache, as for :func:`gcl_hard.files.io.cache_root`; sets are in
            its ``tu``.

    Returns:
        The set, on the CPU.

    Raises:
        InputError: if the set cannot be found, its files are damaged or contradict each other or
            the manifest, an edge is listed in one direction only, or the set lacks the requested
            features.

    Warns:
        UserWarning: names unread files of the set, such as NAME_graph_attributes.txt.

    Source:
        Morris et al. 2020, "TUDataset: A collection of benchmark datasets for learning with
        graphs", https://chrsmrrs.github.io/datasets

    Example:
        >>> mutag = load_graphs("mutag", download=False)
        >>> mutag.n_graphs, mutag.n_features, mutag.features, mutag.class_counts.tolist()
        (188, 7, 'labels', [63, 125])
    """
    check_kind(features)
    name = canonical_name(os.fspath(name))
    path = locate(name, data_dir=data_dir, download=download, cache_dir=cache_dir)
    raw = parse(read_texts(path, name), origin=str(path))
    _check_sizes(name, raw, path)
    return GraphSet.from_raw(raw, name=name, features=features)


def lacks_edge_labels(name: str) -> bool:
    """Whether a known set has no edge labels, without reading it.

    Example:
        >>> lacks_edge_labels("IMDB-B"), lacks_edge_labels("MUTAG"), lacks_edge_labels("PROTEINS")
        (True, False, False)
    """
    known = MANIFEST.get(canonical_name(name))
    return known is not None and not known.edge_labels


def paths(name: str, *, data_dir: str | Path | None = None) -> list[Path]:
    """The archive that a set is read from, or the files of an unpacked one."""
    return locating.members(locate(name, data_dir=data_dir))


def locate(
    name: str,
    *,
    data_dir: str | Path | None = None,
    download: bool = True,
    cache_dir: str | Path | None = None,
) -> Path:
    """Path of the zip or folder of a set, downloaded if necessary.

    Args:
        name: name of the set; this and the other arguments are those of :func:`load_graphs`.
        data_dir: a folder with ``NAME/`` or ``NAME.zip``.
        download: whether the network may be used.
        cache_dir: root of the cache.

    Returns:
        An existing path.

    Raises:
        InputError: if the data folder does not exist, or the set cannot be found; the message
            lists the searched paths, where to put the file, and what works offline.

    Example:
        >>> locate("mutag", download=False).stem
        'MUTAG'
    """
    name = canonical_name(name)
    places = locating.folders("tu", data_dir=data_dir, cache_dir=cache_dir, files="NAME.zip files")
    url = f"{SITE}/{name}.zip"
    wanted = Wanted(
        look=partial(in_folder, name=name),
        lacks=partial(_absence, name=name),
        headline=locating.headline(
            "dataset", name, [*MANIFEST, *ALIASES], "TUDataset name needs its zip"
        ),
        put=[(url, f"{name}.zip")],
        hint="MUTAG is in the package and works offline; there, images and the nodes of one graph "
        "are a NAME.npz, images also NAME/train/CLASS/* and NAME/test/CLASS/*, links "
        "NAME/train.txt",
        download=Download(url, f"{name}.zip"),
    )
    return locating.locate(wanted, places | {"package": PACKAGED}, download=download)


def _check_sizes(name: str, raw: RawGraphs, path: Path) -> None:
    if name not in MANIFEST:
        return
    n_nodes, n_classes = int(raw.node_ptr[-1]), int(raw.y.max()) + 1
    labels = (raw.nodes.labels, raw.nodes.numbers, raw.edges.labels)
    columns = [0 if block is None else block.shape[1] for block in labels]
    got = Sizes(raw.y.numel(), n_nodes, raw.edge_index.shape[1], n_classes, *columns)
    wrong = [
        f"{size} {field.replace('_', ' ')} where {name} has {expected}"
        for field, size, expected in zip(Sizes._fields, got, MANIFEST[name], strict=True)
        if size != expected
    ]
    if wrong:
        raise InputError(f"{path} is not the TUDataset's {name}: {'; '.join(wrong)}")


def _absence(folder: Path, name: str) -> str:
    """What is missing in a folder, and what it has instead."""
    if files_of((path.name for path in folder.glob("*")), name):
        return f"{name}_*.txt files, which belong in {name}/ there"
    empty = f"no {name}_*.txt in {name}/" if (folder / name).is_dir() else f"no {name}/"
    return f"{empty}, no {name}.zip"


def read_texts(path: Path, name: str) -> dict[str, str]:
    """Read the raw files of a set; the keys are the parts of their names after ``NAME_``.

    Args:
        path: a folder or zip with all the files in it or in one folder inside; a zip is read in
            memory.
        name: name of the set, as its files spell it in any case.

    Returns:
        Text by key: all of ``REQUIRED``, and those of ``OPTIONAL`` that exist.

    Raises:
        InputError: if the zip is damaged, files are in several folders, a required file is missing,
            or a file is not text.

    Warns:
        UserWarning: names unread files ``NAME_*.txt``.

    Example:
        >>> sorted(read_texts(PACKAGED / "MUTAG.zip", "MUTAG"))
        ['A', 'edge_labels', 'graph_indicator', 'graph_labels', 'node_labels']
    """
    with reading(path, "a set of TUDataset", ": replace it by an intact copy"):
        if path.is_dir():
            files = _chosen(members(path), path, name)
            return {key: (path / file).read_text("utf-8") for key, file in files.items()}
        with zipfile.ZipFile(path) as archive:
            files = _chosen(archive.namelist(), path, name)
            return {key: archive.read(file).decode() for key, file in files.items()}


def _chosen(paths: Sequence[str], path: Path, name: str) -> dict[str, str]:
    """The file of each key; all of one folder, and a warning of those that are not read."""
    files = files_of(paths, name)
    read = [file for several in files.values() for file in several]
    folders = sorted({file.rpartition("/")[0] or "." for file in read})
    if len(folders) > 1:
        raise InputError(
            f"{path} holds {name}_*.txt files in {len(folders)} folders, "
            f"{', '.join(f'{folder}/' for folder in folders)}: keep those of one folder"
        )
    for several in files.values():
        if len(several) > 1:
            raise InputError(f"{path} holds {' and '.join(several)}: keep one of them")
    missing = [f"{name}_{key}.txt" for key in REQUIRED if key not in files]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; a set needs all of them")
    alike = re.compile(rf"{re.escape(name)}_(?!.*readme).*\.txt", re.IGNORECASE)
    others = {file.rpartition("/")[2] for file in paths if file not in read}
    if unread := sorted(filter(alike.fullmatch, others)):
        warnings.warn(
            f"files of {name} in {path} that are not read: {', '.join(unread)}; read are "
            f"{', '.join((*REQUIRED, *OPTIONAL))}",
            stacklevel=4,
        )
    return {key: file for key, (file,) in files.items()}


def parse(texts: dict[str, str], origin: str) -> RawGraphs:
    """Parse and check the raw files of a set.

    Self loops and repeated edges are removed (the first of a repeat keeps its attributes), one-hot
    labels start at the smallest value: the conventions of PyTorch Geometric's reader.

    Args:
        texts: from :func:`read_texts`.
        origin: their path, for messages.

    Returns:
        The set.

    Raises:
        InputError: if a file is not numeric, has the wrong length, or contradicts another one; if
            an edge is listed in one direction only, or node ids may restart in every graph.

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
    labels, classes = np.unique(tables["graph_labels"][:, 0], return_inverse=True)
    return RawGraphs(
        edge_index=torch.from_numpy(edges),
        node_ptr=torch.from_numpy(node_ptr),
        edge_ptr=torch.from_numpy(edge_ptr),
        y=torch.from_numpy(classes),
        class_names=tuple(f"{label:g}" for label in labels),
        nodes=_attributes(tables, "node"),
        edges=_attributes(tables, "edge", first),
    )


def _table(text: str, key: str, origin: str) -> Array:
    if not text.strip():
        if key == "A":
            return np.empty((0, 2), dtype=np.int64)
        raise InputError(f"{origin}: {key} is empty")
    dtype = np.float64 if key.endswith("attributes") else np.int64
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # NumPy 1 only warns of 1.5
            table = np.loadtxt(io.StringIO(text), dtype, delimiter=",", comments=None, ndmin=2)
    except (ValueError, OverflowError, DeprecationWarning) as error:
        kind = "numbers" if dtype is np.float64 else "integers"
        raise InputError(f"{origin}: {key} must hold {kind} only: {error}") from error
    if not (np.abs(table) <= np.finfo(np.float32).max).all():
        raise InputError(
            f"{origin}: {key} holds values that are NaN or infinite in single precision; expected "
            f"finite ones"
        )
    columns = {"A": 2, "graph_indicator": 1, "graph_labels": 1}.get(key, table.shape[1])
    if table.shape[1] != columns:
        raise InputError(f"{origin}: {key} has {table.shape[1]} columns, expected {columns}")
    if key in ("node_labels", "edge_labels"):
        span = table.max(axis=0).astype(float) - table.min(axis=0)
        if (widest := int(span.max())) >= MOST_LABELS:
            raise InputError(
                f"{origin}: {key} are numbers up to {widest} apart, and each number between would "
                f"be a feature: renumber them 0, 1, … (at most {MOST_LABELS})"
            )
    return table


def _edges(table: Array, graph: Array, origin: str) -> tuple[Array, Array]:
    """Sorted edges [2, E] without loops and repeats, and the first line of each."""
    n_nodes = len(graph)
    pairs = table - 1
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < n_nodes):
        raise InputError(f"{origin}: A names nodes outside 1..{n_nodes}")
    _refuse_restart(pairs, graph, origin)
    if (graph[pairs[:, 0]] != graph[pairs[:, 1]]).any():
        raise InputError(
            f"{origin}: A has edges between different graphs; node ids continue from graph to "
            f"graph, like the lines of graph_indicator"
        )
    lines = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
    codes, position = np.unique(pairs[lines] @ np.array([n_nodes, 1]), return_index=True)
    edges, first = np.stack([codes // n_nodes, codes % n_nodes]), lines[position]
    alone = ~np.isin(edges[1] * n_nodes + edges[0], codes)
    if alone.any():
        line = int(first[alone].min())
        u, v = table[line]
        raise InputError(
            f"{origin}: {alone.sum()} of {len(codes)} edges of A are listed in one direction only, "
            f"in {len(np.unique(graph[edges[0, alone]]))} of {graph[-1] + 1} graphs, first {u}, "
            f"{v} in line {line + 1} without {v}, {u}: list both for undirected graphs, with their "
            f"labels and attributes; directed ones are read by GraphSet.from_graphs(TUDataset(…), "
            f"directed=True), with TUDataset of PyTorch Geometric"
        )
    return edges, first


def _refuse_restart(pairs: Array, graph: Array, origin: str) -> None:
    """Refuse edges whose node ids may restart in every graph.

    They may if some graphs have no edge, and lines of A repeat, none more often than there are
    graphs large enough for it.
    """
    sizes = np.bincount(graph)
    if not len(pairs) or pairs.max() >= sizes.max():
        return
    codes = pairs @ np.array([sizes.max(), 1])
    codes = codes[np.diff(codes, prepend=-1) != 0]  # consecutive repeats are an edge listed twice
    codes, times = np.unique(codes, return_counts=True)
    last = np.maximum(codes // sizes.max(), codes % sizes.max())
    large_enough = len(sizes) - np.searchsorted(np.sort(sizes), last, side="right")
    edgeless = np.setdiff1d(np.flatnonzero(sizes > 1), graph[pairs])
    if len(edgeless) and times.max() > 1 and (times <= large_enough).all():
        raise InputError(
            f"{origin}: {times.sum() - len(times)} lines of A repeat others, and {len(edgeless)} "
            f"of {len(sizes)} graphs, from graph {edgeless[0] + 1} on, have no edge: if node "
            f"ids restart in every graph, let them continue from graph to graph; if not, remove "
            f"the repeats"
        )


def _attributes(tables: dict[str, Array], level: str, rows: Array | slice = EVERY) -> Attributes:
    """Labels as a block of columns each, one per value from the smallest on, and numbers."""
    labels, numbers = (tables.get(f"{level}_{kind}") for kind in ("labels", "attributes"))
    attributes = Attributes()
    if labels is not None and len(labels):
        values = torch.from_numpy(labels - labels.min(axis=0))
        blocks = [torch.nn.functional.one_hot(column) for column in values.unbind(1)]
        prefixes = ["label"] if len(blocks) == 1 else [f"label{i}" for i in range(len(blocks))]
        starts = zip(prefixes, labels.min(axis=0).tolist(), blocks, strict=True)
        names = tuple(f"{p}={v + i}" for p, v, block in starts for i in range(block.shape[1]))
        attributes = Attributes(torch.cat(blocks, dim=1).float()[rows], names)
    if numbers is not None:
        names = tuple(f"attribute {i}" for i in range(numbers.shape[1]))
        columns = torch.from_numpy(numbers[rows]).float()
        attributes = attributes._replace(numbers=columns, number_names=names)
    return attributes
