"""Scaffold splits, scores and probes of molecules against scikit-learn, loops and properties."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from gcl_hard.errors import InputError
from gcl_hard.evaluation import ThreeWaySplit, scaffold_split
from gcl_hard.evaluation.transfer import (
    C_GRID,
    GAMMAS,
    kernel_predictions,
    linear_predictions,
    nystroem_features,
    paired_bootstrap,
    rbf_kernels,
    resampled_auc,
    resampled_rmse,
    rmse,
    roc_auc,
    standardised,
)

NAMES = st.lists(st.sampled_from("abcdefghijkl"), min_size=12, max_size=80)


@settings(max_examples=100, deadline=None)
@given(names=NAMES, seed=st.none() | st.integers(0, 3))
def test_a_scaffold_is_in_one_part_and_parts_keep_their_shares(
    names: list[str], seed: int | None
) -> None:
    try:
        split = scaffold_split(names, seed=seed)
    except InputError:  # no part can be left empty by groups of a tenth at most
        assert max(Counter(names).values()) > 0.1 * len(names)
        return
    assert sorted(np.concatenate(split).tolist()) == [*range(len(names))]
    part_names = [{names[i] for i in part} for part in split]
    assert sum(map(len, part_names)) == len(set(names))
    assert len(split.train) <= 0.8 * len(names)


def deepchem(names: list[str]) -> tuple[list[int], list[int], list[int]]:
    """The splitter of DeepChem and chemprop, in its own loops."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        groups.setdefault(name, []).append(i)
    ordered = sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True)
    train: list[int] = []
    valid: list[int] = []
    test: list[int] = []
    for group in ordered:
        if len(train) + len(group) > 0.8 * len(names):
            if len(train) + len(valid) + len(group) > 0.9 * len(names):
                test += group
            else:
                valid += group
        else:
            train += group
    return sorted(train), sorted(valid), sorted(test)


@settings(max_examples=100, deadline=None)
@given(names=NAMES)
def test_the_split_by_size_is_deepchems(names: list[str]) -> None:
    expected = deepchem(names)
    if not all(expected):
        with pytest.raises(InputError):
            scaffold_split(names)
        return
    assert tuple(part.tolist() for part in scaffold_split(names)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_large_scaffolds_leave_room_for_all_parts_in_any_order(seed: int) -> None:
    """The sizes of FreeSolv's: 642 molecules, half of them without a ring."""
    sizes = [320, 152, 22, 12, 9, 8, 7, 6, 5, 5, 4, 4, 3, 3, *[2] * 15, *[1] * 52]
    names = [str(i) for i, size in enumerate(sizes) for _ in range(size)]
    split = scaffold_split(names, seed=seed)
    shares = [len(part) / len(names) for part in split]
    assert shares[0] == pytest.approx(0.8, abs=0.05)
    assert min(shares[1:]) > 0.05


def test_auc_counts_pairs_of_known_labels() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, (60, 4)).astype(float)
    y[rng.random(y.shape) < 0.3] = np.nan
    y[:, 2] = np.where(np.isnan(y[:, 2]), np.nan, 1.0)
    y[:5, 3], y[5:, 3] = 1.0, 0.0
    scores = rng.normal(size=y.shape).round(1)  # with ties
    auc = roc_auc(y, scores)
    expected = []
    for task in (0, 1, 3):
        positive, negative = (scores[y[:, task] == label, task] for label in (1, 0))
        wins = [float(a > b) + 0.5 * float(a == b) for a in positive for b in negative]
        expected.append(sum(wins) / len(wins))
    np.testing.assert_allclose(auc.of_task[[0, 1, 3]], expected, rtol=1e-12)
    assert auc.mean == pytest.approx(np.mean(expected), rel=1e-12)
    assert (auc.one_class, auc.few) == ((2,), (3,))
    assert np.isnan(roc_auc([1, 1], [0.1, 0.2]).mean)
    scores[:, 0] = np.nan
    auc = roc_auc(y, scores)
    assert auc.one_class == (0, 2)
    assert auc.mean == pytest.approx(np.mean(expected[1:]), rel=1e-12)
    for y_bad, s in (([0, 2], [0, 1]), ([0, 1], [[0], [1], [2]])):
        with pytest.raises(InputError):
            roc_auc(y_bad, s)


def test_rmse_is_scikit_learns_over_what_counts() -> None:
    rng = np.random.default_rng(0)
    y, predicted, mask = rng.normal(size=30), rng.normal(size=30), rng.random(30) < 0.5
    assert rmse(y, predicted) == pytest.approx(root_mean_squared_error(y, predicted), rel=1e-12)
    expected = root_mean_squared_error(y[mask], predicted[mask])
    assert rmse(y, predicted, mask) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(rmse(y, predicted, np.zeros(30, bool)))
    y[mask] = np.nan
    expected = root_mean_squared_error(y[~mask], predicted[~mask])
    assert rmse(y, predicted) == pytest.approx(expected, rel=1e-12)
    assert rmse(y, predicted, np.ones(30, bool)) == pytest.approx(expected, rel=1e-12)


def problem(*, classes: bool, n: int = 90) -> tuple[Any, Any, ThreeWaySplit]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 5)) * [1, 10, 0.1, 1, 1]
    x[:, 4] = 3.0  # a constant column
    y = x[:, 0] ** 2 + x[:, 1] / 10 + 0.1 * rng.normal(size=n)
    order = rng.permutation(n)
    split = ThreeWaySplit(order[:50], order[50:70], order[70:])
    return x, (y > 0.8).astype(float) if classes else 5 + 3 * y, split


@pytest.mark.parametrize("classes", [False, True])
def test_a_kernel_probe_is_the_best_machine_on_validation(classes: bool) -> None:
    x, y, split = problem(classes=classes)
    predictions, validation = kernel_predictions(
        rbf_kernels(x, split.train), y, split, classes=classes
    )
    scaler = StandardScaler().fit(x[split.train])
    z = scaler.transform(x)
    target = StandardScaler().fit(y[split.train, None])
    best, expected = np.inf, None
    for gamma in GAMMAS:
        for penalty in C_GRID:
            kernel = rbf_kernel(z, gamma=gamma / 5)
            gram = kernel[np.ix_(split.train, split.train)]
            if classes:
                machine = SVC(C=penalty, kernel="precomputed").fit(gram, y[split.train])
                scores = [machine.decision_function(kernel[np.ix_(part, split.train)])
                          for part in (split.valid, split.test)]  # fmt: skip
                error = -roc_auc(y[split.valid], scores[0]).mean
            else:
                known = target.transform(y[split.train, None])[:, 0]
                regressor = SVR(C=penalty, kernel="precomputed").fit(gram, known)
                scores = [
                    target.inverse_transform(
                        regressor.predict(kernel[np.ix_(part, split.train)])[:, None]
                    )[:, 0]
                    for part in (split.valid, split.test)
                ]
                error = rmse(y[split.valid], scores[0])
            if error < best:
                best, expected = error, scores[1]
    np.testing.assert_allclose(predictions, expected, rtol=1e-6, atol=1e-6)
    assert validation == pytest.approx(-best if classes else best, rel=1e-6)


def test_a_linear_probe_is_ridge_on_standardised_embeddings() -> None:
    x, y, split = problem(classes=False)
    predictions = linear_predictions([standardised(x, split.train)], y, split, classes=False).test
    z = StandardScaler().fit(x[split.train]).transform(x)
    scaled = (y - y[split.train].mean()) / y[split.train].std()
    fitted = [
        Ridge(alpha=1 / c).fit(z[split.train], scaled[split.train])
        for c in (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    ]
    best = min(
        fitted,
        key=lambda model: root_mean_squared_error(
            scaled[split.valid], model.predict(z[split.valid])
        ),
    )
    expected = best.predict(z[split.test]) * y[split.train].std() + y[split.train].mean()
    np.testing.assert_allclose(predictions, expected, rtol=1e-9)


def test_a_linear_probe_of_classes_is_the_same_sparse_and_dense() -> None:
    """Logistic regression of columns that are not centred, and its slow solver."""
    x, y, split = problem(classes=True)
    x = np.where(x > 0.5, x, 0.0)
    dense, sparse = (
        linear_predictions([standardised(x, split.train, sparse=sparse_)], y, split, classes=True)
        for sparse_ in (False, True)
    )
    np.testing.assert_allclose(dense.test, sparse.test, rtol=1e-2, atol=1e-2)
    assert dense.validation == pytest.approx(sparse.validation, abs=0.02)
    z = StandardScaler().fit(x[split.train]).transform(x)
    fitted = [
        LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(z[split.train], y[split.train])
        for c in (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    ]
    best = max(
        fitted,
        key=lambda model: roc_auc(y[split.valid], model.decision_function(z[split.valid])).mean,
    )
    np.testing.assert_allclose(
        dense.test, best.decision_function(z[split.test]), rtol=1e-3, atol=1e-3
    )


def test_nystroem_features_of_all_landmarks_are_the_kernel() -> None:
    x, _, split = problem(classes=True)
    assert len(split.train) < 500
    kernels = rbf_kernels(x, split.train)
    for kernel, features in zip(kernels, nystroem_features(x, split.train), strict=True):
        approximation, rows = (
            features @ features.T,
            np.ix_(split.train, [*split.train, *split.test]),
        )
        np.testing.assert_allclose(approximation[rows], kernel[rows], atol=1e-6)


def test_the_test_part_never_decides() -> None:
    """Other targets of test molecules change no prediction, nor do unknown ones of others."""
    x, y, split = problem(classes=True)
    kernels = rbf_kernels(x, split.train)
    first = kernel_predictions(kernels, y, split, classes=True).test
    other = y.copy()
    other[split.test] = 1 - other[split.test]
    np.testing.assert_array_equal(
        first, kernel_predictions(kernels, other, split, classes=True).test
    )
    x2 = x.copy()
    x2[split.test] += 100.0
    again = rbf_kernels(x2, split.train)
    train = np.ix_(split.train, split.train)
    np.testing.assert_array_equal(kernels[0][train], again[0][train])
    two = np.stack([y, y], 1)
    two[split.train[:10], 1] = np.nan
    predictions = kernel_predictions(kernels, two, split, classes=True).test
    assert predictions.shape == (20, 2)
    np.testing.assert_array_equal(predictions[:, 0], first)
    fewer = split._replace(train=split.train[10:])
    np.testing.assert_array_equal(
        predictions[:, 1], kernel_predictions(kernels, y, fewer, classes=True).test
    )


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("probe", ["kernel", "linear"])
def test_a_task_unknown_in_validation_is_scored_by_the_first_choice(
    probe: str, classes: bool
) -> None:
    x, y, split = problem(classes=classes)
    both = np.stack([y, y], 1).astype(float)
    both[split.valid, 1] = np.nan
    if probe == "kernel":
        candidates = rbf_kernels(x, split.train)
        chosen, first, alone = (
            kernel_predictions(kernels, y_, split, classes=classes)
            for kernels, y_ in ((candidates, both), (candidates[:1], both), (candidates, y))
        )
    else:
        columns = [standardised(x, split.train), standardised(x, split.train) * 2]
        chosen, first, alone = (
            linear_predictions(candidates, y_, split, classes=classes)
            for candidates, y_ in ((columns, both), (columns[:1], both), (columns, y))
        )
    np.testing.assert_array_equal(chosen.test[:, 0], alone.test)
    np.testing.assert_array_equal(chosen.test[:, 1], first.test[:, 1])
    assert chosen.validation == alone.validation


@pytest.mark.parametrize("value", [0.1, 0.3, math.log1p(2), 0.0, 1e9 / 3])
def test_a_column_that_is_constant_but_for_rounding_is_centred(value: float) -> None:
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=903), np.full(903, value)], 1)
    x[-1, 1] += 0.5
    train = np.arange(902)
    expected = StandardScaler().fit(x[train]).transform(x)
    np.testing.assert_allclose(standardised(x, train), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "column",
    [
        np.float32(0.25) * (1 + 6e-8 * (np.arange(60) % 2)).astype(np.float32),
        np.float32(1e20) * (1 + 1e-7 * (np.arange(60) % 3)).astype(np.float32),
        1e-17 * (-1.0) ** np.arange(60),
        1e-300 * np.random.default_rng(1).normal(size=60),
        1e-170 * np.random.default_rng(1).normal(size=60),
    ],
)
@pytest.mark.parametrize("tensor", [True, False])
def test_columns_of_rounding_alone_are_not_blown_up(column: Any, *, tensor: bool) -> None:
    rng, train = np.random.default_rng(0), np.arange(50)
    x = np.stack([rng.normal(size=60).astype(column.dtype), column], 1)
    standard = standardised(torch.from_numpy(x) if tensor else x, train)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(standard[:, 1], wide[:, 1] - wide[train, 1].mean(), rtol=1e-9)
    expected = StandardScaler().fit(wide[train, :1]).transform(wide[:, :1])
    np.testing.assert_allclose(standard[:, :1], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1 + 1e-9, np.float64), (3e7 * (1 + 1e-9), np.float64), (1 + 1e-5, np.float32),
     (1e-7, np.float32), (1e-12, np.float64), (2, np.int64)],
)  # fmt: skip
def test_columns_that_hardly_vary_are_scaled(value: float, dtype: Any) -> None:
    base = value if value < 0.5 else round(value)
    x = np.linspace(base, value if value > base else 2 * base, 60).astype(dtype)[:, None]
    expected = StandardScaler().fit(x[:50].astype(np.float64)).transform(x.astype(np.float64))
    np.testing.assert_allclose(standardised(x, np.arange(50)).std(), expected.std(), rtol=1e-3)


def test_targets_of_any_size_are_learnt() -> None:
    x = np.random.default_rng(0).normal(size=(60, 2))
    y, split = x @ [1.0, 2.0], ThreeWaySplit(np.arange(40), np.arange(40, 50), np.arange(50, 60))
    usual, tiny = (linear_predictions([x], scale * y, split, classes=False) for scale in (1, 1e-20))
    np.testing.assert_allclose(1e20 * tiny.test, usual.test, rtol=1e-6)


def test_a_task_of_one_class_in_training_has_no_scores() -> None:
    x, y, split = problem(classes=True)
    y[split.train] = 0
    scores = kernel_predictions(rbf_kernels(x, split.train), y, split, classes=True).test
    assert np.isnan(scores).all()


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 30), tasks=st.integers(1, 4), seed=st.integers(0, 1000))
def test_scores_of_draws_are_those_of_each_draw_alone(n: int, tasks: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.choice([0.0, 1.0, np.nan], size=(n, tasks), p=[0.4, 0.4, 0.2])
    scores = rng.integers(4, size=(n, tasks)) / 4  # with ties
    if tasks > 1:
        scores[:, 0] = np.nan  # a task without scores
    ids, mask = rng.integers(n, size=(7, n)), rng.random(n) < 0.5
    np.testing.assert_allclose(
        resampled_auc(y, scores, ids),
        [roc_auc(y[draw], scores[draw]).mean for draw in ids],
        rtol=1e-14,
    )
    predicted = rng.normal(size=n)
    for counts in (None, mask):
        np.testing.assert_allclose(
            resampled_rmse(y[:, 0], predicted, ids, counts),
            [
                rmse(y[draw, 0], predicted[draw], None if counts is None else counts[draw])
                for draw in ids
            ],
            rtol=1e-14,
        )


def test_the_bootstrap_covers_a_difference_of_which_seeds_and_molecules_are_draws() -> None:
    """Of three seeds that differ by as much as the molecules move their mean."""
    rng = np.random.default_rng(0)
    covered = covered_by_molecules = 0
    for seed in range(100):
        values = rng.normal(size=(3, 1)) / 5 + rng.normal(size=60) + rng.normal(size=(3, 60)) / 2
        both = np.stack([np.zeros_like(values), values + 0.3])
        test = paired_bootstrap(
            [(lambda ids, index, v=both: v[index][:, ids].mean(2).T, 60)],
            seeds=3, draws=100, seed=seed,
        )  # fmt: skip
        mean = both.mean(1)
        alone = paired_bootstrap(
            [(lambda ids, index, v=mean: v[index][ids].mean(1), 60)], draws=100, seed=seed
        )
        assert test.difference == pytest.approx(alone.difference)
        covered += test.low <= 0.3 <= test.high
        covered_by_molecules += alone.low <= 0.3 <= alone.high
    assert covered >= 88
    assert covered_by_molecules < 89


def test_several_sets_count_alike_and_undefined_draws_are_left_out() -> None:
    ones, zeros = np.ones(10), np.zeros(1000)
    sets = [
        (lambda ids, index, v=v: index * v[ids].mean(1), len(v)) for v in (ones, zeros)
    ]  # fmt: skip
    test = paired_bootstrap(sets, draws=5)
    assert (test.difference, test.low, test.high) == (0.5, 0.5, 0.5)
    test = paired_bootstrap([(lambda ids, index: np.full(len(ids), np.nan), 5)], draws=5)
    assert np.isnan([test.difference, test.low, test.high]).all()
