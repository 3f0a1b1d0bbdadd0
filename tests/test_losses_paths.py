"""The fused path against the general one, and embeddings of unusual size or without a number."""

from __future__ import annotations

import math

import pytest
import torch

from gcl_hard import ContrastiveLoss, Exponential, NegativeSampler, Threshold
from tests.test_losses import graphs_and_nodes, views


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("admit", ["others", "other_labels"])
@pytest.mark.parametrize("hardening", [None, Exponential(2.5), Threshold(0.05), Threshold(0.6)])
def test_fused_path_equals_the_general_one_in_value_and_gradient(hardening, admit, detach):
    """Several blocks of rows, a graph alone in its class, rows without a negative."""
    g = torch.Generator().manual_seed(3)
    batch = torch.randint(0, 9, (1300,), generator=g)
    y = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 1])
    nodes = torch.randn(1300, 4, generator=g, dtype=torch.float64).requires_grad_()
    graphs = torch.randn(9, 4, generator=g, dtype=torch.float64).requires_grad_()
    results = []
    for fused in (True, False):
        loss = ContrastiveLoss(
            NegativeSampler(admit, hardening), objective="jsd", detach_weights=detach,
            class_prior=0.2 if admit == "others" and not isinstance(hardening, Threshold) else None,
        )  # fmt: skip
        loss.fused = fused
        value, seen = loss.local_global_with_diagnostics(nodes, graphs, batch, y)
        grads = torch.autograd.grad(value, (nodes, graphs))
        results.append((value, *grads, *(torch.as_tensor(count).double() for count in seen)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_fused_path_of_equal_scores_has_no_hardening():
    loss = ContrastiveLoss(NegativeSampler("others", Exponential(5.0)), objective="jsd")
    zeros = torch.zeros(4, 3, requires_grad=True)
    value = loss.local_global(zeros, torch.zeros(2, 3), torch.tensor([0, 0, 1, 1]))
    value.backward()
    assert abs(value.item()) < 1e-6


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e25])
def test_cosines_do_not_depend_on_the_size_of_rows(size):
    z1, z2 = (z.float() for z in views())
    loss = ContrastiveLoss(NegativeSampler("others", Exponential(1.0)))
    torch.testing.assert_close(loss(size * z1, size * z2), loss(z1, z2), rtol=1e-5, atol=0)


def test_a_row_of_zeros_has_a_finite_gradient():
    z1, z2 = views()
    z1[0] = 0.0
    z1.requires_grad_()
    ContrastiveLoss(NegativeSampler())(z1, z2).backward()
    assert z1.grad is not None
    assert z1.grad.abs().max() < 1e3


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("method", ["ucl", "hucl", "hscl"])
def test_an_embedding_that_is_not_finite_shows_in_the_loss(method, fused):
    """A divergence must not be hidden by turning the hardening off."""
    from gcl_hard import contrastive_loss

    nodes, graphs, batch, y = graphs_and_nodes()
    loss = contrastive_loss(method, objective="jsd")
    loss.fused = fused
    graphs[1] = math.nan
    assert not loss.local_global(nodes, graphs, batch, y).isfinite()


def test_debiased_jsd_never_asks_a_hardening_outside_its_range():
    from gcl_hard import Custom

    nodes, graphs, batch, _ = graphs_and_nodes()
    graphs = graphs + 10 * nodes[[0, 3, 5, 6, 10]]  # positives far above every negative
    hardening = Custom(lambda t: (t + 2.1).log(), positive=True)
    loss = ContrastiveLoss(
        NegativeSampler("others", hardening), objective="jsd", class_prior=0.1
    )  # fmt: skip
    assert loss.local_global(nodes, graphs, batch).isfinite()
