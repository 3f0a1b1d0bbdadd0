"""What trained models of every backend share: an encoder's width, a method's loss, eval mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gcl_hard.errors import InputError
from gcl_hard.losses import ContrastiveLoss
from gcl_hard.methods import contrastive_loss


def width(encoder: nn.Module, out_dim: int | None) -> int:
    """The width of an encoder's embeddings: as given, else ``encoder.out_dim``.

    Args:
        encoder: any module.
        out_dim: d, or None.

    Returns:
        d.

    Raises:
        InputError: if neither says it.

    Example:
        >>> width(nn.Linear(3, 8), 8)
        8
    """
    known = out_dim if out_dim is not None else getattr(encoder, "out_dim", None)
    if not isinstance(known, int) or known < 1:
        raise InputError(
            f"out_dim must be the width of {type(encoder).__name__}'s embeddings, a whole number "
            f"of at least 1, got {known}"
        )
    return known


def loss_of(method: str, loss: ContrastiveLoss | None, options: dict[str, Any]) -> ContrastiveLoss:
    """A loss of the caller's own, or that of a method.

    Args:
        method: a name of ``METHODS``; ignored if ``loss`` is given.
        loss: a :class:`ContrastiveLoss`, or None.
        options: of :func:`gcl_hard.contrastive_loss`.

    Returns:
        The loss.

    Raises:
        InputError: for options beside ``loss``.

    Example:
        >>> loss_of("ucl", None, {}).objective
        'infonce'
    """
    if loss is not None and options:
        raise InputError(f"pass either loss or {', '.join(options)}, not both")
    return loss or contrastive_loss(method, **options)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradient; every module is left in the mode it was in."""
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in training.items():
            module.training = mode
