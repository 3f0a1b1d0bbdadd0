"""Arguments that every probe checks: embeddings, grids, counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.errors import InputError

LARGEST = 1e100  # beyond it, sums of squares leave the range of float64


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


def check_embeddings(embeddings: ArrayLike) -> NDArray[np.float64]:
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
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "fiu":
        raise InputError(
            "embeddings: expected real numbers [n, d] with d >= 1, "
            f"got dtype {array.dtype} with shape {array.shape}"
        )
    matrix = np.ascontiguousarray(array, dtype=np.float64)
    usable = (np.abs(matrix) < LARGEST).all(axis=1)  # false for NaN too
    if not usable.all():
        raise InputError(
            f"embeddings: {np.count_nonzero(~usable)} of {len(matrix)} rows hold NaN, infinity or "
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
