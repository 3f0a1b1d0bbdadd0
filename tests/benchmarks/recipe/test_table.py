"""The rows of the table of recipes: which there are, in which order, and what they change."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recipe.table import ABLATIONS, REPORTED, SHARES, Entry, entries
from gcl_hard.methods import SETTINGS
from gcl_hard.setting import declared
from gcl_hard.settings.base import OwnTraining
from gcl_hard.settings.flags import not_of_recipes
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.presets import TABLE_II
from tests.benchmarks.recipe.made_recipes import RECIPE, put, recipes

__all__ = ["recipes"]

METHODS = ("dcl", "hscl", "scl", "ucl", "hucl", "untrained", "wl-oa", "majority", "supervised")
PROTOCOLS = ("inductive", "transductive")
SETS = ("MUTAG", "PTC_MR")
PAPERS: dict[str, Any] = {"hardness_scale": "batch-max"}

pytestmark = pytest.mark.usefixtures("recipes")


def rows(
    *parts: str, datasets: tuple[str, ...] = SETS, methods: tuple[str, ...] = METHODS,
    protocols: tuple[str, ...] = PROTOCOLS, quick: bool = False,
) -> list[Entry]:  # fmt: skip
    found = entries(datasets, methods, protocols, quick=quick)
    return [row for row in found if not parts or row.part in parts]


def ours(dataset: str, method: str = "hscl", protocol: str = "inductive") -> GraphConfig:
    return GraphConfig(dataset=dataset, method=method, protocol=protocol, patience=0, **RECIPE)


def papers(dataset: str, method: str = "hscl", protocol: str = "inductive") -> GraphConfig:
    return GraphConfig(dataset=dataset, method=method, protocol=protocol, patience=0, **PAPERS)


def differing(one: GraphConfig, other: GraphConfig) -> set[str]:
    a, b = asdict(one), asdict(other)
    return {name for name in a if a[name] != b[name]}


# Which


def test_all_rows_in_the_order_to_run_them() -> None:
    trained, baselines = ("hscl", "scl", "ucl", "hucl", "dcl"), METHODS[5:]
    expected = [("baselines", m, m, "inductive") for m in baselines]
    expected += [("ours", m, m, "inductive") for m in ("untrained", "supervised")]
    for part in ("ours", "paper"):
        own = trained if part == "ours" else trained[:4]
        expected += [(part, m, m, p) for p in PROTOCOLS for m in own]
    for ablation in ABLATIONS:
        expected += [("off", ablation, "hscl", "inductive"), ("on", ablation, "hscl", "inductive")]
    curves = ("wl-oa", "supervised", "untrained", "hucl", "hscl")
    expected += [("fewer", share, m, "inductive") for share in ("0.1", "0.25", "0.5")
                 for m in curves]  # fmt: skip
    assert [(r.part, r.name, r.method, r.protocol) for r in rows()] == expected


def test_a_config_is_of_the_row_and_the_set_that_it_stands_for() -> None:
    for row in rows():
        assert [*row.configs] == [*SETS]
        for dataset, config in row.configs.items():
            assert (config.dataset, config.method, config.protocol) == (
                dataset,
                row.method,
                row.protocol,
            )


def test_no_config_stands_in_two_rows() -> None:
    configs = [config for row in rows() for config in row.configs.values()]
    assert len(set(configs)) == len(configs)


def test_baselines_come_first_and_the_papers_methods_before_the_others() -> None:
    found = [row.method for row in rows("baselines", "ours", "paper")]
    n_baselines = 6  # four, two of them under ours too
    assert not {*found[:n_baselines]} & {*REPORTED, "dcl"}
    for start in (n_baselines, n_baselines + 5):  # ours under both protocols
        assert {*found[start : start + 4]} == {*REPORTED}
        assert found[start + 4] == "dcl"
    rest = found[n_baselines + 10 :]  # the paper's
    assert [{*rest[:4]}, {*rest[4:]}] == [{*REPORTED}] * 2


def test_the_papers_recipe_is_run_with_the_methods_of_its_table() -> None:
    reported = {method for of_set in TABLE_II.values() for method in of_set}
    assert {*REPORTED} == reported
    assert {row.method for row in rows("paper")} == reported
    assert not rows("paper", methods=("dcl", "hcl"))


def test_the_two_recipes_are_the_file_s_and_the_defaults() -> None:
    for row in rows("paper"):
        for dataset, config in row.configs.items():
            assert config == papers(dataset, row.method, row.protocol)
    for row in rows("ours"):
        for dataset, config in row.configs.items():
            assert config == ours(dataset, row.method, row.protocol)
    for row in rows("baselines"):
        assert row.configs == {
            d: GraphConfig(dataset=d, method=row.method, patience=0) for d in SETS
        }


def test_a_set_s_own_recipe_is_its_own_in_every_row(recipes: Path) -> None:
    put(recipes, "ptc_mr", {**RECIPE, "dim": 48})
    for row in rows("ours", "fewer"):
        if row.method != "wl-oa":
            assert [row.configs[name].dim for name in SETS] == [16, 48]
    (off,) = (row for row in rows("off") if row.name == "two views")
    assert [off.configs[name].dim for name in SETS] == [16, 48]
    (on,) = (row for row in rows("on") if row.name == "encoder")
    assert [on.configs[name].dim for name in SETS] == [16, 48]


def test_ablations_and_fewer_graphs_are_of_inductive_and_of_what_is_asked_for() -> None:
    assert not rows("off", "on", "fewer", protocols=("transductive",))
    assert not rows("off", "on", methods=("hucl", "untrained"))
    found = rows("fewer", methods=("hucl", "majority"))
    assert [(row.name, row.method) for row in found] == [(f"{s:g}", "hucl") for s in SHARES]


# Ablations


def ablation(part: str, name: str) -> Entry:
    (row,) = (row for row in rows(part) if row.name == name)
    return row


@pytest.mark.parametrize("name", ABLATIONS)
def test_off_is_ours_with_that_ablation_of_the_papers(name: str) -> None:
    for dataset, config in ablation("off", name).configs.items():
        assert differing(config, ours(dataset)) == differing(ours(dataset), papers(dataset)) & {
            *ABLATIONS[name]
        }
        for setting in ABLATIONS[name]:
            assert getattr(config, setting) == getattr(papers(dataset), setting)


@pytest.mark.parametrize("name", ABLATIONS)
def test_on_is_the_papers_with_that_ablation_of_ours(name: str) -> None:
    for dataset, config in ablation("on", name).configs.items():
        assert differing(config, papers(dataset)) == differing(ours(dataset), papers(dataset)) & {
            *ABLATIONS[name]
        }
        for setting in ABLATIONS[name]:
            assert getattr(config, setting) == getattr(ours(dataset), setting)


def test_a_ablation_that_changes_nothing_has_no_row(recipes: Path) -> None:
    put(recipes, "all", {**PAPERS, "lr": 0.002})
    assert [(row.part, row.name) for row in rows("off", "on")] == [
        ("off", "optimiser"), ("on", "optimiser")
    ]  # fmt: skip


def test_a_ablation_that_changes_nothing_on_a_set_has_no_config_there(recipes: Path) -> None:
    put(recipes, "all", {**PAPERS, "lr": 0.002})
    put(recipes, "ptc_mr", {**PAPERS, "lr": 0.002, "kernel": "linear"})
    found = {(row.part, row.name): [*row.configs] for row in rows("off", "on")}
    assert found == {
        ("off", "optimiser"): [*SETS], ("on", "optimiser"): [*SETS],
        ("off", "SVM"): ["PTC_MR"], ("on", "SVM"): ["PTC_MR"],
    }  # fmt: skip


def test_what_a_recipe_states_as_the_papers_is_no_difference(recipes: Path) -> None:
    put(
        recipes,
        "all",
        {**PAPERS, "lr": 0.01, "contrast": "local-global", "kernel": "rbf", "beta": 1},
    )
    assert not rows("off", "on")


def test_every_setting_of_a_recipe_belongs_to_one_ablation() -> None:
    of_others = {"class_prior", "threshold_start", "threshold_end", *SETTINGS, "without"}
    """Settings of other methods: hscl, whose ablations are moved, has none of them."""
    order = {"data_seed", "parts"}
    """Name one order of batches or another, or how much of one is in memory: none is better."""
    lone = {f.name for f in fields(GraphConfig)} - {*not_of_recipes()} - of_others - order
    lone -= {*declared(OwnTraining)}  # of supervised alone
    listed = [name for names in ABLATIONS.values() for name in names]
    assert sorted(listed) == sorted(lone)
    assert all(getattr(GraphConfig(method="hscl"), name) is None for name in of_others)


# Fewer graphs


def test_fewer_graphs_change_nothing_but_the_share() -> None:
    whole = {row.method: row for row in rows("ours") if row.protocol == "inductive"}
    whole |= {row.method: row for row in rows("baselines") if row.method == "wl-oa"}
    found = rows("fewer")
    assert len(found) == len(SHARES) * 5
    for row in found:
        for dataset, config in row.configs.items():
            assert config.train_share == float(row.name)
            assert replace(config, train_share=1.0) == whole[row.method].configs[dataset]


# A smoke run


def test_a_smoke_run_has_the_same_rows_with_few_epochs() -> None:
    (few,) = GraphConfig.quick["epochs"]
    quick, whole = rows(quick=True), rows()
    assert [(r.part, r.name, r.protocol) for r in quick] == [
        (r.part, r.name, r.protocol) for r in whole
    ]
    for short, long in zip(quick, whole, strict=True):
        for dataset, config in short.configs.items():
            assert config == replace(long.configs[dataset], epochs=config.epochs)
            assert config.epochs == (few if config.encoders else 200)  # 200: does not apply


def test_a_smoke_run_has_no_ablation_of_epochs_alone(recipes: Path) -> None:
    put(recipes, "all", {**PAPERS, "epochs": 30})
    assert rows("off", "on")
    assert not rows("off", "on", quick=True)
