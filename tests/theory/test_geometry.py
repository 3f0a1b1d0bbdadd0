"""Geometry of embeddings against loops, shapes known exactly, and bounds on packings."""

from __future__ import annotations

import math

import pytest
import torch

from gcl_hard import InputError
from gcl_hard.theory.geometry import (
    Centres,
    alignment,
    class_centres,
    effective_rank,
    least_angle,
    packing,
    uniformity,
    widest_angle,
)
from tests.reference import shapes
from tests.reference.loops import unit
from tests.said import says


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turned(z: torch.Tensor) -> torch.Tensor:
    return z @ torch.linalg.qr(numbers(z.shape[1], z.shape[1], seed=7))[0]


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


Z = torch.ones(3, 2)


@pytest.mark.parametrize(
    ("measure", "facts"),
    [
        (lambda: alignment(Z, Z[:2]), ["z1", "z2", "[B, d]", "[3, 2]", "[2, 2]"]),
        (lambda: alignment(Z[:0], Z[:0]), ["z1", "[n, d]", 1, "[0, 2]"]),
        (lambda: uniformity(Z[:1]), ["z", "[n, d]", 2, "[1, 2]"]),
        (lambda: uniformity(Z * math.nan), ["z", "finite", 6]),
        (lambda: effective_rank(Z[0]), ["z", "[n, d]", "[2]"]),
    ],
)
def test_what_cannot_be_measured_is_named(measure, facts):
    with pytest.raises(InputError) as error:
        measure()
    assert says(str(error.value), *facts)


def test_measures_carry_no_gradient():
    z = numbers(4, 3).requires_grad_()
    for value in (alignment(z, z + 1), uniformity(z), effective_rank(z)):
        assert not value.requires_grad
        assert value.dtype == torch.float64


GOLDEN = (1 + math.sqrt(5)) / 2


def on_sphere(*rows) -> torch.Tensor:
    return torch.tensor([unit(row) for row in rows], dtype=torch.float64)


def simplex(n: int) -> torch.Tensor:
    """n points in n dimensions, all at arccos(−1/(n − 1))."""
    centred = torch.eye(n, dtype=torch.float64) - 1 / n
    return centred / torch.linalg.vector_norm(centred, dim=1, keepdim=True)


def equal(directions: torch.Tensor) -> Centres:
    n = len(directions)
    return Centres(directions, torch.full((n,), 1 / n, dtype=torch.float64))


def polygon(n: int) -> torch.Tensor:
    return on_sphere(*((math.cos(a), math.sin(a)) for a in (2 * math.pi * i / n for i in range(n))))


ICOSAHEDRON = on_sphere(
    *(p for a in (1, -1) for b in (GOLDEN, -GOLDEN) for p in ((0, a, b), (a, b, 0), (b, 0, a)))
)


@pytest.mark.parametrize("seed", range(5))
def test_angle_and_sum_are_those_over_pairs_of_classes(seed):
    z, y = numbers(12, 4, seed=seed), torch.tensor([0, 1, 5, 3, 5, 1, 0, 5, 5, 5, 3, 1])
    centres = class_centres(z, y)
    assert centres.share.tolist() == pytest.approx([2 / 12, 3 / 12, 2 / 12, 5 / 12])
    means = [
        shapes.mean([unit(r) for r in rows])
        for rows in shapes.classes(z.tolist(), y.tolist()).values()
    ]
    angle = shapes.least_angle([unit(m) for m in means])
    assert least_angle(centres.directions).item() == pytest.approx(angle, rel=1e-10)
    expected = shapes.packing(z.tolist(), y.tolist())
    assert packing(centres).item() == pytest.approx(expected, rel=1e-10)
    rotation, _ = torch.linalg.qr(numbers(4, 4, seed=9))
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    moved = class_centres(3 * z[order] @ rotation, y[order])
    assert least_angle(moved.directions).item() == pytest.approx(angle, rel=1e-10)
    assert packing(moved).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("points", "d"),
    [
        *((simplex(n), n - 1) for n in (2, 3, 5, 9)),
        *((polygon(n), 2) for n in (3, 4, 5, 17)),
        (torch.cat([torch.eye(4), -torch.eye(4)]).double(), 4),
        (torch.cat([torch.eye(4), -torch.eye(4)])[:6].double(), 4),
        (on_sphere([1.0], [-1.0]), 1),
        (ICOSAHEDRON, 3),
    ],
)
def test_bounds_that_are_attained_are(points, d):
    assert least_angle(points).item() == pytest.approx(widest_angle(len(points), d), rel=1e-12)


# Least angles of the best packings in three dimensions, as cosines: Schütte and van der Waerden
# (1951), Danzer (1986), Musin and Tarasov (2012, 2015), Robinson (1961).
BEST = {7: 0.21013831273, 8: 0.26120387496, 9: 1 / 3, 10: 0.40439432522, 11: 0.44721359550,
        13: 0.54263648690, 14: 0.56395275200, 24: 0.72307839}  # fmt: skip


@pytest.mark.parametrize("n", BEST)
def test_the_bound_on_the_sphere_is_above_the_best_packings_and_near(n):
    best = math.acos(BEST[n])
    assert best < widest_angle(n, 3) < 1.08 * best


@pytest.mark.parametrize(
    ("n", "d"), [(2, 1), (3, 1), (4, 2), (7, 2), (3, 3), (5, 3), (9, 3), (8, 5)]
)
def test_no_arrangement_beats_the_bound(n, d):
    for seed in range(50):
        z = numbers(n, d, seed=seed)
        z /= torch.linalg.vector_norm(z, dim=1, keepdim=True)
        assert least_angle(z).item() <= widest_angle(n, d) + 1e-12


def test_where_no_closed_form_is_known():
    assert widest_angle(9, 4) is None
    assert widest_angle(8, 4) == math.pi / 2
    assert widest_angle(100, 99) == pytest.approx(math.acos(-1 / 99))


@pytest.mark.parametrize("n", [2, 3, 6])
def test_the_simplex_is_the_optimum_of_theorem_2(n):
    best = 2 * n / (n - 1)
    assert packing(equal(simplex(n))).item() == pytest.approx(best, rel=1e-12)
    for seed in range(50):
        z = numbers(n, n, seed=seed)
        other = z / torch.linalg.vector_norm(z, dim=1, keepdim=True)
        assert packing(equal(other)).item() <= best


def test_unequal_shares_weigh_the_nearest_neighbours():
    centres = Centres(
        on_sphere([1, 0], [0, 1], [-1, 0.001]), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    )
    near = 2 - 2 * 0.001 / math.hypot(1, 0.001)
    assert packing(centres).item() == pytest.approx(0.5 * 2 + 0.3 * near + 0.2 * near, rel=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, math.pi - 1e-9, math.pi])
def test_angles_keep_their_digits_near_both_ends(angle):
    two = on_sphere([1, 0], [math.cos(angle), math.sin(angle)])
    assert least_angle(two).item() == pytest.approx(angle, rel=1e-6, abs=1e-15)


def test_what_has_no_angle_is_nan():
    single = class_centres(numbers(4, 3), torch.zeros(4, dtype=torch.int64))
    z = torch.tensor([[1.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.3, 0.1]])
    cancelled = class_centres(z, torch.tensor([0, 0, 1, 2]))
    assert cancelled.directions.isnan().any(1).tolist() == [True, False, False]
    for centres in (single, cancelled):
        assert least_angle(centres.directions).isnan()
        assert packing(centres).isnan()


@pytest.mark.parametrize(("n", "d"), [(1, 3), (0, 3), (2, 0)])
def test_a_bound_of_nothing_is_an_error(n, d):
    with pytest.raises(InputError, match=rf"\bn\b.*\b2\b.*\bd\b.*\b1\b.*\b{n}\b.*d = {d}$"):
        widest_angle(n, d)
