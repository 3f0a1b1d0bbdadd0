"""The common formulation: PyTorch Geometric's loader, and masks as dense as the scores.

A node's own graph is marked in one nodes × graphs matrix of floats and every other graph in a
second one; both are filled node by node in Python, and both multiply the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from gcl_hard.graphs import GraphBatch, GraphSet, InfoGraph

TEMPERATURE = 0.5
LOG_2 = math.log(2)

Fill = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def data_loader(graphs: GraphSet, batch_size: int) -> DataLoader:
    """A shuffling loader over the set's graphs, one ``Data`` each."""
    nodes, edges = graphs.node_ptr.tolist(), graphs.edge_ptr.tolist()
    items = []
    for g in range(graphs.n_graphs):
        edge = slice(edges[g], edges[g + 1])
        data = Data(
            x=graphs.x[nodes[g] : nodes[g + 1]].clone(),
            edge_index=graphs.edge_index[:, edge] - nodes[g],
            y=graphs.y[g : g + 1].clone(),
        )
        if graphs.edge_attr is not None:
            data.edge_attr = graphs.edge_attr[edge].clone()
        items.append(data)
    return DataLoader(items, batch_size=batch_size, shuffle=True)


def masks_by_loop(batch: Tensor, n_graphs: int) -> tuple[Tensor, Tensor]:
    """Masks of the own graph and of the others, float [N, G] each, one node at a time."""
    own_graph, others = torch.zeros(len(batch), n_graphs), torch.ones(len(batch), n_graphs)
    for node, graph in enumerate(batch):
        own_graph[node][graph] = 1.0
        others[node][graph] = 0.0
    return own_graph, others


def masks_at_once(batch: Tensor, n_graphs: int) -> tuple[Tensor, Tensor]:
    """The same masks without the loop."""
    own_graph = torch.zeros(len(batch), n_graphs).scatter_(1, batch[:, None], 1.0)
    return own_graph, 1 - own_graph


def dense_loss(
    nodes: Tensor,
    graphs: Tensor,
    masks: tuple[Tensor, Tensor],
    *,
    beta: float | None = None,
    labels: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """JSD of nodes against graphs.

    Args:
        nodes: float [N, d].
        graphs: float [G, d].
        masks: own graph and others, float [N, G] each.
        beta: β of the exponential weights, normalised per row; None for the plain mean.
        labels: of the nodes' graphs [N] and of the graphs [G]; negatives are then of another
            label, and every node needs one.

    Returns:
        float [], nats.
    """
    own_graph, others = masks
    scores = nodes @ graphs.T
    positive, negative = scores * own_graph, scores * others
    # Masked scores are 0, and so are both terms below: the sums need no second masking.
    gain = (LOG_2 - softplus(-positive)).sum() / len(nodes)
    cost = softplus(negative) - LOG_2
    if beta is None:
        return cost.sum() / others.sum() - gain
    similarity = negative / (negative.detach().abs().max() * TEMPERATURE)
    weights = (beta * similarity).exp() * others
    if labels is not None:
        node_labels, graph_labels = labels
        weights = weights * (node_labels[:, None] != graph_labels).float()
    weights = weights / weights.sum(1, keepdim=True)
    return (weights * cost).sum() / len(nodes) - gain


def step_loss(
    model: InfoGraph, graphs: GraphBatch, *, hardened: bool, fill: Fill = masks_by_loop
) -> Tensor:
    """Loss of a batch: UCL, or H-SCL with β = 1, with the model's encoder and heads."""
    nodes, z = model.encoder(graphs.x, graphs.edge_index, graphs.batch)
    masks = fill(graphs.batch, graphs.num_graphs)
    labels = (graphs.y[graphs.batch], graphs.y) if hardened else None
    return dense_loss(
        model.node_head(nodes),
        model.graph_head(z),
        masks,
        beta=1.0 if hardened else None,
        labels=labels,
    )
