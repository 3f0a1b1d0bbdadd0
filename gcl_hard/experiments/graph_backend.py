"""Graphs, as experiments ask for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from gcl_hard.experiments import machine
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.place import Place, Running
from gcl_hard.experiments.seed_score import OnEpoch, Unscored
from gcl_hard.graphs import GraphSet, tudataset


class GraphBackend:
    """TU data sets, GIN and the two protocols; methods as in ``Backend``."""

    def canonical_name(self, name: str) -> str:
        """As the TUDataset site spells it."""
        return tudataset.canonical_name(name)

    def key(self, cell: GraphCell) -> tuple[str, ...]:
        """Data set, kind of features, and encodings."""
        return cell.dataset, cell.features, *(cell.encodings or ())

    def load(
        self, cell: GraphCell, data_dir: Path | None, device: torch.device, running: Running
    ) -> GraphSet:
        """The set, on the device."""
        from gcl_hard.graphs.encodings import encoded  # it loads NetworkX

        graphs = tudataset.load(cell.dataset, data_dir=data_dir, features=cell.features)
        return encoded(graphs, cell.encodings or ()).to(device)

    def files(self, cell: GraphCell, data_dir: Path | None) -> list[Path]:
        """The archive, or the files of an unpacked one."""
        path = tudataset.locate(cell.dataset, data_dir=data_dir).resolve()
        return sorted(path.rglob("*")) if path.is_dir() else [path]

    def facts(self, data: GraphSet) -> dict[str, Any]:
        """Sizes, the resolved kind of features, and a digest of the graphs themselves."""
        return facts(data)

    def resolved(self, cell: GraphCell, facts: dict[str, Any]) -> dict[str, Any]:
        """Nothing more."""
        return {}

    def size(self, data: GraphSet) -> tuple[int, int]:
        """Nodes and graphs."""
        return data.n_nodes, data.n_graphs

    def check(self, cell: GraphCell, data: GraphSet, *, inner: bool, device: torch.device) -> None:
        """Every class must have members in every fold."""
        from gcl_hard.evaluation.nested import inner_folds
        from gcl_hard.experiments.protocols import folds_of

        labels = data.y.cpu().numpy()
        for fold in folds_of(cell, labels, seed=0, inner=inner):
            inner_folds(labels[fold.train], n_inner=5, seed=0)

    def run(
        self, jobs: Sequence[Job], data: GraphSet, place: Place, on_epochs: Sequence[OnEpoch]
    ) -> Iterator[Unscored]:
        """Train side by side under the cells' protocol; SVMs are left to whoever has time."""
        from gcl_hard.experiments import graph_seeds

        cell = jobs[0].cell
        assert isinstance(cell, GraphCell)
        nodes = data.n_nodes / data.n_graphs * min(cell.batch_size, data.n_graphs)
        machine.use_threads(place.threads, nodes, cell.dim * cell.layers, place.cores)
        if cell.encoders:
            yield from graph_seeds.train_seeds(
                jobs, data, on_epochs,
                size=place.running.members, diagnostics=place.running.diagnostics,
            )  # fmt: skip
            return
        n_jobs = place.threads or place.cores
        for job in jobs:
            yield Unscored(job, graph_seeds.run_floor(job, data, n_jobs))


def facts(graphs: GraphSet) -> dict[str, Any]:
    """Sizes, the resolved kind of features, and a digest of the graphs themselves."""
    digest = hashlib.sha256()
    for tensor in (graphs.x, graphs.edge_index, graphs.y, graphs.node_ptr):
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    return {
        "n_graphs": graphs.n_graphs,
        "n_classes": graphs.n_classes,
        "n_features": graphs.n_features,
        "features": graphs.features,
        "digest": digest.hexdigest()[:16],
    }
