"""Labels beyond classes: distances by loops, and the losses that they make."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from gcl_hard import ContrastiveLoss, Exponential, InputError, NegativeSampler
from gcl_hard.functional.labels import label_distance, relation
from gcl_hard.graphs import GIN, Ensemble, InfoGraph, load
from tests.reference.loops import dot, expectation, unit
from tests.said import says

NAN = math.nan
REAL = [0.1, 0.5, 0.45, 2.0, NAN, 2.1, 0.2]
ROWS = [
    [1, 0, 0, 1], [1, 0, 1, 1], [0, 0, 0, 0], [0, NAN, 0, 0], [NAN, NAN, NAN, NAN],
    [1, 1, 1, 1], [0, 1, NAN, 0],
]  # fmt: skip
CLASSES = [0, 1, 1, 2, 0, 3, 1]
KINDS = {
    "classes": (CLASSES, (0.0, 0.0)),
    "real": (REAL, (0.15, 0.6)),
    "rows": (ROWS, (0.2, 0.5)),
}


def distance(first, second) -> float:
    if isinstance(first, int):
        return float(first != second)
    if isinstance(first, float):
        return abs(first - second)
    known = [
        (a, b)
        for a, b in zip(first, second, strict=True)
        if not math.isnan(a) and not math.isnan(b)
    ]
    apart = sum(a != b for a, b in known)
    shares = [
        apart / (apart + agree)
        for agree in (sum(a == b == value for a, b in known) for value in (0, 1))
        if apart + agree
    ]
    return sum(shares) / len(shares) if shares else NAN


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(first, second) -> bool:
    return (math.isnan(first) and math.isnan(second)) or abs(first - second) < 1e-12


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


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_those_of_loops_and_symmetric(kind):
    labels, _ = KINDS[kind]
    y = torch.tensor(labels, dtype=None if kind == "classes" else torch.float64)
    distances = label_distance(y, y)
    for i, label in enumerate(labels):
        for j, other in enumerate(labels):
            assert close(distances[i, j].item(), distance(label, other)), (i, j)
    torch.testing.assert_close(distances, distances.T, equal_nan=True)


def test_opposite_rows_are_one_apart_and_equal_rows_none():
    y = torch.tensor([[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0]])
    assert label_distance(y[:1], y)[0, :3].tolist() == [0.0, 1.0, 0.0]
    assert label_distance(y[3:], y[3:]).item() == 0.0  # inactive alike


def expected_of_views(z, item, y, gap, *, admit, positives):
    beta, n = 1.3, 14
    terms, near, far = [], gap[0], gap[1]
    for i in range(n):
        g = [dot(unit(z[i]), unit(v)) / 0.5 for v in z]
        others = [j for j in range(len(z)) if item[j] != item[i]]
        d = {j: distance(y[i], y[j]) for j in others}
        negatives = [j for j in others if admit == "others" or d[j] > far]
        mine = [j for j in range(len(z)) if item[j] == item[i] and j != i]
        mine += [j for j in others if positives == "class" and d[j] <= near]
        if negatives:
            weights = [math.exp(beta * g[j]) for j in negatives]
            expected_weight = expectation(weights, [math.exp(g[j]) for j in negatives])
            terms += [math.log(1 + len(others) * math.exp(-g[p]) * expected_weight) for p in mine]
    return sum(terms) / len(terms)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("extra", [0, 2])
@pytest.mark.parametrize("positives", ["view", "class"])
@pytest.mark.parametrize("admit", ["others", "other_labels"])
@pytest.mark.parametrize("kind", KINDS)
def test_views_equal_the_loops(kind, admit, positives, extra, streaming):
    labels, gap = KINDS[kind]
    z1, z2, more = numbers(7, 5), numbers(7, 5, seed=1), numbers(extra, 5, seed=2)
    loss = ContrastiveLoss(
        NegativeSampler(admit, Exponential(1.3), label_gap=gap), positives=positives,
        reduction="pairs", streaming=streaming,
    )  # fmt: skip
    kept = {"candidates": more, "candidate_labels": torch.tensor(labels[:2])} if extra else {}
    expected = expected_of_views(
        torch.cat([z1, z2, more]).tolist(), [*range(7), *range(7), *range(7, 7 + extra)],
        [*labels, *labels, *labels[:extra]], gap, admit=admit, positives=positives,
    )  # fmt: skip
    value = loss([z1, z2], torch.tensor(labels), **kept)
    assert abs(value.item() - expected) < 1e-10


@pytest.mark.parametrize("streaming", [True, False])
def test_blocks_equal_the_dense_path(streaming):
    """Over several blocks of rows."""
    z = [numbers(600, 6, seed=s).requires_grad_() for s in (0, 1)]
    y = (numbers(600, 12, seed=3) > 0.7).double()
    y[numbers(600, 12, seed=4) > 1.0] = NAN
    outputs = []
    for block in (streaming, False):
        sampler = NegativeSampler("other_labels", Exponential(1.0), label_gap=(0.3, 0.7))
        loss = ContrastiveLoss(sampler, positives="class", detach_weights=False, streaming=block)
        value, seen = loss.with_diagnostics(*z, labels=y)
        outputs.append(
            (value, *torch.autograd.grad(value, z), *map(torch.as_tensor, seen.counts.values()))
        )
    for ours, dense in zip(*outputs, strict=True):
        torch.testing.assert_close(ours, dense, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("objective", ["infonce", "jsd"])
@pytest.mark.parametrize("kind", KINDS)
def test_nodes_against_graphs_admit_by_distance(kind, objective):
    labels, gap = KINDS[kind]
    nodes, graphs = numbers(20, 4), numbers(7, 4, seed=1)
    batch = torch.arange(20) % 7
    by_gap = ContrastiveLoss(
        NegativeSampler("other_labels", label_gap=gap), objective=objective
    ).local_global(nodes, graphs, batch, torch.tensor(labels))
    far = [[distance(a, b) > gap[1] for b in labels] for a in labels]
    log_w = torch.where(torch.tensor(far), 0.0, -math.inf)
    by_weights = ContrastiveLoss(
        NegativeSampler("others", pair_weights=log_w), objective=objective
    ).local_global(nodes, graphs, batch)
    torch.testing.assert_close(by_gap, by_weights)


def test_a_gap_of_nothing_is_classes():
    z1, z2, y = numbers(7, 5), numbers(7, 5, seed=1), torch.tensor(CLASSES)
    values = [
        ContrastiveLoss(NegativeSampler("other_labels", label_gap=gap), positives="class")(
            z1, z2, y
        )
        for gap in (None, (0, 0))
    ]
    torch.testing.assert_close(*values)


@pytest.mark.parametrize(
    ("gap", "facts"),
    [
        ((0.5, 0.2), ["label_gap", "δ₊", "δ₋", "(0.5, 0.2)"]),
        ((-0.1, 0.2), ["label_gap", "δ₊", 0, -0.1]),
        ((0.1, NAN), ["label_gap", "δ₋", 0, "nan"]),
        (0.3, ["label_gap", "(δ₊, δ₋)", 0.3]),
    ],
)
def test_a_gap_that_is_none_is_refused(gap, facts):
    with pytest.raises(InputError) as error:
        NegativeSampler("other_labels", label_gap=gap)
    assert says(str(error.value), *facts)


@pytest.mark.parametrize(
    ("gap", "labels", "facts"),
    [
        (None, torch.tensor(REAL), ["labels", "integers", "label_gap"]),
        (None, torch.tensor(ROWS), ["labels", "integers", "label_gap"]),
        ((0.1, 0.2), torch.zeros(3), ["labels", "[7]", "[7, T]", "[3]"]),
        ((0.1, 0.2), torch.full((7, 2), 0.5), ["labels", "0, 1", "NaN", 0.5]),
        ((0.1, 0.2), torch.zeros(7, 2, 2), ["labels", "[7]", "[7, T]", "[7, 2, 2]"]),
    ],
)
def test_labels_that_the_admission_cannot_read_are_named(gap, labels, facts):
    loss = ContrastiveLoss(NegativeSampler("other_labels", label_gap=gap))
    with pytest.raises(InputError) as error:
        loss(numbers(7, 3), numbers(7, 3, seed=1), labels=labels)
    assert says(str(error.value), *facts)


def test_a_model_with_a_gap_trains_by_itself():
    loss = ContrastiveLoss(NegativeSampler("other_labels", label_gap=(0, 0)), objective="jsd")
    ensemble = Ensemble([InfoGraph(GIN(7), loss=loss)], load("MUTAG", download=False))
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
    ("labels", "facts"), [(CLASSES, ["integers", 1, "δ₋ = 2"]), (ROWS, ["rows", 1, "δ₋ = 2"])]
)
def test_distances_that_no_pair_can_have_are_refused(labels, facts):
    loss = ContrastiveLoss(NegativeSampler("other_labels", label_gap=(1, 2)))
    with pytest.raises(InputError) as error:
        loss(numbers(7, 3), numbers(7, 3, seed=1), labels=torch.tensor(labels))
    assert says(str(error.value), *facts)


def test_labels_that_are_no_numbers_are_named():
    loss = ContrastiveLoss(NegativeSampler("other_labels", label_gap=(0, 0.5)))
    for labels in (["a"] * 7, [[1, 0], [1]] + [[0, 0]] * 5):
        with pytest.raises(InputError, match=r"labels\b.*\brows\b.*\b0\b.*\b1\b"):
            loss(numbers(7, 3), numbers(7, 3, seed=1), labels=labels)


@pytest.mark.parametrize(
    ("dtype", "largest", "gap", "fits"),
    [
        (torch.float16, 300.0, (0.3, 1.0), True),  # 0.25 apart from 256 on
        (torch.float16, 600.0, (0.3, 1.0), False),  # 0.5
        (torch.float16, -600.0, (0.3, 1.0), False),
        (torch.float16, 600.0, (0.0, 1.0), True),  # equal numbers alone
        (torch.float16, 600.0, (0.0, 0.3), False),
        (torch.float16, 600.0, (0.5, 0.5), True),
        (torch.float16, 600.0, (1.0, 1.3), False),
        (torch.bfloat16, 30.0, (0.3, 1.0), True),  # 0.125 from 16 on
        (torch.bfloat16, 70.0, (0.3, 1.0), False),  # 0.5 from 64 on
        (torch.float32, 600.0, (0.3, 1.0), True),
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
    with pytest.raises(InputError) as error:
        loss(z1, z2, labels=y)
    assert says(str(error.value), str(dtype), abs(int(largest)))
    with pytest.raises(InputError):
        loss(z1[:4], z2[:4], labels=y[:4], candidates=z1, candidate_labels=y)
    if dtype == torch.float16:
        with pytest.raises(InputError):
            loss(z1, z2, labels=y.numpy())
