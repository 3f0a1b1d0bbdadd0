"""What items are called: ids by which rows of results are joined with the user's own tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError


def checked_names(ids: Any, n: int, item: str) -> NDArray[Any]:
    """Ids of n items as an array of whole numbers or of text.

    Args:
        ids: a list or array of numbers or of words; None for the numbers 0 to n − 1.
        n: number of items.
        item: what one is called, for the message.

    Returns:
        [n], of integers or of text.

    Raises:
        InputError: for another number of ids, for ids that are neither numbers nor words, or some
            of each, and for what has no order.

    Example:
        >>> checked_names(["a", "b"], 2, "graph").tolist(), checked_names(None, 2, "graph").tolist()
        (['a', 'b'], [0, 1])
    """
    if ids is None:
        return np.arange(n)
    if isinstance(ids, str | Mapping | Set) or not hasattr(ids, "__len__"):
        raise InputError(
            f"ids must be a list or an array in the order of the {item}s, got {ids!r:.60}"
        )
    try:
        found = np.asarray(ids)
        listed = ids if isinstance(ids, list | tuple) else found.tolist()
        kinds = {str if isinstance(one, str) else type(one) for one in listed}
        if found.dtype == object and kinds == {str}:
            found = np.array(listed)
    except ValueError:  # of rows of several lengths
        found, kinds = np.empty(0, float), set()
    if len(kinds) > 1 and str in kinds:
        raise InputError(
            f"ids must be words, or numbers, for all {item}s, got "
            f"{' and '.join(sorted(one.__name__ for one in kinds))}"
        )
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


def in_order(values: Any, names: Sequence[Any] | None, item: str, what: str) -> Any:
    """Rows of a pandas object in the order of some items, by its index; anything else as it is.

    Args:
        values: a Series or a DataFrame, which has an index, or anything else.
        names: what the items are called, in their order; None for the numbers 0 to n − 1.
        item: what one is called, for the message.
        what: what the values are, likewise.

    Raises:
        InputError: for an index that has a name twice, lacks one, or has others.

    Example:
        >>> import pandas as pd
        >>> in_order(pd.Series([1, 2], ["b", "a"]), ["a", "b"], "node", "labels").tolist()
        [2, 1]
    """
    if not hasattr(values, "iloc"):
        return values
    index, names = values.index.tolist(), [*(range(len(values)) if names is None else names)]
    if index == names:
        return values
    row = {name: number for number, name in enumerate(index)}
    repeats = [name for number, name in enumerate(index) if row[name] != number]
    missing, beyond = [name for name in names if name not in row], [*({*index} - {*names})]
    beyond.sort(key=row.__getitem__)
    problems = [
        f"{problem} {wrong[0]!r}{f' and {len(wrong) - 1:,} more' * (len(wrong) > 1)}"
        for problem, wrong in (("repeats", repeats), ("lacks", missing), ("has also", beyond))
        if wrong
    ]
    if problems:
        raise InputError(
            f"the index of {what} is not that of the {item}s, it {' and '.join(problems)}: give a "
            f"row for each {item} under its name, or the values alone (.to_numpy()) in the order "
            f"of the {item}s"
        )
    return values.iloc[[row[name] for name in names]]
