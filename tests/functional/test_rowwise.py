"""Hardenings of whole rows against sorted lists and the conditions that define them."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from gcl_hard import (
    ContrastiveLoss,
    InputError,
    Linear,
    MixturePosterior,
    NegativeSampler,
    RelativeThreshold,
    Ring,
    Transport,
)
from gcl_hard.functional.hardening import Rows
from gcl_hard.functional.mixture import Beta, BetaMixture

MIXTURE = BetaMixture(Beta(4.0, 8.0, 0.8), Beta(12.0, 3.0, 0.2))


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rows(s, admitted=None, gamma=0.5):
    others = torch.ones_like(s, dtype=torch.bool)
    return Rows(s, gamma, s / gamma, others, admitted=admitted)


def some_admitted(n, m, seed=1):
    """An admission that leaves row 2 nothing and row 3 one."""
    admitted = numbers(n, m, seed=seed) > -0.4
    admitted[2] = False
    admitted[3] = torch.arange(m) == 1
    return admitted


def kept(hardening, s, admitted):
    log_eta = hardening.log_eta(rows(s, admitted))
    assert ((log_eta == 0) | (log_eta == -math.inf)).all()
    return (log_eta == 0) & admitted


# Relative threshold


@pytest.mark.parametrize("quota", [0.05, 0.5, 0.8, 0.95, 0.999, 1.0])
def test_the_smallest_set_of_the_most_similar_reaches_the_quota(quota):
    s, admitted = (
        numbers(9, 30).clamp(-1, 1) * 0.9 + 0.01 * numbers(9, 30, seed=3),
        some_admitted(9, 30),
    )
    mask = kept(RelativeThreshold(quota), s, admitted)
    for row, allowed, got in zip(s.tolist(), admitted.tolist(), mask.tolist(), strict=True):
        values = sorted((x for x, yes in zip(row, allowed, strict=True) if yes), reverse=True)
        total, reached, n = sum(math.exp(x / 0.5) for x in values), 0.0, 0
        while n < len(values) and reached < quota * total * (1 - 1e-12):
            reached += math.exp(values[n] / 0.5)
            n += 1
        assert (
            sorted((x for x, yes in zip(row, got, strict=True) if yes), reverse=True) == values[:n]
        )


@pytest.mark.parametrize("quota", [0.0, -0.1, 1.01, math.nan])
def test_quotas_outside_0_and_1_are_refused(quota):
    with pytest.raises(InputError, match="quota"):
        RelativeThreshold(quota)


# Ring


@pytest.mark.parametrize(("inner", "outer"), [(0.0, 1.0), (0.0, 0.1), (0.1, 0.3), (0.5, 0.51)])
def test_a_ring_leaves_out_the_most_similar_and_the_least(inner, outer):
    s, admitted = numbers(9, 30), some_admitted(9, 30)
    mask = kept(Ring(inner, outer), s, admitted)
    for row, allowed, got in zip(s.tolist(), admitted.tolist(), mask.tolist(), strict=True):
        values = sorted((x for x, yes in zip(row, allowed, strict=True) if yes), reverse=True)
        first = math.floor(round(inner * len(values), 9))
        last = max(math.ceil(round(outer * len(values), 9)), first + 1)
        assert (
            sorted((x for x, yes in zip(row, got, strict=True) if yes), reverse=True)
            == (values[first:last])
        )


def test_a_ring_closes_on_its_schedule():
    ring, s = Ring(0.0, Linear(1.0, 0.2)), torch.arange(10.0)[None] / 10
    sizes = [int((ring.at(epoch, 5).log_eta(rows(s)) == 0).sum()) for epoch in range(1, 6)]
    assert sizes == [10, 8, 6, 4, 2]


@pytest.mark.parametrize(
    ("inner", "outer"),
    [(0.1, 0.1), (0.3, 0.2), (-0.1, 0.2), (0.0, 1.1), (0.2, Linear(1.0, 0.1)), (0.0, 0.0)],
)
def test_rings_without_an_inside_are_refused(inner, outer):
    with pytest.raises(InputError, match="ring"):
        Ring(inner, outer)


# Optimal transport


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 20.0])
def test_the_coupling_has_uniform_margins_and_is_a_scaled_kernel(epsilon):
    """The two conditions have one solution."""
    z = numbers(24, 6)
    z = z / z.norm(dim=1, keepdim=True)
    s = z @ z.T
    admitted = torch.arange(24)[:, None] % 12 != torch.arange(24) % 12
    log_p = Transport(epsilon, tolerance=1e-12, steps=20_000).log_eta(rows(s, admitted))
    p = log_p.exp()
    share = torch.full((24,), 1 / 24, dtype=s.dtype)
    torch.testing.assert_close(p.sum(0), share, rtol=1e-9, atol=0)
    torch.testing.assert_close(p.sum(1), share, rtol=1e-9, atol=0)
    assert (p[~admitted] == 0).all()
    scale = log_p - 2 * s / epsilon
    i, j, k, o = 0, 1, 2, 3  # all admitted to each other
    cross = scale[i, k] + scale[j, o] - scale[i, o] - scale[j, k]
    assert abs(float(cross)) < 1e-8
    square = scale[:12, 12:] - scale[:12, 12:13] - scale[11:12, 12:] + scale[11, 12]
    free = admitted[:12, 12:] & admitted[:12, 12:13] & admitted[11:12, 12:]
    assert square[free].abs().max() < 1e-7


def test_without_epsilon_the_tilt_is_that_of_beta_1():
    s = numbers(6, 6).clamp(-1, 1)
    usual, named = Transport().log_eta(rows(s, gamma=0.3)), Transport(0.6).log_eta(rows(s))
    torch.testing.assert_close(usual, named)


def test_anchors_and_candidates_that_nothing_may_couple_are_left_out():
    s, admitted = numbers(9, 30), numbers(9, 30, seed=1) > -0.8
    admitted[2] = admitted[:, 4] = False
    p = Transport(5.0, tolerance=1e-9, steps=1000).log_eta(rows(s, admitted)).exp()
    assert p.isfinite().all()
    assert (p[2] == 0).all()
    assert (p[:, 4] == 0).all()


def test_a_column_that_kernels_round_to_nothing_is_reached():
    s = torch.zeros(4, 4)
    s[:, 3] = -1.0  # exp(−2 / 0.01) is 0 in float32
    p = Transport(0.01, tolerance=1e-4).log_eta(rows(s)).exp()
    torch.testing.assert_close(p.sum(0), torch.full((4,), 0.25), rtol=1e-3, atol=0)


def test_where_no_coupling_exists_a_warning_says_so_and_the_row_still_has_weights():
    s, admitted = numbers(6, 6), torch.ones(6, 6, dtype=torch.bool)
    admitted[:3] = torch.arange(6) == 1  # three anchors for one candidate
    with pytest.warns(UserWarning, match="Sinkhorn"):
        log_p = Transport(1.0).log_eta(rows(s, admitted))
    assert (log_p[:3, 1] > -math.inf).all()


@pytest.mark.parametrize("rare", [1, 2])
def test_where_one_class_is_nearly_all_the_batch_weights_stay_finite(rare):
    z = [numbers(256, 8, seed=v).float().requires_grad_() for v in range(2)]
    labels = (torch.arange(256) < rare).long()
    sampler = NegativeSampler("other_labels", Transport(tolerance=2e-3 / rare))
    with pytest.warns(UserWarning, match="Sinkhorn"):
        value = ContrastiveLoss(sampler)(*z, labels)
    slopes = torch.autograd.grad(value, z)
    assert value.isfinite()
    assert all(slope.isfinite().all() and slope.abs().max() > 0 for slope in slopes)


def test_rounding_parts_no_similarities():
    s = torch.tensor([[0.9, 0.1, 0.1 * (1 + 2e-7), 0.1 * (1 - 2e-7), -0.8]])
    assert RelativeThreshold(0.6).log_eta(rows(s)).exp().tolist() == [[1.0, 0, 0, 0, 0]]
    assert RelativeThreshold(0.7).log_eta(rows(s)).exp().tolist() == [[1.0, 1, 1, 1, 0]]
    assert Ring(0.2, 0.4).log_eta(rows(s)).exp().tolist() == [[0.0, 1, 1, 1, 0]]


def test_a_learned_temperature_has_no_gradient_through_transport():
    gamma = torch.nn.Parameter(torch.tensor(0.5))
    z = [numbers(6, 4, seed=v).float() for v in range(2)]
    slopes = []
    for epsilon in (None, 1.0):
        loss = ContrastiveLoss(
            NegativeSampler(hardening=Transport(epsilon)), temperature=gamma, detach_weights=False
        )
        slopes.append(torch.autograd.grad(loss(*z), gamma)[0])
    torch.testing.assert_close(*slopes)


def test_iterations_that_do_not_suffice_warn_once_with_what_is_left():
    s, hardening = numbers(8, 8), Transport(0.01, tolerance=1e-9, steps=3)
    with pytest.warns(UserWarning, match=r" [0-9]\S*[0-9] .*\b3 steps\b.*epsilon"):
        hardening.log_eta(rows(s))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hardening.log_eta(rows(s))
        Transport(0.01, tolerance=1e-9, steps=3).log_eta(rows(s[:, 1:]))  # another loss of a run


@pytest.mark.parametrize(
    "settings", [{"epsilon": 0.0}, {"epsilon": -1.0}, {"tolerance": 0.0}, {"steps": 0}]
)
def test_settings_of_transport_out_of_range_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        Transport(**settings)


@pytest.mark.parametrize(
    "hardening",
    [RelativeThreshold(), Ring(0.1, 0.5), Transport(5.0), MixturePosterior(mixture=MIXTURE)],
)
def test_what_is_not_admitted_changes_nothing_and_there_is_no_gradient(hardening):
    s, admitted = numbers(9, 30), numbers(9, 30, seed=1) > -0.8
    plain = hardening.log_eta(rows(s, admitted))
    poisoned = s.masked_fill(~admitted, 1e30).requires_grad_()
    log_eta = hardening.log_eta(rows(poisoned, admitted))
    assert torch.equal(log_eta[admitted], plain[admitted])
    assert not log_eta.requires_grad
    assert hardening.log_eta(rows(s[:, :0])).shape == (9, 0)
