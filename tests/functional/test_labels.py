"""Labels beyond classes: distances by loops, and the losses that they make."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from gcl_hard import ContrastiveLoss, InputError, NegativeSampler
from gcl_hard.functional.labels import label_distance, relation
from gcl_hard.graphs import GIN, Ensemble, InfoGraph, load_graphs
from tests.losses.cases import numbers
from tests.reference.loops import distance
from tests.said import says

NAN = math.nan
REAL = [0.1, 0.5, 0.45, 2.0, NAN, 2.1, 0.2]
ROWS = [
    [1, 0, 0, 1], [1, 0, 1, 1], [0, 0, 0, 0], [0, NAN, 0, 0], [NAN, NAN, NAN, NAN],
    [1, 1, 1, 1], [0, 1, NAN, 0],
]  # fmt: skip
CLASSES = [0, 1, 1, 2, 0, 3, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shift", [0, 5, 100])
def test_a_gap_is_that_of_the_decimals_whatever_their_rounding(dtype, shift):
    decimals = [Fraction(n, 10) + shift for n in range(40)]
    y = torch.tensor([float(d) for d in decimals], dtype=dtype)
    near, barred = relation(y, y, (0.3, 1.0))
    apart = [[abs(a - b) for b in decimals] for a in decimals]
    assert near.tolist() == [[d <= Fraction(3, 10) for d in row] for row in apart]
    assert barred.tolist() == [[d <= 1 for d in row] for row in apart]


def test_an_infinite_label_is_near_to_none_that_is_finite():
    near, barred = relation(torch.tensor([math.inf, 1.0]), torch.tensor([1.0, 5.0]), (0.3, 1.0))
    assert near.tolist() == [[False, False], [True, False]]
    assert barred.tolist() == [[False, False], [True, False]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_labels_in_half_precision_are_the_numbers_that_they_hold(dtype):
    y = torch.linspace(0, 3, 40).to(dtype)
    for actual, expected in zip(
        relation(y, y, (0.3, 1.0)), relation(y.double(), y.double(), (0.3, 1.0)), strict=True
    ):
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("labels", [CLASSES, REAL, ROWS])
def test_distances_are_those_of_loops_and_symmetric(labels):
    y = torch.tensor(labels, dtype=None if labels is CLASSES else torch.float64)
    expected = torch.tensor([[distance(a, b) for b in labels] for a in labels])
    distances = label_distance(y, y)
    torch.testing.assert_close(distances, expected, equal_nan=True, check_dtype=False)
    torch.testing.assert_close(distances, distances.T, equal_nan=True)


def test_opposite_rows_are_one_apart_and_equal_rows_none():
    y = torch.tensor([[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]])
    assert label_distance(y[:1], y)[0, :3].tolist() == [0.0, 1.0, 0.0]
    assert label_distance(y[3:], y[3:]).item() == 0.0  # inactive alike


@pytest.mark.parametrize("gap", [(0.5, 0.2), (-0.1, 0.2), (0.1, NAN), 0.3])
def test_a_gap_that_is_none_is_refused(gap):
    with pytest.raises(InputError, match="label_gap"):
        NegativeSampler("other_labels", label_gap=gap)


@pytest.mark.parametrize(
    ("gap", "labels"),
    [
        (None, torch.tensor(REAL)),
        (None, torch.tensor(ROWS)),
        ((0.1, 0.2), torch.zeros(3)),
        ((0.1, 0.2), torch.full((7, 2), 0.5)),
        ((0.1, 0.2), torch.zeros(7, 2, 2)),
        ((0.0, 0.5), ["a"] * 7),
        ((0.0, 0.5), [[1, 0], [1]] + [[0, 0]] * 5),
        ((1, 2), torch.tensor(CLASSES)),  # no pair can be that far apart
        ((1, 2), torch.tensor(ROWS)),
    ],
)
def test_labels_that_the_admission_cannot_read_are_named(gap, labels):
    loss = ContrastiveLoss(NegativeSampler("other_labels", label_gap=gap))
    with pytest.raises(InputError, match=r"label|classes|multi-hot"):
        loss(numbers(7, 3), numbers(7, 3, seed=1), labels=labels)


def test_a_model_with_a_gap_trains_by_itself():
    loss = ContrastiveLoss(NegativeSampler("other_labels", label_gap=(0, 0)), objective="jsd")
    ensemble = Ensemble([InfoGraph(GIN(7), loss=loss)], load_graphs("MUTAG"))
    assert says(str(ensemble.alone), "gap")


@pytest.mark.parametrize("labels", [REAL, ROWS])
def test_arrays_and_lists_are_labels_too(labels):
    sampler = NegativeSampler("other_labels", label_gap=(0.15, 0.6))
    loss = ContrastiveLoss(sampler)
    z1, z2 = numbers(7, 4), numbers(7, 4, seed=1)
    values = [loss(z1, z2, labels=y) for y in (labels, np.array(labels), torch.tensor(labels))]
    torch.testing.assert_close(values[0], values[1])
    torch.testing.assert_close(values[0], values[2])


@pytest.mark.parametrize(
    ("dtype", "largest", "gap", "fits"),
    [
        (torch.float16, 300.0, (0.3, 1.0), True),  # 0.25 apart from 256 on
        (torch.float16, 600.0, (0.3, 1.0), False),  # 0.5
        (torch.float16, 600.0, (0.0, 1.0), True),  # equal numbers alone
        (torch.float16, 600.0, (1.0, 1.3), False),
        (torch.bfloat16, 30.0, (0.3, 1.0), True),  # 0.125 from 16 on
        (torch.bfloat16, 70.0, (0.3, 1.0), False),  # 0.5 from 64 on
        (torch.float64, 1e6, (0.3, 1.0), True),
    ],
)
def test_half_precision_whose_numbers_are_too_far_apart_is_refused(dtype, largest, gap, fits):
    loss = ContrastiveLoss(NegativeSampler("other_labels", label_gap=gap), positives="class")
    z1, z2 = numbers(2, 5, 4)
    y = torch.tensor([0.0, 1.0, NAN, -5.0, largest], dtype=dtype)
    assert loss(z1[:4], z2[:4], labels=y[:4]).isfinite()
    if fits:
        assert loss(z1, z2, labels=y).item() == loss(z1, z2, labels=y.double()).item()
        return
    with pytest.raises(InputError, match=str(dtype)):
        loss(z1, z2, labels=y)
    with pytest.raises(InputError):
        loss(z1[:4], z2[:4], labels=y[:4], candidates=z1, candidate_labels=y)
    if dtype == torch.float16:
        with pytest.raises(InputError):
            loss(z1, z2, labels=y.numpy())
