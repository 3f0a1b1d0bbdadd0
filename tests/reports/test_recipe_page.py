"""The page of ``--table recipe``: every number on it is one of the results."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from rich.console import Console

from gcl_hard.experiments.recipe_table import REPORTED
from gcl_hard.reports.frame import Results
from gcl_hard.reports.recipe import (
    RecipeTable,
    terminal,
)
from tests.experiments.recipe.made_up_table import METHODS, RECIPE, SEEDS, SETS, compared, put
from tests.reports.recipe_pages import (
    COMMAND,
    BASELINES,
    folder,
    get,
    part,
    section,
    shift,
    shown,
    table,
    text,
    whole,
)

__all__ = ["folder", "part", "whole"]


def printed(found: RecipeTable, width: int = 200) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as seen:
        console.print(terminal(found))
    return seen.get()


# Accuracies


@pytest.mark.parametrize("protocol", ["inductive", "paper"])
@pytest.mark.parametrize("given", ["whole", "part"])
def test_every_accuracy_is_that_of_the_records(
    given: str, protocol: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(given)
    heads, *body = table(found, f"Protocol `{protocol}`")
    assert heads == ["", "recipe", *SETS]
    rows = {(name, whose): configs for name, whose, *configs in body}
    expected = {}
    for method in METHODS[:5]:
        expected[method, "ours"] = get(found, "ours", method, protocol)
        if method in REPORTED:
            expected[method, "paper's"] = get(found, "paper", method, protocol)
    for baseline in BASELINES:
        whose = "paper's" if baseline in ("untrained", "supervised") else ""
        expected[baseline, whose] = get(found, "baselines", baseline)
        if whose:
            expected[baseline, "ours"] = get(found, "ours", baseline)
    assert rows == {key: [shown(found, row, d) for d in SETS] for key, row in expected.items()}


def test_ours_stands_above_the_papers_and_baselines_below() -> None:
    _, *body = table(compared(), "Protocol `paper`")
    whose = [(name in BASELINES, row[0]) for name, *row in body]
    assert whose[:9] == [(False, "ours")] * 5 + [(False, "paper's")] * 4
    assert all(baseline for baseline, _ in whose[9:])


def test_marks_are_explained_where_they_are(whole: RecipeTable, part: RecipeTable) -> None:
    for told in (
        "open: no seed is finished.",
        "In square brackets: seeds that are finished, of 2.",
    ):
        assert told in section(part, "Protocol `inductive`")
    assert "open:" not in text(whole)
    assert "In square brackets" not in text(whole)


def test_who_has_seen_labels_is_named(whole: RecipeTable) -> None:
    assert "The label-aware encoders (hscl, scl) have seen the labels of the graphs they are" in (
        section(whole, "Protocol `paper`")
    )
    free = compared(methods=("ucl", "hucl"))
    assert "label-aware encoders" not in text(free)
    assert "Baselines" not in text(free)


# Runs


def test_the_page_counts_what_is_open(whole: RecipeTable, part: RecipeTable) -> None:
    n = len(whole.results.configs) * 2
    assert f"All {n} runs" in text(whole)
    n_open = n - len(part.results.records)
    assert f"**{n_open} of {n} runs**" in text(part)
    for found in (whole, part):
        assert f"```bash\n{COMMAND}\n```" in text(found)
    assert printed(whole).splitlines()[-1] == "all runs are finished"
    assert printed(part).splitlines()[-1] == f"{n_open} runs open"


def test_the_answers_are_whole_in_a_terminal_of_80_columns(part: RecipeTable) -> None:
    assert "…" not in printed(part, 80)
    assert "hscl − scl" in printed(part, 80)


def test_seeds_are_named_and_so_is_what_they_chose() -> None:
    fresh = text(compared(methods=("hscl",), seeds=(100, 103)))
    assert "deviation over seeds 100, 103. Our recipe was found by inner scores of other" in fresh
    old = text(compared(methods=("hscl",), seeds=(0, 100)))
    assert "where these are among them, it is flattered" in old
    assert "chose nothing" not in old
    assert "deviation over seed 102." in text(compared(methods=("hscl",), seeds=(102,)))


def test_nothing_finished_is_a_page_too() -> None:
    found = compared(finished=lambda r, d, s: False)
    assert "There are none yet." in text(found)
    assert {config for _, _, *row in table(found, "Protocol `inductive`")[1:] for config in row} == {
        "open"
    }
    for name in ("Paired", "Ablations"):
        assert f"## {name}" not in text(found)
    assert "#paired-differences" not in text(found)


@pytest.mark.parametrize("given", ["whole", "part"])
def test_nothing_is_no_number(given: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(given)
    for word in (r"(?i)\bnan\b", r"\binf\b", r"\bNone\b", r"-0\.0\b", r"\(,", r"\(\)"):
        assert not re.search(word, text(found, figure="curves.svg"))


# The recipes


def test_the_two_recipes_stand_side_by_side(whole: RecipeTable) -> None:
    heads, *body = table(whole, "The two recipes")
    assert heads == ["setting", "paper's", "ours"]
    found = {name.replace(" ", "_"): (paper, ours) for name, paper, ours in body}
    assert set(found) == set(RECIPE)  # everything in it differs from the paper's
    assert found["lr"] == ("0.01", "0.002")
    assert found["virtual_node"] == ("no", "yes")
    assert found["encodings"] == ("–", "degree + cycles")
    assert found["c_grid"] == ("–", "0.1 … 1 (2 values)")
    assert found["objective"] == ("jsd", "infonce")
    assert found["beta"] == ("1", "2")


def test_methods_of_the_papers_recipe_are_named_where_there_are_others(
    whole: RecipeTable,
) -> None:
    said = "The paper's is run with methods of its Table II on graphs alone: "
    assert f"{said}ucl, hucl, scl, hscl." in section(whole, "The two recipes")
    assert f"{said}none of these." in section(compared(methods=("dcl",)), "The two recipes")
    assert "Table II" not in section(compared(methods=("ucl", "hscl")), "The two recipes")


def test_a_set_s_own_recipe_has_a_column(folder: Path) -> None:
    put(folder, "ptc_mr", {**RECIPE, "dim": 48, "readout": "sum"})
    heads, *body = table(compared(methods=("hscl",)), "The two recipes")
    assert heads == ["setting", "paper's", "ours: MUTAG", "ours: PTC_MR"]
    found = {name: row for name, *row in body}
    assert found["dim"] == ["32", "16", "48"]
    assert found["readout"] == ["sum", "both", "sum"]
    assert found["layers"] == ["3", "2", "2"]


def test_a_setting_that_is_the_same_in_both_is_not_listed(folder: Path) -> None:
    put(folder, "all", {"lr": 0.5, "dim": 32})
    _, *body = table(compared(methods=("hscl",)), "The two recipes")
    assert body == [["lr", "0.01", "0.5"]]


# Cost


def test_seconds_are_means_over_seeds_and_trained_methods(part: RecipeTable) -> None:
    heads, *body = table(part, "Cost")
    assert heads == ["", "recipe", "protocol", *SETS]
    rows = {tuple(row[:3]): row[3:] for row in body}
    assert len(rows) == len(body) == 4 + 2 + len(BASELINES)
    spent = {100: 10.25, 101: 17.25}
    all_seeds = f"{fmean(spent.values()):.0f}"
    # on MUTAG scl has one seed and dcl none
    some = f"{fmean([fmean(spent.values())] * 3 + [spent[100]]):.0f}"
    assert some != all_seeds
    for whose in ("ours", "paper's"):
        for protocol in ("inductive", "paper"):
            assert rows["trained", whose, protocol] == [some, all_seeds]
        assert rows["untrained", whose, ""] == [all_seeds, all_seeds]
    assert rows["majority", "", ""] == [all_seeds, all_seeds]


def test_less_than_a_second_is_no_zero(whole: RecipeTable) -> None:
    short = {
        run: replace(record, seconds_train=0.0) for run, record in whole.results.records.items()
    }
    found = RecipeTable(Results(whole.results.configs, SEEDS, short), quick=False)
    assert {config for row in table(found, "Cost")[1:] for config in row[3:]} == {"< 1"}


# Parts of the table


def test_one_set_and_two_methods(folder: Path) -> None:
    found = compared(shift, datasets=("PTC_MR",), methods=("hscl", "untrained"))
    assert table(found, "Protocol `paper`")[0] == ["", "recipe", "PTC_MR"]
    assert [row[1] for row in table(found, "Paired differences")[1:]] == [
        "hscl − untrained", "hscl, paper's − untrained, paper's",
        "hscl, paper's with two views − untrained, paper's", "hscl − hscl, paper's",
    ]  # fmt: skip
    assert "on PTC_MR," in text(found)
    assert "Of 1 comparison of two rows on a set, 1 shows a significant gain and none" in text(
        found
    )


def test_what_stands_under_inductive_is_left_out_where_it_is_not_asked_for() -> None:
    found = compared(protocols=("paper",))
    assert re.findall(r"^## (.*)$", text(found), flags=re.M) == [
        "The two recipes", "Protocol `paper`", "Cost", "How the tests work",
        "Where the numbers come from",
    ]  # fmt: skip


def test_sections_do_not_hang_below_a_protocol(whole: RecipeTable) -> None:
    assert re.findall(r"^#+ .*$", text(whole, figure="c.svg"), flags=re.M) == [
        "# Results", "## The two recipes", "## Protocol `inductive`", "## Protocol `paper`",
        "## Paired differences", "## Each ablation off, each ablation on", "## Fewer graphs",
        "## Cost", "## How the tests work",
        "## Where the numbers come from",
    ]  # fmt: skip


def test_baselines_alone() -> None:
    found = compared(methods=("wl-oa", "majority"), protocols=("paper",))
    assert [row[0] for row in table(found, "Protocol `inductive`")[1:]] == ["wl-oa", "majority"]
    assert "nothing is compared" in text(found)
