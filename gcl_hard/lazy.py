"""Lazy imports: names of a package that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose public names are defined in its submodules.

    Args:
        package: the ``__name__`` of the package.
        modules: the submodule that defines each name.

    Returns:
        A function to bind to ``__getattr__`` (PEP 562).

    Example:
        >>> lazy("json", {"JSONDecoder": "decoder"})("JSONDecoder").__name__
        'JSONDecoder'
    """

    def getattribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return getattribute
