"""Nested cross-validation: the scores of the folds, and the loops that all probes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import Floats, Indices, check_at_least
from gcl_hard.evaluation.splits import Fold, outer_folds


@dataclass(frozen=True)
class FoldScore:
    """The score of one fold.

    Args:
        accuracy: share of the test samples classified correctly, in [0, 1].
        chosen: the hyper-parameter chosen inside the training fold: C of the SVM and of the
            linear probe, k of the nearest neighbours; None if nothing was chosen.
        n_train: samples trained on.
        n_test: samples tested on.
        inner_accuracy: mean inner accuracy of ``chosen``, in [0, 1]; None likewise.

    Example:
        >>> FoldScore(0.9, chosen=10.0, n_train=90, n_test=10, inner_accuracy=0.8).chosen
        10.0
    """

    accuracy: float
    chosen: float | None
    n_train: int
    n_test: int
    inner_accuracy: float | None


@dataclass(frozen=True)
class CrossValidation:
    """The scores of all outer folds, in the order of ``outer_folds``.

    Args:
        folds: one score per outer fold.

    Example:
        >>> scores = (FoldScore(0.5, 1.0, 9, 1, 0.8), FoldScore(1.0, 1.0, 9, 1, 0.8))
        >>> CrossValidation(scores).accuracy
        0.75
    """

    folds: tuple[FoldScore, ...]

    @property
    def fold_accuracies(self) -> tuple[float, ...]:
        """Test accuracy of each fold, in [0, 1]."""
        return tuple(score.accuracy for score in self.folds)

    @property
    def accuracy(self) -> float:
        """Mean test accuracy over the folds, with equal weights."""
        return float(np.mean(self.fold_accuracies))

    @property
    def fold_std(self) -> float:
        """Sample standard deviation of the test accuracy over the folds."""
        return float(np.std(self.fold_accuracies, ddof=1))


def inner_folds(labels: Indices, *, n_inner: int, seed: int) -> list[Fold]:
    """Stratified folds inside one training fold.

    Args:
        labels: int64 [n_train], those of the training fold only.
        n_inner: number of inner folds, >= 2.
        seed: seed of the shuffle, >= 0.

    Returns:
        ``n_inner`` folds; indices are positions in the training fold, not in the whole set.

    Raises:
        InputError: a class has fewer than ``n_inner`` members in the training fold.

    Example:
        >>> [fold.test.size for fold in inner_folds(np.arange(8) % 2, n_inner=2, seed=0)]
        [4, 4]
    """
    try:
        return outer_folds(labels, seed=seed, n_folds=n_inner)
    except InputError as error:
        raise InputError(
            f"inner folds of a training fold (n_inner={n_inner}) need as many members of every "
            f"class; leave small classes out ({error})"
        ) from error


def cross_validate(
    score_fold: Callable[[Fold], FoldScore], folds: Sequence[Fold], *, n_jobs: int = 1
) -> CrossValidation:
    """Score every fold, ``n_jobs`` at a time; order and scores do not depend on it.

    Threads, not processes: libsvm and BLAS release the interpreter's lock, so two threads are as
    fast as two processes from a few hundred samples on, and no array is copied.

    Args:
        score_fold: trains on ``fold.train`` and scores on ``fold.test``.
        folds: the outer folds.
        n_jobs: folds scored at a time, >= 1.

    Returns:
        The scores, in the order of ``folds``.

    Raises:
        InputError: ``n_jobs`` below 1.

    Example:
        >>> fold = Fold(np.arange(3), np.array([3]))
        >>> score = FoldScore(1.0, 1.0, 3, 1, 1.0)
        >>> cross_validate(lambda _: score, [fold, fold], n_jobs=2).accuracy
        1.0
    """
    check_at_least("n_jobs", n_jobs, 1)
    if n_jobs == 1:
        return CrossValidation(tuple(map(score_fold, folds)))
    with ThreadPoolExecutor(n_jobs) as pool:
        return CrossValidation(tuple(pool.map(score_fold, folds)))


def grid_search(
    model: BaseEstimator,
    grid: Mapping[str, Sequence[float]],
    embeddings: Floats,
    labels: Indices,
    *,
    seed: int,
    n_folds: int,
    n_inner: int,
    n_jobs: int,
) -> CrossValidation:
    """Nested cross-validation that chooses one hyper-parameter inside each training fold.

    Args:
        model: a scikit-learn classifier or pipeline.
        grid: one parameter's name and its values; the first of several best ones is chosen.
        embeddings: float64 [n, d].
        labels: int64 [n].
        seed: of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        n_jobs: outer folds scored at a time, >= 1.

    Returns:
        One score per outer fold, in the order of ``outer_folds``.

    Raises:
        InputError: settings that cannot be used, or a class that is too small for the folds.

    Source: what scikit-learn's ``GridSearchCV`` inside ``cross_val_score`` does.

    Example:
        >>> from sklearn.neighbors import KNeighborsClassifier
        >>> x, y = np.arange(12.0)[:, None], np.arange(12) // 6
        >>> model, grid = KNeighborsClassifier(), {"n_neighbors": (1, 3)}
        >>> grid_search(model, grid, x, y, seed=0, n_folds=3, n_inner=2, n_jobs=1).accuracy
        1.0
    """
    ((name, values),) = grid.items()

    def accuracy(value: float, train: Indices, test: Indices) -> float:
        fitted: Any = clone(model).set_params(**{name: value})
        fitted.fit(embeddings[train], labels[train])
        return float(fitted.score(embeddings[test], labels[test]))

    def score(fold: Fold) -> FoldScore:
        inside = inner_folds(labels[fold.train], n_inner=n_inner, seed=seed)
        # By hand: GridSearchCV in two threads at once trips over its own warning filters.
        inner = [
            np.mean([accuracy(v, fold.train[f.train], fold.train[f.test]) for f in inside])
            for v in values
        ]
        best = int(np.argmax(inner))
        return FoldScore(
            accuracy(values[best], fold.train, fold.test),
            chosen=float(values[best]),
            n_train=len(fold.train),
            n_test=len(fold.test),
            inner_accuracy=float(inner[best]),
        )

    return cross_validate(score, outer_folds(labels, seed=seed, n_folds=n_folds), n_jobs=n_jobs)
