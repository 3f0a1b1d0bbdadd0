"""The majority class against scikit-learn's dummy classifier."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import StratifiedKFold

from gcl_hard.evaluation import majority_cross_validation

LABELS = {
    "two classes": np.repeat([0, 1], [63, 125]),
    "three classes, other names": np.repeat([-5, 7, 2], [20, 31, 30]),
    "balanced": np.arange(60) % 3,  # a tie in every training fold
    "shares that do not divide": np.repeat([1, 0], [53, 52]),
}


def dummy_scores(y, *, seed, n_folds):
    X = np.zeros((len(y), 1))
    scores = []
    for train, test in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(X, y):
        dummy = DummyClassifier(strategy="most_frequent").fit(X[train], y[train])
        share = dummy.score(X[train], y[train])
        (label,) = set(dummy.predict(X[test]))
        scores.append((dummy.score(X[test], y[test]), label, len(train), len(test), share))
    return scores


@pytest.mark.parametrize("case", LABELS)
@pytest.mark.parametrize("n_folds", [4, 10])
def test_scores_equal_the_dummy_classifier(case, n_folds):
    y = np.random.default_rng(0).permutation(LABELS[case])
    folds = majority_cross_validation(y, seed=3, n_folds=n_folds).folds
    ours = [(s.accuracy, s.chosen, s.n_train, s.n_test, s.inner_accuracy) for s in folds]
    assert ours == dummy_scores(y, seed=3, n_folds=n_folds)
