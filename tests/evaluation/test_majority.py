"""The majority class against scikit-learn's dummy classifier."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import StratifiedKFold

from gcl_hard.errors import InputError
from gcl_hard.evaluation import majority_cross_validation, svm_cross_validation
from tests.said import says

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


def test_an_svm_without_information_scores_as_the_majority():
    y = np.random.default_rng(1).permutation(LABELS["two classes"])
    ours = majority_cross_validation(y, seed=0)
    svm = svm_cross_validation(np.ones((len(y), 2)), y, seed=0)
    assert ours.fold_accuracies == svm.fold_accuracies


def test_scores_without_their_predictions_are_json():
    rows = [asdict(s) for s in majority_cross_validation(LABELS["balanced"], seed=0).folds]
    plain = [{k: v for k, v in row.items() if k not in ("test", "predicted")} for row in rows]
    assert json.loads(json.dumps(plain, allow_nan=False))[0]["chosen"] == 0.0


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"labels": np.zeros(20, int)}, ["labels", "two", "[0]"]),
        ({"labels": np.arange(20) % 2 * 1.0}, ["labels", "integers", "float64"]),
        ({"labels": np.repeat([0, 1], [12, 8])}, ["labels", "class 1", 8, 10]),
        ({"n_folds": 1}, ["n_folds", 2, 1]),
        ({"seed": -1}, ["seed", 0, -1]),
    ],
)
def test_bad_input_is_refused_by_name(change, facts):
    with pytest.raises(InputError) as error:
        majority_cross_validation(**({"labels": np.arange(40) % 2, "seed": 0} | change))
    assert says(str(error.value), *facts)
