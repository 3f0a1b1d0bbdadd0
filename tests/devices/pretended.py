"""A device that is not there: tensors that say ``cuda:0`` and compute on the CPU.

Under :func:`pretended` code runs as it would on a GPU, and what a GPU would make of it is noted:
launches, waits of the host, copies, operations in double precision, each with the line of the
package that asked for it. Where tensors or generators of two devices meet, and where a tensor on
the device is asked for its NumPy array, the errors are PyTorch's own.

A tensor on the device is a wrapper around one on the CPU. For PyTorch's own code its device is
``meta``, since what it does for ``cuda`` (streams, guards) needs a driver; for Python it is
``cuda:0``. Autograd runs as usual. Not pretended are autocast (tensors keep their precision),
cuDNN, compiled code and NCCL.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only

import gcl_hard

GPU, STAND_IN, HOST = torch.device("cuda", 0), torch.device("meta"), torch.device("cpu")
PACKAGE = str(Path(gcl_hard.__file__).parent)
aten = torch.ops.aten


class OnDevice(Tensor):
    """A tensor on the pretended device; ``inner`` has its values."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> OnDevice:
        plain = inner.layout == torch.strided
        wrapper = Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, device=STAND_IN, requires_grad=False,
            strides=inner.stride() if plain else None,
            **({"storage_offset": inner.storage_offset()} if plain else {}),
        )  # fmt: skip
        wrapper.inner = inner
        return wrapper

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} of a tensor on the pretended device outside of pretended()")

    device = property(lambda self: GPU)
    is_cuda = property(lambda self: True)
    is_cpu = is_meta = property(lambda self: False)
    layout = property(lambda self: self.inner.layout)
    is_sparse_csr = property(lambda self: self.inner.layout == torch.sparse_csr)

    def get_device(self) -> int:
        return 0

    def __repr__(self, **kwargs: Any) -> str:
        return f"OnDevice({self.inner!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> OnDevice:
        if id(self) not in memo:
            copied = self.detach().clone().requires_grad_(self.requires_grad)
            if isinstance(self, torch.nn.Parameter):
                copied = torch.nn.Parameter(copied, self.requires_grad)
            memo[id(self)] = copied
        return memo[id(self)]

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, values: OnDevice) -> None:
        assert values.shape == self.shape
        self.inner = values.inner


class OnDeviceGenerator(torch.Generator):
    """A random generator of the pretended device, or one of the CPU."""

    def __new__(cls, device: Any = "cpu") -> OnDeviceGenerator:
        generator = super().__new__(cls, "cpu")
        generator.__dict__["at"] = GPU if torch.device(device).type == "cuda" else HOST
        return generator

    def __init__(self, device: Any = "cpu") -> None:
        pass

    device = property(lambda self: self.__dict__["at"])


class Event(NamedTuple):
    """Something that the host asked of the device.

    Attributes:
        kind: ``launch``, ``wait``, ``to device``, ``double``.
        what: the operation.
        where: file and line of the package, ``""`` for none.
    """

    kind: str
    operation: str
    where: str


class Record(list[Event]):
    """What happened under :func:`pretended`, in order."""

    def count(self, kind: str) -> int:  # type: ignore[override]
        """How many events of a kind there were."""
        return sum(event.kind == kind for event in self)

    def tally(self, kind: str) -> Counter[tuple[str, str]]:
        """The events of a kind by operation and place."""
        return Counter((event.operation, event.where) for event in self if event.kind == kind)

    def note(self, kind: str, operation: object) -> None:
        self.append(Event(kind, str(operation).removeprefix("aten."), _place()))


def _place() -> str:
    """The innermost line of the package that is running."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE):
            return f"{name[len(PACKAGE) + 1 :]}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


WAITING = {
    "_local_scalar_dense", "nonzero", "equal", "_unique2", "unique_dim", "unique_consecutive",
    "unique_dim_consecutive", "masked_select", "bincount", "_linalg_check_errors", "histc",
    "nonzero_static", "is_coalesced",
}  # fmt: skip
"""Operations whose result the host needs before it can go on."""
FREE = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view",
    "lift_fresh", "sym_size", "sym_stride", "resize_", "detach_", "set_", "_version",
}  # fmt: skip
"""Operations that launch nothing, beside views."""
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}


class _Dispatch(TorchDispatchMode):
    """Runs operations of wrapped tensors on what they wrap, and notes them."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        leaves, _ = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        to = kwargs.get("device")
        creates_on_device = _is_there(to)
        if not creates_on_device and not any(isinstance(leaf, OnDevice) for leaf in tensors):
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name in ("_to_copy", "copy_", "copy"):
            return self._copied(func, name, args, kwargs)
        self._check_devices(func, name, tensors)
        if creates_on_device:
            kwargs["device"] = HOST
        result = func(*tree_map_only(OnDevice, _inner, args),
                      **tree_map_only(OnDevice, _inner, kwargs))  # fmt: skip
        self._note(func, name, args, kwargs, result)
        return self._wrapped(func, args, kwargs, result)

    def _copied(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        source = args[0] if name == "_to_copy" else args[1]
        if name == "_to_copy":
            to = kwargs.get("device")
            to_gpu = isinstance(source, OnDevice) if to is None else _is_there(to)
            if to is not None:
                kwargs = {**kwargs, "device": HOST}
        else:
            to_gpu = isinstance(args[0], OnDevice)
        pinned = getattr(source, "is_pinned_there", False)
        later = kwargs.get("non_blocking", args[2] if name == "copy_" and len(args) > 2 else False)
        if to_gpu and not isinstance(source, OnDevice):
            self.record.note("to device", "pinned" if pinned and later else "pageable")
        elif not to_gpu:
            self.record.note("wait", "copy to the CPU")
        else:
            self._launch(func, [source])
        result = func(*tree_map_only(OnDevice, _inner, args), **kwargs)
        if name == "copy_":
            return args[0]
        if to_gpu and isinstance(source, Tensor) and result is _inner(source):
            result = result.clone()
        return OnDevice(result) if to_gpu else result

    def _check_devices(self, func: Any, name: str, tensors: Sequence[Tensor]) -> None:
        for leaf in tensors:
            if not isinstance(leaf, OnDevice) and leaf.dim() > 0:
                if name in INDEXING and not leaf.is_floating_point():
                    self.record.note("to device", "index")
                else:
                    raise RuntimeError(
                        "Expected all tensors to be on the same device, but found at least two "
                        f"devices, cuda:0 and cpu! ({func})"
                    )

    def _note(self, func: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        if name in WAITING:
            self.record.note("wait", name)
        if name in INDEXING:
            masks = [
                index
                for index in args[1]
                if index is not None and index.dtype in (torch.bool, torch.uint8)
            ]
            filled = "put" in name and len(masks) == 1 and args[2].numel() == 1
            if masks and not filled:
                self.record.note("wait", f"{name} by a mask")
        if name == "repeat_interleave" and kwargs.get("output_size") is None:
            self.record.note("wait", name)
        self._launch(func, tree_flatten((args, result))[0])

    def _launch(self, func: Any, leaves: Sequence[Any]) -> None:
        name, returns = func._schema.name.removeprefix("aten::"), func._schema.returns
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
        if is_view or name in FREE:
            return
        self.record.note("launch", name)
        if any(isinstance(leaf, Tensor) and leaf.dtype == torch.float64 for leaf in leaves):
            self.record.note("double", name)

    @staticmethod
    def _wrapped(func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        wrapped = tree_map_only(
            Tensor, lambda leaf: leaf if isinstance(leaf, OnDevice) else OnDevice(leaf), result
        )
        if func._schema.name == "aten::set_" or not any(
            a.alias_info for a in func._schema.arguments
        ):
            return wrapped
        return return_and_correct_aliasing(func, args, kwargs, wrapped)


def _is_there(device: Any) -> bool:
    return device is not None and torch.device(device).type in ("meta", "cuda")


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, OnDevice) else value


def _is_gpu(value: object) -> bool:
    if isinstance(value, str):
        return value.partition(":")[0] == "cuda"
    return isinstance(value, torch.device) and value.type == "cuda"


class _Calls(TorchFunctionMode):
    """Turns ``cuda`` in what is asked of PyTorch into the stand-in."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        special = SPECIAL.get(func)
        if special is not None:
            return special(self.record, *args, **kwargs)
        if kwargs.get("generator") is not None:
            _check_generator(kwargs["generator"], args, kwargs)
        if func is torch.empty and kwargs.pop("pin_memory", False):
            return _pinned(self.record, func(*args, **kwargs))
        if _is_gpu(kwargs.get("device")):
            if func in FROM_VALUES:
                return _on_values(func, args, kwargs)
            kwargs["device"] = STAND_IN
        if func is Tensor.to and len(args) > 1:
            args = (args[0], *(STAND_IN if _is_gpu(value) else value for value in args[1:]))
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], OnDevice):
            args = (args[0], _index(args[1]), *args[2:])
        return func(*args, **kwargs)


def _index(index: Any) -> Any:
    """An index whose lists and arrays are tensors on the device, as PyTorch makes them."""
    if isinstance(index, tuple):
        return tuple(map(_index, index))
    if isinstance(index, (list, np.ndarray)):
        return torch.as_tensor(index).to(STAND_IN)
    return index


def _check_generator(drawn: torch.Generator, args: Any, kwargs: Any) -> None:
    on_gpu = _is_gpu(kwargs.get("device")) or any(isinstance(value, OnDevice) for value in args)
    if (drawn.device == GPU) != on_gpu:
        wanted = "cuda" if on_gpu else "cpu"
        raise RuntimeError(
            f"Expected a '{wanted}' device type for generator but found '{drawn.device.type}'"
        )


FROM_VALUES = (torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor)


def _on_values(func: Any, args: Any, kwargs: Any) -> Tensor:
    """Values of Python or NumPy, or a tensor, on the device."""
    if isinstance(args[0], Tensor):
        kwargs.pop("device")
        return args[0].to(STAND_IN, kwargs.get("dtype"))
    asked = kwargs.pop("requires_grad", False)
    return func(*args, **{**kwargs, "device": HOST}).to(STAND_IN).requires_grad_(asked)


def _no_array(record: Record, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    if isinstance(tensor, OnDevice):
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the "
            "tensor to host memory first."
        )
    with torch._C.DisableTorchFunction():
        return Tensor.numpy(tensor, *args, **kwargs)


def _array(record: Record, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    _no_array(record, tensor)
    with torch._C.DisableTorchFunction():
        return tensor.__array__(*args, **kwargs)


def _tolist(record: Record, tensor: Tensor) -> Any:
    if isinstance(tensor, OnDevice):
        record.note("wait", "tolist")
        tensor = tensor.inner
    with torch._C.DisableTorchFunction():
        return tensor.tolist()


def _pinned(record: Record, tensor: Tensor, *args: Any) -> Tensor:
    copy = tensor.clone()
    copy.is_pinned_there = True  # type: ignore[attr-defined]
    return copy


SPECIAL: Mapping[Any, Callable[..., Any]] = {
    Tensor.numpy: _no_array,
    Tensor.__array__: _array,
    Tensor.tolist: _tolist,
    Tensor.cuda: lambda record, tensor, *args, **kwargs: tensor.to(STAND_IN, **kwargs),
    Tensor.cpu: lambda record, tensor, *args, **kwargs: tensor.to("cpu"),
    Tensor.pin_memory: _pinned,
    Tensor.is_pinned: lambda record, tensor, *args: getattr(tensor, "is_pinned_there", False),
    Tensor.crow_indices: lambda record, tensor: _part(tensor, "crow_indices"),
    Tensor.col_indices: lambda record, tensor: _part(tensor, "col_indices"),
    Tensor.values: lambda record, tensor: _part(tensor, "values"),
    torch.sparse_csr_tensor: lambda record, *args, **kwargs: _csr(*args, **kwargs),
}


def _part(tensor: Tensor, name: str) -> Tensor:
    with torch._C.DisableTorchFunction():
        part: Tensor = getattr(_inner(tensor), name)()
    return OnDevice(part) if isinstance(tensor, OnDevice) else part


def _csr(*parts: Any, device: Any = None, **kwargs: Any) -> Tensor:
    on_gpu = _is_gpu(device) or any(isinstance(part, OnDevice) for part in parts)
    with torch._C.DisableTorchFunction():
        sparse = torch.sparse_csr_tensor(*map(_inner, parts), **kwargs)
    return OnDevice(sparse) if on_gpu else sparse


@contextmanager
def pretended() -> Iterator[Record]:
    """Run with a GPU that is not there.

    Returns:
        What the host asked of it.
    """
    record = Record()
    with ExitStack() as stack:
        for name, value in CUDA.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value))

        def synchronize(*args: Any) -> None:
            record.note("wait", "synchronize")

        stack.enter_context(mock.patch.object(torch.cuda, "synchronize", synchronize))
        stack.enter_context(mock.patch.object(torch, "Generator", OnDeviceGenerator))
        stream = mock.Mock(is_capturing=mock.Mock(return_value=False))
        stack.enter_context(
            mock.patch.object(torch.accelerator, "current_stream", return_value=stream)
        )
        before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)
        stack.callback(torch.__future__.set_swap_module_params_on_conversion, before)
        run = threading.Thread.run

        def run_there(thread: threading.Thread) -> None:  # modes belong to a thread
            with _Dispatch(record), _Calls(record):
                run(thread)

        stack.enter_context(mock.patch.object(threading.Thread, "run", run_there))
        stack.enter_context(_Dispatch(record))
        stack.enter_context(_Calls(record))
        yield record


CUDA: Mapping[str, Any] = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda device: None,
    "get_device_name": lambda *args: "a pretended device",
    "mem_get_info": lambda *args: (80 * 10**9, 80 * 10**9),
    "memory_reserved": lambda *args: 0,
    "memory_allocated": lambda *args: 0,
    "manual_seed": lambda seed: None,
    "manual_seed_all": lambda seed: None,
    "get_rng_state": lambda *args: torch.get_rng_state(),
    "set_rng_state": lambda *args: None,
    "get_rng_state_all": lambda: [torch.get_rng_state()],
    "set_rng_state_all": lambda states: None,
    "current_stream": lambda *args: None,
    "stream": lambda stream: nullcontext(),
    "is_current_stream_capturing": lambda: False,
    "is_bf16_supported": lambda *args, **kwargs: True,
}
