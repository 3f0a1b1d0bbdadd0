"""Hardening functions and schedules against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from gcl_hard import (
    Annealed,
    ContrastiveLoss,
    Cosine,
    Custom,
    Exponential,
    Hardening,
    InputError,
    Linear,
    MeanThreshold,
    NegativeSampler,
    Threshold,
)
from gcl_hard.functional.hardening import Rows


def rows(s, gamma=0.5):
    s = torch.as_tensor(s, dtype=torch.float64)
    return Rows(s, gamma, s / gamma, torch.ones_like(s, dtype=torch.bool))


def test_threshold_of_a_literal_tau_is_the_papers_step():
    """1[e^t ≥ τ] for the τ of Fig. 4 and 5."""
    s = torch.linspace(-1, 1, 2001, dtype=torch.float64)[None]
    for tau, cosine in ((math.exp(-0.5), -0.25), (math.exp(-0.1), -0.05)):
        step = Threshold.from_tau(tau, temperature=0.5)
        assert abs(step.cosine - cosine) < 1e-12
        away = (s - cosine).abs() > 1e-9
        expected = ((s / 0.5).exp() >= tau)[away]
        assert torch.equal((step.log_eta(rows(s)) == 0)[away], expected)


def test_mean_threshold_keeps_the_hardest_of_a_collapsed_row():
    """Rounding may lift the mean above every entry: the row must not come out empty."""
    for value in (0.1, 1 / 3, 0.7, 0.9999999):
        for n in (3, 7, 111):
            collapsed = MeanThreshold().log_eta(rows([[value] * n]))
            assert torch.equal(collapsed, torch.zeros_like(collapsed))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda t: -t, "decrease"),
        (lambda t: t.log(), "nan at t = -2"),
        (lambda t: t / 0.0, "inf at t = 0.02"),
        (lambda t: t.sum(), "elementwise"),
        (lambda t: t[:-1], "elementwise"),
    ],
)
def test_what_is_no_hardening_is_refused_with_the_reason(function, reason):
    with pytest.raises(InputError, match=reason):
        Custom(function).check(temperature=0.5)


def test_custom_that_claims_to_be_positive_is_checked():
    with pytest.raises(InputError, match="positive=True"):
        Custom(lambda t: torch.where(t > 0, 0.0, -math.inf), positive=True).check(0.5)


@pytest.mark.parametrize("beta", [-0.1, math.nan, math.inf, Linear(1.0, -1.0)])
def test_beta_out_of_range_is_refused(beta):
    with pytest.raises(InputError):
        Exponential(beta)


@pytest.mark.parametrize("cosine", [1.1, math.nan, Linear(0.0, 2.0)])
def test_threshold_out_of_range_is_refused(cosine):
    with pytest.raises(InputError):
        ContrastiveLoss(NegativeSampler(hardening=Threshold(cosine)))


def test_a_threshold_in_deviations_has_no_range():
    loss = ContrastiveLoss(NegativeSampler(hardening=Threshold(3.0)), objective="jsd")
    assert loss.threshold == 3.0
    with pytest.raises(InputError):
        ContrastiveLoss(
            NegativeSampler(hardening=Threshold(3.0)), objective="jsd", hardness_scale="cosine"
        )


def test_linear_schedule_is_equation_4():
    for start in (-0.5, -0.3, -0.1):
        for end in (-0.1, 0.0, 0.1):
            for epoch in range(1, 201):
                expected = start + (epoch - 1) / 199 * (end - start)
                assert abs(Linear(start, end).at(epoch, 200) - expected) < 1e-15


@pytest.mark.parametrize(("changes", "epochs"), [(4, 200), (5, 100), (1, 10), (9, 400), (3, 7)])
def test_annealing_is_the_appendix_step_by_step(changes, epochs):
    """β_1 = β; in epoch number i · e/ℓ, counted from 1, β_{i+1} = β_i − β/ℓ replaces β_i."""
    beta = current = 2.0
    i, expected = 1, []
    for epoch in range(1, epochs + 1):
        if epoch >= Fraction(i * epochs, changes):  # the first whole epoch that is not before it
            current -= beta / changes
            i += 1
        expected.append(current)
    ours = [Annealed(beta, changes).at(epoch, epochs) for epoch in range(1, epochs + 1)]
    assert ours == pytest.approx(expected, abs=1e-12)
    assert ours[-1] == 0  # "down to zero as training progresses"
    assert Exponential(Annealed(beta, changes)).slope(1.0) == beta  # before an epoch is set
    low, high = Annealed(beta, changes).bounds
    assert low <= min(ours)
    assert max(ours) <= high


def test_cosine_schedule_ends_where_it_should():
    assert Cosine(3.0, 1.0).at(1, 50) == 3.0
    assert Cosine(3.0, 1.0).at(50, 50) == pytest.approx(1.0)
    assert Cosine(3.0, 1.0).at(1, 1) == 3.0


def test_sampler_follows_its_schedule():
    sampler = NegativeSampler("others", Exponential(Linear(0.0, 4.0)))
    s = torch.tensor([[0.0, 0.5]])
    everyone = torch.ones_like(s, dtype=torch.bool)
    for epoch, beta in ((1, 0.0), (3, 2.0), (5, 4.0)):
        sampler.set_epoch(epoch, 5)
        log_q = sampler(s, others=everyone, temperature=0.5).log_q[0]
        assert (log_q[1] - log_q[0]).item() == pytest.approx(beta)
    with pytest.raises(InputError, match=r"epoch\b.*\b1\b.*\b5\b.*\b6\b"):
        sampler.set_epoch(6, 5)


def test_a_subclass_is_checked_like_a_function():
    class Easy(Hardening):
        def log_eta(self, rows):
            return -rows.similarity

    class Row(Hardening):
        def log_eta(self, rows):
            return rows.similarity - rows.similarity.mean()

    with pytest.raises(InputError, match="decrease"):
        ContrastiveLoss(NegativeSampler("others", Easy()))
    with pytest.raises(InputError, match="elementwise"):
        ContrastiveLoss(NegativeSampler("others", Row()))
    with pytest.raises(InputError, match="elementwise"):
        ContrastiveLoss(NegativeSampler("others", lambda t: 5.0))


@pytest.mark.parametrize("gamma", [0.1, 0.3, 0.5, 0.7, 1.0])
def test_a_threshold_of_one_keeps_equal_rows(gamma):
    z = torch.tensor([[0.3, -1.7, 0.2]]).repeat(3, 1)
    loss = ContrastiveLoss(NegativeSampler("others", Threshold(1.0)), temperature=gamma)
    assert loss.with_diagnostics(z, z)[1].without_negative == 0


@pytest.mark.parametrize("value", [0.5, "exponential"])
def test_a_number_or_a_name_is_no_hardening(value):
    with pytest.raises(InputError, match="Exponential"):
        NegativeSampler("rest", value)
