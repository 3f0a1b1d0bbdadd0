"""Small sets of vectors, and contexts of their runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from gcl_hard.experiments.experiment import RunContext, TrainedRun, silent
from gcl_hard.experiments.record import Scored
from gcl_hard.experiments.run import Run
from gcl_hard.vectors import VectorSet
from gcl_hard.vectors.experiment import VectorExperiment
from gcl_hard.vectors.settings import VectorConfig
from tests.experiments.made import context as made_context


def blobs(classes: int = 12, each: int = 10, width: int = 6, seed: int = 0) -> VectorSet:
    """Gaussian classes, whose items differ along one direction more than classes do."""
    draws = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), each)
    x = draws.normal(size=(classes, width))[y] + 0.3 * draws.normal(size=(len(y), width))
    x[:, 0] += 3 * draws.normal(size=len(y))
    order = draws.permutation(len(y))
    return VectorSet.from_arrays(x[order], y[order], name="blobs")


def digits(n: int = 400) -> VectorSet:
    x, y = load_digits(return_X_y=True)
    return VectorSet.from_arrays(x[:n], y[:n], name="digits")


def with_split(vectors: VectorSet, seed: int = 0) -> VectorSet:
    parts = np.random.default_rng(seed).integers(0, 3, len(vectors)).astype(np.int8)
    return replace(vectors, split=parts)


def context(folder: Path, **options: Any) -> RunContext:
    return made_context(folder, **options)


def ran(
    config: VectorConfig, vectors: VectorSet, folder: Path, **run: Any
) -> tuple[TrainedRun, Scored]:
    """A run, trained and scored."""
    experiment, where = VectorExperiment(), context(folder).without_checkpoints()
    (trained,) = experiment.train([Run(config, 0, **run)], vectors, where, silent)
    return trained, experiment.score(trained, vectors, where)


def npz(vectors: VectorSet, path: Path, **more: NDArray[Any]) -> Path:
    np.savez(path, x=vectors.x, y=vectors.y, **more)
    return path
