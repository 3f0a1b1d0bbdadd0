"""Batches of nodes for snapshots of the theory's quantities."""

from __future__ import annotations

import torch

from gcl_hard.core.seeds import seed_for, seeded
from gcl_hard.functional.negatives import all_finite
from gcl_hard.losses.pairing import ClassPairs
from gcl_hard.models import evaluating
from gcl_hard.nodes.data import NodeSet
from gcl_hard.nodes.models import UNKNOWN, NodeContrast
from gcl_hard.nodes.settings import NodeConfig
from gcl_hard.nodes.views import NodeBatch
from gcl_hard.theory.diagnostics import SALT, Batch, Sample, Sampler

NODES = 1024
"""Maximum number of nodes in a snapshot; both views of each are anchors."""


def node_sampler(config: NodeConfig, data: NodeSet) -> Sampler[NodeContrast]:
    """Sampler of views of some nodes, and of other nodes of their classes.

    The classes are those of the data, whatever labels the encoder is trained with.

    Args:
        config: its ``data_seed`` decides what is drawn: all methods and seeds are measured on the
            same nodes.
        data: the graph.

    Returns:
        A function from a model to a :class:`Sample`.
    """
    draws = seeded(config.data_seed, SALT)
    labels = data.y.cpu()
    known = (labels != UNKNOWN).nonzero().flatten()
    index = torch.randperm(len(known), generator=draws)[:NODES]
    partners = known[ClassPairs(labels[known]).draw(index, draws)]
    index = known[index]
    device, graph = data.x.device, NodeBatch.of(data)
    seed = seed_for(config.data_seed, SALT, 1)

    def sample(model: NodeContrast) -> Sample | None:
        views = model.views_of(graph, torch.Generator(device).manual_seed(seed))
        with evaluating(model):
            z1, z2 = (model.project(view) for view in views)
        embedded = torch.from_numpy(model.embed(graph))[index].to(device)
        if not all_finite([embedded, z1, z2]):
            return None
        y = data.y[index.to(device)]
        batch = Batch.two_view(model.loss, z1[index], z2[partners], y)
        return Sample([batch], embedded, y)

    return sample
