"""Train the encoders of many seeds, folds and settings in populations."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, OutOfMemory
from gcl_hard.evaluation import Fold
from gcl_hard.experiments import protocols
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.groups import equal_parts, usual_size
from gcl_hard.experiments.population_size import SideBySide, check_size
from gcl_hard.graphs import GraphSet, Population, TwoView, ViewPopulation
from gcl_hard.graphs.colours import coloured
from gcl_hard.graphs.encoders import GIN
from gcl_hard.graphs.models import GraphModel
from gcl_hard.graphs.order import epoch_chunks
from gcl_hard.graphs.population import refusal
from gcl_hard.graphs.view_population import view_refusal
from gcl_hard.training.population import Look, train_population

OnEpoch = Callable[[Sequence[int], int, Sequence[float]], None]
"""Called with the encoders that trained side by side, their epoch and their mean losses."""
See = Callable[[int, Mapping[int, GraphModel]], Collection[int]]
"""Called with an epoch and encoders that are looked at after it; gives those that leave."""


@dataclass(frozen=True, eq=False)
class Encoder:
    """One encoder to train.

    Attributes:
        cell: the settings.
        graphs: the set as this encoder sees it.
        seed: of the weights.
        fold: which encoder of the seed.
        held_out: int64 ids of graphs that it must not see, None if it may see all.
        make: makes another encoder than the cell's GIN.
        looks: epochs after which it is looked at.
    """

    cell: GraphConfig
    graphs: GraphSet
    seed: int
    fold: int = 0
    held_out: Tensor | None = None
    make: protocols.EncoderMaker | None = None
    looks: Container[int] = ()

    @classmethod
    def of_fold(
        cls,
        cell: GraphConfig,
        graphs: GraphSet,
        seed: int,
        k: int,
        fold: Fold,
        *,
        make: protocols.EncoderMaker | None = None,
        looks: Container[int] = (),
    ) -> Encoder:
        """The k-th encoder of a seed, that sees a fold's training graphs alone."""
        train_ids = torch.from_numpy(fold.train)
        hidden = torch.ones(graphs.n_graphs, dtype=torch.bool)
        hidden[train_ids] = False
        seen = graphs.standardised_on(train_ids)
        return cls(cell, seen, seed, k, hidden.nonzero().flatten(), make, looks)

    def __str__(self) -> str:
        fold = None if self.held_out is None else self.fold
        return protocols.setting_of(self.cell, self.seed, fold)

    def build(self) -> GraphModel:
        """The untrained model."""
        model = protocols.build(
            self.cell, self.graphs.n_features, self.seed, self.fold,
            n_classes=self.graphs.n_classes, edge_dim=self.graphs.edge_dim, make=self.make,
        )  # fmt: skip
        return model.to(self.graphs.x.device)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained encoder.

    Attributes:
        model: with its final weights.
        loss: mean of the last epoch, nats.
    """

    model: GraphModel
    loss: float


class Result(NamedTuple):
    """What came of an encoder.

    Attributes:
        number: which one.
        trained: the model, or why there is none.
        seconds: its share of the time; that of looks is left out.
    """

    number: int
    trained: Trained | DivergenceError
    seconds: float


def train_encoders(
    encoders: Sequence[Encoder],
    graphs: GraphSet,
    *,
    size: int | None = None,
    on_epoch: OnEpoch = lambda of, epoch, losses: None,
    see: See = lambda epoch, models: (),
) -> Iterator[Result]:
    """Train encoders of one data set in ensembles.

    On a CPU those share an ensemble that hold out the same graphs: then no bit of an encoder
    depends on a graph that it must not see. A GPU takes all; of two views those of a seed and
    fold, that draw the same ones. The encoders and ``size`` alone decide who trains together.

    Args:
        encoders: of cells that share ``GraphConfig.group_key``.
        graphs: the set without any fold's scaling.
        size: most models of an ensemble, None for the usual number on the device.
        on_epoch: progress.
        see: looks at models at their ``Encoder.looks``.

    Yields:
        Results as they come: models need not be kept. What left has the weights it left with.

    Raises:
        OutOfMemory: if memory does not suffice for an ensemble; names a size to try.
    """
    one_each = {encoder.cell: encoder for encoder in encoders}
    refused = {cell: _refused(encoder) for cell, encoder in one_each.items()}
    groups: dict[object, list[int]] = {}
    for number, encoder in enumerate(encoders):
        kind = number if refused[encoder.cell] else _shares(encoder)
        groups.setdefault(kind, []).append(number)
    parts: list[tuple[int, ...]] = []
    for numbers in groups.values():
        most = size or usual_size(graphs.x.device.type)
        cuts = equal_parts(len(numbers), most)
        if not refused[encoders[numbers[0]].cell]:
            largest = max(end - start for start, end in cuts)
            if largest > 1:
                check_size(largest, population_of([encoders[numbers[0]]], graphs))
        parts += [tuple(numbers[start:end]) for start, end in cuts]
    looking = 0.0

    def timed(epoch: int, models: Mapping[int, GraphModel]) -> Collection[int]:
        nonlocal looking
        before = time.perf_counter()
        leaving = see(epoch, models)
        looking += time.perf_counter() - before
        return leaving

    for part in sorted(parts):  # what was asked for first ends first
        start, looking = time.perf_counter(), 0.0
        alone = refused[encoders[part[0]].cell]
        try:
            trained = _train(part, encoders, graphs, on_epoch, timed, alone=alone)
        except OutOfMemory as error:
            if len(part) == 1:
                raise
            raise OutOfMemory(f"{error}: use --members {len(part) // 2} or fewer") from error
        seconds = (time.perf_counter() - start - looking) / len(part)
        for number, one in zip(part, trained, strict=True):
            yield Result(number, one, seconds)


def _shares(encoder: Encoder) -> object:
    """What encoders of one population share."""
    if encoder.cell.two_view:  # views are drawn by the seed and the fold
        held_out = None if encoder.held_out is None else encoder.held_out.numpy().tobytes()
        return encoder.seed, encoder.fold, held_out
    if encoder.held_out is not None and encoder.graphs.x.device.type == "cpu":
        return encoder.held_out.numpy().tobytes()
    return joins(encoder)


def _refused(encoder: Encoder) -> bool:
    model = encoder.build()
    return (view_refusal if isinstance(model, TwoView) else refusal)(model) is not None


def joins(encoder: Encoder) -> tuple[tuple[int, ...], ...]:
    """Sizes of batches in epochs in which held-out graphs make a batch join its neighbour."""
    if encoder.held_out is None:
        return ()
    kept = torch.ones(encoder.graphs.n_graphs, dtype=torch.bool)
    kept[encoder.held_out] = False
    cell = encoder.cell
    return _joins(kept.numpy().tobytes(), cell.batch_size, cell.data_seed, cell.epochs)


@lru_cache(maxsize=1024)
def _joins(
    kept: bytes, batch_size: int, data_seed: int, epochs: int
) -> tuple[tuple[int, ...], ...]:
    of_one = torch.frombuffer(bytearray(kept), dtype=torch.bool)[None]
    n_graphs = of_one.shape[1]
    usual = math.ceil(n_graphs / batch_size)
    found = []
    for epoch in range(1, epochs + 1):
        chunks = epoch_chunks(n_graphs, batch_size, seed=data_seed, epoch=epoch, kept=of_one)
        if len(chunks) < usual:
            found.append((epoch, *map(len, chunks)))
    return tuple(found)


def _train(
    part: Sequence[int],
    encoders: Sequence[Encoder],
    graphs: GraphSet,
    on_epoch: OnEpoch,
    see: See,
    *,
    alone: bool,
) -> list[Trained | DivergenceError]:
    # Alike side by side: fewer calls of the optimiser and of the loss.
    numbers = sorted(part, key=lambda number: _likeness(encoders[number].cell))
    chosen = [encoders[number] for number in numbers]
    population: SideBySide
    population = _plain(chosen[0]) if alone else population_of(chosen, graphs)
    models = list(population.models)

    def seen(epoch: int, looked: Mapping[int, nn.Module]) -> list[int]:
        leaving = see(epoch, {numbers[m]: models[m] for m in looked})
        return [m for m in looked if numbers[m] in leaving]

    losses = train_population(
        population, [encoder.cell.optimisation() for encoder in chosen],
        on_epoch=lambda epoch, of, means: on_epoch([numbers[m] for m in of], epoch, means),
        settings=[str(encoder) for encoder in chosen],
        look=Look([encoder.looks for encoder in chosen], seen),
    )  # fmt: skip
    found = {
        number: one if isinstance(one, DivergenceError) else Trained(model, one[-1])
        for number, model, one in zip(numbers, models, losses, strict=True)
    }
    return [found[number] for number in part]


def _likeness(cell: GraphConfig) -> tuple[object, ...]:
    beta = 0.0 if cell.is_baseline else cell.beta or 0.0
    return cell.lr, cell.weight_decay, cell.lr_schedule, cell.epochs, cell.method, beta


def _plain(encoder: Encoder) -> Population:
    """A population of one that cannot share its steps, on its own graphs."""
    cell = encoder.cell
    return Population(
        [encoder.build()], encoder.graphs, batch_size=cell.batch_size, data_seed=cell.data_seed,
        held_out=[encoder.held_out],
    )  # fmt: skip


def population_of(encoders: Sequence[Encoder], graphs: GraphSet) -> SideBySide:
    """The untrained population of some encoders that can be one."""
    models = [encoder.build() for encoder in encoders]
    gin, cell = models[0].encoder, encoders[0].cell
    assert isinstance(gin, GIN)
    if cell.two_view:
        return ViewPopulation(
            models, encoders[0].graphs, batch_size=cell.batch_size, data_seed=cell.data_seed,
            held_out=encoders[0].held_out,
        )  # fmt: skip
    own = any(encoder.graphs is not graphs for encoder in encoders)
    return Population(
        models, coloured(graphs, len(gin.convs)), batch_size=cell.batch_size,
        data_seed=cell.data_seed, held_out=[encoder.held_out for encoder in encoders],
        features=[encoder.graphs.x for encoder in encoders] if own else None,
    )  # fmt: skip
