"""Nested tensors on their way to a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from gcl_hard.graphs.sparse import csr

T = TypeVar("T")

PACKED_UP_TO = 2**26
"""Bytes that are packed into one copy; larger ones gain nothing by it."""
ALIGNED = 16
"""Bytes of which the place of each packed tensor is a multiple."""


def on_device(given: T, device: torch.device | str, dtype: torch.dtype | None = None) -> T:
    """Tensors in dataclasses, tuples and lists on a device; what else is there stays.

    From the CPU to a GPU they travel together: one copy from pinned memory, for which the host
    does not wait.

    Args:
        given: a tensor or what holds some.
        device: where they go.
        dtype: of real numbers; as they are if None.

    Example:
        >>> on_device((torch.ones(2), [torch.tensor(1)], "a"), "cpu", torch.float64)
        (tensor([1., 1.], dtype=torch.float64), [tensor(1)], 'a')
    """
    device = torch.device(device)

    def kind(one: Tensor) -> torch.dtype:
        return dtype if dtype is not None and one.is_floating_point() else one.dtype

    parts: list[Tensor] = []
    found: T
    if device.type == "cuda":
        parts = _tensors(given)
    n_bytes = sum(one.numel() * kind(one).itemsize for one in parts)
    plain = all(one.device.type == "cpu" and not one.requires_grad for one in parts)
    if len(parts) < 2 or not plain or n_bytes > PACKED_UP_TO:
        found = _mapped(given, lambda one: one.to(device, kind(one)))
        return found
    there = _packed([one.to(kind(one)) for one in parts], device)
    found = _mapped(given, lambda one: next(there))
    return found


def fields_on_device(data: T, device: torch.device | str) -> T:
    """A dataclass with those of its fields that are tensors on a device; the others stay."""
    moved = {
        field.name: value.to(device)
        for field in fields(data)  # type: ignore[arg-type]
        if isinstance(value := getattr(data, field.name), Tensor)
    }
    return replace(data, **moved)  # type: ignore[type-var]


def _tensors(given: Any) -> list[Tensor]:
    """The tensors that are moved, in the order in which they are found."""
    found: list[Tensor] = []

    def note(one: Tensor) -> Tensor:
        found.append(one)
        return one

    _mapped(given, note)
    return found


def _packed(parts: list[Tensor], device: torch.device) -> Iterator[Tensor]:
    """Tensors on a device, by one copy."""
    sizes = [one.numel() * one.dtype.itemsize for one in parts]
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size // ALIGNED) * ALIGNED)
    places = [slice(start, start + size) for start, size in zip(starts, sizes, strict=False)]
    here = torch.empty(starts[-1], dtype=torch.uint8, pin_memory=True)
    for place, one in zip(places, parts, strict=True):
        here[place].view(one.dtype).copy_(one.reshape(-1))
    there = here.to(device, non_blocking=True)
    for place, one in zip(places, parts, strict=True):
        yield there[place].view(one.dtype).view(one.shape)


def _mapped(given: Any, move: Callable[[Tensor], Tensor]) -> Any:
    """What is given with its tensors moved, in the order in which they are found."""
    if isinstance(given, Tensor):
        if given.layout == torch.sparse_csr:
            rows, columns, values = given.crow_indices(), given.col_indices(), given.values()
            return csr(move(rows), move(columns), move(values), (given.shape[0], given.shape[1]))
        return move(given)
    if isinstance(given, (tuple, list)):
        parts = [_mapped(one, move) for one in given]
        return type(given)(*parts) if hasattr(given, "_fields") else type(given)(parts)
    if is_dataclass(given) and not isinstance(given, type):
        return replace(
            given, **{f.name: _mapped(getattr(given, f.name), move) for f in fields(given)}
        )
    return given
