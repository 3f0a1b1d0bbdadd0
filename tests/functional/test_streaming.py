"""InfoNCE in blocks of the usual size against the dense path; small ones: test_oracle.py."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gcl_hard import (
    ContrastiveLoss,
    Custom,
    Exponential,
    HardMixing,
    InputError,
    NegativeSampler,
    Transport,
    contrastive_loss,
)
from tests.losses.cases import numbers


def labels_of(n, classes=4, seed=0):
    y = torch.randint(0, classes, (n,), generator=torch.Generator().manual_seed(seed))
    y[0] = classes  # one alone in its class
    return y


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
@pytest.mark.parametrize("method", ["hcl", "hscl", "hscl-tau"])
def test_methods_equal_the_dense_path_over_several_blocks(method, dtype, tolerance):
    z = [numbers(700, 8, seed=v, dtype=dtype).requires_grad_() for v in range(2)]
    reference = contrastive_loss(method, temperature=0.2, detach_weights=False)
    settings = {
        "sampler": reference.sampler, "positives": reference.positives,
        "class_prior": reference.class_prior, "temperature": 0.2, "detach_weights": False,
    }  # fmt: skip
    for classes in (2, 500):
        y = labels_of(700, classes)
        outputs = []
        for streaming in (True, False):
            value, seen = ContrastiveLoss(streaming=streaming, **settings).with_diagnostics(*z, y)
            counts = map(torch.as_tensor, seen.counts.values())
            outputs.append([value.detach(), *torch.autograd.grad(value, z), *counts])
        torch.testing.assert_close(*outputs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("temperature", "beta"), [(0.01, 30.0), (0.07, 0.5), (1.0, 30.0)])
def test_single_precision_holds_steep_weights(temperature, beta):
    z = [numbers(150, 8, seed=v, dtype=torch.float32) for v in range(2)]
    y = labels_of(150)
    losses = [
        contrastive_loss("hscl", beta=beta, temperature=temperature, streaming=streaming)
        for streaming in (True, False)
    ]
    streamed, dense = (
        loss(*(view.to(dtype) for view in z), y)
        for loss, dtype in zip(losses, (torch.float32, torch.float64), strict=True)
    )
    torch.testing.assert_close(streamed.double(), dense, rtol=2e-6, atol=0)


def test_the_gradient_of_a_learned_temperature_flows():
    gamma = torch.nn.Parameter(torch.tensor(0.4, dtype=torch.float64))
    z = numbers(20, 4), numbers(20, 4, seed=1)
    slopes = []
    for streaming in (True, False):
        loss = ContrastiveLoss(
            NegativeSampler(hardening=Exponential(1.0)), temperature=gamma, streaming=streaming,
            detach_weights=False,
        )  # fmt: skip
        slopes.append(torch.autograd.grad(loss(*z), gamma)[0])
    torch.testing.assert_close(*slopes)


def test_large_batches_are_taken_in_blocks_by_themselves():
    """A second derivative tells which path it was."""

    def twice(n_items, **options):
        z = numbers(n_items, 4).requires_grad_()
        loss = contrastive_loss("hucl", **options)(z, numbers(n_items, 4, seed=1))
        (slope,) = torch.autograd.grad(loss, z, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), z)

    twice(8)
    twice(400, streaming=False)
    for options in ({}, {"streaming": True}):
        with pytest.raises(InputError, match="streaming=False"):
            twice(400, **options)


class Largest(TorchDispatchMode):
    """The most elements of a tensor that an operation returns."""

    n = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [part.numel() for part in tree_leaves(result) if isinstance(part, torch.Tensor)]
        self.n = max(self.n, *sizes, 0)
        return result


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("name", "weighted"), [("hucl", False), ("hscl", True), ("bcl", True)])
def test_nothing_grows_with_the_square_of_a_large_batch(name, weighted, half):
    """Nor with its items times those that are anchors."""

    def largest(n_items):
        z1, z2 = (numbers(n_items, 4, seed=s).requires_grad_() for s in (0, 1))
        loss = contrastive_loss(name)
        if weighted:
            loss.sampler.pair_weights = lambda i, j: -0.01 * (i[:, None] - j).abs()
        anchors = torch.arange(0, n_items, 2) if half else None
        with Largest() as recorder:
            loss(z1, z2, labels_of(n_items), anchors=anchors).backward()
        return recorder.n

    assert largest(800) < 2 * largest(400)


def test_half_precision_and_autocast_are_computed_in_float32():
    z = [numbers(200, 8, seed=v, dtype=torch.float32) for v in range(2)]
    loss = contrastive_loss("hscl", streaming=True)
    y = labels_of(200)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(loss(*z, y), loss(*z, y))
        under = loss(*z, y)
    torch.testing.assert_close(under, loss(*z, y), rtol=0, atol=0)
    half = [view.bfloat16() for view in z]
    torch.testing.assert_close(loss(*half, y), loss(*(view.float() for view in half), y))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"objective": "jsd"}, "JSD"),
        ({"sampler": NegativeSampler(draws=3)}, "draws"),
        ({"sampler": NegativeSampler(hardening=Transport())}, r"Transport .*streaming='auto'"),
        ({"sampler": NegativeSampler(synthetic=HardMixing())}, "synthetic"),
        ({"positives": "hard"}, r"\bhard\b"),
        ({"sampler": NegativeSampler(hardening=Custom(lambda t: t))}, "Custom"),
        (
            {"temperature": torch.nn.Parameter(torch.tensor(0.5)), "class_prior": 0.1},
            "temperature",
        ),
    ],
)
def test_what_cannot_stream_says_so(settings, named):
    with pytest.raises(InputError, match=named):
        ContrastiveLoss(**{"sampler": NegativeSampler(), **settings}, streaming=True)
    ContrastiveLoss(**{"sampler": NegativeSampler(), **settings})


def test_a_reduction_of_each_anchor_goes_back_under_autocast():
    z = numbers(200, 8, dtype=torch.float32).requires_grad_()
    loss = ContrastiveLoss(NegativeSampler(), reduction="none", streaming=True)
    outputs = []
    for enabled in (True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            outputs.append(torch.autograd.grad(loss(z, z.flip(1)).sum(), z)[0])
    torch.testing.assert_close(*outputs)


def test_transforms_of_torch_func_are_taken_dense():
    z1, z2 = numbers(100, 4), numbers(100, 4, seed=1)
    loss = contrastive_loss("hucl")
    slope = torch.func.grad(lambda z: loss(z, z2))(z1)
    z = z1.clone().requires_grad_()
    torch.testing.assert_close(slope, torch.autograd.grad(loss(z, z2), z)[0])


def test_a_hardening_set_later_that_cannot_stream_is_taken_dense():
    z1, z2 = numbers(9, 4), numbers(9, 4, seed=1)
    loss = ContrastiveLoss(NegativeSampler(), streaming=True)
    loss.sampler.hardening = Transport()
    expected = ContrastiveLoss(NegativeSampler(hardening=Transport()))(z1, z2)
    torch.testing.assert_close(loss(z1, z2), expected)
