"""The rounding of another CPU: matrix products moved by one unit in the last place."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

MOVED = torch.float32, torch.float64, torch.bfloat16
_moving = False


@contextmanager
def perturbed() -> Iterator[None]:
    """Within it every matrix product on a CPU is moved by one unit in the last place.

    Up or down is drawn for each number of a result by the operation and the shape of the result:
    the same computation has the same bits again, and a model in an ensemble has others than in
    another company, as where a library chooses its kernel by the shape. The kernels themselves
    are replaced, so that no other operation is slowed down.
    """
    global _moving  # noqa: PLW0603
    _replace_kernels()
    _moving = True
    try:
        yield
    finally:
        _moving = False


def _moved(name: str, out: Tensor) -> Tensor:
    if _moving and out.dtype in MOVED and out.numel():
        moved = torch.nextafter(out, _towards(name, out.shape, out.dtype))
        # A sum of zeros is zero on any machine, and what overflows does so.
        out.copy_(torch.where((out == 0) | out.isinf(), out, moved))
    return out


@cache
def _replace_kernels() -> torch.library.Library:
    """Kernels of a CPU that call those of another overload, which stay."""
    aten = torch.ops.aten

    def mm_out(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
        nothing = out.new_zeros(())
        return _moved("mm", aten.addmm.out(nothing, a, b, beta=0, out=out))

    def mm(a: Tensor, b: Tensor) -> Tensor:
        return mm_out(a, b, out=a.new_empty(a.shape[0], b.shape[1]))

    def bmm(a: Tensor, b: Tensor) -> Tensor:
        return _moved("bmm", aten.bmm.out(a, b, out=a.new_empty(*a.shape[:2], b.shape[2])))

    def added(name: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
        into = getattr(aten, name).out

        def new(c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
            out = a.new_empty(*a.shape[:-1], b.shape[-1])
            return _moved(name, into(c, a, b, beta=beta, alpha=alpha, out=out))

        def in_place(c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
            return _moved(name, into(c, a, b, beta=beta, alpha=alpha, out=c))

        return new, in_place

    library = torch.library.Library("aten", "IMPL")
    kernels = {"mm": mm, "mm.out": mm_out, "bmm": bmm}
    for name in ("addmm", "baddbmm"):
        kernels[name], kernels[f"{name}_"] = added(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there was a kernel
        for name, kernel in kernels.items():
            library.impl(name, kernel, "CPU")
    return library


def _towards(name: str, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """±∞, drawn by the operation and the shape."""
    start = zlib.crc32(repr((name, *shape)).encode()) % 1000
    size = math.prod(shape)
    return _drawn(dtype, 2 ** (start + size).bit_length())[start : start + size].view(shape)


@lru_cache
def _drawn(dtype: torch.dtype, n: int) -> Tensor:
    up = torch.randint(2, (n,), generator=torch.Generator().manual_seed(0))
    return torch.where(up == 1, torch.inf, -torch.inf).to(dtype)
