"""Kernel matrices for an SVM on a fold: of embeddings, given as a matrix, or the sum of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gcl_hard.errors import InputError, unknown
from gcl_hard.evaluation.checks import Floats, Indices, check_numbers

ASYMMETRY = 1e-6  # of the largest entry: rounding in single precision stays below it

C_GRID = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
"""Candidates for the penalty C of kernels whose diagonal is about 1."""

KernelName = Literal["rbf", "linear"]
Kernel = Callable[[Indices, Indices], Floats]
"""Takes training and test indices; returns the kernel of both, in that order, against the training
rows, as a new matrix that the caller may modify."""


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
        ``kernel="poly", degree=1``, the linear kernel over v; an SVM with a bias does not see m.

    Example:
        >>> kernel = embedding_kernel("linear", np.array([[0.0], [2.0], [5.0]]), standardise=False)
        >>> kernel(np.array([0, 1]), np.array([2])).tolist()
        [[1.0, -1.0], [-1.0, 1.0], [-4.0, 4.0]]
    """
    if name not in _KERNELS:
        raise unknown("kernel", name, _KERNELS)
    return _KERNELS[name](X, standardise)


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
        raise InputError(
            f"{name}: [{i}, {j}] is {K[i, j]:g} and [{j}, {i}] is {K[j, i]:g}; "
            "expected a symmetric matrix"
        )
    return K


def given_kernel(K: Floats) -> Kernel:
    """A kernel that is a matrix of the whole set.

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
        weight: of the second one, positive and finite.

    Returns:
        The kernel.

    Example:
        >>> one = given_kernel(np.eye(2))
        >>> sum_kernel(one, one, 0.5)(np.array([1]), np.array([0])).tolist()
        [[1.5], [0.0]]
    """

    def kernel(train: Indices, test: Indices) -> Floats:
        K = first(train, test)
        K += weight * second(train, test)
        return K

    return kernel


# scikit-learn and SciPy are imported when used: C_GRID is read without them.


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
