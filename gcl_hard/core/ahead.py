"""Batches prepared one ahead of the one that a device works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")


def ahead(batches: Iterable[T], device: torch.device) -> Iterator[T]:
    """The batches, each made in a thread while the previous one is in use; unchanged on a CPU.

    The thread's device operations are queued on the stream of the consumer, and so finish before
    the batch is used. Making batches must not draw from the global random states, from which
    training draws.

    Args:
        batches: iterated in the thread.
        device: where they are used.

    Example:
        >>> list(ahead(range(3), torch.device("cpu")))
        [0, 1, 2]
    """
    if device.type != "cuda":
        yield from batches
        return
    iterator, end = iter(batches), object()
    stream = torch.cuda.current_stream(device)

    def make() -> T | object:
        with torch.cuda.stream(stream):
            return next(iterator, end)

    with ThreadPoolExecutor(1, thread_name_prefix="batches") as thread:
        coming = thread.submit(make)
        while (batch := coming.result()) is not end:
            coming = thread.submit(make)
            yield batch  # type: ignore[misc]
