"""The pages of the recipe table and of the search for a recipe."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gcl_hard.evaluation.significance import Interval
from gcl_hard.experiments.ablations import Chosen, Settings, Tried, said
from gcl_hard.experiments.presets import PRESETS
from gcl_hard.experiments.recipe_table import ABLATED, ABLATIONS, REPORTED, SHARES
from gcl_hard.reports.frame import Results
from gcl_hard.reports.page import check_target, origin, rendered, write_files
from gcl_hard.reports.recipe import (
    FIRST,
    NOTHING,
    QUESTIONS,
    RecipeTable,
    ablation_lines,
    accuracy_lines,
    cost_lines,
    difference_lines,
    entries_frame,
    is_baseline,
    recipe_lines,
    summary,
)
from gcl_hard.reports.tables import markdown, text_frame
from gcl_hard.reports.text import interval, values

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(results: Results, path: Path, *, command: str, quick: bool) -> list[Path]:
    """Write the page of ``--table recipe``, NAME.csv and NAME-curves.png beside it.

    Args:
        results: of the command.
        path: of the page, NAME.md.
        command: that made the results.
        quick: whether they are of a smoke run.

    Returns:
        What was written, the page first.

    Raises:
        InputError: if the place cannot be written to, or a smoke run would replace results.
    """
    check_target(path, quick=quick)
    table = RecipeTable(results, quick=quick)
    drawn = (
        {path.with_name(f"{path.stem}-curves.png"): curves} if (curves := _curves(table)) else {}
    )
    texts = {
        path: page(table, command, figure=next((f.name for f in drawn), None)),
        path.with_suffix(".csv"): entries_frame(table).to_csv(
            index=False, float_format="%.4f", lineterminator="\n"
        ),
    }
    return write_files(texts, drawn)


def _curves(table: RecipeTable) -> Figure | None:
    from gcl_hard.reports.result_figures import learning_curves

    return learning_curves(table)


def page(table: RecipeTable, command: str, *, figure: str | None) -> str:
    """The page of the recipe table, as Markdown.

    Args:
        table: its rows.
        command: that made them.
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
        [row.name for row in table.rows(part) if not is_baseline(row)] for part in ("ours", "paper")
    )
    return rendered(
        "recipe_table.md.j2",
        command=command,
        results=table.results,
        quick=table.quick,
        epochs=values((c for c in table.results.configs if not c.is_baseline), "epochs"),
        fresh=set(seeds) <= set(PRESETS["recipe"].values["seeds"]),
        with_kernel=any(kernel.startswith("rbf+") for kernel in kernels),
        datasets=table.datasets,
        reported=REPORTED,
        ablated=ABLATED,
        comparisons=len(first),
        above=sum(one.significant and one.mean > 0 for one in first),
        below=sum(one.significant and one.mean < 0 for one in first),
        summary=markdown(text_frame(*summary(table)), texts=2) if inductive else "",
        recipes=markdown(text_frame(*recipe_lines(table)), texts=1),
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
                "accuracies": markdown(text_frame(*accuracy_lines(table, protocol)), texts=2),
            }
            for protocol in table.protocols
        },
        baselines={row.name for row in table.baselines},
        differences=markdown(text_frame(*difference_lines(table)), texts=2) if inductive else "",
        ablations=markdown(text_frame(*ablation_lines(table)), texts=2) if inductive else "",
        parts={
            name: [setting.replace("_", " ") for setting in settings]
            for name, settings in ABLATIONS.items()
            if name in {row.name for row in table.rows("off", "on")}
        },
        shares=SHARES,
        figure=figure if inductive else None,
        cost=markdown(text_frame(*cost_lines(table)), texts=3),
        origin=origin(table.results),
    )  # fmt: skip


# The page of the search for a recipe


def write_search(chosen: Chosen, path: Path, *, command: str) -> list[Path]:
    """Write the page of a search for a recipe, and NAME-ablations.png beside it.

    Args:
        chosen: by the search.
        path: of the page, NAME.md.
        command: that made it.

    Returns:
        What was written, the page first.

    Raises:
        InputError: if the place cannot be written to.
    """
    from gcl_hard.reports.result_figures import forest

    figure, drawn = forest(chosen), path.with_name(f"{path.stem}-ablations.png")
    text = search_page(chosen, command, figure=drawn.name if figure else None)
    return write_files({path: text}, {drawn: figure} if figure else {})


def search_page(chosen: Chosen, command: str, *, figure: str | None = None) -> str:
    """The page of a search for a recipe, as Markdown.

    Args:
        chosen: by the search.
        command: that made it.
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
        "recipe_search.md.j2",
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
    """What was chosen, in lines for a terminal."""
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
