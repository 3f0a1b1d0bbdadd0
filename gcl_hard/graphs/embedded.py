"""Embedding of graph sets by saved encoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gcl_hard.errors import InputError
from gcl_hard.experiments.embedding import Items, set_named
from gcl_hard.experiments.experiment import Reading, RunContext
from gcl_hard.experiments.settings import Config
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.encoders import GIN
from gcl_hard.graphs.models import embed_graphs, embedded_together

IN_ORDER = "the columns of node features have no names: they are matched by their order"


def check_columns(
    name: str, level: str, n_columns: int | None, n_expected: int | None, *, data: str = "graphs"
) -> None:
    """Refuse data with another number of features than an encoder reads.

    Args:
        name: name of the data.
        level: ``node`` or ``edge``.
        n_columns: columns of the data.
        n_expected: columns that the encoder reads.
        data: what the user is to supply, for the message.
    """
    if n_columns != n_expected:
        raise InputError(
            f"the encoder reads {n_expected or 'no'} columns of {level} features, and {name} has "
            f"{n_columns or 'none'}: give {data} with the features that it was trained on"
        )


def items_of_graphs(
    encoder: nn.Module,
    graphs: GraphSet,
    digest: str,
    reading: Reading,
    *,
    notes: tuple[str, ...] = (),
) -> Items:
    """The graphs of a set, or all of their nodes, as items to embed.

    Args:
        encoder: encoder on the device.
        graphs: the set.
        digest: its digest.
        reading: whether nodes are embedded, the batch size, and the device.
        notes: notes on the data.
    """
    parts, nodes = embedded_together(graphs, reading.batch_size), reading.level == "nodes"
    device = torch.device(reading.context.device)
    columns = {"id": graphs.names}
    sizes = [len(part) for part in parts]
    if nodes:
        node_counts = graphs.node_ptr.cpu().diff().numpy()
        starts = np.repeat(np.cumsum(node_counts) - node_counts, node_counts)
        numbers = np.arange(len(starts)) - starts
        columns = {"id": np.repeat(graphs.names, node_counts), "node": numbers}
        sizes = [int(node_counts[part.numpy()].sum()) for part in parts]

    def encode(index: int) -> Any:
        embedding = embed_graphs(encoder, graphs.batch(parts[index]).to(device), nodes=nodes)
        return torch.as_tensor(embedding).float().cpu().numpy()

    return Items(columns, digest, np.cumsum([0, *sizes]), encode, notes)


def named_as(data: str | Path, config: Config, context: RunContext) -> tuple[Config, RunContext]:
    """The configuration and context of a set given by name or path."""
    name, folder = set_named(data)
    context = replace(context, data_dir=folder or context.data_dir)
    return replace(config, dataset=name), context


def with_columns_of(
    encoder: nn.Module, saved: Mapping[str, Any], graphs: GraphSet
) -> tuple[GraphSet, tuple[str, ...]]:
    """Graphs with the feature columns that an encoder was trained on, and notes on them.

    Args:
        encoder: the encoder.
        saved: metadata in its file.
        graphs: the set.

    Raises:
        InputError: for features that the encoder does not read; names them.
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
                f"labels of {graphs.name} are assumed to mean the same as in "
                f"{saved['config'].dataset}"
            )
    elif graphs.n_features == saved["n_features"]:
        notes.append(IN_ORDER)
    for level, n_columns, n_expected in (
        ("node", graphs.n_features, saved["n_features"]),
        ("edge", graphs.edge_dim, saved["edge_dim"]),
    ):
        if level == "node" or reads_edges:
            check_columns(graphs.name, level, n_columns, n_expected)
    if graphs.features == "degree-scalar":
        notes.append("degrees are standardised over these graphs")
    return graphs, tuple(notes)
