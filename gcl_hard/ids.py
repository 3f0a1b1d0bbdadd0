"""What items are called: ids by which rows of results are joined with the user's own tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError


def checked_names(ids: Any, n: int, item: str) -> NDArray[Any]:
    """Ids of n items as an array of whole numbers or of text.

    Args:
        ids: a list or array of numbers or words; None for the numbers 0 to n − 1. Of ids of several
            types each becomes text.
        n: number of items.
        item: what one is called, for the message.

    Returns:
        [n], of integers or of text.

    Raises:
        InputError: for another number of ids, or for ids that are neither numbers nor words.

    Example:
        >>> checked_names(["a", "b"], 2, "graph").tolist(), checked_names(None, 2, "graph").tolist()
        (['a', 'b'], [0, 1])
    """
    if ids is None:
        return np.arange(n)
    try:
        found = np.asarray(ids)
        if found.dtype == object:
            found = np.array([one if isinstance(one, str) else str(one) for one in found.tolist()])
    except ValueError:  # of rows of several lengths
        found = np.empty(0, float)
    if found.ndim != 1 or len(found) != n or found.dtype.kind not in "iuU":
        raise InputError(
            f"ids must be a number or a word for each {item}, [{n}], got {found.dtype} "
            f"{[*found.shape]}"
        )
    return found


def repeated(ids: NDArray[Any]) -> int:
    """How many ids stand for several items.

    Example:
        >>> repeated(np.array(["a", "b", "a"]))
        1
    """
    return int((np.unique(ids, return_counts=True)[1] > 1).sum())
