"""Checks of arguments: errors that name the argument, its value and what is accepted.

scikit-learn's ``check_array`` and ``check_scalar`` do not say which row is not finite, let numbers
through whose squares overflow, and would be imported for every t-test.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.errors import InputError

# Beyond these, sums of squares leave the range of the type, even over some million columns.
LARGEST: dict[type[np.floating[Any]], float] = {np.float64: 1e100, np.float32: 1e15}

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.int64]


def check_share(name: str, value: float, usual: float) -> None:
    """Refuse a share that is not strictly between 0 and 1.

    Args:
        name: the argument's name, for the message.
        value: the value given.
        usual: a usual value, for the message.

    Raises:
        InputError: ``value`` is outside (0, 1).

    Example:
        >>> check_share("level", 0.9, usual=0.95)
    """
    if not isinstance(value, Real) or not 0 < value < 1:
        raise InputError(f"{name} must be a share between 0 and 1, such as {usual}, got {value!r}")


def check_grid(name: str, grid: Sequence[float]) -> tuple[float, ...]:
    """A grid in ascending order, so that on a tie the smallest value comes first.

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


def as_array(values: Any) -> NDArray[Any]:
    """An array, also of a tensor with a gradient, on another device, in half precision, or sparse,
    or of a sparse matrix.
    """
    if hasattr(values, "toarray"):  # SciPy's
        values = values.toarray()
    if hasattr(values, "detach"):
        values = values.detach().cpu().to_dense()
        if values.dtype.is_floating_point and values.element_size() < 4:
            values = values.float()
    return np.asarray(values)


def check_numbers(
    name: str,
    values: ArrayLike,
    shape: Sequence[str] = ("n", "d"),
    *,
    least: int = 1,
    dtype: type[np.floating[Any]] = np.float64,
) -> NDArray[Any]:
    """A finite floating-point array in C order, not copied if it is one already.

    Args:
        name: the argument's name, for the message.
        values: real numbers.
        shape: a name for each dimension; dimensions of the same name must be equally long.
        least: the smallest length of a dimension.
        dtype: ``np.float64`` or ``np.float32``.

    Returns:
        The array as ``dtype``.

    Raises:
        InputError: another shape, a dtype that is not real, or a value that is NaN, infinite or
            too large to square.

    Example:
        >>> check_numbers("embeddings", [[1, 2], [3, 4]]).dtype
        dtype('float64')
    """
    array = as_array(values)
    lengths = set(zip(shape, array.shape, strict=False))
    fits = array.ndim == len(shape) and min(array.shape) >= least
    if not fits or len(lengths) > len(set(shape)) or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name}: expected real numbers [{', '.join(shape)}] with "
            f"{', '.join(dict.fromkeys(shape))} >= {least}, got dtype {array.dtype} with shape "
            f"{array.shape}"
        )
    # By the extremes of each row: absolute values would need a second array of the same size.
    rows = array.reshape(len(array), -1) if array.size else np.zeros((0, 1))
    top, bottom = rows.max(axis=1).astype(np.float64), rows.min(axis=1).astype(np.float64)
    usable = (top < LARGEST[dtype]) & (bottom > -LARGEST[dtype])  # false for NaN too
    if not usable.all():
        raise InputError(
            f"{name}: NaN, infinity or numbers beyond {LARGEST[dtype]:g} in "
            f"{np.count_nonzero(~usable)} of {len(rows)} {'rows' if array.ndim > 1 else 'values'}, "
            f"the first at index {usable.argmin()}; expected finite numbers"
        )
    return np.require(array, dtype, ["C", "W"])  # PyTorch takes no read-only memory
