"""Train any module that maps a batch to a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gcl_hard.errors import DivergenceError, InputError

Precision = Literal["32-true", "64-true", "16-mixed", "bf16-mixed"]


@dataclass(frozen=True)
class Optimisation:
    """How a model is optimised: Adam, for a number of epochs.

    Args:
        epochs: ≥ 1.
        lr: learning rate, > 0.
        weight_decay: ≥ 0.
        lr_schedule: ``"constant"``, or ``"cosine"`` to 0 over the epochs.
        precision: as Lightning Fabric names it.

    Raises:
        InputError: for a value out of range.

    Example:
        >>> Optimisation(epochs=0)
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: epochs must be at least 1, got 0
    """

    epochs: int = 200
    lr: float = 0.01
    weight_decay: float = 0.0
    lr_schedule: Literal["constant", "cosine"] = "constant"
    precision: Precision = "32-true"

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise InputError(f"epochs must be at least 1, got {self.epochs}")
        if not 0 < self.lr < float("inf"):
            raise InputError(f"lr must be a finite number above 0, got {self.lr}")
        if not 0 <= self.weight_decay < float("inf"):
            raise InputError(f"weight-decay must be a finite number of at least 0, got "
                             f"{self.weight_decay}")  # fmt: skip


def train(
    model: nn.Module,
    batches: Callable[[int], Iterable[Any]],
    optimisation: Optimisation,
    *,
    device: str | torch.device = "cpu",
    on_epoch: Callable[[int, float], None] | None = None,
    setting: str = "",
) -> list[float]:
    """Train a model in place.

    Args:
        model: ``model(batch)`` is the loss, float []; its ``set_epoch(epoch, epochs)``, if it has
            one, is called as an epoch begins.
        batches: the batches of an epoch (from 1), on ``device``.
        optimisation: how.
        device: where.
        on_epoch: called with the epoch and its mean loss as it ends.
        setting: what is being trained, for the message when it diverges.

    Returns:
        Mean loss per epoch, nats.

    Raises:
        DivergenceError: if a loss is not finite; names epoch, batch and setting.

    Example:
        >>> class Square(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.w = nn.Parameter(torch.ones(1))
        ...     def forward(self, batch):
        ...         return (self.w * batch).square().sum()
        >>> losses = train(Square(), lambda epoch: [torch.ones(1)], Optimisation(5, lr=0.1))
        >>> losses[0] > losses[-1]
        True
    """
    from lightning_fabric import Fabric  # seconds to import, so only when training starts

    target = torch.device(device)
    fabric = Fabric(
        accelerator="cuda" if target.type == "cuda" else target.type,
        devices=[target.index or 0] if target.type == "cuda" else 1,
        precision=optimisation.precision,
    )
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=optimisation.lr,
        weight_decay=optimisation.weight_decay,
        fused=target.type in ("cpu", "cuda"),
    )
    wrapped, wrapped_optimizer = fabric.setup(model, optimizer)
    scheduler = None
    if optimisation.lr_schedule == "cosine":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, optimisation.epochs)
    set_epoch: Callable[[int, int], None] | None = getattr(model, "set_epoch", None)
    means = []
    model.train()
    for epoch in range(1, optimisation.epochs + 1):
        if set_epoch is not None:
            set_epoch(epoch, optimisation.epochs)
        losses: list[Tensor] = []
        for batch in batches(epoch):
            wrapped_optimizer.zero_grad()
            loss = wrapped(batch)
            fabric.backward(loss)
            wrapped_optimizer.step()
            losses.append(loss.detach())
        if scheduler is not None:
            scheduler.step()
        means.append(_mean(losses, epoch, setting))
        if on_epoch is not None:
            on_epoch(epoch, means[-1])
    return means


def _mean(losses: list[Tensor], epoch: int, setting: str) -> float:
    """Mean loss of an epoch; read once an epoch, so that a GPU is not waited for at every step."""
    if not losses:
        raise InputError(f"epoch {epoch} has no batch to train on{_of(setting)}")
    values = torch.stack(losses).float()
    bad = (~values.isfinite()).nonzero()
    if len(bad):
        batch = int(bad[0])
        raise DivergenceError(
            f"the loss is {values[batch].item()} in epoch {epoch}, batch {batch + 1} of "
            f"{len(losses)}{_of(setting)}; nothing of this run was saved. Lower lr or beta, or "
            f"raise temperature"
        )
    return float(values.mean())


def _of(setting: str) -> str:
    return f" ({setting})" if setting else ""
