"""Attributes that the user names: words and whole numbers become one-hot, other numbers columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import InputError, unknown

MOST_KINDS = 1000
"""Different values of an attribute that may become columns."""


class Attributes(NamedTuple):
    """Attributes of all nodes, or of all edges, of several graphs.

    Attributes:
        labels: float32 [n, L] one-hot, or None.
        label_names: what the L columns stand for, such as ``element=C``.
        numbers: float32 [n, A], or None.
        number_names: what the A columns are.
    """

    labels: Tensor | None = None
    label_names: tuple[str, ...] = ()
    numbers: Tensor | None = None
    number_names: tuple[str, ...] = ()


def read_attributes(
    graphs: Sequence[Any], names: Sequence[str], sizes: Sequence[int], what: str
) -> Attributes:
    """Attributes of nodes or edges by their names.

    Words, whole numbers and truth values are kinds, and get a column for each of those that occur,
    in increasing order; other numbers, and several numbers for each node, are columns themselves.

    Args:
        graphs: PyTorch Geometric's ``Data``, with the attributes.
        names: of the attributes, in the order of their columns.
        sizes: nodes or edges of each graph.
        what: ``node`` or ``edge``, for messages.

    Raises:
        InputError: for an attribute that a graph lacks, of another number of rows, of values of
            several types, that are not finite, or of more than 1,000 kinds.

    Example:
        >>> from torch_geometric.data import Data
        >>> graph = Data(element=["C", "O"], charge=[0.5, -0.5], num_nodes=2)
        >>> read_attributes([graph], ["element", "charge"], [2], "node").label_names
        ('element=C', 'element=O')
    """
    if isinstance(names, str):
        raise InputError(
            f"{what}_attrs is a list of names, got {names!r}: for one give [{names!r}]"
        )
    kinds: list[tuple[Tensor, tuple[str, ...]]] = []
    numbers: list[tuple[Tensor, tuple[str, ...]]] = []
    for name in names:
        values = _joined(
            [
                _rows(g, i, name, n, what)
                for i, (g, n) in enumerate(zip(graphs, sizes, strict=True))
                if n
            ],
            name,
            what,
        )
        if values.ndim == 1 and values.dtype.kind != "f":
            kinds.append(_one_hot(values, name, what))
            continue
        rows = torch.from_numpy(values.astype(np.float32)).reshape(len(values), -1)
        if not rows.isfinite().all():
            raise InputError(
                f"{what} attribute {name} holds NaN or infinite values; only finite ones will do"
            )
        several = rows.shape[1] > 1
        numbers.append(
            (rows, tuple(f"{name} {i}" if several else name for i in range(rows.shape[1])))
        )
    found = Attributes(*_side_by_side(kinds), *_side_by_side(numbers))
    named = [*found.label_names, *found.number_names]
    if twice := [one for one in dict.fromkeys(named) if named.count(one) > 1]:
        raise InputError(f"two columns of {what} attributes are called {twice[0]}: rename one")
    return found


def _rows(graph: Any, i: int, name: str, n: int, what: str) -> NDArray[Any]:
    """The values of a graph's attribute, one for each of its nodes or edges."""
    fields = graph.to_dict()
    if name not in fields:
        raise unknown(f"{what} attribute of graph {i}", name, [*fields])
    given = fields[name]
    try:
        values = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    except ValueError as error:  # rows of several lengths
        raise InputError(f"{what} attribute {name} of graph {i} cannot be read: {error}") from error
    most = 1 if values.dtype.kind == "U" else 2
    types = {type(one) for one in given} if isinstance(given, list) else set()
    if str in types and len(types) > 1:
        raise InputError(
            f"{what} attribute {name} of graph {i} has words and numbers: give one kind of them"
        )
    if values.dtype.kind not in "biufU" or not 0 < values.ndim <= most or len(values) != n:
        raise InputError(
            f"{what} attribute {name} of graph {i} is {values.dtype} {[*values.shape]}; "
            f"expected a word or a number, or several numbers, for each of its {n} {what}s"
        )
    return values


def _joined(parts: Sequence[NDArray[Any]], name: str, what: str) -> NDArray[Any]:
    if not parts:  # no graph has an edge
        return np.empty(0, np.int64)
    first = parts[0]
    for i, one in enumerate(parts):
        kinds = {"f" if part.dtype.kind in "iuf" else part.dtype.kind for part in (one, first)}
        if len(kinds) > 1 or one.shape[1:] != first.shape[1:]:
            raise InputError(
                f"{what} attribute {name} of graph {i} is {one.dtype} {[*one.shape]}, "
                f"and of graph 0 {first.dtype} {[*first.shape]}: expected the same of all"
            )
    return np.concatenate(parts)


def _one_hot(values: NDArray[Any], name: str, what: str) -> tuple[Tensor, tuple[str, ...]]:
    found, at = np.unique(values, return_inverse=True)
    if len(found) > MOST_KINDS:
        raise InputError(
            f"{what} attribute {name} has {len(found)} different values, and each would be a "
            f"column: give it as real numbers, or leave it out"
        )
    columns = torch.nn.functional.one_hot(torch.from_numpy(at.astype(np.int64)), len(found))
    return columns.float(), tuple(f"{name}={one}" for one in found.tolist())


def _side_by_side(
    blocks: Sequence[tuple[Tensor, tuple[str, ...]]],
) -> tuple[Tensor | None, tuple[str, ...]]:
    if not blocks:
        return None, ()
    return torch.cat([block for block, _ in blocks], 1), tuple(
        n for _, names in blocks for n in names
    )
