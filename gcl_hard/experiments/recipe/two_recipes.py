"""The results page: the two recipes beside each other."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gcl_hard.experiments.ablations import OWN, said
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.recipe.accuracies import NOTHING, OURS, PAPERS, is_baseline
from gcl_hard.experiments.recipe.compared import Compared
from gcl_hard.experiments.recipe_table import ABLATED, REPORTED, Part, ours, papers
from gcl_hard.experiments.reporting.markdown import markdown_table

PARTS: tuple[Part, ...] = ("ours", "paper")


def recipes(compared: Compared) -> list[str]:
    """Settings in which ours and the paper's differ."""
    return [
        "## The two recipes",
        _recipes(compared),
        "What is not listed is the same in both; `configs/graphs/NAME.yaml` states every setting "
        "of the paper's, `configs/graphs/best` those of ours." + _who(compared),
    ]


def _who(compared: Compared) -> str:
    """Which methods the paper's recipe is run with, where ours is run with others too."""
    own, of_paper = (
        {row.name for row in compared.rows(part) if not is_baseline(row)} for part in PARTS
    )
    if own == of_paper:
        return ""
    named = ", ".join(method for method in REPORTED if method in of_paper) or "none of these"
    return f" The paper's is run with methods of its Table II on graphs alone: {named}."


def _recipes(compared: Compared) -> str:
    """Sets of one recipe share a column."""
    paper = GraphConfig(method=ABLATED, **papers(quick=compared.quick))
    columns: dict[GraphConfig, list[str]] = {}
    for name in compared.datasets:
        cell = GraphConfig(method=ABLATED, **ours(name, quick=compared.quick))
        columns.setdefault(cell, []).append(name)
    names = [f.name for f in fields(GraphConfig) if f.name not in OWN]
    body = [
        [name.replace("_", " "), *(_setting(cell, name) for cell in (paper, *columns))]
        for name in names
        if len({getattr(cell, name) for cell in (paper, *columns)}) > 1
    ]
    heads = [f"{OURS}: {', '.join(c)}" if len(columns) > 1 else OURS for c in columns.values()]
    return markdown_table(["setting", PAPERS, *heads], body, texts=2 + len(columns))


def _setting(cell: GraphConfig, name: str) -> str:
    value: Any = getattr(cell, name)
    if value is None or isinstance(value, bool):
        return NOTHING if value is None else "yes" if value else "no"
    return said({name: value}).removeprefix(f"{name.replace('_', ' ')} ")
