"""A user's own graphs, checked and put together the way a set read from files is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.graphs.reading import RawGraphs


class GraphLike(Protocol):
    """One graph as ``torch_geometric.data.Data`` has it; any object with these will do."""

    x: Any
    edge_index: Any
    edge_attr: Any
    y: Any
    num_nodes: Any


def collate(graphs: Iterable[GraphLike]) -> RawGraphs:
    """Graphs one after the other, on the CPU; features become attributes.

    Args:
        graphs: as in :meth:`gcl_hard.graphs.batches.GraphSet.from_graphs`.

    Returns:
        The set; labels are renumbered 0..C-1 in increasing order, edges stay as given.

    Raises:
        InputError: no graphs, or one that does not fit; the message says which.

    Example:
        >>> from types import SimpleNamespace
        >>> edge = torch.tensor([[0, 1], [1, 0]])
        >>> graph = SimpleNamespace(x=None, edge_attr=None, edge_index=edge, y=7, num_nodes=2)
        >>> collate([graph, graph]).edge_index.tolist()
        [[0, 1, 2, 3], [1, 0, 3, 2]]
    """
    items = list(graphs)
    if not items:
        raise InputError("graphs is empty; expected at least one graph")
    labels = torch.tensor([_label(graph, i) for i, graph in enumerate(items)])
    x = _column_block([graph.x for graph in items], "x")
    edge_attr = _column_block([graph.edge_attr for graph in items], "edge_attr")
    node_ptr = _pointer([_n_nodes(graph, i) for i, graph in enumerate(items)])
    shifted = [g.edge_index.cpu() + start for g, start in zip(items, node_ptr[:-1], strict=True)]
    return RawGraphs(
        edge_index=torch.cat(shifted, dim=1),
        node_ptr=node_ptr,
        edge_ptr=_pointer([graph.edge_index.shape[1] for graph in items]),
        y=torch.unique(labels, return_inverse=True)[1],
        node_labels=None,
        node_attributes=x,
        edge_labels=None,
        edge_attributes=edge_attr,
    )


def _pointer(sizes: list[int]) -> Tensor:
    return torch.tensor([0, *sizes]).cumsum(0)


def _label(graph: GraphLike, i: int) -> int:
    y = torch.as_tensor(graph.y if graph.y is not None else [])
    if y.numel() != 1 or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        got = "no y" if graph.y is None else f"y of {y.dtype} {list(y.shape)}"
        raise InputError(f"graph {i} has {got}; expected one integer label per graph")
    return int(y)


def _n_nodes(graph: GraphLike, i: int) -> int:
    n_nodes = len(graph.x) if graph.x is not None else int(graph.num_nodes or 0)
    edges = graph.edge_index
    if n_nodes < 1:
        raise InputError(f"graph {i} has no nodes; expected at least one")
    if edges is None or edges.dtype != torch.int64 or edges.ndim != 2 or len(edges) != 2:
        got = "None" if edges is None else f"{edges.dtype} {list(edges.shape)}"
        raise InputError(f"edge_index of graph {i} is {got}; expected int64 [2, e]")
    if edges.numel() and not (edges.min() >= 0 and edges.max() < n_nodes):
        raise InputError(f"edge_index of graph {i} names nodes outside 0..{n_nodes - 1}")
    if graph.edge_attr is not None and len(graph.edge_attr) != edges.shape[1]:
        raise InputError(
            f"edge_attr of graph {i} has {len(graph.edge_attr)} rows for {edges.shape[1]} edges"
        )
    return n_nodes


def _column_block(blocks: list[Any], what: str) -> Tensor | None:
    """The graphs' rows on top of each other as float32 [rows, K]; None when no graph has any."""
    if all(block is None for block in blocks):
        return None
    shaped: list[Tensor] = []
    for i, block in enumerate(blocks):
        rows = block.unsqueeze(1) if block is not None and block.ndim == 1 else block
        if rows is None or rows.ndim != 2 or (shaped and rows.shape[1] != shaped[0].shape[1]):
            got = "None" if rows is None else list(rows.shape)
            raise InputError(f"{what} of graph {i} is {got}; every graph needs the same columns")
        shaped.append(rows)
    rows = torch.cat(shaped).float().cpu()
    if not rows.isfinite().all():
        raise InputError(f"{what} holds NaN or infinite values; only finite ones will do")
    return rows
