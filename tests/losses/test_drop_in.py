"""The losses that other libraries' users have, from ours: the same values and gradients."""

from __future__ import annotations

import itertools

import pytest
import torch

from gcl_hard import (
    ContrastiveLoss,
    Exponential,
    InputError,
    MeanThreshold,
    NegativeSampler,
    contrastive_loss,
)
from tests.losses.cases import numbers

other = pytest.importorskip("pytorch_metric_learning.losses")
LABELS = torch.tensor([3, 0, 1, 3, 1, 1, 0, 2, 2, 3, 0, 1, 2, 2, 0])


def sup_con(temperature, **settings):
    return ContrastiveLoss(
        NegativeSampler("rest"), positives="class", weight="kept", reduction="anchors",
        temperature=temperature, **settings,
    )  # fmt: skip


def nt_xent(temperature, **settings):
    return ContrastiveLoss(
        NegativeSampler("other_labels"), positives="class", weight="kept", reduction="pairs",
        temperature=temperature, **settings,
    )  # fmt: skip


OTHERS = {"SupConLoss": (sup_con, other.SupConLoss), "NTXentLoss": (nt_xent, other.NTXentLoss)}


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("name", OTHERS)
def test_values_and_gradients_are_those_of_pytorch_metric_learning(name, temperature, streaming):
    ours, theirs = OTHERS[name]
    z = numbers(15, 6).requires_grad_()
    loss = ours(temperature, streaming=streaming)(z, LABELS)
    expected = theirs(temperature=temperature)(z, LABELS)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)
    slopes = (torch.autograd.grad(value, z)[0] for value in (loss, expected))
    torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-12)


def test_an_embedding_alone_in_its_class_is_left_out_as_there():
    z, y = numbers(6, 4), torch.tensor([0, 0, 1, 2, 2, 2])
    torch.testing.assert_close(sup_con(0.1)(z, y), other.SupConLoss(temperature=0.1)(z, y))


@pytest.mark.parametrize("streaming", [True, False])
def test_views_side_by_side_are_the_views_one_by_one(streaming):
    """[B, V, d], as the authors' code of SupCon has them."""
    z, y = numbers(7, 3, 5), LABELS[:7]
    loss = sup_con(0.1, streaming=streaming)
    torch.testing.assert_close(loss(z, y), loss(list(z.unbind(1)), y))
    torch.testing.assert_close(loss(z, y), loss(z.flatten(0, 1), y.repeat_interleave(3)))
    with pytest.raises(InputError, match=r"\[B, V, d\]"):
        loss(z[None], y)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_positive_that_outweighs_all_else_leaves_exact_sums(dtype, streaming):
    """e^(120 t) of a duplicate, of which nothing but rounding would remain if subtracted."""

    def loop(z):
        t = torch.nn.functional.normalize(z) @ torch.nn.functional.normalize(z).T / 0.05
        terms = []
        for i, p in itertools.permutations(range(10), 2):
            rest = t[i, [j for j in range(10) if j not in (i, p)]]
            log_mean = torch.logsumexp((5 * rest).log_softmax(0).detach() + rest, 0)
            if y[i] == y[p]:
                terms.append((t[i, p].exp() + 8 * log_mean.exp()).log() - t[i, p])
        return torch.stack(terms).mean()

    z = numbers(10, 4).to(dtype)
    z[1] = z[0]
    z = z.requires_grad_()
    y = LABELS[:10].clone()
    y[:3] = 0
    loss = ContrastiveLoss(
        NegativeSampler("rest", Exponential(5.0)), positives="class", weight="kept",
        temperature=0.05, streaming=streaming,
    )  # fmt: skip
    (slope,) = torch.autograd.grad(loss(z, y), z)
    exact = z.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(loop(exact), exact)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(slope.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_pair_without_a_further_embedding_has_no_negative(streaming):
    z = numbers(2, 3).requires_grad_()
    loss, seen = sup_con(0.5, streaming=streaming).with_diagnostics(z, torch.tensor([1, 1]))
    assert (loss.item(), seen.without_negative.item(), seen.without_positive.item()) == (0.0, 2, 0)
    assert torch.equal(torch.autograd.grad(loss, z)[0], torch.zeros_like(z))


@pytest.mark.parametrize(
    ("sampler_options", "loss_options"),
    [
        ({}, {"class_prior": 0.1}),
        ({}, {"pooling": "logsumexp"}),
        ({"draws": 3}, {}),
        ({"hardening": MeanThreshold()}, {}),
    ],
)
def test_what_needs_one_set_of_negatives_for_an_anchor_is_refused(sampler_options, loss_options):
    with pytest.raises(InputError, match=r'admit="rest"'):
        ContrastiveLoss(NegativeSampler("rest", **sampler_options), **loss_options)


def multiple_negatives_ranking(queries, documents, scale):
    """sentence-transformers' loss over the directions query to document and query to query."""
    q, d = (torch.nn.functional.normalize(z) for z in (queries, documents))
    logits = torch.cat([q @ d.T, (q @ q.T).fill_diagonal_(-torch.inf)], 1) * scale
    return torch.nn.functional.cross_entropy(logits, torch.arange(len(q)))


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_both_orders_of_multiple_negatives_ranking_are_ucl(temperature):
    a, b = numbers(9, 5, seed=1), numbers(9, 5, seed=2)
    theirs = [multiple_negatives_ranking(*z, 1 / temperature) for z in ((a, b), (b, a))]
    ours = contrastive_loss("ucl", temperature=temperature)(a, b)
    torch.testing.assert_close(ours, sum(theirs) / 2, rtol=1e-10, atol=0)
