"""One encoder of a cell in the plain loop: what populations are compared with."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.protocols import build, setting_of
from gcl_hard.graphs import GraphBatch, GraphSet, epoch_batches
from gcl_hard.graphs.models import GraphModel
from gcl_hard.training.loop import train


def fit(
    cell: GraphCell,
    graphs: GraphSet,
    seed: int,
    *,
    member: int = 0,
    held_out: Tensor | None = None,
) -> tuple[GraphModel, list[float]]:
    """Train one encoder of a cell in the plain loop, node by node and not colour by colour.

    Args:
        cell: the settings.
        graphs: the set, on the device to train on.
        seed: of weights and augmentations; batch order comes from ``cell.data_seed``.
        member: which encoder of the seed.
        held_out: int64 ids of graphs that training must not see in any role.

    Returns:
        The model and its mean loss per epoch.
    """
    model = build(cell, graphs.n_features, seed, member, n_classes=graphs.n_classes)

    def batches(epoch: int) -> Iterator[GraphBatch]:
        for index in epoch_batches(
            graphs.n_graphs, cell.batch_size, seed=cell.data_seed, epoch=epoch, held_out=held_out
        ):
            yield graphs.batch(index)

    losses = train(
        model, batches, cell.optimisation(), device=graphs.x.device,
        setting=setting_of(cell, seed, None if held_out is None else member),
    )  # fmt: skip
    return model, losses
