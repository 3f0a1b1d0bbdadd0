"""How concentrated a negative distribution is, and its weight on the anchor's own label."""

from __future__ import annotations

import pytest
import torch

from gcl_hard import Exponential
from gcl_hard.functional.negatives import (
    effective_negatives,
    log_negative_distribution,
    same_label_weight,
)
from gcl_hard.theory.comparison import compare
from gcl_hard.theory.similarity import log_eta, two_view_scores

LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 2, 2, 1, 0])


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_effective_negatives_lie_between_one_and_all():
    q = numbers(4, 6).softmax(1)
    expected = [1 / sum(x * x for x in row) for row in q.tolist()]
    assert effective_negatives(q.log()).tolist() == pytest.approx(expected, rel=1e-12)
    log_q = torch.tensor([[0.2] * 5, [0.0, 1.0, 0.0, 0.0, 0.0], [0.0] * 5]).log()
    assert effective_negatives(log_q).tolist() == pytest.approx([5, 1, 0], rel=1e-6)


@pytest.mark.parametrize("beta", [0.0, 1.0, 20.0])
def test_weight_on_ones_own_label_is_the_share_of_alpha(beta):
    scores = two_view_scores(numbers(10, 3), numbers(10, 3, seed=1), LABELS)
    eta = log_eta(scores, Exponential(beta))
    log_q, _ = log_negative_distribution(eta, scores.others)
    ours = same_label_weight(log_q, scores.same)
    expected = [
        sum(q for q, s in zip(row, same, strict=True) if s)
        for row, same in zip(log_q.exp().tolist(), scores.same.tolist(), strict=True)
    ]
    assert ours.tolist() == pytest.approx(expected, rel=1e-12)
    alpha = compare(scores, eta).log_alpha
    torch.testing.assert_close(ours, (alpha.hcol - alpha.hucl).exp(), rtol=1e-12, atol=1e-12)
    if beta == 0:
        n_same = (scores.others & scores.same).sum(1)
        torch.testing.assert_close(ours, n_same / 18.0, check_dtype=False)


def test_effective_negatives_carry_no_gradient():
    log_q = numbers(4, 3).requires_grad_().log_softmax(1)
    assert not effective_negatives(log_q).requires_grad
