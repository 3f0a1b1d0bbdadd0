"""Mixtures of two beta distributions, against a slow fit, a direct maximum and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from gcl_hard import InputError, MixturePosterior
from gcl_hard.functional.hardening import Rows, Uniform
from gcl_hard.functional.mixture import Beta, BetaMixture

TRUE = ((0.8, 4.0, 8.0), (0.2, 12.0, 3.0))
"""Share, α and β of a mixture."""


def drawn(n, mixture=TRUE, seed=0):
    """n values of a mixture."""
    generator = np.random.default_rng(seed)
    from_first = generator.random(n) < mixture[0][0]
    low, high = (generator.beta(a, b, n) for _, a, b in mixture)
    return np.where(from_first, low, high)


def moments(x, weight):
    mean = sum(w * v for w, v in zip(weight, x, strict=True)) / sum(weight)
    squares = sum(w * (v - mean) ** 2 for w, v in zip(weight, x, strict=True)) / sum(weight)
    both = mean * (1 - mean) / squares - 1
    return sum(weight) / len(x), mean * both, (1 - mean) * both


def slow(x, steps=200):
    """EM value by value: below and above the mean at first, until no posterior moves by 1e-5."""
    middle = sum(x) / len(x)
    upper = [float(v > middle) for v in x]
    for _ in range(steps):
        parts = [moments(x, [1 - u for u in upper]), moments(x, upper)]
        densities = [share * stats.beta.pdf(x, a, b) for share, a, b in parts]
        before, upper = upper, (densities[1] / sum(densities)).tolist()
        if max(abs(a - b) for a, b in zip(upper, before, strict=True)) <= 1e-5:
            break
    return sorted(parts, key=lambda part: part[1] / (part[1] + part[2]))


def log_likelihood(x, parts):
    return np.log(sum(share * stats.beta.pdf(x, a, b) for share, a, b in parts)).mean()


def parts_of(mixture):
    return [(component.share, component.alpha, component.beta) for component in mixture]


@pytest.mark.parametrize("seed", [0, 1])
def test_a_fit_is_that_of_a_slow_one(seed):
    x = drawn(150, seed=seed)
    np.testing.assert_allclose(
        parts_of(BetaMixture.fitted(torch.tensor(x))), slow(x.tolist()), rtol=1e-7
    )


def test_a_known_mixture_is_found():
    x = drawn(20_000)
    fitted = parts_of(BetaMixture.fitted(torch.tensor(x)))
    np.testing.assert_allclose(fitted, TRUE, rtol=0.1)
    likelihoods = [log_likelihood(x, parts) for parts in (TRUE, fitted)]
    assert likelihoods[1] > likelihoods[0] - 1e-3


def test_a_fit_is_nearly_as_likely_as_the_most_likely_mixture():
    x = drawn(2_000, seed=3)

    def unlikely(parameters):
        share = 1 / (1 + math.exp(-parameters[0]))
        a, b, c, d = np.exp(parameters[1:])
        return -log_likelihood(x, [(share, a, b), (1 - share, c, d)])

    best = optimize.minimize(unlikely, [0.0, 1.0, 2.0, 2.0, 1.0], method="BFGS")
    assert log_likelihood(x, parts_of(BetaMixture.fitted(torch.tensor(x)))) > -best.fun - 2e-3


def test_a_posterior_is_bayes_rule_on_densities():
    mixture = BetaMixture(Beta(4.0, 8.0, 0.8), Beta(12.0, 3.0, 0.2))
    x = np.linspace(0.01, 0.99, 21)
    low, high = (share * stats.beta.pdf(x, a, b) for share, a, b in TRUE)
    posterior = mixture.log_posterior(torch.tensor(x)).exp()
    np.testing.assert_allclose(posterior, low / (low + high), rtol=1e-12)


def test_the_lower_component_is_that_of_the_lower_mean():
    x = torch.tensor(drawn(500))
    fitted, mirrored = BetaMixture.fitted(x), BetaMixture.fitted(1 - x)
    for mixture in (fitted, mirrored):
        assert mixture.upper is not None
        assert mixture.lower.mean < mixture.upper.mean
    torch.testing.assert_close(
        fitted.log_posterior(x).exp() + mirrored.log_posterior(1 - x).exp(), torch.ones_like(x)
    )


@pytest.mark.parametrize("values", [[0.5] * 9, [1.0] * 4, [0.0, 0.0], [0.3]])
def test_equal_values_are_all_of_one_component(values):
    mixture = BetaMixture.fitted(torch.tensor(values))
    assert mixture.upper is None
    s = torch.tensor([[-0.9, 0.0, 0.5]])
    eta = MixturePosterior(mixture=mixture).log_eta(Rows(s, 0.5, s, s > -1)).exp()
    torch.testing.assert_close(eta, (s + 1) / 2)


@pytest.mark.parametrize(
    "values", [[0.0, 1.0], [0.2, 0.2, 0.7], [0.5] * 50 + [0.5001], [0.0] * 9 + [1.0] * 9]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_finite_whatever_is_fitted(values, dtype):
    mixture = BetaMixture.fitted(torch.tensor(values, dtype=dtype))
    s = torch.linspace(-1, 1, 41, dtype=dtype)[None]
    log_eta = MixturePosterior(mixture=mixture).log_eta(Rows(s, 0.5, s, s > -2))
    assert log_eta.dtype == dtype
    assert log_eta.isfinite().all()


def test_weights_fall_where_false_negatives_begin():
    mixture = BetaMixture(Beta(4.0, 8.0, 0.8), Beta(12.0, 3.0, 0.2))
    s = torch.linspace(-0.9, 0.9, 37, dtype=torch.float64)[None]
    x = ((s + 1) / 2).numpy()
    low, high = (share * stats.beta.pdf(x, a, b) for share, a, b in TRUE)
    eta = MixturePosterior(mixture=mixture).log_eta(Rows(s, 0.5, s, s > -1)).exp()
    np.testing.assert_allclose(eta, low / (low + high) * x, rtol=1e-12)
    most = int(eta.argmax())
    assert 0 < most < 36
    assert (eta.diff()[0, :most] > 0).all()
    assert (eta.diff()[0, most:] < 0).all()


@pytest.mark.parametrize(
    ("fit_after", "epochs", "first"),
    [(0.2, 200, 41), (0.0, 7, 1), (0.5, 1, 1), (0.99, 10, 10), (0.29, 100, 30), (0.16, 2500, 401)],
)
def test_epoch_e_begins_after_a_share_of_the_epochs(fit_after, epochs, first):
    hardening = MixturePosterior(fit_after)
    hardened = [epoch for epoch in range(1, epochs + 1) if hardening.at(epoch, epochs) != Uniform()]
    assert hardened == [*range(first, epochs + 1)]


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(InputError, match="fit_after"):
        MixturePosterior(share)
