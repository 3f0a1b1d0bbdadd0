"""The public names and their signatures: a change shows as a diff to `public_surface.txt`.

Public is what the reference pages document and what the packages list in `__all__`. After a change
that is meant:

    python tests/test_public_surface.py > tests/public_surface.txt
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FROZEN = Path(__file__).with_name("public_surface.txt")
PACKAGES = (
    "", ".graphs", ".nodes", ".links", ".molecules", ".images", ".texts", ".losses",
    ".evaluation", ".tuning",
)  # fmt: skip


def without_modules(names: set[str]) -> set[str]:
    """The names, where those that a module makes public stand for the module."""
    values = {name: pkgutil.resolve_name(name) for name in names}
    modules = {name: value for name, value in values.items() if isinstance(value, ModuleType)}
    inside = {f"{name}.{member}" for name, m in modules.items() for member in public_members(m)}
    return names - modules.keys() | inside


def public_members(module: ModuleType) -> list[str]:
    """`__all__`, or the functions and classes that a module defines."""
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        if inspect.isclass(value) or inspect.isfunction(value)
    ]


def described(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}{constructor(value)}"
        yield from (f"{name}.{member}" for member in members(value))
    elif callable(value):
        yield f"{name}{signature(value)}"
    else:  # a mapping's keys, a grid's values
        yield f"{name}: {list(value)}"


def constructor(cls: type) -> str:
    """The signature, or the bases of a class that inherits its constructor from elsewhere."""
    makes = next(base for base in cls.__mro__ if {"__init__", "__new__"} & vars(base).keys())
    if ours(makes):
        return signature(cls)
    return f"[{', '.join(base.__name__ for base in cls.__bases__)}]"


def ours(cls: type) -> bool:
    return cls.__module__.split(".")[0] == "gcl_hard"


def members(cls: type) -> Iterator[str]:
    """Public methods and properties, inherited ones too if the base is of this package."""
    public = {
        name: v for base in reversed(cls.__mro__) if ours(base) for name, v in vars(base).items()
    }
    for name, value in sorted(public.items()):
        if name.startswith("_"):
            continue
        if isinstance(value, property | cached_property):
            yield f"{name}: property"
        elif inspect.isfunction(value):
            yield f"{name}{signature(value)}"
        elif isinstance(value, classmethod | staticmethod):
            yield f"{name}{signature(value.__func__)} {type(value).__name__}"


def signature(function: Any) -> str:
    """Names, kinds and defaults, whose spelling does not depend on the version of Python."""
    full = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in full.parameters.values()]
    text = str(full.replace(parameters=bare, return_annotation=full.empty))
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def current() -> str:
    documented = "\n".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/**/*.md"))
    names = set(re.findall(r"^::: (\S+)$", documented, re.MULTILINE))
    for package in PACKAGES:
        module = importlib.import_module(f"gcl_hard{package}")
        names |= {f"{module.__name__}.{name}" for name in module.__all__}
    every = sorted(without_modules(names))
    return "".join(f"{s}\n" for name in every for s in described(name, pkgutil.resolve_name(name)))


def test_the_public_surface_is_the_one_frozen() -> None:
    frozen = FROZEN.read_text(encoding="utf-8")
    diff = difflib.unified_diff(
        frozen.splitlines(), current().splitlines(), FROZEN.name, "the package", lineterm="", n=0
    )
    if changed := "\n".join(diff):
        pytest.fail(
            f"the public surface changed:\n{changed}\n\nif that is meant, say so in CHANGELOG.md, "
            f"and: python tests/{Path(__file__).name} > tests/{FROZEN.name}",
            pytrace=False,
        )


def test_a_changed_default_and_a_lost_method_show() -> None:
    class First:
        def __init__(self, width: int = 8) -> None: ...

        def kept(self, x: int) -> None: ...

        def lost(self) -> None: ...

    class Second:
        def __init__(self, width: int = 16) -> None: ...

        def kept(self, x: int, y: str = "a") -> None: ...

    for cls in (First, Second):
        cls.__module__ = "gcl_hard.somewhere"
    assert list(described("C", First)) == ["class C(width=8)", "C.kept(self, x)", "C.lost(self)"]
    assert list(described("C", Second)) == ["class C(width=16)", "C.kept(self, x, y='a')"]


if __name__ == "__main__":
    print(current(), end="")
