"""Logistic regressions at their optimum: no higher than scikit-learn's solvers, on any data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from gcl_hard.evaluation import logistic, logistic_regressions
from gcl_hard.evaluation.splits import PENALTIES, unit_rows

KINDS = "plain", "duplicates", "near duplicates", "constant", "separable", "zeros", "few bits"


def drawn(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    n, d = int(draws.integers(2, 60)), int(draws.choice([1, 2, 7, 20, 80]))
    classes = int(draws.integers(2, min(6, n) + 1))
    x = draws.normal(size=(n, d)) * draws.choice([1, 1e-3])
    x += draws.choice([0, 1, 10]) * draws.normal(size=d)
    y = np.concatenate([np.arange(classes), draws.integers(classes, size=n - classes)])
    half = n - n // 2
    if kind == "duplicates":  # with other labels
        x[n // 2 :] = x[:half]
    elif kind == "near duplicates":
        x[n // 2 :] = x[:half] + 1e-6 * draws.normal(size=(half, d))
    elif kind == "constant":
        x[:, 0] = 3
    elif kind == "separable":
        x += 8 * draws.normal(size=(classes, d))[y]
    elif kind == "zeros":
        x[::3] = 0
    elif kind == "few bits":
        x = 1.0 * (draws.random(x.shape) < 0.1)
    return unit_rows(x), y


def objective(x: np.ndarray, y: np.ndarray, w: np.ndarray, b: np.ndarray, C: float) -> float:
    logits = x @ w.T + b
    if len(b) == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    most = logits.max(1, keepdims=True)
    losses = np.log(np.exp(logits - most).sum(1)) + most[:, 0] - logits[np.arange(len(y)), y]
    return float((w**2).sum() / 2 + C * losses.sum())


def peers(x: np.ndarray, y: np.ndarray, C: float) -> list[float]:
    """Objectives of scikit-learn's solvers, the first as results were made by it."""
    solvers = {"lbfgs": 1e-5, "newton-cg": 1e-9, "newton-cholesky": 1e-12}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [
            LogisticRegression(C=C, tol=tol, max_iter=300, solver=solver).fit(x, y)
            for solver, tol in solvers.items()
        ]
    return [objective(x, y, model.coef_, model.intercept_, C) for model in models]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_no_solver_finds_a_lower_objective(kind: str, seed: int) -> None:
    x, y = drawn(kind, seed)
    grid = [*PENALTIES, 4.0**10, 4.0**13]
    fits = logistic_regressions(csr_array(x) if seed % 3 == 0 else x, y, grid)
    for k in np.random.default_rng(seed).choice(len(grid), 2, replace=False):
        value = objective(x, y, fits.weights[k], fits.offsets[k], grid[k])
        assert value <= min(peers(x, y, grid[k])) * (1 + (1e-9 if k < len(PENALTIES) else 1e-6))


@pytest.mark.parametrize("classes", [2, 5])
def test_the_objective_is_scikit_learns_and_below_where_its_lbfgs_ends(classes: int) -> None:
    """More columns than rows, where L-BFGS ends early."""
    draws = np.random.default_rng(0)
    y = np.arange(80) % classes
    x = unit_rows(np.abs(draws.normal(size=(80, 120)) + 0.5 * np.eye(classes, 120)[y]))
    fits = logistic_regressions(x, y, PENALTIES)
    for w, b, C in zip(*fits, PENALTIES, strict=True):
        value, (lbfgs, *others) = objective(x, y, w, b, C), peers(x, y, C)
        assert value <= lbfgs * (1 + 1e-11)
        assert value == pytest.approx(min(others), rel=1e-8)
    model = LogisticRegression(C=4.0, tol=1e-10, max_iter=5000, solver="newton-cg").fit(x, y)
    k = PENALTIES.index(4.0)
    np.testing.assert_allclose(fits.weights[k], model.coef_, atol=1e-4)
    np.testing.assert_allclose(
        fits.offsets[k] - fits.offsets[k].mean() * (classes > 2),
        model.intercept_ - model.intercept_.mean() * (classes > 2), atol=1e-3,
    )  # fmt: skip


def test_each_penalty_alone_and_all_in_turn_have_one_optimum() -> None:
    x, y = drawn("plain", 4)
    weights, _ = logistic_regressions(x, y, PENALTIES)
    for k in (0, 6, 12):
        alone = logistic_regressions(x, y, [PENALTIES[k]]).weights[0]
        np.testing.assert_allclose(weights[k], alone, atol=1e-4 * np.abs(alone).max())


def test_sparse_rows_that_stay_sparse_have_the_optimum_of_dense_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed in range(4):
        x, y = drawn("few bits", seed)
        expected = logistic_regressions(x, y, PENALTIES)
        monkeypatch.setattr(logistic, "DENSE", 0)
        monkeypatch.setattr(logistic, "DENSER", 0)
        fits = logistic_regressions(csr_array(x), y, PENALTIES)
        monkeypatch.undo()
        for k, C in enumerate(PENALTIES):
            values = [objective(x, y, f.weights[k], f.offsets[k], C) for f in (fits, expected)]
            assert values[0] == pytest.approx(values[1], rel=1e-7)


def test_double_precision_takes_over_where_single_has_too_few_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = drawn("duplicates", 3)
    expected = logistic_regressions(x, y, PENALTIES)
    monkeypatch.setattr(logistic, "SINGLE", 0.0)
    fits = logistic_regressions(x, y, PENALTIES)
    for k, C in enumerate(PENALTIES):
        values = [objective(x, y, f.weights[k], f.offsets[k], C) for f in (fits, expected)]
        assert values[0] == pytest.approx(values[1], rel=1e-9)
