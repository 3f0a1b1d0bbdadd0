"""Items of no known class: what follows from their definition."""

from __future__ import annotations

import math

import pytest
import torch

from gcl_hard import ContrastiveLoss, InputError, NegativeSampler, Queue, contrastive_loss
from gcl_hard.losses.methods import METHODS
from tests.losses.cases import numbers


def labels_of(n, share, *, classes=3, unknown=-1, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    y[torch.randperm(n, generator=g)[: round(share * n)]] = unknown
    return y


def build_loss(name, **options):
    threshold = 0.1 if name == "hscl-tau" else None
    return contrastive_loss(name, beta=1.5, threshold=threshold, **options)


def assert_same(value, inputs, other, other_inputs, tolerance=1e-10):
    """Values, and gradients of their sum with weights that tell single anchors apart."""
    gradients = []
    for result, leaves in ((value, inputs), (other, other_inputs)):
        weights = torch.linspace(0.5, 2.0, result.numel(), dtype=result.dtype).view_as(result)
        slopes = torch.autograd.grad((result * weights).sum(), leaves)
        gradients.append([result.detach(), *slopes])
    torch.testing.assert_close(*gradients, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("aware", "free"), [("hscl", "hucl"), ("scl", "ucl")])
def test_an_anchor_of_unknown_label_has_the_loss_without_labels_among_any_others(aware, free):
    z, y = [numbers(30, 5, seed=v) for v in range(2)], labels_of(30, 0.4)
    ours = build_loss(aware, unknown=-1, reduction="none")(*z, y)
    plain = build_loss(free, reduction="none")(*z)
    alike = torch.isclose(ours, plain, rtol=1e-12, atol=0)
    assert torch.equal(alike, (y == -1).repeat(2))


@pytest.mark.parametrize("mark", [-1, 255, 0])
@pytest.mark.parametrize("name", METHODS)
def test_an_item_of_unknown_label_is_as_one_alone_in_its_class(name, mark):
    """Of every method; whatever number marks it."""
    z = [numbers(12, 5, seed=v).requires_grad_() for v in range(3)]
    y = 1 + labels_of(12, 0.0)
    alone, marked = y.clone(), y.clone()
    alone[:5], marked[:5] = torch.arange(10, 15), mark
    assert_same(build_loss(name, unknown=mark)(z, marked), z, build_loss(name)(z, alone), z)


def test_labels_may_be_of_any_integers():
    z, y = [numbers(9, 4, seed=v) for v in range(2)], labels_of(9, 0.3)
    loss = build_loss("hscl", unknown=-1)
    expected = loss(*z, y)
    for labels_ in (y.tolist(), y.numpy(), y.to(torch.int8), y.int()):
        assert loss(*z, labels_) == expected
    byte = torch.where(y == -1, 255, y).to(torch.uint8)
    assert build_loss("hscl", unknown=255)(*z, byte) == expected
    # −1 is no number of a byte, and 255 a class like others.
    torch.testing.assert_close(loss(*z, byte), loss(*z, byte.long()), rtol=0, atol=0)


def test_diagnostics_know_which_anchors_have_no_label():
    z, y = [numbers(9, 4, seed=v) for v in range(2)], labels_of(9, 0.3)
    label_weights = {}
    for name in ("hucl", "hscl"):
        label_weights[name] = (
            build_loss(name, unknown=-1).with_diagnostics(*z, y)[1].own_label_weight
        )
        assert torch.equal(label_weights[name].isnan(), (y == -1).repeat(2))
    alone = torch.where(y == -1, torch.arange(9) + 100, y)
    known = build_loss("hucl").with_diagnostics(*z, alone)[1].own_label_weight
    seen = (y != -1).repeat(2)
    torch.testing.assert_close(label_weights["hucl"][seen], known[seen], rtol=1e-12, atol=0)
    assert (label_weights["hscl"][seen] == 0).all()


def test_an_anchor_without_a_positive_is_counted():
    """One view: the positives are those of the class alone."""
    value, seen = build_loss("hscl", unknown=-1).with_diagnostics(
        numbers(7, 3), [0, 0, 1, 1, -1, -1, -1]
    )
    assert int(seen.without_positive) == 3
    assert int(seen.contributing) == 4
    assert value.isfinite()


@pytest.mark.parametrize("name", ["hscl", "scl"])
def test_embeddings_of_the_anchors_class_are_never_seen_among_its_negatives(name):
    """1e30 there changes neither value nor gradient, and NaN no value."""
    y = torch.tensor([0, 0, 0, 0, -1, 1])
    loss = build_loss(name, unknown=-1, positives="view", reduction="none")
    z1, z2 = (numbers(6, 4, seed=v) for v in range(2))

    def value_and_gradient(poison):
        first, second = z1.clone(), z2.clone()
        first[2:4], second[2:4] = poison, poison
        value = loss(first.requires_grad_(), second, y)[[0, 1, 6, 7]]
        (slope,) = torch.autograd.grad(value.sum(), first)
        return value.detach(), slope[[0, 1, 4, 5]]

    torch.testing.assert_close(
        value_and_gradient(1e30), value_and_gradient(1.0), rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(
        value_and_gradient(math.nan)[0], value_and_gradient(1.0)[0], rtol=1e-12, atol=1e-12
    )


@pytest.mark.skipif(torch.__version__ < "2.9", reason="see test_losses")
def test_a_compiled_loss_has_the_same_value_and_other_negative_labels_make_it_nan():
    torch.compiler.reset()
    z, y = [numbers(9, 4, seed=v) for v in range(2)], labels_of(9, 0.3)
    loss = build_loss("hscl", unknown=-1)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*z, y), loss(*z, y))
    y[0] = -2
    assert compiled(*z, y).isnan()


def test_what_cannot_be_a_label_is_told():
    z = [numbers(4, 3, seed=v) for v in range(2)]
    late = ContrastiveLoss(NegativeSampler("other_labels"), unknown=-1)
    late.sampler.label_gap = (0.2, 0.5)
    for call in (
        lambda: build_loss("hscl")(*z, [0, 1, -7, 0]),
        lambda: build_loss("hscl", unknown=-1)(*z, [0, 1, -7, -1]),
        *(lambda wrong=wrong: build_loss("hscl", unknown=wrong)
          for wrong in (True, "no", 0.0, 2**70)),
        lambda: ContrastiveLoss(
            NegativeSampler("other_labels", label_gap=(0.2, 0.5)), unknown=-1),
        lambda: late(*z, labels=torch.rand(4)),
    ):  # fmt: skip
        with pytest.raises(InputError, match="unknown"):
            call()


@pytest.mark.parametrize(("labels", "keeps"), [(None, False), (-1, True), (-100, True)])
def test_a_queue_keeps_labels_that_are_not_known_for_a_loss_that_knows_of_them(labels, keeps):
    z = numbers(4, 3)
    queue = Queue(8, 3, unknown=labels)
    mark = -1 if labels is None else labels
    queue.add(z, torch.tensor([0, 1, mark, 2]))
    queue.add(z[:2])
    assert ("candidate_labels" in queue.candidates()) == keeps
    if keeps:
        assert queue.candidates()["candidate_labels"].tolist() == [0, 1, mark, 2, mark, mark]
        y = torch.tensor([0, mark, 1, mark])
        value = build_loss("hscl", unknown=labels)(z + 1, z, y, **queue.candidates())
        by_hand = build_loss("hscl")(
            z + 1, z, torch.tensor([0, 7, 1, 8]), candidates=torch.cat([z, z[:2]]),
            candidate_labels=torch.tensor([0, 1, 9, 2, 10, 11]),
        )  # fmt: skip
        torch.testing.assert_close(value, by_hand, rtol=1e-6, atol=0)
