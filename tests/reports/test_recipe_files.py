"""The page of ``--table recipe`` as a file, and the CSV and the figure beside it."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from gcl_hard.experiments.recipe.learning_curves import learning_curves
from scipy.stats import t as student

from gcl_hard import bench
from gcl_hard.errors import InputError
from gcl_hard.experiments import records
from gcl_hard.experiments.recipe_table import SHARES
from gcl_hard.reports.page import QUICK
from gcl_hard.reports.recipe import (
    RecipeTable,
    summary,
)
from gcl_hard.reports.recipe_page import (
    page,
    write,
)
from gcl_hard.reports.text import (
    NBSP,
)
from tests.experiments.recipe.made_up_table import SETS, compared, made_up
from tests.reports.recipe_pages import (
    COMMAND,
    folder,
    folds,
    get,
    part,
    shift,
    table,
    text,
    whole,
)

__all__ = ["folder", "part", "whole"]


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
    assert written == [path, tmp_path / "page.csv", tmp_path / "page-curves.svg"]
    assert all(one.stat().st_size for one in written)
    assert "](page-curves.svg)" in path.read_text(encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text(whole, figure="page-curves.svg")
    less = made_up(finished=lambda r, d, s: r.part != "fewer")
    other = tmp_path / "less" / "page.md"
    assert write(less, other, command=COMMAND, quick=False) == [other, other.with_suffix(".csv")]
    assert sorted(one.name for one in other.parent.iterdir()) == ["page.csv", "page.md"]
    assert "Fewer graphs" not in other.read_text(encoding="utf-8")


def test_curves_are_of_the_rows_with_fewer_graphs(part: RecipeTable) -> None:
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
            rows.append(get(part, "baselines" if method == "wl-oa" else "ours", method))
            x = [np.array([*folds(part, row, dataset).values()]).ravel() for row in rows]
            assert [*line.get_ydata()] == pytest.approx([one.mean() for one in x])
            assert [*line.get_xdata()] == pytest.approx(sizes, rel=0.07)
            ends = [segment[:, 1] for segment in bars.get_segments()]
            for row, one, (low, high) in zip(rows, x, ends, strict=True):
                to_train = 1 / 9 / row.configs[dataset].train_share
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


# A smoke run


def test_a_smoke_run_says_so_first() -> None:
    found = compared(quick=True, methods=("hscl", "supervised"))
    first, second, *_ = text(found).split("\n\n")
    assert first == "# Results"
    assert second.startswith(f"> {QUICK} 2 seeds, 3 epochs")
    assert QUICK not in text(compared(methods=("hscl",)))
    settings = [row[0] for row in table(found, "The two recipes")[1:]]
    assert "lr" in settings
    assert "epochs" not in settings


def test_a_smoke_run_never_replaces_results(tmp_path: Path) -> None:
    path, methods = tmp_path / "page.md", ("hscl",)
    quick = made_up(quick=True, methods=methods)
    write(quick, path, command=COMMAND, quick=True)
    write(quick, path, command=COMMAND, quick=True)  # one smoke run after the other
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
    output = tmp_path / "configs"
    output.mkdir()
    for run, record in found.results.records.items():
        records.save(record, output / run.key)
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
    said = capsys.readouterr().out
    assert all(
        part.replace(NBSP, " ") in said.replace(NBSP, " ")
        for _, *line in summary(found)[1]
        for part in line
    )
    assert "open" in said
    for name in ("r.json", "page.md", "page.csv", "page-curves.svg"):
        assert str(tmp_path / name) in said
