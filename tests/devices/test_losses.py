"""Losses on a GPU: values and gradients of the CPU, and no wait but those that are documented."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gcl_hard import METHODS, contrastive_loss
from tests.devices.pretended import Record, pretended

GPU = "cuda"
WAITS = {"ot": 5, "progcl": 2, "spacl": 2, "spacl-sup": 2}
"""Of those that look at values: each 20 rounds of Sinkhorn, the fit at an epoch, a game's step."""


def views(n: int, d: int = 8, n_views: int = 2) -> tuple[list[Tensor], Tensor]:
    drawn = torch.Generator().manual_seed(0)
    z = [torch.randn(n, d, generator=drawn) for _ in range(n_views)]
    return z, torch.randint(4, (n,), generator=drawn)


def taken(loss: Any, z: list[Tensor], y: Tensor) -> tuple[Tensor, Tensor]:
    z = [view.requires_grad_() for view in z]
    value = loss(z, labels=y)
    value.backward()
    return value.detach(), torch.stack([view.grad for view in z if view.grad is not None])


def on_both(make: Any, z: list[Tensor], y: Tensor) -> tuple[Any, Any, Record]:
    on_cpu = taken(make(), [view.clone() for view in z], y)
    with pretended() as record:
        loss, views_, labels = make().to(GPU), [view.to(GPU) for view in z], y.to(GPU)
        start = len(record)
        computed = taken(loss, views_, labels)
        asked = Record(record[start:])
        moved = tuple(view.cpu() for view in computed)
    return on_cpu, moved, asked


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_values_of_the_cpu_and_waits_for_nothing(
    method: str, streaming: bool
) -> None:
    z, y = views(40)
    try:
        contrastive_loss(method, streaming=streaming)
    except ValueError as error:
        pytest.skip(str(error))
    on_cpu, on_gpu, asked = on_both(lambda: contrastive_loss(method, streaming=streaming), z, y)
    for ours, theirs in zip(on_gpu, on_cpu, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert asked.count("wait") <= WAITS.get(method, 0), asked.tally("wait")
    if method not in WAITS:
        assert asked.count("to device") == 0, asked.tally("to device")
    assert asked.count("double") <= 24 * (method == "ring")  # its quantiles, a few numbers


@pytest.mark.parametrize(("method", "waits"), [("ucl", 0), ("hucl", 0), ("hcl", 0), ("hscl", 1)])
def test_several_blocks_of_rows(method: str, waits: int) -> None:
    z, y = views(1100)  # of two views: more rows than a block has
    on_cpu, on_gpu, asked = on_both(lambda: contrastive_loss(method), z, y)
    for ours, theirs in zip(on_gpu, on_cpu, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-7)
    assert asked.count("wait") == waits, asked.tally("wait")
    assert asked.count("to device") == 0


@pytest.mark.parametrize("scale", ["rank", "anchor", "cosine", "batch-max"])
@pytest.mark.parametrize("method", ["ucl", "hcl", "hscl", "hscl-tau", "bcl"])
def test_nodes_against_graphs(method: str, scale: Any) -> None:
    drawn = torch.Generator().manual_seed(0)
    nodes, graphs = (torch.randn(n, 6, generator=drawn) for n in (60, 12))
    owner = torch.arange(60) % 12
    y = torch.arange(12) % 3
    try:
        make = lambda: contrastive_loss(method, objective="jsd", hardness_scale=scale)  # noqa: E731
        on_cpu = make().local_global(nodes, graphs, owner, y)
    except ValueError as error:
        pytest.skip(str(error))
    with pretended() as record:
        arguments = [tensor.to(GPU) for tensor in (nodes, graphs, owner, y)]
        start = len(record)
        on_gpu = make().to(GPU).local_global(*arguments)
        asked = Record(record[start:])
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=1e-4, atol=1e-5)
    assert asked.count("wait") == 0, asked.tally("wait")


def test_labels_on_the_cpu_are_named() -> None:
    z, y = views(6)
    with pretended(), pytest.raises(RuntimeError, match=r"cuda.*cpu"):
        contrastive_loss("scl")([view.to(GPU) for view in z], labels=y)


def test_scores_of_links_and_a_planted_wait() -> None:
    with pretended() as record:
        scores = torch.randn(6, 9, device=GPU, requires_grad=True)
        positive = torch.arange(6, device=GPU)
        start = len(record)
        loss = contrastive_loss("hucl").scored(scores, positive)
        loss.backward()
        assert Record(record[start:]).count("wait") == 0
        loss.item()  # planted
        assert Record(record[start:]).count("wait") == 1
