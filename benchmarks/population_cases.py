"""What the benchmark of populations trains: its cases, and encoders of them.

A model is 200 epochs of an encoder; under ``inductive`` it is the encoder of one fold, and members
of a population on a CPU hold out the same graphs, as many as the command puts together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gcl_hard.experiments import protocols
from gcl_hard.experiments.ensembles import Encoder, ensemble_of
from gcl_hard.experiments.config import GraphConfig, Protocol
from gcl_hard.experiments.groups import groups
from gcl_hard.experiments.runs import Run
from gcl_hard.graphs import Ensemble, GraphBatch, GraphSet, epoch_batches
from gcl_hard.training.loop import train

DATASETS = ("MUTAG", "PTC_MR", "ENZYMES", "IMDB-BINARY", "IMDB-MULTI")
ON_CUDA = ("MUTAG", "IMDB-MULTI")
SIZES = {"cpu": (1, 4, 16), "cuda": (1, 4, 16, 64, 128, 256)}
MODEL = 200
"""Epochs of a model."""
EPOCHS = {"cpu": 3, "cuda": 10}
"""Timed in a turn; of populations of more than ``SMALL`` on a CPU, one."""
SMALL = 4
GRID = {"ucl": 1, "hucl": 3, "scl": 1, "hscl": 3}
"""Cells of a data set in Table II, by method."""
BETAS = (1.0, 2.0, 10.0)
SEEDS, FOLDS = 10, 10
PLAIN, AUTOMATIC = "plain", "auto P"
MB = 1e6


@dataclass(frozen=True)
class Case:
    """What is trained: a method on a data set under a protocol."""

    dataset: str
    method: str
    protocol: Protocol = "paper"

    def __str__(self) -> str:
        return f"{self.dataset} {self.method} {self.protocol}"

    @property
    def cell(self) -> GraphConfig:
        return GraphConfig(dataset=self.dataset, method=self.method, protocol=self.protocol)


def cases_of(dataset: str) -> list[Case]:
    return [Case(dataset, "ucl"), Case(dataset, "hscl"), Case(dataset, "hscl", "inductive")]


def usual_members(case: Case) -> int:
    """Members that the command puts side by side on a CPU, of all cells of Table II on a set."""
    cells = [
        replace(case.cell, method=method, beta=beta if n > 1 else 1.0)
        for method, n in GRID.items()
        for beta in BETAS[:n]
    ]
    jobs = [Run(cell, seed) for seed in range(SEEDS) for cell in cells]
    return max(map(len, groups(jobs)))


def encoders(cell: GraphConfig, graphs: GraphSet, n: int) -> list[Encoder]:
    """Encoders that the command could put side by side.

    They differ in their seeds; under ``inductive`` they all hold out the first fold on a CPU, and
    on a GPU all folds of a seed are there before the next.
    """
    if cell.protocol == "paper":
        return [Encoder(cell, graphs, seed) for seed in range(n)]
    labels = graphs.y.cpu().numpy()
    if graphs.x.device.type == "cpu":
        fold = protocols.folds_of(cell, labels, seed=0)[0]
        return [Encoder.of_fold(cell, graphs, seed, 0, fold) for seed in range(n)]
    found: list[Encoder] = []
    while len(found) < n:
        seed = len(found) // FOLDS
        folds = protocols.folds_of(cell, labels, seed)
        found += [Encoder.of_fold(cell, graphs, seed, k, fold) for k, fold in enumerate(folds)]
    return found[:n]


def first(cell: GraphConfig, graphs: GraphSet, n: int) -> Ensemble:
    """An untrained population of the first encoders of a cell."""
    population = ensemble_of(encoders(cell, graphs, n), graphs)
    assert isinstance(population, Ensemble)
    return population


def train_plainly(cell: GraphConfig, graphs: GraphSet, on_epoch: Callable[..., None]) -> None:
    """One encoder, node by node."""
    [one] = encoders(cell, graphs, 1)

    def batches(epoch: int) -> Iterator[GraphBatch]:
        for index in epoch_batches(
            one.graphs.n_graphs, cell.batch_size, seed=cell.data_seed, epoch=epoch,
            held_out=one.held_out,
        ):  # fmt: skip
            yield one.graphs.batch(index)

    train(one.build(), batches, cell.optimisation(), device=graphs.x.device, on_epoch=on_epoch)
