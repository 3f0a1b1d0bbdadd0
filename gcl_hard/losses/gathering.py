"""Embeddings of all processes of a distributed training, with their gradient."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, distributed

from gcl_hard.errors import InputError
from gcl_hard.functional.negatives import described

UNLIKE, REFUSED = -1, -2
"""Sent instead of a digest of the rows' kinds: unequal row counts, and a refused batch."""


def world_size() -> int:
    """Number of processes that train together, 1 without a process group.

    Example:
        >>> world_size()
        1
    """
    ready = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if ready else 1


class _OutOfStepError(InputError):
    """An error that all processes raise."""


class InStep:
    """Checks that all processes have equally many batches; no GPU waits for it."""

    def __init__(self) -> None:
        self._group: Any = distributed.new_group(backend="gloo")

    def check(self, number: int, prefix: str, units: str = "batches") -> None:
        """InputError on all processes unless all have the same number of batches."""
        counts = [count for (count,) in _all_gather([number], torch.device("cpu"), self._group)]
        if len(set(counts)) > 1:
            fewest = ", ".join(str(k) for k, n in enumerate(counts) if n == min(counts))
            raise InputError(
                f"processes that train together must have equally many {units}, and {prefix} "
                f"process {fewest} of {world_size()} had fewer"
            )


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
    may have different numbers of rows, or none. The gradient of a process's own rows is the sum
    over all processes; if each computes the loss of the joined batch, that is the number of
    processes times its gradient, which DistributedDataParallel's mean makes right.

    Args:
        *tensors: such as embeddings [B, d] of each view and labels [B]; B is one number on a
            process.

    Returns:
        A tensor for each, with the rows of all processes; the arguments themselves on one process.

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
    counts = _all_gather([max(rows), digest if len(rows) == 1 else UNLIKE], tensors[0].device)
    refused = [str(process) for process, (_, kind) in enumerate(counts) if kind == REFUSED]
    if refused:
        raise _OutOfStepError(
            f"process {', '.join(refused)} of {world_size()} refused its batch: see its own error"
        )
    if len({kind for _, kind in counts}) > 1 or len(rows) > 1:
        shown = ", ".join(map(described, tensors))
        raise _OutOfStepError(
            f"processes must gather alike rows, process {rank()} of {world_size()} has {shown}"
        )
    return [number for number, _ in counts]


def _all_gather(numbers: list[int], device: torch.device, group: Any = None) -> list[list[int]]:
    """The numbers of every process."""
    mine = torch.tensor(numbers, device=device)
    gathered = [torch.empty_like(mine) for _ in range(world_size())]
    distributed.all_gather(gathered, mine, group=group)
    return torch.stack(gathered).tolist()  # waits for a device


@contextmanager
def refusing_together(gathers: bool) -> Iterator[None]:
    """Context in which an error of one process before :func:`counts_of` is raised on all."""
    try:
        yield
    except _OutOfStepError as error:
        raise InputError(*error.args) from None
    except (TypeError, ValueError):
        if gathers:
            on_gpu = distributed.get_backend() == "nccl"
            _all_gather([0, REFUSED], torch.device("cuda" if on_gpu else "cpu"))
        raise


def gathered(x: Tensor, counts: list[int]) -> Tensor:
    """Rows of all processes, ``counts`` of each; see :func:`gather`."""
    return _Gather.apply(x, counts)


def offset(counts: list[int]) -> int:
    """Where the rows of this process begin."""
    return sum(counts[: rank()])


def summed(x: Tensor) -> Tensor:
    """The sum over processes, without a gradient."""
    total = x.detach().clone()
    distributed.all_reduce(total)
    return total


def of_first(numbers: Sequence[float], device: torch.device) -> tuple[float, ...]:
    """The first process's numbers on all processes, so that they decide alike.

    Args:
        numbers: equally many on every process.
        device: a device that the processes' backend can send from.

    Example:
        >>> of_first([1.0, 2.0], torch.device("cpu"))
        (1.0, 2.0)
    """
    if world_size() == 1:
        return tuple(numbers)
    sent = torch.tensor([*numbers], dtype=torch.float64, device=device)
    distributed.broadcast(sent, src=0)
    return tuple(sent.tolist())


def sum_for_mean_gradients(x: Tensor) -> Tensor:
    """The sum over processes, scaled for DistributedDataParallel's mean of gradients.

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
