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
    if config.contrast == "local-global":
        return _local_global(config, graphs, torch.split(index, size), draws)
    return _two_view(config, graphs, trained, torch.split(index, size), draws)


def _local_global(
    config: GraphConfig, graphs: GraphSet, parts: Sequence[Tensor], draws: torch.Generator
) -> Sampler[GraphModel]:
    batches = [graphs.batch(index) for index in parts]
    rows = [
        torch.randperm(len(batch.batch), generator=draws)[: ANCHORS // len(parts)].to(
            batch.x.device
        )
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

    return _joined(batch_of, batches, config)


def _two_view(
    config: GraphConfig,
    graphs: GraphSet,
    trained: Tensor,
    parts: Sequence[Tensor],
    draws: torch.Generator,
) -> Sampler[GraphModel]:
    """Views of each graph and of another graph of its class, as positives."""
    positions = torch.full((graphs.n_graphs,), -1)
    positions[trained] = torch.arange(len(trained))
    of_class = ClassPairs(graphs.y.cpu()[trained])
    batches = [graphs.batch(index) for index in parts]
    partners = [graphs.batch(trained[of_class.draw(positions[index], draws)]) for index in parts]
    device = graphs.x.device
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

    return _joined(batch_of, batches, config)


def _joined(
    batch_of: Callable[[GraphModel, int], tuple[Batch, Tensor] | None],
    batches: Sequence[GraphBatch],
    config: GraphConfig,
) -> Sampler[GraphModel]:
    """Combine batches into one sampler, by batch number."""
    labels = torch.cat([batch.y for batch in batches])

    def sample(model: GraphModel) -> Sample | None:
        sampled = []
        for number in range(len(batches)):
            if (batch := batch_of(model, number)) is None:
                return None
            sampled.append(batch)
        parts, z = zip(*sampled, strict=True)
        return Sample(parts, _standardised(torch.cat(z), config), labels)

    return sample


def _standardised(z: Tensor, config: GraphConfig) -> Tensor:
    """Standardised embeddings as the SVM uses them; constant columns are 0."""
    z = z.detach().double()
    if not config.standardise:
        return z
    centred = z - z.mean(0)
    deviation = centred.square().mean(0).sqrt()
    return centred / torch.where(deviation > 0, deviation, 1.0)
