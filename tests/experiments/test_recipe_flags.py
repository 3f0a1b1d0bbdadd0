"""``--recipe`` and ``--table recipe`` on the command line."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from gcl_hard.experiments.options import parse_bench
from gcl_hard.experiments.recipe import files

from gcl_hard import bench
from gcl_hard.errors import InputError
from gcl_hard.experiments.config import GraphConfig
from gcl_hard.experiments.recipe_table import entries
from gcl_hard.graphs.tudataset import MANIFEST
from gcl_hard.reports.page import QUICK
from tests.experiments.recipe.made_up_table import RECIPE, put
from tests.reports.made import cells_of

ROOT = Path(__file__).parents[2]
SHIPPED = files.FOLDERS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where recipes are: one for all sets."""
    path = tmp_path / "recipes"
    path.mkdir()
    monkeypatch.setattr(files, "FOLDERS", (path,))
    put(path, "all", RECIPE)
    return path


def cells(*arguments: str) -> list[Any]:
    return [*parse_bench(arguments).cells]


def best(*arguments: str) -> GraphConfig:
    (cell,) = cells("--recipe", "best", *arguments)
    assert isinstance(cell, GraphConfig)
    return cell


def refusal(*arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_bench(arguments)
    return str(caught.value)


# --recipe


def test_the_papers_recipe_is_the_default() -> None:
    assert cells() == cells("--recipe", "paper") == [GraphConfig()]
    assert cells("--recipe=paper", "--lr=0.5") == [GraphConfig(lr=0.5)]


def test_best_takes_what_is_not_stated() -> None:
    assert best() == GraphConfig(protocol="inductive", **RECIPE)
    assert best("--dataset", "PTC", "--method", "ucl") == GraphConfig(
        dataset="PTC", method="ucl", protocol="inductive", **RECIPE
    )


@pytest.mark.parametrize("flags", [["--lr", "0.01"], ["--lr=0.01"]])
def test_a_flag_wins_even_if_it_says_the_default(flags: list[str]) -> None:
    assert GraphConfig().lr == 0.01 != RECIPE["lr"]
    assert best(*flags) == replace(best(), lr=0.01)


@pytest.mark.parametrize(
    ("flag", "changed"),
    [
        ("--epochs=200", {"epochs": 200}),
        ("--beta=1", {"beta": 1.0}),
        ("--virtual-node=false", {"virtual_node": False}),
        ("--encodings=wl", {"encodings": ("wl",)}),
        ("--c-grid=5", {"c_grid": (5.0,)}),
        ("--c-grid=null", {"c_grid": None}),
        ("--readout=sum", {"readout": "sum"}),
        ("--folds=3", {"folds": 3}),
    ],
)
def test_any_flag_wins(flag: str, changed: dict[str, Any]) -> None:
    assert best(flag) == replace(best(), **changed)


def test_several_values_of_a_flag_win_too() -> None:
    found = cells("--recipe", "best", "--lr", "0.01,0.1", "--beta", "1,4")
    assert [(c.lr, c.beta) for c in found] == [(0.01, 1), (0.1, 1), (0.01, 4), (0.1, 4)]
    assert {replace(c, lr=0.1, beta=1.0) for c in found} == {best("--lr=0.1", "--beta=1")}


def test_a_config_wins_and_may_name_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("recipe: best\nlr: 0.01\nprotocol: paper\n", encoding="utf-8")
    assert cells("--config", str(path)) == [replace(best(), lr=0.01, protocol="paper")]
    assert cells("--config", str(path), "--protocol", "inductive") == [best("--lr=0.01")]
    assert cells("--config", str(path), "--recipe", "paper") == [GraphConfig()]


def test_protocol_is_inductive_unless_stated() -> None:
    assert best().protocol == "inductive"
    assert best("--protocol=paper") == replace(best(), protocol="paper")
    found = cells("--recipe=best", "--protocol=paper,inductive")
    assert [c.protocol for c in found] == ["paper", "inductive"]


def test_a_set_s_own_recipe_comes_before_the_one_for_all(folder: Path) -> None:
    put(folder, "ptc_mr", {"dim": 48})
    ptc, mutag = cells("--recipe=best", "--dataset=PTC,MUTAG")
    assert ptc == GraphConfig(dataset="PTC", protocol="inductive", dim=48)
    assert mutag == best()
    assert best("--dataset=ptc_mr").dim == 48


def test_floors_take_what_they_read() -> None:
    untrained, majority = cells("--recipe=best", "--method=untrained,majority")
    assert (untrained.dim, untrained.kernel, untrained.lr) == (16, "linear", 0.01)
    assert majority == GraphConfig(method="majority")


def test_a_quick_look_stays_quick() -> None:
    found = cells("--recipe=best", "--quick")
    assert [(c.epochs, c.beta, c.lr) for c in found] == [(3, 1.0, 0.002), (3, 10.0, 0.002)]
    assert best("--quick", "--epochs=9", "--beta=1").epochs == 9


def test_an_unknown_recipe_names_the_nearest() -> None:
    assert refusal("--recipe", "bets") == (
        "unknown recipe 'bets'; did you mean best? known: paper, best"
    )


@pytest.mark.parametrize("name", ["CIFAR10", "digits"])
def test_images_have_no_recipe(name: str) -> None:
    said = refusal("--recipe", "best", "--dataset", name)
    assert said == f"recipes are of graphs, and {name} holds images"
    assert cells("--recipe", "paper", "--dataset", name) == cells("--dataset", name)


@pytest.mark.parametrize("table", ["1", "2"])
def test_the_papers_tables_are_of_the_papers_recipe(table: str) -> None:
    said = refusal("--table", table, "--recipe", "best")
    assert said.startswith(f"--table {table} is of the paper's recipe: leave out recipe")
    assert cells("--table", table, "--recipe", "paper") == cells("--table", table)


def test_what_is_no_recipe_is_named(folder: Path) -> None:
    put(folder, "mutag", {"lrr": 1})
    said = refusal("--recipe", "best")
    assert "mutag.yaml" in said
    assert "did you mean lr" in said


# --table recipe


def test_the_table_is_its_rows_once_each() -> None:
    options = parse_bench(["--table", "recipe", "--dataset", "PTC", "--method", "hscl,untrained"])
    rows = entries(["PTC_MR"], ["hscl", "untrained"], ["inductive", "paper"], quick=False)
    assert [*options.cells] == [cell for row in rows for cell in row.cells.values()]
    assert {cell.dataset for cell in options.cells} == {"PTC_MR"}
    assert {cell.method for cell in options.cells} == {"hscl", "untrained"}
    assert tuple(options.seeds) == (100, 101, 102, 103, 104)
    assert (options.table, options.select, options.jobs) == ("recipe", False, None)


def test_the_whole_table_is_of_all_sets_methods_and_protocols() -> None:
    found = cells("--table", "recipe")
    assert len({cell.dataset for cell in found}) == 5
    assert {cell.protocol for cell in found} == {"inductive", "paper"}
    assert len({cell.method for cell in found}) == 14
    assert len(set(found)) == len(found)


def test_seeds_may_be_stated() -> None:
    assert tuple(parse_bench(["--table=recipe", "--seeds=7,8"]).seeds) == (7, 8)


def test_names_may_be_spelt_as_everywhere() -> None:
    asked = ["--table=recipe", "--dataset=mutag,MUTAG", "--method=HSCL,Untrained,hscl",
             "--protocol=inductive,inductive"]  # fmt: skip
    plain = ["--table=recipe", "--dataset=MUTAG", "--method=hscl,untrained", "--protocol=inductive"]
    assert cells(*asked) == cells(*plain)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--lr", "0.1"], "lr"),
        (["--lr=0.01"], "lr"),
        (["--batch-size=3", "--beta=1"], "batch-size, beta"),
        (["--recipe=paper"], "recipe"),
        (["--select=true"], "select"),
        (["--train-share=0.5", "--dataset=PTC"], "train-share"),
    ],
)
def test_settings_are_the_tables_own(flags: list[str], named: str) -> None:
    assert refusal("--table", "recipe", *flags) == (
        f"--table recipe has settings of its own: leave out {named}; it takes dataset, method, "
        f"protocol and seeds"
    )


def test_a_config_cannot_set_them_either(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("dim: 8\n", encoding="utf-8")
    assert "leave out dim;" in refusal("--table", "recipe", "--config", str(path))
    path.write_text("dataset: PTC\nmethod: [hscl]\ntable: recipe\n", encoding="utf-8")
    assert cells("--config", str(path)) == cells("--table=recipe", "--dataset=PTC", "--method=hscl")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--method=hslc"], "unknown method 'hslc'; did you mean hscl"),
        (["--method=wl", "--protocol=induct"], "unknown protocol 'induct'; did you mean inductive"),
        (["--dataset=CIFAR10"], "--table recipe is of graphs, and CIFAR10 of images"),
    ],
)
def test_names_that_are_none_are_refused(flags: list[str], said: str) -> None:
    assert said in refusal("--table", "recipe", *flags)


def test_an_unknown_table_names_those_there_are() -> None:
    assert refusal("--table", "recipes") == "--table: expected 1, 2 or recipe, got recipes"


def test_a_quick_table_has_few_epochs_and_seeds() -> None:
    options = parse_bench(["--table=recipe", "--quick", "--dataset=MUTAG"])
    trained = [cell for cell in options.cells if cell.encoders]
    assert {cell.epochs for cell in trained} == {3}
    assert tuple(options.seeds) == (0, 1)
    assert len(options.cells) == len(cells("--table=recipe", "--dataset=MUTAG"))


# Run


def run(tmp_path: Path, *arguments: str) -> tuple[int, Path]:
    output = tmp_path / "out"
    return bench.main(
        ["--table=recipe", "--output", str(output), "--jobs=1", "--threads=1", *arguments]
    ), output


def test_the_result_file_is_named_after_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    floors = ["--dataset=MUTAG", "--method=majority", "--seeds=100,101"]
    status, output = run(tmp_path, *floors)
    assert status == 0
    (path,) = output.glob("table-recipe-*.json")  # a part of the table: with a digest
    assert len(path.stem.removeprefix("table-recipe-")) == 6
    (cell,) = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert (cell["method"], cell["seeds"]) == ("majority", [100, 101])
    assert str(path) in "".join(capsys.readouterr().out.split())
    status, _ = run(tmp_path, "--quick", *floors[:2])
    assert status == 0
    assert len([*output.glob("table-recipe-quick-*.json")]) == 1
    assert run(tmp_path, "--report-only", *floors[2:])[0] == 0
    assert (output / "table-recipe.json").is_file()


def test_from_the_command_to_the_page(tmp_path: Path, folder: Path) -> None:
    put(folder, "all", {"contrast": "two-view", "dim": 4, "layers": 1})
    page = tmp_path / "page.md"
    arguments = ["--quick", "--dataset=MUTAG", "--method=hscl", "--protocol=paper", "--seeds=5,",
                 "--report", str(page)]  # fmt: skip
    status, output = run(tmp_path, *arguments)
    assert status == 0
    found = [json.loads(path.read_text(encoding="utf-8")) for path in output.glob("MUTAG*.json")]
    assert sorted(record["config"]["contrast"] for record in found) == ["local-global", "two-view"]
    text = page.read_text(encoding="utf-8")
    for record in found:
        mean = sum(record["fold_accuracies"]) / 10
        whose = "ours" if record["config"]["contrast"] == "two-view" else "paper's"
        assert ["hscl", whose, f"{mean:.1f}"] in cells_of(
            text.split("## Protocol")[1].split("\n## ")[0]
        )
    assert f"> {QUICK} 1 seed, 3 epochs" in text
    assert "All 2 runs" in text


# What comes with the package


def test_the_recipes_of_a_checkout_and_of_a_wheel_are_the_same_files() -> None:
    package, checkout = SHIPPED
    assert checkout == ROOT / "configs" / "graphs" / "best"
    assert (checkout / "all.yaml").is_file()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included[checkout.relative_to(ROOT).as_posix()] == package.relative_to(ROOT).as_posix()


def test_every_recipe_that_comes_with_the_package_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FOLDERS", SHIPPED)
    canonical = {name.casefold(): name for name in MANIFEST}
    for path in SHIPPED[1].glob("*.yaml"):
        name = canonical["mutag" if path.stem == files.ALL else path.stem]
        own = files.best(name)
        if path.stem != files.ALL:
            assert set(own) == set(yaml.safe_load(path.read_text(encoding="utf-8")))
        assert best("--dataset", name) == GraphConfig(dataset=name, protocol="inductive", **own)
