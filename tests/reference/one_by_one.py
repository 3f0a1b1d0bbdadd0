"""One encoder in the plain loop: what ensembles are compared with."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from gcl_hard.graphs import GraphBatch, GraphSet, epoch_batches
from gcl_hard.graphs.models import GraphModel
from gcl_hard.graphs.protocols import build, setting_of
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.training.loop import train


def fit(
    config: GraphConfig,
    graphs: GraphSet,
    seed: int,
    *,
    member: int = 0,
    held_out: Tensor | None = None,
) -> tuple[GraphModel, list[float]]:
    """Train one encoder of a config in the plain loop, node by node and not colour by colour.

    Args:
        config: the settings.
        graphs: the set, on the device to train on.
        seed: of weights and augmentations; batch order comes from ``config.data_seed``.
        member: which encoder of the seed.
        held_out: int64 ids of graphs that training must not see in any role.

    Returns:
        The model and its mean loss per epoch.
    """
    model = build(config, graphs.n_features, seed, member, n_classes=graphs.n_classes)

    def batches(epoch: int) -> Iterator[GraphBatch]:
        for index in epoch_batches(
            graphs.n_graphs,
            config.batch_size,
            seed=config.data_seed,
            epoch=epoch,
            held_out=held_out,
        ):
            yield graphs.batch(index)

    losses = train(
        model, batches, config.optimisation(), device=graphs.x.device,
        setting=setting_of(config, seed, None if held_out is None else member),
    )  # fmt: skip
    return model, losses
