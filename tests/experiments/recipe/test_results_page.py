"""The page of ``--table recipe``: every number on it is one of the results."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from gcl_hard import bench
from gcl_hard.errors import InputError
from gcl_hard.experiments import records
from gcl_hard.experiments.jobs import Job
from gcl_hard.experiments.recipe import files
from gcl_hard.experiments.recipe.compared import QUESTIONS, Compared, Difference
from gcl_hard.experiments.recipe.learning_curves import learning_curves
from gcl_hard.experiments.recipe.results_page import in_short, page, write
from gcl_hard.experiments.recipe.table import FIRST, LEVERS, SHARES, Entry
from gcl_hard.experiments.results import Results
from tests.experiments.recipe.made_up_table import (
    METHODS,
    RECIPE,
    SEEDS,
    SETS,
    compared,
    made_up,
    of,
    put,
)

COMMAND = "python -m gcl_hard.bench --table recipe --report docs/results.md"
NBSP = "\u00a0"
FLOORS = METHODS[5:]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where recipes are: one for all sets."""
    monkeypatch.setattr(files, "FOLDERS", (tmp_path,))
    put(tmp_path, "all", RECIPE)
    return tmp_path


def partly(row: Entry, dataset: str, seed: int) -> bool:
    """scl has one seed of MUTAG and dcl none; half of the levers are open on PTC_MR."""
    if dataset == "MUTAG":
        return (row.method, seed) != ("scl", 101) and row.method != "dcl"
    return row.part not in ("off", "on") or row.name in ("SVM", "encoder")


def shift(row: Entry, dataset: str) -> float:
    """Everything differs somewhere, significantly or not."""
    points = 4.0 * of(row, "ours", *FIRST) - 0.5 * of(row, "ours", "hscl")
    points += 0.4 * of(row, "ours", "hucl") + 6.0 * (dataset == "PTC_MR")
    return points + 3.0 * (row.part == "on" and row.name == "optimiser")


@pytest.fixture
def whole() -> Compared:
    return compared(shift)


@pytest.fixture
def part() -> Compared:
    return compared(shift, finished=partly)


def text(found: Compared, *, figure: str | None = None) -> str:
    return page(found, COMMAND, figure=figure)


def section(found: Compared, name: str) -> str:
    parts = re.split(r"^## ", text(found, figure="curves.svg"), flags=re.M)
    (one,) = (p for p in parts if p.startswith(name))
    return one


def table(found: Compared, name: str) -> list[list[str]]:
    """Cells of the one table of a section, without its rule."""
    lines = [line for line in section(found, name).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len({len(row) for row in cells}) == 1
    assert all(set(cell) <= {"-", ":"} for cell in cells[1])
    return cells[:1] + cells[2:]


def filled(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows whose empty first cells are those above them."""
    found: list[list[str]] = []
    for row in rows:
        found.append([row[0] or found[-1][0], *row[1:]])
    return found


def folds(found: Compared, row: Entry, dataset: str) -> dict[int, list[float]]:
    """Of finished seeds, by looking at the records."""
    jobs = {seed: Job(row.cells[dataset], seed) for seed in found.results.seeds}
    known = found.results.records
    return {s: known[job].fold_accuracies for s, job in jobs.items() if job in known}


def shown(found: Compared, row: Entry, dataset: str) -> str:
    """An accuracy as it must stand there."""
    means = [fmean(one) for one in folds(found, row, dataset).values()]
    if not means:
        return "open"
    if len(means) == 1:
        return f"{means[0]:.1f} [1]"
    return f"{fmean(means):.1f}{NBSP}±{NBSP}{stdev(means):.1f}"


def get(found: Compared, part: Any, name: str, protocol: str = "inductive") -> Entry:
    row = found.row(part, name, protocol)
    assert row is not None
    return row


# Accuracies


@pytest.mark.parametrize("protocol", ["inductive", "paper"])
@pytest.mark.parametrize("given", ["whole", "part"])
def test_every_accuracy_is_that_of_the_records(
    given: str, protocol: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(given)
    heads, *body = table(found, f"Protocol `{protocol}`")
    assert heads == ["", "recipe", *SETS]
    rows = {(name, whose): cells for name, whose, *cells in body}
    expected = {}
    for method in METHODS[:5]:
        expected[method, "ours"] = get(found, "ours", method, protocol)
        expected[method, "paper's"] = get(found, "paper", method, protocol)
    for floor in FLOORS:
        whose = "paper's" if floor in ("untrained", "supervised") else ""
        expected[floor, whose] = get(found, "floors", floor)
        if whose:
            expected[floor, "ours"] = get(found, "ours", floor)
    assert rows == {key: [shown(found, row, d) for d in SETS] for key, row in expected.items()}


def test_ours_stands_above_the_papers_and_floors_below() -> None:
    _, *body = table(compared(), "Protocol `paper`")
    whose = [(name in FLOORS, row[0]) for name, *row in body]
    assert whose[:10] == [(False, "ours")] * 5 + [(False, "paper's")] * 5
    assert all(floor for floor, _ in whose[10:])


def test_marks_are_explained_where_they_are(whole: Compared, part: Compared) -> None:
    told = "open: no seed is finished. In square brackets: seeds that are finished, of 2."
    assert told in section(part, "Protocol `inductive`")
    assert "open:" not in text(whole)
    assert "In square brackets" not in text(whole)


def test_who_has_seen_labels_is_named(whole: Compared) -> None:
    assert "The label-aware encoders (hscl, scl) have seen the labels of the graphs they are" in (
        section(whole, "Protocol `paper`")
    )
    free = compared(methods=("ucl", "hucl"))
    assert "label-aware encoders" not in text(free)
    assert "Floors" not in text(free)


# Runs


def test_the_page_counts_what_is_open(whole: Compared, part: Compared) -> None:
    n = len(whole.results.cells) * 2
    assert f"All {n} runs (a seed of a setting each) are finished, by this command:" in text(whole)
    n_open = n - len(part.results.records)
    assert f"**{n_open} of {n} runs** (a seed of a setting each) **are open**, so " in text(part)
    for found in (whole, part):
        assert f"```bash\n{COMMAND}\n```" in text(found)
    assert in_short(whole).splitlines()[-1] == "all runs are finished"
    assert in_short(part).splitlines()[-1] == f"{n_open} runs open"
    assert in_short(part).count("\n") == 3
    assert "*" not in in_short(part)


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
    assert {cell for _, _, *row in table(found, "Protocol `inductive`")[1:] for cell in row} == {
        "open"
    }
    for name in ("Paired", "Each lever"):
        assert f"## {name}" not in text(found)
    assert "#paired-differences" not in text(found)


@pytest.mark.parametrize("given", ["whole", "part"])
def test_nothing_is_no_number(given: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(given)
    for word in (r"(?i)\bnan\b", r"\binf\b", r"\bNone\b", r"-0\.0\b", r"\(,", r"\(\)"):
        assert not re.search(word, text(found, figure="curves.svg"))


# The recipes


def test_the_two_recipes_stand_side_by_side(whole: Compared) -> None:
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


# Differences


def difference(one: Difference | None, n: int) -> str:
    if one is None:
        return "open"
    said = f"{one.mean:+z.1f} [{one.low:+z.1f},{NBSP}{one.high:+z.1f}]"
    said += "" if one.seeds == n else f" ({one.seeds} of {n} seeds)"
    return f"**{said}**" if one.p < 0.05 else said


@pytest.mark.parametrize("given", ["whole", "part"])
def test_every_difference_is_there_and_bold_only_if_significant(
    given: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(given)
    heads, *body = table(found, "Paired differences")
    assert heads == ["question", "rows", *SETS]
    rows = filled(body)
    expected = []
    for question in QUESTIONS:
        for pair in found.answers[question]:
            end = ", paper's" if pair.theirs.part == "paper" else ""
            name = f"{pair.ours.name} − {pair.theirs.name}{end}"
            expected.append([name, *(difference(pair.on.get(d), 2) for d in SETS)])
    assert [row[1:] for row in rows] == expected
    assert len(dict.fromkeys(row[0] for row in rows)) == len(QUESTIONS)
    bold = ["**" in cell for row in rows for cell in row[2:]]
    assert True in bold
    assert False in bold
    assert any("(1 of 2 seeds)" in cell for row in rows for cell in row) == (given == "part")


@pytest.mark.parametrize("given", ["whole", "part"])
def test_every_lever_is_compared_with_its_own_recipe(
    given: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(given)
    heads, *body = table(found, "Each lever off")
    assert heads == ["lever", "", *SETS]
    beside = {"off": get(found, "ours", "hscl"), "on": get(found, "paper", "hscl")}
    pairs = []
    for lever in LEVERS:
        for how, row in beside.items():
            pair = found.pair(get(found, how, lever), row)
            assert pair is not None
            pairs.append(pair)
    pairs = found.corrected(pairs)
    assert filled(body) == [
        [pair.ours.name, pair.ours.part, *(difference(pair.on.get(d), 2) for d in SETS)]
        for pair in pairs
    ]
    cells = {(name, how): row[0] for name, how, *row in filled(body)}
    assert cells["optimiser", "on"].startswith("**+3.")
    assert cells["encoder", "off"].startswith("**-3.")  # as shift has it
    assert "–: the lever changes nothing" not in text(found)


def test_a_lever_without_a_cell_is_no_open_one(folder: Path) -> None:
    put(folder, "all", {"lr": 0.002})
    put(folder, "ptc_mr", {"lr": 0.002, "kernel": "linear"})
    found = compared(methods=("hscl",))
    _, *body = table(found, "Each lever off")
    nothing = {(name, how): [cell == "–" for cell in row] for name, how, *row in filled(body)}
    assert nothing == {
        ("optimiser", "off"): [False, False], ("optimiser", "on"): [False, False],
        ("SVM", "off"): [True, False], ("SVM", "on"): [True, False],
    }  # fmt: skip
    assert "–: the lever changes nothing there." in section(found, "Each lever off")


def test_levers_are_explained_by_their_settings(whole: Compared) -> None:
    said = section(whole, "Each lever off")
    for lever, names in LEVERS.items():
        assert f"*{lever}*: {', '.join(names).replace('_', ' ')}" in said


# Published figures, cost


@pytest.mark.parametrize("given", ["whole", "part"])
def test_published_figures_stand_above_the_highest_of_ours(
    given: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(given)
    heads, *body = table(found, "Beside")
    rows = {name: dict(zip(heads[1:], row, strict=True)) for name, *row in body}
    assert rows["best published"] == {"MUTAG": "91.7", "PTC_MR": "66.3 WWL kernel"}
    for dataset in SETS:
        means = {}
        for method in FIRST:
            seeds = folds(found, get(found, "ours", method), dataset)
            means[method] = fmean(map(fmean, seeds.values())), len(seeds)
        name = max(means, key=lambda m: means[m][0])
        so_far = "" if means[name][1] == 2 else " [1]"
        assert rows["ours, highest"][dataset] == f"{means[name][0]:.1f} {name}{so_far}"
        kernel = folds(found, get(found, "floors", "wl-oa"), dataset)
        assert rows["wl-oa"][dataset] == f"{fmean(map(fmean, kernel.values())):.1f}"
        both = [
            fmean(map(fmean, folds(found, get(found, p, "supervised"), dataset).values()))
            for p in ("ours", "floors")
        ]
        assert rows["supervised, higher recipe"][dataset] == f"{max(both):.1f}"


def test_sets_without_a_published_figure_have_no_such_section() -> None:
    assert "## Beside" not in text(compared(methods=("hscl",), datasets=("PROTEINS",)))
    _, first, *_ = table(compared(methods=("hscl",), datasets=("PROTEINS", "MUTAG")), "Beside")
    assert first == ["best published", "–", "91.7"]


def test_seconds_are_means_over_seeds_and_trained_methods(part: Compared) -> None:
    heads, *body = table(part, "Cost")
    assert heads == ["", "recipe", "protocol", *SETS]
    rows = {tuple(row[:3]): row[3:] for row in body}
    assert len(rows) == len(body) == 4 + 2 + len(FLOORS)
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


def test_less_than_a_second_is_no_zero(whole: Compared) -> None:
    short = {
        job: replace(record, seconds_train=0.0) for job, record in whole.results.records.items()
    }
    found = Compared(Results(whole.results.cells, SEEDS, short), quick=False)
    assert {cell for row in table(found, "Cost")[1:] for cell in row[3:]} == {"< 1"}


# Parts of the table


def test_one_set_and_two_methods(folder: Path) -> None:
    found = compared(shift, datasets=("PTC_MR",), methods=("hscl", "untrained"))
    assert table(found, "Protocol `paper`")[0] == ["", "recipe", "PTC_MR"]
    assert [row[1] for row in table(found, "Paired differences")[1:]] == [
        "hscl − untrained", "hscl − hscl, paper's"
    ]  # fmt: skip
    assert "on PTC_MR?** Yes" in text(found)


def test_what_stands_under_inductive_is_left_out_where_it_is_not_asked_for() -> None:
    found = compared(protocols=("paper",))
    assert re.findall(r"^## (.*)$", text(found), flags=re.M) == [
        "The two recipes", "Protocol `paper`", "Cost", "How the tests work",
        "Where the numbers come from",
    ]  # fmt: skip


def test_sections_do_not_hang_below_a_protocol(whole: Compared) -> None:
    assert re.findall(r"^#+ .*$", text(whole, figure="c.svg"), flags=re.M) == [
        "# Results", "## The two recipes", "## Protocol `inductive`", "## Protocol `paper`",
        "## Paired differences", "## Each lever off, each lever on", "## Fewer graphs",
        "## Beside the best published figures", "## Cost", "## How the tests work",
        "## Where the numbers come from",
    ]  # fmt: skip


def test_floors_alone() -> None:
    found = compared(methods=("wl-oa", "majority"), protocols=("paper",))
    assert [row[0] for row in table(found, "Protocol `inductive`")[1:]] == ["wl-oa", "majority"]
    assert "Nothing that is finished here says." in text(found)


# Files


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


def test_the_csv_has_a_line_a_row_and_set(part: Compared, tmp_path: Path) -> None:
    _, path, *_ = write(part.results, tmp_path / "made.md", command=COMMAND, quick=False)
    found = {
        (row["part"], row["row"], row["protocol"], row["dataset"]): row for row in csv_rows(path)
    }
    n = 0
    for row in part.entries:
        name = f"{row.method} {row.name}" if row.part in ("fewer", "off", "on") else row.name
        for dataset in row.cells:
            line = found[row.part, name, row.protocol, dataset]
            by_seed = folds(part, row, dataset)
            n += 1
            assert line["seeds"] == str(len(by_seed))
            if not by_seed:
                assert set([*line.values()][5:]) == {""}
                continue
            x = np.array([*by_seed.values()]).ravel()
            share = 1 / 9 / row.cells[dataset].train_share  # test graphs to training graphs
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


def test_a_figure_is_there_only_with_curves(whole: Compared, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    written = write(whole.results, path, command=COMMAND, quick=False)
    assert written == [path, tmp_path / "page.csv", tmp_path / "page-curves.svg"]
    assert all(one.stat().st_size for one in written)
    assert "](page-curves.svg)" in path.read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text(whole, figure="page-curves.svg")
    less = made_up(finished=lambda r, d, s: r.part != "fewer")
    other = tmp_path / "less" / "page.md"
    assert write(less, other, command=COMMAND, quick=False) == [other, other.with_suffix(".csv")]
    assert sorted(one.name for one in other.parent.iterdir()) == ["page.csv", "page.md"]
    assert "Fewer graphs" not in other.read_text(encoding="utf-8")


def test_curves_are_of_the_rows_with_fewer_graphs(part: Compared) -> None:
    figure = learning_curves(part)
    assert figure is not None
    assert [panel.get_title() for panel in figure.axes] == [*SETS]
    names = [one.get_text() for one in figure.legends[0].get_texts()]
    assert names == ["wl-oa", "supervised", "untrained", "hucl", "hscl"]
    for panel, n_graphs in zip(figure.axes, (200, 400), strict=True):
        dataset = panel.get_title()
        sizes = [0.9 * n_graphs * share for share in (*SHARES, 1)]
        assert [*panel.get_xticks()] == pytest.approx(sizes)
        assert len(panel.containers) == len(names)
        for (line, _, (bars,)), method in zip(panel.containers, names, strict=True):
            rows = [r for r in part.rows("fewer") if r.method == method]
            rows.append(get(part, "floors" if method == "wl-oa" else "ours", method))
            x = [np.array([*folds(part, row, dataset).values()]).ravel() for row in rows]
            assert [*line.get_ydata()] == pytest.approx([one.mean() for one in x])
            assert [*line.get_xdata()] == pytest.approx(sizes, rel=0.07)
            ends = [segment[:, 1] for segment in bars.get_segments()]
            for row, one, (low, high) in zip(rows, x, ends, strict=True):
                to_train = 1 / 9 / row.cells[dataset].train_share
                error = np.sqrt((1 / one.size + to_train) * one.var(ddof=1))
                half = student.ppf(0.975, one.size - 1) * error
                assert (low, high) == pytest.approx((one.mean() - half, one.mean() + half))


def test_a_curve_has_two_points_at_least() -> None:
    one = compared(finished=lambda r, d, s: (r.part, r.name) == ("fewer", "0.1"))
    assert learning_curves(one) is None
    two = compared(finished=lambda r, d, s: d == "MUTAG" and r.method == "hscl" and r.part in (
        "fewer", "ours"))  # fmt: skip
    figure = learning_curves(two)
    assert figure is not None
    assert [panel.get_title() for panel in figure.axes] == ["MUTAG"]
    assert len(figure.axes[0].containers) == 1


# A quick look


def test_a_quick_look_says_so_first() -> None:
    found = compared(quick=True, methods=("hscl", "supervised"))
    first, second, *_ = text(found).split("\n\n")
    assert first == "# Results"
    assert second == "> **A quick look: 2 seeds, 3 epochs; not results.**"
    assert "quick look" not in text(compared(methods=("hscl",)))
    settings = [row[0] for row in table(found, "The two recipes")[1:]]
    assert "lr" in settings
    assert "epochs" not in settings


def test_a_quick_look_never_stands_in_the_place_of_results(tmp_path: Path) -> None:
    path, methods = tmp_path / "page.md", ("hscl",)
    quick = made_up(quick=True, methods=methods)
    write(quick, path, command=COMMAND, quick=True)
    write(quick, path, command=COMMAND, quick=True)  # one quick look after the other
    write(made_up(methods=methods), path, command=COMMAND, quick=False)
    before = path.read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"page\.md holds results: .* another --report"):
        write(quick, path, command=COMMAND, quick=True)
    assert path.read_text(encoding="utf-8") == before


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match=r"cannot write .*file"):
        write(made_up(methods=("hscl",)), tmp_path / "file" / "page.md", command="", quick=False)


# The command


def test_report_only_writes_the_page_of_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"datasets": ("MUTAG",), "methods": ("hscl", "untrained"), "seeds": (100, 101)}
    found = compared(shift, **asked, finished=lambda r, d, s: s == 100 or r.part == "ours")
    output = tmp_path / "cells"
    output.mkdir()
    for job, record in found.results.records.items():
        records.save(record, output / job.file_name)
    before = sorted(output.iterdir())
    arguments = ["--table", "recipe", "--dataset", "mutag", "--method", "hscl,untrained",
                 "--seeds", "100,101", "--output", str(output), "--json", str(tmp_path / "r.json"),
                 "--report", str(tmp_path / "page.md"), "--report-only"]  # fmt: skip
    assert bench.main(arguments) == 0
    assert sorted(output.iterdir()) == before
    written = (tmp_path / "page.md").read_text(encoding="utf-8")
    shown = written.split("```bash\n")[1].split("\n```")[0]
    assert shown.startswith("python -m gcl_hard.bench --table recipe --dataset mutag --method hscl")
    assert "--report-only" not in shown
    assert written == page(found, shown, figure="page-curves.svg")
    said = " ".join(capsys.readouterr().out.split())
    assert " ".join(in_short(found).split()) in said
    for name in ("r.json", "page.md", "page.csv", "page-curves.svg"):
        assert str(tmp_path / name) in said
