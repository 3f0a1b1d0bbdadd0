"""Neural collapse against its definitions with explicit covariances, and what degenerates."""

from __future__ import annotations

import math

import pytest
import torch

from gcl_hard import InputError
from gcl_hard.theory.geometry import cdnv, equiangularity, equinorm, nc1
from tests.reference import shapes
from tests.said import says


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def measured(z: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    values = {"nc1": nc1(z, y), "equinorm": equinorm(z, y), "cdnv": cdnv(z, y)}
    values.update(equiangularity(z, y)._asdict())
    assert all(v.dtype == torch.float64 and not v.requires_grad for v in values.values())
    return {name: value.item() for name, value in values.items()}


LABELS = {
    "balanced": torch.arange(12) % 4,
    "unbalanced": torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1, 7, 7, 3]),  # one class of one item
    "two": torch.tensor([0, 1] * 6),
    "many": torch.tensor([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]),
}


@pytest.mark.parametrize("d", [2, 3, 8])  # C > d + 1, between, C < d
@pytest.mark.parametrize("labels_name", LABELS)
@pytest.mark.parametrize("seed", range(3))
def test_measures_are_their_definitions(labels_name, d, seed):
    y = LABELS[labels_name]
    z = numbers(12, d, seed=seed) + 2 * numbers(8, d, seed=seed + 50)[y]
    expected = shapes.neural_collapse(z.tolist(), y.tolist())
    assert measured(z, y) == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_measures_depend_on_neither_place_nor_turn_nor_order_nor_size():
    y = LABELS["unbalanced"]
    z = numbers(12, 5) + 2 * numbers(8, 5, seed=1)[y]
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    rotation, _ = torch.linalg.qr(numbers(5, 5, seed=2))
    moved = 0.3 * z @ rotation + 40
    assert measured(moved[order], y[order]) == pytest.approx(measured(z, y), rel=1e-9, abs=1e-9)


def test_float32_far_from_the_origin_is_measured_as_given():
    y = LABELS["balanced"]
    z = (numbers(12, 5) + 500).float()
    assert measured(z, y) == measured(z.double(), y)


@pytest.mark.parametrize("n_classes", [3, 4, 10])
def test_a_simplex_of_points_is_collapsed_exactly(n_classes):
    y = torch.arange(n_classes).repeat(3)
    z = torch.eye(n_classes)[y] * 7 - 2
    assert measured(z, y) == pytest.approx(
        {"nc1": 0, "equinorm": 0, "spread": 0, "gap": 0, "cdnv": 0}, abs=1e-12
    )


def test_each_measure_sees_its_own_fault():
    y = torch.arange(4).repeat(5)
    simplex = torch.eye(4, dtype=torch.float64)[y]
    noisy = measured(simplex + 0.1 * numbers(20, 4), y)
    assert noisy["nc1"] > 0.01
    assert noisy["cdnv"] > 0.005
    z = (torch.eye(4, dtype=torch.float64) - 0.25)[y]
    longer = torch.where((y < 2)[:, None], 2.0, 1.0)
    assert measured(z * longer, y)["equinorm"] > 0.1
    # a square: equal norms, angles of 90 and 180 degrees
    square = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])[y]
    flat = measured(square, y)
    assert flat["equinorm"] == pytest.approx(0, abs=1e-12)
    assert flat["spread"] == pytest.approx(math.sqrt(2) / 3)
    assert flat["gap"] == pytest.approx((4 * 1 / 3 + 2 * 2 / 3) / 6)


def test_two_classes_are_always_equinorm_and_equiangular():
    measures = measured(numbers(12, 5), LABELS["two"])
    for name in ("equinorm", "spread", "gap"):
        assert measures[name] == pytest.approx(0, abs=1e-12)
    assert measures["nc1"] > 0


def test_classes_of_one_item_have_no_variance():
    measures = measured(numbers(5, 8), torch.arange(5))
    assert measures["nc1"] == measures["cdnv"] == 0
    assert measures["spread"] > 0


@pytest.mark.parametrize("n", [3, 7, 12])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_identical_embeddings_leave_nothing_to_measure(n, value):
    z = torch.full((n, 4), value) * torch.tensor([1.0, -0.7, 0.3, 1.1])
    assert all(math.isnan(v) for v in measured(z, torch.arange(n) % 3).values())


def test_one_class_leaves_nothing_to_measure():
    measures = measured(numbers(6, 4), torch.full((6,), 3))
    assert all(math.isnan(v) for v in measures.values())


def test_class_means_that_coincide():
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    measures = measured(z, torch.tensor([0, 0, 1, 1]))
    assert measures.pop("cdnv") == math.inf
    assert all(math.isnan(v) for v in measures.values())
    # two of three coincide: their centre is not the centre of all
    z = torch.tensor([[1.0, 0.0], [1.0, 0.0], [4.0, 1.0], [4.0, 3.0]])
    measures = measured(z, torch.tensor([0, 1, 2, 2]))
    assert math.isnan(measures["cdnv"])
    assert measures["nc1"] == pytest.approx(shapes_nc1(), rel=1e-12)


def shapes_nc1() -> float:
    """The case above by hand: Σ_W varies along (0, 1) by 1/3, Σ_B lies along (3, 2)."""
    along, length = (2 / math.sqrt(13)) ** 2, 13.0
    between = (2 * length / 9 + 4 * length / 9) / 3
    return along / 3 / between / 3


def test_a_class_in_the_centre_has_no_direction():
    z = torch.tensor([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    measures = measured(z, torch.arange(3))
    assert math.isnan(measures["spread"])
    assert math.isnan(measures["gap"])
    assert measures["equinorm"] == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize("measure", [nc1, equinorm, equiangularity, cdnv])
def test_what_cannot_be_measured_is_named(measure):
    z, y = torch.ones(3, 2), torch.arange(3)
    for args, facts in (
        ((z[:0], y[:0]), ["z", "[n, d]", "[0, 2]"]),
        ((z / 0, y), ["z", "finite", 6]),
        ((z, y[:2]), ["labels", "[3]", "[2]"]),
        ((z, y - 1), ["labels", 0, -1]),
    ):
        with pytest.raises(InputError) as error:
            measure(*args)
        assert says(str(error.value), *facts)
