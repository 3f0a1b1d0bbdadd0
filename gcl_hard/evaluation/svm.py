"""The RBF support vector machine of graph classification, C chosen inside each training fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import pdist, squareform
from sklearn import config_context
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import check_embeddings, check_grid
from gcl_hard.evaluation.folds import Fold, check_labels, outer_folds
from gcl_hard.evaluation.nested import CrossValidation, FoldScore, cross_validate, inner_folds

C_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)

FloatMatrix = NDArray[np.float64]


def svm_fold(
    embeddings: ArrayLike,
    labels: ArrayLike,
    fold: Fold,
    *,
    standardise: bool = True,
    C_grid: Sequence[float] = C_GRID,
    n_inner: int = 5,
    seed: int = 0,
) -> FoldScore:
    """Accuracy of an RBF SVM on one outer fold, C chosen by cross-validation inside it.

    The kernel is exp(-gamma ‖x - y‖²) with gamma = 1 / (d · var(X)), X being the (standardised)
    training subset of each fit; the smallest C of several best ones is chosen.

    Args:
        embeddings: real numbers [n, d] of the whole set.
        labels: integers [n] of the whole set.
        fold: the samples to train on and to test on.
        standardise: scale each column by the mean and deviation of the training subset.
        C_grid: candidates for the penalty C, each > 0.
        n_inner: inner folds, >= 2; every class has as many members in the training fold.
        seed: of the inner folds, >= 0.

    Returns:
        The fold's score; ``chosen`` is C.

    Raises:
        InputError: embeddings, labels, fold or grid that cannot be used.

    Source: scikit-learn, ``sklearn.svm.SVC`` inside ``sklearn.model_selection.GridSearchCV``:
        same C and accuracy; Chang and Lin, LIBSVM, 2011, Eq. 1.

    Example:
        >>> x, y = np.arange(40.0)[:, None], np.arange(40) // 20
        >>> svm_fold(x, y, Fold(np.arange(0, 40, 2), np.arange(1, 40, 2))).accuracy
        1.0
    """
    problem = _Problem.checked(embeddings, labels, n_folds=2, standardise=standardise)
    last = max(fold.train.max(), fold.test.max())
    if last >= len(problem.y):
        raise InputError(f"fold: index {last} is beyond the {len(problem.y)} samples")
    return problem.score(fold, C_grid=check_grid("C_grid", C_grid), n_inner=n_inner, seed=seed)


def svm_cross_validation(
    embeddings: ArrayLike,
    labels: ArrayLike,
    *,
    seed: int,
    n_folds: int = 10,
    n_inner: int = 5,
    C_grid: Sequence[float] = C_GRID,
    standardise: bool = True,
    n_jobs: int = 1,
) -> CrossValidation:
    """Accuracy of an RBF SVM by nested, stratified cross-validation (``svm_fold`` on each fold).

    Args:
        embeddings: real numbers [n, d].
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        C_grid: candidates for the penalty C, each > 0.
        standardise: scale each column by the mean and deviation of the training subset.
        n_jobs: outer folds scored at a time, >= 1; the scores do not depend on it.

    Returns:
        One score per outer fold, in the order of ``outer_folds``; ``chosen`` is C.

    Raises:
        InputError: embeddings, labels or settings that cannot be used.

    Source: as ``svm_fold``; the protocol is InfoGraph's (Sun et al., 2020).

    Example:
        >>> x, y = np.arange(40.0)[:, None], np.arange(40) // 20
        >>> len(svm_cross_validation(x, y, seed=0, n_folds=5).folds)
        5
    """
    problem = _Problem.checked(embeddings, labels, n_folds=n_folds, standardise=standardise)
    score = partial(problem.score, C_grid=check_grid("C_grid", C_grid), n_inner=n_inner, seed=seed)
    folds = outer_folds(problem.y, seed=seed, n_folds=n_folds)
    return cross_validate(score, folds, n_jobs=n_jobs)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Checked embeddings and labels; when raw, the squared distances that all folds share."""

    X: FloatMatrix
    y: NDArray[np.int64]
    squared: FloatMatrix | None

    @classmethod
    def checked(
        cls, embeddings: ArrayLike, labels: ArrayLike, *, n_folds: int, standardise: bool
    ) -> _Problem:
        X = check_embeddings(embeddings)
        y = check_labels(labels, len(X), n_folds)
        return cls(X, y, None if standardise else squareform(pdist(X, "sqeuclidean")))

    def score(self, fold: Fold, *, C_grid: Sequence[float], n_inner: int, seed: int) -> FoldScore:
        """Choose C inside the training fold, refit on all of it, score on the test part."""
        inside = inner_folds(self.y[fold.train], n_inner=n_inner, seed=seed)
        # Inputs are checked already; the option is local to a thread, so it is set in here.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            inner = [
                self._accuracies(fold.train[part.train], fold.train[part.test], C_grid)
                for part in inside
            ]
            # Summed in GridSearchCV's order, so that ties are its ties to the last bit.
            means = np.array(inner).T.copy().mean(axis=1)
            best = int(means.argmax())
            (accuracy,) = self._accuracies(fold.train, fold.test, [C_grid[best]])
        return FoldScore(
            accuracy, C_grid[best], len(fold.train), len(fold.test), float(means[best])
        )

    def _accuracies(
        self, train: NDArray[np.int64], test: NDArray[np.int64], C_grid: Sequence[float]
    ) -> list[float]:
        """Test accuracy for each C: one kernel, built once, serves the whole grid."""
        kernel = self._kernel(train, test)
        fit, held_out = kernel[: len(train)], kernel[len(train) :]
        accuracies = []
        for C in C_grid:
            predicted = SVC(C=C, kernel="precomputed").fit(fit, self.y[train]).predict(held_out)
            accuracies.append(float(np.mean(predicted == self.y[test])))
        return accuracies

    def _kernel(self, train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatMatrix:
        """RBF kernel of the training rows, then the test rows, against the training rows."""
        rows = np.concatenate([train, test])
        if self.squared is None:
            Z = StandardScaler().fit(self.X[train]).transform(self.X[rows])
            variance = Z[: len(train)].var()
            kernel: FloatMatrix = euclidean_distances(Z, Z[: len(train)], squared=True)
            np.fill_diagonal(kernel, 0.0)
        else:
            variance = self.X[train].var()
            kernel = self.squared[np.ix_(rows, train)]
        kernel *= -1.0 / (self.X.shape[1] * variance) if variance != 0 else -1.0
        return np.exp(kernel, out=kernel)
