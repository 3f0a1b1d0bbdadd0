"""Arguments that every probe checks: embeddings, grids, counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcl_hard.errors import InputError

if TYPE_CHECKING:
    import torch

LARGEST = 1e100  # beyond it, sums of squares leave the range of float64
LARGEST_SINGLE = 1e15  # likewise of float32, with room for some million columns
ASYMMETRY = 1e-6  # of the largest entry: rounding in single precision stays below it
ROUNDING = 12  # decimals of the largest value that a comparison sees: sums are rounded after them

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Indices = NDArray[np.int64]


class Split(NamedTuple):
    """The two parts of an official split, each label as its position in ``classes``.

    The embeddings are the caller's own arrays where those fit: nothing may write into them.
    """

    train: Singles
    train_classes: Indices
    test: Singles
    test_classes: Indices
    classes: Indices


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
    usable: NDArray[np.bool_] = np.all(np.abs(matrix) < LARGEST, axis=1)  # false for NaN too
    _refuse_rows(name, usable, LARGEST)
    return matrix


def _refuse_rows(name: str, usable: NDArray[np.bool_], largest: float) -> None:
    if not usable.all():
        raise InputError(
            f"{name}: {np.count_nonzero(~usable)} of {len(usable)} rows hold NaN, infinity or "
            f"numbers beyond {largest:g}, the first is row {int(usable.argmin())}; "
            "expected finite numbers"
        )


def check_split(**parts: ArrayLike) -> Split:
    """An official split in single precision, without a copy of embeddings that are so already.

    Args:
        parts: embeddings [n, d] and integer labels [n] of the training part, then [m, d] and [m]
            of the test part, under the names of the caller's arguments.

    Returns:
        The split; ``classes`` are those of the training part, ascending.

    Raises:
        InputError: embeddings that are no finite matrices of one width, labels that are no row of
            integers of the same length, one class only, or a test label that no training label
            equals.

    Example:
        >>> check_split(x=[[1.0], [2.0]], y=[3, 7], test_x=[[2]], test_y=[7]).test_classes
        array([1])
    """
    (train_name, train), (y_name, y), (test_name, test), (u_name, u) = parts.items()
    X, T = _single_rows(train_name, train), _single_rows(test_name, test)
    if T.shape[1] != X.shape[1]:
        raise InputError(
            f"{test_name}: {T.shape[1]} columns, but {train_name} has {X.shape[1]}; "
            "expected embeddings of one encoder"
        )
    known, asked = _label_row(y_name, y, len(X)), _label_row(u_name, u, len(T))
    classes, positions = np.unique(known, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{y_name}: expected two classes or more, got {classes.tolist()}")
    unseen = np.setdiff1d(asked, classes)
    if unseen.size:
        raise InputError(
            f"{u_name}: {unseen[:5].tolist()} not among the {len(classes)} classes of {y_name}, "
            f"{classes[0]} to {classes[-1]}; expected labels that were trained on"
        )
    return Split(X, positions, T, np.searchsorted(classes, asked), classes)


def _single_rows(name: str, embeddings: ArrayLike) -> Singles:
    array = np.asarray(embeddings)
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name}: expected real numbers [n, d] with n, d >= 1, "
            f"got dtype {array.dtype} with shape {array.shape}"
        )
    # By the extremes of each row: the absolute values of a large set are a second large set.
    extremes = array.max(axis=1).astype(np.float64), array.min(axis=1).astype(np.float64)
    usable = (extremes[0] < LARGEST_SINGLE) & (extremes[1] > -LARGEST_SINGLE)  # false for NaN too
    _refuse_rows(name, usable, LARGEST_SINGLE)
    return np.require(array, np.float32, ["C", "W"])  # PyTorch takes no read-only memory


def _label_row(name: str, labels: ArrayLike, n: int) -> Indices:
    array = np.asarray(labels)
    if array.dtype.kind not in "iu" or array.shape != (n,):
        raise InputError(
            f"{name}: expected {n} integers in one dimension, one per row of the embeddings, "
            f"got dtype {array.dtype} with shape {array.shape}"
        )
    return array.astype(np.int64)


def check_device(device: str) -> torch.device:
    """A PyTorch device that is there; an ``InputError`` names one that is not."""
    import torch

    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:  # the latter from a PyTorch without CUDA
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"device={device!r}: {reason}; expected a device of this machine, such as 'cpu'"
        ) from error


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
