"""``--search`` at the door: it trains once, reads what is finished, writes page and configs."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from gcl_hard.experiments.options import parse_bench
from gcl_hard.experiments.recipe.run import search
from rich.console import Console

from gcl_hard.bench import main
from gcl_hard.errors import GclHardError, InputError
from gcl_hard.experiments import graph_seeds
from gcl_hard.experiments import run as running
from gcl_hard.graphs import tudataset

TINY: dict[str, Any] = {
    "dataset": "MUTAG", "method": ["untrained", "hscl"], "seeds": [0, 5], "folds": 2,
    "start": {
        "contrast": "two-view", "epochs": 1, "layers": 1, "dim": 4, "kernel": "linear",
        "c_grid": [0.1, 1], "lr": 0.001,
    },
    "levers": {"rate": [{"lr": 0.01}], "standardisation": [{"standardise": False}]},
}  # fmt: skip


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished search: ``search.yaml``, ``cells``, ``recipe.md`` and ``best``."""
    folder = tmp_path_factory.mktemp("search")
    (folder / "search.yaml").write_text(yaml.safe_dump(TINY), encoding="utf-8")
    assert main(command(folder)) == 0
    return folder


def command(folder: Path, *more: str) -> list[str]:
    return [
        "--search", str(folder / "search.yaml"), "--output", str(folder / "cells"),
        "--report", str(folder / "recipe.md"), "--best", str(folder / "best"),
        "--device", "cpu", "--threads", "1", *more,
    ]  # fmt: skip


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def _no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("trained or scored again")

    monkeypatch.setattr(graph_seeds, "train_seeds", refuse)
    monkeypatch.setattr(graph_seeds, "run_floor", refuse)


@pytest.fixture
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("read a data set")

    monkeypatch.setattr(tudataset, "load", refuse)
    monkeypatch.setattr(tudataset, "locate", refuse)


def test_every_record_is_of_a_hold_out_of_the_file_s_seeds(searched: Path) -> None:
    names = [name for name in stored(searched / "cells") if name.endswith(".json")]
    assert all(re.search(r"_inner_seed[05]\.json$", name) for name in names)
    contents = [json.loads(stored(searched / "cells")[name]) for name in names]
    assert all(content["inner"] and content["config"]["folds"] == 2 for content in contents)
    settings = [(c["config"]["method"], c["config"]["lr"], c["config"]["standardise"], c["seed"])
                for c in contents]  # fmt: skip
    untrained = {("untrained", 0.01, standardise, seed)
                 for standardise in (True, False) for seed in (0, 5)}  # fmt: skip
    single = {("hscl", lr, standardise, seed)
              for lr, standardise in ((0.001, True), (0.01, True), (0.001, False))
              for seed in (0, 5)}  # fmt: skip
    joined = {("hscl", 0.01, False, 0), ("hscl", 0.01, False, 5)}
    assert set(settings) - joined == untrained | single
    assert len(set(settings)) == len(settings)


def test_page_and_config_are_of_the_records(searched: Path) -> None:
    page = re.sub(" +", " ", (searched / "recipe.md").read_text(encoding="utf-8"))
    start = [c["fold_accuracies"] for c in map(json.loads, (
        content for name, content in stored(searched / "cells").items() if name.endswith(".json")))
        if (c["config"]["method"], c["config"]["lr"], c["config"]["standardise"])
        == ("hscl", 0.001, True)]  # fmt: skip
    mean = sum(map(sum, start)) / 4
    assert f"| hscl | start | {mean:.1f} |" in page
    assert "python -m gcl_hard.bench --search" in page
    recipe = yaml.safe_load((searched / "best" / "all.yaml").read_text(encoding="utf-8"))
    assert {**TINY["start"], **recipe} == recipe | {"lr": 0.001, "c_grid": [0.1, 1]}
    assert set(recipe) >= set(TINY["start"])


@pytest.mark.usefixtures("_no_training")
def test_a_second_run_does_nothing_new(searched: Path) -> None:
    before = [stored(searched / name) for name in ("", "cells", "best")]
    assert main(command(searched)) == 0
    assert [stored(searched / name) for name in ("", "cells", "best")] == before


@pytest.mark.usefixtures("_no_training", "_no_data")
def test_what_is_finished_is_read_back_without_data(searched: Path) -> None:
    before = [stored(searched / name) for name in ("", "cells", "best")]
    (searched / "recipe.md").unlink()
    assert main(command(searched, "--report-only")) == 0
    assert [stored(searched / name) for name in ("", "cells", "best")] == before


@pytest.mark.usefixtures("_no_training")
def test_what_is_missing_is_named(
    searched: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in stored(searched / "cells").items():
        config = json.loads(content)["config"] if name.endswith(".json") else {"lr": 0.01}
        if not (config["method"] == "hscl" and config["lr"] == 0.01 and "seed5" in name):
            (tmp_path / name).write_bytes(content)
    assert main([*command(searched, "--report-only"), "--output", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "no score of MUTAG hscl β=1 inductive, seed 5, inner hold-out (lr 0.01)" in error
    assert "--report-only runs nothing: leave it out" in error


def test_why_a_score_is_missing_is_said_too(
    searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "do", lambda jobs, *_: ({}, ["loss is nan in epoch 1"]))
    options = parse_bench(["--search", str(searched / "search.yaml"), "--output", str(tmp_path)])
    with pytest.raises(GclHardError, match=r"no score of MUTAG .*\nloss is nan in epoch 1$"):
        search(options, Console(file=StringIO()), "")


@pytest.mark.usefixtures("_no_training")
def test_nothing_is_run_for_a_folder_of_other_configs(searched: Path, tmp_path: Path) -> None:
    (tmp_path / "mutag.yaml").write_text("dataset: MUTAG\n", encoding="utf-8")
    arguments = ["--search", str(searched / "search.yaml"), "--best", str(tmp_path)]
    with pytest.raises(InputError, match=r"mutag\.yaml is no recipe of a search"):
        search(parse_bench(arguments), Console(file=StringIO()), "")
    assert [path.name for path in tmp_path.iterdir()] == ["mutag.yaml"]


# The command line


def test_the_file_says_what_is_searched(searched: Path) -> None:
    options = parse_bench(["--search", str(searched / "search.yaml")])
    assert options.cells == ()
    assert tuple(options.seeds) == (0, 5)
    assert options.search is not None
    assert (options.search.datasets, options.search.folds) == (("MUTAG",), 2)


def test_the_command_may_name_other_sets(searched: Path) -> None:
    options = parse_bench(["--search", str(searched / "search.yaml"), "--dataset", "ptc,imdb-b"])
    assert options.search is not None
    assert options.search.datasets == ("PTC_MR", "IMDB-BINARY")


@pytest.mark.parametrize(
    "flags",
    [["--lr", "0.1"], ["--method", "ucl"], ["--seeds", "3"], ["--select", "true"],
     ["--protocol", "paper"], ["--table", "2"], ["--kernel", "rbf"]],
)  # fmt: skip
def test_a_setting_beside_a_search_is_refused(searched: Path, flags: list[str]) -> None:
    with pytest.raises(InputError, match=rf"states what is searched: leave out {flags[0][2:]}$"):
        parse_bench(["--search", str(searched / "search.yaml"), *flags])


def test_a_folder_for_recipes_needs_a_search(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give --search too"):
        parse_bench(["--best", str(tmp_path)])


def test_a_search_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*gone\.yaml"):
        parse_bench(["--search", str(tmp_path / "gone.yaml")])
