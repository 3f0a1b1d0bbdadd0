"""Moving nested tensors to a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from gcl_hard.graphs.sparse import csr

T = TypeVar("T")

PACKED_UP_TO = 2**26
"""Most bytes that are packed into one copy; larger copies gain nothing."""
ALIGNED = 16
"""Alignment of packed tensors, in bytes."""


def on_device(tree: T, device: torch.device | str, dtype: torch.dtype | None = None) -> T:
    """Move tensors nested in dataclasses, tuples and lists to a device; other values stay.

    From the CPU to a GPU they are packed into one copy from pinned memory, for which the host does
    not wait.

    Args:
        tree: a tensor, or a container of tensors.
        device: target device.
        dtype: dtype of floating-point tensors; unchanged if None.

    Example:
        >>> on_device((torch.ones(2), [torch.tensor(1)], "a"), "cpu", torch.float64)
        (tensor([1., 1.], dtype=torch.float64), [tensor(1)], 'a')
    """
    device = torch.device(device)

    def target_dtype(tensor: Tensor) -> torch.dtype:
        return dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype

    tensors: list[Tensor] = []
    moved: T
    if device.type == "cuda":
        tensors = _tensors(tree)
    n_bytes = sum(tensor.numel() * target_dtype(tensor).itemsize for tensor in tensors)
    plain = all(tensor.device.type == "cpu" and not tensor.requires_grad for tensor in tensors)
    if len(tensors) < 2 or not plain or n_bytes > PACKED_UP_TO:
        moved = _mapped(tree, lambda tensor: tensor.to(device, target_dtype(tensor)))
        return moved
    copies = _packed([tensor.to(target_dtype(tensor)) for tensor in tensors], device)
    moved = _mapped(tree, lambda tensor: next(copies))
    return moved


def _tensors(tree: Any) -> list[Tensor]:
    """The tensors of a tree, in traversal order."""
    tensors: list[Tensor] = []

    def record(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    _mapped(tree, record)
    return tensors


def _packed(tensors: list[Tensor], device: torch.device) -> Iterator[Tensor]:
    """Tensors moved to a device in one copy."""
    sizes = [tensor.numel() * tensor.dtype.itemsize for tensor in tensors]
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size // ALIGNED) * ALIGNED)
    spans = [slice(start, start + size) for start, size in zip(starts, sizes, strict=False)]
    packed = torch.empty(starts[-1], dtype=torch.uint8, pin_memory=True)
    for span, tensor in zip(spans, tensors, strict=True):
        packed[span].view(tensor.dtype).copy_(tensor.reshape(-1))
    copied = packed.to(device, non_blocking=True)
    for span, tensor in zip(spans, tensors, strict=True):
        yield copied[span].view(tensor.dtype).view(tensor.shape)


def _mapped(tree: Any, move: Callable[[Tensor], Tensor]) -> Any:
    """The tree with ``move`` applied to its tensors, in traversal order."""
    if isinstance(tree, Tensor):
        if tree.layout == torch.sparse_csr:
            rows, columns, values = tree.crow_indices(), tree.col_indices(), tree.values()
            return csr(move(rows), move(columns), move(values), (tree.shape[0], tree.shape[1]))
        return move(tree)
    if isinstance(tree, (tuple, list)):
        parts = [_mapped(part, move) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    if is_dataclass(tree) and not isinstance(tree, type):
        return replace(tree, **{f.name: _mapped(getattr(tree, f.name), move) for f in fields(tree)})
    return tree
