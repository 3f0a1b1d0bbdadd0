"""Templates, and the texts and figures that are written from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.choice import best
from gcl_hard.files.io import atomic_write, check_regular
from gcl_hard.reports import tables

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

QUICK = "**A smoke run:"
"""Mark of a page that is not reportable."""


TEMPLATES = Path(__file__).with_name("templates")


@cache
def environment(*, html: bool = False, folder: Path = TEMPLATES) -> Environment:
    """The templates of a folder, and those of this package, with filters for numbers and tables."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader([folder, TEMPLATES]), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, autoescape=html,
    )  # fmt: skip
    filters = ("markdown", "points", "interval", "score", "count", "escaped",
           "duration", "between")  # fmt: skip
    templates.filters |= {name: getattr(tables, name) for name in filters}
    templates.filters["best"] = lambda scores, measure: scores[best(scores, higher=measure.higher)]
    templates.globals |= {"QUICK": QUICK, "legend": tables.legend_of}
    return templates


def rendered(template: str, *, folder: Path = TEMPLATES, **context: Any) -> str:
    """Render a template, with at most one blank line between paragraphs.

    Args:
        template: its name, such as ``results.md.j2``.
        folder: where it is.
        **context: variables of the template.
    """
    text = environment(folder=folder).get_template(template).render(**context)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def caption(figure: str, *, folder: Path = TEMPLATES, **facts: Any) -> str:
    """The caption of a figure in one line, from its template and the numbers that it states."""
    lines = environment(folder=folder).overlay(trim_blocks=False, lstrip_blocks=False)
    return " ".join(lines.get_template(f"captions/{figure}.j2").render(**facts).split())


def check_target(path: Path, *, quick: bool) -> None:
    """Refuse to overwrite results with a smoke run.

    Args:
        path: path of the page to be written.
        quick: whether it will show a smoke run.

    Raises:
        InputError: if there is a page of results.
    """
    check_regular(path)
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    if quick and content.strip() and QUICK.strip("*") not in content:
        raise InputError(f"{path} holds results: give a smoke run another --report")


def write_files(texts: Mapping[Path, str], figures: Mapping[Path, Figure | None]) -> list[Path]:
    """Write texts and figures atomically; makes folders.

    Args:
        texts: texts by file, a page first.
        figures: figures by file; None if there is nothing to draw.

    Returns:
        The files written, texts first.

    Raises:
        InputError: if a path cannot be written to; names it.
    """
    for path, content in texts.items():
        with atomic_write(path) as file:
            file.write(content.encode())
    drawn = {path: figure for path, figure in figures.items() if figure is not None}
    if drawn:
        from gcl_hard.reports.theme import save

        for path, figure in drawn.items():
            save(figure, path)
    return [*texts, *drawn]
