"""The training loop against a hand-written one, and when things go wrong."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from gcl_hard import DivergenceError, InputError
from gcl_hard.errors import OutOfMemory
from gcl_hard.training.loop import Optimisation, train
from tests.said import says


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


@pytest.mark.parametrize("accumulate", [2, 3, 4])
def test_accumulated_gradients_equal_steps_on_mean_losses(accumulate):
    batches = [(x, 3 * x + 1) for x in X.split(2)]  # 4: groups of 2 + 2, 3 + 1 and 4
    model, by_hand, epochs, settings = line(), line(), 5, {"lr": 0.05, "weight_decay": 0.1}
    losses = train(
        model, lambda epoch: batches, Optimisation(epochs, accumulate=accumulate, **settings)
    )
    optimizer = torch.optim.Adam(by_hand.parameters(), **settings)
    expected = []
    for _ in range(epochs):
        values = []
        for first in range(0, 4, accumulate):
            group = [by_hand(batch) for batch in batches[first : first + accumulate]]
            optimizer.zero_grad()
            torch.stack(group).mean().backward()
            optimizer.step()
            values += [loss.item() for loss in group]
        expected.append(sum(values) / 4)
    assert losses == pytest.approx(expected, rel=1e-6)
    for ours, theirs in zip(model.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("accumulate", "drawn"), [(1, [1, 2, 3, 4]), (3, [3, 3, 3, 4])])
def test_batches_are_drawn_no_earlier_than_they_are_needed(accumulate, drawn):
    seen, so_far = [], []

    def batches(epoch):
        for x in X.split(2):
            so_far.append(x)
            yield x, x

    model = line()
    model.register_forward_pre_hook(lambda *_: seen.append(len(so_far)))
    train(model, batches, Optimisation(1, accumulate=accumulate))
    assert seen == drawn


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

    message = r"\bloss\b.*\b(inf|nan)\b.*\bepoch 2, batch 2\D+2 \(PTC hscl, seed 3\).*\bsaved\b"
    with pytest.raises(DivergenceError, match=message):
        train(line(), batches, Optimisation(5), setting="PTC hscl, seed 3")


def test_numbers_that_are_not_finite_before_the_first_step_are_not_of_its_settings():
    with pytest.raises(DivergenceError, match=r"\bepoch 1, batch 1\b.*\bfirst step\b"):
        train(line(), lambda epoch: [(X, X * math.nan)], Optimisation(5))


def test_a_last_step_that_leaves_no_number_is_told():
    """No loss comes after it."""
    with pytest.raises(DivergenceError, match=r"\blast step\b.*\bPTC hscl\b"):
        train(line(), lambda epoch: BATCHES[:1], Optimisation(1, lr=1e39), setting="PTC hscl")


def test_data_without_negatives_are_told():
    from gcl_hard.graphs import GIN, InfoGraph, load_graphs
    from gcl_hard.training.loop import fit

    mutag = load_graphs("MUTAG")
    one_class = mutag[torch.nonzero(mutag.y == 1)[:20, 0]]
    with pytest.raises(InputError, match=r"\b2 of 2 batches\b.*\bclasses\b.*\bucl\b.*\bhucl\b"):
        fit(InfoGraph(GIN(7, dim=4, layers=1), method="hscl"), one_class, epochs=2, batch_size=10)


def test_an_epoch_without_batches_is_an_error():
    with pytest.raises(InputError, match=r"^epoch 1\b.*\bbatch\b"):
        train(line(), lambda epoch: [], Optimisation(1))


class Hungry(nn.Module):
    """Fails at the second batch of the second epoch."""

    def __init__(self, error):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))
        self.error, self.calls = error, 0

    def forward(self, batch):
        self.calls += 1
        if self.calls == 5:
            if self.error is None:
                torch.empty(2**60)  # what PyTorch says of the CPU's memory, whatever the version
            else:
                raise self.error
        return self.w.sum()


OUT = [
    None,
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]


@pytest.mark.parametrize("accumulate", [2])
@pytest.mark.parametrize("error", OUT, ids=lambda error: type(error).__name__)
def test_out_of_memory_says_where_and_what_to_lower(error, accumulate):
    batches = [torch.zeros(7, 2)] * 3
    with pytest.raises(OutOfMemory) as caught:
        train(
            Hungry(error), lambda epoch: batches, Optimisation(2, accumulate=accumulate),
            setting="CIFAR10 ucl, seed 3",
        )  # fmt: skip
    assert says(str(caught.value), "epoch 2, batch 2", "batch-size")
    assert isinstance(caught.value.__cause__, (MemoryError, RuntimeError))


def test_memory_may_run_out_while_a_batch_is_made():
    def batches(epoch):
        yield BATCHES[0]
        torch.empty(2**60)

    with pytest.raises(OutOfMemory, match=r"epoch 1, batch 2\b.*batch-size"):
        train(line(), batches, Optimisation(1))


@pytest.mark.parametrize("error", [RuntimeError("shapes cannot be multiplied"), KeyError("x")])
def test_other_errors_are_let_through(error):
    with pytest.raises(type(error)) as caught:
        train(Hungry(error), lambda epoch: BATCHES * 2, Optimisation(2))
    assert caught.value is error


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0), ("epochs", 2.5), ("accumulate", 0), ("lr", 0.0), ("lr", math.nan),
        ("lr", "a"), ("weight_decay", -1.0), ("lr_schedule", "cosin"), ("precision", "bf16"),
    ],
)  # fmt: skip
def test_bad_settings_are_named(name, value):
    with pytest.raises(InputError, match=name.replace("_", "-")):
        Optimisation(**{name: value})


def test_a_loader_is_iterated_over_once_an_epoch():
    first, second = line(), line()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, 3 * X + 1), batch_size=4)
    by_loader = train(first, loader, Optimisation(3))
    assert by_loader == train(second, lambda epoch: BATCHES, Optimisation(3))
