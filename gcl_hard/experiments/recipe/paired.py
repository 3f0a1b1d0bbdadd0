"""The results page: paired differences, and levers."""

from __future__ import annotations

from gcl_hard.experiments.recipe.accuracies import NOTHING, OPEN, PAPERS, whose
from gcl_hard.experiments.recipe.compared import Compared, Difference, Pair
from gcl_hard.experiments.recipe_table import ABLATED, LEVERS, Entry
from gcl_hard.experiments.reporting.markdown import markdown_table
from gcl_hard.experiments.reporting.words import interval

OVER = "over sets"
TITLES = {
    "contrast": "trained over untrained",
    "hard": "hard negatives over plain ones",
    "labels": "label-aware over label-free",
    "papers": "the paper's recipe over untrained",
    "views": "the paper's recipe with two views (InfoNCE) over untrained",
    "recipe": "our recipe over the paper's",
    "kernels": "our recipe over the WL-OA kernel alone",
    "supervised": "our recipe over end-to-end training, not tuned",
}


def differences(compared: Compared) -> list[str]:
    """Pairs of rows by question; nothing without a finished one."""
    table = _differences(compared)
    if not table:
        return []
    return [
        "## Paired differences",
        "Protocol `inductive`: points by which the first row is above the second on the same "
        "folds, with 95 % intervals. **Bold: significant.** Rows are of our recipe where they do "
        "not say otherwise." + _about(compared),
        table,
    ]


def _differences(compared: Compared) -> str:
    body, before = [], ""
    for question, pairs in compared.answers.items():
        for pair in pairs:
            name = f"{_name(pair.ours)} − {_name(pair.theirs)}"
            title = "" if question == before else TITLES[question]
            body.append([title, name, *_points(compared, pair)])
            before = question
    return markdown_table(["question", "rows", *_heads(compared)], body, texts=2) if body else ""


def _name(row: Entry) -> str:
    if row.part == "on":
        return f"{row.method}, {PAPERS} with {row.name}"
    return f"{row.name}, {PAPERS}" if whose(row) == PAPERS else row.name


def levers(compared: Compared) -> list[str]:
    """Each lever off and on; nothing without a finished one."""
    table = _levers(compared)
    if not table:
        return []
    there = {row.name for row in compared.rows("off", "on")}
    listed = "; ".join(f"*{n}*: {', '.join(names)}" for n, names in LEVERS.items() if n in there)
    unchanged = f" {NOTHING}: the lever changes nothing there, which counts as 0."
    is_there = f"| {NOTHING} |" in table
    return [
        "## Each lever off, each lever on",
        f"A lever is a part of the recipe. *Off*: ours with that part as in the paper's recipe, "
        f"less ours. *On*: the paper's with that part as in ours, less the paper's. So a lever "
        f"that helps is below 0 off, and above 0 on. Points of {ABLATED} under protocol "
        f"`inductive`, with 95 % intervals; bold: significant."
        + unchanged * is_there
        + _about(compared),
        table,
        f"Settings of each lever: {listed.replace('_', ' ')}.",
    ]


def _levers(compared: Compared) -> str:
    beside = {"off": compared.row("ours", ABLATED), "on": compared.row("paper", ABLATED)}
    pairs = [
        pair
        for row in compared.rows("off", "on")
        if (pair := compared.pair(row, beside[row.part])) is not None
    ]
    body, before = [], ""
    for pair in compared.corrected(pairs):
        name = pair.ours.name
        body.append(["" if name == before else name, pair.ours.part, *_points(compared, pair)])
        before = name
    return markdown_table(["lever", "", *_heads(compared)], body, texts=2) if body else ""


def _heads(compared: Compared) -> list[str]:
    return [*compared.datasets, *([OVER] if len(compared.datasets) > 1 else [])]


def _about(compared: Compared) -> str:
    if len(compared.datasets) == 1:
        return ""
    return (
        f" *{OVER.capitalize()}*: the mean of the sets' differences once all are finished; its "
        f"interval is for these sets and takes their errors as independent. It is not tested, so "
        f"never bold."
    )


def _points(compared: Compared, pair: Pair) -> list[str]:
    each = [_difference(compared, pair, dataset) for dataset in compared.datasets]
    if len(each) == 1:
        return each
    gain = compared.over_sets(pair)
    return [*each, OPEN if gain is None else interval(gain)]


def _difference(compared: Compared, pair: Pair, dataset: str) -> str:
    one: Difference | None = pair.on.get(dataset)
    if one is None:
        both = dataset in pair.ours.cells and dataset in pair.theirs.cells
        return OPEN if both else NOTHING
    text = interval(one)
    n = len(compared.results.seeds)
    text += "" if one.seeds == n else f" ({one.seeds} of {n} seeds)"
    return f"**{text}**" if one.significant else text
