"""Named node and edge attributes: words and integers become one-hot, real numbers columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.labels import as_array
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
    graphs: Sequence[Any],
    names: Sequence[str],
    sizes: Sequence[int],
    level: str,
    *,
    whole: bool = False,
) -> Attributes:
    """Named attributes of nodes or edges.

    Words, integers and booleans are categories: each value that occurs gets a column, in increasing
    order. Real numbers, and several numbers per node, are columns themselves.

    Args:
        graphs: PyTorch Geometric's ``Data`` with the attributes, or mappings of them by name.
        names: names of the attributes, in the order of their columns.
        sizes: nodes or edges of each graph.
        level: ``node`` or ``edge``, for messages.
        whole: whether integers are numbers, too.

    Raises:
        InputError: for an attribute that a graph lacks, with another number of rows, mixed types,
            non-finite values, or more than 1,000 distinct values.

    Example:
        >>> from torch_geometric.data import Data
        >>> graph = Data(element=["C", "O"], charge=[0.5, -0.5], num_nodes=2)
        >>> read_attributes([graph], ["element", "charge"], [2], "node").label_names
        ('element=C', 'element=O')
    """
    kinds: list[tuple[Tensor, tuple[str, ...]]] = []
    numbers: list[tuple[Tensor, tuple[str, ...]]] = []
    for name in names:
        values = _joined(graphs, name, sizes, level)
        if values.ndim == 1 and values.dtype.kind not in ("fiu" if whole else "f"):
            kinds.append(_one_hot(values, name, level))
            continue
        rows = torch.from_numpy(values.astype(np.float32)).reshape(len(values), -1)
        if not rows.isfinite().all():
            raise InputError(f"{level} attribute {name} holds NaN or infinite values")
        width = rows.shape[1]
        numbers.append(
            (rows, (name,) if width == 1 else tuple(f"{name} {i}" for i in range(width)))
        )
    return Attributes(*_side_by_side(kinds), *_side_by_side(numbers))


def _joined(graphs: Sequence[Any], name: str, sizes: Sequence[int], level: str) -> NDArray[Any]:
    """Values of an attribute, one row per node or edge of all graphs."""
    parts: list[NDArray[Any]] = []
    for i, (graph, n) in enumerate(zip(graphs, sizes, strict=True)):
        if not n:
            continue
        fields = graph if isinstance(graph, Mapping) else graph.to_dict()
        if name not in fields:
            raise unknown(f"{level} attribute of graph {i}", name, [*fields])
        what = f"{level} attribute {name} of graph {i}"
        rows = as_array(fields[name], what)
        words = {isinstance(x, str) for x in fields[name]} if rows.dtype.kind == "U" else {False}
        most = 1 if rows.dtype.kind == "U" else 2
        if rows.dtype.kind not in "biufU" or not 1 <= rows.ndim <= most or len(rows) != n:
            raise InputError(
                f"{what} is {rows.dtype} {[*rows.shape]}; expected a word, a number or several "
                f"numbers for each of its {n} {level}s"
            )
        first = parts[0] if parts else rows
        dtypes = {"f" if x.dtype.kind in "iuf" else x.dtype.kind for x in (rows, first)}
        if len(words) > 1 or len(dtypes) > 1 or rows.shape[1:] != first.shape[1:]:
            raise InputError(f"{what} is of another kind than those before: give one kind")
        parts.append(rows)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)  # no graph has an edge


def _one_hot(values: NDArray[Any], name: str, level: str) -> tuple[Tensor, tuple[str, ...]]:
    kinds, codes = np.unique(values, return_inverse=True)
    if len(kinds) > MOST_KINDS:
        raise InputError(
            f"{level} attribute {name} has {len(kinds)} distinct values, each a column: give it "
            f"as real numbers, or leave it out"
        )
    columns = torch.nn.functional.one_hot(torch.from_numpy(codes.astype(np.int64)), len(kinds))
    return columns.float(), tuple(f"{name}={kind}" for kind in kinds.tolist())


def _side_by_side(
    blocks: Sequence[tuple[Tensor, tuple[str, ...]]],
) -> tuple[Tensor | None, tuple[str, ...]]:
    if not blocks:
        return None, ()
    columns, names = zip(*blocks, strict=True)
    return torch.cat(columns, 1), tuple(chain(*names))
