"""Cells that train in a moment, on MUTAG, and the weights that come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor

from gcl_hard.graphs import GraphSet, load_graphs
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.graphs.training import Encoder, Result
from gcl_hard.training.loop import Optimisation

PROBES: tuple[dict[str, Any], ...] = (
    {}, {"kernel": "linear", "c_grid": (0.1, 1.0)}, {"standardise": False},
    {"c_grid": (0.1, 10.0)},
)  # fmt: skip


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    return load_graphs("MUTAG")


@pytest.fixture
def float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders train in float64.

    In float32 a gradient that is zero but for rounding is above Adam's ε, so the parameter takes
    a whole step in a direction that rounding decides.
    """
    build, optimisation = Encoder.build, GraphConfig.optimisation

    def precise(config: GraphConfig) -> Optimisation:
        return replace(optimisation(config), precision="64-true")

    monkeypatch.setattr(Encoder, "build", lambda encoder: build(encoder).double())
    monkeypatch.setattr(GraphConfig, "optimisation", precise)


def small(method: str = "hscl", **settings: Any) -> GraphConfig:
    return GraphConfig(
        **{"method": method, "epochs": 2, "batch_size": 64, "layers": 2, "dim": 4, "folds": 3,
           **settings}
    )  # fmt: skip


def two_view(method: str = "hscl", **settings: Any) -> GraphConfig:
    return small(method, contrast="two-view", **settings)


def scored(method: str, **settings: Any) -> list[GraphConfig]:
    return [two_view(method, **settings, **probe) for probe in PROBES]


def assert_each_its_own(
    ensemble: dict[int, dict[str, Tensor]], alone: dict[int, dict[str, Tensor]]
) -> None:
    """Encoders are those trained by themselves, up to rounding, and no others."""
    assert ensemble.keys() == alone.keys()
    for number, state in ensemble.items():
        off = {other: _distance(state, theirs) for other, theirs in alone.items()}
        weights = off.pop(number)
        assert weights < 1e-6 * min(off.values())


def _distance(weights: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    if any(weights[name].shape != other[name].shape for name in weights):
        return float("inf")
    return sum(float((weights[name] - other[name]).square().sum()) for name in weights) ** 0.5


def weights(results: Sequence[Result]) -> dict[int, dict[str, Tensor]]:
    distances = {}
    for result in results:
        assert isinstance(result.loss, float)
        state = result.model.state_dict()
        distances[result.number] = {k: v for k, v in state.items() if isinstance(v, Tensor)}
    return distances
