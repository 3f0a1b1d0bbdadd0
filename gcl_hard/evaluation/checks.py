"""Arguments that every probe checks: embeddings, grids, counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.errors import InputError

LARGEST = 1e100  # beyond it, sums of squares leave the range of float64
ASYMMETRY = 1e-6  # of the largest entry: rounding in single precision stays below it
ROUNDING = 12  # decimals of the largest value that a comparison sees: sums are rounded after them

Floats = NDArray[np.float64]


def check_at_least(name: str, value: int, least: int) -> None:
    """Refuse an argument that is not an integer, or is below its smallest useful value.

    Args:
        name: the argument's name, for the message.
        value: what was given.
        least: the smallest value accepted.

    Raises:
        InputError: ``value`` is no integer or is below ``least``.

    Example:
        >>> check_at_least("n_jobs", 2, 1)
    """
    integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not integer or value < least:
        raise InputError(f"{name}={value!r}: expected an integer >= {least}")


def check_embeddings(embeddings: ArrayLike) -> Floats:
    """Embeddings as a finite float64 matrix in C order.

    Args:
        embeddings: real numbers [n, d], d >= 1.

    Returns:
        The embeddings, float64 [n, d].

    Raises:
        InputError: not a matrix of real numbers, no column, or a value that is NaN, infinite or
            too large to square.

    Example:
        >>> check_embeddings([[1, 2], [3, 4]]).dtype
        dtype('float64')
    """
    array = np.asarray(embeddings)
    fits = array.ndim == 2 and array.shape[1] > 0
    return _finite_rows("embeddings", array, fits, "[n, d] with d >= 1")


def check_kernel(kernel: ArrayLike) -> Floats:
    """A kernel as a finite, symmetric float64 matrix in C order.

    Args:
        kernel: real numbers [n, n], n >= 1, symmetric up to rounding in single precision.

    Returns:
        The kernel, float64 [n, n].

    Raises:
        InputError: not a square matrix of real numbers, a value that is NaN, infinite or too large
            to square, or an entry that differs from its mirror image.

    Example:
        >>> check_kernel([[2, 1], [1, 2]]).dtype
        dtype('float64')
    """
    array = np.asarray(kernel)
    fits = array.ndim == 2 and array.shape[0] == array.shape[1] > 0
    K = _finite_rows("kernel", array, fits, "[n, n] with n >= 1")
    difference = np.abs(K - K.T)
    i, j = np.unravel_index(difference.argmax(), K.shape)
    if difference[i, j] > ASYMMETRY * np.abs(K).max():
        raise InputError(
            f"kernel: [{i}, {j}] is {K[i, j]:g} and [{j}, {i}] is {K[j, i]:g}; "
            "expected a symmetric matrix"
        )
    return K


def _finite_rows(name: str, array: NDArray[np.generic], fits: bool, shape: str) -> Floats:
    if not fits or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name}: expected real numbers {shape}, "
            f"got dtype {array.dtype} with shape {array.shape}"
        )
    matrix = np.ascontiguousarray(array, dtype=np.float64)
    usable = (np.abs(matrix) < LARGEST).all(axis=1)  # false for NaN too
    if not usable.all():
        raise InputError(
            f"{name}: {np.count_nonzero(~usable)} of {len(matrix)} rows hold NaN, infinity or "
            f"numbers beyond {LARGEST:g}, the first is row {int(usable.argmin())}; "
            "expected finite numbers"
        )
    return matrix


def check_grid(name: str, grid: Sequence[float]) -> tuple[float, ...]:
    """A grid in ascending order, so that the first of several best values is the smallest.

    Args:
        name: the argument's name, for the message.
        grid: positive finite numbers, at least one.

    Returns:
        The grid, sorted.

    Raises:
        InputError: an empty grid, or a value that is not positive and finite.

    Example:
        >>> check_grid("C_grid", [10.0, 0.1])
        (0.1, 10.0)
    """
    values = tuple(sorted(float(value) for value in grid))
    if not values or not all(0 < value < np.inf for value in values):
        raise InputError(f"{name}={grid!r}: expected one or more positive finite numbers")
    return values


def rounded(d: Floats, *sources: Floats) -> Floats:
    """Differences relative to the largest source, so that 0.9 − 0.8 ties with 0.8 − 0.7."""
    largest = max(float(np.abs(x).max(initial=0.0)) for x in sources)
    return np.round(d / largest, ROUNDING).astype(np.float64) if largest else d


def check_vector(name: str, values: ArrayLike, *, least: int) -> Floats:
    """Finite numbers [n], n >= ``least``, as float64; an ``InputError`` names what else came."""
    array = np.asarray(values)
    fits = array.ndim == 1 and len(array) >= least
    return check_numbers(name, array, fits, f"{least} or more real numbers in one dimension")


def check_numbers(name: str, array: NDArray[np.generic], fits: bool, expected: str) -> Floats:
    """Finite numbers as float64, of a shape that ``fits``; else an ``InputError``."""
    if not fits or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name}: expected {expected}, got dtype {array.dtype} with shape {array.shape}"
        )
    numbers = array.astype(np.float64)
    usable = np.abs(numbers) < LARGEST  # false for NaN too
    if not usable.all():
        raise InputError(
            f"{name}: {np.count_nonzero(~usable)} of {numbers.size} values are NaN, infinite or "
            f"beyond {LARGEST:g}; expected finite numbers"
        )
    return numbers


def check_level(level: float) -> None:
    """Refuse a level of confidence that is no share."""
    if not 0 < level < 1:
        raise InputError(f"level={level!r}: expected a share between 0 and 1, such as 0.95")
