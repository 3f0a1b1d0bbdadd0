"""The SVM's kernels, linear and a sum with a given one, against scikit-learn's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gcl_hard.evaluation import (
    C_GRID,
    outer_folds,
    svm_cross_validation,
    svm_fold,
)
from gcl_hard.evaluation.folds import FoldScore
from gcl_hard.evaluation.svm import embedding_kernel, given_kernel, sum_kernel

SCALES = pytest.mark.parametrize("standardise", [False, True], ids=["raw", "standardised"])
KERNELS = pytest.mark.parametrize("kernel", ["rbf", "linear"])


def blobs(n: int, n_classes: int, overlap: float, seed: int, d: int = 8):
    """Classes around random centres, the widest column four times the narrowest."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % n_classes)
    X = rng.standard_normal((n_classes, d))[labels] + overlap * rng.standard_normal((n, d))
    return X * np.logspace(-0.3, 0.3, d, base=10), labels


def with_constant_columns(n: int, n_classes: int, overlap: float, seed: int):
    X, labels = blobs(n, n_classes, overlap, seed)
    X[:, 2], X[:, 5] = 0.0, 7.3
    return X, labels


CASES = {
    "2 classes overlapping": blobs(90, 2, 2.0, 1),
    "4 classes": blobs(120, 4, 1.0, 2),
    "constant columns": with_constant_columns(100, 2, 1.5, 4),
    "all columns constant": (np.full((60, 3), 2.0), np.arange(60) % 3 // 2),
}


def trees(X, seed: int = 0):
    """A kernel that has nothing to do with distances in X: in how many random cuts two agree."""
    rng = np.random.default_rng(seed)
    cuts = X[:, rng.integers(X.shape[1], size=50)] > rng.standard_normal(50)
    return (cuts[:, None] == cuts).mean(axis=2)


class Divided(TransformerMixin, BaseEstimator):
    """Embeddings over √(d · var(X)): their inner products are the linear kernel."""

    def fit(self, X, y=None):
        self.scale_ = np.sqrt(X.shape[1] * X.var()) or 1.0
        return self

    def transform(self, X):
        return X / self.scale_


def nested_search(model, X, y, *, seed, n_folds):
    scores = []
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(y, y):
        inner = StratifiedKFold(5, shuffle=True, random_state=seed)
        search = GridSearchCV(model, {"svc__C": list(C_GRID)}, cv=inner)
        search.fit(X[train], y[train])
        C = search.best_params_["svc__C"]
        accuracy = search.score(X[test], y[test])
        scores.append(FoldScore(accuracy, C, len(train), len(test), search.best_score_))
    return tuple(scores)


SEARCHES = {
    "raw": make_pipeline(SVC(kernel="poly", degree=1, gamma="scale", coef0=0.0)),
    "standardised": make_pipeline(StandardScaler(), Divided(), SVC(kernel="linear")),
}


@pytest.mark.parametrize("columns", SEARCHES)
@pytest.mark.parametrize("case", CASES)
def test_the_linear_kernel_scores_as_in_grid_search_cv(case, columns):
    X, y = CASES[case]
    standardise = columns == "standardised"
    ours = svm_cross_validation(X, y, seed=7, n_folds=2, standardise=standardise, kernel="linear")
    assert ours.folds == nested_search(SEARCHES[columns], X, y, seed=7, n_folds=2)


def test_c_of_the_linear_kernel_is_d_times_that_of_a_linear_svc_on_standardised_columns():
    X, y = CASES["2 classes overlapping"]
    fold = outer_folds(y, seed=0, n_folds=3)[0]
    for C in C_GRID:
        svc = make_pipeline(StandardScaler(), SVC(kernel="linear", C=C / X.shape[1]))
        expected = svc.fit(X[fold.train], y[fold.train]).score(X[fold.test], y[fold.test])
        assert svm_fold(X, y, fold, kernel="linear", C_grid=[C]).accuracy == expected


def by_loops(name, X, train, test, *, standardise):
    """k(x, y) of each pair; raw columns of the linear kernel are centred too."""
    columns = [[X[i, c] for i in train] for c in range(X.shape[1])]
    means = [sum(column) / len(column) for column in columns]
    deviations = [np.std(column) if max(column) > min(column) else 1.0 for column in columns]
    Z = X.copy()
    if standardise:
        for c in range(X.shape[1]):
            Z[:, c] = [(value - means[c]) / deviations[c] for value in X[:, c]]
        means = [0.0] * X.shape[1]
    values = [Z[i, c] for i in train for c in range(X.shape[1])]
    average = sum(values) / len(values)
    v = X.shape[1] * sum((value - average) ** 2 for value in values) / len(values)
    K = np.empty((len(train) + len(test), len(train)))
    for row, i in enumerate([*train, *test]):
        for column, j in enumerate(train):
            if name == "rbf":
                K[row, column] = np.exp(-sum((Z[i] - Z[j]) ** 2) / v)
            else:
                K[row, column] = sum((Z[i] - means) * (Z[j] - means)) / v
    return K


@SCALES
@KERNELS
def test_kernels_are_those_of_loops_over_pairs(kernel, standardise):
    X, _ = CASES["constant columns"]
    train, test = np.arange(3, 30, 2), np.array([0, 31, 8])
    expected = by_loops(kernel, X, train, test, standardise=standardise)
    ours = embedding_kernel(kernel, X, standardise=standardise)
    np.testing.assert_allclose(ours(train, test), expected, rtol=1e-10, atol=1e-12)
    A = trees(X)
    both = sum_kernel(ours, given_kernel(A), 2.5)(train, test)
    for row, i in enumerate([*train, *test]):
        for column, j in enumerate(train):
            expected[row, column] += 2.5 * A[i, j]
    np.testing.assert_allclose(both, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(A, trees(X))  # nothing was written into it


@SCALES
@KERNELS
def test_an_added_kernel_scores_as_a_precomputed_one(kernel, standardise):
    X, y = CASES["4 classes"]
    A, weight, grid = trees(X), 0.7, (0.1, 1.0, 10.0)

    def accuracies(train, test):
        K = by_loops(kernel, X, train, test, standardise=standardise)
        K += weight * A[np.concatenate([train, test])][:, train]
        fits = [SVC(C=C, kernel="precomputed").fit(K[: len(train)], y[train]) for C in grid]
        return [fit.score(K[len(train) :], y[test]) for fit in fits]

    fold = outer_folds(y, seed=3, n_folds=3)[1]
    inner = StratifiedKFold(2, shuffle=True, random_state=3).split(fold.train, y[fold.train])
    means = np.mean([accuracies(fold.train[a], fold.train[b]) for a, b in inner], axis=0)
    best = int(means.argmax())
    ours = svm_fold(
        X, y, fold, standardise=standardise, C_grid=grid, n_inner=2, seed=3,
        kernel=kernel, added=A, weight=weight,
    )  # fmt: skip
    assert ours.chosen == grid[best]
    assert ours.inner_accuracy == pytest.approx(means[best], abs=1e-12)
    assert ours.accuracy == accuracies(fold.train, fold.test)[best]


def test_a_large_offset_of_raw_embeddings_changes_nothing_in_the_linear_kernel():
    X, y = blobs(60, 2, 2.0, 6)
    X = np.round(X * 64) / 64  # so that the offset is exact
    near, far = (
        svm_cross_validation(Z, y, seed=0, n_folds=3, standardise=False, kernel="linear")
        for Z in (X, X + 2.0**24)
    )
    assert near == far


def test_raw_columns_that_hold_one_inexact_number_end_as_the_majority_class():
    """Their variance is some rounding, not 0: over it, inner products would be anything."""
    y = (np.arange(124) % 4 == 0).astype(np.int64)
    X = np.full((124, 3), 7.3)
    assert X.var() > 0
    ours = svm_cross_validation(X, y, seed=0, n_folds=4, standardise=False, kernel="linear")
    assert ours.accuracy == 0.75


@SCALES
@KERNELS
def test_garbage_in_the_test_fold_does_not_reach_the_training_fold(kernel, standardise):
    X, y = blobs(120, 3, 1.0, 8)
    A, fold = trees(X), outer_folds(y, seed=2)[0]
    garbage, spoilt = X.copy(), A.copy()
    garbage[fold.test] = 1e6 * np.random.default_rng(0).standard_normal(X[fold.test].shape)
    spoilt[fold.test] = spoilt[:, fold.test] = -1.0
    clean, poisoned = (
        sum_kernel(embedding_kernel(kernel, Z, standardise=standardise), given_kernel(K), 0.5)(
            fold.train, fold.test
        )
        for Z, K in ((X, A), (garbage, spoilt))
    )
    n = len(fold.train)
    np.testing.assert_array_equal(clean[:n], poisoned[:n])
    assert (clean[n:] != poisoned[n:]).any(axis=1).all()
    settings: dict[str, Any] = {"standardise": standardise, "kernel": kernel, "weight": 0.5}
    clean = svm_fold(X, y, fold, added=A, **settings)
    dirty = svm_fold(garbage, y, fold, added=spoilt, **settings)
    assert (clean.chosen, clean.inner_accuracy) == (dirty.chosen, dirty.inner_accuracy)
    assert clean.accuracy > dirty.accuracy


@KERNELS
def test_folds_alone_and_two_at_a_time_score_as_within_the_cross_validation(kernel):
    X, y = CASES["4 classes"]
    settings: dict[str, Any] = {"seed": 5, "kernel": kernel, "added": trees(X), "weight": 2.0}
    whole = svm_cross_validation(X, y, n_folds=3, **settings)
    alone = [svm_fold(X, y, fold, **settings) for fold in outer_folds(y, seed=5, n_folds=3)]
    assert list(whole.folds) == alone
    assert svm_cross_validation(X, y, n_folds=3, n_jobs=2, **settings) == whole
