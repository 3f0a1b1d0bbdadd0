"""Softplus to full precision, in and out of autograd's graph."""

from __future__ import annotations

import math

import pytest
import torch

from gcl_hard.functional.objectives import log_softplus, softplus

GRID = torch.cat([torch.linspace(-80, 80, 400_001), torch.logspace(-30, 1, 1001), torch.zeros(1)])


@pytest.mark.parametrize("path", ["plain", "no_grad", "graph"])
def test_softplus_in_single_precision_keeps_its_digits(path):
    expected = torch.log1p(GRID.double().neg().abs().neg().exp()) + GRID.double().clamp(min=0)
    with torch.set_grad_enabled(path != "no_grad"):
        got = softplus(GRID.clone().requires_grad_(path != "plain"))
    assert got.requires_grad == (path == "graph")
    assert ((got.detach().double() - expected).abs() / expected).max() < 5e-7


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("in_graph", [False, True])
def test_softplus_of_what_is_not_finite(in_graph, dtype):
    x = torch.tensor([math.inf, -math.inf, math.nan, 0.0], dtype=dtype)
    up, down, lost, zero = softplus(x.clone().requires_grad_(in_graph)).tolist()
    assert (up, down) == (math.inf, 0.0)
    assert math.isnan(lost)
    assert abs(zero - math.log(2)) < 1e-7


def test_softplus_leaves_its_argument_alone_and_has_its_gradient():
    x = torch.linspace(-30, 30, 61)
    before = x.clone()
    softplus(x)
    assert torch.equal(x, before)
    x.requires_grad_()
    (got,) = torch.autograd.grad(softplus(x).sum(), x)
    torch.testing.assert_close(got, before.double().sigmoid().float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_the_log_of_softplus_does_not_underflow(dtype, digits):
    x = torch.tensor([-1e6, -300.0, -120.0, -80.0, -41.0, -40.0, -39.0, -5.0, 0.0, 9.0, 90.0])
    x = x.to(dtype).requires_grad_()
    got = log_softplus(x)
    expected = [
        math.log(math.log1p(math.exp(-abs(t))) + max(t, 0.0)) if t > -600 else t for t in x.tolist()
    ]
    assert got.tolist() == pytest.approx(expected, rel=digits)
    (slope,) = torch.autograd.grad(got.sum(), x)
    wanted = [1 / ((1 + math.exp(-t)) * math.exp(e)) if t > -600 else 1.0
              for t, e in zip(x.tolist(), expected, strict=True)]  # fmt: skip
    assert slope.tolist() == pytest.approx(wanted, rel=digits)
