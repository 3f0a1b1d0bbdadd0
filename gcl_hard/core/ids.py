"""Ids of items, by which rows of results are joined with the user's own tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcl_hard.errors import InputError


def checked_names(ids: Any, n: int, item: str) -> NDArray[Any]:
    """Ids of n items as an array of whole numbers or of text.

    Args:
        ids: a list or array of numbers or of words; None for the numbers 0 to n − 1.
        n: number of items.
        item: noun for an item, for the message.

    Returns:
        [n], of integers, or of text as from :func:`text_array`.

    Raises:
        InputError: for another number of ids, for ids that are neither numbers nor words, or a mix
            of both, and for unordered collections.

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
        array = None if isinstance(ids, list | tuple) else np.asarray(ids)
        listed = ids if array is None else array.tolist()
        kinds = {str if isinstance(name, str) else type(name) for name in listed}
        if kinds == {str} and (array is None or array.dtype == object):
            array = text_array(listed)
        elif array is None:
            array = np.asarray(ids)
    except ValueError:  # of rows of several lengths
        array, kinds = np.empty(0, float), set()
    if len(kinds) > 1 and str in kinds:
        raise InputError(
            f"ids must be words, or numbers, for all {item}s, got "
            f"{' and '.join(sorted(name.__name__ for name in kinds))}"
        )
    named = array.dtype.kind in "iuU" or kinds == {str}
    if array.ndim != 1 or len(array) != n or not named:
        raise InputError(
            f"ids must be a number or a word for each {item}, [{n}], got {array.dtype} "
            f"{[*array.shape]}"
        )
    return array


def text_array(words: Sequence[str]) -> NDArray[Any]:
    """Words as an array, [n].

    NumPy's text drops NUL at a word's end: if one has it, the array holds Python strings, which
    :func:`gcl_hard.files.io.storable` converts for files.

    Example:
        >>> text_array(["a", "bc"]).dtype, text_array(["a", "bc\\0"]).dtype
        (dtype('<U2'), dtype('O'))
    """
    return np.array(words, object if any(word.endswith("\0") for word in words) else str)


def ordered_names(names: Iterable[str] | Mapping[Any, Any], kind: str) -> tuple[str, ...]:
    """The names of things that are numbered from 0, in the order of the numbers.

    Args:
        names: a list, array or index of them; or a mapping of all names to their numbers, or of the
            numbers to names.
        kind: plural noun for the things named, for messages.

    Raises:
        InputError: for a set, which has no order, for a mapping whose numbers are not 0 to n − 1,
            and for names that are not text, blank or repeated.

    Example:
        >>> ordered_names({"cid": 2, "ann": 0, "bob": 1}, "entities")
        ('ann', 'bob', 'cid')
    """
    if isinstance(names, Mapping):
        numbers = dict(names)
        if not all(isinstance(name, str) for name in numbers.values()):
            numbers = {number: name for name, number in names.items()}
        if len(numbers) < len(names) or {*numbers} != {*range(len(names))}:
            raise InputError(
                f"{kind} as a mapping must have each of the numbers 0 to {len(names) - 1} once, "
                f"got {', '.join(sorted(map(str, numbers))):.60}"
            )
        names = [numbers[i] for i in range(len(numbers))]
    if isinstance(names, str | Set) or not isinstance(names, Iterable):
        raise InputError(f"{kind} must be names in the order of their numbers, got {names!r:.60}")
    ordered = tuple(names)
    for name in ordered:
        if not isinstance(name, str):
            raise InputError(f"names of {kind} are text, got {name!r}")
        if not name.strip():
            raise InputError(f"names of {kind} are not blank, got {name!r}")
    if len(set(ordered)) < len(ordered):
        again = next(name for name, n in Counter(ordered).items() if n > 1)
        raise InputError(f"names of {kind} are distinct, and {again!r} appears twice")
    return ordered


def repeated(ids: NDArray[Any]) -> int:
    """Number of ids that stand for several items.

    Example:
        >>> repeated(np.array(["a", "b", "a"]))
        1
    """
    return int((np.unique(ids, return_counts=True)[1] > 1).sum())


def in_order(values: Any, names: Sequence[Any] | None, item: str, kind: str) -> Any:
    """Rows of a pandas object in the order of some items, by its index; anything else unchanged.

    Args:
        values: a Series or a DataFrame, which has an index, or anything else.
        names: names of the items, in their order; None for the numbers 0 to n − 1.
        item: noun for an item, for the message.
        kind: noun for the values, likewise.

    Raises:
        InputError: for an index that repeats a name, lacks one, or has others.

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
    wrong = [name for number, name in enumerate(index) if row[name] != number]
    if wrong := wrong or sorted({*index} ^ {*names}, key=str):
        raise InputError(
            f"the index of {kind} does not match the {item}s (see {wrong[0]!r}): give a row for "
            f"each {item} under its name, or the values alone (.to_numpy()) in their order"
        )
    return values.iloc[[row[name] for name in names]]
