"""What a look at a graph encoder sees: a batch of its training graphs, always the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gcl_hard.experiments.diagnostics.sample import SALT, Batch, Sample, finite
from gcl_hard.experiments.diagnostics.watch import Sampler
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.graphs import GraphSet, InfoGraph, TwoView
from gcl_hard.graphs.batches import GraphBatch
from gcl_hard.graphs.contrast import GraphModel, encode
from gcl_hard.images import ClassPairs
from gcl_hard.models import evaluating
from gcl_hard.seeds import seed_for, seeded

ANCHORS = 256
"""Nodes of a look, which on the smallest sets takes as long as an epoch with them."""
GRAPHS = 128
"""Graphs of a look at least, in batches as large as in training."""


def graph_sampler(
    cell: GraphCell, graphs: GraphSet, held_out: Tensor | None
) -> Sampler[GraphModel]:
    """Look at a batch drawn from the graphs that an encoder is trained on.

    Args:
        cell: of the encoder; its ``data_seed`` decides what is drawn, so that all methods and seeds
            are looked at by the same graphs, as far as they train on the same.
        graphs: the set as the encoder sees it.
        held_out: int64 ids of graphs that it does not see.

    Returns:
        What makes a :class:`Sample` of a model.
    """
    draws = seeded(cell.data_seed, SALT)
    kept = torch.ones(graphs.n_graphs, dtype=torch.bool)
    if held_out is not None:
        kept[held_out] = False
    trained = kept.nonzero().flatten()
    size = min(cell.batch_size, len(trained))
    n = min(max(1, GRAPHS // size), len(trained) // size)
    index = trained[torch.randperm(len(trained), generator=draws)[: n * size]]
    if cell.contrast == "local-global":
        return _local_global(cell, graphs, torch.split(index, size), draws)
    return _two_view(cell, graphs, trained, torch.split(index, size), draws)


def _local_global(
    cell: GraphCell, graphs: GraphSet, parts: Sequence[Tensor], draws: torch.Generator
) -> Sampler[GraphModel]:
    batches = [graphs.batch(index) for index in parts]
    rows = [
        torch.randperm(len(batch.batch), generator=draws)[: ANCHORS // len(parts)].to(
            batch.x.device
        )
        for batch in batches
    ]

    def one(model: GraphModel, number: int) -> tuple[Batch, Tensor] | None:
        assert isinstance(model, InfoGraph)
        batch = batches[number]
        with evaluating(model):
            nodes, z = encode(model.encoder, batch, model.out_dim)
            nodes, heads = model.node_head(nodes), model.graph_head(z)
        if not finite(nodes, heads, z):
            return None
        return Batch.local_global(
            nodes, heads, batch.batch, batch.y, rows[number],
            temperature=model.loss.temperature, objective=model.loss.objective,
        ), z  # fmt: skip

    return _joined(one, batches, cell)


def _two_view(
    cell: GraphCell,
    graphs: GraphSet,
    trained: Tensor,
    parts: Sequence[Tensor],
    draws: torch.Generator,
) -> Sampler[GraphModel]:
    """Views of each graph, and of another of its class: positives by augmentation and label."""
    places = torch.full((graphs.n_graphs,), -1)
    places[trained] = torch.arange(len(trained))
    of_class = ClassPairs(graphs.y.cpu()[trained])
    batches = [graphs.batch(index) for index in parts]
    partners = [graphs.batch(trained[of_class.draw(places[index], draws)]) for index in parts]
    device = graphs.x.device
    generator = torch.Generator(device).manual_seed(seed_for(cell.data_seed, SALT, 1))
    views: list[tuple[GraphBatch, GraphBatch]] = []

    def one(model: GraphModel, number: int) -> tuple[Batch, Tensor] | None:
        assert isinstance(model, TwoView)
        if not views:
            views.extend(
                (model.view(own, generator), model.view(other, generator))
                for own, other in zip(batches, partners, strict=True)
            )
        batch = batches[number]
        with evaluating(model):
            z1, z2 = (model.project(view) for view in views[number])
        z = model.embed(batch)
        if not finite(z1, z2, z):
            return None
        return Batch.two_view(
            z1, z2, batch.y, temperature=model.loss.temperature, objective=model.loss.objective
        ), z

    return _joined(one, batches, cell)


def _joined(
    one: Callable[[GraphModel, int], tuple[Batch, Tensor] | None],
    batches: Sequence[GraphBatch],
    cell: GraphCell,
) -> Sampler[GraphModel]:
    """A sampler of all batches, by what a model makes of one of them, by its number."""
    labels = torch.cat([batch.y for batch in batches])

    def sample(model: GraphModel) -> Sample | None:
        found = []
        for number in range(len(batches)):
            if (made := one(model, number)) is None:
                return None
            found.append(made)
        seen, z = zip(*found, strict=True)
        return Sample(seen, _as_scored(torch.cat(z), cell), labels)

    return sample


def _as_scored(z: Tensor, cell: GraphCell) -> Tensor:
    """Embeddings as the SVM sees them; columns that do not vary are 0."""
    z = z.detach().double()
    if not cell.standardise:
        return z
    centred = z - z.mean(0)
    deviation = centred.square().mean(0).sqrt()
    return centred / torch.where(deviation > 0, deviation, 1.0)
