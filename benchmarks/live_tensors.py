"""Which tensors are alive at once: a count of storages as they are made and freed."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveTensors(TorchDispatchMode):
    """Within the context, counts what operations allocate; what is there before is free.

    What a kernel allocates and frees before it returns is not seen.

    Args:
        large: elements from which on a tensor is counted as large.

    Attributes:
        peak_bytes: most bytes alive at once.
        peak_large: most large tensors alive at once.
    """

    def __init__(self, large: int) -> None:
        super().__init__()
        self.large = large
        self.peak_bytes = self.peak_large = 0
        self._bytes = self._large = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        # Views and in-place results share an input's storage.
        old = {leaf.untyped_storage()._cdata for leaf in _tensors((args, kwargs))}
        for tensor in _tensors(out):
            storage = tensor.untyped_storage()
            if storage._cdata not in old:
                old.add(storage._cdata)
                n_bytes = storage.nbytes()
                is_large = n_bytes >= self.large * tensor.itemsize
                self._change(n_bytes, is_large)
                weakref.finalize(storage, self._change, -n_bytes, -is_large).atexit = False
        return out

    def _change(self, n_bytes: int, n_large: int) -> None:
        self._bytes += n_bytes
        self._large += n_large
        self.peak_bytes = max(self.peak_bytes, self._bytes)
        self.peak_large = max(self.peak_large, self._large)


def _tensors(tree: object) -> list[Tensor]:
    """All but sparse ones, which have no storage of their own."""
    leaves = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))
    return [leaf for leaf in leaves if leaf.layout == torch.strided]


def peak_resident() -> float:
    """Highest resident memory of this process so far, MB; Linux only.

    Not getrusage: its maximum begins with that of the process that started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    [kib] = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(kib) * 1024 / 1e6
