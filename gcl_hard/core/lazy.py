"""Lazy imports: names of a package that are imported when they are first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from gcl_hard.core.extras import check_extra, installed

Lazy = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def lazy(package: str, file: str, extra: str | Mapping[str, str] = "") -> Lazy:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package whose stub imports its names.

    The stub, ``__init__.pyi``, lists each name once, as ``from gcl_hard.package.module import name
    as name``, for type checkers and for this function.

    Args:
        package: the ``__name__`` of the package.
        file: its ``__file__``, next to which the stub is.
        extra: the extra that its names need, if any; see :func:`check_extra`; or that of each name
            that needs one.

    Returns:
        Functions to bind to ``__getattr__`` and ``__dir__`` (PEP 562), and the names, sorted, but
        for those that need an extra that is not installed, as ``help`` and ``import *`` load all.

    Source: Scientific Python's SPEC 1, *Lazy Loading of Submodules and Functions*.

    Example:
        >>> import gcl_hard.graphs
        >>> load_name, listed, names = lazy("gcl_hard.graphs", gcl_hard.graphs.__file__)
        >>> load_name("GraphSet").__name__, "GraphSet" in listed(), "GraphSet" in names
        ('GraphSet', True, True)
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    modules = {
        alias.name: str(node.module)
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("gcl_hard.")
        for alias in node.names
    }

    needed = dict.fromkeys(modules, extra) if isinstance(extra, str) else extra
    absent = {part for part in {*needed.values()} - {""} if not installed(part)}
    names = sorted(name for name in modules if needed.get(name) not in absent)

    def getattribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if needed.get(name):
            check_extra(needed[name], package if isinstance(extra, str) else f"{package}.{name}")
        return getattr(import_module(modules[name]), name)

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names})

    return getattribute, listed, names
