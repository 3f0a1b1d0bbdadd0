"""Tables, published accuracies and recipes: what ``--table``, ``--recipe`` and ``--quick`` ask."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gcl_hard.commands.bench import parse_bench
from gcl_hard.errors import InputError
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.graphs import MANIFEST, presets
from gcl_hard.graphs.presets import recipe
from gcl_hard.graphs.settings import GRAPH_BASELINES, GraphConfig
from gcl_hard.images.settings import ImageConfig
from tests.experiments.made_recipes import RECIPE, put, recipes
from tests.said import says

__all__ = ["recipes"]

ROOT = Path(__file__).parents[2]
SHIPPED = presets.RECIPE_FOLDERS
GRAPH_SETS = ("MUTAG", "ENZYMES", "PTC_MR", "IMDB-BINARY", "IMDB-MULTI")
IMAGE_SETS = ("STL10", "CIFAR10", "CIFAR100", "TinyImageNet")

pytestmark = pytest.mark.usefixtures("recipes")


def configs(*arguments: str) -> list[Any]:
    return [*parse_bench(arguments).configs]


def best(*arguments: str) -> GraphConfig:
    (config,) = configs("--recipe", "best", *arguments)
    assert isinstance(config, GraphConfig)
    return config


def refusal(*arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_bench(arguments)
    return str(caught.value)


# The paper's tables


def test_table_2_stands_for_sets_methods_baselines_protocols_and_betas() -> None:
    options = parse_bench(["--table", "2"])
    trained = [c for c in options.configs if not c.is_baseline]
    assert {c.dataset for c in options.configs} == set(GRAPH_SETS)
    assert len(trained) == 5 * 2 * (1 + 3 + 1 + 3)  # sets × protocols × (ucl, hucl, scl, hscl)
    assert len(options.configs) - len(trained) == 5 * len(GRAPH_BASELINES)
    assert {c.beta for c in trained if c.method == "hscl"} == {0.5, 1.0, 2.0}
    assert {c.epochs for c in options.configs} == {200}
    assert options.seeds == (0, 1, 2, 3, 4)
    assert (options.table, options.select, options.jobs, options.quick) == ("2", True, None, False)


def test_table_1_is_the_papers() -> None:
    options = parse_bench(["--table", "1"])
    trained = [config for config in options.configs if not config.is_baseline]
    assert {config.dataset for config in trained} == set(IMAGE_SETS)
    assert options.select
    assert len(trained) == len(IMAGE_SETS) * (1 + 5 + 1 + 5 + 9)
    assert {(config.epochs, config.batch_size) for config in trained} == {(200, 256)}
    forms = {c.dataset: (c.size, c.stem) for c in trained if isinstance(c, ImageConfig)}
    assert forms == {**dict.fromkeys(IMAGE_SETS, (None, "auto")), "STL10": (32, "cifar")}
    (sized,) = configs("--table=1", "--dataset=STL10", "--method=ucl", "--size=96")
    assert (sized.size, sized.stem) == (96, "cifar")


def test_what_is_given_wins_over_the_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("seeds: 3\nbeta: [4]\n")
    arguments = ["--table=2", "--dataset=PTC", "--method=hscl,wl", "--protocol=inductive",
                 "--select=false", "--jobs=1", f"--config={path}"]  # fmt: skip
    options = parse_bench(arguments)
    assert [(c.dataset, c.method, c.beta) for c in options.configs] == [
        ("PTC", "hscl", 4.0), ("PTC", "wl", None),
    ]  # fmt: skip
    assert (options.seeds, options.select, options.jobs) == ((0, 1, 2), False, 1)


def test_a_smoke_run_is_few_seeds_and_epochs_of_other_configs() -> None:
    whole, quick = parse_bench(["--table=2"]), parse_bench(["--table=2", "--quick"])
    assert quick.quick
    assert len(quick.seeds) == 2
    assert max(c.epochs for c in quick.configs if c.encoders) <= 5
    shared = set(whole.configs) & set(quick.configs)
    assert {c.method for c in shared} == set(GRAPH_BASELINES) - {"supervised"}  # train nothing
    assert parse_bench(["--quick", "--epochs=7"]).configs[0].epochs == 7


@pytest.mark.parametrize(
    ("config", "accuracy"),
    [
        (GraphConfig(), 87.2),
        (GraphConfig(contrast="two-view"), None),
        (GraphConfig(protocol="inductive"), None),
        (GraphConfig(method="dcl"), None),
        (GraphConfig(method="majority"), None),
        (ImageConfig(dataset="STL10"), 72.52),
        (ImageConfig(dataset="STL10", method="hscl-tau"), 71.02),
        (ImageConfig(dataset="digits"), None),
        (ImageConfig(dataset="STL10", subset=1_000), None),
        (ImageConfig(dataset="STL10", pretrain_split="train+unlabeled"), None),
        (ImageConfig(dataset="STL10", probe_split="extra"), None),
        (ImageConfig(dataset="STL10", method="untrained"), None),
    ],
)
def test_the_papers_accuracy_is_of_its_own_settings_alone(
    config: GraphConfig | ImageConfig, accuracy: float | None
) -> None:
    assert experiment_of(config).published(config) == accuracy


# --recipe


def test_best_takes_what_is_not_stated() -> None:
    assert best() == GraphConfig(protocol="inductive", **RECIPE)
    assert best("--dataset", "PTC", "--method", "ucl") == GraphConfig(
        dataset="PTC", method="ucl", protocol="inductive", **RECIPE
    )


def test_several_values_of_a_flag_win_too() -> None:
    chosen = configs("--recipe", "best", "--lr", "0.01,0.1", "--beta", "1,4")
    assert {(c.lr, c.beta) for c in chosen} == {(0.01, 1), (0.1, 1), (0.01, 4), (0.1, 4)}
    assert {replace(c, lr=0.1, beta=1.0) for c in chosen} == {best("--lr=0.1", "--beta=1")}
    chosen = configs("--recipe=best", "--protocol=paper,inductive")
    assert [c.protocol for c in chosen] == ["transductive", "inductive"]


def test_a_config_wins_and_may_name_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("recipe: best\nlr: 0.01\nprotocol: transductive\n", encoding="utf-8")
    assert configs("--config", str(path)) == [replace(best(), lr=0.01, protocol="transductive")]
    assert configs("--config", str(path), "--protocol", "inductive") == [best("--lr=0.01")]
    assert configs("--config", str(path), "--recipe", "paper") == [GraphConfig()]


def test_a_set_s_own_recipe_comes_before_the_one_for_all(
    recipes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(recipes, "ptc_mr", {"dim": 48})
    ptc, mutag = configs("--recipe=best", "--dataset=PTC,MUTAG")
    assert ptc == GraphConfig(dataset="PTC", protocol="inductive", dim=48)
    assert mutag == best()
    assert best("--dataset=ptc_mr").dim == 48
    package = tmp_path / "package"  # of two folders the first one has its way
    package.mkdir()
    monkeypatch.setattr(presets, "RECIPE_FOLDERS", (package, recipes))
    put(package, "all", {"lr": 3.0})
    assert recipe("MUTAG") == {"lr": 3.0}
    assert recipe("PTC_MR") == {"dim": 48}


def test_baselines_take_what_they_read() -> None:
    untrained, majority = configs("--recipe=best", "--method=untrained,majority")
    assert (untrained.dim, untrained.kernel, untrained.lr) == (16, "linear", 0.01)
    assert majority == GraphConfig(method="majority")


def test_another_contrast_or_objective_leaves_out_what_is_of_the_recipes_own() -> None:
    chosen = best("--contrast=local-global")
    assert (chosen.objective, chosen.temperature, chosen.augmentations) == ("jsd", None, None)
    assert (chosen.lr, chosen.dim) == (RECIPE["lr"], RECIPE["dim"])


@pytest.mark.parametrize("table", ["1", "2"])
def test_the_papers_tables_are_of_the_papers_recipe(table: str) -> None:
    message = refusal("--table", table, "--recipe", "best")
    assert says(message, f"--table {table}", "paper's", "recipe")
    assert configs("--table", table, "--recipe", "paper") == configs("--table", table)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: [", r"\.yaml\b.*YAML"),
        ("", r"\.yaml\b.*settings.* None$"),
        ("lrr: 1", r"\.yaml\b.*'lrr'[^,]*\blr\b"),
        ("protocol: inductive", r"\.yaml\b.*'protocol'"),
        ("lr: fast", r"\.yaml\b.*\blr\b.*number.* fast$"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(recipes: Path, text: str, message: str) -> None:
    (recipes / "mutag.yaml").write_text(text, encoding="utf-8")
    assert "mutag.yaml" in refusal("--recipe", "best")
    assert re.search(message, refusal("--recipe", "best"))


# What comes with the package


def test_the_recipes_of_a_checkout_and_of_a_wheel_are_the_same_files() -> None:
    package, checkout = SHIPPED
    assert checkout == ROOT / "configs" / "graphs" / "best"
    assert (checkout / "all.yaml").is_file()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included[checkout.relative_to(ROOT).as_posix()] == package.relative_to(ROOT).as_posix()


def test_every_recipe_that_comes_with_the_package_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "RECIPE_FOLDERS", SHIPPED)
    canonical = {name.casefold(): name for name in MANIFEST}
    paths = [*SHIPPED[1].glob("*.yaml")]
    assert paths
    for path in paths:
        name = canonical["mutag" if path.stem == "all" else path.stem]
        settings = recipe(name)
        stated = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.stem != "all":
            assert set(settings) == set(stated)
        assert best("--dataset", name) == GraphConfig(
            dataset=name, protocol="inductive", **settings
        )
        (config,) = parse_bench(["--config", str(path)]).configs  # a recipe is a config file too
        for setting, value in stated.items():
            expected = tuple(value) if isinstance(value, list) else value
            assert getattr(config, setting) == expected, setting
