"""Graphs for node classification from PyTorch Geometric, NetworkX and SciPy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gcl_hard.core.ids import in_order
from gcl_hard.core.labels import as_array
from gcl_hard.errors import InputError, unknown
from gcl_hard.graphs.attributes import read_attributes
from gcl_hard.graphs.data import is_networkx, unread_of, warn_of_unread
from gcl_hard.graphs.parts import PARTS, Edges, Merge, as_rows, count, features, undirected

READ = {"edge_index", "adj_t", "edge_weight", "num_nodes", "x", "y", "train_mask", "val_mask",
        "test_mask"}  # fmt: skip
"""Attributes that are read from a graph of PyTorch Geometric."""


@dataclass(frozen=True, eq=False)
class RawNodes:
    """A graph with node classes as a source has it, unchecked.

    Attributes:
        x: features [N, F], dense or sparse.
        ends: the nodes at both ends of each edge, [2, e].
        y: labels [N], or None if no label is known.
        weight: weights of edges [e], or None.
        once: whether undirected edges are listed in one direction each.
        n_nodes: N, if the source states it apart from the features.
        masks: given splits, [N] or [S, N] by part.
        class_names: of the classes 0, 1, …, if the source has them.
        ids: names of the nodes, if the source has them.
        columns: names of the F feature columns, if the source has them.
        notes: what was left out.
        merge_weights: how several weights of an edge become one; None if they must agree.
    """

    x: Any
    ends: Any
    y: Any
    weight: Any = None
    once: bool = False
    n_nodes: int | None = None
    masks: Mapping[str, Any] = field(default_factory=dict)
    class_names: Sequence[str] = ()
    ids: tuple[Hashable, ...] | None = None
    columns: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    merge_weights: Merge | None = None


def read_graph(raw: RawNodes, where: str) -> tuple[Tensor, Edges]:
    """Checked features and edges of a graph.

    Args:
        raw: the graph as its source has it.
        where: its name in messages.

    Raises:
        InputError: for features or edges that do not fit.
    """
    x = features(raw.x, where)
    n_ids = None if raw.ids is None else len(raw.ids)
    for part, n in (("edges", raw.n_nodes), ("names", n_ids)):
        if n not in (None, len(x)):
            raise InputError(
                f"{where}: features x have {len(x)} rows, and there are {part} of {n} nodes"
            )
    return x, undirected(
        raw.ends, len(x), where,
        weight=raw.weight, once=raw.once, names=raw.ids, merge=raw.merge_weights,
    )  # fmt: skip


def from_object(graph: Any, x: Any, y: Any, masks: Mapping[str, Any]) -> RawNodes:
    """A graph of PyTorch Geometric, NetworkX, or a square matrix of SciPy.

    Objects of pandas are brought into the graph's order by their index.

    Args:
        graph: the graph.
        x: features in place of the graph's own, or None.
        y: likewise, labels.
        masks: likewise, by part.
    """
    raw = _unordered(graph, x, y, masks)
    columns = [*raw.columns]
    if hasattr(raw.x, "iloc") and hasattr(raw.x, "columns"):
        columns = [*raw.x.columns]
    if columns == [*range(len(columns))]:
        columns = []  # the numbers of a DataFrame without names
    return replace(
        raw, x=in_order(raw.x, raw.ids, "node", "features x"),
        y=in_order(raw.y, raw.ids, "node", "labels y"),
        masks={part: in_order(mask, raw.ids, "node", f"mask of {part}")
               for part, mask in raw.masks.items()},
        columns=tuple(map(str, columns)),
    )  # fmt: skip


def _unordered(graph: Any, x: Any, y: Any, masks: Mapping[str, Any]) -> RawNodes:
    """The graph with objects of pandas in their own order."""
    from scipy import sparse

    if sparse.issparse(graph):
        return _from_scipy(graph, x, y, masks)
    if is_networkx(graph):
        return _from_networkx(graph, x, y, masks)
    from torch_geometric.data import Dataset, HeteroData

    if isinstance(graph, Dataset):
        if len(graph) != 1:
            raise InputError(f"graph is a set of {len(graph)} graphs: give one, such as graph[0]")
        graph = graph[0]
    if isinstance(graph, HeteroData):
        raise InputError(
            "graph is a HeteroData with nodes of several types: give a graph of one type, such as "
            "graph.to_homogeneous()"
        )
    if not hasattr(graph, "edge_index") and not hasattr(graph, "adj_t"):
        raise InputError(
            f"graph has type {type(graph).__name__}; expected a torch_geometric.data.Data, a "
            f"NetworkX graph, or a square sparse matrix of SciPy with x and y"
        )
    return _from_data(graph, x, y, masks)


def _needed(value: Any, name: str, remedy: str) -> Any:
    if value is None:
        raise InputError(f"graph has no {name}: {remedy}")
    return value


def _features(x: Any) -> Any:
    return _needed(
        x, "features x of nodes",
        "give x, [N, F], or make it by torch_geometric.transforms, such as OneHotDegree or "
        "AddLaplacianEigenvectorPE",
    )  # fmt: skip


def _from_data(graph: Any, x: Any, y: Any, masks: Mapping[str, Any]) -> RawNodes:
    from torch_geometric.data.data import BaseData

    read = {*READ, *(x if _are_names(x) else ()), y if isinstance(y, str) else "y"}
    columns: tuple[str, ...] = ()
    if _are_names(x):
        x, columns = _named_features(graph.to_dict(), x, graph.num_nodes)
    if isinstance(y, str) and y not in graph:
        raise unknown("attribute of nodes", y, graph.keys())
    x = _features(getattr(graph, "x", None) if x is None else x)
    y = getattr(graph, "y" if y is None else y, None) if y is None or isinstance(y, str) else y
    names = "edge_index", "edge_weight", "adj_t"
    ends, weight, adjacency = (getattr(graph, name, None) for name in names)
    notes: tuple[str, ...] = ()
    if adjacency is not None and not (ends is None and weight is None):
        raise InputError(
            "graph has adj_t beside edge_index or edge_weight, which may differ: give one of them"
        )
    if ends is None:
        from torch_geometric.utils import to_edge_index

        adjacency = _needed(adjacency, "edge_index or adj_t", "give one of them")
        ends, weight, notes = entries(*to_edge_index(adjacency))
    if all(mask is None for mask in masks.values()):
        stored = {part: getattr(graph, f"{part}_mask", None) for part in PARTS}
        masks = {part: None if m is None else _split_rows(m) for part, m in stored.items()}
    warn_of_unread(unread_of(graph, read), of_edges="edge_weight", stacklevel=5)
    n_nodes = None if adjacency is None else adjacency.size(0)
    if isinstance(graph, BaseData) and "num_nodes" in graph:
        n_nodes = graph.num_nodes
    return RawNodes(x, ends, y, weight, n_nodes=n_nodes, masks=masks, columns=columns, notes=notes)


def _are_names(x: Any) -> bool:
    """Whether features are given by the names of attributes."""
    return isinstance(x, list | tuple) and len(x) > 0 and all(isinstance(name, str) for name in x)


def _named_features(
    fields: Mapping[str, Any], names: Sequence[str], n: int
) -> tuple[Tensor, tuple[str, ...]]:
    """Attributes of nodes as features, numbers before words, and the names of their columns."""
    read = read_attributes([fields], names, [n], "node", whole=True)
    blocks = [block for block in (read.numbers, read.labels) if block is not None]
    return torch.cat(blocks, 1), read.number_names + read.label_names


def _split_rows(mask: Any) -> Any:
    """A mask [N, S] of PyTorch Geometric as [S, N]."""
    array = as_array(in_order(mask, None, "node", "a mask"), "a mask")
    return array.T if array.ndim == 2 else array


def entries(ends: Any, values: Any) -> tuple[Any, Any, tuple[str, ...]]:
    """Edges, weights and notes of the entries of an adjacency matrix.

    Args:
        ends: row and column of each entry, [2, e].
        values: the entries, [e], or None if all are 1.

    Returns:
        Ends and weights of the non-zero entries, without weights if all are 1, and a note of zeros
        that were left out.

    Example:
        >>> entries(np.array([[0, 1], [1, 1]]), np.array([1.0, 0.0]))
        (array([[0],
               [1]]), None, ('1 zero of the adjacency matrix left out',))
    """
    if values is None:
        return ends, None, ()
    kept, zeros = values != 0, int((values == 0).sum())
    weight = values[kept]
    notes = (f"{count(zeros, 'zero')} of the adjacency matrix left out",) if zeros else ()
    return ends[:, kept], weight if (weight != 1).any() else None, notes


def _from_scipy(graph: Any, x: Any, y: Any, masks: Mapping[str, Any]) -> RawNodes:
    x = _features(x)
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise InputError(f"graph is a matrix {[*graph.shape]}; expected a square one, [N, N]")
    coo = as_rows(graph).tocoo()
    ends, weight, notes = entries(np.stack(coo.coords), coo.data)
    return RawNodes(x, ends, y, weight, n_nodes=graph.shape[0], masks=masks, notes=notes)


def _from_networkx(graph: Any, x: Any, y: Any, masks: Mapping[str, Any]) -> RawNodes:
    ids = tuple(graph.nodes)
    _warn_of_order(ids, {"x": x, "y": y, **masks})
    x, y = "x" if x is None else x, "y" if y is None else y
    node_keys = {key for _, attributes in graph.nodes(data=True) for key in attributes}
    named, columns = _are_names(x), tuple[str, ...]()
    read = {name for name in (*(x if named else (x,)), y) if isinstance(name, str)}
    if absent := read - node_keys - {"x", "y"}:
        raise unknown("attribute of nodes", absent.pop(), sorted(map(str, node_keys)))
    if named:
        for name in x:
            _attribute(graph, name)  # InputError where a node has none
        fields = {name: [graph.nodes[node][name] for node in ids] for name in x}
        x, columns = _named_features(fields, x, len(ids))
    x, y = _features(_attribute(graph, x)), _attribute(graph, y, missing=True)
    edge_keys = {key for *_, attributes in graph.edges(data=True) for key in attributes}
    unread = {str(key) for key in (node_keys - read) | (edge_keys - {"weight"})}
    warn_of_unread(unread, of_edges="weight", stacklevel=5)
    number = {node: i for i, node in enumerate(ids)}
    ends = np.array([(number[u], number[v]) for u, v in graph.edges()], np.int64).reshape(-1, 2)
    weights = [w for *_, w in graph.edges(data="weight") if w is not None]
    if weights and len(weights) < len(ends):
        raise InputError(
            f"{len(ends) - len(weights)} of {len(ends)} edges have no weight: give all one, or none"
        )
    return RawNodes(
        x, ends.T, y, weights or None,
        once=not graph.is_directed(), n_nodes=len(ids), masks=masks, ids=ids, columns=columns,
    )  # fmt: skip


def _warn_of_order(ids: Sequence[Any], parts: Mapping[str, Any]) -> None:
    """Warn of arrays that are taken in the order of nodes not named 0 to N − 1."""
    arrays = [
        part
        for part, values in parts.items()
        if not (values is None or isinstance(values, str) or _are_names(values))
        and not hasattr(values, "iloc")
    ]
    if arrays and [*ids] != [*range(len(ids))]:
        warnings.warn(
            f"rows of {' and '.join(arrays)} are taken in the order of the graph's nodes, "
            f"{ids[0]!r} first: a pandas object is put in order by its index",
            stacklevel=6,
        )


def _attribute(graph: Any, name: Any, *, missing: bool = False) -> Any:
    """An attribute of all nodes in order, or None if no node has it; an array as it is."""
    if not isinstance(name, str):
        return name
    values = [attributes.get(name) for _, attributes in graph.nodes(data=True)]
    absent = [v is None or (isinstance(v, float) and math.isnan(v)) for v in values]
    lacking = [*compress(graph.nodes, absent)]
    if len(lacking) == len(values):
        return None
    if lacking and not missing:
        raise InputError(
            f"{len(lacking)} of {len(values)} nodes have no attribute {name}, such as "
            f"{lacking[0]!r}; "
            f"NodeSet.from_tables, given tables of nodes and edges, fills and flags missing values"
        )
    if missing:
        return np.array([_plain(value) for value in values], object)
    return np.stack([as_array(value, name).reshape(-1) for value in values])


def _plain(value: Any) -> Any:
    """A label without the tensor or array around it."""
    return value.item() if isinstance(value, torch.Tensor | np.ndarray) and value.size else value
