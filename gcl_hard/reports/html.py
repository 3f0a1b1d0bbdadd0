"""A page of results as one HTML file, whose tables a reader sorts and filters, without a server."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gcl_hard.io import atomic_write
from gcl_hard.reports import tables
from gcl_hard.reports.rendering import environment
from gcl_hard.reports.rows import CONTROLS, Row
from gcl_hard.reports.theme import drawn_as

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+)\$", re.DOTALL)


def write_html(
    path: Path, text: str, figures: Mapping[Path, Figure | None], rows: Sequence[Row] = ()
) -> list[Path]:
    """Write a page as one HTML file, figures and script inside.

    Args:
        path: the file, NAME.html.
        text: the page as Markdown, a heading first.
        figures: figures by file; the page names those that it shows.
        rows: rows of results for a table of all of them, which can be filtered; none without.

    Returns:
        The file.

    Raises:
        InputError: if the path cannot be written to; names it.
    """
    heading, _, rest = text.partition("\n")
    pictures = {
        file.name: _data(drawn_as(figure, "png"), "png")
        for file, figure in figures.items()
        if figure is not None
    }
    found = environment(html=True).get_template("results.html.j2").render(
        title=heading.removeprefix("# "),
        all_rows=tables.html(all_rows(rows)) if rows else "",
        body=_as_html(rest, pictures),
    )  # fmt: skip
    with atomic_write(path) as file:
        file.write(found.encode())
    return [path]


def all_rows(rows: Sequence[Row]) -> DataFrame:
    """One line for each row of results, as texts that begin with the number they are sorted by."""
    body = []
    for row in rows:
        tests = [row.tests.get(control) for control in CONTROLS]
        differences = [
            text
            for test in tests
            for text in (
                ("", "") if test is None
                else (tables.interval(test, row.metric), tables.p_value(test.p))
            )
        ]  # fmt: skip
        seeds = f"{len(row.scores.seeds) if row.scores else 0} of {row.expected}"
        score = "" if row.undefined else tables.mean_std(row.scores)
        took = f"{row.seconds:.0f}" if row.seconds else ""
        head = (row.dataset, row.protocol, row.metric, row.method, row.choice)
        body.append((*head, score, seeds, *differences, took))
    heads = ["data set", "protocol", "metric", "method", "choice", "mean ± std", "seeds"]
    heads += [head for control in CONTROLS for head in (f"− {control}", f"p {control}")]
    table = tables.text_frame([*heads, "seconds"], body)
    told = [name for name in table if name in ("data set", "method", "mean ± std")
            or table[name].nunique() > 1]  # fmt: skip
    return table[told].fillna("")


def _as_html(text: str, pictures: Mapping[str, str]) -> str:
    """Markdown as HTML, its pictures and formulas inside."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    formulas = [*FORMULA.finditer(text)]
    marked = iter(range(len(formulas)))
    text = FORMULA.sub(lambda _: f"FORMULA{next(marked)}END", text)
    found = str(parser.render(text))
    for number, formula in enumerate(formulas):
        found = found.replace(f"FORMULA{number}END", _formula(formula))
    for name, data in pictures.items():
        found = found.replace(f'src="{name}"', f'src="{data}"')
    return found.replace("<table>", '<div class="wide"><table>').replace(
        "</table>", "</table></div>"
    )


def _formula(found: re.Match[str]) -> str:
    """A formula as a picture, with its source as what is read aloud."""
    from html import escape

    from matplotlib.mathtext import math_to_image

    source = " ".join((found["block"] or found["inline"]).split())
    made = io.BytesIO()
    math_to_image(f"${source}$", made, format="svg")
    kind = "block" if found["block"] else "inline"
    data = _data(made.getvalue(), "svg+xml")
    return f'<img class="formula {kind}" alt="{escape(source)}" src="{data}">'


def _data(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
