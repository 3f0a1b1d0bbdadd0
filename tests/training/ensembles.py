"""Models and folds for the tests of populations."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard.functional.schedules import Linear
from gcl_hard.graphs import GIN, GraphClassifier, GraphSet, InfoGraph, load_graphs
from gcl_hard.graphs.models import GraphModel
from gcl_hard.graphs.order import epoch_batches

METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ucl", {}),
    ("hscl", {"beta": 1.0, "detach_weights": False, "hardness_scale": "anchor"}),
    ("scl", {}),
    ("hucl", {"beta": 10.0, "detach_weights": False, "hardness_scale": "batch-max"}),
    ("dcl", {"class_prior": 0.1}),
    ("hcl", {"beta": 2.0, "class_prior": 0.2, "hardness_scale": "anchor"}),
    ("hscl-tau", {"threshold": Linear(-0.5, 0.0), "hardness_scale": "batch-max"}),
    # weights in float64
    ("hucl", {"beta": 60.0, "detach_weights": False, "hardness_scale": "cosine"}),
    ("hucl", {"beta": 1.0, "hardness_scale": "rank"}),
)
STEPS = 12


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


def model(graphs: GraphSet, index: int, dtype: torch.dtype, **shape: Any) -> GraphModel:
    torch.manual_seed(index)
    gin = GIN(graphs.n_features, **({"dim": 8, "layers": 2} | shape))
    name, options = METHODS[index % len(METHODS)]
    return InfoGraph(gin, method=name, **options).to(dtype)


def models(graphs: GraphSet, dtype: torch.dtype, **shape: Any) -> list[GraphModel]:
    return [model(graphs, index, dtype, **shape) for index in range(len(METHODS))]


def classifiers(graphs: GraphSet, dtype: torch.dtype) -> list[GraphModel]:
    built: list[GraphModel] = []
    for index in range(3):
        torch.manual_seed(index)
        built.append(
            GraphClassifier(GIN(graphs.n_features, dim=8, layers=2), n_classes=2).to(dtype)
        )
    return built


def folds(graphs: GraphSet, n: int) -> list[Tensor | None]:
    """Of every member other graphs held out; of the last none."""
    return [*(torch.arange(k, graphs.n_graphs, n) for k in range(n - 1)), None]


def in_dtype(graphs: GraphSet, dtype: torch.dtype) -> GraphSet:
    return replace(graphs, x=graphs.x.to(dtype))


def stored(module: nn.Module) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in module.state_dict().items() if isinstance(v, Tensor)}


def same_bits(model: nn.Module, other: nn.Module) -> bool:
    first, second = stored(model), stored(other)
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


RATE = 1e-4
"""Learning rate at which what rounding adds to Adam's steps stays below 1e-9 in float64."""
OFF_BY_STEPS = ("nn.2.bias", "running_mean")
"""A bias that a normalisation takes away again has a gradient of rounding errors alone, and Adam
divides a gradient by its size; the mean of the normalisation moves along."""


def assert_close(
    first: Mapping[str, Tensor], second: Mapping[str, Tensor], steps: int = STEPS
) -> None:
    """Weights and buffers, float64, after at most so many steps of ``RATE``: to 1e-9."""
    assert first.keys() == second.keys()
    for name, value in first.items():
        off = 2 * RATE * steps if name.endswith(OFF_BY_STEPS) else 1e-9
        torch.testing.assert_close(
            value, second[name], rtol=1e-9, atol=off, msg=lambda text, name=name: f"{name}: {text}"
        )


def assert_same_model(actual: GraphModel, expected: GraphModel, graphs: GraphSet) -> None:
    """Weights, and loss and gradient of a batch of all graphs: to 1e-9 in float64."""
    assert_close(stored(actual), stored(expected))
    seen = []
    for model in (copy.deepcopy(actual).train(), copy.deepcopy(expected).train()):
        model.zero_grad()
        loss: Tensor = model(graphs.all())
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        seen.append((loss.detach(), torch.cat(gradients)))
    for mine, theirs in zip(*seen, strict=True):
        assert mine.dtype == torch.float64
        assert (mine - theirs).norm() <= 1e-9 * theirs.norm()


def batches_of(graphs: GraphSet, size: int, held_out: Tensor | None, epoch: int) -> Iterator[Any]:
    for index in epoch_batches(graphs.n_graphs, size, seed=0, epoch=epoch, held_out=held_out):
        yield graphs.batch(index)
