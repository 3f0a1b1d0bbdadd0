"""The two commands: what they accept, exit statuses, messages, and what is left on disk."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from benchmarks.recipe.__main__ import COMMANDS, SEARCHED, main, parse
from benchmarks.recipe.search import read_search
from benchmarks.recipe.table import entries
from gcl_hard.errors import InputError
from gcl_hard.experiments.graphs import GraphExperiment
from gcl_hard.graphs import tudataset
from gcl_hard.runs import runner
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.presets import TABLE_II
from tests.benchmarks.recipe.made_recipes import put, recipes
from tests.said import says

__all__ = ["recipes"]


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing from the machine's environment, no way to the real site."""
    runner._DATA.clear()
    monkeypatch.delenv("GCL_HARD_DATA", raising=False)
    monkeypatch.setenv("GCL_HARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(tudataset, "SITE", "http://127.0.0.1:9")
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)


def configs(*arguments: str) -> list[GraphConfig]:
    """The configurations of a table."""
    return [*parse("table", arguments).bench.configs]


def refusal(command: str, *arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parse(command, arguments)
    return str(caught.value)


# What is asked for


def test_the_table_is_its_rows_once_each(recipes: Path) -> None:
    options = parse("table", ["--dataset", "PTC", "--method", "hscl,untrained"]).bench
    rows = entries(["PTC_MR"], ["hscl", "untrained"], ["inductive", "transductive"], quick=False)
    assert [*options.configs] == [config for row in rows for config in row.configs.values()]
    assert options.seeds == (100, 101, 102, 103, 104)
    assert (options.select, options.jobs, options.quick) == (False, None, False)
    assert parse("table", ["--seeds=7,8"]).bench.seeds == (7, 8)


def test_the_whole_table_is_of_all_sets_methods_and_protocols(recipes: Path) -> None:
    found = configs()
    assert {config.dataset for config in found} == set(TABLE_II)
    assert {config.protocol for config in found} == {"inductive", "transductive"}
    assert len({config.method for config in found}) == 14
    assert len(set(found)) == len(found)


def test_names_may_be_spelt_as_everywhere(recipes: Path) -> None:
    asked = ["--dataset=mutag,MUTAG", "--method=HSCL,Untrained,hscl",
             "--protocol=paper,transductive"]  # fmt: skip
    plain = ["--dataset=MUTAG", "--method=hscl,untrained", "--protocol=transductive"]
    assert configs(*asked) == configs(*plain)
    both = configs("--dataset=MUTAG", "--method=hscl", "--protocol=inductive,transductive")
    assert {config.protocol for config in both} == {"inductive", "transductive"}


def test_a_config_file_states_the_same(recipes: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: PTC\nmethod: [hscl]\n", encoding="utf-8")
    assert configs("--config", str(path)) == configs("--dataset=PTC", "--method=hscl")
    path.write_text("dim: 8\n", encoding="utf-8")
    assert says(refusal("table", "--config", str(path)), "'dim'")


def test_a_smoke_run_of_the_table_has_few_epochs_and_seeds(recipes: Path) -> None:
    options = parse("table", ["--quick", "--dataset=MUTAG"]).bench
    trained = [config for config in options.configs if config.encoders]
    assert {config.epochs for config in trained} == {3}
    assert (len(options.seeds), options.quick) == (2, True)
    assert len(options.configs) == len(configs("--dataset=MUTAG"))
    assert parse("table", ["--quick", "--seeds=5,"]).bench.seeds == (5,)


@pytest.mark.parametrize("command", COMMANDS)
def test_data_sets_may_be_paths(recipes: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "MINE").mkdir()
    (tmp_path / "MINE" / "MINE_A.txt").write_text("1, 2\n", encoding="utf-8")
    given = parse(command, [f"--dataset={tmp_path}/MINE"])
    assert given.values["dataset"] == ("MINE",)
    assert given.bench.data_dir == tmp_path


def test_a_search_is_of_the_projects_file_and_its_sets() -> None:
    given = parse("search", [])
    assert (given.values["search"], given.values["dataset"]) == (SEARCHED, None)
    assert {*TABLE_II} - {*read_search(SEARCHED).datasets} == {"IMDB-MULTI"}  # to test the choice
    assert parse("search", ["--dataset=ptc,imdb-b"]).values["dataset"] == ("ptc", "imdb-b")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("table", []),
        ("table", ["--method=hscl", "--protocol=inductive", "--quick", "--json=a.json"]),
        ("table", ["--dataset=MUTAG,PTC", "--seeds=7,", "--report=a.md", "--threads=2"]),
        ("search", ["--search=mine.yaml", "--best=here"]),
        ("search", ["--dataset=MUTAG,PTC", "--jobs=2", "--report-only"]),
    ],
)  # fmt: skip
def test_a_printed_config_means_the_same_command(
    recipes: Path, command: str, arguments: list[str], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pytest.raises(SystemExit) as left:
        parse(command, [*arguments, "--print-config"])
    assert left.value.code == 0
    path = tmp_path / "printed.yaml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert parse(command, ["--config", str(path)]) == parse(command, arguments)


# What is refused


@pytest.mark.parametrize(
    ("command", "flag", "facts"),
    [
        ("table", "--method=hslc", ["method", "'hslc'", "hscl", "hscl"]),
        ("table", "--protocol=induct", ["protocol", "'induct'", "inductive", "inductive"]),
        ("table", "--dataset=PTC,CIFAR10", ["--dataset", "graphs", "CIFAR10", "images"]),
        ("search", "--dataset=PTC,digits", ["--dataset", "graphs", "digits", "images"]),
        ("table", "--jobs=0", ["--jobs", 1, 0]),
        ("search", "--threads=0", ["--threads", 1, 0]),
        ("search", "--report=page.html", ["--report", "NAME.md", "page.html"]),
        ("table", "--seeds=0", ["--seeds", 1, 0]),
        ("table", "--lr=0.1", ["--lr"]),
        ("table", "--train-share=0.5", ["--train-share"]),
        ("table", "--best=here", ["--best"]),
        ("search", "--method=ucl", ["--method"]),
        ("search", "--seed=3", ["--seed", "--search"]),
    ],
)
def test_a_mistake_is_named(recipes: Path, command: str, flag: str, facts: list[object]) -> None:
    assert says(refusal(command, flag), *facts)


def test_a_set_that_there_is_not_is_named_with_those_there_are(
    recipes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", "--dataset=MUTGA", "--method=majority", f"--output={tmp_path}/o"]) == 2
    assert says(capsys.readouterr().err, "'MUTGA'", "MUTAG")


def test_a_command_that_there_is_not_is_named_and_help_names_them_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serch"]) == 2
    assert says(capsys.readouterr().err, "'serch'", "search", "search")
    for arguments in ([], ["--help"]):
        assert main(arguments) == 0
        assert {*re.findall(r"benchmarks\.recipe (\w+)", capsys.readouterr().out)} == {*COMMANDS}


# The table


class Table:
    """The table in this process, with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, folder / "results"

    def __call__(self, *arguments: str) -> int:
        return main(["table", "--jobs=1", "--threads=1", f"--output={self.output}", *arguments])

    def files(self, pattern: str) -> list[Path]:
        return [*self.output.glob(pattern)]


@pytest.fixture
def table(recipes: Path, tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_the_result_file_is_named_after_the_table(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    baselines = ["--dataset=MUTAG", "--method=majority", "--seeds=100,101"]
    assert table(*baselines) == 0
    (path,) = table.files("table-recipe-*.json")  # a part of the table: with a digest
    (config,) = json.loads(path.read_text(encoding="utf-8"))["configs"]
    assert (config["method"], config["seeds"]) == ("majority", [100, 101])
    assert str(path) in "".join(capsys.readouterr().out.split())
    assert table("--quick", *baselines[:2]) == 0
    assert len(table.files("table-recipe-quick-*.json")) == 1
    assert table("--report-only", *baselines[2:]) == 0
    assert (table.output / "table-recipe.json").is_file()
    assert table(*baselines, f"--json={table.folder}/mine.json") == 0
    assert json.loads((table.folder / "mine.json").read_text("utf-8")) == json.loads(
        path.read_text("utf-8")
    )


def test_from_the_command_to_the_page(table: Table, recipes: Path) -> None:
    put(recipes, "all", {"contrast": "two-view", "dim": 4, "layers": 1})
    page = table.folder / "page.md"
    assert table("--quick", "--dataset=MUTAG", "--method=hscl", "--protocol=transductive",
                 "--seeds=5,", f"--report={page}") == 0  # fmt: skip
    found = [json.loads(path.read_text(encoding="utf-8")) for path in table.files("MUTAG*.json")]
    contrasts = sorted(stored["config"]["contrast"] for stored in found)
    assert contrasts == ["local-global", "two-view"]
    text = page.read_text(encoding="utf-8")
    for stored in found:
        assert f"{sum(stored['scores']['accuracy']) / 10:.1f}" in text


def test_a_smoke_run_is_not_written_over_results_and_that_is_known_before(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    page = table.folder / "results.md"
    page.write_text("# Results\n", encoding="utf-8")
    assert table("--quick", "--dataset=MUTAG", "--method=majority", f"--report={page}") == 2
    assert says(capsys.readouterr().err, str(page), "smoke", "--report")
    assert page.read_text(encoding="utf-8") == "# Results\n"
    assert table.files("*") == []


def test_nothing_is_written_where_nothing_is_finished(
    table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    page = table.folder / "page.md"
    assert table("--report-only", "--dataset=MUTAG", f"--report={page}") == 0
    assert says(capsys.readouterr().out, "no", "finished", "nothing")
    assert not page.exists()
    assert table.files("*.json") == []


# The search

SEARCH: dict[str, Any] = {
    "dataset": "MUTAG", "method": ["untrained", "hscl"], "seeds": [0, 5], "folds": 2,
    "start": {
        "contrast": "two-view", "epochs": 1, "layers": 1, "dim": 4, "kernel": "linear",
        "c_grid": [0.1, 1], "lr": 0.001,
    },
    "ablations": {"rate": [{"lr": 0.01}], "standardisation": [{"standardise": False}]},
}  # fmt: skip


def search(folder: Path, *more: str) -> int:
    return main([
        "search", "--search", str(folder / "search.yaml"), "--output", str(folder / "results"),
        "--report", str(folder / "recipe.md"), "--best", str(folder / "best"),
        "--device", "cpu", "--threads", "1", "--jobs", "1", *more,
    ])  # fmt: skip


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished search: ``search.yaml``, ``results``, ``recipe.md``, ``best``."""
    folder = tmp_path_factory.mktemp("search")
    (folder / "search.yaml").write_text(yaml.safe_dump(SEARCH), encoding="utf-8")
    assert search(folder) == 0
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def everything(folder: Path) -> list[dict[str, bytes]]:
    return [contents(folder / name) for name in ("", "results", "best")]


def stored(folder: Path) -> list[dict[str, Any]]:
    """The results of a search."""
    return [json.loads(p.read_text("utf-8")) for p in (folder / "results").glob("*.json")]


@pytest.fixture
def _no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphExperiment, "train", None)
    monkeypatch.setattr(GraphExperiment, "score", None)


@pytest.fixture
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphExperiment, "load", None)
    monkeypatch.setattr(tudataset, "paths", None)


def test_every_result_of_a_search_is_of_a_hold_out_of_the_files_seeds(searched: Path) -> None:
    names = [name for name in contents(searched / "results") if name.endswith(".json")]
    assert all(re.search(r"_inner_seed[05]\.json$", name) for name in names)
    found = stored(searched)
    assert all(one["inner"] and one["config"]["folds"] == 2 for one in found)
    settings = [(one["config"]["method"], one["config"]["lr"], one["config"]["standardise"],
                 one["seed"]) for one in found]  # fmt: skip
    untrained = {("untrained", 0.01, standardise, seed)
                 for standardise in (True, False) for seed in (0, 5)}  # fmt: skip
    single = {("hscl", lr, standardise, seed)
              for lr, standardise in ((0.001, True), (0.01, True), (0.001, False))
              for seed in (0, 5)}  # fmt: skip
    joined = {("hscl", 0.01, False, 0), ("hscl", 0.01, False, 5)}
    assert set(settings) - joined == untrained | single
    assert len(set(settings)) == len(settings)


def test_page_and_recipe_of_a_search_are_of_its_results(searched: Path) -> None:
    page = (searched / "recipe.md").read_text(encoding="utf-8")
    start = [one["scores"]["accuracy"] for one in stored(searched)
             if (one["config"]["method"], one["config"]["lr"], one["config"]["standardise"])
             == ("hscl", 0.001, True)]  # fmt: skip
    assert f"{sum(map(sum, start)) / 4:.1f}" in page
    recipe = yaml.safe_load((searched / "best" / "all.yaml").read_text(encoding="utf-8"))
    assert {**SEARCH["start"], **recipe} == recipe | {"lr": recipe["lr"], "c_grid": [0.1, 1]}
    assert set(recipe) >= set(SEARCH["start"])


def test_page_and_recipe_of_a_search_state_its_command(searched: Path) -> None:
    page = (searched / "recipe.md").read_text(encoding="utf-8")
    shown = page.split("```bash\n")[1].split("\n```")[0]
    head = (searched / "best" / "all.yaml").read_text(encoding="utf-8")
    assert f"#   {shown}\n" in head
    *module, name, first, file = shlex.split(shown)[:6]
    assert module == ["python", "-m", "benchmarks.recipe"]
    assert parse(name, [first, file]).values["search"] == Path("search.yaml")


@pytest.mark.usefixtures("_no_training")
def test_a_second_search_does_nothing_new(searched: Path) -> None:
    before = everything(searched)
    assert search(searched) == 0
    assert everything(searched) == before


@pytest.mark.usefixtures("_no_training", "_no_data")
def test_a_finished_search_is_read_back_without_data(searched: Path) -> None:
    before = everything(searched)
    (searched / "recipe.md").unlink()
    assert search(searched, "--report-only") == 0
    assert everything(searched) == before


@pytest.mark.usefixtures("_no_training")
def test_a_score_that_a_search_lacks_is_named(
    searched: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in contents(searched / "results").items():
        config = json.loads(content)["config"] if name.endswith(".json") else {"lr": 0.01}
        if not (config["method"] == "hscl" and config["lr"] == 0.01 and "seed5" in name):
            (tmp_path / name).write_bytes(content)
    assert search(searched, "--report-only", "--output", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert says(error, "MUTAG hscl β=1", "inductive", "seed 5", "(lr 0.01)", "--report-only")


@pytest.mark.usefixtures("_no_training", "_no_data")
def test_a_search_may_be_of_other_sets_than_the_files(
    searched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(searched, "--dataset=mutag", "--report-only") == 0
    assert search(searched, "--dataset=ptc", "--report-only") == 2
    assert says(capsys.readouterr().err, "PTC_MR", "seed 0", "--report-only")


def test_why_a_search_lacks_a_score_is_said_too(
    searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(runner.Runner, "run", lambda self, runs: ({}, ["loss is nan in epoch 1"]))
    assert main(["search", f"--search={searched}/search.yaml", f"--output={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert re.search(r"\bMUTAG .*\nloss is nan in epoch 1\n$", error)


@pytest.mark.usefixtures("_no_training")
def test_nothing_is_run_for_a_folder_of_other_configs(
    searched: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "mutag.yaml").write_text("dataset: MUTAG\n", encoding="utf-8")
    assert search(searched, "--best", str(folder), "--output", str(tmp_path / "results")) == 2
    assert says(capsys.readouterr().err, str(folder / "mutag.yaml"), "recipe", "--best")
    assert [path.name for path in folder.iterdir()] == ["mutag.yaml"]


def test_a_search_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", "--search", str(tmp_path / "gone.yaml")]) == 2
    assert re.search(r"\bread\b.*gone\.yaml", capsys.readouterr().err)
