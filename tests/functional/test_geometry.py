"""Geometry of embeddings against loops over pairs and singular values, and shapes known exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gcl_hard import Exponential, InputError
from gcl_hard.functional import geometry, histograms
from gcl_hard.functional.comparison import compare
from gcl_hard.functional.geometry import alignment, effective_rank, uniformity
from gcl_hard.functional.negatives import (
    effective_negatives,
    log_negative_distribution,
    same_label_weight,
)
from gcl_hard.functional.similarity import cosine_histograms, log_eta, overlap, two_view_scores
from tests.reference import shapes


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turned(z: torch.Tensor) -> torch.Tensor:
    return z @ torch.linalg.qr(numbers(z.shape[1], z.shape[1], seed=7))[0]


LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 2, 2, 1, 0])


@pytest.mark.parametrize("alpha", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("t", [0.5, 2.0])
def test_alignment_and_uniformity_are_their_definitions(alpha, t):
    z1, z2 = numbers(10, 4), numbers(10, 4, seed=1)
    expected = shapes.alignment(z1.tolist(), z2.tolist(), alpha)
    assert alignment(z1, z2, alpha).item() == pytest.approx(expected, rel=1e-10)
    expected = shapes.uniformity(z1.tolist(), t)
    assert uniformity(z1, t).item() == pytest.approx(expected, rel=1e-10)


def test_alignment_and_uniformity_of_shapes_known_exactly():
    z = numbers(6, 3)
    assert alignment(z, 5 * z) == pytest.approx(0, abs=1e-30)
    assert alignment(z, -z).item() == pytest.approx(4)
    assert uniformity(z[:1].expand(5, 3)).item() == 0
    simplex = torch.eye(5)  # all distances √2
    assert uniformity(simplex).item() == pytest.approx(-4)
    # a row of zeros stays one, at distance 1 from every other
    assert uniformity(torch.tensor([[0.0, 0.0], [0.0, 3.0]])).item() == pytest.approx(-2)


@pytest.mark.parametrize("block", [3, 1024])
@pytest.mark.parametrize("bins", [1, 7, 50])
def test_histograms_count_every_pair_once(monkeypatch, block, bins):
    monkeypatch.setattr(histograms, "BLOCK", block)
    z = numbers(10, 3)
    same, different = shapes.cosines(z.tolist(), LABELS.tolist())
    found = cosine_histograms(z, LABELS, bins)
    for ours, cosines in ((found.same, same), (found.different, different)):
        expected, edges = np.histogram(cosines, bins=bins, range=(-1, 1))
        assert ours.tolist() == expected.tolist()
        np.testing.assert_allclose(found.edges.numpy(), edges, atol=1e-15)
    assert int(found.same.sum() + found.different.sum()) == 45


def test_cosines_at_the_ends_have_a_bin():
    z = torch.tensor([[1.0, 0.0], [3.0, 0.0], [-2.0, 0.0], [0.0, 0.0]])
    found = cosine_histograms(z, torch.tensor([0, 0, 0, 1]), bins=4)
    assert found.same.tolist() == [2, 0, 0, 1]
    assert found.different.tolist() == [0, 0, 3, 0]  # a row of zeros has cosine 0


def test_overlap_is_one_minus_half_the_distance_of_the_shapes():
    p, q = numbers(20).abs(), numbers(20, seed=3).abs()
    expected = 1 - (p / p.sum() - q / q.sum()).abs().sum() / 2
    assert overlap(p, q).item() == pytest.approx(expected.item(), rel=1e-12)
    assert overlap(p, 7 * p).item() == pytest.approx(1)
    assert overlap(torch.tensor([4, 0]), torch.tensor([0, 1])).item() == 0


def test_one_class_has_no_overlap():
    found = cosine_histograms(numbers(4, 3), torch.zeros(4, dtype=torch.int64), bins=5)
    assert found.different.sum() == 0
    assert overlap(found.same, found.different).isnan()


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


@pytest.mark.parametrize("shape", [(10, 4), (4, 10), (7, 1)])
def test_effective_rank_is_that_of_the_gram_matrix(shape):
    z = numbers(*shape)
    expected = shapes.effective_rank(z.tolist())
    assert effective_rank(z).item() == pytest.approx(expected, rel=1e-10)
    assert effective_rank(turned(z)).item() == pytest.approx(expected, rel=1e-10)
    assert 1 - 1e-12 <= expected <= min(shape)


def test_effective_rank_of_shapes_known_exactly():
    assert effective_rank(torch.eye(5)[:3]).item() == pytest.approx(3)
    assert effective_rank(torch.ones(4, 6)).item() == pytest.approx(1, abs=1e-10)
    assert effective_rank(torch.zeros(4, 6)).item() == 0
    # p = (3/4, 1/4)
    two = effective_rank(torch.tensor([[3.0, 0.0], [0.0, 1.0]])).item()
    assert two == pytest.approx(4 / 3**0.75, rel=1e-12)


def test_turning_and_ordering_change_nothing():
    z, order = numbers(10, 4), torch.randperm(10, generator=torch.Generator().manual_seed(0))
    moved = turned(z)[order]
    assert uniformity(moved).item() == pytest.approx(uniformity(z).item(), rel=1e-12)
    gap = alignment(turned(z)[order], turned(z + 1)[order])
    assert gap.item() == pytest.approx(alignment(z, z + 1).item(), rel=1e-10)
    a, b = cosine_histograms(z, LABELS, 9), cosine_histograms(moved, LABELS[order], 9)
    assert torch.equal(a.same, b.same)
    assert torch.equal(a.different, b.different)


Z = torch.ones(3, 2)


@pytest.mark.parametrize(
    ("measure", "says"),
    [
        (lambda: alignment(Z, Z[:2]), r"\[3, 2\] and \[2, 2\]"),
        (lambda: alignment(Z[:0], Z[:0]), "z1 must be .* at least 1"),
        (lambda: uniformity(Z[:1]), r"z must be .* at least 2 .* got \[1, 2\]"),
        (lambda: uniformity(Z * math.nan), "z must be finite, got 6"),
        (lambda: cosine_histograms(Z, torch.zeros(3)), "labels must be integers"),
        (lambda: cosine_histograms(Z, torch.arange(3), bins=0), "bins must be at least 1, got 0"),
        (lambda: overlap(torch.ones(2), torch.ones(3)), r"\[2\] and \[3\]"),
        (lambda: overlap(torch.ones(2, 2), torch.ones(2, 2)), "two rows of one length"),
        (lambda: same_label_weight(Z, Z.T > 0), r"\[3, 2\], got \[2, 3\]"),
        (lambda: effective_rank(Z[0]), r"got \[2\]"),
    ],
)
def test_what_cannot_be_measured_is_named(measure, says):
    with pytest.raises(InputError, match=says):
        measure()


def test_measures_carry_no_gradient():
    z = numbers(4, 3).requires_grad_()
    for value in (alignment(z, z + 1), uniformity(z), effective_rank(z)):
        assert not value.requires_grad
        assert value.dtype == torch.float64
    assert not geometry.effective_negatives(z.log_softmax(1)).requires_grad
