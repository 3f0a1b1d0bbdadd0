"""A model that draws from every generator, trained, stopped and resumed."""

from __future__ import annotations

import math
import random

import numpy as np
import torch
from torch import nn

from gcl_hard.training.loop import Optimisation, train
from gcl_hard.training.stopping import EarlyStopping

RUN = {"method": "hscl", "lr": 0.01, "views": ("crop", "flip"), "temperature": None}
PER_EPOCH = 5  # batches
X = torch.linspace(-1, 1, 6 * PER_EPOCH * 3).reshape(-1, 3)
Y = X.sum(1, keepdim=True).sin()


class Stopped(Exception):  # noqa: N818
    """Stands for the process being killed."""


class Noisy(nn.Module):
    """BatchNorm, dropout, and a draw from every global generator at each batch."""

    def __init__(self, width=4, stop_at=math.inf):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(width, 1),
        )  # fmt: skip
        self.calls, self.stop_at = 0, stop_at

    def forward(self, batch):
        self.calls += 1
        x, y = (part.to(self.net[0].weight.device) for part in batch)
        noise = torch.randn_like(x) * random.random() * np.random.rand()  # noqa: NPY002
        if self.calls >= self.stop_at:
            raise Stopped
        return (self.net(x + noise) - y).square().mean()


def lazily(epoch):
    """Order and noise from the global generator, each as it is needed."""
    for rows in torch.randperm(len(X)).split(6):
        yield X[rows] + 0.1 * torch.randn(1), Y[rows]


def eagerly(epoch):
    return list(lazily(epoch))


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def stopping(model, scores=(0, 2, 1, 3, 0)):
    """Early stopping by scores that the number of batches seen decides, in another mode."""

    def score():
        model.eval()
        return scores[int(model.net[1].num_batches_tracked) // PER_EPOCH - 1]

    return EarlyStopping(model, score, patience=2)


def fit(
    checkpoint, *, seed=0, batches=lazily, stop_at=math.inf, device="cpu", notes=None, stops=None,
    epochs=4, **settings,
):  # fmt: skip
    """Train; the weights at the start and every global generator come from the seed."""
    seed_everything(seed)
    model = Noisy(stop_at=stop_at).to(device)

    def noted(epoch, mean):
        if checkpoint is not None:
            checkpoint.notes.setdefault("curve", []).append((epoch, np.float64(mean)))

    defaults = {"lr": 0.05, "weight_decay": 0.01, "lr_schedule": "cosine"}
    losses = train(
        model, batches, Optimisation(epochs, **(defaults | settings)), device=device,
        checkpoint=checkpoint, on_epoch=noted, stopping=None if stops is None else stops(model),
    )  # fmt: skip
    return model, losses


def read(path):
    return torch.load(path, weights_only=True)


def same(first, second):
    """Equal to the bit, whatever tensors and containers are nested in."""
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second
