"""The style of all figures: colours, sizes, panels, legends, and byte-identical files."""

from __future__ import annotations

import functools
import io
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import matplotlib as mpl
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from gcl_hard.errors import check_option
from gcl_hard.files.io import atomic_write
from gcl_hard.losses.methods import METHODS
from gcl_hard.reports.tables import no_formula

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")
T = TypeVar("T")

COLOURS = {
    "ucl": "#0072B2", "dcl": "#009E73", "hucl": "#56B4E9", "hcl": "#332288",
    "scl": "#D55E00", "hscl": "#E69F00", "hscl-tau": "#AA4499", "bcl": "#44AA99",
    "progcl": "#88CCEE",
    "ring": "#117733", "ot": "#6699CC", "mochi": "#7777DD", "spacl": "#00B4A0",
    "spacl-sup": "#882255",
}  # fmt: skip
"""By method. Blues and greens read no labels, warm colours do; they differ without hue, too."""
GREY, RULE, INK = "#767676", "#DDDDDD", "#222222"
WIDTH = 9.0
"""Inches of every figure: 864 px of a page."""
SMALL, TEXT = 8, 9
"""Font sizes, points."""
DPI = 150
ACROSS = 5
"""Panels in a row."""
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = "os^DvPX*"
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": TEXT, "axes.titlesize": TEXT, "axes.labelsize": TEXT,
    "xtick.labelsize": SMALL, "ytick.labelsize": SMALL, "legend.fontsize": SMALL,
    "legend.title_fontsize": SMALL, "legend.frameon": False, "legend.handlelength": 3.2,
    "axes.edgecolor": INK, "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK,
    "ytick.color": INK, "axes.linewidth": 0.8, "grid.linewidth": 0.6, "grid.color": RULE,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "xtick.bottom": True, "ytick.left": True, "xtick.major.size": 2, "ytick.major.size": 2,
    "lines.linewidth": 1.5, "lines.markersize": 4, "savefig.facecolor": "white",
    "svg.hashsalt": "gcl_hard", "svg.fonttype": "path",
}  # fmt: skip
CHARACTER, HANDLE = 0.068, 0.72
"""Widths of a character and of a line in a legend, inches."""
NOTE_WIDTH, HEADING_WIDTH = 150, 110
"""Characters a line."""


@dataclass(frozen=True)
class Drawn:
    """A figure with its data and caption.

    Attributes:
        figure: the picture; its heading says what it shows.
        data: its numbers, tidy.
        note: the caption, which :func:`write` puts below the picture.
    """

    figure: Figure
    data: pd.DataFrame
    note: str


def themed(draw: Callable[P, T]) -> Callable[P, T]:
    """Make a function draw in this style, without changing matplotlib's settings."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        style: dict[Any, Any] = {**sns.axes_style("whitegrid"), **STYLE}
        with mpl.rc_context(style):
            return draw(*args, **kwargs)

    return drawn


def colour(method: str) -> str:
    """The colour of a method; baselines are grey.

    Methods that COLOURS does not have share out the hues, in the order of their table.
    """
    others = [name for name in METHODS if name not in COLOURS]
    if method in others:
        hues: list[str] = sns.husl_palette(len(others)).as_hex()
        return hues[others.index(method)]
    return COLOURS.get(method, GREY)


def panels(
    n: int, *, height: float, across: int = ACROSS, top: float = 0.5,
    grid: Literal["x", "y"] = "y", **shared: Any,
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """A figure of equal panels, row by row.

    Args:
        n: number of panels.
        height: height of a row, inches.
        across: panels in a row, at most.
        top: height reserved for what is not a panel, inches.
        grid: the axis whose ticks have grid lines.
        **shared: ``sharex`` and ``sharey`` of :meth:`matplotlib.figure.Figure.subplots`.
    """
    across = min(n, across)
    down = -(-n // across)
    figure = Figure(figsize=(WIDTH, top + height * down), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False, **shared).flat)
    for surplus in axes[n:]:
        surplus.remove()
    for panel in axes[:n]:
        panel.grid(visible=False, axis="x" if grid == "y" else "y")
    return figure, axes[:n]


def rows(frame: pd.DataFrame) -> Iterable[Any]:
    """The rows of a frame, their columns as attributes."""
    return frame.itertuples()


def line_styles(names: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Style of each line: its method's colour, with dashes and a marker of its own.

    Args:
        names: the method of each line, by label.
    """
    return {
        label: {
            "color": colour(method), "label": label, "linestyle": DASHES[i % len(DASHES)],
            "marker": MARKERS[i % len(MARKERS)],
        }
        for i, (label, method) in enumerate(names.items())
    }  # fmt: skip


def legend(
    figure: Figure, entries: Sequence[Artist | dict[str, Any]], title: str | None = None
) -> None:
    """The legend above the panels, in as many columns as there is room for.

    Args:
        figure: figure of :func:`panels`.
        entries: handles, or the keywords of lines.
        title: title of the legend.
    """
    handles = [Line2D([], [], **entry) if isinstance(entry, dict) else entry for entry in entries]
    widest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, int(WIDTH / (HANDLE + CHARACTER * widest)))
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, title=title)


def heading(figure: Figure, text: str) -> None:
    """Title above a figure, outside the panels."""
    figure.text(
        0.01, 1 + 0.05 / figure.get_figheight(), textwrap.fill(text, HEADING_WIDTH),
        fontsize=TEXT + 0.5, va="bottom", weight="bold",
    )  # fmt: skip


UNDATED: dict[str, dict[str, Any] | None] = {
    ".png": None, ".svg": {"Date": None}, ".pdf": {"CreationDate": None},
}  # fmt: skip
"""Formats of figures, with metadata that keep the date out."""


@themed
def save(figure: Figure, path: Path, *, dpi: int = DPI) -> None:
    """Write a figure as PNG, SVG or PDF; the same figure gives the same bytes.

    Args:
        figure: the picture; text outside it is kept.
        path: path of the file, whose suffix decides the format; it is written whole or not at all.
        dpi: dpi of a PNG.

    Raises:
        InputError: for another suffix, or if the path cannot be written to; names it.
    """
    check_option("suffix of a figure", path.suffix, UNDATED)
    with atomic_write(path) as file:
        file.write(drawn_as(figure, path.suffix.removeprefix("."), dpi=dpi))


def drawn_as(figure: Figure, suffix: str, *, dpi: int = DPI) -> bytes:
    """A figure as the content of a file, ``png``, ``svg`` or ``pdf``; see :func:`save`."""
    drawn = io.BytesIO()
    outside = any(not 0 <= text.get_position()[1] <= 1 for text in figure.texts)
    if outside:  # fix the layout, or a tight box would move the legend
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for key in figure.legends:
            key.set_bbox_to_anchor((0, 0, 1, 1), figure.transFigure)
    figure.savefig(
        drawn, format=suffix, dpi=dpi, metadata=UNDATED[f".{suffix}"],
        bbox_inches="tight" if outside else None,
    )  # fmt: skip
    if suffix != "png":
        return drawn.getvalue()
    # in 256 colours, which look the same in a third of the bytes
    image = Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    compressed = io.BytesIO()
    image.save(compressed, "png", optimize=True, dpi=(dpi, dpi))
    return compressed.getvalue()


@themed
def write(drawn: Drawn, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG with its caption, and its numbers as CSV.

    Args:
        drawn: figure, data and caption.
        folder: created if needed.
        name: name of the files, without a suffix.

    Returns:
        The three files; each is written whole or not at all.

    Raises:
        InputError: if the path cannot be written to; names it.
    """
    figure = drawn.figure
    figure.text(0.01, -0.05 / figure.get_figheight(), textwrap.fill(drawn.note, NOTE_WIDTH),
                fontsize=SMALL, va="top")  # fmt: skip
    files = [folder / f"{name}.{suffix}" for suffix in ("png", "svg", "csv")]
    for path in files[:2]:
        save(figure, path)
    with atomic_write(files[2]) as file:
        drawn.data.map(no_formula).to_csv(file, index=False, lineterminator="\n")
    return files
