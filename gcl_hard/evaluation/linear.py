"""Linear probe: how well a logistic regression separates the classes."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gcl_hard.evaluation.checks import check_at_least, check_embeddings, check_grid
from gcl_hard.evaluation.nested import CrossValidation, cross_validate, grid_search_fold
from gcl_hard.evaluation.splits import check_labels, outer_folds
from gcl_hard.evaluation.svm import C_GRID


def linear_cross_validation(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    seed: int,
    n_folds: int = 10,
    n_inner: int = 5,
    C_grid: Sequence[float] = C_GRID,
    max_iter: int = 10_000,
    n_jobs: int = 1,
) -> CrossValidation:
    """Accuracy of a logistic regression on standardised embeddings, C chosen inside each fold.

    Args:
        embeddings: real numbers [n, d].
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        C_grid: candidates for the inverse strength of the L2 penalty, each > 0; the smallest of
            several best ones is chosen.
        max_iter: most iterations of one fit, >= 1.
        n_jobs: outer folds scored at a time, >= 1.

    Returns:
        One score per outer fold, in the order of ``outer_folds``; ``chosen`` is C.

    Raises:
        InputError: embeddings, labels or settings that cannot be used.

    Source: scikit-learn, ``sklearn.linear_model.LogisticRegression``.

    Example:
        >>> import numpy as np
        >>> x, y = np.arange(40.0)[:, None], np.arange(40) // 20
        >>> len(linear_cross_validation(x, y, seed=0, n_folds=5, C_grid=[1.0]).folds)
        5
    """
    X = check_embeddings(embeddings)
    y = check_labels(labels, len(X), n_folds)
    check_at_least("max_iter", max_iter, 1)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=max_iter))
    candidates = {"logisticregression__C": check_grid("C_grid", C_grid)}
    return cross_validate(
        lambda fold: grid_search_fold(model, candidates, X, y, fold, n_inner=n_inner, seed=seed),
        outer_folds(y, seed=seed, n_folds=n_folds),
        n_jobs=n_jobs,
    )
