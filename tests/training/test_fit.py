"""Training on a set or a loader, by any optimiser and schedule, until a callback ends it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.loader import DataLoader

from gcl_hard import fit
from gcl_hard.errors import InputError
from gcl_hard.graphs import GIN, GraphSet, InfoGraph, epoch_batches, load_graphs
from gcl_hard.training.loop import Optimisation, train
from tests.training.ensembles import in_dtype


@pytest.fixture
def mutag() -> GraphSet:
    # In double precision: Adam divides a gradient by its size, so that rounding grows by steps.
    return in_dtype(load_graphs("MUTAG")[:60], torch.float64)


def model(seed: int = 0) -> InfoGraph:
    torch.manual_seed(seed)
    return InfoGraph(GIN(7, dim=4, layers=1), method="hscl").double()


def by_hand(
    graphs: GraphSet, epochs: int, make: Any, schedule: Any = None, seed: int = 0
) -> list[float]:
    net, means = model(), []
    net.train()
    optimizer = make(net.parameters())
    turning = schedule and schedule(optimizer)
    for epoch in range(1, epochs + 1):
        losses = []
        for index in epoch_batches(len(graphs), 20, seed=seed, epoch=epoch):
            loss = net(graphs.batch(index))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if turning:
            turning.step()
        means.append(sum(losses) / len(losses))
    return means


def test_a_set_is_cut_into_batches_in_a_seeded_order(mutag: GraphSet) -> None:
    losses = fit(model(), mutag, epochs=3, lr=0.01, batch_size=20, seed=4)
    expected = by_hand(mutag, 3, lambda p: torch.optim.Adam(p, lr=0.01), seed=4)
    assert losses == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop])
def test_any_optimiser_and_schedule_do_what_they_do_by_hand(kind: Any, mutag: GraphSet) -> None:
    rates = {"lr": 0.003, "weight_decay": 0.01}

    def schedule(optimizer: Any) -> Any:
        return torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.3)

    losses = fit(
        model(), mutag, epochs=3, batch_size=20, optimizer=kind, lr_schedule=schedule, **rates
    )
    expected = by_hand(mutag, 3, lambda p: kind(p, **rates), schedule)
    assert losses == pytest.approx(expected, rel=1e-5)


def test_a_loader_is_trained_on(mutag: GraphSet) -> None:
    loader = DataLoader(list(mutag), batch_size=20)
    seen: list[tuple[int, float]] = []
    losses = fit(model(), loader, epochs=2, on_epoch=lambda *args: seen.append(args))
    assert [loss for _, loss in seen] == losses
    assert losses == train(model(), loader, Optimisation(epochs=2))


def test_false_ends_the_training_and_nothing_else_does(mutag: GraphSet) -> None:
    assert len(fit(model(), mutag, epochs=9, on_epoch=lambda epoch, loss: epoch < 3)) == 3
    assert len(fit(model(), mutag, epochs=3, on_epoch=lambda epoch, loss: 0)) == 3
    stop = torch.tensor(False)
    assert len(fit(model(), mutag, epochs=3, on_epoch=lambda epoch, loss: stop)) == 1


def test_a_schedule_may_follow_the_loss(mutag: GraphSet) -> None:
    seen: list[Any] = []

    def plateau(optimizer: Any) -> Any:
        seen.append(torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0))
        return seen[0]

    losses = fit(model(), mutag, epochs=2, lr_schedule=plateau)
    assert seen[0].best == pytest.approx(min(losses))


def test_batches_are_moved_whatever_they_are_made_of() -> None:
    class Sum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float32))

        def forward(self, batch: Any) -> torch.Tensor:
            devices.extend(part.device.type for part in batch)
            return (self.weight * batch[0]).sum()

    devices: list[str] = []
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.ones(4, 2), torch.ones(4)), batch_size=2
    )
    assert len(fit(Sum(), loader, epochs=1)) == 1
    assert devices == ["cpu"] * 4


def test_what_cannot_be_used_is_refused(mutag: GraphSet) -> None:
    for name, more in (
        ("lr-schedule", {"lr_schedule": "cosin"}), ("lr", {"lr": 0}),
        ("batch_size", {"batch_size": 1}),
    ):  # fmt: skip
        with pytest.raises(InputError, match=name):
            fit(model(), mutag, **more)  # type: ignore[arg-type]
    for wrong in (list(mutag), "MUTAG", mutag.batch([0, 1])):
        with pytest.raises(InputError, match="loader"):
            fit(model(), wrong)
