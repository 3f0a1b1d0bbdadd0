"""The nested SVM against scikit-learn's own grid search, fold for fold."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gcl_hard.evaluation import (
    C_GRID,
    kernel_cross_validation,
    kernel_fold,
    outer_folds,
    svm_cross_validation,
    svm_fold,
)
from gcl_hard.evaluation.folds import CrossValidation, FoldScore


def blobs(n: int, n_classes: int, overlap: float, seed: int, d: int = 8):
    """Classes around random centres, columns of very different scale, as sum readouts have."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % n_classes)
    centres = rng.standard_normal((n_classes, d))
    X = centres[labels] + overlap * rng.standard_normal((n, d))
    return X * np.logspace(-1, 1, d), labels


def with_constant_columns(n: int, n_classes: int, overlap: float, seed: int):
    X, labels = blobs(n, n_classes, overlap, seed)
    X[:, 2], X[:, 5] = 0.0, 7.3
    return X, labels


def with_duplicates(n: int, n_classes: int, overlap: float, seed: int):
    X, labels = blobs(n, n_classes, overlap, seed)
    return X[np.arange(n) % (n // 3)], labels


CASES = {
    "2 classes overlapping": blobs(150, 2, 2.5, 1),
    "3 classes": blobs(150, 3, 1.5, 2),
    "6 classes": blobs(180, 6, 1.0, 3),
    "constant columns": with_constant_columns(100, 2, 1.5, 4),
    "duplicates of either class": with_duplicates(120, 2, 1.5, 5),
    "all columns constant": (np.full((40, 3), 2.0), np.arange(40) % 2),
}


def grid_search_scores(X, y, *, seed, standardise, n_folds):
    """The same nested cross-validation, written with GridSearchCV and the RBF SVC."""
    svc = SVC(kernel="rbf", gamma="scale")
    model = Pipeline([("scale", StandardScaler()), ("svc", svc)]) if standardise else svc
    name = "svc__C" if standardise else "C"
    return nested_search(model, name, lambda rows, train: X[rows], y, seed=seed, n_folds=n_folds)


def kernel_search_scores(K, y, *, seed, n_folds):
    """The same with a kernel matrix, which GridSearchCV cuts on both sides."""
    svc = SVC(kernel="precomputed")
    return nested_search(svc, "C", lambda *cut: K[np.ix_(*cut)], y, seed=seed, n_folds=n_folds)


def nested_search(model, name, part, y, *, seed, n_folds):
    scores = []
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(y, y):
        inner = StratifiedKFold(5, shuffle=True, random_state=seed)
        search = GridSearchCV(model, {name: list(C_GRID)}, cv=inner)
        search.fit(part(train, train), y[train])
        (C,) = search.best_params_.values()
        accuracy = search.score(part(test, train), y[test])
        scores.append(FoldScore(accuracy, C, len(train), len(test), search.best_score_))
    return tuple(scores)


@pytest.mark.parametrize("standardise", [False, True], ids=["raw", "standardised"])
@pytest.mark.parametrize("case", CASES)
def test_chosen_c_and_accuracies_equal_grid_search_cv(case, standardise):
    X, y = CASES[case]
    ours = svm_cross_validation(X, y, seed=7, n_folds=3, standardise=standardise)
    assert ours.folds == grid_search_scores(X, y, seed=7, standardise=standardise, n_folds=3)


def test_smallest_c_is_chosen_on_ties_whatever_the_order_of_the_grid():
    y = np.arange(60) % 2
    X = y[:, None] + np.linspace(0, 0.01, 60)[:, None]  # every C >= 0.1 separates perfectly
    for grid in ([1.0, 100.0, 10.0], [100.0, 10.0, 1.0]):
        scores = svm_cross_validation(X, y, seed=0, C_grid=grid).folds
        assert {(score.inner_accuracy, score.chosen) for score in scores} == {(1.0, 1.0)}


@pytest.mark.parametrize("standardise", [False, True], ids=["raw", "standardised"])
def test_garbage_in_the_test_fold_does_not_reach_the_training_fold(standardise):
    X, y = blobs(120, 3, 1.5, 8)
    for fold in outer_folds(y, seed=2)[:3]:
        garbage, wrong = X.copy(), y.copy()
        garbage[fold.test] = 1e6 * np.random.default_rng(0).standard_normal(X[fold.test].shape)
        wrong[fold.test] = np.roll(wrong[fold.test], 1)
        clean = svm_fold(X, y, fold, standardise=standardise)
        dirty = svm_fold(garbage, wrong, fold, standardise=standardise)
        for name in ("chosen", "inner_accuracy", "n_train"):
            assert getattr(clean, name) == getattr(dirty, name)
        assert clean.accuracy > dirty.accuracy


def test_summary_is_the_mean_and_deviation_over_folds():
    scores = tuple(FoldScore(a, 1.0, 9, 1, 0.5) for a in (0.5, 0.7, 0.9))
    summary = CrossValidation(scores)
    assert summary.fold_accuracies == (0.5, 0.7, 0.9)
    assert summary.accuracy == pytest.approx(0.7)
    assert summary.fold_std == pytest.approx(np.sqrt(0.08 / 2))


def laplacian_kernel(X):
    Z = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-3)
    return np.exp(-np.abs(Z[:, None] - Z).sum(axis=2) / X.shape[1])


def cosine_kernel(X):
    Z = X / np.linalg.norm(X, axis=1, keepdims=True)
    return Z @ Z.T


@pytest.mark.parametrize(
    ("kernel", "case"),
    [(laplacian_kernel, "duplicates of either class"), (cosine_kernel, "3 classes")],
)
def test_a_given_kernel_scores_as_in_grid_search_cv(kernel, case):
    X, y = CASES[case]
    K = kernel(X)
    ours = kernel_cross_validation(K, y, seed=7, n_folds=3)
    assert ours.folds == kernel_search_scores(K, y, seed=7, n_folds=3)


def permuted_rows(n: int):
    """Rows of the same eight numbers: every subset has mean 0 and variance 5, so one gamma."""
    rng = np.random.default_rng(13)
    X = rng.permuted(np.tile([-3.0, -1.0, 1.0, 3.0] * 2, (n, 1)), axis=1)
    return X, (X[:, 0] + X[:, 1] + rng.standard_normal(n) > 0).astype(np.int64)


def test_the_rbf_kernel_as_a_matrix_scores_as_the_raw_embeddings():
    X, y = permuted_rows(150)
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (8 * 5))
    by_embeddings = svm_cross_validation(X, y, seed=4, n_folds=5, standardise=False)
    assert kernel_cross_validation(K, y, seed=4, n_folds=5) == by_embeddings
    assert 0.6 < by_embeddings.accuracy < 1


def test_kernel_entries_of_the_test_fold_do_not_reach_the_training_fold():
    X, y = blobs(120, 3, 1.5, 8)
    fold = outer_folds(y, seed=2)[0]
    K, garbage = laplacian_kernel(X), laplacian_kernel(X)
    garbage[fold.test] = garbage[:, fold.test] = -1.0
    clean, dirty = kernel_fold(K, y, fold), kernel_fold(garbage, y, fold)
    assert (clean.chosen, clean.inner_accuracy) == (dirty.chosen, dirty.inner_accuracy)
    assert clean.accuracy > dirty.accuracy


def test_rounding_of_single_precision_is_no_asymmetry():
    X, y = CASES["3 classes"]
    K = laplacian_kernel(X)
    wobbly = K * (1 + 2.0**-24 * np.random.default_rng(0).choice([-1, 1], K.shape))
    assert (wobbly != wobbly.T).any()
    assert kernel_cross_validation(wobbly, y, seed=0, n_folds=3).accuracy > 0.5
