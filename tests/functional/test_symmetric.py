"""Batches whose candidates are all anchors, so large that scores are made once for both ends."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from gcl_hard import ContrastiveLoss, Exponential, InputError, NegativeSampler, contrastive_loss

N, DIM = 520, 6


def views(n_views, dtype=torch.float64, spread=1.0):
    generator = torch.Generator().manual_seed(3)
    common, *noise = torch.randn(
        1 + n_views, N, DIM, generator=generator, dtype=torch.float64
    ).unbind()
    return [(common + spread * direction).to(dtype).requires_grad_() for direction in noise]


def value_and_gradient(z, y=None, *, streaming, **settings):
    loss = ContrastiveLoss(streaming=streaming, **settings)
    value, seen = loss.with_diagnostics(z, y)
    upstream = torch.linspace(0.5, 2.0, value.numel(), dtype=value.dtype).view_as(value)
    gradients = torch.autograd.grad((value * upstream).sum(), z)
    return [value.detach(), *gradients, *map(torch.as_tensor, seen.counts.values())]


@pytest.mark.parametrize(
    ("temperature", "beta", "spread"),
    [(1.0, 0.0, 1.0), (0.05, 20.0, 1.0), (0.001, 0.0, 0.0), (0.001, 20.0, 1.0)],
)
def test_no_temperature_leaves_the_range_of_float32(temperature, beta, spread):
    exact = value_and_gradient(
        views(2, spread=spread), streaming=False, temperature=temperature, detach_weights=False,
        sampler=NegativeSampler("others", Exponential(beta)),
    )  # fmt: skip
    ours = value_and_gradient(
        views(2, torch.float32, spread), streaming=True, temperature=temperature,
        sampler=NegativeSampler("others", Exponential(beta)), detach_weights=False,
    )  # fmt: skip
    size = max(1.0, float(exact[0].abs()))
    assert abs(float(ours[0]) - float(exact[0])) < 1e-6 * size * max(1, (1 + beta) / temperature)
    for single, double in zip(ours[1:3], exact[1:3], strict=True):
        assert single.isfinite().all()
        largest = max(float(double.abs().max()), 1e-3)
        error = float((single - double).abs().max())
        assert error < 3e-6 * (1 + beta) / temperature * largest, error / largest


def test_zero_rows_and_infinite_ones_are_those_of_all_scores():
    z = views(2)
    with torch.no_grad():
        z[0][5] = 0.0
        z[1][5] = 0.0
    sampler = NegativeSampler()
    both = [
        value_and_gradient(z, streaming=streaming_, sampler=sampler) for streaming_ in (True, False)
    ]
    for ours, dense in zip(*both, strict=True):
        torch.testing.assert_close(ours, dense, rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        z[1][8, 0] = torch.nan
    assert value_and_gradient(z, streaming=True, sampler=sampler)[0].isnan()


def test_scores_are_made_once_for_both_of_their_ends():
    z = views(2, torch.float32)

    def flops(loss):
        with FlopCounterMode(display=False) as counter:
            loss(*z).backward()
        return counter.get_total_flops()

    every = 2 * (2 * N) ** 2 * DIM
    assert flops(contrastive_loss("hucl", streaming=True)) < 2.7 * every
    assert flops(contrastive_loss("hucl", streaming=False)) > 2.9 * every


def test_there_is_no_second_derivative():
    z = views(2)
    loss = contrastive_loss("hucl", streaming=True)(*z)
    with pytest.raises(InputError, match="streaming=False"):
        torch.autograd.grad(loss, z, create_graph=True)
