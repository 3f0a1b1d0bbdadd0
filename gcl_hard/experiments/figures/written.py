"""What a figure of results is, and the files that it becomes."""

from __future__ import annotations

import csv
import io
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from gcl_hard.experiments.reporting.figures.drawing import INK, TEXT, save
from gcl_hard.io import atomic_write

ACROSS = 134
"""Letters of the note in a line."""
WIDE = 105
"""Letters of the title in a line."""
GAP = 0.05
"""Between the picture and the words above and below, inches."""
DPI = 150


class Drawn(NamedTuple):
    """A figure, the numbers in it, and what it does not say.

    Attributes:
        figure: the picture, without the note; :func:`title` says what it is of.
        rows: its numbers, tidy; all rows have the same columns.
        note: one or two sentences: what is shown and what is not; :func:`write` puts it under
            the picture.
    """

    figure: Figure
    rows: list[dict[str, object]]
    note: str


def title(figure: Figure, words: str) -> None:
    """Words above a picture; they take no room of its panels."""
    y = 1 + GAP / figure.get_figheight()
    lines = textwrap.fill(words, WIDE)
    figure.text(0.01, y, lines, fontsize=TEXT + 1, color=INK, va="bottom", weight="bold")


def write(drawn: Drawn, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, with its note below, and its numbers as CSV.

    Args:
        drawn: the figure.
        folder: is made if need be.
        name: of the files, without a suffix.

    Returns:
        The three files; each is written whole or not at all.

    Raises:
        InputError: if the place cannot be written to; names it.
    """
    _settle(drawn.figure)
    y = -GAP / drawn.figure.get_figheight()
    lines = textwrap.fill(drawn.note, ACROSS)
    drawn.figure.text(0.01, y, lines, fontsize=TEXT, color=INK, va="top")
    contents = {"png": _png(drawn.figure), "svg": _svg(drawn.figure), "csv": _csv(drawn.rows)}
    files = [folder / f"{name}.{suffix}" for suffix in contents]
    for path, content in zip(files, contents.values(), strict=True):
        with atomic_write(path) as file:
            file.write(content)
    return files


def _settle(figure: Figure) -> None:
    """Fix where everything is, or the legend would move to the edge of what is saved."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)


def _png(figure: Figure) -> bytes:
    """In 256 colours, which looks the same and takes a third."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, facecolor="white", bbox_inches="tight")
    image = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(small, "png", optimize=True, dpi=(DPI, DPI))
    return small.getvalue()


def _svg(figure: Figure) -> bytes:
    with tempfile.TemporaryDirectory() as folder, mpl.rc_context({"savefig.bbox": "tight"}):
        path = Path(folder) / "figure.svg"
        save(figure, path)
        return path.read_bytes()


def _csv(rows: Sequence[dict[str, object]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
