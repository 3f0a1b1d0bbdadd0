"""Batches made one ahead of the one that a device works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")


def ahead(batches: Iterable[T], device: torch.device) -> Iterator[T]:
    """The batches, each made in a thread while the one before is in use; for a CPU as they are.

    What the thread asks of the device is queued on the stream of the one who iterates, and so is
    done before the batch is used. What makes batches must not draw from the global random states,
    which the training does.

    Args:
        batches: what is iterated in the thread.
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
