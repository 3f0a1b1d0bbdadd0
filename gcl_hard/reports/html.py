"""A page of results as one HTML file, whose tables a reader sorts and filters, without a server."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gcl_hard.evaluation.metrics import metric
from gcl_hard.files.io import atomic_write
from gcl_hard.reports import tables
from gcl_hard.reports.legend import marks
from gcl_hard.reports.rendering import environment
from gcl_hard.reports.rows import Row, beside, controls
from gcl_hard.reports.theme import drawn_as

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


def write_html(
    path: Path, text: str, figures: Mapping[Path, Figure | None], every: DataFrame | None = None
) -> list[Path]:
    """Write a page as one HTML file, figures and script inside.

    Args:
        path: the file, NAME.html.
        text: the page as Markdown, a heading first; names of users are escaped in it.
        figures: figures by file; the page names those that it shows.
        every: texts of all rows, for a table that can be filtered; None for none.

    Returns:
        The file.

    Raises:
        InputError: if the path cannot be written to; names it.
    """
    from markdown_it import MarkdownIt

    heading, _, rest = text.partition("\n")
    parser = MarkdownIt("commonmark").enable("table")
    body = str(parser.render(rest))
    for file, figure in figures.items():
        if figure is not None:
            data = base64.b64encode(drawn_as(figure, "png")).decode()
            body = body.replace(
                f'src="{parser.normalizeLink(file.name)}"', f'src="data:image/png;base64,{data}"'
            )
    page = environment(html=True).get_template("results.html.j2").render(
        title=heading.removeprefix("# "), every="" if every is None else tables.html(every),
        body=body,
    )  # fmt: skip
    with atomic_write(path) as written:
        written.write(page.encode())
    return [path]


def all_rows(rows: Sequence[Row]) -> DataFrame:
    """One line for each row of results, as texts that begin with the number they are sorted by."""
    compared, further = controls(rows), beside(rows)
    body = [
        (row.dataset, row.protocol, row.metric, row.title, row.choice,
         "" if row.undefined else tables.mean_std(row.scores) + marks(row),
         *(tables.spread(row) if row.scores and row.scores.one_split == split else ""
           for split in (True, False)),
         *(tables.score_by(name, row) for name in further),
         f"{len(row.scores.seeds) if row.scores else 0} of {row.expected}",
         *(text for test in map(row.tests.get, compared) for text in (
             tables.interval(test, row.metric) if test else "",
             tables.p_value(test.p) if test else "",
         )),
         f"{row.seconds:.0f}" if row.seconds else "")
        for row in rows
    ]  # fmt: skip
    heads = ["data set", "protocol", "metric", "method", "choice", "mean ± std", "s.e."]
    heads += [f"std of {tables.fold_name(rows)}s", *(metric(name).title for name in further)]
    heads += ["seeds", *(head for control in compared for head in (f"− {control}", f"p {control}"))]
    table = tables.text_frame([*heads, "seconds"], body)
    if not any(row.scores and row.scores.std is not None for row in rows):
        table = table.rename(columns={"mean ± std": "mean"})
    columns = [
        name for name in table if name not in ("metric", "choice") or table[name].nunique() > 1
    ]
    return table[[name for name in columns if not table[name].isin(["", tables.NOTHING]).all()]]
