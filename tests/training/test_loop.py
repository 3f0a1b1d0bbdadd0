"""The training loop against a hand-written one, and when things go wrong."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from gcl_hard import DivergenceError, InputError
from gcl_hard.training.loop import Optimisation, train


class Line(nn.Module):
    """Least squares on (x, y) batches; remembers the epochs it was told."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.epochs = []

    def set_epoch(self, epoch, epochs):
        self.epochs.append((epoch, epochs))

    def forward(self, batch):
        x, y = batch
        return (self.linear(x) - y).square().mean()


def line(seed=0):
    torch.manual_seed(seed)
    return Line()


X = torch.linspace(-1, 1, 8)[:, None]
BATCHES = [(X[:4], 3 * X[:4] + 1), (X[4:], 3 * X[4:] + 1)]


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_equals_adam_by_hand(schedule):
    model, by_hand, epochs, lr = line(), line(), 6, 0.05
    losses = train(
        model, lambda epoch: BATCHES, Optimisation(epochs, lr=lr, lr_schedule=schedule,
        weight_decay=0.01)
    )  # fmt: skip
    optimizer = torch.optim.Adam(by_hand.parameters(), lr=lr, weight_decay=0.01)
    expected = []
    for epoch in range(epochs):
        if schedule == "cosine":
            optimizer.param_groups[0]["lr"] = lr * (1 + math.cos(math.pi * epoch / epochs)) / 2
        values = []
        for batch in BATCHES:
            optimizer.zero_grad()
            loss = by_hand(batch)
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        expected.append(sum(values) / 2)
    assert losses == pytest.approx(expected, rel=1e-6)
    for ours, theirs in zip(model.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_tells_epochs_from_one_and_reports_progress():
    model, seen = line(), []
    losses = train(
        model, lambda epoch: BATCHES, Optimisation(3), on_epoch=lambda e, v: seen.append((e, v))
    )
    assert model.epochs == [(1, 3), (2, 3), (3, 3)]
    assert seen == list(enumerate(losses, 1))


def test_double_precision_trains_in_double():
    model = line().double()
    batches = [(x.double(), y.double()) for x, y in BATCHES]
    train(model, lambda epoch: batches, Optimisation(2, precision="64-true"))
    assert model.linear.weight.dtype == torch.float64


def test_divergence_names_epoch_batch_and_setting():
    def batches(epoch):
        return [BATCHES[0], (X[4:], X[4:] * (math.inf if epoch == 2 else 1.0))]

    message = r"the loss is (inf|nan) in epoch 2, batch 2 of 2 \(PTC hscl, seed 3\); nothing of th"
    with pytest.raises(DivergenceError, match=message):
        train(line(), batches, Optimisation(5), setting="PTC hscl, seed 3")


def test_an_epoch_without_batches_is_an_error():
    with pytest.raises(InputError, match="epoch 1 has no batch"):
        train(line(), lambda epoch: [], Optimisation(1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"lr": 0.0}, "lr must be"),
        ({"lr": math.nan}, "lr must be"),
        ({"weight_decay": -1.0}, "weight-decay must be"),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        Optimisation(**arguments)
