"""Small cells on graphs, models that have trained a little, what a look holds, tiny commands."""

from __future__ import annotations

import json
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from gcl_hard.experiments.options import parse_bench
from gcl_hard.experiments.run import Outcome, run
from rich.console import Console
from torch import Tensor

from gcl_hard import evaluation
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.diagnostics import Sample
from gcl_hard.experiments.protocols import build
from gcl_hard.graphs import GraphSet
from gcl_hard.graphs.models import GraphContrast


def small(method: str = "hscl", **settings: Any) -> GraphConfig:
    return GraphConfig(
        **{"method": method, "epochs": 2, "batch_size": 32, "layers": 2, "dim": 4, "folds": 3,
           **settings}
    )  # fmt: skip


def warm(cell: GraphConfig, graphs: GraphSet, seed: int = 0) -> GraphContrast:
    """A model with weights of its seed, and running statistics that are no defaults."""
    model = build(cell, graphs.n_features, seed)
    assert isinstance(model, GraphContrast)
    model.set_epoch(1, cell.epochs)
    model.train()
    for start in (0, 30, 60):
        model(graphs.batch(torch.arange(start, start + 30))).backward()
    model.zero_grad()
    return model


def tensors(sample: Sample | None) -> dict[str, Tensor]:
    """All that a sample holds."""
    assert sample is not None
    found = {"z": sample.z, "labels": sample.labels}
    for number, batch in enumerate(sample.batches):
        for of in (batch, batch.scores):
            values = of._asdict() if isinstance(of, tuple) else vars(of)
            found |= {
                f"{number} {name}": value
                for name, value in values.items()
                if isinstance(value, Tensor)
            }
    return found


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


EPOCHS = 5
TINY = [f"--epochs={EPOCHS}", "--layers=1", "--dim=4", "--folds=2", "--device=cpu", "--threads=1"]


def go(output: Path, *arguments: str, said: StringIO | None = None) -> Outcome:
    """A command on MUTAG that ends well; what it prints goes to ``said``. One C saves time."""
    options = parse_bench([*TINY, f"--output={output}", *arguments])
    with pytest.MonkeyPatch.context() as patch:
        for name in ("svm_cross_validation", "svm_fold"):
            patch.setattr(evaluation, name, partial(getattr(evaluation, name), C_grid=(1.0,)))
        outcome = run(options, Console(file=said or StringIO(), width=300))
    assert outcome.failures == []
    return outcome


def saved(folder: Path) -> dict[str, dict[str, Any]]:
    """Records by the name of their file."""
    found = sorted(folder.glob("*_seed*.json"))
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in found}


def epochs(stored: dict[str, Any]) -> list[int]:
    """Of the looks of a record."""
    return [look["epoch"] for look in stored["diagnostics"]]
