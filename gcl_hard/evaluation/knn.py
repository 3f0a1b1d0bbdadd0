"""Nearest-neighbour probe: how far an embedding's neighbourhood agrees on the class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from numpy.typing import ArrayLike
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gcl_hard.errors import InputError, unknown
from gcl_hard.evaluation.checks import check_at_least, check_embeddings
from gcl_hard.evaluation.nested import CrossValidation, cross_validate, grid_search_fold
from gcl_hard.evaluation.splits import check_labels, outer_folds

K_GRID = (1, 3, 5, 10, 20)

Metric = Literal["euclidean", "cosine"]


def knn_cross_validation(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    seed: int,
    n_folds: int = 10,
    n_inner: int = 5,
    n_neighbors: int | Sequence[int] = K_GRID,
    metric: Metric = "euclidean",
    standardise: bool = True,
    n_jobs: int = 1,
) -> CrossValidation:
    """Accuracy of a k-nearest-neighbour vote, k chosen inside each training fold.

    Args:
        embeddings: real numbers [n, d].
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        n_neighbors: k >= 1, or the candidates for k; the smallest of several best ones is chosen.
        metric: "euclidean" or "cosine".
        standardise: scale each column by the mean and deviation of the training subset.
        n_jobs: outer folds scored at a time, >= 1.

    Returns:
        One score per outer fold, in the order of ``outer_folds``; ``chosen`` is k.

    Raises:
        InputError: embeddings, labels or settings that cannot be used.

    Source: scikit-learn, ``sklearn.neighbors.KNeighborsClassifier``.

    Example:
        >>> import numpy as np
        >>> x, y = np.arange(40.0)[:, None], np.arange(40) // 20
        >>> knn_cross_validation(x, y, seed=0, n_folds=5, n_neighbors=1).folds[0].chosen
        1.0
    """
    X = check_embeddings(embeddings)
    y = check_labels(labels, len(X), n_folds)
    if metric not in get_args(Metric):
        raise unknown("metric", metric, get_args(Metric))
    check_at_least("n_inner", n_inner, 2)
    folds = outer_folds(y, seed=seed, n_folds=n_folds)
    n_train = min(len(fold.train) for fold in folds)
    grid = _k_grid(n_neighbors, most=n_train - -(-n_train // n_inner))
    steps = [StandardScaler()] if standardise else []
    model = make_pipeline(*steps, KNeighborsClassifier(metric=metric))
    candidates = {"kneighborsclassifier__n_neighbors": grid}
    return cross_validate(
        lambda fold: grid_search_fold(model, candidates, X, y, fold, n_inner=n_inner, seed=seed),
        folds,
        n_jobs=n_jobs,
    )


def _k_grid(n_neighbors: int | Sequence[int], most: int) -> list[int]:
    grid = sorted(n_neighbors) if isinstance(n_neighbors, Sequence) else [n_neighbors]
    if not grid:
        raise InputError("n_neighbors: expected one k or more, got none")
    for k in grid:
        check_at_least("n_neighbors", k, 1)
        if k > most:
            raise InputError(
                f"n_neighbors={k}: expected at most {most}, the samples of an inner training fold"
            )
    return grid
