"""Turns what the docstrings hold beyond Google sections into what the site's Markdown reads."""

from __future__ import annotations

import re
from typing import Any

import griffe

MATH = re.compile(r"^( *)\.\. math:: *((?:.+\n?)+)", re.MULTILINE)
ROLE = re.compile(r":(?:class|data|func|meth):`~?([^`]+)`")
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


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed into sections."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
