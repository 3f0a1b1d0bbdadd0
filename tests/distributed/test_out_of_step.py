"""Processes out of step: what one of them refuses is an error of all, at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from gcl_hard import InputError, Queue, contrastive_loss
from gcl_hard.training.loop import Optimisation, train
from tests.distributed import run_processes
from tests.said import says


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def out_of_step(rank: int, folder: str) -> None:
    """What a process says where the other one refuses its part, or has fewer batches."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    z, y = numbers(4, 5, seed=rank), torch.arange(4)
    first, loss = rank == 0, contrastive_loss("hscl", negatives="gathered")
    more: dict[str, Any] = {"candidates": z, "candidate_labels": y - 1 if first else y}
    graphs = (numbers(4, 5), z, torch.tensor([0, 1, 2, 7 if first else 3]))
    calls: list[Callable[[], Any]] = [
        lambda: loss(z, z, y - 1 if first else y),
        lambda: loss(z, z, None if first else y),
        lambda: loss(z, z[:3] if first else z, y),
        lambda: loss(z, z, y, **more),
        lambda: contrastive_loss("hscl", objective="jsd", negatives="gathered").local_global(
            *graphs, y
        ),
        lambda: train(
            Points(), [torch.ones(4, 3)] * (3 - rank), Optimisation(epochs=1), together=True
        ),
    ]
    messages = []
    for call in calls:
        try:
            call()
            messages.append("nothing")
        except InputError as error:
            messages.append(str(error))
    whole = loss(z, z, y).item()  # and they go on together
    queue, model = Queue(8, 2), Points()
    model.queue = queue
    wrapped = DistributedDataParallel(model)
    for _ in range(3):
        wrapped(torch.ones(2, 3) * (1 + rank)).backward()
    torch.save((messages, whole, queue.labels.tolist()), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


class Points(nn.Module):
    """A layer, a loss, and a queue if it is given one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net, self.loss = nn.Linear(3, 2), contrastive_loss("ucl")
        self.queue: Queue | None = None

    def forward(self, x: Tensor) -> Tensor:
        z = self.net(x)
        more = {}
        if self.queue is not None:
            more = self.queue.candidates()
            self.queue.add(z, torch.full((len(z),), distributed.get_rank()))
        value: Tensor = self.loss(z, z + torch.eye(len(z), 2), **more)
        return value


@pytest.mark.exact
def test_processes_out_of_step_all_say_so_and_go_on(tmp_path: Path) -> None:
    run_processes(out_of_step, str(tmp_path), nprocs=2)
    (first, value, of_first), (second, same, of_second) = (
        torch.load(tmp_path / f"{rank}.pt") for rank in range(2)
    )
    facts = [(-1,), ("labels", "[4]"), ("[3, 5]",), (-1,), ("graphs", 3)]
    for message, other, needed in zip(first[:-1], second[:-1], facts, strict=True):
        assert says(message, *needed)
        assert says(other, "process", 0, 2)
    for last_message in (first[-1], second[-1]):
        assert says(last_message, 2, "batches", "epoch", 1, "process", 1, 2)
    assert value == same
    # no process's queue is overwritten by another's
    assert (of_first[:6], of_second[:6]) == ([0] * 6, [1] * 6)
