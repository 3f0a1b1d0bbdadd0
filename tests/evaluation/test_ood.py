"""Detection of unknown classes, against scikit-learn and slow loops."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    f1_score,
    roc_auc_score,
    roc_curve,
)
from sklearn.neighbors import LocalOutlierFactor

from gcl_hard.errors import InputError
from gcl_hard.evaluation import (
    OpenSet,
    ThreeWaySplit,
    energy_score,
    knn_score,
    known_draws,
    lof_score,
    mahalanobis_score,
    open_set,
    random_splits,
)
from gcl_hard.evaluation.metrics import DETECTORS, METRICS, OPEN, alike, metric
from gcl_hard.experiments import record

CLASSES = 6


def problem(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(0)
    y = draws.integers(CLASSES, size=n)
    return draws.normal(size=(n, 8)) + 1.5 * np.eye(CLASSES, 8)[y], y


def units(z: np.ndarray) -> np.ndarray:
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def one_split(share: float = 0.5, k: int = 0) -> ThreeWaySplit:
    y = problem()[1]
    return known_draws(y, random_splits(range(len(y)), k + 1, shares=(0.4, 0.2)), share)[k]


def scored() -> tuple[np.ndarray, np.ndarray, ThreeWaySplit, OpenSet]:
    z, y = problem()
    split = one_split()
    return z, y, split, open_set(z, y, split, penalties=(0.1, 1.0, 10.0))


def test_distances_to_neighbours_are_those_of_a_slow_loop() -> None:
    z, _ = problem()
    train, asked = z[:90], z[90:120]
    for k in (1, 7):
        expected = [sorted(1 - units(train) @ units(asked)[i])[k - 1] for i in range(30)]
        assert np.allclose(knn_score(train, asked, k), expected)


def test_local_outlier_factors_are_scikit_learns() -> None:
    z, _ = problem()
    model = LocalOutlierFactor(novelty=True).fit(units(z[:90]))
    assert np.allclose(lof_score(z[:90], z[90:]), -model.score_samples(units(z[90:])))


def test_mahalanobis_distances_are_those_of_a_slow_loop() -> None:
    z, y = problem()
    train, known, asked = units(z[:90]), y[:90], units(z[90:120])
    means = {c: train[known == c].mean(0) for c in set(known.tolist())}
    centred = np.array([row - means[c] for row, c in zip(train, known.tolist(), strict=True)])
    inverse = np.linalg.inv(LedoitWolf(assume_centered=True).fit(centred).covariance_)
    expected = [min(mahalanobis(row, m, inverse) ** 2 for m in means.values()) for row in asked]
    assert np.allclose(mahalanobis_score(z[:90], known, z[90:120]), expected)


@pytest.mark.parametrize("share", [0.35, 0.5])  # two known classes, which have one logit, and three
def test_energies_and_classes_are_those_of_a_regression(share: float) -> None:
    z, y = problem()
    split = one_split(share)
    result = open_set(z, y, split, penalties=(0.5, 2.0))
    train, valid, test = (units(z[ids]) for ids in split)
    models = [LogisticRegression(C=c, tol=1e-8, max_iter=5000) for c in (0.5, 2.0)]
    accuracies = [m.fit(train, y[split.train]).score(valid, y[split.valid]) for m in models]
    best = int(np.argmax(accuracies))
    assert result.chosen == (0.5, 2.0)[best]
    assert result.validation == pytest.approx(100 * accuracies[best])
    logits = [models[best].decision_function(x) for x in (valid, test)]
    if logits[0].ndim == 1:
        logits = [np.stack([-x / 2, x / 2], axis=1) for x in logits]
    energies = [-np.log(np.exp(x).sum(1)) for x in logits]
    threshold = sorted(energies[0])[int(np.ceil(0.95 * len(energies[0]))) - 1]
    assert np.allclose(result.predicted[:, 4], energies[1] - threshold, atol=1e-3)
    assert np.allclose(energy_score(logits[1]), energies[1])
    assert np.mean(result.predicted[:, 0] == models[best].predict(test)) > 0.99


def test_thresholds_keep_95_percent_of_validation_items_and_no_fewer() -> None:
    z, y, split, result = scored()
    train, valid, test = (z[ids] for ids in split)
    for column, score in enumerate([
        lambda x: knn_score(train, x), lambda x: lof_score(train, x),
        lambda x: mahalanobis_score(train, y[split.train], x),
    ], start=1):  # fmt: skip
        threshold = (score(test) - result.predicted[:, column]).mean()
        assert np.allclose(score(test) - threshold, result.predicted[:, column])
        n_kept = int(np.sum(score(valid) <= threshold + 1e-9))
        assert n_kept == np.ceil(0.95 * len(valid))


@pytest.mark.parametrize("detector", DETECTORS)
def test_metrics_are_scikit_learns(detector: str) -> None:
    _, y, split, result = scored()
    margins = result.predicted[:, [*DETECTORS].index(detector) + 1]
    is_open = ~np.isin(y[split.test], y[split.train])
    # the share of unknown items that pass where 95 % of the known ones do
    rates = roc_curve(~is_open, -margins, drop_intermediate=False)
    targets = np.where(is_open, OPEN, y[split.test])
    predicted = np.where(margins > 0, OPEN, result.predicted[:, 0])
    expected = {
        "auroc": roc_auc_score(is_open, margins),
        "aupr": average_precision_score(is_open, margins),
        "fpr95": rates[0][rates[1] >= 0.95][0],
        "open_accuracy": accuracy_score(targets, predicted),
        "open_f1_macro": f1_score(targets, predicted, average="macro"),
        "open_f1": f1_score(targets == OPEN, predicted == OPEN),
    }
    of_record = record.Scored((record.Tested(split.test, result.targets, result.predicted),))
    names = [f"{name}_{detector}" for name in expected]
    assert {*names} <= {*alike("auroc_knn")}
    for name, value in expected.items():
        score = metric(f"{name}_{detector}").score(result.targets, result.predicted)
        assert score == pytest.approx(100 * value)
        stored = of_record.scores([f"{name}_{detector}"])[f"{name}_{detector}"][0]
        assert stored == pytest.approx(score)


def test_metrics_without_unknown_items_are_not_defined() -> None:
    targets, predicted = np.zeros((5, 5), int), np.zeros((5, 5))
    for name in ("auroc", "aupr", "fpr95", "open_f1"):
        with warnings.catch_warnings(action="ignore"):
            assert np.isnan(METRICS[f"{name}_knn"].score(targets, predicted))


@pytest.mark.parametrize("share", [0.35, 0.5, 0.7])
def test_unknown_items_in_training_and_validation_change_no_number(share: float) -> None:
    z, y = problem()
    splits = random_splits(range(len(y)), 2, shares=(0.4, 0.2))
    for split, whole in zip(known_draws(y, splits, share), splits, strict=True):
        left_out = np.setdiff1d(np.concatenate(whole), np.concatenate(split))
        known = np.unique(y[split.train])
        assert np.array_equal(left_out, [i for i in np.sort([*whole.train, *whole.valid])
                                         if y[i] not in known])  # fmt: skip
        poisoned, others = z.copy(), y.copy()
        poisoned[left_out], others[left_out] = np.nan, 10**6
        clean = open_set(z, y, split, penalties=(1.0, 10.0))
        for ours, theirs in zip(clean, open_set(poisoned, others, split, penalties=(1.0, 10.0)),
                                strict=True):  # fmt: skip
            assert np.array_equal(ours, theirs)


def test_classes_of_unknown_test_items_are_not_read_beyond_that() -> None:
    z, y = problem()
    split = one_split()
    others = np.where(np.isin(y, y[split.train]), y, 77)
    for ours, theirs in zip(open_set(z, y, split), open_set(z, others, split), strict=True):
        assert np.array_equal(ours, theirs)


def test_known_draws_grow_with_the_share_and_are_refused_where_they_cannot_be() -> None:
    y = problem()[1]
    splits = random_splits(range(len(y)), 3, shares=(0.4, 0.2))
    few, many = known_draws(y, splits, 0.35), known_draws(y, splits, 0.7)
    for a, b, whole in zip(few, many, splits, strict=True):
        assert {*y[a.train]} < {*y[b.train]}
        assert len({*y[a.train]}) == 2
        assert len({*y[b.train]}) == 4
        assert np.array_equal(a.test, whole.test)
        assert np.array_equal(np.unique(y[a.train]), np.unique(y[a.valid]))
    unlabelled = np.where(y == 0, -1, y)
    assert all(unlabelled[ids].min() > 0 for ids in known_draws(unlabelled, splits, 0.5)[0])
    for share in (0.1, 0.99, 1.5):  # one class, all classes, no share
        with pytest.raises(InputError):
            known_draws(y, splits, share)


def test_what_cannot_be_scored_is_refused() -> None:
    z, y = problem()
    split = one_split()
    unknown = np.flatnonzero(~np.isin(y, y[split.train]))
    with pytest.raises(InputError):
        open_set(z, y, split._replace(valid=unknown[:9]))
    with pytest.raises(InputError):
        open_set(np.where(np.arange(len(z))[:, None] == split.test[0], np.nan, z), y, split)
    for k in (0, 90):
        with pytest.raises(InputError):
            knn_score(z[:90], z, k)
