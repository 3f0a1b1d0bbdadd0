"""What a search for a recipe found, as a page and in short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gcl_hard.experiments.ablations import Chosen, Gain, Settings, Tried, said
from gcl_hard.experiments.recipe.accuracies import NOTHING
from gcl_hard.experiments.recipe.forest import forest
from gcl_hard.experiments.reporting.markdown import markdown_table
from gcl_hard.experiments.reporting.words import interval
from gcl_hard.experiments.reporting.written import write_files

NO_GAIN = Gain(0.0, 0.0, 0.0)


def in_short(chosen: Chosen) -> str:
    """What was chosen, for a terminal."""
    told = [f"recipe for all sets: {_recipe(chosen.best)}"]
    if chosen.joined:
        told[0] += f" ({interval(chosen.joined[-1].gain)} points of inner score over the start)"
    told += [
        f"recipe for {name}: {_recipe(one.settings)} ({interval(one.gains[name])} points over the "
        f"recipe for all sets)"
        for name, one in chosen.own.items()
    ] or ["no set has a recipe of its own"]
    return "\n".join(told)


def write(chosen: Chosen, path: Path, *, command: str) -> list[Path]:
    """Write the page, and NAME-levers.svg beside it.

    Args:
        chosen: by a search.
        path: of the page, NAME.md.
        command: that made it.

    Returns:
        What was written.

    Raises:
        InputError: if the place cannot be written to.
    """
    figure, drawn = forest(chosen), path.with_name(f"{path.stem}-levers.svg")
    text = page(chosen, command, figure=drawn.name if figure else None)
    return write_files({path: text}, {drawn: figure} if figure else {})


def page(chosen: Chosen, command: str, *, figure: str | None = None) -> str:
    """The page; every sentence about the numbers is made from them.

    Args:
        chosen: by a search.
        command: that made it.
        figure: relative path of the picture of the levers, where there is one.
    """
    search = chosen.search
    heads = [*search.datasets, "all sets", *search.floors]
    parts = [
        "# The search for a recipe",
        f"Which settings raise accuracies, by inner scores alone: a fifth of every training fold "
        f"({search.folds} folds a seed, protocol `inductive`) is held out, encoders and SVMs are "
        f"trained on the rest of it and scored on that fifth, for seeds {_listed(search.seeds)}. "
        f"No test fold is scored here; [results](results.md) are of test folds and other seeds.",
        f"```bash\n{command}\n```",
        "## What was chosen",
        _chosen(chosen),
        "## Every lever by itself",
        f"The start is {said(search.start)}. Every row changes what it names and nothing else.",
        f"Numbers are points of inner score over the start on the same hold-outs, mean of "
        f"{_listed(search.deciding)}, with 95 % intervals. They allow for overlapping training "
        f"parts; those over all sets take the sets as independent. By chance one in twenty "
        f"settings that do nothing has an interval without 0: here, of {len(chosen.alternatives)}, "
        f"{len(chosen.alternatives) / 20:.1g}.",
        "*helping*: the best of its lever, and its mean over all sets is above some 1.2 standard "
        "errors."
        + _about(search.floors),
        *([f"![Gain of every setting over the start]({figure})"] if figure else []),
        markdown_table(["lever", "setting", *heads], _levers(chosen), texts=2),
        "## Joined",
        _joined(chosen),
        *(
            [markdown_table(["settings", *heads], _rows(chosen.joined, chosen), texts=1)]
            if chosen.joined else []
        ),
        "## Inner scores",
        "Percent, means over seeds and hold-outs. *chosen* is a set's own recipe where it has one, "
        "else the one for all.",
        markdown_table(["", "recipe", *search.datasets], _scores(chosen), texts=2),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _chosen(chosen: Chosen) -> str:
    lines = [line[0].upper() + line[1:] for line in in_short(chosen).splitlines()]
    if chosen.joined:
        by_method = chosen.joined[-1].by_method
        lines[1:1] = [
            f"{floor.capitalize()} gains {interval(by_method[floor])} points by that recipe"
            for floor in chosen.search.floors
        ]
    above = [one for one in chosen.alternatives if one.gain.low > 0]
    below = [one for one in chosen.alternatives if one.gain.high < 0]
    lines += [
        f"Better than the start by itself, interval over all sets above 0: {_gains(above)}",
        f"Worse by itself, interval over all sets below 0: {_gains(below)}",
    ]
    return "\n".join(f"- {line}." for line in lines)


def _joined(chosen: Chosen) -> str:
    if not chosen.joined:
        return "Nothing helped, so nothing was joined."
    left_out = (
        f" Left out, because that did not raise the gain or cannot be set beside the others: "
        f"{_gains(chosen.left_out)}."
        if chosen.left_out
        else ""
    )
    return (
        "What helps, joined one after the other, best first, where that raised the gain over all "
        f"sets.{left_out} A gain that something was chosen by is too high on average."
    )


def _about(floors: Sequence[str]) -> str:
    told = f" {NOTHING}: the setting changes nothing there, which counts as 0."
    if not floors:
        return told
    return f"{told} Last come the gains of {_listed(floors)} over all sets, which decide nothing."


def _levers(chosen: Chosen) -> list[list[str]]:
    rows, before = [], ""
    for one, row in zip(chosen.alternatives, _rows(chosen.alternatives, chosen), strict=True):
        mark = " *helping*" if one in chosen.helping else ""
        rows.append(["" if one.lever == before else one.lever, f"{row[0]}{mark}", *row[1:]])
        before = one.lever
    return rows


def _rows(several: Iterable[Tried], chosen: Chosen) -> list[list[str]]:
    return [
        [
            said(one.settings),
            *(_gain(one.gains[d]) for d in chosen.search.datasets),
            _gain(one.gain),
            *(_gain(one.by_method[m]) for m in chosen.search.floors),
        ]
        for one in several
    ]


def _gain(one: Gain) -> str:
    return NOTHING if one == NO_GAIN else interval(one)


def _scores(chosen: Chosen) -> list[list[str]]:
    rows = []
    for method in chosen.search.methods:
        for name, scores in (("start", chosen.scores), ("chosen", chosen.final)):
            means = [f"{scores[d, method]:.1f}" for d in chosen.search.datasets]
            rows.append([method, name, *means])
    return rows


def _recipe(settings: Settings) -> str:
    return f"the start with {said(settings)}" if settings else "the start"


def _gains(several: Iterable[Tried]) -> str:
    return "; ".join(f"{said(one.settings)} ({interval(one.gain)})" for one in several) or "none"


def _listed(several: Iterable[object]) -> str:
    return ", ".join(map(str, several))
