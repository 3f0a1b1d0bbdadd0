"""Grids of a search space: what is tried first, and what is left to the command."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import yaml

from gcl_hard.errors import InputError
from gcl_hard.tuning.space import Base, Space
from tests.tuning.spaces import BETA, HARDENED, LR, THRESHOLDS, graphs, images, methods, refusal

# What is tried first


def grid(space: dict[str, Any], stated: Any, base: Base) -> list[dict[str, Any]]:
    return Space.of({"space": space, "grid": stated}).fitted(base).grid_of(base)


@pytest.mark.parametrize("method", ["hucl", "hcl", "hscl"])
def test_the_paper_s_betas(method: str) -> None:
    # "over the set {0.1, 0.5, 1, 2, 5}" on images (V-B), "{1, 2, 10}" on graphs (V-C).
    space = {"beta": HARDENED}
    assert grid(space, "paper", graphs(method)) == [{"beta": b} for b in (1, 2, 10)]
    assert grid(space, "paper", images(method)) == [{"beta": b} for b in (0.1, 0.5, 1, 2, 5)]


@pytest.mark.parametrize("base", [graphs("hscl-tau"), images("hscl-tau")])
def test_the_paper_s_nine_thresholds(base: Base) -> None:
    # "start from a set of {-0.5, -0.3, -0.1}, the end from a set {-0.1, 0, 0.1}" (V-B).
    nine = product((-0.5, -0.3, -0.1), (-0.1, 0.0, 0.1))
    found = grid(THRESHOLDS, "paper", base)
    assert found == [{"threshold_start": start, "threshold_end": end} for start, end in nine]


@pytest.mark.parametrize("method", ["ucl", "dcl", "scl"])
def test_the_paper_has_no_grid_for_other_methods(method: str) -> None:
    assert grid({"lr": LR, "beta": HARDENED}, "paper", graphs(method)) == []


def test_no_grid_is_none() -> None:
    assert Space.of({"beta": BETA}).fitted(graphs()).grid_of(graphs()) == []


def test_a_grid_is_whole_with_everything_else_as_the_command_has_it() -> None:
    space = {"lr": LR, "beta": BETA, "layers": methods(2, 3, 5), "readout": methods("sum", "mean")}
    found = grid(space, "paper", graphs(lr=0.03, readout="mean"))
    assert found == [
        {"lr": 0.03, "beta": beta, "layers": 3, "readout": "mean"} for beta in (1, 2, 10)
    ]


def test_a_stated_grid_has_all_combinations() -> None:
    found = grid({"lr": LR, "beta": BETA}, {"beta": [1, 4], "lr": [0.001, 0.01]}, graphs())
    assert found == [{"lr": lr, "beta": b} for lr, b in product((0.001, 0.01), (1, 4))]


def test_every_searched_method_has_its_own_grid() -> None:
    stated = {"method": methods("ucl", "hscl", "hscl-tau"), "beta": HARDENED, **THRESHOLDS}
    found = grid({**stated, "lr": LR}, "paper", graphs("hscl"))
    assert [g["method"] for g in found] == ["hscl"] * 3 + ["hscl-tau"] * 9
    assert {tuple(g) for g in found} == {
        ("method", "beta", "lr"), ("method", *THRESHOLDS, "lr"),
    }  # fmt: skip


def test_settings_of_an_own_encoder_are_drawn_also_where_a_grid_is() -> None:
    space = {"beta": BETA, "encoder.width": {"type": "int", "low": 8, "high": 64}}
    fitted = Space.of({"space": space, "grid": "paper"}).fitted(graphs(), encoder=True)
    assert fitted.grid_of(graphs()) == [{"beta": 1}, {"beta": 2}, {"beta": 10}]


def test_a_grid_outside_its_dimension_is_refused_before_anything_runs() -> None:
    narrow = {"type": "float", "low": 0.1, "high": 5}
    said = refusal({"space": {"beta": narrow}, "grid": "paper"})
    assert "beta 10.0 of the grid is not in the search space, which has 0.1 to 5.0" in said
    said = refusal({"space": {"beta": BETA, "lr": LR}, "grid": "paper"}, graphs(lr=0.5))
    assert "lr 0.5 of the command, which the grid keeps, is not in the search space" in said
    said = refusal({"space": {"layers": methods(1, 2)}, "grid": {"layers": [1, 3]}})
    assert "layers 3 of the grid" in said


@pytest.mark.parametrize("name", ["betta", "dim"])
def test_a_name_of_a_grid_that_is_no_dimension_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"unknown setting of the grid '{name}'"):
        grid({"beta": BETA}, {name: [1, 2]}, graphs())


def test_numbers_of_a_grid_that_yaml_takes_for_words_are_numbers() -> None:
    stated = yaml.safe_load("{lr: [1e-2, 0.02]}")
    assert stated == {"lr": ["1e-2", 0.02]}  # YAML 1.1 wants 1.0e-2
    assert grid({"lr": LR}, stated, graphs()) == [{"lr": 0.01}, {"lr": 0.02}]


def test_a_name_of_a_grid_that_another_method_has_is_passed_over() -> None:
    space = {"lr": LR, "beta": HARDENED}
    assert grid(space, {"beta": [1, 2]}, graphs("ucl")) == []
    assert grid(space, {"beta": [1], "lr": [0.01, 0.02]}, graphs("ucl")) == [
        {"lr": 0.01}, {"lr": 0.02},
    ]  # fmt: skip


def test_a_grid_that_names_a_method_tries_no_other() -> None:
    space = {"method": methods("ucl", "hscl"), "lr": LR, "beta": HARDENED}
    found = grid(space, {"method": ["hscl"], "beta": [1, 4]}, graphs())
    assert found == [{"method": "hscl", "lr": 0.01, "beta": beta} for beta in (1, 4)]


def test_a_value_of_a_grid_is_the_choice_itself() -> None:
    (found,) = grid({"layers": methods(2, 3)}, {"layers": [2.0]}, graphs())
    assert type(found["layers"]) is int
    with pytest.raises(InputError, match="layers True of the grid is not in the search space"):
        grid({"layers": methods(1, 2)}, {"layers": [True]}, graphs())


# What a grid leaves to the command


def left(space: dict[str, Any], stated: Any, base: Base) -> set[str]:
    return Space.of({"space": space, "grid": stated}).fitted(base).left_to(base)


def test_what_a_grid_does_not_name_is_left_to_the_command() -> None:
    space = {"lr": LR, "beta": HARDENED, "layers": {"type": "int", "low": 1, "high": 5}}
    assert left(space, "paper", graphs()) == {"lr", "layers"}
    assert left(space, {"lr": [0.01], "beta": [1]}, graphs()) == {"layers"}
    assert left(space, {"lr": [0.01], "beta": [1], "layers": [2]}, graphs()) == set()


@pytest.mark.parametrize(("stated", "method"), [(None, "hscl"), ("paper", "ucl")])
def test_without_a_grid_nothing_is(stated: Any, method: str) -> None:
    assert left({"lr": LR, "beta": HARDENED}, stated, graphs(method)) == set()


def test_a_searched_method_is_not_left_to_the_command() -> None:
    space = {"method": methods("hucl", "hscl"), "lr": LR, "beta": HARDENED}
    assert left(space, "paper", graphs()) == {"lr"}
