"""Helpers shared by the models of graphs and images: embedding width, loss, evaluation mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from gcl_hard.errors import InputError, check_at_least
from gcl_hard.losses.loss import ContrastiveLoss
from gcl_hard.losses.methods import contrastive_loss

InParts = tuple[Sequence[Any], Callable[..., Tensor]]
"""The parts of a batch, and the loss of their joined embeddings."""


def width(encoder: nn.Module, out_dim: int | None) -> int:
    """The width of an encoder's embeddings: ``out_dim``, or ``encoder.out_dim`` if that is None.

    Args:
        encoder: any module.
        out_dim: d, or None.

    Returns:
        d.

    Raises:
        InputError: if neither is a whole number of at least 1, or the encoder is a class.

    Example:
        >>> width(nn.Linear(3, 8), 8)
        8
    """
    if isinstance(encoder, type):
        raise InputError(
            f"{encoder.__name__} is a class: give an encoder, as {encoder.__name__}(…)"
        )
    known: Any = out_dim if out_dim is not None else getattr(encoder, "out_dim", None)
    check_at_least(f"out_dim, the width of {type(encoder).__name__}'s embeddings,", known, 1)
    return int(known)


def loss_of(
    method: str | None, loss: ContrastiveLoss | None, options: Mapping[str, Any]
) -> ContrastiveLoss:
    """A loss, or that of a method if it is None.

    Args:
        method: a name of ``METHODS``; ``ucl`` if None.
        loss: a :class:`ContrastiveLoss`, or None for the method's.
        options: options of :func:`gcl_hard.contrastive_loss`.

    Returns:
        The loss.

    Raises:
        InputError: if ``loss`` and a method or options are given.

    Example:
        >>> loss_of(None, None, {}).objective
        'infonce'
    """
    stated = [*["method"][: method is not None], *options]
    if loss is not None and stated:
        raise InputError(f"pass either loss or {', '.join(stated)}, not both")
    return loss or contrastive_loss(method or "ucl", **options)


@cache
def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of a name, or takes any keyword."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the mode of every module is restored afterwards."""
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in training.items():
            module.training = mode
