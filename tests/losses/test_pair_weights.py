"""Pair weights known from outside, and BCL's weights of ranks, against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gcl_hard import (
    ContrastiveLoss,
    Exponential,
    InputError,
    NegativeSampler,
    RankPosterior,
    Threshold,
    Uniform,
    contrastive_loss,
)
from tests.reference import loops

LABELS = torch.tensor([0, 1, 1, 2, 0, 3, 1])
HARD = {
    "none": (Uniform(), lambda t: 1.0),
    "exponential": (Exponential(1.7), lambda t: math.exp(1.7 * t)),
    "threshold": (Threshold(0.1), lambda t: float(t >= 0.1 / 0.5)),
}


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def log_weights(n, m, seed=5):
    """Some of them −inf."""
    log_w = 2 * numbers(n, m, seed=seed)
    log_w[1, 2] = log_w[3, 0] = -math.inf
    return log_w


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("as_function", [True, False])
@pytest.mark.parametrize("extra", [0, 3])
@pytest.mark.parametrize("kinds", [("others", "view"), ("other_labels", "view"), ("rest", "class")])
@pytest.mark.parametrize("name", HARD)
def test_views_equal_the_loops(name, kinds, extra, as_function, streaming):
    admit, positives = kinds
    z1, z2, more = numbers(7, 5), numbers(7, 5, seed=1), numbers(extra, 5, seed=2)
    hardening, eta = HARD[name]
    log_w = log_weights(7, 7 + extra)
    pair_weights = (lambda rows, columns: log_w[rows][:, columns]) if as_function else log_w
    loss = ContrastiveLoss(
        NegativeSampler(admit, hardening, pair_weights=pair_weights), reduction="pairs",
        positives=positives, streaming=streaming,
    )  # fmt: skip
    kept = {"candidates": more, "candidate_labels": torch.tensor([1, 0, 2])} if extra else {}
    expected = loops.infonce_views(
        [z1.tolist(), z2.tolist()], LABELS.tolist(), admit=admit, positives=positives, eta=eta,
        gamma=0.5, reduction="pairs", extra=more.tolist(), extra_y=[1, 0, 2][:extra], M=12 + extra,
        w=lambda i, j: math.exp(log_w[i, j]),
    )  # fmt: skip
    assert abs(loss(z1, z2, LABELS, **kept).item() - expected) < 1e-10


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("objective", ["infonce", "jsd"])
def test_nodes_against_graphs_equal_the_loops(objective, streaming):
    batch = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4])
    nodes, graphs, y = numbers(11, 4), numbers(5, 4, seed=1), torch.tensor([0, 1, 0, 2, 1])
    log_w = log_weights(5, 5)
    loss = ContrastiveLoss(
        NegativeSampler("others", Exponential(1.7), pair_weights=log_w), objective=objective,
        streaming=streaming and objective == "infonce",
    )  # fmt: skip
    expected = loops.local_global(
        nodes.tolist(), graphs.tolist(), batch.tolist(), y.tolist(), admit="others",
        eta=HARD["exponential"][1], objective=objective, w=lambda i, j: math.exp(log_w[i, j]),
    )  # fmt: skip
    assert abs(loss.local_global(nodes, graphs, batch, y).item() - expected) < 1e-10


@pytest.mark.parametrize("method", ["ucl", "hcl", "hscl", "hscl-tau"])
def test_weights_of_one_change_no_bit(method):
    z1, z2 = (numbers(9, 4, seed=s).requires_grad_() for s in (0, 1))
    y = torch.arange(9) % 3
    outputs = []
    for weights in (None, lambda rows, columns: torch.zeros(len(rows), len(columns))):
        loss = contrastive_loss(method, detach_weights=False)
        loss.sampler.pair_weights = weights
        value = loss(z1, z2, y)
        outputs.append((value, *torch.autograd.grad(value, (z1, z2))))
    for plain, other in zip(*outputs, strict=True):
        assert torch.equal(plain, other)


@pytest.mark.parametrize("detach", [True, False])
@pytest.mark.parametrize("hardening", [None, Exponential(1.0), Exponential(2.5), Threshold(0.0)])
def test_blocks_equal_the_dense_path(hardening, detach):
    """Over several blocks, whose rows and columns are sorted by label."""
    z = [numbers(600, 6, seed=s).requires_grad_() for s in (0, 1)]
    y, log_w = torch.arange(600) % 7, 3 * numbers(600, 600, seed=8)
    seen = []

    def weights(rows, columns):
        seen.append(len(rows))
        return log_w[rows][:, columns]

    outputs = []
    for streaming in (True, False):
        sampler = NegativeSampler("other_labels", hardening, pair_weights=weights)
        loss = ContrastiveLoss(
            sampler, positives="class", detach_weights=detach, streaming=streaming
        )
        value = loss(*z, y)
        outputs.append((value, *torch.autograd.grad(value, z)))
    assert max(seen[:-1]) < 1200  # a block at a time
    for ours, dense in zip(*outputs, strict=True):
        torch.testing.assert_close(ours, dense, rtol=1e-10, atol=1e-12)


def test_a_weight_of_zero_is_an_admission():
    z1, z2 = numbers(7, 5), numbers(7, 5, seed=1)
    same = LABELS[:, None] == LABELS
    by_weights = NegativeSampler(
        "others", Exponential(1.0), pair_weights=torch.zeros(7, 7).masked_fill(same, -math.inf)
    )
    by_labels = NegativeSampler("other_labels", Exponential(1.0))
    for streaming in (True, False):
        losses = [
            ContrastiveLoss(s, weight=3.0, streaming=streaming) for s in (by_weights, by_labels)
        ]
        values = [loss(z1, z2, LABELS) for loss in losses]
        torch.testing.assert_close(*values)


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        (torch.full((7, 7), math.nan), "NaN"),
        (torch.full((7, 7), math.inf), "inf"),
        (torch.zeros(3, 7), r"\[7, 7\].*\[3, 7\]"),
        (torch.zeros(7), r"\[7, 7\].*\[7\]$"),
        (lambda rows, columns: torch.zeros(2, 2), r"\[14, 14\].*\[2, 2\]"),
        (lambda rows, columns: 1.0, r"\[14, 14\].*\bfloat$"),
    ],
)
def test_weights_that_are_none_are_refused(weights, named):
    loss = ContrastiveLoss(NegativeSampler(pair_weights=weights))
    with pytest.raises(InputError, match=named):
        loss(numbers(7, 3), numbers(7, 3, seed=1))


# BCL


def posterior(scores, auc, hard, prior):
    """Weights of a row as the paper defines them, F by the root of its quadratic equation."""
    values = []
    for s in scores:
        rank = (sum(x < s for x in scores) + sum(x == s for x in scores) / 2) / len(scores)
        a = (1 - 2 * auc) * (1 - 2 * prior)
        b = 2 * (auc * (1 - prior) + (1 - auc) * prior)
        roots = [r.real for r in np.roots([a, b, -rank]) if -1e-9 < r.real < 1 + 1e-9]
        (f,) = roots if abs(a) > 1e-12 else [rank / b]
        early, late = 2 * (1 - f), 2 * f
        true = auc * early + (1 - auc) * late
        false = (1 - auc) * early + auc * late
        wanted = auc * (1 - hard) * early + (1 - auc) * hard * late
        values.append(wanted / ((1 - prior) * true + prior * false))
    return values


@pytest.mark.parametrize(("auc", "hard", "prior"), [
    (0.5, 1.0, 0.1), (0.7, 0.9, 0.1), (0.9, 0.5, 0.3), (1.0, 0.6, 0.5), (0.8, 1.0, 0.7),
])  # fmt: skip
def test_rank_posterior_is_the_papers(auc, hard, prior):
    z1, z2 = numbers(6, 4), numbers(6, 4, seed=1)
    z2[3] = z2[4]  # equal scores
    loss = contrastive_loss("bcl", auc=auc, hardness=hard, class_prior=prior)
    z = [loops.unit(row) for row in torch.cat([z1, z2]).tolist()]
    terms = []
    for i in range(12):
        others = [j for j in range(12) if j % 6 != i % 6]
        g = {j: loops.dot(z[i], z[j]) / 0.5 for j in range(12)}
        weights = posterior([round(g[j], 12) for j in others], auc, hard, prior)
        expected = loops.expectation(weights, [math.exp(g[j]) for j in others])
        terms.append(math.log(1 + 10 * math.exp(-g[(i + 6) % 12]) * expected))
    assert abs(loss(z1, z2).item() - sum(terms) / 12) < 1e-9


def test_rank_posterior_may_fall():
    """Where the encoder is sure, the hardest are probably no true negatives."""
    s = torch.linspace(-1, 1, 9)[None]
    eta = NegativeSampler(hardening=RankPosterior(auc=0.95, hardness=0.5)).log_eta(
        s, others=torch.ones(1, 9, dtype=torch.bool), temperature=0.5
    )
    assert (eta.diff() < 0).all()


def test_rank_posterior_is_not_debiased():
    with pytest.raises(InputError, match="class_prior"):
        ContrastiveLoss(NegativeSampler(hardening=RankPosterior()), class_prior=0.1)


@pytest.mark.parametrize("pair_weights", [
    {"auc": 0.4}, {"auc": 1.1}, {"hardness": 0.2}, {"class_prior": 0.0}, {"auc": 1.0},
])  # fmt: skip
def test_arguments_out_of_range_are_refused(pair_weights):
    with pytest.raises(InputError):
        RankPosterior(**pair_weights)
