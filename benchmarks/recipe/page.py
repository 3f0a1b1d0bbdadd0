"""The recipe table and the search for a recipe: rows compared by question, and their pages."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.recipe.search import Chosen, Settings, Tried, over_sets, said
from benchmarks.recipe.table import (
    ABLATED,
    ABLATIONS,
    CURVES,
    REPORTED,
    SCORED_ALIKE,
    SEEDS,
    SHARES,
    Entry,
    Part,
    entries,
    ours,
    papers,
)
from gcl_hard.evaluation.significance import Interval
from gcl_hard.reports.frame import Comparison, Results, Scores, compare, corrected, seconds
from gcl_hard.reports.page import origin
from gcl_hard.reports.rendering import check_target, rendered, write_files
from gcl_hard.reports.tables import (
    NBSP,
    NOTHING,
    OPEN,
    count,
    interval,
    markdown,
    mean_std,
    rich_table,
    text_frame,
    values,
)
from gcl_hard.runs.record import RunResult
from gcl_hard.settings.flags import not_of_recipes
from gcl_hard.settings.graphs import GraphConfig

if TYPE_CHECKING:
    from pandas import DataFrame
    from rich.console import RenderableType

    from benchmarks.recipe.search import Chosen

HERE = Path(__file__).parent
"""The folder of the templates."""

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
"""Questions answered first on the page, and in the terminal."""


@dataclass(frozen=True, eq=False)
class Pair:
    """The difference of two rows on each data set.

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
    """The rows of the table of recipes and their differences.

    Args:
        results: results of the command.
        quick: whether they come from a smoke run.
    """

    def __init__(self, results: Results, *, quick: bool) -> None:
        self.results = results
        self.quick = quick
        configs = results.configs
        self.datasets = list(dict.fromkeys(config.dataset for config in configs))
        methods = list(dict.fromkeys(config.method for config in configs))
        trained = dict.fromkeys(c.protocol for c in configs if not c.is_baseline)
        self.protocols = list(trained or ["inductive"])  # baselines do not show which were given
        self.entries = [
            row
            for row in entries(self.datasets, methods, self.protocols, quick=quick)
            if set(configs).issuperset(row.configs.values())
        ]

    def row(self, part: Part, name: str, protocol: str = "inductive") -> Entry | None:
        """A row by its part, name and protocol."""
        known = {(one.part, one.name, one.protocol): one for one in self.entries}
        return known.get((part, name, protocol))

    def rows(self, *parts: Part) -> list[Entry]:
        """All rows of some parts."""
        return [one for one in self.entries if one.part in parts]

    def records(self, row: Entry, dataset: str) -> list[RunResult]:
        """A row's results on a data set."""
        config = row.configs.get(dataset)
        return [] if config is None else self.results.of(config)

    def scores(self, row: Entry, dataset: str) -> Scores | None:
        """A row's accuracies on a data set; None if nothing is finished."""
        config = row.configs.get(dataset)
        return None if config is None else self.results.scores(config)

    def pair(self, ours: Entry | None, theirs: Entry | None) -> Pair | None:
        """The difference of two rows, p not corrected; None if no data set has both."""
        if ours is None or theirs is None:
            return None
        found = {d: compare(self.scores(ours, d), self.scores(theirs, d)) for d in self.datasets}
        on = {dataset: one for dataset, one in found.items() if one is not None}
        return Pair(ours, theirs, on) if on else None

    def over_sets(self, pair: Pair) -> Interval | None:
        """Mean difference over data sets, with equal weights and independent errors.

        Args:
            pair: pair of rows; a set on which the first one changes nothing counts as exactly 0.

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
        """Pairs grouped by question, with corrected p-values."""
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
        """Our recipe with one part removed, and the paper's with one part added."""
        full = {"off": self.row("ours", ABLATED), "on": self.row("paper", ABLATED)}
        pairs = [self.pair(row, full[row.part]) for row in self.rows("off", "on")]
        return _corrected([pair for pair in pairs if pair is not None])

    @cached_property
    def baselines(self) -> list[Entry]:
        """Rows of baselines, grouped by method."""
        rows = [row for row in self.rows("baselines", "ours") if row.is_baseline]
        names = [row.name for row in self.rows("baselines")]
        return sorted(rows, key=lambda row: (names.index(row.name), row.part == "baselines"))


def _corrected(pairs: Sequence[Pair]) -> list[Pair]:
    """Pairs with Holm's correction over all their comparisons."""
    found = iter(corrected([one for pair in pairs for one in pair.on.values()]))
    return [replace(pair, on={dataset: next(found) for dataset in pair.on}) for pair in pairs]


def recipe_of(row: Entry) -> str:
    """Whose recipe a row uses; most baselines have none."""
    if row.part == "baselines" and row.name not in SCORED_ALIKE:
        return ""
    return "ours" if row.part == "ours" else "paper's"


def _in_words(row: Entry) -> str:
    if row.part == "on":
        return f"{row.method}, paper's with {row.name}"
    return f"{row.name}, paper's" if recipe_of(row) == "paper's" else row.name


# Tables


def summary(table: RecipeTable) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the first questions' answers."""
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


def difference_table(table: RecipeTable) -> DataFrame:
    """Header and rows of all questions' answers, data sets across."""
    body = [
        [question if not k else "", pair.name, *_points(table, pair)]
        for question, pairs in table.questions.items()
        for k, pair in enumerate(pairs)
    ]
    return text_frame(["question", "rows", *_across(table)], body)


def ablation_table(table: RecipeTable) -> DataFrame:
    """Ablations of the recipe's parts, off and on."""
    body, before = [], ""
    for pair in table.ablations:
        name = pair.ours.name
        body.append(["" if name == before else name, pair.ours.part, *_points(table, pair)])
        before = name
    return text_frame(["part of the recipe", "", *_across(table)], body)


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


def accuracy_table(table: RecipeTable, protocol: str) -> DataFrame:
    """Methods under a protocol, ours first, and baselines."""
    trained = [
        row
        for part in ("ours", "paper")
        for row in table.entries
        if (row.part, row.protocol) == (part, protocol) and not row.is_baseline
    ]
    body = [
        [row.name, recipe_of(row), *(_accuracy(table, row, d) for d in table.datasets)]
        for row in (*trained, *table.baselines)
    ]
    return text_frame(["", "recipe", *table.datasets], body)


def _accuracy(table: RecipeTable, row: Entry, dataset: str) -> str:
    scores = table.scores(row, dataset)
    shown = mean_std(scores).replace(" ", NBSP)
    if scores is None or len(scores.seeds) == len(table.results.seeds):
        return shown
    return f"{shown} [{len(scores.seeds)}]"


def cost_table(table: RecipeTable) -> DataFrame:
    """Seconds per seed: means of trained methods, and baselines."""
    rows: dict[tuple[str, str, str], list[Entry]] = {}
    for row in table.rows("ours", "paper"):
        if not row.is_baseline:
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
    return text_frame(["", "recipe", "protocol", *table.datasets], body)


def recipe_table(table: RecipeTable) -> DataFrame:
    """Settings in which the recipes differ; data sets with one recipe share a column."""
    paper = GraphConfig(method=ABLATED, **papers(quick=table.quick))
    columns: dict[GraphConfig, list[str]] = {}
    for name in table.datasets:
        own = GraphConfig(method=ABLATED, **ours(name, quick=table.quick))
        columns.setdefault(own, []).append(name)
    configs = (paper, *columns)
    body = [
        [name.replace("_", " "), *(_setting(config, name) for config in configs)]
        for name in (f.name for f in fields(GraphConfig) if f.name not in not_of_recipes())
        if len({getattr(config, name) for config in configs}) > 1
    ]
    several = len(columns) > 1
    heads = [f"ours: {', '.join(sets)}" if several else "ours" for sets in columns.values()]
    return text_frame(["setting", "paper's", *heads], body)


def _setting(config: GraphConfig, name: str) -> str:
    given: Any = getattr(config, name)
    if given is None or isinstance(given, bool):
        return NOTHING if given is None else "yes" if given else "no"
    return said({name: given}).removeprefix(f"{name.replace('_', ' ')} ")


def entries_frame(table: RecipeTable) -> DataFrame:
    """One line per row and data set, in percent and seconds; NaN where nothing is finished."""
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
                "std_seeds": scores and scores.seed_std,
                "low": span and span.low, "high": span and span.high,
                "seconds_train": sum(r.seconds_train for r in records) if records else None,
                "seconds_eval": sum(r.seconds_eval for r in records) if records else None,
            })  # fmt: skip
    return DataFrame(lines)


def learning_data(table: RecipeTable) -> DataFrame:
    """Accuracy against the number of training graphs.

    Args:
        table: the rows of the recipe table.

    Returns:
        ``dataset``, ``method``, ``graphs`` (of a training fold), ``mean`` and ``half``, that of
        the 95 % interval; methods with one point are left out.
    """
    rows = []
    fewer = {(row.name, row.method): row for row in table.rows("fewer")}
    for dataset in table.datasets:
        for method in CURVES:
            whole = table.row("baselines" if method == "wl-oa" else "ours", method)
            for share in (*SHARES, 1.0):
                row = whole if share == 1 else fewer.get((f"{share:g}", method))
                scores = row and table.scores(row, dataset)
                if row and scores and (span := scores.interval):
                    n_graphs = table.records(row, dataset)[0].data["n_graphs"]
                    n = n_graphs * (1 - 1 / row.configs[dataset].n_scores)
                    half = (span.high - span.low) / 2
                    rows.append([dataset, method, share * n, scores.mean, half])
    data = text_frame(["dataset", "method", "graphs", "mean", "half"], rows)
    return data[data.groupby(["dataset", "method"])["mean"].transform("size") > 1]


# The terminal


def terminal(table: RecipeTable) -> RenderableType:
    """The first questions' answers, and the open runs."""
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


# The page of the recipe table


def write(results: Results, path: Path, *, command: str, quick: bool) -> list[Path]:
    """Write the page of the table, with NAME.csv and NAME-curves.png next to it.

    Args:
        results: results of the command.
        path: path of the page, NAME.md.
        command: the command that made the results.
        quick: whether they come from a smoke run.

    Returns:
        The files written, the page first.

    Raises:
        InputError: if the path cannot be written to, or a smoke run would replace results.
    """
    from gcl_hard.reports.result_figures import learning_curves

    check_target(path, quick=quick)
    table = RecipeTable(results, quick=quick)
    figure, drawn = learning_curves(learning_data(table)), path.with_name(f"{path.stem}-curves.png")
    csv = entries_frame(table).to_csv(index=False, float_format="%.4f", lineterminator="\n")
    text = page(table, command, figure=drawn.name if figure else None)
    texts = {path: text, path.with_suffix(".csv"): csv}
    return write_files(texts, {drawn: figure})


def page(table: RecipeTable, command: str, *, figure: str | None) -> str:
    """The page of the recipe table, as Markdown.

    Args:
        table: its rows.
        command: the command that made them.
        figure: relative path of the learning curves, where there are any.
    """
    seeds, inductive = table.results.seeds, "inductive" in table.protocols
    first = [
        one
        for question in [*QUESTIONS][:FIRST]
        for pair in table.questions.get(question, [])
        for one in pair.on.values()
    ]
    kernels = {c.kernel for row in table.rows("ours") for c in row.configs.values()}
    own, of_paper = (
        [row.name for row in table.rows(part) if not row.is_baseline] for part in ("ours", "paper")
    )
    return rendered(
        "table.md.j2",
        folder=HERE,
        command=command,
        results=table.results,
        quick=table.quick,
        epochs=values((c for c in table.results.configs if not c.is_baseline), "epochs"),
        fresh=set(seeds) <= set(SEEDS),
        with_kernel=any(kernel.startswith("rbf+") for kernel in kernels),
        datasets=table.datasets,
        reported=REPORTED,
        ablated=ABLATED,
        comparisons=len(first),
        above=sum(one.significant and one.mean > 0 for one in first),
        below=sum(one.significant and one.mean < 0 for one in first),
        summary=markdown(text_frame(*summary(table)), texts=2) if inductive else "",
        recipes=markdown(recipe_table(table), texts=1),
        paper_methods=(
            None if set(own) == set(of_paper) else [m for m in REPORTED if m in of_paper]
        ),
        protocols={
            protocol: {
                "aware": list(dict.fromkeys(
                    row.name
                    for row in table.rows("ours", "paper")
                    if row.protocol == protocol
                    and any(c.reads_labels for c in row.configs.values())
                )),
                "accuracies": markdown(accuracy_table(table, protocol), texts=2),
            }
            for protocol in table.protocols
        },
        baselines={row.name for row in table.baselines},
        differences=markdown(difference_table(table), texts=2) if inductive else "",
        ablations=markdown(ablation_table(table), texts=2) if inductive else "",
        parts={
            name: [setting.replace("_", " ") for setting in settings]
            for name, settings in ABLATIONS.items()
            if name in {row.name for row in table.rows("off", "on")}
        },
        shares=SHARES,
        figure=figure if inductive else None,
        cost=markdown(cost_table(table), texts=3),
        origin=origin(table.results),
    )  # fmt: skip


# The page of the search for a recipe


def write_search(chosen: Chosen, path: Path, *, command: str) -> list[Path]:
    """Write the page of a search for a recipe, with NAME-ablations.png next to it.

    Args:
        chosen: outcome of the search.
        path: path of the page, NAME.md.
        command: the command of the search.

    Returns:
        The files written, the page first.

    Raises:
        InputError: if the path cannot be written to.
    """
    from benchmarks.recipe.figure import forest

    figure, drawn = forest(chosen), path.with_name(f"{path.stem}-ablations.png")
    text = search_page(chosen, command, figure=drawn.name if figure else None)
    return write_files({path: text}, {drawn: figure})


def search_page(chosen: Chosen, command: str, *, figure: str | None = None) -> str:
    """The page of a search for a recipe, as Markdown.

    Args:
        chosen: outcome of the search.
        command: the command of the search.
        figure: relative path of the picture of the alternatives, where there is one.
    """
    search = chosen.search
    heads = [*search.datasets, "all sets", *search.baselines]
    alone, before = [], ""
    for one in chosen.alternatives:
        name = "" if one.ablation == before else one.ablation
        mark = " *helping*" if one in chosen.helping else ""
        alone.append([name, f"{said(one.settings)}{mark}", *_gains(one, chosen)])
        before = one.ablation
    scores = [
        [method, name, *(f"{found[d, method]:.1f}" for d in search.datasets)]
        for method in search.methods
        for name, found in (("start", chosen.scores), ("chosen", chosen.final))
    ]
    joined = [[said(one.settings), *_gains(one, chosen)] for one in chosen.joined]
    return rendered(
        "search.md.j2",
        folder=HERE,
        command=command,
        chosen=chosen,
        search=search,
        figure=figure,
        summary=in_short(chosen),
        above=_listed(one for one in chosen.alternatives if one.gain.low > 0),
        below=_listed(one for one in chosen.alternatives if one.gain.high < 0),
        left_out=_listed(chosen.left_out),
        start=said(search.start),
        alone=markdown(text_frame(["part of the recipe", "setting", *heads], alone), texts=2),
        joined=markdown(text_frame(["settings", *heads], joined), texts=1),
        scores=markdown(text_frame(["", "recipe", *search.datasets], scores), texts=2),
    )


def in_short(chosen: Chosen) -> list[str]:
    """The outcome, in lines for a terminal."""
    gain = f" ({interval(chosen.joined[-1].gain)} points over the start)" if chosen.joined else ""
    own = [
        f"recipe for {name}: {_recipe(one.settings)} ({interval(one.gains[name])} points over the "
        "recipe for all sets)"
        for name, one in chosen.own.items()
    ]
    return [f"recipe for all sets: {_recipe(chosen.best)}{gain}",
            *(own or ["no set has a recipe of its own"])]  # fmt: skip


def _gains(one: Tried, chosen: Chosen) -> list[str]:
    gains = [one.gains[dataset] for dataset in chosen.search.datasets]
    gains += [one.gain, *(one.by_method[method] for method in chosen.search.baselines)]
    return [NOTHING if gain == Interval(0.0, 0.0, 0.0) else interval(gain) for gain in gains]


def _listed(several: Iterable[Tried]) -> str:
    return "; ".join(f"{said(one.settings)} ({interval(one.gain)})" for one in several)


def _recipe(settings: Settings) -> str:
    return f"the start with {said(settings)}" if settings else "the start"
