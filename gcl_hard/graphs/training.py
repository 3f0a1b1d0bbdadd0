"""Train the encoders of many seeds, folds and settings in ensembles."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, OutOfMemory
from gcl_hard.evaluation.folds import Fold
from gcl_hard.experiments import hardware
from gcl_hard.experiments.experiment import Parts, RunContext
from gcl_hard.experiments.plan import equal_parts, usual_size
from gcl_hard.graphs import protocols
from gcl_hard.graphs.data import GraphSet
from gcl_hard.graphs.encoders import GIN
from gcl_hard.graphs.ensemble import Ensemble, refusal
from gcl_hard.graphs.models import GraphModel
from gcl_hard.graphs.order import epoch_chunks
from gcl_hard.graphs.refinement import ColouredSet, coloured
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.training.ensemble import Snapshots, train_ensemble

OnEpoch = Callable[[Sequence[int], int, Sequence[float]], None]
"""Called with the encoders that trained together, their epoch and their mean losses."""
See = Callable[[int, Mapping[int, GraphModel]], Collection[int]]
"""Called with an epoch and the encoders after it; returns those that stop training."""


@dataclass(frozen=True, eq=False)
class Encoder:
    """One encoder to train.

    Attributes:
        config: the settings.
        graphs: the set, scaled as this encoder uses it.
        seed: seed of the weights.
        fold: index of the encoder among those of the seed.
        held_out: int64 ids of graphs that are hidden from it; None for none.
        parts: the user's own encoders and augmentations.
        snapshots: epochs after which a snapshot is taken.
    """

    config: GraphConfig
    graphs: GraphSet
    seed: int
    fold: int = 0
    held_out: Tensor | None = None
    parts: Parts | None = None
    snapshots: Container[int] = ()

    @classmethod
    def of_fold(
        cls, config: GraphConfig, graphs: GraphSet, seed: int, k: int, fold: Fold, **options: Any
    ) -> Encoder:
        """The k-th encoder of a seed, trained on a fold's training graphs only."""
        train_ids = torch.from_numpy(fold.train)
        hidden = torch.ones(graphs.n_graphs, dtype=torch.bool)
        hidden[train_ids] = False
        seen = graphs.standardised_on(train_ids)
        return cls(config, seen, seed, k, hidden.nonzero().flatten(), **options)

    def __str__(self) -> str:
        fold = None if self.held_out is None else self.fold
        return protocols.setting_of(self.config, self.seed, fold)

    def build(self) -> GraphModel:
        """The untrained model."""
        model = protocols.build(
            self.config, self.graphs.n_features, self.seed, self.fold,
            n_classes=self.graphs.n_classes, edge_dim=self.graphs.edge_dim, parts=self.parts,
        )  # fmt: skip
        return model.to(self.graphs.x.device)

    def refusal(self, model: GraphModel | None = None) -> str | None:
        """Why it is trained alone, or None."""
        if self.config.parts > 1:
            return "batches in parts are those of one model"
        return refusal(model or self.build())


class GivenFold(NamedTuple):
    """A fold on which runs are trained and scored instead of those of their configurations.

    Attributes:
        graphs: the set that encoders are trained on, without the fold's scaling.
        embedded: the set that they embed, with the scaling that they use.
        fold: ids of graphs in ``embedded``.
        encoder: makes an :class:`Encoder` of a configuration, ``graphs`` and a seed.
    """

    graphs: GraphSet
    embedded: GraphSet
    fold: Fold
    encoder: Callable[..., Encoder] = Encoder


class Result(NamedTuple):
    """A trained encoder, or the reason why there is none.

    Attributes:
        number: index of the encoder.
        model: the model with its final weights.
        loss: mean loss of the last epoch, nats, or the error.
        seconds: its share of the time, without snapshots.
    """

    number: int
    model: GraphModel
    loss: float | DivergenceError
    seconds: float


def train_encoders(
    encoders: Sequence[Encoder],
    graphs: GraphSet,
    *,
    size: int | None = None,
    on_epoch: OnEpoch = lambda numbers, epoch, losses: None,
    see: See = lambda epoch, models: (),
) -> Iterator[Result]:
    """Train encoders of one data set in ensembles.

    Two-view encoders of one seed and fold, which draw the same views, share an ensemble. Other
    encoders share one on a CPU if they hold out the same graphs, so that no bit of an encoder
    depends on a graph that is hidden from it, and on a GPU if their batches are cut alike. Only
    the encoders and ``size`` decide which train together.

    Args:
        encoders: encoders of configurations that share ``GraphConfig.group_key``.
        graphs: the set without any fold's scaling.
        size: largest number of models in an ensemble, None for the device's usual number.
        on_epoch: called with the progress of each epoch.
        see: called with models at their ``Encoder.snapshots``.

    Yields:
        Results as they come; models need not be kept. One that stopped early keeps its last
        weights.

    Raises:
        OutOfMemory: if an ensemble does not fit into memory; names a size to try.
    """
    examples = {encoder.config: encoder for encoder in encoders}
    refused = {config: encoder.refusal() for config, encoder in examples.items()}
    groups: dict[object, list[int]] = {}
    for number, encoder in enumerate(encoders):
        kind = number if refused[encoder.config] else _shares(encoder)
        groups.setdefault(kind, []).append(number)
    parts: list[tuple[int, ...]] = []
    for numbers in groups.values():
        most = size or usual_size(graphs.x.device.type)
        cuts = equal_parts(len(numbers), most)
        parts += [tuple(numbers[start:end]) for start, end in cuts]
    for part in sorted(parts):  # the first in the plan ends first
        try:
            results = _train(part, encoders, graphs, on_epoch, see)
        except OutOfMemory as error:
            if len(part) == 1:
                raise
            raise OutOfMemory(f"{error}: use --ensemble-size {len(part) // 2} or fewer") from error
        yield from results


def _shares(encoder: Encoder) -> object:
    """Key of encoders that can train in one ensemble."""
    if encoder.config.two_view:  # views are drawn by the seed and the fold
        held_out = None if encoder.held_out is None else encoder.held_out.numpy().tobytes()
        return encoder.seed, encoder.fold, held_out
    if encoder.held_out is not None and encoder.graphs.x.device.type == "cpu":
        return encoder.held_out.numpy().tobytes()
    return joins(encoder)


def joins(encoder: Encoder) -> tuple[tuple[int, ...], ...]:
    """Batch sizes of epochs in which held-out graphs leave a batch so small that it is merged."""
    if encoder.held_out is None:
        return ()
    kept = torch.ones(encoder.graphs.n_graphs, dtype=torch.bool)
    kept[encoder.held_out] = False
    config = encoder.config
    return _joins(kept.numpy().tobytes(), config.batch_size, config.data_seed, config.most_epochs)


@lru_cache(maxsize=1024)
def _joins(
    kept: bytes, batch_size: int, data_seed: int, epochs: int
) -> tuple[tuple[int, ...], ...]:
    kept_graphs = torch.frombuffer(bytearray(kept), dtype=torch.bool)[None]
    n_graphs = kept_graphs.shape[1]
    usual = math.ceil(n_graphs / batch_size)
    joined = []
    for epoch in range(1, epochs + 1):
        chunks = epoch_chunks(n_graphs, batch_size, seed=data_seed, epoch=epoch, kept=kept_graphs)
        if len(chunks) < usual:
            joined.append((epoch, *map(len, chunks)))
    return tuple(joined)


def _train(
    part: Sequence[int], encoders: Sequence[Encoder], graphs: GraphSet, on_epoch: OnEpoch, see: See
) -> list[Result]:
    start, seeing = time.perf_counter(), 0.0
    # Similar models next to each other: fewer calls of the optimiser and of the loss.
    numbers = sorted(part, key=lambda number: _likeness(encoders[number].config))
    chosen = [encoders[number] for number in numbers]
    ensemble = ensemble_of(chosen, graphs)
    models = list(ensemble.models)

    def seen(epoch: int, those: Mapping[int, nn.Module]) -> list[int]:
        nonlocal seeing
        before = time.perf_counter()
        leaving = see(epoch, {numbers[m]: models[m] for m in those})
        seeing += time.perf_counter() - before
        return [m for m in those if numbers[m] in leaving]

    losses = train_ensemble(
        ensemble, [encoder.config.optimisation() for encoder in chosen],
        on_epoch=lambda epoch, those, means: on_epoch([numbers[m] for m in those], epoch, means),
        settings=[str(encoder) for encoder in chosen],
        snapshots=Snapshots([encoder.snapshots for encoder in chosen], seen),
    )  # fmt: skip
    seconds = (time.perf_counter() - start - seeing) / len(part)
    results = []
    for number, model, means in zip(numbers, models, losses, strict=True):
        loss = means if isinstance(means, DivergenceError) else means[-1]
        results.append(Result(number, model, loss, seconds))
    return sorted(results, key=lambda result: result.number)


def _likeness(config: GraphConfig) -> tuple[object, ...]:
    optimised = config.lr, config.weight_decay, config.lr_schedule, config.most_epochs
    return *optimised, config.method, 0.0 if config.is_baseline else config.beta or 0.0


def ensemble_of(encoders: Sequence[Encoder], graphs: GraphSet) -> Ensemble:
    """The untrained ensemble of some encoders.

    Args:
        encoders: encoders of configurations that share ``GraphConfig.group_key``, two-view ones
            of one seed and fold; a single encoder may be of any kind.
        graphs: the set without any fold's scaling.
    """
    models, first = [encoder.build() for encoder in encoders], encoders[0]
    held_out, features = [encoder.held_out for encoder in encoders], None
    whole: GraphSet | ColouredSet = first.graphs
    alone = first.refusal(models[0])
    if alone is None and not first.config.two_view:
        gin = models[0].encoder
        assert isinstance(gin, GIN)
        whole = coloured(graphs, len(gin.convs))
        if any(encoder.graphs is not graphs for encoder in encoders):
            features = [encoder.graphs.x for encoder in encoders]
    return Ensemble(
        models, whole, batch_size=first.config.batch_size, data_seed=first.config.data_seed,
        held_out=held_out, features=features, alone=alone,
    )  # fmt: skip


def use_threads(context: RunContext, graphs: GraphSet, config: GraphConfig) -> None:
    """Set the threads of this process for the training of a configuration."""
    nodes = graphs.n_nodes / graphs.n_graphs * min(config.batch_size, graphs.n_graphs)
    hardware.use_threads(context.threads, nodes, config.dim * config.layers, context.cores)
