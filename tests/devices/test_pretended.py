"""The pretended device: it computes what the CPU computes, and catches what a GPU would refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.devices.pretended import pretended

GPU = "cuda"


def test_a_module_trains_there_as_on_the_cpu() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(16, 5), torch.randn(16, 3)
    on_cpu, on_gpu = (nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2))
    on_gpu.load_state_dict(on_cpu.state_dict())
    descend(on_cpu, x, y)
    with pretended() as record:
        descend(on_gpu.to(GPU), x.to(GPU), y.to(GPU))
        assert all(parameter.device == torch.device("cuda", 0) for parameter in on_gpu.parameters())
        on_gpu.cpu()
    for ours, theirs in zip(on_gpu.parameters(), on_cpu.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert record.count("launch") > 20
    assert record.count("to device") == 2 + 4  # x, y and the weights
    assert record.count("wait") == 8  # the weights back, and their gradients


def descend(net: nn.Module, x: Tensor, y: Tensor) -> None:
    optimiser = torch.optim.Adam(net.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        (net(x) - y).square().mean().backward()
        optimiser.step()


@pytest.mark.parametrize(
    "meets",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.cat([x, torch.ones(3)]),
        lambda x: x.index_select(0, torch.tensor([1])),
        lambda x: torch.rand(3, generator=torch.Generator(), device=GPU),
        lambda x: x.uniform_(generator=torch.Generator()),
        lambda x: torch.rand(3, generator=torch.Generator(GPU)),
        lambda x: x.numpy(),
        np.asarray,
    ],
)
def test_what_a_gpu_refuses_is_refused(meets: Callable[[Tensor], object]) -> None:
    with pretended(), pytest.raises((RuntimeError, TypeError), match="device"):
        meets(torch.ones(3, device=GPU))


@pytest.mark.parametrize(
    ("waits", "n"),
    [
        (lambda x: x.sum().item(), 1),
        (lambda x: bool((x > 0).all()), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: (x > 0).nonzero(), 1),
        (lambda x: x.unique(), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: x.tolist(), 1),
        (lambda x: x.repeat_interleave(torch.tensor([1, 2, 3], device=GPU)), 1),
        (lambda x: x.repeat_interleave(torch.tensor([1, 2, 3], device=GPU), output_size=6), 0),
        (lambda x: x.masked_fill(x > 0, 2.0), 0),
        (lambda x: x.__setitem__(x > 0, 2.0), 0),
        (lambda x: x[torch.tensor([0, 1], device=GPU)], 0),
        (lambda x: x[1:].sum() + x.shape[0], 0),
    ],
)
def test_waits_of_the_host_are_counted(waits: Callable[[Tensor], object], n: int) -> None:
    with pretended() as record:
        x = torch.tensor([1.0, -1.0, 2.0], device=GPU)
        waits(x)
    assert record.count("wait") == n


def test_copies_are_counted_and_pinned_ones_told_apart() -> None:
    with pretended() as record:
        x = torch.ones(3)
        x.to(GPU)
        x.pin_memory().to(GPU, non_blocking=True)
        torch.tensor([1, 2], device=GPU)
        torch.ones(3, device=GPU)[[0, 2]]  # the list becomes a tensor there
        torch.ones(3, device=GPU)[torch.tensor([0, 2])]
    counts = {operation: n for (operation, _), n in record.tally("to device").items()}
    assert counts == {"pageable": 3, "pinned": 1, "index": 1}


def test_double_precision_and_places_are_noted() -> None:
    from gcl_hard.theory import similarity

    with pretended() as record:
        similarity.unit(torch.ones(3, 2, device=GPU, dtype=torch.float64))
    assert record.count("double") > 0
    assert {event.where.partition(":")[0] for event in record} == {"", "theory/similarity.py"}
