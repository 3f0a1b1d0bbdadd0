"""Prepares docstrings and signatures for the site: Markdown, and values in place of constants."""

from __future__ import annotations

import importlib
import re
from typing import Any

import griffe

MATH = re.compile(r"^( *)\.\. math:: *((?:.+\n?)+)", re.MULTILINE)
ROLE = re.compile(r":(?:class|data|func|meth):`~?([^`]+)`")
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")
SOURCE = re.compile(r"^Source:((?:.*\n?)(?: +.+\n?)*)", re.MULTILINE)


def as_markdown(text: str) -> str:
    r"""A docstring with equations, cross-references, sources and examples as Markdown has them.

    Example:
        >>> print(as_markdown(":func:`f` is\n\n.. math:: x = \\\n          1\n\nSource:\n    Me."))
        `f` is
        <BLANKLINE>
        $$
        x = \
        1
        $$
        <BLANKLINE>
        **Source:** Me.
    """
    text = MATH.sub(_display, text)
    text = ROLE.sub(r"`\1`", text)
    text = SOURCE.sub(lambda match: f"**Source:** {' '.join(match[1].split())}\n", text)
    return re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE).rstrip()


def _display(match: re.Match[str]) -> str:
    lines = ["$$", *(line.strip() for line in match[2].splitlines()), "$$"]
    return "".join(f"{match[1]}{line}\n" for line in lines)


def shown(default: str, *modules: str) -> str:
    """A default as a signature shows it: the value of a constant, anything else as it is.

    Args:
        default: as it is written.
        modules: that of the function, and those of the classes that its class inherits from.

    Example:
        >>> shown("MAX_ITER", "gcl_hard.evaluation.probes")
        '10000'
        >>> shown("None", "gcl_hard.evaluation.probes")
        'None'
    """
    if not CONSTANT.fullmatch(default):
        return default
    imported = map(importlib.import_module, modules)
    value = next(vars(module)[default] for module in imported if default in vars(module))
    simple = isinstance(value, int | float | str | tuple)
    return repr(value) if simple else f"{type(value).__name__}()"


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed into sections, and every signature."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        for parameter in func.parameters:
            if CONSTANT.fullmatch(str(parameter.default)):
                bases = func.parent.mro() if isinstance(func.parent, griffe.Class) else []
                modules = (func.module.path, *(base.module.path for base in bases))
                parameter.default = shown(str(parameter.default), *modules)
            if str(parameter.annotation).startswith("Unpack["):
                parameter.annotation = "Any"  # the docstring names the options
