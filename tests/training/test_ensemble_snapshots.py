"""Members that are looked at while they train, and may leave: the others do not change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gcl_hard.graphs import GIN, Ensemble, GraphSet, InfoGraph, load_graphs
from gcl_hard.graphs.models import GraphModel
from gcl_hard.training.ensemble import Snapshots, train_ensemble
from gcl_hard.training.loop import Optimisation, train
from tests.training.ensembles import (
    RATE,
    assert_close,
    assert_same_model,
    batches_of,
    in_dtype,
    model,
    same_bits,
    stored,
)

EPOCHS = 4
HOW = Optimisation(epochs=EPOCHS, lr=RATE, precision="64-true")
STACKED = (0, 1, 3, 5)  # of populations.METHODS: those without a schedule over the epochs
ALONE = ("beta 500", "an encoder of one's own")

Bits = dict[str, Tensor]


@pytest.fixture(scope="module")
def mutag() -> GraphSet:
    """In double precision, where rounding stays below 1e-9."""
    return in_dtype(load_graphs("MUTAG"), torch.float64)


class MyEncoder(nn.Module):
    """Not a GIN, and with a buffer that training moves."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.out_dim = 6
        self.linear, self.norm = nn.Linear(n_features, 6), nn.BatchNorm1d(6)

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, **_: Tensor
    ) -> tuple[Tensor, Tensor]:
        nodes = self.norm(self.linear(x)).relu()
        graphs = nodes.new_zeros(int(batch.max()) + 1, 6).index_add(0, batch, nodes)
        return nodes, graphs


def members(graphs: GraphSet, kind: str) -> list[GraphModel]:
    """Untrained models, the same ones at every call."""
    if kind == "side by side":
        return [model(graphs, index, torch.float64) for index in STACKED]
    built: list[GraphModel] = []
    for index in range(3):
        torch.manual_seed(index)
        if kind == "beta 500":
            gin = GIN(graphs.n_features, dim=8, layers=2)
            built.append(InfoGraph(gin, method="hscl", beta=500.0 + index, hardness_scale="cosine"))
        else:
            built.append(InfoGraph(MyEncoder(graphs.n_features), method="hscl", beta=1.0 + index))
    return [model_.double() for model_ in built]


class Watch:
    """Who looks, at what it saw: losses and copies of weights."""

    def __init__(self, graphs: GraphSet, leaving: Mapping[int, int] = {}) -> None:
        self.graphs, self.leaving = graphs, leaving
        self.seen: dict[tuple[int, int], Bits] = {}
        self.order: list[tuple[int, list[int]]] = []
        self.reported: list[tuple[int, list[int]]] = []

    def see(self, epoch: int, models: Mapping[int, nn.Module]) -> Collection[int]:
        self.order.append((epoch, sorted(models)))
        for member, model_ in models.items():
            self.seen[epoch, member] = stored(model_)
            assert isinstance(model_, InfoGraph)
            model_.embed(self.graphs.all())  # what a search does: it may change nothing
        return [member for member in models if self.leaving.get(member) == epoch]

    def on_epoch(self, epoch: int, numbers: Sequence[int], losses: Sequence[float]) -> None:
        self.reported.append((epoch, list(numbers)))


def together(
    graphs: GraphSet,
    kind: str,
    looks: Sequence[Collection[int]],
    watch: Watch,
    hows: Sequence[Optimisation] | Optimisation = HOW,
) -> tuple[list[GraphModel], list[Any]]:
    built = members(graphs, kind)
    population = Ensemble(built, graphs, batch_size=64)
    if kind == "side by side":
        assert population.alone is None
        results = train_ensemble(
            population, hows, on_epoch=watch.on_epoch, snapshots=Snapshots(looks, watch.see)
        )
    else:
        assert population.alone is not None
        with pytest.warns(UserWarning, match=r"\b3 models\b"):
            results = train_ensemble(
                population, hows, on_epoch=watch.on_epoch, snapshots=Snapshots(looks, watch.see)
            )
    return built, results


def by_itself(graphs: GraphSet, kind: str, member: int, epochs: int) -> tuple[GraphModel, Any]:
    """A member trained for so many epochs, with nobody beside it and nobody looking."""
    optimisation = replace(HOW, epochs=epochs)
    model_ = members(graphs, kind)[member]
    if kind == "side by side":
        (losses,) = train_ensemble(Ensemble([model_], graphs, batch_size=64), optimisation)
    else:
        losses = train(model_, lambda epoch: batches_of(graphs, 64, None, epoch), optimisation)
    return model_, losses


def assert_trained_as(
    actual: GraphModel, results: Any, graphs: GraphSet, kind: str, *, member: int, epochs: int
) -> None:
    """A member is what it is by itself: in other company to 1e-9, one by one to the bit."""
    alone, losses = by_itself(graphs, kind, member, epochs)
    assert len(losses) == epochs
    if kind == "side by side":
        assert results == pytest.approx(losses, rel=1e-6)  # means are kept in single precision
        assert_same_model(actual, alone, graphs)
    else:
        assert results == losses
        assert same_bits(actual, alone)


KINDS = pytest.mark.parametrize("kind", ["side by side", *ALONE])


@KINDS
@pytest.mark.parametrize("leaving", [{0: 3, 1: 1, 2: 3}])
def test_a_model_that_leaves_is_that_of_shorter_training_and_the_others_do_not_change(
    mutag: GraphSet, kind: str, leaving: dict[int, int]
) -> None:
    watch = Watch(mutag, leaving)
    n = len(members(mutag, kind))
    ensemble, results = together(mutag, kind, [range(1, EPOCHS)] * n, watch)
    for member in range(n):
        epochs = leaving.get(member, EPOCHS)
        assert_trained_as(
            ensemble[member], results[member], mutag, kind, member=member, epochs=epochs
        )
    trained = {(epoch, member) for epoch, numbers in watch.reported for member in numbers}
    assert trained == {(e, m) for m in range(n) for e in range(1, leaving.get(m, EPOCHS) + 1)}


@KINDS
def test_what_is_seen_is_each_model_as_it_is_after_that_epoch(mutag: GraphSet, kind: str) -> None:
    watch = Watch(mutag)
    n = len(members(mutag, kind))
    looks = [[1, 3], [3], [], [2, EPOCHS]][:n]
    together(mutag, kind, looks, watch)
    due = {(epoch, member) for member, epochs in enumerate(looks) for epoch in epochs}
    assert set(watch.seen) == due
    for (epoch, member), bits in watch.seen.items():
        assert_close(bits, stored(by_itself(mutag, kind, member, epoch)[0]))
    if kind == "side by side":
        assert watch.order == [(1, [0]), (2, [3]), (3, [0, 1]), (EPOCHS, [3])]


@KINDS
def test_looking_changes_no_bit(mutag: GraphSet, kind: str) -> None:
    n = len(members(mutag, kind))
    looked, with_look = together(mutag, kind, [range(EPOCHS + 1)] * n, Watch(mutag))
    unseen, without = together(mutag, kind, [()] * n, Watch(mutag))
    assert with_look == without
    assert all(map(same_bits, looked, unseen))


def test_members_with_other_epochs_leave_by_their_own_numbers(mutag: GraphSet) -> None:
    """Rows move up as members end and leave; the numbers that a look gives do not."""
    hows = [replace(HOW, epochs=epochs) for epochs in (1, 4, 4, 4)]
    watch = Watch(mutag, {1: 2, 3: 3})
    ensemble, results = together(mutag, "side by side", [(), (2,), (2, 3), (2, 3)], watch, hows)
    assert watch.order == [(2, [1, 2, 3]), (3, [2, 3])]
    for member, epochs in enumerate((1, 2, 4, 3)):
        assert_trained_as(
            ensemble[member], results[member], mutag, "side by side", member=member, epochs=epochs
        )


def test_who_diverged_is_not_looked_at(mutag: GraphSet) -> None:
    ensemble = members(mutag, "side by side")
    torch.nn.init.constant_(ensemble[1].encoder.norms[0].weight, torch.nan)  # type: ignore
    watch = Watch(mutag, {2: 1})
    results = train_ensemble(
        Ensemble(ensemble, mutag, batch_size=64), HOW, snapshots=Snapshots([(1,)] * 4, watch.see)
    )
    assert watch.order == [(1, [0, 2, 3])]
    assert isinstance(results[1], Exception)
    for member, epochs in ((0, EPOCHS), (2, 1), (3, EPOCHS)):
        assert_trained_as(
            ensemble[member], results[member], mutag, "side by side", member=member, epochs=epochs
        )
