"""Classes of items, read from labels of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import InputError

MISSING = ("None", "nan", "NaN", "<NA>", "NaT")
"""Printed forms of missing values: None, NaN, and those of pandas."""
LARGEST_LABEL = 2**53  # doubles represent all integers up to here


def as_array(values: Any, name: str) -> NDArray[Any]:
    """A tensor, array or list as a NumPy array."""
    if isinstance(values, Tensor):
        values = values.detach().to_dense().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}; expected an array or a tensor") from error


def classes(
    y: Any, n: int, where: str, *, names: Sequence[str] = (), item: str = "node"
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Classes of items, int64 [n] in 0..C-1, −1 if unknown, and the class names.

    Args:
        y: integers or words, [n]; unknown is −1, NaN, None, a missing value of pandas, or an empty
            word.
        n: number of items.
        where: name of the set, for messages.
        names: names of the classes 0, 1, …; by default the values of y.
        item: what an item is called, for messages.

    Raises:
        InputError: for other labels, or −1 that may be a class.

    Example:
        >>> classes([3.0, float("nan"), 5.0], 3, "a graph")
        (array([ 0, -1,  1]), ('3', '5'))
    """
    if isinstance(y, list | tuple) and any(isinstance(label, str) for label in y):
        y = np.array(y, object)  # otherwise NumPy converts all to words
    labels = as_array(y, f"{where}: labels y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise InputError(
            f"{where}: labels y are {labels.dtype} {[*labels.shape]}; expected one class per "
            f"{item}, [{n}]"
        )
    values, known = _known(labels, where)
    kinds, inverse = np.unique(values[known], return_inverse=True)
    codes = np.full(n, -1)
    codes[known] = inverse
    numbered = kinds.dtype.kind in "iu" and all(0 <= kind < len(names) for kind in kinds.tolist())
    if names and len(kinds) and not numbered:
        raise InputError(
            f"{where}: there are names of the classes 0..{len(names) - 1}, but labels y are "
            f"{kinds[0]}..{kinds[-1]}"
        )
    class_names = (names[kind] if names else str(kind) for kind in kinds.tolist())
    return codes.astype(np.int64), tuple(class_names)


def _known(labels: NDArray[Any], where: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels as integers or words, and a mask of the known ones."""
    if labels.dtype.kind == "O":
        empty = np.array([_is_missing(label) for label in labels], np.bool_)
        words = {isinstance(label, str) for label in labels[~empty]}
        if len(words) > 1:
            raise InputError(f"{where}: labels y mix words and numbers: give one kind")
        filled = np.where(empty, "" if True in words else np.nan, labels)
        labels = as_array(filled.tolist(), f"{where}: labels y")
    if labels.dtype.kind == "U":
        unclear = np.isin(np.char.lower(labels), ("nan", "none", "<na>"))
        if unclear.any():
            raise InputError(
                f"{where}: the label {str(labels[unclear][0])!r} may be a class or unknown: give "
                f"an empty word if unknown, or rename the class"
            )
        return labels, labels != ""
    if labels.dtype.kind not in "biuf":
        raise InputError(f"{where}: labels y are {labels.dtype}; expected integers or words")
    known = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(len(labels), np.bool_)
    if labels.dtype.kind == "f":
        fractional = known & ((labels != np.round(labels)) | (np.abs(labels) > LARGEST_LABEL))
        if fractional.any():
            raise InputError(
                f"{where}: the label {labels[fractional][0]:g} is no integer: expected a class "
                f"number, or NaN if unknown"
            )
        labels = np.where(known, labels, 0).astype(np.int64)
    unlabelled = (labels == -1) & (labels.dtype.kind == "i")
    others = np.unique(labels[known & ~unlabelled])
    if unlabelled.any() and len(others) and (others[0] < 0 or others.tolist() == [1]):
        raise InputError(
            f"{where}: labels y are −1 beside {others[0]}; −1 may be a class or unknown: give NaN "
            f"if unknown, or number the classes from 0"
        )
    return labels, known & ~unlabelled


def _is_missing(label: Any) -> bool:
    return str(label) in MISSING and not isinstance(label, str)
