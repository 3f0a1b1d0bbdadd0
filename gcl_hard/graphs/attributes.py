"""Named node and edge attributes: words and integers become one-hot, real numbers columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import InputError, unknown

MOST_KINDS = 1000
"""Most distinct values of an attribute that are one-hot encoded."""


class Attributes(NamedTuple):
    """Attributes of all nodes, or of all edges, of several graphs.

    Attributes:
        labels: float32 [n, L] one-hot, or None.
        label_names: names of the L columns, such as ``element=C``.
        numbers: float32 [n, A], or None.
        number_names: names of the A columns.
    """

    labels: Tensor | None = None
    label_names: tuple[str, ...] = ()
    numbers: Tensor | None = None
    number_names: tuple[str, ...] = ()


def read_attributes(
    graphs: Sequence[Any], names: Sequence[str], sizes: Sequence[int], level: str
) -> Attributes:
    """Named attributes of nodes or edges.

    Words, integers and booleans are categories: each value that occurs gets a column, in increasing
    order. Real numbers, and several numbers per node, are columns themselves.

    Args:
        graphs: PyTorch Geometric's ``Data``, with the attributes.
        names: names of the attributes, in the order of their columns.
        sizes: nodes or edges of each graph.
        level: ``node`` or ``edge``, for messages.

    Raises:
        InputError: for an attribute that a graph lacks, with another number of rows, mixed types,
            non-finite values, or more than 1,000 distinct values.

    Example:
        >>> from torch_geometric.data import Data
        >>> graph = Data(element=["C", "O"], charge=[0.5, -0.5], num_nodes=2)
        >>> read_attributes([graph], ["element", "charge"], [2], "node").label_names
        ('element=C', 'element=O')
    """
    if isinstance(names, str):
        raise InputError(
            f"{level}_attrs is a list of names, got {names!r}; for a single name give [{names!r}]"
        )
    kinds: list[tuple[Tensor, tuple[str, ...]]] = []
    numbers: list[tuple[Tensor, tuple[str, ...]]] = []
    for name in names:
        values = _joined(
            [
                _rows(g, i, name, n, level)
                for i, (g, n) in enumerate(zip(graphs, sizes, strict=True))
                if n
            ],
            name,
            level,
        )
        if values.ndim == 1 and values.dtype.kind != "f":
            kinds.append(_one_hot(values, name, level))
            continue
        rows = torch.from_numpy(values.astype(np.float32)).reshape(len(values), -1)
        if not rows.isfinite().all():
            raise InputError(
                f"{level} attribute {name} holds NaN or infinite values; expected finite ones"
            )
        several = rows.shape[1] > 1
        numbers.append(
            (rows, tuple(f"{name} {i}" if several else name for i in range(rows.shape[1])))
        )
    attributes = Attributes(*_side_by_side(kinds), *_side_by_side(numbers))
    columns = [*attributes.label_names, *attributes.number_names]
    if twice := [name for name in dict.fromkeys(columns) if columns.count(name) > 1]:
        raise InputError(f"two columns of {level} attributes are called {twice[0]}: rename one")
    return attributes


def _rows(graph: Any, i: int, name: str, n: int, level: str) -> NDArray[Any]:
    """Values of a graph's attribute, one row per node or edge."""
    fields = graph.to_dict()
    if name not in fields:
        raise unknown(f"{level} attribute of graph {i}", name, [*fields])
    values = fields[name]
    try:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except ValueError as error:  # rows of several lengths
        raise InputError(
            f"{level} attribute {name} of graph {i} cannot be read: {error}"
        ) from error
    most = 1 if array.dtype.kind == "U" else 2
    value_types = {type(value) for value in values} if isinstance(values, list) else set()
    if str in value_types and len(value_types) > 1:
        raise InputError(
            f"{level} attribute {name} of graph {i} mixes words and numbers; expected one kind"
        )
    if array.dtype.kind not in "biufU" or not 0 < array.ndim <= most or len(array) != n:
        raise InputError(
            f"{level} attribute {name} of graph {i} is {array.dtype} {[*array.shape]}; "
            f"expected a word, a number or several numbers for each of its {n} {level}s"
        )
    return array


def _joined(parts: Sequence[NDArray[Any]], name: str, level: str) -> NDArray[Any]:
    if not parts:  # no graph has an edge
        return np.empty(0, np.int64)
    first = parts[0]
    for i, part in enumerate(parts):
        dtypes = {"f" if p.dtype.kind in "iuf" else p.dtype.kind for p in (part, first)}
        if len(dtypes) > 1 or part.shape[1:] != first.shape[1:]:
            raise InputError(
                f"{level} attribute {name} of graph {i} is {part.dtype} {[*part.shape]}, "
                f"that of graph 0 {first.dtype} {[*first.shape]}; expected the same in all graphs"
            )
    return np.concatenate(parts)


def _one_hot(values: NDArray[Any], name: str, level: str) -> tuple[Tensor, tuple[str, ...]]:
    kinds, codes = np.unique(values, return_inverse=True)
    if len(kinds) > MOST_KINDS:
        raise InputError(
            f"{level} attribute {name} has {len(kinds)} distinct values, each of which would "
            f"be a column: give it as real numbers, or leave it out"
        )
    columns = torch.nn.functional.one_hot(torch.from_numpy(codes.astype(np.int64)), len(kinds))
    return columns.float(), tuple(f"{name}={kind}" for kind in kinds.tolist())


def _side_by_side(
    blocks: Sequence[tuple[Tensor, tuple[str, ...]]],
) -> tuple[Tensor | None, tuple[str, ...]]:
    if not blocks:
        return None, ()
    return torch.cat([block for block, _ in blocks], 1), tuple(
        n for _, names in blocks for n in names
    )
