"""The CSV of ``--table recipe``."""

from __future__ import annotations

import csv
import io

from gcl_hard.experiments.recipe.compared import Compared
from gcl_hard.experiments.recipe_table import Entry

COLUMNS = (
    "part", "row", "protocol", "dataset", "seeds", "mean", "std_seeds", "low", "high",
    "seconds_train", "seconds_eval",
)  # fmt: skip


def to_csv(compared: Compared) -> str:
    """One line a row and data set, of ``COLUMNS``; percent and seconds, empty where open."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in compared.entries:
        for dataset in row.cells:
            found, interval = compared.result(row, dataset), compared.interval(row, dataset)
            line: list[str] = [row.part, _in_full(row), row.protocol, dataset]
            if found is None or interval is None:
                writer.writerow([*line, "0", *[""] * 6])
                continue
            scores = found.scores
            numbers = (scores.mean, scores.std, interval.low, interval.high)
            spent = (sum(r.seconds_train for r in found.records),
                     sum(r.seconds_eval for r in found.records))  # fmt: skip
            shown = ["" if v is None else f"{v:.4f}" for v in (*numbers, *spent)]
            writer.writerow([*line, str(len(scores.seeds)), *shown])
    return text.getvalue()


def _in_full(row: Entry) -> str:
    return f"{row.method} {row.name}" if row.part in ("fewer", "off", "on") else row.name
