"""The nearest-neighbour and linear probes: same folds, same choices as plain scikit-learn."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from gcl_hard.errors import InputError
from gcl_hard.evaluation import knn_cross_validation, linear_cross_validation, svm_cross_validation

# the linear probe's whole grid takes seconds where three values show the same
few_c_linear_cross_validation = partial(linear_cross_validation, C_grid=(1e-3, 0.1, 10.0))

PROBES = [
    pytest.param(knn_cross_validation, id="knn"),
    pytest.param(few_c_linear_cross_validation, id="linear"),
]


def overlapping(n: int = 120, n_classes: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % n_classes)
    X = rng.standard_normal((n_classes, 6))[labels] + 1.2 * rng.standard_normal((n, 6))
    return X * np.logspace(-1, 1, 6), labels


def standardised_accuracy(model, X, y, train, test):
    scaler = StandardScaler().fit(X[train])
    model.fit(scaler.transform(X[train]), y[train])
    return np.mean(model.predict(scaler.transform(X[test])) == y[test])


def nested_loop(make, grid, X, y, *, seed, n_folds):
    """Nested cross-validation by hand: (accuracy, chosen) of each fold."""
    outcomes = []
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(X, y):
        inner = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X[train], y[train]))
        means = [
            np.mean([standardised_accuracy(make(v), X, y, train[a], train[b]) for a, b in inner])
            for v in grid
        ]
        chosen = grid[int(np.argmax(means))]
        outcomes.append((standardised_accuracy(make(chosen), X, y, train, test), chosen))
    return outcomes


def test_knn_equals_a_nested_loop_over_k():
    X, y = overlapping()
    grid = [1, 3, 7, 15]
    ours = knn_cross_validation(X, y, seed=3, n_folds=5, n_neighbors=grid)
    theirs = nested_loop(KNeighborsClassifier, grid, X, y, seed=3, n_folds=5)
    assert [(score.accuracy, score.chosen) for score in ours.folds] == theirs


def test_linear_equals_a_nested_loop_over_c():
    X, y = overlapping()
    grid = [1e-3, 0.1, 10.0]
    ours = linear_cross_validation(X, y, seed=3, n_folds=4, C_grid=grid)
    theirs = nested_loop(
        lambda C: LogisticRegression(C=C, max_iter=10_000), grid, X, y, seed=3, n_folds=4
    )
    assert [(score.accuracy, score.chosen) for score in ours.folds] == theirs


def test_nearest_neighbour_of_each_duplicate_is_its_copy():
    X = np.repeat(np.random.default_rng(0).standard_normal((60, 4)), 2, axis=0)
    y = np.repeat(np.arange(60) % 2, 2)
    folds = knn_cross_validation(X, y, seed=0, n_neighbors=1).folds
    # a copy is almost always in the training part, and random labels give a half otherwise
    assert np.mean([score.accuracy for score in folds]) > 0.85


def test_cosine_ignores_length_and_euclidean_does_not():
    rng = np.random.default_rng(1)
    y = np.arange(80) % 2
    angle = np.where(y, 0.2, 1.2) + 0.05 * rng.standard_normal(80)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * rng.lognormal(0, 3, (80, 1))
    cosine, euclidean = (
        knn_cross_validation(X, y, seed=0, metric=metric, standardise=False, n_folds=4)
        for metric in ("cosine", "euclidean")
    )
    assert cosine.accuracy == 1.0
    assert euclidean.accuracy < 1.0


@pytest.mark.parametrize("probe", PROBES)
def test_shuffled_labels_score_about_chance_and_the_fold_sizes_are_the_svm_s(probe):
    X, y = overlapping(n=200, n_classes=2)
    shuffled = np.random.default_rng(5).permutation(y)
    scores = probe(X, shuffled, seed=0)
    assert abs(scores.accuracy - 0.5) < 4 * 0.5 / np.sqrt(200)
    sizes = [(score.n_train, score.n_test) for score in scores.folds]
    svm = svm_cross_validation(X, shuffled, seed=0, C_grid=[1.0])
    assert sizes == [(score.n_train, score.n_test) for score in svm.folds]


@pytest.mark.parametrize("probe", PROBES)
def test_two_folds_at_a_time_score_as_one(probe):
    X, y = overlapping()
    assert probe(X, y, seed=0, n_folds=4, n_jobs=2) == probe(X, y, seed=0, n_folds=4)


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings": np.full((20, 2), np.nan)}, "20 of 20 rows hold NaN"),
        ({"labels": np.zeros(20, int)}, "two classes or more"),
        ({"labels": np.repeat([0, 1], [12, 8])}, "class 1 has 8 members"),
        ({"labels": np.arange(19) % 2}, "expected 20, one per sample"),
        ({"n_folds": 2, "n_inner": 6}, "n_inner=6.*class 0 has 5 members"),
    ],
)
def test_bad_input_is_refused_by_name(probe, change, message):
    call = {"embeddings": np.ones((20, 2)), "labels": np.arange(20) % 2, "seed": 0} | change
    if probe is knn_cross_validation:
        call["n_neighbors"] = 1
    with pytest.raises(InputError, match=message):
        probe(**call)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_neighbors": 20}, "n_neighbors=20: expected at most 14"),
        ({"n_neighbors": 0}, "n_neighbors=0: expected an integer >= 1"),
        ({"n_neighbors": []}, "n_neighbors: expected one k or more"),
        ({"n_neighbors": 1, "metric": "cosin"}, "unknown metric 'cosin'; did you mean cosine"),
    ],
)
def test_bad_neighbour_settings_are_refused_by_name(change, message):
    with pytest.raises(InputError, match=message):
        knn_cross_validation(np.ones((20, 2)), np.arange(20) % 2, seed=0, **change)
