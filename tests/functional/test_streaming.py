"""InfoNCE in blocks against the dense path, and against the paper's loops."""

from __future__ import annotations

import math
from itertools import islice, product

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
    MeanThreshold,
    MixturePosterior,
    NegativeSampler,
    RankPosterior,
    RelativeThreshold,
    Ring,
    Threshold,
    Transport,
    contrastive_loss,
)
from gcl_hard.functional.mixture import Beta, BetaMixture
from tests.reference import loops

HARDENINGS = [None, Exponential(1.0), Exponential(2.5), Threshold(0.1), Threshold(0.6)]
ADMISSIONS = ["others", "other_labels", "rest"]


def numbers(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def labels_of(n, classes=4, seed=0):
    y = torch.randint(0, classes, (n,), generator=torch.Generator().manual_seed(seed))
    y[0] = classes  # one alone in its class
    return y


def both_ways(call, inputs, **settings):
    """Values, counts and gradients, streamed and dense."""
    outputs = []
    for streaming in (True, False):
        loss = ContrastiveLoss(streaming=streaming, **settings)
        value, seen = call(loss)
        upstream = torch.linspace(0.5, 2.0, value.numel(), dtype=value.dtype).view_as(value)
        gradients = torch.autograd.grad((value * upstream).sum(), inputs)
        counts = map(torch.as_tensor, seen.counts.values())
        outputs.append([value.detach(), *gradients, *counts])
    return outputs


def assert_equal(outputs, tolerance):
    for ours, dense in zip(*outputs, strict=True):
        torch.testing.assert_close(ours, dense, rtol=tolerance, atol=tolerance)


EVERYTHING = [
    dict(zip(("admit", "positives", "hardening", "detach", "pooling", "weight", "reduction",
              "prior"), setting, strict=True))
    for setting in product(
        ADMISSIONS, ("view", "class"), HARDENINGS, (True, False), ("pair", "logsumexp"),
        ("others", "kept", 7.0), ("pairs", "anchors", "none"), (None, 0.0, 0.2),
    )
    if setting[-1] is None or (setting[0] == "others" and not isinstance(setting[2], Threshold))
    if setting[0] != "rest" or setting[4] == "pair"
]  # fmt: skip


@pytest.mark.parametrize(
    ("n_items", "n_views", "extra"), [(40, 2, 0), (25, 3, 0), (60, 1, 0), (30, 2, 17)]
)
@pytest.mark.parametrize("first", range(8))
def test_every_setting_equals_the_dense_path(n_items, n_views, extra, first):
    """An eighth of the settings at a time, others for other shapes."""
    z = [numbers(n_items, 6, seed=v).requires_grad_() for v in range(n_views)]
    y, more = labels_of(n_items), {}
    if extra:
        more = {"candidates": numbers(extra, 6, seed=9).requires_grad_()}
        more["candidate_labels"] = labels_of(extra, seed=1)
    inputs = [*z, more["candidates"]] if extra else z
    ran = 0
    for setting in islice(EVERYTHING, first, None, 8 * 5):
        if n_views == 1 and setting["positives"] == "view":
            continue
        ran += 1
        outputs = both_ways(
            lambda loss: loss.with_diagnostics(z, y, **more), inputs,
            sampler=NegativeSampler(setting["admit"], setting["hardening"]), temperature=0.3,
            positives=setting["positives"], detach_weights=setting["detach"],
            pooling=setting["pooling"], weight=setting["weight"], class_prior=setting["prior"],
            reduction=setting["reduction"],
        )  # fmt: skip
        assert_equal(outputs, 1e-10)
    assert ran


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
@pytest.mark.parametrize("method", ["ucl", "dcl", "hucl", "hcl", "scl", "hscl", "hscl-tau"])
@pytest.mark.parametrize("classes", [2, 7, 500])
def test_methods_equal_the_dense_path_over_several_blocks(method, classes, dtype, tolerance):
    z = [numbers(700, 8, seed=v, dtype=dtype).requires_grad_() for v in range(2)]
    y = labels_of(700, classes)
    reference = contrastive_loss(method, temperature=0.2, detach_weights=False)
    settings = {
        "sampler": reference.sampler, "positives": reference.positives,
        "class_prior": reference.class_prior, "temperature": 0.2, "detach_weights": False,
    }  # fmt: skip
    outputs = both_ways(lambda loss: loss.with_diagnostics(*z, y), z, **settings)
    assert_equal(outputs, tolerance)


ROW_WISE = [
    MeanThreshold(), RankPosterior(0.7, 0.9), RelativeThreshold(0.6), Ring(0.1, 0.4),
    MixturePosterior(mixture=BetaMixture(Beta(4.0, 8.0, 0.8), Beta(12.0, 3.0, 0.2))),
]  # fmt: skip


@pytest.mark.parametrize("hardening", ROW_WISE, ids=str)
@pytest.mark.parametrize("positives", ["view", "class"])
@pytest.mark.parametrize("admit", ["others", "other_labels"])
@pytest.mark.parametrize("extra", [0, 17])
@pytest.mark.parametrize("weighted", [False, True])
def test_hardenings_of_rows_equal_the_dense_path(hardening, positives, admit, extra, weighted):
    z, y = [numbers(300, 6, seed=v).requires_grad_() for v in range(2)], labels_of(300)
    more = {}
    if extra:
        more = {"candidates": numbers(extra, 6, seed=9), "candidate_labels": labels_of(extra, 3)}
    log_w = numbers(300, 300 + extra, seed=4)
    log_w[:, 7] = -math.inf
    for settings in (
        {"weight": "kept", "pooling": "logsumexp"}, {"reduction": "pairs", "detach_weights": False},
    ):  # fmt: skip
        sampler = NegativeSampler(admit, hardening, pair_weights=log_w if weighted else None)
        outputs = both_ways(
            lambda loss: loss.with_diagnostics(z, y, **more), z, sampler=sampler,
            temperature=0.3, positives=positives, **settings,
        )  # fmt: skip
        assert_equal(outputs, 1e-10)


@pytest.mark.parametrize("admit", ADMISSIONS)
@pytest.mark.parametrize("hardening", HARDENINGS, ids=str)
def test_nodes_against_graphs_equal_the_dense_path(admit, hardening):
    batch = torch.randint(0, 30, (900,), generator=torch.Generator().manual_seed(0))
    inputs = [numbers(900, 5).requires_grad_(), numbers(30, 5, seed=1).requires_grad_()]
    outputs = both_ways(
        lambda loss: loss.local_global_with_diagnostics(*inputs, batch, labels_of(30)), inputs,
        sampler=NegativeSampler(admit, hardening), detach_weights=False,
    )  # fmt: skip
    assert_equal(outputs, 1e-10)


@pytest.mark.parametrize("reduction", ["pairs", "anchors"])
@pytest.mark.parametrize("positives", ["view", "class"])
@pytest.mark.parametrize("admit", ADMISSIONS)
@pytest.mark.parametrize("beta", [0.0, 1.0, 1.7])
def test_blocks_equal_the_loops(admit, positives, reduction, beta):
    z1, z2, y = numbers(7, 5), numbers(7, 5, seed=1), torch.tensor([0, 1, 1, 2, 0, 3, 1])
    loss = ContrastiveLoss(
        NegativeSampler(admit, Exponential(beta)), positives=positives, reduction=reduction,
        streaming=True,
    )  # fmt: skip
    expected = loops.infonce_two_view(
        z1.tolist(), z2.tolist(), y.tolist(), admit=admit, positives=positives,
        eta=lambda t: math.exp(beta * t), gamma=0.5, reduction=reduction,
    )  # fmt: skip
    assert abs(loss(z1, z2, y).item() - expected) < 1e-10


@pytest.mark.parametrize("temperature", [0.01, 0.07, 1.0])
@pytest.mark.parametrize("beta", [0.5, 30.0])
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


def test_one_class_gives_an_attached_zero():
    z1, z2 = (numbers(4, 3, seed=s).requires_grad_() for s in (0, 1))
    loss = contrastive_loss("hscl", streaming=True)
    value, seen = loss.with_diagnostics(z1, z2, torch.zeros(4, dtype=torch.int64))
    value.backward()
    assert (value.item(), seen.without_negative.item(), seen.contributing.item()) == (0.0, 8, 0)
    assert torch.equal(z1.grad, torch.zeros_like(z1))


def test_anchors_of_a_lone_class_without_a_positive_are_counted():
    strict = ContrastiveLoss(
        NegativeSampler("other_labels"), positives="class", on_empty="raise", streaming=True
    )
    with pytest.raises(InputError, match=r"\b0 .*\b4 .*\b1 .*on_empty='raise'"):
        strict(numbers(4, 3), torch.tensor([0, 0, 0, 1]))


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


@pytest.mark.parametrize(
    ("name", "weighted"), [("hucl", False), ("hscl", True), ("bcl", True), ("progcl", True)]
)
def test_nothing_grows_with_the_square_of_a_large_batch(name, weighted):
    def largest(n_items):
        z1, z2 = (numbers(n_items, 4, seed=s).requires_grad_() for s in (0, 1))
        loss = contrastive_loss(name)
        if weighted:
            loss.sampler.pair_weights = lambda i, j: -0.01 * (i[:, None] - j).abs()
        with Largest() as recorder:
            loss(z1, z2, labels_of(n_items)).backward()
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


def test_a_debiased_loss_with_a_learned_temperature_is_taken_dense():
    gamma = torch.nn.Parameter(torch.tensor(0.5))
    settings = {"sampler": NegativeSampler(), "temperature": gamma, "class_prior": 0.1}
    with pytest.raises(InputError, match="temperature"):
        ContrastiveLoss(streaming=True, **settings)
    ContrastiveLoss(**settings)


def test_a_hardening_set_later_that_cannot_stream_is_taken_dense():
    z1, z2 = numbers(9, 4), numbers(9, 4, seed=1)
    loss = ContrastiveLoss(NegativeSampler(), streaming=True)
    loss.sampler.hardening = Transport()
    expected = ContrastiveLoss(NegativeSampler(hardening=Transport()))(z1, z2)
    torch.testing.assert_close(loss(z1, z2), expected)
