"""Score tables of two views and of nodes against graphs, hardening on them, and histograms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gcl_hard import (
    ContrastiveLoss,
    Exponential,
    InputError,
    MeanThreshold,
    NegativeSampler,
    Threshold,
)
from gcl_hard.theory import similarity
from gcl_hard.theory.assumptions import four_losses
from gcl_hard.theory.comparison import compare
from gcl_hard.theory.similarity import (
    ScoreTable,
    cosine_histograms,
    local_global_scores,
    log_eta,
    log_integrand,
    overlap,
    two_view_scores,
)
from tests.reference import shapes


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def graphs_of(seed: int = 0):
    batch = torch.tensor([0, 0, 1, 2, 2, 2, 3])
    return numbers(7, 4, seed=seed), numbers(4, 4, seed=seed + 9), batch, torch.tensor([0, 1, 0, 2])


@pytest.mark.parametrize("hardening", [Exponential(2.0), Threshold(-0.1), MeanThreshold()])
@pytest.mark.parametrize("contrast", ["two-view", "local-global"])
@pytest.mark.parametrize("objective", ["infonce", "jsd"])
def test_tables_give_the_training_losses(objective, contrast, hardening):
    z1, z2, y = numbers(6, 3), numbers(6, 3, seed=1), torch.tensor([0, 1, 0, 1, 2, 0])
    build, inputs = two_view_scores, (z1, z2, y)
    if contrast == "local-global":
        build, inputs = local_global_scores, graphs_of()
    scores = build(*inputs, temperature=0.5, objective=objective)
    four = four_losses(compare(scores, log_eta(scores, hardening)))
    options = {"objective": objective, "reduction": "anchors"}
    for distribution, admit in (("hucl", "others"), ("hscl", "other_labels")):
        loss = ContrastiveLoss(NegativeSampler(admit, hardening), **options)
        value = (loss if contrast == "two-view" else loss.local_global)(*inputs)
        terms = getattr(four, distribution)
        assert terms[~terms.isnan()].mean().item() == pytest.approx(value.item(), rel=1e-10)


def test_float32_is_worked_on_in_float64():
    z1, z2 = numbers(4, 3, dtype=torch.float32), numbers(4, 3, seed=1, dtype=torch.float32)
    y = torch.tensor([0, 0, 1, 1])
    single, double = (two_view_scores(a, b, y) for a, b in ((z1, z2), (z1.double(), z2.double())))
    assert single.t.dtype == torch.float64
    assert torch.equal(single.t, double.t)


def test_no_gradient_flows():
    z = numbers(3, 2).requires_grad_()
    assert not two_view_scores(z, z, torch.tensor([0, 1, 2])).t.requires_grad
    for objective in ("jsd", "infonce"):
        y = torch.arange(3)
        assert not two_view_scores(z, z, y, objective=objective).t.requires_grad
        assert not local_global_scores(z, z, y, y, objective=objective).t.requires_grad


def table(t: list[float], objective) -> ScoreTable:
    row = torch.tensor([t], dtype=torch.float64)
    true = torch.ones_like(row, dtype=torch.bool)
    return ScoreTable(row, true, ~true, torch.zeros(1), 0.5, row / 2, objective)


def test_log_integrand_keeps_its_digits_wherever_softplus_underflows():
    t = [-3000.0, -800.0, -41.0, -39.0, -5.0, 0.0, 5.0, 60.0, 5000.0]
    assert torch.equal(log_integrand(table(t, "infonce")), table(t, "infonce").t)
    ours = log_integrand(table(t, "jsd"))[0].tolist()
    expected = [*t[:2], *(math.log(math.log1p(math.exp(x))) for x in t[2:-1]), math.log(5000)]
    assert ours == pytest.approx(expected, rel=1e-14)


Z, Y = torch.ones(2, 3), torch.tensor([0, 1])
BATCH = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("z1", lambda: two_view_scores(Z, Z[:1], Y)),
        ("z2", lambda: two_view_scores(Z, Z / 0, Y)),
        ("temperature", lambda: two_view_scores(Z, Z, Y, temperature=math.nan)),
        ("labels", lambda: two_view_scores(Z, Z, -Y)),
        ("nodes", lambda: local_global_scores(Z, Z[:, :2], BATCH, Y)),
        ("nodes", lambda: local_global_scores(Z * math.inf, Z, BATCH, Y)),
        ("temperature", lambda: local_global_scores(Z, Z, BATCH, Y, temperature=-1.0)),
        ("labels", lambda: cosine_histograms(Z, torch.zeros(2))),
        ("bins", lambda: cosine_histograms(Z, Y, bins=0)),
        ("histograms", lambda: overlap(torch.ones(2), torch.ones(3))),
    ],
)
def test_what_makes_no_table_and_no_histogram_is_named(name, build):
    with pytest.raises(InputError, match=name):
        build()


LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 2, 2, 1, 0])


@pytest.mark.parametrize("block", [3, 1024])
@pytest.mark.parametrize("bins", [1, 7, 50])
def test_histograms_count_every_pair_once(monkeypatch, block, bins):
    monkeypatch.setattr(similarity, "BLOCK", block)
    z = numbers(10, 3)
    same, different = shapes.cosines(z.tolist(), LABELS.tolist())
    histograms = cosine_histograms(z, LABELS, bins)
    for ours, cosines in ((histograms.same, same), (histograms.different, different)):
        expected, edges = np.histogram(cosines, bins=bins, range=(-1, 1))
        assert ours.tolist() == expected.tolist()
        np.testing.assert_allclose(histograms.edges.numpy(), edges, atol=1e-15)
    assert int(histograms.same.sum() + histograms.different.sum()) == 45


def test_cosines_at_the_ends_have_a_bin():
    z = torch.tensor([[1.0, 0.0], [3.0, 0.0], [-2.0, 0.0], [0.0, 0.0]])
    histograms = cosine_histograms(z, torch.tensor([0, 0, 0, 1]), bins=4)
    assert histograms.same.tolist() == [2, 0, 0, 1]
    assert histograms.different.tolist() == [0, 0, 3, 0]  # a row of zeros has cosine 0


def test_overlap_is_one_minus_half_the_distance_of_the_shapes():
    p, q = numbers(20).abs(), numbers(20, seed=3).abs()
    expected = 1 - (p / p.sum() - q / q.sum()).abs().sum() / 2
    assert overlap(p, q).item() == pytest.approx(expected.item(), rel=1e-12)
    assert overlap(p, 7 * p).item() == pytest.approx(1)
    assert overlap(torch.tensor([4, 0]), torch.tensor([0, 1])).item() == 0


def test_one_class_has_no_overlap():
    histograms = cosine_histograms(numbers(4, 3), torch.zeros(4, dtype=torch.int64), bins=5)
    assert histograms.different.sum() == 0
    assert overlap(histograms.same, histograms.different).isnan()
