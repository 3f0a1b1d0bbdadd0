"""SPACL's conditions against linear programs, autograd and the loss's own minimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from gcl_hard import InputError
from gcl_hard.theory.optimality import cone_distance, gradient_norm, stationarity_angle


def units(n, d, seed=0):
    z = np.random.default_rng(seed).normal(size=(n, d))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def on_the_line(p, n):
    """Whether c p is in conv{n} for some c > 0, by a linear program."""
    solution = linprog(
        np.zeros(len(n) + 1),
        A_eq=np.block([[n.T, -p[:, None]], [np.ones(len(n)), 0.0]]),
        b_eq=np.append(np.zeros(len(p)), 1.0),
        bounds=[(0, None)] * len(n) + [(1e-9, None)],
    )
    return solution.success


@pytest.mark.parametrize(("k", "d"), [(1, 3), (3, 3), (6, 3), (8, 4), (20, 12)])
def test_the_distance_is_0_exactly_where_the_line_meets_the_hull(k, d):
    seen = set()
    for seed in range(30):
        p, n = units(1, d, seed)[0], units(k, d, seed + 100)
        if seed % 3 == 0:  # inside by construction
            p = n[: min(2, k)].sum(0)
        for distance, sign in zip(cone_distance(p, n), (1, -1), strict=True):
            assert (distance == 0) == on_the_line(sign * p / np.linalg.norm(p), n)
            assert 0 <= distance <= 1
            seen.add(distance == 0)
    assert seen == {True, False}


def best_anchor(p, n, start):
    """A minimum of s⁻ / s⁺ on the sphere by descent."""
    x = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    p, n = torch.tensor(p), torch.tensor(n)
    optimiser = torch.optim.Adam([x], lr=0.02)
    for _ in range(3000):
        u = x / x.norm()
        loss = (n @ u).logsumexp(0) - p @ u
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return (x / x.norm()).detach().numpy()


def test_the_optimum_is_the_positive_only_where_the_conditions_allow_it():
    p = np.array([1.0, 0.0, 0.0])
    opposite = np.array([[-0.9, 0.3, 0.0], [-0.9, -0.3, 0.0]])
    opposite /= np.linalg.norm(opposite, axis=1, keepdims=True)
    assert cone_distance(p, opposite).backward == 0  # easy negatives around −p
    assert stationarity_angle(p, opposite) < 1e-12
    assert best_anchor(p, opposite, [0.8, 0.3, 0.5]) @ p > 1 - 1e-6
    aside = np.array([[0.3, 0.9, 0.1], [0.2, 0.7, 0.5]])
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    assert min(cone_distance(p, aside)) > 0.1
    assert stationarity_angle(p, aside) > 0.1
    assert best_anchor(p, aside, [0.8, 0.3, 0.5]) @ p < 0.99


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_the_angle_is_0_where_the_gradient_has_no_part_across_the_positive(temperature):
    for seed in range(5):
        p, n = units(1, 4, seed)[0], units(6, 4, seed + 9)
        x = torch.tensor(p, requires_grad=True)
        (torch.tensor(n) @ x / temperature).logsumexp(0).backward()
        total = x.grad.numpy() * temperature
        along = total @ p
        expected = math.acos(min(abs(along) / np.linalg.norm(total), 1))
        assert stationarity_angle(p * 3, n, temperature) == pytest.approx(expected, abs=1e-7)
    assert stationarity_angle([1.0, 0.0], [[0.0, 1.0], [0.0, -1.0]]) == 0


@pytest.mark.parametrize(("positives", "negatives"), [(1, 1), (1, 7), (3, 5)])
def test_the_norm_is_that_of_autograd_and_below_its_bound(positives, negatives):
    largest = 0.0
    for seed in range(50):
        x, p, n = (
            units(1, 3, seed)[0],
            units(positives, 3, seed + 99),
            units(negatives, 3, seed + 999),
        )
        if seed == 0:
            p, n = np.tile(-x, (positives, 1)), np.tile(x, (negatives, 1))
        leaf = torch.tensor(x, requires_grad=True)
        t_pos, t_neg = (torch.tensor(z) @ leaf for z in (p, n))
        torch.nn.functional.softplus(t_neg.logsumexp(0) - t_pos.logsumexp(0)).backward()
        norm = gradient_norm(x, p, n)
        assert norm == pytest.approx(leaf.grad.norm().item(), rel=1e-10)
        largest = max(largest, norm)
        assert gradient_norm(x, p, n, 0.5) <= 4
    expected = 2 / (1 + positives / negatives * math.exp(-2))
    assert largest == pytest.approx(expected, rel=1e-9)
    assert largest < 2


def test_what_has_no_direction_or_no_negatives_is_said():
    assert cone_distance([1.0, 0.0], np.zeros((0, 2))) == (1.0, 1.0)
    assert gradient_norm([1.0, 0.0], [[0.0, 1.0]], np.zeros((0, 2))) == 0
    for call in (
        lambda: cone_distance([0.0, 0.0], [[1.0, 0.0]]),
        lambda: cone_distance([1.0, 0.0], [[1.0, 0.0, 0.0]]),
        lambda: cone_distance([1.0, math.nan], [[1.0, 0.0]]),
        lambda: stationarity_angle([1.0, 0.0], np.zeros((0, 2))),
        lambda: gradient_norm([1.0, 0.0], np.zeros((0, 2)), [[1.0, 0.0]]),
    ):
        with pytest.raises(InputError):
            call()
