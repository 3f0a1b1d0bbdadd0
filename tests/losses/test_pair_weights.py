"""Pair weights that are none, and BCL's weights of ranks against the paper's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gcl_hard import (
    ContrastiveLoss,
    InputError,
    NegativeSampler,
    RankPosterior,
    contrastive_loss,
)
from tests.losses.cases import numbers
from tests.reference import loops

LABELS = torch.tensor([0, 1, 1, 2, 0, 3, 1])


@pytest.mark.parametrize(
    "weights",
    [
        torch.full((7, 7), math.nan), torch.full((7, 7), math.inf), torch.zeros(3, 7),
        torch.zeros(7), lambda rows, columns: torch.zeros(2, 2), lambda rows, columns: 1.0,
    ],
)  # fmt: skip
def test_weights_that_are_none_are_refused(weights):
    loss = ContrastiveLoss(NegativeSampler(pair_weights=weights))
    with pytest.raises(InputError, match="pair_weights"):
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
