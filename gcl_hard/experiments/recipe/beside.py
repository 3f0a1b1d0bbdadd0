"""The results page: published figures beside ours, and the cost."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from gcl_hard.experiments.recipe.accuracies import NOTHING, OPEN, floors, is_floor, so_far, whose
from gcl_hard.experiments.recipe.compared import Compared
from gcl_hard.experiments.recipe.table import REPORTED, Entry
from gcl_hard.experiments.reporting.markdown import markdown_table

BARS: dict[str, tuple[float, str]] = {
    "MUTAG": (91.7, ""),
    "PTC_MR": (66.3, "WWL kernel"),
    "ENZYMES": (59.1, "WWL kernel, labels only"),
    "IMDB-BINARY": (76.7, ""),
    "IMDB-MULTI": (52.5, ""),
}
"""The best honest figures published that we know, percent; of other folds and protocols."""


def bars(compared: Compared) -> list[str]:
    """Published figures and the highest of ours, under ``inductive``."""
    table = _bars(compared)
    if not table:
        return []
    return [
        "## Beside the best published figures",
        "The best honest figures that we know, in percent, of other folds. WWL: Togninalli et al., "
        "NeurIPS 2019; those without a name we know from lists without a source. Below them the "
        f"highest mean of {', '.join(REPORTED)} with our recipe under protocol `inductive`, too "
        "high on average as the highest of several.",
        table,
    ]


def _bars(compared: Compared) -> str:
    known = {d: f"{BARS[d][0]:.1f} {BARS[d][1]}".strip() for d in compared.datasets if d in BARS}
    if not known:
        return ""
    trained = [row for m in REPORTED if (row := compared.row("ours", m)) is not None]
    end_to_end = [row for row in floors(compared) if row.name == "supervised"]
    kernel = [row for row in floors(compared) if row.name == "wl-oa"]
    body = [["best published", *(known.get(d, NOTHING) for d in compared.datasets)]]
    for label, rows in (
        ("ours, highest", trained), ("wl-oa", kernel), ("supervised, higher recipe", end_to_end),
    ):  # fmt: skip
        named = len({row.name for row in rows}) > 1
        shown = [_highest(compared, rows, d, named=named) for d in compared.datasets]
        body += [[label, *shown]] if rows else []
    return markdown_table(["", *compared.datasets], body, texts=1)


def _highest(compared: Compared, rows: Sequence[Entry], dataset: str, *, named: bool) -> str:
    found = [(r, row.name) for row in rows if (r := compared.result(row, dataset)) is not None]
    if not found:
        return OPEN
    result, name = max(found, key=lambda one: one[0].scores.mean)
    text = f"{result.scores.mean:.1f}" + (f" {name}" if named else "")
    return text + so_far(compared, len(result.scores.seeds))


def cost(compared: Compared) -> list[str]:
    """Seconds a seed: the mean of the trained methods by recipe and protocol, and floors."""
    return [
        "## Cost",
        "Seconds a seed takes to train and to score, as its record has them; of trained methods "
        "the mean. Methods train side by side on busy machines, so these are rough.",
        _seconds(compared),
    ]


def _seconds(compared: Compared) -> str:
    rows: dict[tuple[str, str, str], list[Entry]] = {}
    for row in compared.rows("ours", "paper"):
        if not is_floor(row):
            rows.setdefault(("trained", whose(row), row.protocol), []).append(row)
    for row in floors(compared):
        rows[row.name, whose(row), ""] = [row]
    body = [[*key, *(_mean(compared, some, d) for d in compared.datasets)]
            for key, some in rows.items()]  # fmt: skip
    return markdown_table(["", "recipe", "protocol", *compared.datasets], body, texts=3)


def _mean(compared: Compared, rows: Sequence[Entry], dataset: str) -> str:
    found = [r for row in rows if (r := compared.result(row, dataset)) is not None]
    if not found:
        return OPEN
    mean = statistics.fmean(one.seconds / len(one.records) for one in found)
    return f"{mean:.0f}" if mean >= 1 else "< 1"
