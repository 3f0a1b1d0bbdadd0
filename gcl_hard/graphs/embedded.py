"""Graphs as items that are embedded, whatever they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gcl_hard.errors import InputError
from gcl_hard.experiments.embedding import Items, Reading, set_named
from gcl_hard.experiments.experiment import RunContext
from gcl_hard.experiments.settings import Config
from gcl_hard.graphs import GIN, GraphSet, embed
from gcl_hard.graphs.models import embedded_together

IN_ORDER = "the columns of node features have no names: they are taken in their order"


def check_columns(
    name: str, what: str, got: int | None, wanted: int | None, *, data: str = "graphs"
) -> None:
    """Refuse data with another number of features than an encoder reads.

    Args:
        name: of the data.
        what: the features belong to, ``node`` or ``edge``.
        got: columns of the data.
        wanted: columns that the encoder reads.
        data: what is to be given.
    """
    if got != wanted:
        raise InputError(
            f"the encoder reads {wanted or 'no'} columns of {what} features, and {name} has "
            f"{got or 'none'}: give {data} with the features that it was trained on"
        )


def items_of_graphs(
    encoder: nn.Module,
    graphs: GraphSet,
    digest: str,
    reading: Reading,
    *,
    device: torch.device,
    notes: tuple[str, ...] = (),
) -> Items:
    """The graphs of a set, or all of their nodes, as what an encoder embeds.

    Args:
        encoder: on the device.
        graphs: the set.
        digest: its digest.
        reading: whether nodes are embedded.
        device: batches are moved there.
        notes: what was said of the data.
    """
    parts, nodes = embedded_together(graphs, reading.batch_size), reading.level == "nodes"
    columns = {"id": graphs.names}
    sizes = [len(part) for part in parts]
    if nodes:
        of_graph = graphs.node_ptr.cpu().diff().numpy()
        starts = np.repeat(np.cumsum(of_graph) - of_graph, of_graph)
        columns = {"id": np.repeat(graphs.names, of_graph), "node": np.arange(len(starts)) - starts}
        sizes = [int(of_graph[part.numpy()].sum()) for part in parts]

    def encode(k: int) -> Any:
        found = embed(encoder, graphs.batch(parts[k]).to(device), nodes=nodes)
        return torch.as_tensor(found).float().cpu().numpy()

    return Items(columns, digest, np.cumsum([0, *sizes]), encode, notes)


def named_as(data: str | Path, config: Config, context: RunContext) -> tuple[Config, RunContext]:
    """The configuration of a set that is named or given as a path, and where it is looked for."""
    name, folder = set_named(data)
    context = replace(context, data_dir=folder or context.data_dir)
    return replace(config, dataset=name), context


def with_columns_of(
    encoder: nn.Module, saved: Mapping[str, Any], graphs: GraphSet
) -> tuple[GraphSet, tuple[str, ...]]:
    """Graphs with the features that an encoder was trained on, and what is to be said of it.

    Args:
        encoder: the encoder.
        saved: what its file says.
        graphs: the set.

    Raises:
        InputError: for features that it does not have; says which.
    """
    notes: list[str] = []
    if "n_features" not in saved:  # an encoder without a file
        return graphs, ()
    reads_edges = not isinstance(encoder, GIN) or encoder.edge_dim is not None
    if not reads_edges:
        graphs = replace(graphs, edge_attr=None, edge_columns=())
    columns, edge_columns = saved.get("columns") or (), saved.get("edge_columns") or ()
    if columns and graphs.columns:
        graphs = graphs.aligned(columns, edge_columns or graphs.edge_columns)
        if graphs.name != saved["config"].dataset and graphs.features == "labels":
            notes.append(
                f"labels are taken to mean in {graphs.name} what they mean in "
                f"{saved['config'].dataset}"
            )
    elif graphs.n_features == saved["n_features"]:
        notes.append(IN_ORDER)
    for what, got, wanted in (
        ("node", graphs.n_features, saved["n_features"]),
        ("edge", graphs.edge_dim, saved["edge_dim"]),
    ):
        if what == "node" or reads_edges:
            check_columns(graphs.name, what, got, wanted)
    if graphs.features == "degree-scalar":
        notes.append("degrees are standardised by those of these graphs")
    return graphs, tuple(notes)
