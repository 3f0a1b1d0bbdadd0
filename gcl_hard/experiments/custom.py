"""Code and data of the user's own: how results made with them are told apart."""

from __future__ import annotations

import dis
import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor, nn

PACKAGE = __name__.partition(".")[0]
INSTALLED = tuple(
    {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")}
)
"""Folders of Python and of installed packages."""
UNREAD = frozenset({
    "__annotations__", "__annotate__", "__annotate_func__", "__conditional_annotations__",
    "__dict__", "__doc__", "__firstlineno__", "__module__", "__qualname__",
    "__static_attributes__", "__weakref__",
})  # fmt: skip
"""Attributes of a class that do not change what it computes."""


def code_digest(made_by: Any) -> str:
    """Digest of what a callable computes: its code, the user's own code it calls, its settings.

    Followed are base classes, global names and closures, constants, and the arguments of a
    ``functools.partial``. Of installed packages only names count. Compiled code is read, so that a
    notebook or a prompt will do; comments, layout and docstrings change nothing, another minor
    version of Python does.

    Args:
        made_by: a class, a function, or anything callable.

    Returns:
        Eight hexadecimal digits.

    Example:
        >>> code_digest(lambda n: n + 1) == code_digest(lambda m: m + 1)
        True
        >>> code_digest(lambda n: n + 1) == code_digest(lambda n: n + 2)
        False
    """
    digest = hashlib.sha256()
    for part in _Parts(made_by):
        digest.update(f"{part}\n".encode())
    return digest.hexdigest()[:8]


class _Parts:
    """Everything that decides what a callable computes, as text, in a fixed order."""

    def __init__(self, first: Any) -> None:
        self._first = first
        self._root = str(getattr(_unwrapped(first), "__module__", None)).partition(".")[0]
        self._seen: dict[int, Any] = {}  # kept, so that no id is used twice

    def __iter__(self) -> Iterator[str]:
        return self._of(self._first)

    def _of(self, value: Any) -> Iterator[str]:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            yield repr(value)
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, CodeType):
            yield from self._code(value)
        elif isinstance(value, MethodType):
            yield from self._several((value.__func__, value.__self__))
        elif isinstance(value, partial):
            yield from self._several((value.func, value.args, value.keywords))
        elif isinstance(value, Tensor | np.ndarray):
            array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
            yield f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
        elif isinstance(value, Mapping):
            yield from self._several(sorted(value.items(), key=lambda item: str(item[0])))
        elif isinstance(value, tuple | list):
            yield from self._several(value)
        elif isinstance(value, set | frozenset):
            yield repr(sorted(value, key=repr))
        else:
            yield from self._named(value)

    def _several(self, values: Any) -> Iterator[str]:
        yield f"{len(values)}:"
        for value in values:
            yield from self._of(value)

    def _code(self, code: CodeType) -> Iterator[str]:
        yield code.co_code.hex()
        constants = code.co_consts
        documented = constants and isinstance(constants[0], str) and code.co_flags & CO_OPTIMIZED
        yield from self._several(constants[1:] if documented else constants)
        yield repr(code.co_names)

    def _named(self, value: Any) -> Iterator[str]:
        """A module, class, function or object: by name if installed, else whole."""
        if isinstance(value, ModuleType):
            yield value.__name__
            if self._own(value.__name__):
                yield from self._members(value, of=value.__name__)
            return
        kind = value if isinstance(value, type | FunctionType) else type(value)
        yield f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(value, property):
            yield from self._several((value.fget, value.fset))
        elif isinstance(value, staticmethod | classmethod):
            yield from self._of(value.__func__)
        elif not self._own(kind.__module__) and not isinstance(value, nn.Module):
            return
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            yield from self._several(value.__bases__)
            yield from self._members(value)
        else:
            yield from self._of(kind)
            yield from self._of(getattr(value, "__dict__", None))

    def _function(self, function: FunctionType) -> Iterator[str]:
        yield from self._of(function.__code__)
        yield from self._several((function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            yield from self._of(cell.cell_contents)
        for name in sorted(_globals_of(function.__code__)):
            if name in function.__globals__:
                yield name
                yield from self._of(function.__globals__[name])

    def _members(self, owner: Any, of: str | None = None) -> Iterator[str]:
        """Attributes of a class, or what a module defines itself."""
        for name, value in sorted(vars(owner).items()):
            if name in UNREAD or (of is not None and getattr(value, "__module__", None) != of):
                continue
            yield name
            yield from self._of(value)

    def _own(self, module: str) -> bool:
        """Whether a module is the user's: not installed, or of the package that is digested."""
        root = module.partition(".")[0]
        if root == self._root:
            return True
        if root == PACKAGE or root in sys.builtin_module_names:
            return False
        file = getattr(sys.modules.get(module), "__file__", None)
        path = None if file is None else Path(file).resolve()
        return path is None or not any(path.is_relative_to(folder) for folder in INSTALLED)


def _globals_of(code: CodeType) -> set[str]:
    """Names that code, and the code inside it, looks up outside."""
    found = {
        str(one.argval)
        for one in dis.get_instructions(code)
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return found.union(*map(_globals_of, inner))


def name_of(made_by: Callable[..., Any]) -> str:
    """Name of a class, a function or another callable, for messages and files."""
    made_by = _unwrapped(made_by)
    return str(getattr(made_by, "__name__", type(made_by).__name__))


def _unwrapped(made_by: Any) -> Any:
    """What a ``functools.partial`` calls in the end."""
    while isinstance(made_by, partial):
        made_by = made_by.func
    return made_by
