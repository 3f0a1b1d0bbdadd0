"""Whether torch is recomputing, compiling or transforming the current code."""

from __future__ import annotations

import torch
from torch import Tensor

from gcl_hard.errors import InputError


def in_backward() -> bool:
    """Whether torch is in a backward pass, where activation checkpointing recomputes."""
    return bool(torch._C._current_graph_task_id() >= 0)


def hooked() -> bool:
    """Whether saved-tensor hooks are active, as in passes under activation checkpointing and in
    their recomputation.
    """
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def may_be_repeated() -> bool:
    """Whether a forward pass may be recomputed: with such hooks, or without a gradient, as under
    activation checkpointing with ``use_reentrant=True``.
    """
    return (hooked() or not torch.is_grad_enabled()) and not transformed()


def transformed() -> bool:
    """Whether a compiler or a transform of torch.func is active, which see no values."""
    return torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None


def refuse_vmap(values: Tensor, operation: str) -> None:
    """InputError inside ``torch.vmap``, for operations that read values."""
    if torch._C._functorch.is_batchedtensor(values):
        raise InputError(
            f"{operation} cannot be vectorised by torch.vmap: call the loss for each batch"
        )
