"""Training on several processes, as torchrun starts them: the first drives, the others follow.

The first one plans, scores and stores; the others train what it sends them, on their own device.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from gcl_hard.core.signals import leave_to_parent
from gcl_hard.errors import GclHardError
from gcl_hard.losses.gathering import world_size

CLOSED = re.compile("connection closed|connection reset", re.IGNORECASE)
WAITING = timedelta(days=30)
"""Time that a process may wait for the next training while the first one scores."""
_orders: Any = None
"""The process group that trainings are sent through."""


def started() -> bool:
    """Whether torchrun has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def here() -> int:
    """Processes on this machine that train together."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if started() else 1


@contextmanager
def joined(device: torch.device) -> Iterator[bool]:
    """Join the processes that torchrun has started.

    Args:
        device: the command's; with several GPUs each process takes its own.

    Yields:
        Whether this process drives; also True if there is no other.

    """
    global _orders  # noqa: PLW0603 - like the process group itself there is one
    if not started():
        yield True
        return
    if device.type == "cuda":
        torch.cuda.set_device(own_device(device))
    # Others wait inside of NCCL while the first one monitors, takes snapshots or saves.
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=WAITING)
    _orders = distributed.new_group(backend="gloo", timeout=WAITING)
    leads = distributed.get_rank() == 0
    if not leads:  # the first one saves a checkpoint, and its end ends the others
        leave_to_parent()
    try:
        yield leads
    except GclHardError:
        if leads:
            send(None)
        raise
    if leads:
        send(None)
    distributed.destroy_process_group()
    _orders = None


def own_device(device: torch.device) -> torch.device:
    """The device of this process, of the kind of the command's."""
    if device.type != "cuda" or not started():
        return device
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def leads() -> bool:
    """Whether this process is the first of several."""
    return world_size() > 1 and distributed.get_rank() == 0


def send(work: Any) -> None:
    """Send a training to the other processes; None ends them."""
    distributed.broadcast_object_list([work], src=0, group=_orders)


def follow(train: Callable[[Any], object]) -> None:
    """Run the trainings that the first process sends, until it ends.

    Args:
        train: called with each of them; its error ends all processes.
    """
    while True:
        received = [None]
        distributed.broadcast_object_list(received, src=0, group=_orders)
        if received[0] is None:
            return
        try:
            train(received[0])
        except SystemExit as error:
            if CLOSED.search(str(error)):  # the first one has ended, and has said why
                raise SystemExit(1) from None
            raise
