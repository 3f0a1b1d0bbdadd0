"""Metrics by name: what each computes, and names that are none or another's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    r2_score,
    recall_score,
)

from gcl_hard.errors import InputError
from gcl_hard.evaluation.metrics import METRICS, Metric, alike, metric, register_metric


def test_accuracy_is_scikit_learns_in_percent() -> None:
    rng = np.random.default_rng(0)
    targets, predicted = rng.integers(3, size=(2, 50))
    score = metric("accuracy").score(targets, predicted)
    assert score == pytest.approx(100 * accuracy_score(targets, predicted))


def test_a_name_belongs_to_one_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(METRICS, "error", raising=False)
    error = Metric("error", lambda targets, predicted: 0.0, higher=False, unit="", digits=2)
    register_metric("error", error)
    register_metric("error", error)  # a module that is imported twice
    with pytest.raises(ValueError, match="error"):
        register_metric("error", METRICS["accuracy"])
    assert metric("error") is error
    monkeypatch.delitem(METRICS, "error")
    with pytest.raises(InputError, match=r"errr.*accuracy"):
        metric("errr")


def test_scores_of_unequal_classes_are_scikit_learns() -> None:
    rng = np.random.default_rng(1)
    targets = rng.choice(3, 80, p=[0.8, 0.15, 0.05])
    predicted = np.where(rng.random(80) < 0.6, targets, 0)
    balanced = metric("balanced_accuracy").score(targets, predicted)
    assert balanced == pytest.approx(100 * balanced_accuracy_score(targets, predicted))
    assert balanced == pytest.approx(100 * recall_score(targets, predicted, average="macro"))
    f1 = metric("f1_macro").score(targets, predicted)
    assert f1 == pytest.approx(100 * f1_score(targets, predicted, average="macro"))
    assert metric("balanced_accuracy").score(targets, 0 * predicted) == pytest.approx(100 / 3)


def test_scores_of_tasks_leave_out_what_is_not_known() -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=(60, 3)).astype(float)
    y[rng.random((60, 3)) < 0.2] = np.nan
    y[:, 2] = np.where(np.isnan(y[:, 2]), np.nan, 1.0)  # of one class: not defined
    scores = rng.normal(size=(60, 3))
    known = np.isfinite(y)
    expected = [average_precision_score(y[known[:, k], k], scores[known[:, k], k]) for k in (0, 1)]
    assert metric("average_precision").score(y, scores) == pytest.approx(100 * np.mean(expected))
    numbers = rng.normal(size=60)
    numbers[:5] = np.nan
    score = metric("r2").score(numbers, scores[:, 0])
    assert score == pytest.approx(r2_score(numbers[5:], scores[5:, 0]))
    assert np.isnan(metric("r2").score(np.full(4, np.nan), np.zeros(4)))


def test_metrics_of_one_kind_of_predictions_are_alike() -> None:
    for name in METRICS:
        assert name in alike(name)
        assert all(name in alike(other) for other in alike(name))
    assert "auc" not in alike("accuracy")
    assert {"auc", "average_precision"} <= {*alike("auc")}
