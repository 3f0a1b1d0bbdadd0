"""Batches of graphs for snapshots of the theory's quantities."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gcl_hard.core.seeds import seed_for, seeded
from gcl_hard.functional.negatives import all_finite
from gcl_hard.graphs.data import GraphBatch, GraphSet
from gcl_hard.graphs.models import GraphModel, InfoGraph, TwoView, encode
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.losses.pairing import ClassPairs
from gcl_hard.models import evaluating
from gcl_hard.theory.diagnostics import SALT, Batch, Sample, Sampler

ANCHORS = 256
"""Nodes in a snapshot; on the smallest sets it then takes as long as an epoch."""


BatchOf = Callable[[GraphModel, int], tuple[Batch, Tensor] | None]
"""Makes the batch of a number by a model, and embeds its graphs; None where it is not finite."""
GRAPHS = 128
"""Minimum number of graphs in a snapshot, in batches as large as in training."""


def graph_sampler(
    config: GraphConfig, graphs: GraphSet, held_out: Tensor | None
) -> Sampler[GraphModel]:
    """Sampler of batches drawn from the graphs that an encoder is trained on.

    Args:
        config: its ``data_seed`` decides what is drawn: all methods and seeds that train on the
            same graphs are measured on the same ones.
        graphs: the set as the encoder uses it.
        held_out: int64 ids of graphs that are hidden from it.

    Returns:
        A function from a model to a :class:`Sample`.
    """
    draws = seeded(config.data_seed, SALT)
    kept = torch.ones(graphs.n_graphs, dtype=torch.bool)
    if held_out is not None:
        kept[held_out] = False
    trained = kept.nonzero().flatten()
    size = min(config.batch_size, len(trained))
    n = min(max(1, GRAPHS // size), len(trained) // size)
    index = trained[torch.randperm(len(trained), generator=draws)[: n * size]]
    parts = torch.split(index, size)
    batches = [graphs.batch(part) for part in parts]
    labels = torch.cat([batch.y for batch in batches])
    if config.contrast == "local-global":
        batch_of = _local_global(batches, draws)
    else:
        positions = torch.full((graphs.n_graphs,), -1)
        positions[trained] = torch.arange(len(trained))
        of_class = ClassPairs(graphs.y.cpu()[trained])
        partners = [graphs.batch(trained[of_class.draw(positions[part], draws)]) for part in parts]
        batch_of = _two_view(config, batches, partners)

    def sample(model: GraphModel) -> Sample | None:
        sampled = []
        for number in range(len(batches)):
            if (batch := batch_of(model, number)) is None:
                return None
            sampled.append(batch)
        drawn, z = zip(*sampled, strict=True)
        return Sample(drawn, _standardised(torch.cat(z), config), labels)

    return sample


def _local_global(batches: Sequence[GraphBatch], draws: torch.Generator) -> BatchOf:
    n_rows = ANCHORS // len(batches)
    rows = [
        torch.randperm(len(batch.batch), generator=draws)[:n_rows].to(batch.x.device)
        for batch in batches
    ]

    def batch_of(model: GraphModel, number: int) -> tuple[Batch, Tensor] | None:
        assert isinstance(model, InfoGraph)
        batch = batches[number]
        with evaluating(model):
            nodes, z = encode(model.encoder, batch, model.out_dim)
            nodes, heads = model.node_head(nodes), model.graph_head(z)
        if not all_finite([nodes, heads, z]):
            return None
        return Batch.local_global(
            model.loss, nodes, heads, batch.batch, batch.y, rows=rows[number]
        ), z  # fmt: skip

    return batch_of


def _two_view(
    config: GraphConfig, batches: Sequence[GraphBatch], partners: Sequence[GraphBatch]
) -> BatchOf:
    """Views of each graph and of another graph of its class, as positives."""
    device = batches[0].x.device
    generator = torch.Generator(device).manual_seed(seed_for(config.data_seed, SALT, 1))
    views: list[tuple[GraphBatch, GraphBatch]] = []

    def batch_of(model: GraphModel, number: int) -> tuple[Batch, Tensor] | None:
        assert isinstance(model, TwoView)
        if not views:
            views.extend(
                (model.view(batch, generator), model.view(partner, generator))
                for batch, partner in zip(batches, partners, strict=True)
            )
        batch = batches[number]
        with evaluating(model):
            z1, z2 = (model.project(view) for view in views[number])
        z = model.embed(batch)
        if not all_finite([z1, z2, z]):
            return None
        return Batch.two_view(model.loss, z1, z2, batch.y), z

    return batch_of


def _standardised(z: Tensor, config: GraphConfig) -> Tensor:
    """Standardised embeddings as the SVM uses them; constant columns are 0."""
    z = z.detach().double()
    if not config.standardise:
        return z
    centred = z - z.mean(0)
    deviation = centred.square().mean(0).sqrt()
    return centred / torch.where(deviation > 0, deviation, 1.0)
