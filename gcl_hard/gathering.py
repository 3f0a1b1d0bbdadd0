"""Embeddings of all processes of a distributed training, with their gradient."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, distributed

from gcl_hard.errors import InputError


def world_size() -> int:
    """Number of processes that train together, 1 if none have been set up.

    Example:
        >>> world_size()
        1
    """
    ready = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if ready else 1


def rank() -> int:
    """Number of this process among those that train together, from 0.

    Example:
        >>> rank()
        0
    """
    return distributed.get_rank() if world_size() > 1 else 0


def gather(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Rows of all processes, one process after the other, for a loss over the joined batch.

    Every process must call it, with tensors of the same number of dimensions and kinds. Processes
    may have different numbers of rows, or none. The gradient of a process's own rows is the sum of
    what all processes have for them; if each computes the loss of the joined batch, that is the
    number of processes times its gradient, of which DistributedDataParallel's mean is right.

    Args:
        *tensors: such as embeddings [B, d] of each view and labels [B]; B is one number on a
            process.

    Returns:
        A tensor for each, with the rows of all processes; those given if there is one process.

    Raises:
        InputError: on all processes, if their rows have different shapes or dtypes.

    Example:
        >>> z, y = gather(torch.eye(2), torch.tensor([0, 1]))
        >>> z.shape, y.shape
        (torch.Size([2, 2]), torch.Size([2]))
    """
    if world_size() == 1:
        return tensors
    counts = counts_of(*tensors)
    return tuple(gathered(x, counts) for x in tensors)


def counts_of(*tensors: Tensor) -> list[int]:
    """Number of rows on each process.

    Args:
        *tensors: as for :func:`gather`.

    Raises:
        InputError: as for :func:`gather`.
    """
    rows = {len(x) for x in tensors}
    kinds = [(str(x.dtype), *x.shape[1:]) for x in tensors]
    digest = int.from_bytes(hashlib.sha256(repr(kinds).encode()).digest()[:7])
    mine = torch.tensor([max(rows), digest if len(rows) == 1 else -1], device=tensors[0].device)
    every = [torch.empty_like(mine) for _ in range(world_size())]
    distributed.all_gather(every, mine)
    found = torch.stack(every).tolist()  # waits for a device
    if len({kind for _, kind in found}) > 1 or len(rows) > 1:
        shown = ", ".join(f"{x.dtype} {list(x.shape)}" for x in tensors)
        raise InputError(
            f"processes must gather the same kinds of rows, and as many of each tensor; process "
            f"{rank()} of {world_size()} has {shown}"
        )
    return [number for number, _ in found]


def gathered(x: Tensor, counts: list[int]) -> Tensor:
    """Rows of all processes, of which there are ``counts``; see :func:`gather`."""
    found: Tensor = _Gather.apply(x, counts)
    return found


def offset(counts: list[int]) -> int:
    """Where the rows of this process begin."""
    return sum(counts[: rank()])


def summed(x: Tensor) -> Tensor:
    """The sum over processes, without a gradient."""
    total = x.detach().clone()
    distributed.all_reduce(total)
    return total


def sum_for_mean_gradients(x: Tensor) -> Tensor:
    """The sum over processes, whose gradients DistributedDataParallel takes the mean of.

    Args:
        x: float [], this process's part.
    """
    return summed(x) + world_size() * (x - x.detach())


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, counts: list[int]) -> Tensor:
        ctx.counts = counts
        padded = x.new_zeros(max(counts), *x.shape[1:])
        padded[: len(x)] = x
        every = [torch.empty_like(padded) for _ in counts]
        distributed.all_gather(every, padded)
        return torch.cat([part[:n] for part, n in zip(every, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        start = offset(ctx.counts)
        mine = slice(start, start + ctx.counts[rank()])
        return summed(grad)[mine].contiguous(), None
