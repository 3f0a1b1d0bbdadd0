"""Some items as the only anchors: against the loss of all anchors."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from gcl_hard import (
    ContrastiveLoss,
    Exponential,
    HardMixing,
    InputError,
    NegativeSampler,
    Transport,
    contrastive_loss,
)
from tests.losses.cases import numbers

IDS = [5, 0, 3]
LABELS = torch.tensor([0, 1, 1, 2, 0, -1, 1, -1])


def build_loss(name, **options):
    threshold = 0.1 if name == "hscl-tau" else None
    return contrastive_loss(name, beta=1.5, threshold=threshold, unknown=-1, **options)


def assert_same(value, other, inputs, tolerance=1e-10):
    gradients = []
    for result in (value, other):
        weights = torch.linspace(0.5, 2.0, result.numel(), dtype=result.dtype).view_as(result)
        gradients.append([result.detach(), *torch.autograd.grad((result * weights).sum(), inputs)])
    torch.testing.assert_close(*gradients, rtol=tolerance, atol=tolerance)


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
    with pytest.raises(InputError, match="anchor"):
        build_loss("hscl", on_empty="raise")(*z, LABELS, anchors=anchors)


@pytest.mark.parametrize(
    "anchors",
    [
        [0, 8], [-1], torch.tensor([2, 1, 2, 2]), [0.0, 1.0], torch.ones(8, dtype=torch.bool),
        torch.tensor([[0, 1]]), ["no"],
    ],
)  # fmt: skip
def test_ids_that_are_none_are_told(anchors):
    z = [numbers(8, 5, seed=v) for v in range(2)]
    with pytest.raises(InputError, match=r"anchors|ids"):
        build_loss("hucl")(*z, anchors=anchors)


def test_what_belongs_to_all_anchors_is_refused():
    z = [numbers(8, 5, seed=v) for v in range(2)]
    sampler = NegativeSampler("others", Exponential(1.0))
    for loss in (
        ContrastiveLoss(sampler, negatives="gathered"),
        ContrastiveLoss(sampler, objective="jsd", hardness_scale="batch-max"),
        ContrastiveLoss(NegativeSampler("others", Transport())),
    ):
        with pytest.raises(InputError, match="anchors"):
            loss(*z, anchors=IDS)


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
    with pytest.raises(InputError, match="anchors"):
        build_loss(name)(*z, y, anchors=torch.zeros(9, dtype=torch.int64, device="meta"))
