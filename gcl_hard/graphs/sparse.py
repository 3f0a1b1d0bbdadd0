"""Sparse matrices of features and edges in PyTorch's CSR format."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from gcl_hard.errors import InputError

with warnings.catch_warnings():
    # PyTorch warns once per process that these are in beta; users cannot change that.
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.zeros(1, 1).to_sparse_csr()
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([0])[:0], torch.zeros(0), (1, 1))


def csr(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A ``torch.sparse_csr`` tensor, without checks of its invariants.

    Args:
        starts: int64 [rows + 1], start of each row among the values.
        columns: int64 [n].
        values: float [n].
        shape: rows and columns.

    Example:
        >>> csr(torch.tensor([0, 1]), torch.tensor([1]), torch.ones(1), (1, 2)).to_dense()
        tensor([[0., 1.]])
    """
    return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)


def scaled_columns(x: Tensor, scale: Tensor) -> Tensor:
    """A matrix with scaled columns; a sparse one stays sparse and shares its pattern.

    Args:
        x: float [n, d], dense or ``torch.sparse_csr``.
        scale: float [d].
    """
    if x.layout == torch.strided:
        return x * scale
    n, d = x.shape
    return csr(x.crow_indices(), x.col_indices(), x.values() * scale[x.col_indices()], (n, d))


def column_sums(x: Tensor, weights: Tensor) -> Tensor:
    """For each column the sum of the weights of rows with a non-zero entry, float [d].

    Args:
        x: float [n, d], dense or ``torch.sparse_csr``.
        weights: float [n].

    Example:
        >>> column_sums(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([1.0, 3.0]))
        tensor([4., 3.])
    """
    if x.layout == torch.strided:
        return weights @ (x != 0).to(weights.dtype)
    sizes, n = x.crow_indices().diff(), len(x.values())
    entry_weights = weights.repeat_interleave(sizes, output_size=n) * (x.values() != 0)
    return weights.new_zeros(x.shape[1]).index_add_(0, x.col_indices(), entry_weights)


def in_degree(edge_index: Tensor, n: int) -> Tensor:
    """Number of edges to each of n nodes, int64 [n], without device synchronisation.

    Example:
        >>> in_degree(torch.tensor([[0, 1, 2], [1, 2, 1]]), 4)
        tensor([0, 2, 1, 0])
    """
    return sum_to(edge_index, torch.ones_like(edge_index[1]), n)


def sum_to(edge_index: Tensor, weight: Tensor, n: int) -> Tensor:
    """The sum of the weights [E] of the edges that lead to each of n nodes, [n]."""
    return weight.new_zeros(n).index_add_(0, edge_index[1], weight)


def check_ends(edge_index: Tensor, n: int) -> None:
    """InputError for edges with nodes outside 0 to n − 1; checked on a CPU only."""
    if edge_index.device.type != "cpu" or not edge_index.numel():
        return
    least, most = (int(end) for end in edge_index.aminmax())
    if least < 0 or most >= n:
        raise InputError(f"edge_index must number the {n} nodes from 0, got {least} to {most}")


def slices(ptr: Tensor, ids: Tensor, total: int) -> tuple[Tensor, Tensor, Tensor]:
    """Positions of the ids' rows, the index into ``ids`` of each, and old minus new start.

    Args:
        ptr: int64 [n + 1], the first row of each item.
        ids: int64 [m].
        total: number of these rows, which a device would have to be asked for.
    """
    sizes = ptr[ids + 1] - ptr[ids]
    shift = ptr[ids] - (sizes.cumsum(0) - sizes)
    positions = torch.arange(ids.numel(), device=ids.device)
    owner = torch.repeat_interleave(positions, sizes, output_size=total)
    return torch.arange(total, device=ids.device) + shift[owner], owner, shift


def rows_of(x: Tensor, ids: Tensor) -> Tensor:
    """Rows of a matrix by their ids; sparse if the matrix is.

    Args:
        x: float [n, d], dense or ``torch.sparse_csr``.
        ids: int64 [m].
    """
    if x.layout == torch.strided:
        return x[ids]
    starts = x.crow_indices()
    ends = starts.diff()[ids].cumsum(0)
    positions, _, _ = slices(starts, ids, int(ends[-1]) if len(ids) else 0)
    begins = torch.cat([ends.new_zeros(1), ends])
    return csr(begins, x.col_indices()[positions], x.values()[positions], (len(ids), x.shape[1]))


def to_scipy(x: Tensor) -> Any:
    """A matrix as a SciPy CSR array, or as a NumPy array if dense."""
    from scipy.sparse import csr_array

    x = x.detach().cpu()
    if x.layout == torch.strided:
        return x.numpy()
    parts = x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()
    return csr_array(parts, shape=tuple(x.shape))
