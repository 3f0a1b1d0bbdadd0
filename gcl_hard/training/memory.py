"""Say what to lower when memory runs out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from gcl_hard.errors import OutOfMemory

# PyTorch has a class of error for a GPU's memory, and none for the CPU's or cuBLAS's
WORDS = re.compile("can't allocate memory|not enough memory|out of memory|ALLOC_FAILED")


@contextmanager
def memory_for(what: Callable[[], str]) -> Iterator[None]:
    """Turn whatever PyTorch raises without memory into one message.

    Args:
        what: gives the message: where it happened and what to lower.

    Raises:
        OutOfMemory: if memory runs out inside.

    Example:
        >>> with memory_for(lambda: "lower batch-size"):
        ...     raise MemoryError
        Traceback (most recent call last):
        ...
        gcl_hard.errors.OutOfMemory: lower batch-size
    """
    try:
        yield
    except OutOfMemory:  # named where it happened
        raise
    except (MemoryError, RuntimeError) as error:
        known = isinstance(error, (MemoryError, torch.OutOfMemoryError))
        if not known and not WORDS.search(str(error)):
            raise
        raise OutOfMemory(what()) from error
