"""Support vector machines of graph classification, RBF or by a given kernel, C chosen inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from gcl_hard.evaluation.checks import Floats, check_embeddings, check_grid, check_kernel
from gcl_hard.evaluation.folds import Fold, check_labels, outer_folds
from gcl_hard.evaluation.nested import CrossValidation, FoldScore, cross_validate, inner_folds

C_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)

Indices = NDArray[np.int64]
Kernel = Callable[[Indices, Indices], Floats]
"""Training and test indices to the kernel of both, in that order, against the training rows."""


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
    problem = _embedded(embeddings, labels, n_folds=2, standardise=standardise)
    return problem.fold(fold, C_grid=C_grid, n_inner=n_inner, seed=seed)


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
    problem = _embedded(embeddings, labels, n_folds=n_folds, standardise=standardise)
    return problem.folds(C_grid=C_grid, n_inner=n_inner, seed=seed, n_folds=n_folds, n_jobs=n_jobs)


def kernel_fold(
    kernel: ArrayLike,
    labels: ArrayLike,
    fold: Fold,
    *,
    C_grid: Sequence[float] = C_GRID,
    n_inner: int = 5,
    seed: int = 0,
) -> FoldScore:
    """Accuracy of an SVM with a given kernel on one outer fold, C chosen inside it.

    As ``svm_fold``, with ``kernel[i, j]`` in place of exp(-gamma ‖x_i - x_j‖²).

    Args:
        kernel: real numbers [n, n] of the whole set, symmetric up to rounding; the SVM also
            wants it positive semi-definite, which is not checked.
        labels: integers [n] of the whole set.
        fold: the samples to train on and to test on.
        C_grid: candidates for the penalty C, each > 0; the smallest of several best ones is
            chosen. They suit a kernel with ones on its diagonal: normalise yours.
        n_inner: inner folds, >= 2; every class has as many members in the training fold.
        seed: of the inner folds, >= 0.

    Returns:
        The fold's score; ``chosen`` is C.

    Raises:
        InputError: kernel, labels, fold or grid that cannot be used.

    Source: as ``svm_fold``, with ``SVC(kernel="precomputed")``.

    Example:
        >>> y = np.arange(40) // 20
        >>> x = np.arange(40.0) + 10 * y
        >>> kernel = np.exp(-np.abs(x[:, None] - x) / 10)
        >>> kernel_fold(kernel, y, Fold(np.arange(0, 40, 2), np.arange(1, 40, 2))).accuracy
        1.0
    """
    problem = _precomputed(kernel, labels, n_folds=2)
    return problem.fold(fold, C_grid=C_grid, n_inner=n_inner, seed=seed)


def kernel_cross_validation(
    kernel: ArrayLike,
    labels: ArrayLike,
    *,
    seed: int,
    n_folds: int = 10,
    n_inner: int = 5,
    C_grid: Sequence[float] = C_GRID,
    n_jobs: int = 1,
) -> CrossValidation:
    """Accuracy of an SVM with a given kernel by nested cross-validation (``kernel_fold``).

    The folds are those of ``svm_cross_validation`` with the same labels and seed.

    Args:
        kernel: real numbers [n, n], symmetric up to rounding.
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        C_grid: candidates for the penalty C, each > 0.
        n_jobs: outer folds scored at a time, >= 1; the scores do not depend on it.

    Returns:
        One score per outer fold, in the order of ``outer_folds``; ``chosen`` is C.

    Raises:
        InputError: kernel, labels or settings that cannot be used.

    Source: as ``kernel_fold``.

    Example:
        >>> y = np.arange(40) // 20
        >>> x = np.arange(40.0) + 10 * y
        >>> kernel = np.exp(-np.abs(x[:, None] - x) / 10)
        >>> len(kernel_cross_validation(kernel, y, seed=0, n_folds=5).folds)
        5
    """
    problem = _precomputed(kernel, labels, n_folds=n_folds)
    return problem.folds(C_grid=C_grid, n_inner=n_inner, seed=seed, n_folds=n_folds, n_jobs=n_jobs)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Checked labels and a kernel: all that folds need."""

    y: Indices
    kernel: Kernel

    def fold(self, fold: Fold, *, C_grid: Sequence[float], n_inner: int, seed: int) -> FoldScore:
        """One fold of the caller's."""
        last = max(fold.train.max(), fold.test.max())
        if last >= len(self.y):
            raise InputError(f"fold: index {last} is beyond the {len(self.y)} samples")
        return self._score(fold, C_grid=check_grid("C_grid", C_grid), n_inner=n_inner, seed=seed)

    def folds(
        self, *, C_grid: Sequence[float], n_inner: int, seed: int, n_folds: int, n_jobs: int
    ) -> CrossValidation:
        """All outer folds."""
        grid = check_grid("C_grid", C_grid)
        score = partial(self._score, C_grid=grid, n_inner=n_inner, seed=seed)
        return cross_validate(score, outer_folds(self.y, seed=seed, n_folds=n_folds), n_jobs=n_jobs)

    def _score(self, fold: Fold, *, C_grid: Sequence[float], n_inner: int, seed: int) -> FoldScore:
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

    def _accuracies(self, train: Indices, test: Indices, C_grid: Sequence[float]) -> list[float]:
        """Test accuracy for each C: one kernel, built once, serves the whole grid."""
        kernel = self.kernel(train, test)
        fit, held_out = kernel[: len(train)], kernel[len(train) :]
        accuracies = []
        for C in C_grid:
            predicted = SVC(C=C, kernel="precomputed").fit(fit, self.y[train]).predict(held_out)
            accuracies.append(float(np.mean(predicted == self.y[test])))
        return accuracies


def _embedded(
    embeddings: ArrayLike, labels: ArrayLike, *, n_folds: int, standardise: bool
) -> _Problem:
    """The problem of checked embeddings under the RBF kernel."""
    X = check_embeddings(embeddings)
    return _Problem(check_labels(labels, len(X), n_folds), _rbf(X, standardise=standardise))


def _precomputed(kernel: ArrayLike, labels: ArrayLike, *, n_folds: int) -> _Problem:
    """The problem of a checked kernel matrix."""
    K = check_kernel(kernel)
    y = check_labels(labels, len(K), n_folds)
    return _Problem(y, lambda train, test: K[np.ix_(np.concatenate([train, test]), train)])


def _rbf(X: Floats, *, standardise: bool) -> Kernel:
    """The RBF kernel; of raw embeddings, all folds share the squared distances."""
    squared = None if standardise else squareform(pdist(X, "sqeuclidean"))

    def kernel(train: Indices, test: Indices) -> Floats:
        rows = np.concatenate([train, test])
        if squared is None:
            Z = StandardScaler().fit(X[train]).transform(X[rows])
            variance = Z[: len(train)].var()
            K: Floats = euclidean_distances(Z, Z[: len(train)], squared=True)
            np.fill_diagonal(K, 0.0)
        else:
            variance = X[train].var()
            K = squared[np.ix_(rows, train)]
        K *= -1.0 / (X.shape[1] * variance) if variance != 0 else -1.0
        return np.exp(K, out=K)

    return kernel
