"""What a graph with classes of nodes is made of: features, edges, classes and splits, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gcl_hard.errors import InputError
from gcl_hard.graphs.sparse import csr

SPARSE_STORED, SPARSE_DENSE = 0.25, 0.1
"""Features stay sparse below the first share of entries that are not 0, and dense ones become so
below the second."""
PARTS = ("train", "val", "test")
MISSING = ("None", "nan", "NaN", "<NA>", "NaT")
"""How values print that are none; None, NaN, and those of pandas."""
LARGEST_LABEL = 2**53  # up to it doubles are whole numbers
ROUNDING = 1e-5  # share by which weights of the same edge may differ


class Edges(NamedTuple):
    """The edges of an undirected graph.

    Attributes:
        edge_index: int64 [2, E], both directions of each edge, sorted, no repeats, no self-loops.
        edge_weight: float32 [E], or None.
        notes: what was done to the stored edges.
    """

    edge_index: Tensor
    edge_weight: Tensor | None
    notes: tuple[str, ...]


def undirected(ends: Any, n: int, where: str, *, weight: Any = None, once: bool = False) -> Edges:
    """The edges of a graph as those of an undirected one.

    Args:
        ends: whole numbers [2, e], the nodes at both ends of each edge, 0..n-1.
        n: number of nodes.
        where: name of the graph, for messages.
        weight: numbers above 0, [e], or None.
        once: whether the source has undirected edges, each in one direction.

    Returns:
        The edges.

    Raises:
        InputError: for nodes that are not there, or weights that are not above 0, or that differ
            between several entries of the same edge.

    Example:
        >>> edges = undirected([[0, 1, 2, 2], [1, 0, 2, 1]], 4, "a graph")
        >>> edges.edge_index.tolist()
        [[0, 1, 1, 2], [1, 0, 2, 1]]
        >>> edges.notes
        ('made symmetric: 1 edge had one direction', '1 self-loop dropped', '1 isolated node kept')
    """
    pairs, weights = _checked_ends(ends, n, where), _checked_weights(weight, where)
    if weights is not None and weights.shape != pairs.shape[1:]:
        raise InputError(f"{where}: {weights.size} weights for {pairs.shape[1]} edges")
    if once:
        pairs = np.sort(pairs, axis=0)
    keep = pairs[0] != pairs[1]
    n_loops = int(keep.size - np.count_nonzero(keep))
    if n_loops:
        pairs = pairs[:, keep]
        weights = weights if weights is None else weights[keep]
    one_way = _matrix(pairs, n, np.ones(pairs.shape[1], np.bool_))
    both = one_way.maximum(one_way.T.tocsr())
    n_single, n_repeats = both.nnz - one_way.nnz, pairs.shape[1] - one_way.nnz
    found = None if weights is None else _symmetric_weights(pairs, weights, n, where)
    both.sort_indices()
    sizes = np.diff(both.indptr)
    index = np.stack([np.repeat(np.arange(n, dtype=np.int64), sizes), both.indices], dtype=np.int64)
    notes = (
        (f"made symmetric: {count(n_single, 'edge')} had one direction", n_single and not once),
        (f"{count(n_loops, 'self-loop')} dropped", n_loops),
        (f"{count(n_repeats, 'repeated edge')} merged", n_repeats),
        (f"{count(n_alone := int((sizes == 0).sum()), 'isolated node')} kept", n_alone),
    )
    return Edges(
        torch.from_numpy(index), found, tuple(note for note, happened in notes if happened)
    )


def count(n: int, what: str, several: str | None = None) -> str:
    """A number of things: ``1 edge``, ``2 edges``, ``3 entities``."""
    return f"{n:,} {what if n == 1 else several or f'{what}s'}"


def _matrix(pairs: NDArray[np.int64], n: int, values: NDArray[Any]) -> Any:
    from scipy import sparse

    return sparse.coo_array((values, (pairs[0], pairs[1])), shape=(n, n)).tocsr()


def _checked_ends(ends: Any, n: int, where: str) -> NDArray[np.int64]:
    pairs = as_array(ends, f"{where}: edges")
    if pairs.ndim != 2 or len(pairs) != 2 or (pairs.dtype.kind not in "iu" and pairs.size):
        raise InputError(
            f"{where}: edges are {pairs.dtype} {[*pairs.shape]}; expected whole numbers [2, E]"
        )
    outside = ((pairs < 0) | (pairs >= n)).any(axis=0)
    if outside.any():
        first = int(outside.argmax())
        raise InputError(
            f"{where}: {count(int(outside.sum()), 'edge')} of nodes outside 0..{n - 1}, first "
            f"edge {first}, {pairs[0, first]} to {pairs[1, first]}: nodes count from 0, in the "
            f"order of the features' rows"
        )
    return pairs.astype(np.int64, copy=False)


def _checked_weights(weight: Any, where: str) -> NDArray[np.float32] | None:
    if weight is None:
        return None
    values = as_array(weight, f"{where}: weights of edges")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise InputError(
            f"{where}: weights of edges are {values.dtype} {[*values.shape]}; expected numbers [E]"
        )
    values = as_float32(values)
    wrong = ~((values > 0) & np.isfinite(values))
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(
            f"{where}: {count(int(wrong.sum()), 'weight')} of edges not finite and above 0, first "
            f"{values[first]:g} of edge {first}: leave out an edge that is none"
        )
    return values


def _symmetric_weights(
    pairs: NDArray[np.int64], weights: NDArray[np.float32], n: int, where: str
) -> Tensor:
    """Weights in the order of the edges, if all entries of an edge have the same."""
    codes = pairs.min(axis=0) * n + pairs.max(axis=0)
    edges, first, edge_of = np.unique(codes, return_index=True, return_inverse=True)
    chosen = weights[first]
    differ = ~np.isclose(weights, chosen[edge_of], rtol=ROUNDING, atol=0)
    if differ.any():
        at, n_edges = int(differ.argmax()), len(np.unique(edge_of[differ]))
        raise InputError(
            f"{where}: {count(n_edges, 'edge')} with several weights, first "
            f"{pairs[0, at]} to {pairs[1, at]} with {chosen[edge_of[at]]:g} and {weights[at]:g}, "
            f"which may be added or averaged: give each undirected edge one weight"
        )
    upper = _matrix(np.stack([edges // n, edges % n]), n, chosen)
    both = (upper + upper.T).tocsr()
    both.sort_indices()
    return torch.from_numpy(both.data)


def features(x: Any, where: str) -> Tensor:
    """Features of nodes, float32 [N, F], dense or in sparse rows (``torch.sparse_csr``).

    Those that are stored sparse stay so if less than a quarter of the entries are not 0, and dense
    ones become sparse if less than a tenth are not 0.

    Args:
        x: numbers [N, F]: an array, a tensor of any layout, or a matrix of SciPy.
        where: name of the graph, for messages.

    Raises:
        InputError: for what is no such matrix, or not finite in single precision.

    Example:
        >>> features(torch.eye(20), "a graph").layout, features(torch.eye(4), "a graph").layout
        (torch.sparse_csr, torch.strided)
    """
    from scipy import sparse

    stored = _as_matrix(x, f"{where}: features x")
    if stored.ndim != 2 or stored.dtype.kind not in "biuf" or not all(stored.shape):
        raise InputError(
            f"{where}: features x are {stored.dtype} {[*stored.shape]}; expected numbers [N, F], a "
            f"row for each node"
        )
    is_sparse = sparse.issparse(stored)
    values = as_float32(stored.data if is_sparse else stored)
    wrong = ~np.isfinite(values)
    if wrong.any():
        rows = stored.tocoo().coords[0] if is_sparse else np.nonzero(wrong)[0]
        node = int(rows[wrong].min() if is_sparse else rows.min())
        raise InputError(
            f"{where}: {int(wrong.sum()):,} features x are NaN or infinite (in single precision), "
            f"first in node {node}: replace or leave them out"
        )
    n, d = stored.shape
    if np.count_nonzero(values) >= (SPARSE_STORED if is_sparse else SPARSE_DENSE) * n * d:
        return _tensor(_rows(stored, values).toarray() if is_sparse else values)
    rows = _rows(stored, values) if is_sparse else sparse.csr_array(values)
    if (rows.data == 0).any():
        rows = rows.copy()  # what is given stays as it is
        rows.eliminate_zeros()
    return csr(_int64(rows.indptr), _int64(rows.indices), _tensor(rows.data), (n, d))


def _rows(stored: Any, values: NDArray[np.float32]) -> Any:
    from scipy import sparse

    return sparse.csr_array((values, stored.indices, stored.indptr), shape=stored.shape)


def _int64(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(values.astype(np.int64))


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))


def _as_matrix(x: Any, what: str) -> Any:
    """An array, or rows of SciPy, of any matrix."""
    from scipy import sparse

    if isinstance(x, Tensor) and x.layout != torch.strided:
        layout: Any = x.detach().cpu()
        coo = layout.to_sparse_coo().coalesce()
        x = sparse.coo_array((coo.values().numpy(), tuple(coo.indices().numpy())), shape=coo.shape)
    if hasattr(x, "iloc") and hasattr(x, "columns"):
        x = _of_frame(x, what)
    return as_rows(x) if sparse.issparse(x) else as_array(x, what)


def _of_frame(frame: Any, what: str) -> Any:
    """The numbers of a frame of pandas, NaN where one is missing; sparse if all columns are."""
    words = [name for name, kind in frame.dtypes.items() if kind.kind not in "biuf"]
    if words:
        raise InputError(
            f"{what} are no numbers in {count(len(words), 'column')} of {frame.shape[1]}, first "
            f"{words[0]!r}: leave them out, or make numbers of them (pandas.get_dummies)"
        )
    if hasattr(frame, "sparse") and not any(kind.fill_value for kind in frame.dtypes):
        return frame.sparse.to_coo()
    return frame.to_numpy(np.float64, na_value=np.nan)


def as_rows(matrix: Any) -> Any:
    """A sparse matrix of SciPy in CSR format, sorted and without repeats; it stays as it is."""
    from scipy import sparse

    rows = sparse.csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def as_array(values: Any, what: str) -> NDArray[Any]:
    """A NumPy array of a tensor, an array or a list."""
    if isinstance(values, Tensor):
        values = values.detach().to_dense().cpu()
        array: NDArray[Any] = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
        return array
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what}: {error}; expected an array or a tensor") from error


def as_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers in single precision; too large ones are infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def classes(
    y: Any, n: int, where: str, *, names: Sequence[str] = ()
) -> tuple[Tensor, tuple[str, ...]]:
    """Classes of nodes, int64 [N] in 0..C-1 and −1 where unknown, and what they are called.

    Args:
        y: whole numbers, or words, [N]; unknown is −1, NaN, None, what pandas calls missing, or an
            empty word.
        n: number of nodes.
        where: name of the graph, for messages.
        names: of the classes 0, 1, …; none for what y has.

    Raises:
        InputError: for others, or −1 that may be a class.

    Example:
        >>> classes([3.0, float("nan"), 5.0], 3, "a graph")
        (tensor([ 0, -1,  1]), ('3', '5'))
    """
    if isinstance(y, list | tuple) and any(isinstance(one, str) for one in y):
        y = np.array(y, object)  # else NumPy makes words of all
    given = as_array(y, f"{where}: labels y")
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.shape != (n,):
        raise InputError(
            f"{where}: labels y are {given.dtype} {[*given.shape]}; expected one class for each of "
            f"{n} nodes, [{n}]"
        )
    values, known = _known(given, where)
    kinds, place = np.unique(values[known], return_inverse=True)
    found = np.full(n, -1)
    found[known] = place
    numbered = kinds.dtype.kind in "iu" and all(0 <= one < len(names) for one in kinds.tolist())
    if names and len(kinds) and not numbered:
        raise InputError(
            f"{where}: there are names of the classes 0..{len(names) - 1}, and labels y are "
            f"{kinds[0]}..{kinds[-1]}: give each class a name, or none"
        )
    called = (names[one] if names else str(one) for one in kinds.tolist())
    return torch.from_numpy(found.astype(np.int64)), tuple(called)


def _known(given: NDArray[Any], where: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels as whole numbers or words, and which are known."""
    if given.dtype.kind == "O":
        empty = np.array([_is_missing(label) for label in given], np.bool_)
        words = [isinstance(one, str) for one in given[~empty]]
        if any(words) and not all(words):
            raise InputError(f"{where}: labels y are words and numbers: give one kind")
        filled = given.copy()
        filled[empty] = "" if any(words) else np.nan
        try:
            given = filled.astype(np.str_ if any(words) else np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{where}: labels y are no numbers or words: {error}") from error
    if given.dtype.kind == "U":
        unclear = np.isin(np.char.lower(given), ("nan", "none", "<na>"))
        if unclear.any():
            first = int(unclear.argmax())
            raise InputError(
                f"{where}: labels y are {str(given[first])!r} at "
                f"{count(int(unclear.sum()), 'node')}, first node {first}, which may be a class "
                f"or unknown: give an empty word where unknown, or call the class otherwise"
            )
        return given, given != ""
    if given.dtype.kind not in "biuf":
        raise InputError(f"{where}: labels y are {given.dtype}; expected whole numbers or words")
    if given.dtype.kind == "f":
        known = ~np.isnan(given)
        given = _whole(np.where(known, given, 0), where)
    else:
        known = np.ones(len(given), np.bool_)
    none = (given == -1) & (given.dtype.kind == "i")
    others = np.unique(given[known & ~none])
    if none.any() and len(others) and (others[0] < 0 or others.tolist() == [1]):
        raise InputError(
            f"{where}: labels y are −1 at {count(int(none.sum()), 'node')}, first node "
            f"{int(none.argmax())}, beside {others[0]}; −1 may be a class or unknown: give NaN "
            f"where unknown, or number the classes from 0"
        )
    return given, known & ~none


def _is_missing(label: Any) -> bool:
    return str(label) in MISSING and not isinstance(label, str)


def _whole(given: NDArray[Any], where: str) -> NDArray[np.int64]:
    with np.errstate(invalid="ignore"):
        odd = (given % 1 != 0) | (np.abs(given) > LARGEST_LABEL)
    if odd.any():
        first = int(odd.argmax())
        raise InputError(
            f"{where}: {count(int(odd.sum()), 'label')} y are no whole numbers, first "
            f"{given[first]:g} of node {first}: expected the number of a class, or NaN where "
            f"unknown"
        )
    return given.astype(np.int64)


def splits(given: Mapping[str, Any], y: Tensor, where: str) -> dict[str, Tensor]:
    """Masks of given splits, bool [S, N] by part; none if none is given.

    Args:
        given: masks, [N] or [S, N], by part: train, val and test; None where there is none.
        y: the classes, −1 where unknown.
        where: name of the graph, for messages.

    Raises:
        InputError: for parts that are missing, of another size, empty, or share nodes, and for
            their nodes without a label.

    Example:
        >>> parts = {"train": [True, False, False], "val": [False, True, False]}
        >>> splits({**parts, "test": [False, False, True]}, torch.tensor([0, 1, 0]), "a graph")
        {'train': tensor([[ True, False, False]]), 'val': tensor([[False,  True, False]]), \
'test': tensor([[False, False,  True]])}
    """
    there = {part: given.get(part) for part in PARTS}
    lacking = [part for part in PARTS if there[part] is None]
    if len(lacking) == len(PARTS):
        return {}
    if lacking:
        raise InputError(
            f"{where}: there is no mask of {' and '.join(lacking)}: give masks of all three, "
            f"{', '.join(PARTS)}, or none"
        )
    masks = {part: _mask(there[part], y.numel(), f"{where}: mask of {part}") for part in PARTS}
    counts = {len(mask) for mask in masks.values()} - {1}
    if len(counts) > 1:
        sizes = ", ".join(f"{len(mask)} of {part}" for part, mask in masks.items())
        raise InputError(f"{where}: there are masks of different numbers of splits: {sizes}")
    wide = {part: np.broadcast_to(m, (max([1, *counts]), m.shape[1])) for part, m in masks.items()}
    _check_splits(wide, (y >= 0).cpu().numpy(), where)
    return {part: torch.from_numpy(mask.copy()) for part, mask in wide.items()}


def _mask(mask: Any, n: int, what: str) -> NDArray[np.bool_]:
    """One row of n for each split."""
    rows = np.atleast_2d(as_array(mask, what))
    truth = rows.dtype.kind == "b" or (rows.dtype.kind in "iu" and np.isin(rows, (0, 1)).all())
    if rows.ndim != 2 or rows.shape[1] != n or not truth:
        raise InputError(
            f"{what} is {rows.dtype} {[*np.shape(mask)]}; expected true or false for each of {n} "
            f"nodes, [{n}], or a row of these for each split"
        )
    return rows.astype(np.bool_)


def _check_splits(
    masks: Mapping[str, NDArray[np.bool_]], labelled: NDArray[np.bool_], where: str
) -> None:
    for part, mask in masks.items():
        if not mask.any(axis=1).all():
            split = int(mask.any(axis=1).argmin())
            raise InputError(f"{where}: no node is in {part} of split {split}; it needs some")
    together = np.sum([*masks.values()], axis=0)
    for what, wrong in (
        ("nodes in several parts", together > 1),
        ("nodes without a label in a part", (together > 0) & ~labelled),
    ):
        if wrong.any():
            split, node = np.argwhere(wrong)[0]
            found = [part for part, mask in masks.items() if mask[split, node]]
            raise InputError(
                f"{where}: {int(wrong[split].sum()):,} {what} of split {split}, first node {node} "
                f"in {' and '.join(found)}: each node with a label belongs to one part, or to none"
            )
