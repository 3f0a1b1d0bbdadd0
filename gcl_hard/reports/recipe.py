"""The recipe table and the search for a recipe: rows compared by question, and their pages."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gcl_hard.evaluation.significance import Interval
from gcl_hard.experiments.ablations import over_sets, said
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.recipe_table import (
    ABLATED,
    REPORTED,
    SCORED_ALIKE,
    Entry,
    Part,
    entries,
    ours,
    papers,
)
from gcl_hard.experiments.settings import NOT_OF_RECIPES
from gcl_hard.experiments.store import RunResult
from gcl_hard.reports.frame import Comparison, Results, Scores, compare, corrected, seconds
from gcl_hard.reports.tables import rich_table
from gcl_hard.reports.text import NBSP, count, interval

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import RenderableType

OPEN, NOTHING = "open", "–"
Asked = tuple[tuple[Part, str], tuple[Part, str]]

QUESTIONS: dict[str, tuple[Asked, ...]] = {
    "trained over untrained": tuple((("ours", m), ("ours", "untrained")) for m in REPORTED),
    "hard negatives over plain ones": (
        (("ours", "hucl"), ("ours", "ucl")), (("ours", "hscl"), ("ours", "scl")),
    ),
    "label-aware over label-free": (
        (("ours", "scl"), ("ours", "ucl")), (("ours", "hscl"), ("ours", "hucl")),
    ),
    "the paper's recipe over untrained": tuple(
        (("paper", m), ("baselines", "untrained")) for m in REPORTED
    ),
    "the paper's recipe with two views (InfoNCE) over untrained": (
        (("on", "two views"), ("baselines", "untrained")),
    ),
    "our recipe over the paper's": tuple((("ours", m), ("paper", m)) for m in REPORTED),
    "our recipe over the WL-OA kernel alone": tuple(
        (("ours", m), ("baselines", "wl-oa")) for m in ("hucl", "hscl")
    ),
    "our recipe over end-to-end training, not tuned": (
        (("ours", "hscl"), ("ours", "supervised")),
    ),
}  # fmt: skip
"""Pairs of rows under ``inductive`` that answer a question; Holm's correction is over each.

``("baselines", "untrained")`` has encoder and SVM of the paper's recipe, ``("ours", "untrained")``
those of ours."""
FIRST = 3
"""Questions whose answers stand first on the page, and in the terminal."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A row less another, data set by data set.

    Attributes:
        ours: the first row.
        theirs: the second.
        on: comparisons by data set, where a seed is finished for both.
    """

    ours: Entry
    theirs: Entry
    on: Mapping[str, Comparison]

    @property
    def name(self) -> str:
        """What is compared."""
        return f"{_in_words(self.ours)} − {_in_words(self.theirs)}"


class RecipeTable:
    """The rows of ``--table recipe`` and how they differ.

    Args:
        results: of the command.
        quick: whether they are of a smoke run.
    """

    def __init__(self, results: Results, *, quick: bool) -> None:
        self.results = results
        self.quick = quick
        configs = results.configs
        self.datasets = list(dict.fromkeys(config.dataset for config in configs))
        methods = list(dict.fromkeys(config.method for config in configs))
        trained = dict.fromkeys(c.protocol for c in configs if not c.is_baseline)
        self.protocols = list(trained or ["inductive"])  # baselines do not tell which were asked
        self.entries = [
            row
            for row in entries(self.datasets, methods, self.protocols, quick=quick)
            if set(configs).issuperset(row.configs.values())
        ]

    def row(self, part: Part, name: str, protocol: str = "inductive") -> Entry | None:
        """A row by its part, name and protocol."""
        found = (
            one
            for one in self.entries
            if (one.part, one.name, one.protocol) == (part, name, protocol)
        )
        return next(found, None)

    def rows(self, *parts: Part) -> list[Entry]:
        """All rows of some parts."""
        return [one for one in self.entries if one.part in parts]

    def records(self, row: Entry, dataset: str) -> list[RunResult]:
        """A row's finished runs on a data set."""
        config = row.configs.get(dataset)
        return [] if config is None else self.results.of(config)

    def scores(self, row: Entry, dataset: str) -> Scores | None:
        """A row's accuracies on a data set; None if nothing is finished."""
        found = self.records(row, dataset)
        return Scores.of_records(found, row.configs[dataset]) if found else None

    def pair(self, ours: Entry | None, theirs: Entry | None) -> Pair | None:
        """The difference of two rows, p not corrected; None where no data set has both."""
        if ours is None or theirs is None:
            return None
        found = {d: compare(self.scores(ours, d), self.scores(theirs, d)) for d in self.datasets}
        on = {dataset: one for dataset, one in found.items() if one is not None}
        return Pair(ours, theirs, on) if on else None

    def over_sets(self, pair: Pair) -> Interval | None:
        """The mean difference over data sets, each weighing the same, errors independent.

        Args:
            pair: of rows; a set on which the first one changes nothing counts as exactly 0.

        Returns:
            Points with the interval, which is for these sets; None until all seeds are finished.
        """
        each: list[Interval] = []
        for dataset in self.datasets:
            one = pair.on.get(dataset)
            if one is not None and one.seeds == len(self.results.seeds):
                each.append(one)
            elif one is None and dataset not in pair.ours.configs:
                each.append(Interval(0.0, 0.0, 0.0))
            else:
                return None
        return over_sets(each)

    @cached_property
    def questions(self) -> dict[str, list[Pair]]:
        """Finished pairs by question, p corrected over all of them and all data sets."""
        found = {
            question: _corrected([
                pair
                for ours, theirs in asked
                if (pair := self.pair(self.row(*ours), self.row(*theirs))) is not None
            ])
            for question, asked in QUESTIONS.items()
        }  # fmt: skip
        return {question: pairs for question, pairs in found.items() if pairs}

    @cached_property
    def ablations(self) -> list[Pair]:
        """Each part of our recipe off less ours, and on less the paper's; corrected together."""
        beside = {"off": self.row("ours", ABLATED), "on": self.row("paper", ABLATED)}
        pairs = [self.pair(row, beside[row.part]) for row in self.rows("off", "on")]
        return _corrected([pair for pair in pairs if pair is not None])

    @cached_property
    def baselines(self) -> list[Entry]:
        """Rows of baselines, those of one method together."""
        rows = [row for row in self.rows("baselines", "ours") if is_baseline(row)]
        names = [row.name for row in self.rows("baselines")]
        return sorted(rows, key=lambda row: (names.index(row.name), row.part == "baselines"))

    def so_far(self, n_seeds: int) -> str:
        """How many seeds there are, where some are missing."""
        return "" if n_seeds == len(self.results.seeds) else f" [{n_seeds}]"


def _corrected(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs with Holm's correction over all their comparisons."""
    found = iter(corrected([one for pair in pairs for one in pair.on.values()]))
    return [replace(pair, on={dataset: next(found) for dataset in pair.on}) for pair in pairs]


def is_baseline(row: Entry) -> bool:
    """Whether nothing contrastive is trained."""
    return any(config.is_baseline for config in row.configs.values())


def recipe_of(row: Entry) -> str:
    """Whose recipe a row has; most baselines have none."""
    if row.part == "baselines" and row.name not in SCORED_ALIKE:
        return ""
    return "ours" if row.part == "ours" else "paper's"


def _in_words(row: Entry) -> str:
    if row.part == "on":
        return f"{row.method}, paper's with {row.name}"
    return f"{row.name}, paper's" if recipe_of(row) == "paper's" else row.name


# Tables


def summary(table: RecipeTable) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the first questions' answers."""
    body = []
    for question in [*QUESTIONS][:FIRST]:
        for pair in table.questions.get(question, []):
            gain, each = table.over_sets(pair), pair.on.values()
            body.append([
                question, pair.name, OPEN if gain is None else interval(gain),
                f"{sum(one.mean > 0 for one in each)} of {len(each)}",
                str(sum(one.significant and one.mean > 0 for one in each)),
                str(sum(one.significant and one.mean < 0 for one in each)),
            ])  # fmt: skip
    heads = ["question", "rows", "points, mean over sets", "sets above 0",
             "significantly above", "significantly below"]  # fmt: skip
    return heads, body


def difference_lines(table: RecipeTable) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of all questions, data sets across."""
    body = [
        [question if not k else "", pair.name, *_points(table, pair)]
        for question, pairs in table.questions.items()
        for k, pair in enumerate(pairs)
    ]
    return ["question", "rows", *_across(table)], body


def ablation_lines(table: RecipeTable) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the recipe's parts, off and on."""
    body, before = [], ""
    for pair in table.ablations:
        name = pair.ours.name
        body.append(["" if name == before else name, pair.ours.part, *_points(table, pair)])
        before = name
    return ["part of the recipe", "", *_across(table)], body


def _across(table: RecipeTable) -> list[str]:
    return [*table.datasets, *["over sets"] * (len(table.datasets) > 1)]


def _points(table: RecipeTable, pair: Pair) -> list[str]:
    each = []
    for dataset in table.datasets:
        one = pair.on.get(dataset)
        if one is None:
            both = dataset in pair.ours.configs and dataset in pair.theirs.configs
            each.append(OPEN if both else NOTHING)
            continue
        n = len(table.results.seeds)
        text = interval(one) + ("" if one.seeds == n else f" ({one.seeds} of {n} seeds)")
        each.append(f"**{text}**" if one.significant else text)
    if len(each) > 1:
        gain = table.over_sets(pair)
        each.append(OPEN if gain is None else interval(gain))
    return each


def accuracy_lines(table: RecipeTable, protocol: str) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of methods under a protocol, ours first, and of baselines."""
    trained = [
        row
        for part in ("ours", "paper")
        for row in table.entries
        if (row.part, row.protocol) == (part, protocol) and not is_baseline(row)
    ]
    body = [
        [row.name, recipe_of(row), *(_accuracy(table, row, d) for d in table.datasets)]
        for row in (*trained, *table.baselines)
    ]
    return ["", "recipe", *table.datasets], body


def _accuracy(table: RecipeTable, row: Entry, dataset: str) -> str:
    scores = table.scores(row, dataset)
    if scores is None:
        return OPEN
    std = "" if scores.std is None else f"{NBSP}±{NBSP}{scores.std:.1f}"
    return f"{scores.mean:.1f}{std}{table.so_far(len(scores.seeds))}"


def cost_lines(table: RecipeTable) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of seconds a seed: the mean of trained methods, and baselines."""
    rows: dict[tuple[str, str, str], list[Entry]] = {}
    for row in table.rows("ours", "paper"):
        if not is_baseline(row):
            rows.setdefault(("trained", recipe_of(row), row.protocol), []).append(row)
    rows |= {(row.name, recipe_of(row), ""): [row] for row in table.baselines}
    body = []
    for key, some in rows.items():
        means = []
        for dataset in table.datasets:
            each = [seconds(r) / len(r) for row in some if (r := table.records(row, dataset))]
            mean = statistics.fmean(each) if each else None
            means.append(OPEN if mean is None else f"{mean:.0f}" if mean >= 1 else "< 1")
        body.append([*key, *means])
    return ["", "recipe", "protocol", *table.datasets], body


def recipe_lines(table: RecipeTable) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of the settings in which the recipes differ; sets of one share a column."""
    paper = GraphConfig(method=ABLATED, **papers(quick=table.quick))
    columns: dict[GraphConfig, list[str]] = {}
    for name in table.datasets:
        own = GraphConfig(method=ABLATED, **ours(name, quick=table.quick))
        columns.setdefault(own, []).append(name)
    configs = (paper, *columns)
    body = [
        [name.replace("_", " "), *(_setting(config, name) for config in configs)]
        for name in (f.name for f in fields(GraphConfig) if f.name not in NOT_OF_RECIPES)
        if len({getattr(config, name) for config in configs}) > 1
    ]
    several = len(columns) > 1
    heads = [f"ours: {', '.join(sets)}" if several else "ours" for sets in columns.values()]
    return ["setting", "paper's", *heads], body


def _setting(config: GraphConfig, name: str) -> str:
    given: Any = getattr(config, name)
    if given is None or isinstance(given, bool):
        return NOTHING if given is None else "yes" if given else "no"
    return said({name: given}).removeprefix(f"{name.replace('_', ' ')} ")


def entries_frame(table: RecipeTable) -> DataFrame:
    """One line a row and data set; percent and seconds, NaN where nothing is finished."""
    from pandas import DataFrame

    lines = []
    for row in table.entries:
        long = f"{row.method} {row.name}" if row.part in ("fewer", "off", "on") else row.name
        for dataset in row.configs:
            scores, records = table.scores(row, dataset), table.records(row, dataset)
            span = scores and scores.interval
            lines.append({
                "part": row.part, "row": long, "protocol": row.protocol, "dataset": dataset,
                "seeds": len(records), "mean": scores and scores.mean,
                "std_seeds": scores and scores.std,
                "low": span and span.low, "high": span and span.high,
                "seconds_train": sum(r.seconds_train for r in records) if records else None,
                "seconds_eval": sum(r.seconds_eval for r in records) if records else None,
            })  # fmt: skip
    return DataFrame(lines)


# The terminal


def terminal(table: RecipeTable) -> RenderableType:
    """The first questions' answers, and what is open."""
    from rich.console import Group

    body = [line[1:] for line in summary(table)[1]]
    heads = ["rows", "mean over sets", "sets above 0", "sig. above", "sig. below"]
    n_open = len(table.results.open)
    said = f"{count(n_open, 'run')} open" if n_open else "all runs are finished"
    return Group(rich_table(heads, body, texts=1), *[SUMMARY] * bool(body), said)


SUMMARY = (
    "Our recipe, protocol inductive: points by which the first row is above the second, mean over "
    "sets with its 95 % interval; on how many sets above 0, significantly above and below."
)
