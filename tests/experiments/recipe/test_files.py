"""Recipes as configs: written, read back bit for bit, and found by data set."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from gcl_hard.errors import InputError
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.recipe import files
from gcl_hard.experiments.recipe.search import Chosen
from tests.experiments.recipe.made_up import START, chosen

COMMAND = "python -m gcl_hard.bench --search configs/search/recipe.yaml --best DIR"
ODD: dict[str, Any] = {
    "contrast": "two-view", "objective": "infonce", "temperature": 0.1 + 0.2, "lr": 1e-05,
    "weight_decay": 1 / 3, "augmentations": ("drop-nodes", "perturb-edges"), "strength": 0.4,
    "c_grid": (1e-3, 1 / 7, 1e22), "standardise": False, "epochs": 7, "class_prior": None,
}  # fmt: skip


def one_own(**changed: Any) -> Chosen:
    """More epochs for all sets, and an own width on MUTAG alone."""

    def effect(cell: GraphCell) -> tuple[float, float]:
        sign = 1 if cell.dataset == "MUTAG" else -1
        return 4.0 * (cell.epochs == 60) + sign * 2.0 * (cell.dim == 8), 0.0

    found, _ = chosen({"length": [{"epochs": 60}], "width": [{"dim": 8}]}, effect, **changed)
    assert (found.best, list(found.own)) == ({"epochs": 60}, ["MUTAG"])
    return found


def none_own() -> Chosen:
    return chosen({"rate": [{"lr": 0.1}]}, lambda _: (0.0, 0.0))[0]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Where recipes are looked for."""
    both = tmp_path / "package", tmp_path / "checkout"
    for folder in both:
        folder.mkdir()
    monkeypatch.setattr(files, "FOLDERS", both)
    return both


# Written


def test_a_config_a_recipe_and_no_others(tmp_path: Path) -> None:
    found = one_own()
    written = files.write(found, tmp_path, command=COMMAND)
    assert written == [tmp_path / "all.yaml", tmp_path / "mutag.yaml"]
    assert sorted(tmp_path.iterdir()) == written
    assert yaml.safe_load(written[0].read_text(encoding="utf-8")) == {**START, "epochs": 60}
    own = {**START, "epochs": 60, "dim": 8}
    assert yaml.safe_load(written[1].read_text(encoding="utf-8")) == own


def test_settings_stand_in_the_order_of_a_cell(tmp_path: Path) -> None:
    start = dict(reversed([*ODD.items()])) | {"epochs": 30}
    (path, _) = files.write(one_own(start=start), tmp_path, command=COMMAND)
    stated = [*yaml.safe_load(path.read_text(encoding="utf-8"))]
    assert stated == [name for name in vars(GraphCell()) if name in ODD]


def test_every_number_comes_back_bit_for_bit(folders: tuple[Path, Path]) -> None:
    found = one_own(start={**ODD, "epochs": 30})
    files.write(found, folders[1], command=COMMAND)
    for dataset, settings in (("ENZYMES", found.best), ("MUTAG", found.own["MUTAG"].settings)):
        read = files.best(dataset)
        asked = {**found.search.start, **settings}
        assert read == asked
        assert {k: type(v) for k, v in read.items()} == {k: type(v) for k, v in asked.items()}
        cell = GraphCell(dataset=dataset, protocol="inductive", folds=found.search.folds, **read)
        assert cell == found.search.cell(dataset, "hscl", settings)


def test_its_head_says_whose_it_is_how_it_was_made_and_how_it_is_used(tmp_path: Path) -> None:
    for path, name, dataset in zip(
        files.write(one_own(), tmp_path, command=COMMAND),
        ("all sets", "MUTAG"), ("NAME", "MUTAG"), strict=True,
    ):  # fmt: skip
        first, made, used, *_ = path.read_text(encoding="utf-8").splitlines()
        sets = ", ".join(one_own().search.datasets)
        assert first == f"# Our recipe for {name}, chosen by inner scores on {sets}, seeds 4, 9:"
        assert made == f"#   {COMMAND}"
        arguments = shlex.split(used.removeprefix("#   python -m gcl_hard.bench"))
        assert arguments == ["--recipe", "best", "--dataset", dataset, "--method", "hscl"]


# An older search


def test_recipes_of_an_older_search_go_and_nothing_else(tmp_path: Path) -> None:
    files.write(one_own(), tmp_path, command=COMMAND)
    (tmp_path / "ptc_mr.yaml").write_text("dataset: PTC_MR\n", encoding="utf-8")
    (tmp_path / "notes.md").write_text("# Our recipe for tea\n", encoding="utf-8")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    assert files.write(none_own(), tmp_path, command=COMMAND) == [tmp_path / "all.yaml"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"all.yaml", "ptc_mr.yaml", "notes.md", "bytes.yaml"}
    assert yaml.safe_load((tmp_path / "all.yaml").read_text(encoding="utf-8")) == START


@pytest.mark.parametrize("name", ["all", "mutag"])
def test_the_config_of_another_kind_is_never_written_over(tmp_path: Path, name: str) -> None:
    files.write(one_own(), tmp_path, command=COMMAND)
    files.check_folder(tmp_path, ["MUTAG", "ENZYMES"])
    (tmp_path / f"{name}.yaml").write_text("# The paper's\nlr: 0.01\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"{name}\.yaml is no recipe of a search: .*--best"):
        files.check_folder(tmp_path, ["MUTAG", "ENZYMES"])


def test_configs_of_sets_that_are_not_searched_are_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "ptc_mr.yaml").write_text("lr: 0.01\n", encoding="utf-8")
    files.check_folder(tmp_path, ["MUTAG", "ENZYMES"])


# Found


def put(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def test_a_set_s_own_recipe_stands_before_the_one_for_all(folders: tuple[Path, Path]) -> None:
    package, checkout = folders
    put(checkout, "all", "lr: 1.0")
    assert files.best("MUTAG") == files.best("PTC_MR") == {"lr": 1.0}
    put(checkout, "mutag", "lr: 2.0")
    assert (files.best("MUTAG"), files.best("PTC_MR")) == ({"lr": 2.0}, {"lr": 1.0})
    put(package, "all", "lr: 3.0")
    assert (files.best("MUTAG"), files.best("PTC_MR")) == ({"lr": 2.0}, {"lr": 3.0})


def test_no_recipe_says_where_it_was_looked_for(folders: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match=r"no recipe in .*package or .*checkout"):
        files.best("MUTAG")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lr: [", "is no YAML"),
        ("", "expected settings, got None"),
        ("lrr: 1", "unknown setting 'lrr'; did you mean lr"),
        ("protocol: paper", "protocol is no part of a recipe"),
        ("lr: fast", "lr must be a finite number, got fast"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(
    folders: tuple[Path, Path], text: str, said: str
) -> None:
    put(folders[0], "mutag", text)
    with pytest.raises(InputError, match=r"mutag\.yaml") as caught:
        files.best("MUTAG")
    assert said in str(caught.value)
