"""Nested cross-validation of support vector machines, on embeddings or on a given kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gcl_hard.errors import InputError, check_number, check_option
from gcl_hard.evaluation.checks import Floats, Indices, check_grid, check_numbers
from gcl_hard.evaluation.folds import (
    CrossValidation,
    Fold,
    FoldScore,
    check_labels,
    cross_validate,
    nested_score,
    outer_folds,
)

ASYMMETRY = 1e-6  # of the largest entry: rounding in single precision stays below it

C_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
"""Candidates for the penalty C of kernels whose diagonal is about 1."""

KernelName = Literal["rbf", "linear"]
Kernel = Callable[[Indices, Indices], Floats]
"""Takes training and test indices; returns the kernel of both, in that order, against the training
rows, as a new matrix that the caller may modify."""

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
    gamma = 1 / (d · var(X)), X being the (standardised) training subset of each fit. The SVM uses
    kernel(x_i, x_j) + weight · added[i, j]. On a tie the smallest C is chosen; a C of
    ``linear`` is C · gamma of ``SVC(kernel="linear")``.

    Args:
        embeddings: real numbers [n, d] of the whole set.
        labels: integers [n] of the whole set.
        fold: the samples to train on and to test on.
        standardise: scale each column by the mean and deviation of the training subset.
        C_grid: candidates for the penalty C, each > 0.
        n_inner: inner folds, >= 2; every class has as many members in the training fold.
        seed: seed of the inner folds, >= 0.
        kernel: ``rbf`` or ``linear``, of the embeddings.
        added: real numbers [n, n], a kernel of the whole set as in ``kernel_fold``; None adds
            nothing. The diagonal of ``rbf`` is 1, that of ``linear`` about 1 on average.
        weight: weight of ``added``, positive and finite.

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
    problem = _embedding_problem(embeddings, standardise, kernel, added, weight)
    _, score = _nested_svm(problem, labels, 2, C_grid=C_grid, n_inner=n_inner, seed=seed)
    return score(fold)


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
        seed: seed of the outer and of the inner folds, >= 0.
        n_folds: outer folds, >= 2.
        n_inner: inner folds, >= 2.
        C_grid: candidates for the penalty C, each > 0.
        standardise: scale each column by the mean and deviation of the training subset.
        n_jobs: outer folds scored at a time, >= 1; the scores do not depend on it.
        kernel: ``rbf`` or ``linear``, of the embeddings.
        added: a kernel of the same samples [n, n] to add, or None.
        weight: weight of ``added``, positive and finite.

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
    problem = _embedding_problem(embeddings, standardise, kernel, added, weight)
    y, score = _nested_svm(problem, labels, n_folds, C_grid=C_grid, n_inner=n_inner, seed=seed)
    return cross_validate(score, outer_folds(y, seed=seed, n_folds=n_folds), n_jobs=n_jobs)


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
        C_grid: candidates for the penalty C, each > 0; on a tie the smallest is
            chosen. The default suits a kernel with ones on its diagonal: normalise yours.
        n_inner: inner folds, >= 2; every class has as many members in the training fold.
        seed: seed of the inner folds, >= 0.

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
    problem = _kernel_problem(kernel)
    _, score = _nested_svm(problem, labels, 2, C_grid=C_grid, n_inner=n_inner, seed=seed)
    return score(fold)


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
        seed: seed of the outer and of the inner folds, >= 0.
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
    problem = _kernel_problem(kernel)
    y, score = _nested_svm(problem, labels, n_folds, C_grid=C_grid, n_inner=n_inner, seed=seed)
    return cross_validate(score, outer_folds(y, seed=seed, n_folds=n_folds), n_jobs=n_jobs)


def _nested_svm(
    problem: tuple[int, Kernel],
    labels: ArrayLike,
    n_folds: int,
    *,
    C_grid: Sequence[float],
    n_inner: int,
    seed: int,
) -> tuple[Indices, Callable[[Fold], FoldScore]]:
    """The checked labels, and what chooses C inside a fold's training part and scores the rest."""
    from sklearn import config_context
    from sklearn.svm import SVC

    n, kernel = problem
    y, grid = check_labels(labels, n, n_folds), check_grid("C_grid", C_grid)

    def predictions(train: Indices, test: Indices, penalties: Sequence[float]) -> Iterator[Indices]:
        both = kernel(train, test)  # built once for the whole grid
        for C in penalties:
            machine = SVC(C=C, kernel="precomputed", max_iter=MOST_STEPS)
            yield machine.fit(both[: len(train)], y[train]).predict(both[len(train) :])

    def score(fold: Fold) -> FoldScore:
        # Inputs are checked already; the option is local to a thread, so it is set here.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            return nested_score(fold, y, grid, predictions, n_inner=n_inner, seed=seed)

    return y, score


def _embedding_problem(
    embeddings: ArrayLike,
    standardise: bool,
    kernel: KernelName,
    added: ArrayLike | None,
    weight: float,
) -> tuple[int, Kernel]:
    X = check_numbers("embeddings", embeddings)
    check_number("weight", weight, above=0)
    combined = embedding_kernel(kernel, X, standardise=standardise)
    if added is not None:
        K = check_kernel("added kernel", added)
        if len(K) != len(X):
            raise InputError(f"added kernel: expected {len(X)} rows, one per sample, got {len(K)}")
        combined = sum_kernel(combined, given_kernel(K), weight)
    return len(X), combined


def _kernel_problem(kernel: ArrayLike) -> tuple[int, Kernel]:
    K = check_kernel("kernel", kernel)
    return len(K), given_kernel(K)


def embedding_kernel(name: KernelName, X: Floats, *, standardise: bool) -> Kernel:
    """A kernel of embeddings, its statistics taken over the training rows of each call.

    ``rbf`` is exp(-‖x - y‖² / v) and ``linear`` is ⟨x - m, y - m⟩ / v, with v = d · var(X) (1 if
    that is 0) and m the mean row of X, X being the (standardised) training rows.

    Args:
        name: ``rbf`` or ``linear``.
        X: checked embeddings [n, d] of the whole set.
        standardise: scale each column by the mean and deviation of the training rows.

    Returns:
        The kernel.

    Raises:
        InputError: another name.

    Source: scikit-learn, ``sklearn.svm.SVC`` with ``gamma="scale"`` and ``kernel="rbf"``, or
        ``kernel="poly", degree=1``, the linear kernel over v; an SVM with a bias ignores m.

    Example:
        >>> kernel = embedding_kernel("linear", np.array([[0.0], [2.0], [5.0]]), standardise=False)
        >>> kernel(np.array([0, 1]), np.array([2])).tolist()
        [[1.0, -1.0], [-1.0, 1.0], [-4.0, 4.0]]
    """
    return _KERNELS[check_option("kernel", name, _KERNELS)](X, standardise)


def check_kernel(name: str, kernel: ArrayLike) -> Floats:
    """A kernel as a finite, symmetric float64 matrix in C order.

    Args:
        name: the argument's name, for the message.
        kernel: real numbers [n, n], n >= 1, symmetric up to rounding in single precision.

    Returns:
        The kernel, float64 [n, n].

    Raises:
        InputError: not a square matrix of real numbers, a value that is NaN, infinite or too large
            to square, or an entry that differs from its mirror image.

    Example:
        >>> check_kernel("kernel", [[2, 1], [1, 2]]).dtype
        dtype('float64')
    """
    K: Floats = check_numbers(name, kernel, ("n", "n"))
    difference = np.abs(K - K.T)
    i, j = np.unravel_index(difference.argmax(), K.shape)
    if difference[i, j] > ASYMMETRY * np.abs(K).max():
        raise InputError(f"{name}: expected a symmetric matrix, [{i}, {j}] and [{j}, {i}] differ")
    return K


def given_kernel(K: Floats) -> Kernel:
    """A kernel from its matrix over the whole set.

    Args:
        K: checked kernel [n, n].

    Returns:
        The kernel.

    Example:
        >>> given_kernel(np.array([[2.0, 1.0], [1.0, 2.0]]))(np.array([1]), np.array([0])).tolist()
        [[2.0], [1.0]]
    """
    return lambda train, test: K[np.ix_(np.concatenate([train, test]), train)]


def sum_kernel(first: Kernel, second: Kernel, weight: float) -> Kernel:
    """A kernel plus another one, ``first + weight * second``.

    Args:
        first: a kernel.
        second: another kernel of the same samples.
        weight: weight of the second one, positive and finite.

    Returns:
        The kernel.

    Example:
        >>> identity = given_kernel(np.eye(2))
        >>> sum_kernel(identity, identity, 0.5)(np.array([1]), np.array([0])).tolist()
        [[1.5], [0.0]]
    """

    def kernel(train: Indices, test: Indices) -> Floats:
        K = first(train, test)
        K += weight * second(train, test)
        return K

    return kernel


def _rbf(X: Floats, standardise: bool) -> Kernel:
    """The RBF kernel; all folds share the squared distances of raw embeddings."""
    from scipy.spatial.distance import pdist, squareform
    from sklearn.metrics.pairwise import euclidean_distances
    from sklearn.preprocessing import StandardScaler

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


def _linear(X: Floats, standardise: bool) -> Kernel:
    """The linear kernel; raw columns are centred too, or a large mean would leave only rounding."""

    from sklearn.preprocessing import StandardScaler

    def kernel(train: Indices, test: Indices) -> Floats:
        rows = np.concatenate([train, test])
        Z = StandardScaler(with_std=standardise).fit(X[train]).transform(X[rows])
        variance = (Z[: len(train)] if standardise else X[train]).var()
        K: Floats = Z @ Z[: len(train)].T
        K *= 1.0 / (X.shape[1] * variance) if variance != 0 else 1.0
        return K

    return kernel


_KERNELS: dict[str, Callable[[Floats, bool], Kernel]] = {"rbf": _rbf, "linear": _linear}
