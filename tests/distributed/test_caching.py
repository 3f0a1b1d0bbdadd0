"""Gradient caching under DistributedDataParallel: that of one process on the joined batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from gcl_hard import InputError, cached_backward, contrastive_loss
from gcl_hard.losses.caching import cached_loss
from tests.distributed import run_processes
from tests.said import says

SIZES = [[3, 2, 4], [2, 5, 2]]
"""Items of each part of each process."""
STEPS = 2


class Model(nn.Module):
    """An encoder whose BatchNorm normalises nothing, and the loss's temperature."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.temperature = nn.Parameter(torch.tensor(0.4))
        self.double()
        self.loss = contrastive_loss("hscl", temperature=self.temperature, negatives="gathered")

    def forward(self, part: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
        return tuple(self._hidden(x) for x in part)

    def _hidden(self, x: Tensor) -> Tensor:
        x = self.first(x).tanh()
        self.norm(x.detach())  # its statistics are kept, and it is no part of the gradient
        output: Tensor = self.last(x) + 0 * (self.norm.weight + self.norm.bias).sum()
        return output


def items(step: int, rank: int) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(10 * step + rank)
    n = sum(SIZES[rank])
    x = torch.randn(2, n, 4, generator=generator, dtype=torch.float64)
    return [*x], torch.arange(n) % 3


def parts_of(views: list[Tensor], sizes: list[int]) -> list[tuple[Tensor, ...]]:
    return [*zip(*(x.split(sizes) for x in views), strict=True)]


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    model = Model()
    wrapped = DistributedDataParallel(model)
    exchanged: list[int] = []

    def counting(state, bucket):
        exchanged.append(bucket.index())
        return allreduce_hook(state, bucket)

    wrapped.register_comm_hook(None, counting)
    outputs = []
    for step in range(STEPS):
        views, y = items(step, rank)
        wrapped.zero_grad()
        cached = cached_loss if step else cached_backward
        value = cached(
            wrapped, parts_of(views, SIZES[rank]), lambda *z, y=y: model.loss(z, labels=y)
        )
        if step:
            value.backward()
        outputs.append(
            (value.detach(), [parameter.grad.clone() for parameter in model.parameters()])
        )
    try:
        cached_backward(wrapped, [torch.ones(1)] * (3 - rank), lambda z: z.sum())
        message = "nothing"
    except InputError as error:
        message = str(error)
    distributed.all_reduce(torch.ones(1))  # and they go on together
    torch.save((outputs, [*model.buffers()], message, exchanged.count(0)), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.exact
def test_processes_have_the_gradient_of_the_joined_batch(tmp_path: Path) -> None:
    run_processes(worker, str(tmp_path), nprocs=2)
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    model = Model()
    for step in range(STEPS):
        batches = [items(step, rank) for rank in range(2)]
        views = [torch.cat([rank_views[v] for rank_views, _ in batches]) for v in range(2)]
        expected = model.loss(model(tuple(views)), labels=torch.cat([y for _, y in batches]))
        expected.sum().backward()
        for outputs, *_ in ranks:
            value, grads = outputs[step]
            torch.testing.assert_close(value, expected.detach())
            for ours, parameter in zip(grads, model.parameters(), strict=True):
                torch.testing.assert_close(ours, parameter.grad, rtol=1e-9, atol=1e-13)
        model.zero_grad()
    by_hand = Model()
    for step, rank in ((0, 0), (1, 1)):  # the second step begins with the first one's statistics
        for part in parts_of(items(step, rank)[0], SIZES[rank]):
            by_hand(part)
    for ours, theirs in zip(ranks[1][1], by_hand.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)
    for _, _, message, buckets in ranks:
        assert says(message, "parts", "process", 1, 2)
        assert buckets == STEPS  # gradients are exchanged once in a step
