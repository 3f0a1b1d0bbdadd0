"""Figures of the papers, drawn from finished seeds alone."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from gcl_hard.experiments.figures.options import FigureOptions


def make(options: FigureOptions) -> tuple[list[Path], str]:
    """Draw a figure and write it.

    Args:
        options: what was asked for.

    Returns:
        The files, and the note that stands under the picture.

    Raises:
        InputError: if the results do not give the figure; says what would.
    """
    from gcl_hard.experiments.figures.choose import choose
    from gcl_hard.experiments.figures.naming import stem
    from gcl_hard.experiments.figures.reading import read
    from gcl_hard.experiments.figures.written import write

    runs = choose(read(options.results), options.only)
    own = dict(options.own)
    if options.figure == "fig5":
        own["every"] = "method" in options.only
    drawn = import_module(f"{__name__}.{options.figure}").draw(runs, **own)
    name = options.name or stem(options.figure, runs[0].cell)
    return write(drawn, options.output, name), drawn.note
