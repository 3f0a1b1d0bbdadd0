"""The predictions of a score: those of scikit-learn, of the fold's test samples."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.dummy import DummyClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gcl_hard.evaluation import (
    Fold,
    ProbeRecipe,
    kernel_cross_validation,
    kernel_fold,
    knn_cross_validation,
    linear_cross_validation,
    linear_probe,
    majority_cross_validation,
    outer_folds,
    probe_fold,
    svm_cross_validation,
    svm_fold,
)
from gcl_hard.graphs import load_graphs
from gcl_hard.graphs.protocols import graph_size, label_histogram

FOLDS = {"seed": 3, "n_folds": 4}
SETTINGS = {"C_grid": (0.01, 1.0, 100.0)} | FOLDS


def mutag():
    graphs = load_graphs("MUTAG")
    return np.hstack([graph_size(graphs), label_histogram(graphs)]), graphs.y.numpy()


def made_up():
    """Overlapping classes, whose labels are not their positions."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(150) % 3)
    X = rng.standard_normal((3, 5))[y] + rng.standard_normal((150, 5))
    return X, np.array([-3, 70, 4])[y]


DATA = {"MUTAG": mutag(), "made up": made_up()}


def similarity(A, B):
    return np.exp(-cdist(A, B) / 5)


class Landmarks(Nystroem):
    """All samples, with the gamma that SVC calls "scale"."""

    def fit(self, X, y=None):
        self.gamma, self.n_components = 1 / (X.shape[1] * X.var()), len(X)
        return super().fit(X)


def scaled(*steps):
    return make_pipeline(StandardScaler(), *steps)


def logistic(C):
    return LogisticRegression(C=C, max_iter=10_000)


FOLD_BY_FOLD = {
    "svm": (svm_fold, lambda C: scaled(SVC(C=C))),
    "svm, raw": (partial(svm_fold, standardise=False), lambda C: SVC(C=C)),
    "svm, linear": (
        partial(svm_fold, kernel="linear"),
        lambda C: scaled(SVC(kernel="poly", degree=1, C=C)),
    ),
    "kernel": (
        lambda X, *args, **kwargs: kernel_fold(similarity(X, X), *args, **kwargs),
        lambda C: SVC(kernel=similarity, C=C),
    ),
    "logistic": (probe_fold, lambda C: scaled(logistic(C))),
    "nystroem": (
        partial(probe_fold, probe="nystroem"),
        lambda C: scaled(Landmarks(random_state=3), logistic(C)),
    ),
}
CROSS_VALIDATED = {
    "svms": (partial(svm_cross_validation, **SETTINGS), FOLD_BY_FOLD["svm"][1]),
    "kernels": (
        lambda X, y: kernel_cross_validation(similarity(X, X), y, **SETTINGS),
        FOLD_BY_FOLD["kernel"][1],
    ),
    "linear": (partial(linear_cross_validation, **SETTINGS), FOLD_BY_FOLD["logistic"][1]),
    "knn": (
        partial(knn_cross_validation, **FOLDS),
        lambda k: scaled(KNeighborsClassifier(int(k))),
    ),
    "majority": (
        lambda _, y: majority_cross_validation(y, **FOLDS),
        lambda _: DummyClassifier(strategy="most_frequent"),
    ),
}


def check(score, truth, test, expected):
    """Predictions of the test samples, which have the accuracy to the last bit."""
    assert (score.test.dtype, score.predicted.dtype) == (np.int64, np.int64)
    np.testing.assert_array_equal(score.test, test)
    np.testing.assert_array_equal(score.predicted, expected)
    assert score.accuracy == np.mean(score.predicted == truth)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", [*FOLD_BY_FOLD, *CROSS_VALIDATED])
def test_predictions_are_scikit_learns_on_the_test_samples(name, data):
    X, y = DATA[data]
    folds = outer_folds(y, **FOLDS)
    if name in CROSS_VALIDATED:
        validate, model = CROSS_VALIDATED[name]
        scores = validate(X, y).folds
    else:
        score_fold, model = FOLD_BY_FOLD[name]
        scores = [score_fold(X, y, fold, C_grid=SETTINGS["C_grid"], seed=3) for fold in folds]
    for score, fold in zip(scores, folds, strict=True):
        fitted = model(score.chosen).fit(X[fold.train], y[fold.train])
        check(score, y[fold.test], fold.test, fitted.predict(X[fold.test]))


@pytest.mark.parametrize("name", FOLD_BY_FOLD)
def test_predictions_follow_their_samples(name):
    """In another order of the whole set, and of the test samples."""
    X, y = made_up()
    score = partial(FOLD_BY_FOLD[name][0], C_grid=SETTINGS["C_grid"], seed=3)
    fold = outer_folds(y, **FOLDS)[1]
    order = np.random.default_rng(1).permutation(len(y))  # the new sample i is the old order[i]
    now = np.argsort(order)
    reverse = fold.test[::-1]
    ours = score(X, y, fold)
    moved = score(X[order], y[order], Fold(now[fold.train], now[reverse]))
    assert len(set(ours.predicted)) > 1
    check(moved, y[reverse], now[reverse], ours.predicted[::-1])


ADAM = ProbeRecipe(epochs=10, batch_size=32, rates=(1e-3, 0.1))
LOGISTIC = ProbeRecipe(solver="logistic", C_grid=(0.01, 1.0))


@pytest.mark.parametrize("recipe", [ADAM, LOGISTIC])
@pytest.mark.parametrize("data", DATA)
def test_predictions_of_an_official_split_are_in_its_order(data, recipe):
    X, y = DATA[data]
    X = StandardScaler().fit_transform(X).astype(np.float32)
    fold = outer_folds(y, **FOLDS)[0]
    parts = X[fold.train], y[fold.train]
    ours = linear_probe(*parts, X[fold.test], y[fold.test], seed=0, recipe=recipe)
    expected = ours.predicted
    if recipe.solver == "logistic":
        fitted = scaled(logistic(ours.chosen)).fit(*(part.astype(float) for part in parts))
        expected = fitted.predict(X[fold.test])
    rows = np.arange(len(fold.test))
    check(ours, y[fold.test], rows, expected)
    assert ours.accuracy > 0.6
    test = fold.test[::-1]
    other = np.full(len(test), y[0])  # labels that are wrong change no prediction
    check(linear_probe(*parts, X[test], other, seed=0, recipe=recipe), other, rows, expected[::-1])
