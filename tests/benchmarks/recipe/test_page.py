"""The page of the table of recipes: every number on it is one of the results."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import t as student

from benchmarks.recipe.__main__ import main
from benchmarks.recipe.page import QUESTIONS, Pair, RecipeTable, page, summary, terminal, write
from benchmarks.recipe.table import ABLATIONS, REPORTED, Entry
from gcl_hard.errors import InputError
from gcl_hard.reports.frame import Comparison, Results
from gcl_hard.reports.rendering import QUICK
from gcl_hard.reports.tables import NBSP
from gcl_hard.runs.store import Store
from tests.benchmarks.recipe.made_recipes import RECIPE, put, recipes
from tests.benchmarks.recipe.made_table import (
    BASELINES,
    COMMAND,
    METHODS,
    SEEDS,
    SETS,
    cells,
    compared,
    filled,
    folds,
    get,
    made_up,
    part,
    section,
    shift,
    shown,
    step_down,
    table,
    text,
    whole,
)
from tests.reports.made import sentences
from tests.said import says

__all__ = ["part", "recipes", "whole"]

pytestmark = pytest.mark.usefixtures("recipes")


def printed(found: RecipeTable, width: int = 200) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as seen:
        console.print(terminal(found))
    return seen.get()


# Accuracies


@pytest.mark.parametrize("protocol", ["inductive", "transductive"])
@pytest.mark.parametrize("given", ["whole", "part"])
def test_every_accuracy_is_that_of_the_records(
    given: str, protocol: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(given)
    heads, *body = table(found, f"`{protocol}`")
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
    _, *body = table(compared(), "`transductive`")
    whose = [(name in BASELINES, row[0]) for name, *row in body]
    assert whose[:9] == [(False, "ours")] * 5 + [(False, "paper's")] * 4
    assert all(baseline for baseline, _ in whose[9:])


def test_marks_are_explained_where_they_are(whole: RecipeTable, part: RecipeTable) -> None:
    assert says(section(part, "`inductive`"), "open:")
    assert says(section(part, "`inductive`"), "square", "seeds", "finished", 2)
    assert not says(text(whole), "open:")
    assert not says(text(whole), "square")


def test_who_has_seen_labels_is_named(whole: RecipeTable) -> None:
    told = sentences(section(whole, "`transductive`"))
    assert says(told, "label-aware", "(hscl, scl)", "seen", "labels", "tested")
    assert says(told, "baselines")
    free = compared(methods=("ucl", "hucl"))
    assert not says(text(free), "label-aware")
    assert not says(text(free), "baselines")


# Runs


def test_the_page_counts_what_is_open(whole: RecipeTable, part: RecipeTable) -> None:
    n = len(whole.results.configs) * 2
    assert says(text(whole), n, "runs", "finished")
    n_open = n - len(part.results.records)
    assert says(text(part), n_open, n, "runs", "open")
    for found in (whole, part):
        assert f"```bash\n{COMMAND}\n```" in text(found)
    assert says(printed(whole).splitlines()[-1], "runs", "finished")
    assert says(printed(part).splitlines()[-1], n_open, "runs", "open")


def test_the_answers_are_whole_in_a_terminal_of_80_columns(part: RecipeTable) -> None:
    assert "…" not in printed(part, 80)
    assert "hscl − scl" in printed(part, 80)


def test_seeds_are_named_and_so_is_what_they_chose() -> None:
    fresh = text(compared(methods=("hscl",), seeds=(100, 103)))
    assert says(sentences(fresh), "seeds", "100, 103")
    old = text(compared(methods=("hscl",), seeds=(0, 100)))
    by_others = ("recipe", "inner", "other", "folds", "(recipe.md)")
    assert says(sentences(fresh), *by_others)
    assert not says(sentences(old), *by_others)
    assert says(sentences(old), "recipe", "inner", "(recipe.md)", "flattered")
    assert not says(fresh, "flattered")
    assert says(sentences(text(compared(methods=("hscl",), seeds=(102,)))), "seed", 102)


def test_nothing_finished_is_a_page_too() -> None:
    found = compared(finished=lambda r, d, s: False)
    origin = text(found).rpartition("\n## ")[2]
    assert not re.search(r"\d|^- ", origin, flags=re.M)
    assert {config for _, _, *row in table(found, "`inductive`")[1:] for config in row} == {"open"}
    for word in ("differences", "ablations"):
        assert not any(says(head, word) for head in re.findall(r"^## .*", text(found), flags=re.M))
    assert "#paired-differences" not in text(found)


@pytest.mark.parametrize("given", ["whole", "part"])
def test_nothing_is_no_number(given: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(given)
    for word in (r"(?i)\bnan\b", r"\binf\b", r"\bNone\b", r"-0\.0\b", r"\(,", r"\(\)"):
        assert not re.search(word, text(found, figure="curves.png"))


# The recipes


def test_the_two_recipes_stand_side_by_side(whole: RecipeTable) -> None:
    heads, *body = table(whole, "recipes")
    assert heads == ["setting", "paper's", "ours"]
    found = {name.replace(" ", "_"): (paper, ours) for name, paper, ours in body}
    assert set(found) == {*RECIPE, "hardness_scale"}  # everything differs from the paper's
    assert found["lr"] == ("0.01", "0.002")
    assert found["virtual_node"] == ("no", "yes")
    assert found["encodings"] == ("–", "degree + cycles")
    paper, ours = found["c_grid"]
    assert paper == "–"
    assert says(ours, 0.1, 1, 2)
    assert found["objective"] == ("jsd", "infonce")
    assert found["beta"] == ("1", "2")


def test_methods_of_the_papers_recipe_are_named_where_there_are_others(
    whole: RecipeTable,
) -> None:
    assert says(section(whole, "recipes"), "Table II", "ucl, hucl, scl, hscl")
    none = sentences(section(compared(methods=("dcl",)), "recipes"))
    assert says(none, "Table II")
    assert not any(says(none, "Table II", name) for name in ("dcl", *REPORTED))
    assert not says(section(compared(methods=("ucl", "hscl")), "recipes"), "Table II")


def test_a_set_s_own_recipe_has_a_column(recipes: Path) -> None:
    put(recipes, "ptc_mr", {**RECIPE, "dim": 48, "readout": "sum"})
    heads, *body = table(compared(methods=("hscl",)), "recipes")
    assert heads == ["setting", "paper's", "ours: MUTAG", "ours: PTC_MR"]
    found = {name: row for name, *row in body}
    assert found["dim"] == ["32", "16", "48"]
    assert found["readout"] == ["sum", "both", "sum"]
    assert found["layers"] == ["3", "2", "2"]


def test_a_setting_that_is_the_same_in_both_is_not_listed(recipes: Path) -> None:
    put(recipes, "all", {"lr": 0.5, "dim": 32, "hardness_scale": "batch-max"})
    _, *body = table(compared(methods=("hscl",)), "recipes")
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
        for protocol in ("inductive", "transductive"):
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


LAST = ("tests", "numbers")
"""Words of the headings of the last sections."""


def test_one_set_and_two_methods(recipes: Path) -> None:
    found = compared(shift, datasets=("PTC_MR",), methods=("hscl", "untrained"))
    assert table(found, "`transductive`")[0] == ["", "recipe", "PTC_MR"]
    ours, paper = ("hscl", False, False), ("untrained", True, False)
    assert [tuple(map(called, row[1].split(" − "))) for row in table(found, "differences")[1:]] == [
        (ours, ("untrained", False, False)), (("hscl", True, False), paper),
        (("hscl", True, True), paper), (ours, ("hscl", True, False)),
    ]  # fmt: skip
    assert says(text(found), "PTC_MR", 1, "comparison")
    assert re.search(r"\b1 comparison\b.*\b1\b\D*\bgain\b.*\bnone\b.*\bloss\b", text(found))


def test_what_stands_under_inductive_is_left_out_where_it_is_not_asked_for() -> None:
    found = compared(protocols=("transductive",))
    heads = re.findall(r"^## .*$", text(found), flags=re.M)
    for head, word in zip(heads, ("recipes", "`transductive`", "cost", *LAST), strict=True):
        assert says(head, word)


def test_sections_do_not_hang_below_a_protocol(whole: RecipeTable) -> None:
    first, *heads = re.findall(r"^#+ .*$", text(whole, figure="c.png"), flags=re.M)
    assert says(first, "results")
    words = ("recipes", "`inductive`", "`transductive`", "differences", "ablations", "fewer",
             "cost", *LAST)  # fmt: skip
    for head, word in zip(heads, words, strict=True):
        assert says(head, word)
    assert {head.partition(" ")[0] for head in heads} == {"##"}


def test_baselines_alone() -> None:
    found = compared(methods=("wl-oa", "majority"), protocols=("transductive",))
    assert [row[0] for row in table(found, "`inductive`")[1:]] == ["wl-oa", "majority"]
    assert says(sentences(text(found)), "`inductive`", "pair", "compared")


# Differences


def difference(one: Comparison | None, n: int) -> str:
    if one is None:
        return "open"
    said = f"{one.mean:+z.1f} [{one.low:+z.1f},{NBSP}{one.high:+z.1f}]"
    said += "" if one.seeds == n else f" ({one.seeds}/{n})"
    return f"**{said}**" if one.p < 0.05 else said


def called(name: str) -> tuple[str, bool, bool]:
    """The method in a row's name, whether it names the paper's recipe, and two views."""
    return name.partition(",")[0], says(name, "paper's"), says(name, "two views")


def named(row: Entry) -> tuple[str, bool, bool]:
    if row.part == "on":
        return "hscl", True, True
    of_paper = row.part == "paper" or (row.part, row.name) == ("baselines", "untrained")
    return row.name, of_paper, False


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
    heads, *body = table(found, "differences")
    assert heads[:-1] == ["question", "rows", *SETS]
    assert says(heads[-1], "sets")
    rows = [cells(row) for row in filled(body)]
    pairs = [pair for question in QUESTIONS for pair in found.questions[question]]
    for (_, name, *own), pair in zip(rows, pairs, strict=True):
        assert [*map(called, name.split(" − "))] == [named(pair.ours), named(pair.theirs)]
        assert own == [*(difference(pair.on.get(d), 2) for d in SETS), over_sets(pair)]
    assert len(dict.fromkeys(row[0] for row in rows)) == len(QUESTIONS)
    bold = ["**" in config for row in rows for config in row[2:]]
    assert True in bold
    assert False in bold
    assert any("(1/2)" in config for row in rows for config in row) == (given == "part")


@pytest.mark.parametrize("given", ["whole", "part"])
def test_every_ablation_is_compared_with_its_own_recipe(
    given: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(given)
    heads, *body = table(found, "Ablations")
    assert says(heads[0], "part")
    assert heads[1:-1] == ["", *SETS]
    assert says(heads[-1], "sets")
    rows = [cells(row) for row in filled(body)]
    beside = {"off": get(found, "ours", "hscl"), "on": get(found, "paper", "hscl")}
    pairs = found.ablations
    assert [(pair.ours, pair.theirs) for pair in pairs] == [
        (get(found, how, ablation), row) for ablation in ABLATIONS for how, row in beside.items()
    ]
    raw = [found.pair(pair.ours, pair.theirs) for pair in pairs]
    p = [one.p for pair in raw if pair is not None for one in pair.on.values()]
    assert [one.p for pair in pairs for one in pair.on.values()] == pytest.approx(step_down(p))
    assert rows == [
        [
            pair.ours.name,
            pair.ours.part,
            *(difference(pair.on.get(d), 2) for d in SETS),
            over_sets(pair),
        ]
        for pair in pairs
    ]
    configs = {(name, how): row[0] for name, how, *row in rows}
    assert configs["optimiser", "on"].startswith("**+3.")
    assert configs["encoder", "off"].startswith("**-3.")  # as shift has it
    assert "–:" not in text(found)


def test_a_ablation_without_a_config_is_no_open_one(recipes: Path) -> None:
    paper = {"hardness_scale": "batch-max", "lr": 0.002}
    put(recipes, "all", paper)
    put(recipes, "ptc_mr", {**paper, "kernel": "linear"})
    found = compared(methods=("hscl",))
    _, *body = table(found, "Ablations")
    nothing = {
        (name, how): [config == "–" for config in row] for name, how, *row, _ in filled(body)
    }
    assert nothing == {
        ("optimiser", "off"): [False, False], ("optimiser", "on"): [False, False],
        ("SVM", "off"): [True, False], ("SVM", "on"): [True, False],
    }  # fmt: skip
    assert says(sentences(section(found, "Ablations")), "–:", 0)
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


def test_ablations_without_a_row_are_not_explained(recipes: Path) -> None:
    put(recipes, "all", {"lr": 0.002})
    said = section(compared(methods=("hscl",)), "Ablations")
    assert "*optimiser*: lr," in said
    assert "*SVM*" not in said


# Files


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


def test_the_csv_has_a_line_a_row_and_set(part: RecipeTable, tmp_path: Path) -> None:
    _, path, *_ = write(part.results, tmp_path / "made.md", command=COMMAND, quick=False)
    found = {
        (row["part"], row["row"], row["protocol"], row["dataset"]): row for row in csv_rows(path)
    }
    n = 0
    for row in part.entries:
        name = f"{row.method} {row.name}" if row.part in ("fewer", "off", "on") else row.name
        for dataset in row.configs:
            line = found[row.part, name, row.protocol, dataset]
            by_seed = folds(part, row, dataset)
            n += 1
            assert line["seeds"] == str(len(by_seed))
            if not by_seed:
                assert set([*line.values()][5:]) == {""}
                continue
            x = np.array([*by_seed.values()]).ravel()
            share = 1 / 9 / row.configs[dataset].train_share  # test graphs to training graphs
            half = student.ppf(0.975, x.size - 1) * np.sqrt((1 / x.size + share) * x.var(ddof=1))
            means = [fmean(one) for one in by_seed.values()]
            numbers = [float(line[name]) for name in ("mean", "low", "high")]
            assert numbers == pytest.approx([x.mean(), x.mean() - half, x.mean() + half], abs=1e-4)
            if len(means) > 1:
                assert float(line["std_seeds"]) == pytest.approx(stdev(means), abs=1e-4)
            else:
                assert line["std_seeds"] == ""
            assert float(line["seconds_train"]) == sum(7.0 * seed - 690 for seed in by_seed)
            assert float(line["seconds_eval"]) == 0.25 * len(by_seed)
    assert len(found) == n == len(csv_rows(path))


def test_a_figure_is_there_only_with_curves(whole: RecipeTable, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    written = write(whole.results, path, command=COMMAND, quick=False)
    assert written == [path, tmp_path / "page.csv", tmp_path / "page-curves.png"]
    assert all(one.stat().st_size for one in written)
    assert "](page-curves.png)" in path.read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text(whole, figure="page-curves.png")
    less = made_up(finished=lambda r, d, s: r.part != "fewer")
    other = tmp_path / "less" / "page.md"
    assert write(less, other, command=COMMAND, quick=False) == [other, other.with_suffix(".csv")]
    assert sorted(one.name for one in other.parent.iterdir()) == ["page.csv", "page.md"]
    assert "curves.png" not in other.read_text(encoding="utf-8")


# A smoke run


def test_a_smoke_run_says_so_first() -> None:
    found = compared(quick=True, methods=("hscl", "supervised"))
    first, second, *_ = text(found).split("\n\n")
    assert first.startswith("# ")
    assert second.startswith(f"> {QUICK}")
    assert says(second, "smoke", 2, "seeds", 3, "epochs")
    assert QUICK not in text(compared(methods=("hscl",)))
    settings = [row[0] for row in table(found, "recipes")[1:]]
    assert "lr" in settings
    assert "epochs" not in settings


def test_a_smoke_run_never_replaces_results(tmp_path: Path) -> None:
    path, methods = tmp_path / "page.md", ("hscl",)
    quick = made_up(quick=True, methods=methods)
    write(quick, path, command=COMMAND, quick=True)
    write(quick, path, command=COMMAND, quick=True)  # one smoke run after the other
    write(made_up(methods=methods), path, command=COMMAND, quick=False)
    before = path.read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"page\.md\b.*\bsmoke\b.*--report"):
        write(quick, path, command=COMMAND, quick=True)
    assert path.read_text(encoding="utf-8") == before


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"\bwrite\b.*/file/page\.md"):
        write(made_up(methods=("hscl",)), tmp_path / "file" / "page.md", command="", quick=False)


# The command


def test_report_only_writes_the_page_of_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"datasets": ("MUTAG",), "methods": ("hscl", "untrained"), "seeds": (100, 101)}
    found = compared(shift, **asked, finished=lambda r, d, s: s == 100 or r.part == "ours")
    output = tmp_path / "results"
    for run, record in found.results.records.items():
        Store(output).put(run, record)
    before = sorted(output.iterdir())
    arguments = ["table", "--dataset", "mutag", "--method", "hscl,untrained",
                 "--seeds", "100,101", "--output", str(output), "--json", str(tmp_path / "r.json"),
                 "--report", str(tmp_path / "page.md"), "--report-only"]  # fmt: skip
    assert main(arguments) == 0
    assert sorted(output.iterdir()) == before
    written = (tmp_path / "page.md").read_text(encoding="utf-8")
    shown = written.split("```bash\n")[1].split("\n```")[0]
    assert shown.startswith("python -m benchmarks.recipe table --dataset mutag --method hscl")
    assert "--report-only" not in shown
    assert written == page(found, shown, figure="page-curves.png")
    said = capsys.readouterr().out
    assert all(
        part.replace(NBSP, " ") in said.replace(NBSP, " ")
        for _, *line in summary(found)[1]
        for part in line
    )
    assert "open" in said
    for name in ("r.json", "page.md", "page.csv", "page-curves.png"):
        assert str(tmp_path / name) in said
