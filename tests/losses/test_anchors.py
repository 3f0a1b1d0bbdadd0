"""Some items as the only anchors: against loops, and against the loss of all anchors."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gcl_hard import (
    ContrastiveLoss,
    Exponential,
    HardMixing,
    InputError,
    NegativeSampler,
    Transport,
    contrastive_loss,
)
from gcl_hard.losses.methods import METHODS
from tests.reference import loops
from tests.said import says

IDS = [5, 0, 3]
LABELS = torch.tensor([0, 1, 1, 2, 0, -1, 1, -1])
ETAS = {
    "ucl": lambda t: 1.0, "scl": lambda t: 1.0, "hucl": lambda t: math.exp(1.5 * t),
    "hscl": lambda t: math.exp(1.5 * t), "hscl-tau": lambda t: float(t >= 0.1 / 0.5),
}  # fmt: skip


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build_loss(name, **options):
    return contrastive_loss(name, beta=1.5, threshold=0.1, unknown=-1, **options)


def assert_same(value, other, inputs, tolerance=1e-10):
    gradients = []
    for result in (value, other):
        weights = torch.linspace(0.5, 2.0, result.numel(), dtype=result.dtype).view_as(result)
        gradients.append([result.detach(), *torch.autograd.grad((result * weights).sum(), inputs)])
    torch.testing.assert_close(*gradients, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reduction", ["pairs", "anchors", "none"])
@pytest.mark.parametrize("way", ["dense", "streamed", "jsd"])
@pytest.mark.parametrize("name", ETAS)
def test_value_and_gradient_equal_the_loops(name, way, reduction):
    """Of all items, those that are no anchors too, are candidates and class positives."""
    options = {"streaming": way == "streamed"}
    if way == "jsd":
        options = {"objective": "jsd", "hardness_scale": "cosine"}
    loss = build_loss(name, reduction=reduction, **options)
    z = [numbers(8, 4, seed=v).requires_grad_() for v in (0, 1)]
    extra, extra_y = numbers(3, 4, seed=2).requires_grad_(), [1, -1, 2]
    value = loss(
        *z, LABELS, candidates=extra, candidate_labels=torch.tensor(extra_y),
        anchors=sorted(IDS),
    )  # fmt: skip
    expected = loops.with_gradient(
        z, LABELS.tolist(), admit=METHODS[name].admit, positives=METHODS[name].positives,
        eta=ETAS[name], objective=loss.objective, reduction=reduction, unknown=-1, anchors=IDS,
        extra=extra, extra_y=extra_y,
    )  # fmt: skip
    expected = torch.stack(expected) if reduction == "none" else expected
    assert_same(value, expected, [*z, extra])


@pytest.mark.parametrize("n_views", [2, 3])
@pytest.mark.parametrize("name", sorted({*METHODS} - {"ot", "mochi", "spacl", "spacl-sup"}))
def test_terms_are_those_of_the_loss_of_all_anchors(name, n_views):
    z = [numbers(8, 5, seed=v).requires_grad_() for v in range(n_views)]
    loss = build_loss(name, reduction="none")
    every, anchor_terms = loss(z, LABELS), loss(z, LABELS, anchors=torch.tensor(IDS))
    assert_same(anchor_terms, every.view(n_views, 8)[:, IDS].flatten(), z)


@pytest.mark.parametrize("anchors", [range(8), torch.arange(8), torch.arange(8).int()], ids=str)
@pytest.mark.parametrize("reduction", ["pairs", "anchors"])
@pytest.mark.parametrize("name", ["hucl", "hscl"])
def test_all_items_as_anchors_are_the_loss(name, reduction, anchors):
    z = [numbers(8, 5, seed=v).requires_grad_() for v in range(2)]
    loss = build_loss(name, reduction=reduction)
    anchor_ids = list(anchors) if isinstance(anchors, range) else anchors
    assert_same(loss(*z, LABELS, anchors=anchor_ids), loss(*z, LABELS), z)


def test_the_mean_over_anchors_is_that_of_each_by_itself():
    z = [numbers(8, 5, seed=v) for v in range(2)]
    each = build_loss("hscl", reduction="none")(*z, LABELS)
    loss = build_loss("hscl", reduction="anchors")
    values = [loss(*z, LABELS, anchors=[i]) for i in range(8)]
    torch.testing.assert_close(torch.stack(values), each.view(2, 8).mean(0), rtol=1e-12, atol=0)


@pytest.mark.parametrize("reduction", ["pairs", "anchors", "none"])
@pytest.mark.parametrize("admit", ["others", "other_labels", "rest"])
@pytest.mark.parametrize("n_views", [1, 2])
def test_blocks_equal_the_dense_path(n_views, admit, reduction):
    z = [numbers(700, 6, seed=v).requires_grad_() for v in range(n_views)]
    y = torch.arange(700) % 5 - 1
    ids = torch.randperm(700, generator=torch.Generator().manual_seed(0))[:300]
    weights = numbers(700, 700, seed=9)
    outputs = []
    for streaming in (True, False):
        loss = ContrastiveLoss(
            NegativeSampler(admit, Exponential(1.0), pair_weights=weights), positives="class",
            unknown=-1, reduction=reduction, detach_weights=False, streaming=streaming,
        )  # fmt: skip
        value, seen = loss.with_diagnostics(z, y, anchors=ids)
        assert seen.anchors == n_views * 300 == len(seen.effective_negatives)
        outputs.append((value, {k: int(n) for k, n in seen.counts.items()}))
    (gradient, counts), (other, same) = outputs
    assert counts == same
    assert_same(gradient, other, z)


class Largest(TorchDispatchMode):
    """The most elements of a tensor that an operation returns."""

    n = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [part.numel() for part in tree_leaves(result) if isinstance(part, torch.Tensor)]
        self.n = max(self.n, *sizes, 0)
        return result


@pytest.mark.parametrize("name", ["hucl", "hscl"])
def test_nothing_grows_with_anchors_times_items(name):
    def largest(n_items):
        z = [numbers(n_items, 4, seed=s).requires_grad_() for s in (0, 1)]
        y = torch.arange(n_items) % 50
        with Largest() as recorder:
            build_loss(name)(*z, y, anchors=torch.arange(0, n_items, 2)).backward()
        return recorder.n

    assert largest(2000) < 2 * largest(1000)


def test_pair_weights_are_asked_for_rows_of_the_anchors():
    z, asked = [numbers(8, 5, seed=v) for v in range(2)], []
    log_w = numbers(8, 8, seed=3)

    def log_weights(rows, columns):
        asked.append(rows)
        return log_w[rows][:, columns]

    gradients = []
    for weights in (log_weights, log_w):
        loss = ContrastiveLoss(NegativeSampler(pair_weights=weights), reduction="none")
        gradients.append(loss(*z, anchors=IDS))
        torch.testing.assert_close(gradients[-1], loss(*z).view(2, 8)[:, IDS].flatten())
    torch.testing.assert_close(*gradients)
    assert asked[0].tolist() == [*IDS, *IDS]


def test_hard_positives_are_those_of_the_anchors():
    z = [numbers(8, 5, seed=v).requires_grad_() for v in range(4)]
    loss = build_loss("spacl-sup", without=["adversarial"], reduction="none")
    assert_same(loss(z, LABELS, anchors=IDS), loss(z, LABELS)[IDS], z)


def test_synthetic_negatives_are_made_for_the_anchors():
    """Mixtures of the hardest negative with itself are that negative, whatever is drawn."""
    z = [numbers(8, 5, seed=v).requires_grad_() for v in range(2)]
    sampler = NegativeSampler(synthetic=HardMixing(1, mixed=3, with_anchor=0))
    loss = ContrastiveLoss(sampler, reduction="none")
    assert_same(loss(*z, anchors=IDS), loss(*z).view(2, 8)[:, IDS].flatten(), z, 1e-8)


@pytest.mark.parametrize("anchors", [[], torch.zeros(0, dtype=torch.int64)], ids=["list", "tensor"])
def test_no_anchor_is_an_empty_batch(anchors):
    z = [numbers(8, 5, seed=v).requires_grad_() for v in range(2)]
    value, seen = build_loss("hscl").with_diagnostics(*z, LABELS, anchors=anchors)
    assert (value.item(), seen.anchors) == (0.0, 0)
    assert all((slope == 0).all() for slope in torch.autograd.grad(value, z))
    assert build_loss("hscl", reduction="none")(*z, LABELS, anchors=anchors).shape == (0,)
    with pytest.raises(InputError) as error:
        build_loss("hscl", on_empty="raise")(*z, LABELS, anchors=anchors)
    assert says(str(error.value), "anchor", "on_empty='raise'")


@pytest.mark.parametrize(
    ("anchors", "facts"),
    [
        ([0, 8], (7, 8)),
        ([-1], (7, -1)),
        (torch.tensor([2, 1, 2, 2]), (2, 3)),
        ([0.0, 1.0], ("integers", "torch.float32", "[2]")),
        (torch.ones(8, dtype=torch.bool), ("mask", "nonzero", "[8]")),
        (torch.tensor([[0, 1]]), ("integers", "[1, 2]")),
        (["no"], ("integers", "list")),
    ],
)
def test_ids_that_are_none_are_told(anchors, facts):
    z = [numbers(8, 5, seed=v) for v in range(2)]
    with pytest.raises(InputError) as error:
        build_loss("hucl")(*z, anchors=anchors)
    assert says(str(error.value), "anchors", *facts)


def test_what_belongs_to_all_anchors_is_refused():
    z = [numbers(8, 5, seed=v) for v in range(2)]
    sampler = NegativeSampler("others", Exponential(1.0))
    for loss, fact in (
        (ContrastiveLoss(sampler, negatives="gathered"), "gathered"),
        (ContrastiveLoss(sampler, objective="jsd", hardness_scale="batch-max"), "batch-max"),
        (ContrastiveLoss(NegativeSampler("others", Transport())), "Transport"),
    ):
        with pytest.raises(InputError) as error:
            loss(*z, anchors=IDS)
        assert says(str(error.value), "anchors", fact)


@pytest.mark.skipif(torch.__version__ < "2.9", reason="see test_losses")
def test_a_compiled_loss_has_the_same_value_and_ids_out_of_range_make_it_nan():
    torch.compiler.reset()
    z, loss = [numbers(8, 5, seed=v) for v in range(2)], build_loss("hscl")
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    ids = torch.tensor(IDS)
    torch.testing.assert_close(compiled(*z, LABELS, anchors=ids), loss(*z, LABELS, anchors=ids))
    for wrong in (8, -1):
        assert compiled(*z, LABELS, anchors=torch.tensor([0, 1, wrong])).isnan()


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("name", ["hucl", "hscl", "hscl-tau"])
def test_no_value_is_read_from_another_device(name, streaming, monkeypatch):
    """A tensor without values stands for one of a GPU, which a step must not wait for."""
    monkeypatch.setattr(
        torch, "autocast", lambda *args, **kwargs: nullcontext()
    )  # has no such device
    z = [torch.empty(8, 5, device="meta", requires_grad=True) for _ in range(2)]
    y, ids = LABELS.to("meta"), torch.tensor(IDS, device="meta")
    more = {"candidates": z[0].detach(), "candidate_labels": y}
    value = build_loss(name, streaming=streaming)(*z, y, anchors=ids, **more)
    value.backward()
    assert z[0].grad is not None
    with pytest.raises(InputError) as error:
        build_loss(name, streaming=streaming)(*z, y, anchors=torch.tensor(IDS))
    assert says(str(error.value), "anchors", "cpu", "meta")
    with pytest.raises(InputError) as error:
        build_loss(name)(*z, y, anchors=torch.zeros(9, dtype=torch.int64, device="meta"))
    assert says(str(error.value), "anchors", 9)
