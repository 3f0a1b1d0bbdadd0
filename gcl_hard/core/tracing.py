"""What torch is doing around a loss: recomputing it, compiling it, or transforming it."""

from __future__ import annotations

import torch
from torch import Tensor

from gcl_hard.errors import InputError


def in_backward() -> bool:
    """Whether torch is in a backward pass, where activation checkpointing computes again."""
    return bool(torch._C._current_graph_task_id() >= 0)


def hooked() -> bool:
    """Whether hooks are around what is saved for a backward pass, as activation checkpointing has
    in a forward pass and where it computes it again.
    """
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def may_be_repeated() -> bool:
    """Whether a forward pass may be computed again: one with such hooks, or without a gradient, as
    activation checkpointing with ``use_reentrant=True`` begins.
    """
    return (hooked() or not torch.is_grad_enabled()) and not transformed()


def transformed() -> bool:
    """Whether a compiler or a transform of torch.func is at work, which see no values."""
    return torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None


def refuse_vmap(values: Tensor, what: str) -> None:
    """InputError inside of ``torch.vmap``, for what looks at values as it goes on."""
    if torch._C._functorch.is_batchedtensor(values):
        raise InputError(f"{what} cannot be vectorised by torch.vmap: call the loss for each batch")
