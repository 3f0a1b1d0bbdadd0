"""Runs without a command: contexts, runners, trained encoders, and what lies in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from gcl_hard.evaluation import Fold, FoldScore
from gcl_hard.experiments import hardware
from gcl_hard.experiments.experiment import Report, RunContext, RunOptions, TrainedRun
from gcl_hard.experiments.record import RunResult
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.run import Run
from gcl_hard.experiments.runner import Runner
from gcl_hard.graphs import GraphClassifier, GraphSet, load_graphs, protocols
from gcl_hard.graphs import experiment as graph_experiment
from gcl_hard.graphs.experiment import GraphExperiment


@pytest.fixture(scope="session")
def mutag() -> GraphSet:
    """MUTAG, from the package."""
    return load_graphs("MUTAG")


def context(output: Path, *, data_dir: Path | None = None, **options: Any) -> RunContext:
    """One thread of the CPU."""
    return RunContext(
        output, data_dir, "cpu", threads=1, cores=1, versions=hardware.versions(),
        experiment_of=experiment_of,
        options=RunOptions(**options), digest="of the data",
    )  # fmt: skip


def go_on(run: Run, share: float, loss: float) -> bool:
    """A report that never stops the training."""
    return True


class Ran:
    """A plan that a runner executed.

    Attributes:
        results: by run.
        failures: messages.
        shown: on the console.
    """

    def __init__(
        self, output: Path, plan: Iterable[Run], *, terminal: bool = False, **settings: Any
    ) -> None:
        names = ("jobs", "scheduler", "force", "report_only")
        options = {name: settings.pop(name) for name in names if name in settings}
        self.console = Console(file=StringIO(), force_terminal=terminal, width=300)
        self.results: dict[Run, RunResult]
        self.results, self.failures = Runner(
            context(output, **settings), self.console, **options
        ).run([*plan])

    @property
    def shown(self) -> str:
        """What the console holds."""
        return self.console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


VARYING = ("digest", "seconds_train", "seconds_eval", "seconds_diagnostics", "finished")


def numbers(folder: Path) -> dict[str, dict[str, Any]]:
    """Single files by name, without what changes from one execution to the next."""
    saved = {}
    for path in sorted(folder.glob("*_seed*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        saved[path.name] = {k: v for k, v in stored.items() if k not in VARYING}
    return saved


@dataclass(frozen=True)
class Encoded:
    """One trained encoder, as the experiment embeds with it.

    Attributes:
        weights: parameters and statistics of normalisations.
        z: float64 [G, d], unless it was asked for weights alone.
    """

    weights: dict[str, Tensor]
    z: NDArray[np.float64] | None


def train(
    runs: Sequence[Run], graphs: GraphSet, folder: Path, *, report: Report = go_on, **options: Any
) -> list[TrainedRun]:
    """Train runs on graphs, in their order."""
    where = context(folder, **options)
    trained = {
        trained_run.run: trained_run
        for trained_run in GraphExperiment().train(runs, graphs, where, report)
    }
    return [trained[run] for run in runs]


def score(trained: TrainedRun, graphs: GraphSet, folder: Path) -> tuple[FoldScore, ...]:
    """Score a run that is trained."""
    return graph_experiment.fold_scores(trained, graphs, context(folder))


def scored(run: Run, graphs: GraphSet, folder: Path) -> tuple[FoldScore, ...]:
    """Train and score one run; what goes wrong in training is raised."""
    (trained,) = train([run], graphs, folder)
    if trained.error is not None:
        raise trained.error
    return score(trained, graphs, folder)


def encoders(
    run: Run, graphs: GraphSet, folder: Path, *, embed: bool = False, **options: Any
) -> list[Encoded]:
    """The encoders that a run trains, fold by fold.

    Args:
        run: of a method, or of ``supervised``.
        graphs: the set.
        folder: for a context.
        embed: whether graphs are embedded, held-out ones too; garbage cannot be.
        **options: of :class:`RunOptions`.
    """
    seen: list[Encoded] = []
    real, predict = protocols.embeddings, GraphClassifier.predict

    def keep(model: Any, *arguments: Any) -> Any:
        weights = {k: v.clone() for k, v in model.state_dict().items() if torch.is_tensor(v)}
        seen.append(Encoded(weights, real(model, *arguments) if embed else None))
        return np.array([[len(seen) - 1.0]])  # tells afterwards of which fold it was

    def keep_classifier(model: GraphClassifier, batch: Any) -> Tensor:
        keep(model)
        return predict(model, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocols, "embeddings", keep)
        patch.setattr(GraphClassifier, "predict", keep_classifier)
        (trained,) = train([run], graphs, folder, **options)
    if trained.error is not None:
        raise trained.error
    order = [int(z[0, 0]) for z in trained.embeddings or ()] or range(len(seen))
    return [seen[number] for number in order]


def same_bits(state: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether all weights are equal."""
    assert state.keys() == other.keys()
    return all(torch.equal(state[key], other[key]) for key in state)


def of_graphs(graphs: GraphSet, ids: NDArray[np.int64]) -> Tensor:
    """Ids of the nodes of some graphs."""
    owner = torch.repeat_interleave(torch.arange(graphs.n_graphs), graphs.node_ptr.diff())
    return torch.isin(owner, torch.from_numpy(ids)).nonzero().flatten()


def with_garbage(
    graphs: GraphSet, ids: NDArray[np.int64], *, x: float | None = None, y: int | None = None
) -> GraphSet:
    """The set with other features or labels (all different) in some graphs."""
    features, labels = graphs.x.clone(), graphs.y.clone()
    if x is not None:
        features[of_graphs(graphs, ids)] = x
    if y is not None:
        labels[torch.from_numpy(ids)] = y + torch.arange(len(ids))
    return replace(graphs, x=features, y=labels)


def rewired(graphs: GraphSet, ids: NDArray[np.int64]) -> GraphSet:
    """The set with every edge of some graphs turned into a loop at the graph's first node."""
    edges = graphs.edge_index.clone()
    for g in ids:
        edges[:, graphs.edge_ptr[g] : graphs.edge_ptr[g + 1]] = graphs.node_ptr[g]
    return replace(graphs, edge_index=edges)


@contextmanager
def fixed_folds(folds: Sequence[Fold]) -> Iterator[None]:
    """Outer folds are these, whatever the labels are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocols, "outer_folds", lambda *_, **__: [*folds])
        yield
