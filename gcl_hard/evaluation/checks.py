"""Checks of arguments: errors that name the argument, its value and what is accepted.

scikit-learn's ``check_array`` and ``check_scalar`` do not name the row that is not finite, accept
numbers whose squares overflow, and would be imported for every t-test.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.errors import InputError

# Beyond these, sums of squares over some million columns may leave the range of the type.
LARGEST: dict[type[np.floating[Any]], float] = {np.float64: 1e100, np.float32: 1e15}

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.int64]


def check_share(name: str, value: float, usual: float) -> None:
    """InputError for a share that is not strictly between 0 and 1.

    Args:
        name: the argument's name, for the message.
        value: the argument's value.
        usual: a usual value, for the message.

    Raises:
        InputError: ``value`` is outside (0, 1).

    Example:
        >>> check_share("level", 0.9, usual=0.95)
    """
    if not isinstance(value, Real) or not 0 < value < 1:
        raise InputError(f"{name} must be a share between 0 and 1, such as {usual}, got {value!r}")


def checked_shares(name: str, shares: Sequence[float]) -> tuple[float, float, float]:
    """Shares of training, validation and testing, which sum to 1.

    Args:
        name: the argument's name, for the message.
        shares: the argument's value.

    Raises:
        InputError: for others, or none for training.

    Example:
        >>> checked_shares("split", [0.8, 0.1, 0.1])
        (0.8, 0.1, 0.1)
    """
    if len(shares) != 3 or not min(shares) >= 0 < shares[0] or abs(sum(shares) - 1) > 1e-6:
        raise InputError(
            f"{name} are shares of training, validation and testing, such as 0.8,0.1,0.1, which "
            f"sum to 1, got {','.join(map(str, shares))}"
        )
    return shares[0], shares[1], shares[2]


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


def as_array(name: str, values: Any) -> NDArray[Any]:
    """An array from a list, a tensor or a SciPy matrix, sparse or dense.

    Tensors may have a gradient and be on any device; half precision becomes double.

    Args:
        name: the argument's name, for the message.
        values: of any kind.

    Raises:
        InputError: values that make no array, such as rows of different lengths.

    Example:
        >>> as_array("scores", [1, 2])
        array([1, 2])
    """
    if hasattr(values, "toarray"):  # SciPy's
        values = values.toarray()
    if hasattr(values, "detach"):
        values = values.detach().cpu().to_dense()
        if values.dtype.is_floating_point and values.element_size() < 4:
            values = values.double()
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name}: {error}; expected an array, a list or a tensor") from error


def _as_matrix(name: str, values: Any) -> Any:
    """SciPy's compressed rows from a sparse matrix or tensor; an array from anything else."""
    from scipy.sparse import coo_array, csr_array, issparse

    if str(getattr(values, "layout", "")).startswith("torch.sparse"):
        stored = values.detach().to_sparse_coo().coalesce()
        places = tuple(as_array(name, stored.indices()))
        values = coo_array((as_array(name, stored.values()), places), shape=stored.shape)
    # a copy, as SciPy sums duplicate entries in place
    return csr_array(values, copy=True) if issparse(values) else as_array(name, values)


def check_classes(name: str, labels: ArrayLike, n: int | None = None) -> Indices:
    """The class of each sample.

    Args:
        name: the argument's name, for the message.
        labels: integers or booleans [n]; real numbers are no classes.
        n: the number of samples; None for any.

    Returns:
        The labels, int64 [n].

    Raises:
        InputError: another type, dimension or length.

    Example:
        >>> check_classes("labels", [True, False])
        array([1, 0])
    """
    array = as_array(name, labels)
    if array.ndim != 1 or array.dtype.kind not in "iub" or n not in (None, len(array)):
        length = "n" if n is None else n
        raise InputError(f"{name}: expected integers [{length}], got {array.dtype} {array.shape}")
    return array.astype(np.int64)


def check_indices(name: str, indices: ArrayLike, n: int | None = None) -> Indices:
    """Indices of samples in the whole set.

    Args:
        name: the argument's name, for the message.
        indices: integers [m], m >= 1.
        n: samples in the whole set; None for any number.

    Returns:
        The indices, int64 [m].

    Raises:
        InputError: no samples, another type or dimension, or an index outside 0..n-1.

    Example:
        >>> check_indices("train", range(3), 3)
        array([0, 1, 2])
    """
    array = as_array(name, indices)
    whole = array.size > 0 and array.dtype.kind in "iu"
    if array.ndim != 1 or not whole or array.min() < 0 or (n is not None and array.max() >= n):
        below = "" if n is None else f" below {n}"
        got = f"{array.dtype} {array.shape}"
        raise InputError(f"{name}: expected one or more indices >= 0{below}, got {got}")
    return array.astype(np.int64)


def check_numbers(
    name: str,
    values: ArrayLike,
    shape: Sequence[str] = ("n", "d"),
    *,
    least: int = 1,
    dtype: type[np.floating[Any]] | None = np.float64,
    missing: bool = False,
    sparse: bool = False,
) -> Any:
    """A finite floating-point array in C order, not copied if it is one already.

    Args:
        name: the argument's name, for the message.
        values: real numbers or booleans.
        shape: a name for each dimension; dimensions of the same name must be equally long.
        least: the smallest length of a dimension.
        dtype: ``np.float64`` or ``np.float32``; None keeps single precision, and makes all else
            double.
        missing: whether NaN is allowed, for unknown values.
        sparse: whether sparse values stay sparse.

    Returns:
        The array as ``dtype``; for sparse values that stay sparse, SciPy's ``csr_array``.

    Raises:
        InputError: another shape, a dtype that is not real, or a value that is NaN, infinite or
            too large to square.

    Example:
        >>> check_numbers("embeddings", [[1, 2], [3, 4]]).dtype
        dtype('float64')
    """
    array = _as_matrix(name, values) if sparse else as_array(name, values)
    lengths = set(zip(shape, array.shape, strict=False))
    fits = array.ndim == len(shape) and min(array.shape) >= least
    if not fits or len(lengths) > len(set(shape)) or array.dtype.kind not in "fiub":
        expected = f"real numbers [{', '.join(shape)}], at least {least}"
        raise InputError(f"{name}: expected {expected}, got {array.dtype} {array.shape}")
    n, largest = array.shape[0], LARGEST[dtype or np.float64]
    # Checks the extremes of each row: absolute values would need a second array of the same size.
    rows = array.reshape(n, -1) if 0 not in array.shape else np.zeros((0, 1))
    if missing and array.dtype.kind == "f":
        rows = np.where(np.isnan(rows), 0, rows)
    top, bottom = (
        as_array(name, extreme).ravel().astype(np.float64)
        for extreme in (rows.max(axis=1), rows.min(axis=1))
    )
    usable = (top < largest) & (bottom > -largest)  # false for NaN too
    if not usable.all():
        raise InputError(
            f"{name}: expected finite numbers below {largest:g}, and {(~usable).sum()} of {n} "
            f"rows hold others, the first at index {usable.argmin()}"
        )
    dtype = dtype or (np.float32 if array.dtype == np.float32 else np.float64)
    if not isinstance(array, np.ndarray):
        return array.astype(dtype, copy=False)
    return np.require(array, dtype, ["C", "W"])  # PyTorch takes no read-only memory
