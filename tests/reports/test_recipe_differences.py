"""Differences on the page of ``--table recipe``: all there, and bold only if significant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcl_hard.experiments.recipe_table import ABLATIONS, Entry
from gcl_hard.reports.frame import Comparison
from gcl_hard.reports.recipe import QUESTIONS, Pair, RecipeTable
from gcl_hard.reports.text import (
    NBSP,
)
from tests.experiments.recipe.made_up_table import SETS, compared, put
from tests.reports.recipe_pages import (
    filled,
    folder,
    get,
    part,
    section,
    table,
    text,
    whole,
)
from tests.reports.test_recipe import step_down

__all__ = ["folder", "part", "whole"]


def difference(one: Comparison | None, n: int) -> str:
    if one is None:
        return "open"
    said = f"{one.mean:+z.1f} [{one.low:+z.1f},{NBSP}{one.high:+z.1f}]"
    said += "" if one.seeds == n else f" ({one.seeds} of {n} seeds)"
    return f"**{said}**" if one.p < 0.05 else said


def called(row: Entry) -> str:
    if row.part == "on":
        return "hscl, paper's with two views"
    of_paper = row.part == "paper" or (row.part, row.name) == ("baselines", "untrained")
    return f"{row.name}, paper's" if of_paper else row.name


def over_sets(pair: Pair) -> str:
    """Mean of the sets and root of their squared halves, 0 where a row has no config."""
    each = list(pair.on.values())
    if any(one.seeds < 2 for one in each) or len(each) < len(pair.ours.configs):
        return "open"
    mean = sum(one.mean for one in each) / len(SETS)
    half = sum(((one.high - one.low) / 2) ** 2 for one in each) ** 0.5 / len(SETS)
    return f"{mean:+z.1f} [{mean - half:+z.1f},{NBSP}{mean + half:+z.1f}]"


@pytest.mark.parametrize("given", ["whole", "part"])
def test_every_difference_is_there_and_bold_only_if_significant(
    given: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(given)
    heads, *body = table(found, "Paired differences")
    assert heads == ["question", "rows", *SETS, "over sets"]
    rows = filled(body)
    expected = []
    for question in QUESTIONS:
        for pair in found.questions[question]:
            name = f"{called(pair.ours)} − {called(pair.theirs)}"
            expected.append([name, *(difference(pair.on.get(d), 2) for d in SETS), over_sets(pair)])
    assert [row[1:] for row in rows] == expected
    assert len(dict.fromkeys(row[0] for row in rows)) == len(QUESTIONS)
    bold = ["**" in config for row in rows for config in row[2:]]
    assert True in bold
    assert False in bold
    assert any("(1 of 2 seeds)" in config for row in rows for config in row) == (given == "part")


@pytest.mark.parametrize("given", ["whole", "part"])
def test_every_ablation_is_compared_with_its_own_recipe(
    given: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(given)
    heads, *body = table(found, "Ablations")
    assert heads == ["part of the recipe", "", *SETS, "over sets"]
    beside = {"off": get(found, "ours", "hscl"), "on": get(found, "paper", "hscl")}
    pairs = found.ablations
    assert [(pair.ours, pair.theirs) for pair in pairs] == [
        (get(found, how, ablation), row) for ablation in ABLATIONS for how, row in beside.items()
    ]
    raw = [found.pair(pair.ours, pair.theirs) for pair in pairs]
    p = [one.p for pair in raw if pair is not None for one in pair.on.values()]
    assert [one.p for pair in pairs for one in pair.on.values()] == pytest.approx(step_down(p))
    assert filled(body) == [
        [
            pair.ours.name,
            pair.ours.part,
            *(difference(pair.on.get(d), 2) for d in SETS),
            over_sets(pair),
        ]
        for pair in pairs
    ]
    configs = {(name, how): row[0] for name, how, *row in filled(body)}
    assert configs["optimiser", "on"].startswith("**+3.")
    assert configs["encoder", "off"].startswith("**-3.")  # as shift has it
    assert "–: the part changes nothing" not in text(found)


def test_a_ablation_without_a_config_is_no_open_one(folder: Path) -> None:
    put(folder, "all", {"lr": 0.002})
    put(folder, "ptc_mr", {"lr": 0.002, "kernel": "linear"})
    found = compared(methods=("hscl",))
    _, *body = table(found, "Ablations")
    nothing = {(name, how): [config == "–" for config in row] for name, how, *row, _ in filled(body)}
    assert nothing == {
        ("optimiser", "off"): [False, False], ("optimiser", "on"): [False, False],
        ("SVM", "off"): [True, False], ("SVM", "on"): [True, False],
    }  # fmt: skip
    assert "–: the part changes nothing there, which counts as 0." in section(found, "Ablations")
    last = {(name, how): row[-1] for name, how, *row in filled(body)}
    off, ours = get(found, "off", "SVM"), get(found, "ours", "hscl")
    pair = found.pair(off, ours)
    assert pair is not None
    assert [*pair.on] == ["PTC_MR"]
    assert last["SVM", "off"] == over_sets(pair) != difference(pair.on["PTC_MR"], 2)


def test_ablations_are_explained_by_their_settings(whole: RecipeTable) -> None:
    said = section(whole, "Ablations")
    for ablation, names in ABLATIONS.items():
        assert f"*{ablation}*: {', '.join(names).replace('_', ' ')}" in said


def test_ablations_without_a_row_are_not_explained(folder: Path) -> None:
    put(folder, "all", {"lr": 0.002})
    said = section(compared(methods=("hscl",)), "Ablations")
    assert "*optimiser*: lr," in said
    assert "*SVM*" not in said
