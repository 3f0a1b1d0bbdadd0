"""Parts of a graph with node classes: features, edges, classes and splits, validated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.core.labels import as_array
from gcl_hard.errors import InputError
from gcl_hard.graphs.sparse import csr

SPARSE_STORED, SPARSE_DENSE = 0.25, 0.1
"""Sparse features stay sparse below the first share of non-zero entries; dense ones become sparse
below the second."""
PARTS = ("train", "val", "test")
Merge = Literal["sum", "mean", "max"]
"""How several weights of an edge become one."""
ROUNDING = 1e-5  # relative tolerance between weights of the same edge


class Edges(NamedTuple):
    """The edges of an undirected graph.

    Attributes:
        edge_index: int64 [2, E], both directions of each edge, sorted, no repeats, no self-loops.
        edge_weight: float32 [E], or None.
        notes: changes to the stored edges.
    """

    edge_index: Tensor
    edge_weight: Tensor | None
    notes: tuple[str, ...]


def undirected(
    ends: Any,
    n: int,
    where: str,
    *,
    weight: Any = None,
    once: bool = False,
    names: Sequence[Any] | None = None,
    merge: Merge | None = None,
) -> Edges:
    """The edges of a graph, made undirected.

    Args:
        ends: integers [2, e], the nodes at both ends of each edge, 0..n-1.
        n: number of nodes.
        where: name of the graph, for messages.
        weight: positive numbers [e], or None.
        once: whether the source stores undirected edges in one direction each.
        names: names of the nodes, for messages.
        merge: the weight of an edge among those of its entries; they must agree if None.

    Returns:
        The edges.

    Raises:
        InputError: for missing nodes, or weights that are not positive or differ between entries
            of the same edge.

    Example:
        >>> edges = undirected([[0, 1, 2, 2], [1, 0, 2, 1]], 4, "a graph")
        >>> edges.edge_index.tolist()
        [[0, 1, 1, 2], [1, 0, 2, 1]]
        >>> edges.notes
        ('made symmetric: 1 edge had one direction', '1 self-loop dropped', '1 isolated node kept')
    """
    pairs = _checked_ends(ends, n, where)
    weights = None if weight is None else _checked_weights(weight, where)
    if weights is not None and weights.shape != pairs.shape[1:]:
        raise InputError(f"{where}: {weights.size} weights for {pairs.shape[1]} edges")
    if once:
        pairs = np.sort(pairs, axis=0)
    keep = pairs[0] != pairs[1]
    n_loops = int(keep.size - np.count_nonzero(keep))
    if n_loops:
        pairs = pairs[:, keep]
        weights = weights if weights is None else weights[keep]
    directed = _matrix(pairs, n, np.ones(pairs.shape[1], np.bool_))
    adjacency = directed.maximum(directed.T.tocsr())
    n_single, n_repeats = adjacency.nnz - directed.nnz, pairs.shape[1] - directed.nnz
    names = range(n) if names is None else names
    symmetric_weights = (
        None if weights is None else _symmetric_weights(pairs, weights, names, where, merge)
    )
    adjacency.sort_indices()
    sizes = np.diff(adjacency.indptr)
    index = np.stack(
        [np.repeat(np.arange(n, dtype=np.int64), sizes), adjacency.indices], dtype=np.int64
    )
    notes = (
        (f"made symmetric: {count(n_single, 'edge')} had one direction", n_single and not once),
        (f"{count(n_loops, 'self-loop')} dropped", n_loops),
        (f"{count(n_repeats, 'repeated edge')} merged", n_repeats),
        (f"{count(n_alone := int((sizes == 0).sum()), 'isolated node')} kept", n_alone),
    )
    return Edges(
        torch.from_numpy(index),
        symmetric_weights,
        tuple(note for note, applies in notes if applies),
    )


def count(n: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: ``1 edge``, ``2 edges``, ``3 entities``."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def _matrix(pairs: NDArray[np.int64], n: int, values: NDArray[Any]) -> Any:
    from scipy import sparse

    return sparse.coo_array((values, (pairs[0], pairs[1])), shape=(n, n)).tocsr()


def _checked_ends(ends: Any, n: int, where: str) -> NDArray[np.int64]:
    pairs = as_array(ends, f"{where}: edges")
    if pairs.ndim != 2 or len(pairs) != 2 or (pairs.dtype.kind not in "iu" and pairs.size):
        raise InputError(
            f"{where}: edges are {pairs.dtype} {[*pairs.shape]}; expected integers [2, E]"
        )
    if pairs.size and (pairs.min() < 0 or pairs.max() >= n):
        raise InputError(
            f"{where}: edges have nodes outside 0..{n - 1}: nodes are numbered in the order of the "
            f"features' rows"
        )
    return pairs.astype(np.int64, copy=False)


def _checked_weights(weight: Any, where: str) -> NDArray[np.float32]:
    values = as_array(weight, f"{where}: weights of edges")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise InputError(
            f"{where}: weights of edges are {values.dtype} {[*values.shape]}; expected numbers [E]"
        )
    values = as_float32(values)
    if not ((values > 0) & np.isfinite(values)).all():
        raise InputError(
            f"{where}: weights of edges must be finite and above 0: leave out missing edges"
        )
    return values


def _symmetric_weights(
    pairs: NDArray[np.int64], weights: NDArray[np.float32], names: Sequence[Any], where: str,
    merge: Merge | None,
) -> Tensor:  # fmt: skip
    """Weights in the order of the edges, merged or checked to agree between entries of an edge."""
    n = len(names)
    codes = pairs.min(axis=0) * n + pairs.max(axis=0)
    edges, first, edge_of = np.unique(codes, return_index=True, return_inverse=True)
    chosen = weights[first]
    differ = ~np.isclose(weights, chosen[edge_of], rtol=ROUNDING, atol=0)
    if merge is not None:
        merged = np.zeros(len(edges))
        (np.maximum if merge == "max" else np.add).at(merged, edge_of, weights)
        chosen = _checked_weights(merged / (np.bincount(edge_of) if merge == "mean" else 1), where)
    elif differ.any():
        u, v = pairs[:, differ.argmax()]
        raise InputError(
            f"{where}: edge {names[u]} to {names[v]} has several weights: give it one for both "
            f"directions, or of tables merge_weights='sum', 'mean' or 'max' (--merge-weights sum)"
        )
    upper = _matrix(np.stack([edges // n, edges % n]), n, chosen)
    both = (upper + upper.T).tocsr()
    both.sort_indices()
    return torch.from_numpy(both.data)


def features(x: Any, where: str) -> Tensor:
    """Node features, float32 [N, F], dense or ``torch.sparse_csr``.

    Sparse features stay sparse if less than a quarter of the entries are non-zero; dense ones
    become sparse if less than a tenth are.

    Args:
        x: numbers [N, F]: an array, a tensor of any layout, or a SciPy matrix.
        where: name of the graph, for messages.

    Raises:
        InputError: for anything else, or values that are not finite in single precision.

    Example:
        >>> features(torch.eye(20), "a graph").layout, features(torch.eye(4), "a graph").layout
        (torch.sparse_csr, torch.strided)
    """
    from scipy import sparse

    stored = _numpy_or_csr(x, f"{where}: features x")
    if stored.ndim != 2 or stored.dtype.kind not in "biuf" or not all(stored.shape):
        raise InputError(
            f"{where}: features x are {stored.dtype} {[*stored.shape]}; expected numbers [N, F]"
        )
    is_sparse = sparse.issparse(stored)
    values = as_float32(stored.data if is_sparse else stored)
    wrong = ~np.isfinite(values)
    if wrong.any():
        rows = stored.tocoo().coords[0] if is_sparse else np.nonzero(wrong)[0]
        node = int((rows[wrong] if is_sparse else rows).min())
        raise InputError(
            f"{where}: features x are NaN or infinite (in single precision), first in node {node}"
        )
    n, d = stored.shape
    if np.count_nonzero(values) >= (SPARSE_STORED if is_sparse else SPARSE_DENSE) * n * d:
        return _tensor(_rows(stored, values).toarray() if is_sparse else values)
    rows = _rows(stored, values) if is_sparse else sparse.csr_array(values)
    if (rows.data == 0).any():
        rows = rows.copy()  # the input is not modified
        rows.eliminate_zeros()
    return csr(_int64(rows.indptr), _int64(rows.indices), _tensor(rows.data), (n, d))


def _rows(stored: Any, values: NDArray[np.float32]) -> Any:
    from scipy import sparse

    return sparse.csr_array((values, stored.indices, stored.indptr), shape=stored.shape)


def _int64(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(values.astype(np.int64))


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))


def _numpy_or_csr(x: Any, name: str) -> Any:
    """Any matrix as a NumPy array or a SciPy CSR array."""
    from scipy import sparse

    if isinstance(x, Tensor) and x.layout != torch.strided:
        layout: Any = x.detach().cpu()
        coo = layout.to_sparse_coo().coalesce()
        x = sparse.coo_array((coo.values().numpy(), tuple(coo.indices().numpy())), shape=coo.shape)
    if hasattr(x, "iloc") and hasattr(x, "columns"):
        x = _frame_values(x, name)
    return as_rows(x) if sparse.issparse(x) else as_array(x, name)


def _frame_values(frame: Any, name: str) -> Any:
    """Values of a pandas DataFrame, NaN if missing; sparse if all columns are."""
    non_numeric = [column for column, dtype in frame.dtypes.items() if dtype.kind not in "biuf"]
    if non_numeric:
        raise InputError(
            f"{name} are not numeric in column {non_numeric[0]!r}: leave it out, or convert it "
            f"(pandas.get_dummies)"
        )
    if hasattr(frame, "sparse") and not any(dtype.fill_value for dtype in frame.dtypes):
        return frame.sparse.to_coo()
    return frame.to_numpy(np.float64, na_value=np.nan)


def as_rows(matrix: Any) -> Any:
    """A SciPy matrix in CSR format, sorted and without repeats; the input is not modified."""
    from scipy import sparse

    rows = sparse.csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def as_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers in single precision; too large ones become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def splits(masks: Mapping[str, Any], y: Tensor, where: str) -> dict[str, Tensor]:
    """Validated masks of splits, bool [S, N] by part; empty without masks.

    Args:
        masks: masks, [N] or [S, N], by part: train, val and test; None for a missing one.
        y: the classes, −1 if unknown.
        where: name of the graph, for messages.

    Raises:
        InputError: for parts that are missing, empty, overlapping or of another size, or that
            contain nodes without a label.

    Example:
        >>> parts = {"train": [True, False, False], "val": [False, True, False]}
        >>> splits({**parts, "test": [False, False, True]}, torch.tensor([0, 1, 0]), "a graph")
        {'train': tensor([[ True, False, False]]), 'val': tensor([[False,  True, False]]), \
'test': tensor([[False, False,  True]])}
    """
    present = [part for part in PARTS if masks.get(part) is not None]
    if not present:
        return {}
    if len(present) < len(PARTS):
        raise InputError(f"{where}: give masks of all of {', '.join(PARTS)}, or none")
    rows = {part: _mask(masks[part], y.numel(), f"{where}: mask of {part}") for part in PARTS}
    counts = {len(mask) for mask in rows.values()} - {1}
    if len(counts) > 1:
        raise InputError(f"{where}: masks have different numbers of splits, {sorted(counts)}")
    wide = {part: np.broadcast_to(m, (max([1, *counts]), m.shape[1])) for part, m in rows.items()}
    _check_splits(wide, (y >= 0).cpu().numpy(), where)
    return {part: torch.from_numpy(mask.copy()) for part, mask in wide.items()}


def _mask(mask: Any, n: int, name: str) -> NDArray[np.bool_]:
    """A mask as bool [S, n], one row per split."""
    rows = np.atleast_2d(as_array(mask, name))
    boolean = rows.dtype.kind == "b" or (rows.dtype.kind in "iu" and np.isin(rows, (0, 1)).all())
    if rows.ndim != 2 or rows.shape[1] != n or not boolean:
        raise InputError(
            f"{name} is {rows.dtype} {[*np.shape(mask)]}; expected true or false for each node, "
            f"[{n}], or one such row per split"
        )
    return rows.astype(np.bool_)


def _check_splits(
    masks: Mapping[str, NDArray[np.bool_]], labelled: NDArray[np.bool_], where: str
) -> None:
    for part, mask in masks.items():
        if not mask.any(axis=1).all():
            raise InputError(f"{where}: {part} of a split is empty; it needs at least one node")
    n_parts = np.sum([*masks.values()], axis=0)
    for problem, wrong in (
        ("is in several parts", n_parts > 1),
        ("without a label is in a part", (n_parts > 0) & ~labelled),
    ):
        if wrong.any():
            split, node = np.argwhere(wrong)[0]
            raise InputError(f"{where}: node {node} {problem} of split {split}")
