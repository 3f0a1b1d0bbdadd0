"""What a command gives and its space searches too, and files that belong elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gcl_hard.experiments.graph_cell import GraphCell

from gcl_hard.errors import InputError
from gcl_hard.tuning.options import check_given, parse_tune
from gcl_hard.tuning.space import Base, Space
from tests.tuning import options as written
from tests.tuning.options import LR, refusal

space_of = written.space_of  # here pytest finds the fixture


def test_what_is_searched_is_not_given_too(space_of: Any) -> None:
    space = f"--space={space_of(LR, 'weight_decay: {type: float, low: 0, high: 0.1}')}"
    assert refusal(space, "--lr=0.02") == "lr is searched, and given too: leave one of them out"
    assert "weight-decay is searched" in refusal(space, "--weight-decay=0.01")
    assert parse_tune([space, "--epochs=3"]).base.alone.epochs == 3


def test_a_file_gives_too(space_of: Any, tmp_path: Path) -> None:
    config = tmp_path / "given.yaml"
    config.write_text("lr: 0.02\n", encoding="utf-8")
    assert "lr is searched, and given too" in refusal(f"--config={config}", "--space", space_of(LR))


def test_a_method_that_is_searched_is_not_given_too(space_of: Any) -> None:
    space = f"--space={space_of('method: {type: categorical, choices: [ucl, hscl]}', LR)}"
    assert "method is searched, and given too" in refusal(space, "--method=hscl")
    assert parse_tune([space]).space.methods(parse_tune([space]).base) == ("ucl", "hscl")


def test_a_grid_tries_what_is_given() -> None:
    options = parse_tune(["--space=beta", "--lr=0.02"])
    found = options.space.grid_of(options.base)
    assert found == [{"beta": beta, "lr": 0.02} for beta in (1, 2, 10)]


def test_a_grid_of_other_methods_tries_nothing() -> None:
    assert "lr is searched, and given too" in refusal("--space=beta", "--method=ucl", "--lr=0.02")


def test_a_grid_with_values_of_its_own_does_not_try_what_is_given(space_of: Any) -> None:
    space = space_of(LR, grid="grid: {lr: [0.001, 0.01]}\n")
    assert "lr is searched, and given too" in refusal(f"--space={space}", "--lr=0.02")


def test_what_a_grid_names_is_not_given_and_the_rest_is_tried(space_of: Any) -> None:
    beta = "beta: {type: float, low: 0.1, high: 20}"
    space = f"--space={space_of(LR, beta, grid='grid: {beta: [1, 4]}')}"
    assert "beta is searched, and given too" in refusal(space, "--beta=2")
    options = parse_tune([space, "--lr=0.02"])
    assert options.space.grid_of(options.base) == [{"lr": 0.02, "beta": b} for b in (1, 4)]


def test_a_method_that_is_searched_is_not_given_where_a_grid_is_either(space_of: Any) -> None:
    methods = "method: {type: categorical, choices: [hucl, hscl]}"
    space = space_of(methods, "beta: {type: float, low: 0.1, high: 20}", grid="grid: paper")
    assert "method is searched, and given too" in refusal(f"--space={space}", "--method=hucl")


def test_a_given_value_outside_the_space_is_refused() -> None:
    said = refusal("--space=beta", "--lr=0.5")
    assert "lr 0.5 of the command, which the grid keeps, is not in the search space" in said


def test_all_that_is_searched_or_of_the_cell_may_be_given_as_nothing() -> None:
    """The API hands on what a command line would have left out."""
    base = Base(GraphCell, {"method": "hscl"})
    space = Space.of({"lr": {"type": "float", "low": 0.001, "high": 0.1}}).fitted(base)
    check_given({"lr": None, "epochs": 3}, space, base)
    with pytest.raises(InputError, match="lr is searched, and given too"):
        check_given({"lr": 0.01}, space, base)


# Files that belong elsewhere


def test_a_search_space_is_no_config(space_of: Any) -> None:
    said = refusal(f"--config={space_of(LR)}")
    assert said == "a file with a search space goes to --space FILE, not to --config"


def test_a_config_of_bench_is_told_what_a_search_takes(tmp_path: Path) -> None:
    config = tmp_path / "bench.yaml"
    config.write_text("dataset: [MUTAG, PTC]\n", encoding="utf-8")
    said = refusal(f"--config={config}")
    assert "dataset" in said
    assert said.endswith("a file of lists is for python -m gcl_hard.bench)")
