"""Metrics by name: what each computes, and names that are none or another's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from gcl_hard.errors import InputError
from gcl_hard.evaluation.metrics import METRICS, Metric, metric, register_metric


def test_accuracy_is_scikit_learns_in_percent() -> None:
    rng = np.random.default_rng(0)
    targets, predicted = rng.integers(3, size=(2, 50))
    found = metric("accuracy").score(targets, predicted)
    assert found == pytest.approx(100 * accuracy_score(targets, predicted))


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
