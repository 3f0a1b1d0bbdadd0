"""Nested cross-validation of support vector machines, on embeddings or on a given kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.svm import SVC

from gcl_hard.errors import InputError
from gcl_hard.evaluation.checks import Indices, check_grid, check_numbers
from gcl_hard.evaluation.kernels import (
    C_GRID,
    Kernel,
    KernelName,
    check_kernel,
    embedding_kernel,
    given_kernel,
    sum_kernel,
)
from gcl_hard.evaluation.nested import CrossValidation, FoldScore, cross_validate, inner_folds
from gcl_hard.evaluation.splits import Fold, check_labels, outer_folds

__all__ = [
    "C_GRID",
    "kernel_cross_validation",
    "kernel_fold",
    "svm_cross_validation",
    "svm_fold",
]

MOST_STEPS = 10_000_000
"""Iteration limit of libsvm's solver, which may cycle when C is large and the kernel has low rank;
it then warns. Fits that converge take some thousand."""


def svm_fold(
    embeddings: ArrayLike,
    labels: ArrayLike,
    fold: Fold,
    *,
    standardise: bool = True,
    C_grid: Sequence[float] = C_GRID,
    n_inner: int = 5,
    seed: int = 0,
    kernel: KernelName = "rbf",
    added: ArrayLike | None = None,
    weight: float = 1.0,
) -> FoldScore:
    """Accuracy of an SVM on one outer fold, C chosen by cross-validation inside it.

    The ``rbf`` kernel is exp(-gamma ‖x - y‖²), the ``linear`` one gamma ⟨x, y⟩, both with
    gamma = 1 / (d · var(X)), X being the (standardised) training subset of each fit. The SVM sees
    kernel(x_i, x_j) + weight · added[i, j]. The smallest C of several best ones is chosen; a C of
    ``linear`` is C · gamma of ``SVC(kernel="linear")``.

    Args:
        embeddings: real numbers [n, d] of the whole set.
        labels: integers [n] of the whole set.
        fold: the samples to train on and to test on.
        standardise: scale each column by the mean and deviation of the training subset.
        C_grid: candidates for the penalty C, each > 0.
        n_inner: inner folds, >= 2; every class has as many members in the training fold.
        seed: of the inner folds, >= 0.
        kernel: ``rbf`` or ``linear``, of the embeddings.
        added: real numbers [n, n], a kernel of the whole set as in ``kernel_fold``; None adds
            nothing. The diagonal of ``rbf`` is 1, that of ``linear`` about 1 on average.
        weight: of ``added``, positive and finite.

    Returns:
        The fold's score; ``chosen`` is C.

    Raises:
        InputError: embeddings, labels, fold, grid, kernel or weight that cannot be used.

    Source: scikit-learn, ``sklearn.svm.SVC`` inside ``sklearn.model_selection.GridSearchCV``:
        same C and accuracy; Chang and Lin, LIBSVM, 2011, Eq. 1.

    Example:
        >>> x, y = np.arange(40.0)[:, None], np.arange(40) // 20
        >>> svm_fold(x, y, Fold(np.arange(0, 40, 2), np.arange(1, 40, 2))).accuracy
        1.0
    """
    svm = _of_embeddings(
        embeddings, labels, 2, standardise=standardise, kernel=kernel, added=added, weight=weight,
        C_grid=C_grid, n_inner=n_inner, seed=seed,
    )  # fmt: skip
    return svm(fold)


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
    kernel: KernelName = "rbf",
    added: ArrayLike | None = None,
    weight: float = 1.0,
) -> CrossValidation:
    """Accuracy of an SVM by nested, stratified cross-validation (``svm_fold`` on each fold).

    Args:
        embeddings: real numbers [n, d].
        labels: integers [n]; every class has at least ``n_folds`` members.
        seed: of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        C_grid: candidates for the penalty C, each > 0.
        standardise: scale each column by the mean and deviation of the training subset.
        n_jobs: outer folds scored at a time, >= 1; the scores do not depend on it.
        kernel: ``rbf`` or ``linear``, of the embeddings.
        added: a kernel of the same samples [n, n] to add, or None.
        weight: of ``added``, positive and finite.

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
    svm = _of_embeddings(
        embeddings, labels, n_folds, standardise=standardise, kernel=kernel, added=added,
        weight=weight, C_grid=C_grid, n_inner=n_inner, seed=seed,
    )  # fmt: skip
    return cross_validate(svm, outer_folds(svm.y, seed=seed, n_folds=n_folds), n_jobs=n_jobs)


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

    As ``svm_fold``, with ``kernel[i, j]`` in place of the kernel of the embeddings.

    Args:
        kernel: real numbers [n, n] of the whole set, symmetric up to rounding; it should also
            be positive semi-definite, which is not checked.
        labels: integers [n] of the whole set.
        fold: the samples to train on and to test on.
        C_grid: candidates for the penalty C, each > 0; the smallest of several best ones is
            chosen. The default suits a kernel with ones on its diagonal: normalise yours.
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
    return _of_kernel(kernel, labels, 2, C_grid=C_grid, n_inner=n_inner, seed=seed)(fold)


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
    svm = _of_kernel(kernel, labels, n_folds, C_grid=C_grid, n_inner=n_inner, seed=seed)
    return cross_validate(svm, outer_folds(svm.y, seed=seed, n_folds=n_folds), n_jobs=n_jobs)


@dataclass(frozen=True, eq=False)
class _NestedSVM:
    """Scores folds of one problem, with arguments that have been checked."""

    y: Indices
    kernel: Kernel
    C_grid: tuple[float, ...]
    n_inner: int
    seed: int

    def __call__(self, fold: Fold) -> FoldScore:
        """Choose C inside the training fold, refit on all of it, score on the test part."""
        last = max(fold.train.max(), fold.test.max())
        if last >= len(self.y):
            raise InputError(f"fold: index {last} is beyond the {len(self.y)} samples")
        inside = inner_folds(self.y[fold.train], n_inner=self.n_inner, seed=self.seed)
        # Inputs are checked already; the option is local to a thread, so it is set in here.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            inner = [
                self._accuracies(fold.train[part.train], fold.train[part.test], self.C_grid)
                for part in inside
            ]
            # Summed in GridSearchCV's order, so that ties are its ties to the last bit.
            means = np.array(inner).T.copy().mean(axis=1)
            best = int(means.argmax())
            C = self.C_grid[best]
            (accuracy,) = self._accuracies(fold.train, fold.test, [C])
        return FoldScore(accuracy, C, len(fold.train), len(fold.test), float(means[best]))

    def _accuracies(self, train: Indices, test: Indices, C_grid: Sequence[float]) -> list[float]:
        """Test accuracy for each C: one kernel, built once, serves the whole grid."""
        kernel = self.kernel(train, test)
        fit, held_out = kernel[: len(train)], kernel[len(train) :]
        accuracies = []
        for C in C_grid:
            machine = SVC(C=C, kernel="precomputed", max_iter=MOST_STEPS)
            predicted = machine.fit(fit, self.y[train]).predict(held_out)
            accuracies.append(float(np.mean(predicted == self.y[test])))
        return accuracies


def _of_embeddings(
    embeddings: ArrayLike,
    labels: ArrayLike,
    n_folds: int,
    *,
    standardise: bool,
    kernel: KernelName,
    added: ArrayLike | None,
    weight: float,
    C_grid: Sequence[float],
    n_inner: int,
    seed: int,
) -> _NestedSVM:
    X = check_numbers("embeddings", embeddings)
    y = check_labels(labels, len(X), n_folds)
    if not 0 < weight < np.inf:
        raise InputError(f"weight={weight!r}: expected a positive finite number")
    seen = embedding_kernel(kernel, X, standardise=standardise)
    if added is not None:
        K = check_kernel("added kernel", added)
        if len(K) != len(X):
            raise InputError(f"added kernel: expected {len(X)} rows, one per sample, got {len(K)}")
        seen = sum_kernel(seen, given_kernel(K), weight)
    return _NestedSVM(y, seen, check_grid("C_grid", C_grid), n_inner, seed)


def _of_kernel(
    kernel: ArrayLike,
    labels: ArrayLike,
    n_folds: int,
    *,
    C_grid: Sequence[float],
    n_inner: int,
    seed: int,
) -> _NestedSVM:
    K = check_kernel("kernel", kernel)
    y = check_labels(labels, len(K), n_folds)
    return _NestedSVM(y, given_kernel(K), check_grid("C_grid", C_grid), n_inner, seed)
