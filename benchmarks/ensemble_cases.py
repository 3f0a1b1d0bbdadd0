"""Cases of the benchmark of ensembles, and their encoders.

A model is 200 epochs of an encoder; under ``inductive`` it is the encoder of one fold, and models
of an ensemble on a CPU hold out the same graphs, as many as the command trains together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gcl_hard.experiments.plan import groups_of
from gcl_hard.experiments.run import Run
from gcl_hard.graphs import Ensemble, GraphBatch, GraphSet, epoch_batches, protocols
from gcl_hard.graphs.settings import GraphConfig, GraphProtocol
from gcl_hard.graphs.training import Encoder, ensemble_of
from gcl_hard.training.loop import train

DATASETS = ("MUTAG", "PTC_MR", "ENZYMES", "IMDB-BINARY", "IMDB-MULTI")
ON_CUDA = ("MUTAG", "IMDB-MULTI")
SIZES = {"cpu": (1, 4, 16), "cuda": (1, 4, 16, 64, 128, 256)}
MODEL = 200
"""Epochs of a model."""
EPOCHS = {"cpu": 3, "cuda": 10}
"""Epochs timed per turn; one for ensembles of more than ``SMALL`` on a CPU."""
SMALL = 4
GRID = {"ucl": 1, "hucl": 3, "scl": 1, "hscl": 3}
"""Configurations of a data set in Table II, by method."""
BETAS = (1.0, 2.0, 10.0)
SEEDS, FOLDS = 10, 10
PLAIN, AUTOMATIC = "plain", "auto P"
MB = 1e6


@dataclass(frozen=True)
class Case:
    """A training: a method on a data set under a protocol."""

    dataset: str
    method: str
    protocol: GraphProtocol = "transductive"

    def __str__(self) -> str:
        return f"{self.dataset} {self.method} {self.protocol}"

    @property
    def config(self) -> GraphConfig:
        return GraphConfig(dataset=self.dataset, method=self.method, protocol=self.protocol)


def cases_of(dataset: str) -> list[Case]:
    return [Case(dataset, "ucl"), Case(dataset, "hscl"), Case(dataset, "hscl", "inductive")]


def usual_size(case: Case) -> int:
    """Models in an ensemble of the command on a CPU, for all of Table II on a set."""
    configs = [
        replace(case.config, method=method, beta=beta if n > 1 else 1.0)
        for method, n in GRID.items()
        for beta in BETAS[:n]
    ]
    runs = [Run(config, seed) for seed in range(SEEDS) for config in configs]
    return max(map(len, groups_of(runs)))


def encoders(config: GraphConfig, graphs: GraphSet, n: int) -> list[Encoder]:
    """Encoders that the command could train as an ensemble.

    They differ in their seeds; under ``inductive`` they all hold out the first fold on a CPU, and
    on a GPU all folds of a seed come before the next seed.
    """
    if config.protocol == "transductive":
        return [Encoder(config, graphs, seed) for seed in range(n)]
    labels = graphs.y.cpu().numpy()
    if graphs.x.device.type == "cpu":
        fold = protocols.folds_of(config, labels, seed=0)[0]
        return [Encoder.of_fold(config, graphs, seed, 0, fold) for seed in range(n)]
    models: list[Encoder] = []
    while len(models) < n:
        seed = len(models) // FOLDS
        folds = protocols.folds_of(config, labels, seed)
        models += [Encoder.of_fold(config, graphs, seed, k, fold) for k, fold in enumerate(folds)]
    return models[:n]


def first(config: GraphConfig, graphs: GraphSet, n: int) -> Ensemble:
    """An untrained ensemble of the first encoders of a configuration."""
    return ensemble_of(encoders(config, graphs, n), graphs)


def train_plainly(config: GraphConfig, graphs: GraphSet, on_epoch: Callable[..., None]) -> None:
    """One encoder, node by node."""
    [encoder] = encoders(config, graphs, 1)

    def batches(epoch: int) -> Iterator[GraphBatch]:
        for index in epoch_batches(
            encoder.graphs.n_graphs, config.batch_size, seed=config.data_seed, epoch=epoch,
            held_out=encoder.held_out,
        ):  # fmt: skip
            yield encoder.graphs.batch(index)

    train(
        encoder.build(), batches, config.optimisation(), device=graphs.x.device, on_epoch=on_epoch
    )
