"""Search spaces: dimensions, what fits a method, grids, and YAML files."""

from __future__ import annotations

import re
import shlex
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FixedTrial
from torch import nn

from gcl_hard.commands.tune import parse_tune
from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.registry import EXPERIMENTS
from gcl_hard.experiments.searches import shipped
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.losses.methods import METHODS
from gcl_hard.tuning.space import (
    Base,
    Dimension,
    Space,
    as_number,
    default_space,
    read_space,
)
from tests.said import says

LR = {"type": "float", "low": 1e-4, "high": 0.1, "log": True}
BETA = {"type": "float", "low": 0.1, "high": 20, "log": True}
HARDENED = {**BETA, "when": {"method": ["hucl", "hcl", "hscl"]}}
COSINE = {"type": "float", "low": -1, "high": 0.5, "when": {"method": ["hscl-tau"]}}
THRESHOLDS = {"threshold_start": COSINE, "threshold_end": COSINE}


def graphs(method: str = "hscl", **settings: Any) -> Base:
    return Base(GraphConfig, {"method": method, **settings})


def images(method: str = "hscl", **settings: Any) -> Base:
    return Base(ImageConfig, {"method": method, **settings})


def own_encoder(**settings: Any) -> Base:
    """A base with an encoder of the user's own."""

    def make(n_features: int, **searched: Any) -> nn.Module:
        return nn.Linear(n_features, 4)

    return Base(GraphConfig, {"method": "hscl", **settings}, make)


def methods(*names: Any) -> dict[str, Any]:
    return {"type": "categorical", "choices": list(names)}


def refusal(space: Any, base: Base | None = None) -> str:
    with pytest.raises(InputError) as caught:
        Space.of(space).fitted(base or graphs())
    return str(caught.value)


def offers(message: str, got: str, nearest: str) -> bool:
    """Whether a message names an unknown word, the nearest, and then all that are known."""
    once = rf".*(?<![\w-]){nearest}(?![\w-])"
    return re.search(rf"'{re.escape(got)}'{once}{once}", message) is not None


# One dimension


def dimension_of(text: str, name: str = "lr") -> Dimension:
    """A dimension as a line of a file states it."""
    return Dimension.of(name, yaml.safe_load(text))


def line_refusal(text: str, name: str = "lr") -> str:
    with pytest.raises(InputError) as caught:
        dimension_of(text, name)
    return str(caught.value)


# What is understood


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{type: float, low: 0.1, high: 10}", FloatDistribution(0.1, 10.0)),
        ("{type: float, low: 0.1, high: 10, log: true}", FloatDistribution(0.1, 10.0, log=True)),
        ("{type: float, low: -1, high: 1, step: 0.25}", FloatDistribution(-1.0, 1.0, step=0.25)),
        ("{type: float, low: 2, high: 2}", FloatDistribution(2.0, 2.0)),
        ("{type: int, low: 1, high: 5}", IntDistribution(1, 5)),
        ("{type: int, low: 1, high: 5, step: 2}", IntDistribution(1, 5, step=2)),
        ("{type: int, low: 8, high: 512, log: true}", IntDistribution(8, 512, log=True)),
        ("{type: categorical, choices: [sum, mean]}", CategoricalDistribution(("sum", "mean"))),
        ("{type: categorical, choices: [null, 0.5]}", CategoricalDistribution((None, 0.5))),
        ("{type: categorical, choices: [true, false]}", CategoricalDistribution((True, False))),
    ],
)
def test_a_line_of_a_file_is_a_distribution(text: str, meant: Any) -> None:
    dimension = dimension_of(text)
    assert dimension.distribution == meant
    assert (dimension.name, dimension.methods) == ("lr", ())
    assert dimension.numeric == (not isinstance(meant, CategoricalDistribution))


def test_numbers_that_yaml_takes_for_words_are_numbers() -> None:
    assert yaml.safe_load("1e-4") == "1e-4"  # YAML 1.1 wants 1.0e-4
    dimension = dimension_of("{type: float, low: 1e-4, high: 1e-1, log: true}")
    assert dimension.distribution == FloatDistribution(0.0001, 0.1, log=True)
    assert dimension_of("{type: int, low: 1e0, high: 1e2}").distribution == IntDistribution(1, 100)
    assert dimension_of("{type: float, low: 0, high: 1, step: 1e-1}").distribution.step == 0.1


@pytest.mark.parametrize(
    ("when", "methods"),
    [("[hucl, hscl]", ("hucl", "hscl")), ("hscl", ("hscl",)), ("[hscl-tau]", ("hscl-tau",))],
)
def test_when_names_methods(when: str, methods: tuple[str, ...]) -> None:
    dimension = dimension_of(f"{{type: float, low: 0, high: 1, when: {{method: {when}}}}}")
    assert dimension.methods == methods


# What is refused


def test_an_unknown_type_gets_the_nearest() -> None:
    message = line_refusal("{type: flaot, low: 0, high: 1}")
    assert offers(message, "flaot", "float")
    assert says(message, "type", "lr", "categorical")
    assert says(line_refusal("{low: 0, high: 1}"), "type", "lr", "'None'", "float", "categorical")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("{type: float, low: 10, high: 0.1}", ["low <= high", "high=0.1"]),
        ("{type: float, low: 0, high: 1, log: true}", ["low > 0", "log=True"]),
        ("{type: int, low: 1, high: 5, step: 0.5}", ["step", "whole", 0.5]),
        ("{type: float, low: 0, high: .inf}", ["high", "finite", "inf"]),
        ("{type: float, low: 0, hihg: 1}", ["hihg"]),
        ("{type: categorical, choices: [1], low: 0}", ["low"]),
        ("{type: float, high: 1}", ["low"]),
        ("{type: float, low: a, high: 1}", ["number", "str"]),
        ("{type: float, low: .nan, high: 1}", ["low", "finite", "nan"]),
        ("{type: int, low: 1.5, high: 2}", ["low", "whole", 1.5]),
        ("{type: categorical, choices: []}", ["choices"]),
        ("{type: categorical, choices: sum}", ["choices", "list", "'sum'"]),
        ("{type: categorical, choices: [[1], [2]]}", ["choices", "[1]"]),
        ("{type: float, low: 0, high: 1, when: hscl}", ["when", "{method: [names]}", "'hscl'"]),
        (
            "{type: float, low: 0, high: 1, when: {dataset: PTC}}",
            ["when", "{method: [names]}", "{'dataset': 'PTC'}"],
        ),
        ("{type: float, low: 0, high: 1, when: {method: []}}", ["when", "method", "leave"]),
    ],
)
def test_a_refusal_names_the_setting_and_what_is_wrong(text: str, facts: list[Any]) -> None:
    message = line_refusal(text)
    assert message.startswith("lr: ")
    assert says(message, *facts)


@pytest.mark.parametrize("choices", [[1, 2.0, 1.0], [True, 1], [0, 0.5, False], ["sum", "sum"]])
def test_equal_choices_which_optuna_stores_as_one_are_refused(choices: list[Any]) -> None:
    for description in (choices, CategoricalDistribution(choices)):
        with pytest.raises(InputError, match=r"\blr\b.*\bchoices\b.*\bdifferent\b"):
            Dimension.of("lr", description)


@pytest.mark.parametrize("choices", [[1, "1", 2.5], [True, False, None], [0, "0", None]])
def test_what_is_drawn_is_what_optuna_stores(choices: list[Any]) -> None:
    space = Space((Dimension.of("encoder.width", choices),))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [space.draw(study.ask(), own_encoder()) for _ in range(20)]
    assert [*map(repr, drawn)] == [repr(trial.params) for trial in study.trials]


# Values of a grid


def test_a_value_inside_is_held_as_it_is_drawn() -> None:
    assert dimension_of("{type: float, low: 0, high: 10}").checked(10) == 10.0
    assert type(dimension_of("{type: float, low: 0, high: 10}").checked(10)) is float
    assert type(dimension_of("{type: int, low: 0, high: 10}").checked(3.0)) is int
    assert dimension_of("{type: categorical, choices: [sum, null]}").checked(None) is None


@pytest.mark.parametrize("value", [-0.1, 10.5, "sum", None, True, float("nan")])
def test_a_value_outside_is_refused_with_the_bounds(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        dimension_of("{type: float, low: 0, high: 10}").checked(value)
    assert says(str(caught.value), f"lr {value}", "grid", 0.0, 10.0)
    assert not says(str(caught.value), "command")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{type: int, low: 1, high: 5}", 2.5),
        ("{type: int, low: 1, high: 5, step: 2}", 2),
        ("{type: float, low: 0, high: 1, step: 0.5}", 0.3),
        ("{type: float, low: 0.1, high: 0.7, step: 0.2}", 0.4),
    ],
)
def test_a_value_between_steps_is_refused(text: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"\blr {value} .*\bgrid\b"):
        dimension_of(text).checked(value)


def test_every_step_is_held_whatever_rounding_makes_of_it() -> None:
    dimension = dimension_of("{type: float, low: 0.1, high: 0.7, step: 0.1}")
    for value in (0.1, 0.2, 0.3, 0.1 + 0.2, 0.4, 0.5, 0.6, 0.7):
        assert dimension.checked(value) == value


# Numbers that are written as words


@pytest.mark.parametrize("word", ["e5", "1e", "1e-", "inf", "nan", "1.5", "1e5 ", "x1e5", ""])
def test_other_words_stay_words(word: str) -> None:
    assert as_number(word) == word


# Steps that do not lead to the end


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("{type: int, low: 1, high: 6, step: 2}", "5"),
        ("{type: float, low: 0, high: 1, step: 0.3}", "0.9"),
        ("{type: float, low: -1, high: 0, step: 0.4}", "-0.2"),
    ],
)
def test_a_range_that_steps_do_not_fill_is_refused_with_the_last_step(text: str, last: str) -> None:
    assert says(line_refusal(text, "layers"), "layers", "step", last)


def names(space: Space) -> list[str]:
    return [dimension.name for dimension in space.dimensions]


# What a file may state


@pytest.mark.parametrize("description", [{}, {"space": {}}, {"space": None}, {"grid": "paper"}])
def test_an_empty_space_is_refused_with_an_example(description: Any) -> None:
    assert says(refusal(description), "empty", "{beta:")


@pytest.mark.parametrize("description", [[LR], "beta", None, 3])
def test_what_is_no_mapping_is_refused(description: Any) -> None:
    assert says(refusal(description), "mapping", repr(description))


def test_an_unknown_key_beside_the_space_gets_the_nearest() -> None:
    assert offers(refusal({"space": {"lr": LR}, "gird": "paper"}), "gird", "grid")
    assert offers(refusal({"spcae": {"lr": LR}, "grid": "paper"}), "spcae", "space")


@pytest.mark.parametrize("grid", ["papers", [1, 2], {"lr": 0.1}, {"lr": []}, 3])
def test_a_grid_is_paper_or_lists(grid: Any) -> None:
    message = refusal({"space": {"lr": LR}, "grid": grid})
    assert says(message, "grid", "paper", "lists", repr(grid))


# What fits a method


def test_dimensions_of_other_methods_are_left_out() -> None:
    space = Space.of({"lr": LR, "beta": HARDENED, **THRESHOLDS})
    assert names(space.fitted(graphs("hscl"))) == ["lr", "beta"]
    assert names(space.fitted(graphs("hscl-tau"))) == ["lr", *THRESHOLDS]
    assert names(space.fitted(graphs("scl"))) == ["lr"]


def test_nothing_left_is_refused_with_what_there_was() -> None:
    message = refusal({"beta": HARDENED, **THRESHOLDS}, graphs("ucl"))
    assert says(message, "ucl", "beta, threshold_start, threshold_end")


@pytest.mark.parametrize(
    ("name", "right"),
    [("betta", "beta"), ("Beta", "beta"), ("threshold-start", "threshold_start"), ("lr ", "lr")],
)
def test_an_unknown_setting_gets_the_nearest(name: str, right: str) -> None:
    assert offers(refusal({name: LR}), name, right)


FIXED = (
    "dataset", "protocol", "features", "folds", "train_share", "subset", "pretrain_split",
    "probe_split", "size", "classes", "label_noise",
)  # fmt: skip
"""Settings that decide data or scores, so that scores of different values say nothing."""


@pytest.mark.parametrize("name", FIXED)
def test_data_and_scores_cannot_be_searched(name: str) -> None:
    base = graphs() if name in GraphConfig.__dataclass_fields__ else images()
    message = refusal({name: methods("a", "b")}, base)
    assert says(message, name, "searched", "scores")


@pytest.mark.parametrize(
    ("method", "name"), [("ucl", "beta"), ("hscl-tau", "beta"), ("hscl", "threshold_start")]
)
def test_a_setting_that_the_method_lacks_is_refused_with_when(method: str, name: str) -> None:
    within = {"type": "float", "low": 0.1, "high": 0.5}
    message = refusal({name: within}, graphs(method))
    assert says(message, method, name.replace("_", "-"), "when: {method: [names]}")


@pytest.mark.parametrize(
    ("name", "low", "high", "facts"),
    [
        ("lr", 0, 0.1, ["lr", "above", 0, "0.0"]),
        ("weight_decay", -1, 0, ["weight-decay", 0, "-1.0"]),
        ("class_prior", 0.1, 0.5, [0.1, "hscl-tau", "label-aware"]),
        ("temperature", 0.1, 1, ["temperature", "JSD", "infonce"]),
    ],
)
def test_an_end_that_no_configuration_may_have_is_refused(
    name: str, low: float, high: float, facts: list[Any]
) -> None:
    message = refusal({name: {"type": "float", "low": low, "high": high}}, graphs("hscl-tau"))
    assert says(message, *facts)


def test_an_end_is_checked_for_every_method_that_has_it() -> None:
    prior = {"type": "float", "low": 0.1, "high": 0.5, "when": {"method": ["dcl", "scl"]}}
    space = {"method": methods("dcl", "scl"), "class_prior": prior}
    assert says(refusal(space, graphs("dcl")), 0.1, "scl", "label-aware")


def test_unknown_methods_get_the_nearest() -> None:
    lr = {**LR, "when": {"method": ["hscl", "hslc"]}}
    message = refusal({"lr": lr})
    assert offers(message, "hslc", "hscl")
    assert says(message, "method", "lr", "'hslc'")
    both = {"method": methods("ucl", "hslc"), "lr": LR}
    assert offers(refusal(both), "hslc", "hscl")
    floor = {"method": methods("hscl", "untrained"), "lr": LR}
    assert says(refusal(floor), "method", "'untrained'", "ucl", "hscl-tau")


def test_settings_of_an_own_encoder_need_one() -> None:
    space = {"lr": LR, "encoder.width": {"type": "int", "low": 8, "high": 64}}
    assert says(refusal(space), "encoder.width", "encoder=MyEncoder")
    fitted = Space.of(space).fitted(own_encoder())
    assert names(fitted) == ["lr", "encoder.width"]
    assert offers(refusal({"encoderwidth": LR}, own_encoder()), "encoderwidth", "encoder")


def test_settings_of_an_own_encoder_go_to_it_alone() -> None:
    drawn = {"beta": 3, "encoder.width": 16, "encoder.lr": 1}
    candidate = own_encoder(lr=0.02).candidate(7, drawn)
    assert isinstance(candidate.make, partial)
    assert candidate.make.keywords == {"width": 16, "lr": 1}
    encoder = candidate.config.encoder
    assert candidate.number == 7
    assert candidate.config == GraphConfig(method="hscl", beta=3, lr=0.02, encoder=encoder)
    assert encoder.partition("@")[0] == "make"


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ("layers", "two"), ("layers", 2.0), ("layers", True), ("layers", None), ("lr", "fast"),
        ("lr", False), ("detach_weights", "yes"), ("detach_weights", 1), ("readout", 1),
        ("readout", None), ("method", None), ("method", 3),
    ],
)  # fmt: skip
def test_choices_are_values_of_the_setting(name: str, choice: Any) -> None:
    message = refusal({"beta": BETA, name: methods(choice)})
    assert says(message, name.replace("_", "-")) or says(message, name)
    for kind in ("float", "int"):
        if name != "lr" and (name, kind) != ("layers", "int") and name != "method":
            refusal({name: {"type": kind, "low": 1, "high": 2}})


@pytest.mark.parametrize("floor", ["untrained", "majority"])
def test_floors_have_nothing_to_search(floor: str) -> None:
    assert says(refusal({"lr": LR}, graphs(floor)), floor, "baseline")
    with pytest.raises(InputError, match=rf"\b{floor}\b.*\bbaseline\b"):
        _ = graphs(floor).config


# What is drawn


def test_a_trial_has_what_its_method_has() -> None:
    stated = {"lr": LR, "beta": HARDENED, "method": methods("hscl", "hscl-tau", "ucl")}
    space = Space.of({**stated, **THRESHOLDS}).fitted(graphs("ucl"))
    assert names(space)[0] == "method"  # it decides about the others
    for method, has in {
        "ucl": {"lr": 0.01},
        "hscl": {"lr": 0.01, "beta": 2.0},
        "hscl-tau": {"lr": 0.01, "threshold_start": -0.5, "threshold_end": 0.1},
    }.items():
        whole = {"method": method, **has}
        assert space.draw(FixedTrial(whole), graphs("ucl")) == whole  # asked for nothing else
        assert graphs("ucl").config_with(whole) == GraphConfig(**whole)  # type: ignore[arg-type]


def test_optuna_knows_the_dimensions_as_they_are_stated() -> None:
    width = {"type": "int", "low": 8, "high": 64, "step": 8}
    depth = {"type": "int", "low": 1, "high": 100, "log": True}
    drop = {"type": "float", "low": 0, "high": 1, "step": 0.25}
    stated = {"dim": width, "layers": depth, "weight_decay": drop, "lr": LR}
    space = Space.of({**stated, "readout": methods("sum", "mean")}).fitted(graphs())
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    for _ in range(20):
        trial = study.ask()
        values = space.draw(trial, graphs())
        assert values == trial.params
        assert trial.distributions == {d.name: d.distribution for d in space.dimensions}
        assert values["dim"] % 8 == 0
        assert values["weight_decay"] * 4 % 1 == 0
        study.tell(trial, 0.0)


# What is tried first


def grid(space: dict[str, Any], stated: Any, base: Base) -> list[dict[str, Any]]:
    return Space.of({"space": space, "grid": stated}).fitted(base).grid_of(base)


def test_a_grid_is_whole_with_everything_else_as_the_command_has_it() -> None:
    space = {"lr": LR, "beta": BETA, "layers": methods(2, 3, 5), "readout": methods("sum", "mean")}
    tried = grid(space, "paper", graphs(lr=0.03, readout="mean"))
    assert tried == [
        {"lr": 0.03, "beta": beta, "layers": 3, "readout": "mean"} for beta in (1, 2, 10)
    ]


def test_a_stated_grid_has_all_combinations() -> None:
    tried = grid({"lr": LR, "beta": BETA}, {"beta": [1, 4], "lr": [0.001, 0.01]}, graphs())
    assert tried == [{"lr": lr, "beta": b} for lr, b in product((0.001, 0.01), (1, 4))]


def test_every_searched_method_has_its_own_grid() -> None:
    stated = {"method": methods("ucl", "hscl", "hscl-tau"), "beta": HARDENED, **THRESHOLDS}
    tried = grid({**stated, "lr": LR}, "paper", graphs("hscl"))
    assert [g["method"] for g in tried] == ["hscl"] * 3 + ["hscl-tau"] * 9
    assert {tuple(g) for g in tried} == {
        ("method", "beta", "lr"), ("method", *THRESHOLDS, "lr"),
    }  # fmt: skip


def test_settings_of_an_own_encoder_are_drawn_also_where_a_grid_is() -> None:
    space = {"beta": BETA, "encoder.width": {"type": "int", "low": 8, "high": 64}}
    fitted = Space.of({"space": space, "grid": "paper"}).fitted(own_encoder())
    assert fitted.grid_of(graphs()) == [{"beta": 1}, {"beta": 2}, {"beta": 10}]


def test_a_grid_outside_its_dimension_is_refused_before_anything_runs() -> None:
    narrow = {"type": "float", "low": 0.1, "high": 5}
    message = refusal({"space": {"beta": narrow}, "grid": "paper"})
    assert says(message, "beta 10.0", "grid", 0.1, 5.0)
    message = refusal({"space": {"beta": BETA, "lr": LR}, "grid": "paper"}, graphs(lr=0.5))
    assert says(message, "lr 0.5", "command", "grid", 0.0001, 0.1)
    message = refusal({"space": {"layers": methods(1, 2)}, "grid": {"layers": [1, 3]}})
    assert says(message, "layers 3", "grid", "1, 2")


@pytest.mark.parametrize("name", ["betta", "dim"])
def test_a_name_of_a_grid_that_is_no_dimension_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=rf"\bgrid '{name}'.*\bbeta\b"):
        grid({"beta": BETA}, {name: [1, 2]}, graphs())


def test_a_name_of_a_grid_that_another_method_has_is_passed_over() -> None:
    space = {"lr": LR, "beta": HARDENED}
    assert grid(space, {"beta": [1, 2]}, graphs("ucl")) == []
    assert grid(space, {"beta": [1], "lr": [0.01, 0.02]}, graphs("ucl")) == [
        {"lr": 0.01}, {"lr": 0.02},
    ]  # fmt: skip


def test_a_grid_that_names_a_method_tries_no_other() -> None:
    space = {"method": methods("ucl", "hscl"), "lr": LR, "beta": HARDENED}
    tried = grid(space, {"method": ["hscl"], "beta": [1, 4]}, graphs())
    assert tried == [{"method": "hscl", "lr": 0.01, "beta": beta} for beta in (1, 4)]


def test_a_value_of_a_grid_is_the_choice_itself() -> None:
    (values,) = grid({"layers": methods(2, 3)}, {"layers": [2.0]}, graphs())
    assert type(values["layers"]) is int
    with pytest.raises(InputError, match=r"\blayers True\b.*\bgrid\b.*\b1, 2\b"):
        grid({"layers": methods(1, 2)}, {"layers": [True]}, graphs())


# Files


FOLDER = Path(__file__).parents[2] / "configs" / "search"
SHIPPED = ("beta", "full", "images", "tau-schedule")
THRESHOLD = {"threshold_start", "threshold_end"}
MOVES = (
    ("beta", "graphs"), ("beta", "images"), ("tau-schedule", "graphs"), ("tau-schedule", "images"),
    ("full", "graphs"), ("images", "images"),
)  # fmt: skip


def read_text(folder: Path, text: str) -> Any:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return read_space(str(path), GraphConfig)


def test_the_shipped_files_are_known_by_name() -> None:
    assert {p.stem for p in FOLDER.iterdir()} == {*shipped()} == {*SHIPPED}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "domain"), MOVES)
def test_a_shipped_file_fits_every_method(name: str, domain: str, method: str) -> None:
    base = Base(CONFIGS[domain], {"method": method})
    space = read_space(name, CONFIGS[domain]).fitted(base)
    hardened = METHODS[method].hardening == "exponential" and name != "tau-schedule"
    searched = {d.name for d in space.dimensions}
    assert ("lr" in searched, "beta" in searched) == (True, hardened)
    assert (searched & THRESHOLD != set()) == (method == "hscl-tau" and name != "beta")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    for _ in range(5):
        values = space.draw(study.ask(), base)
        config = base.config_with(values)
        assert all(getattr(config, name) == value for name, value in values.items())


@pytest.mark.parametrize(("name", "domain"), MOVES)
def test_the_paper_s_values_are_tried_first(name: str, domain: str) -> None:
    tried: dict[str, list[dict[str, float]]] = {}
    for method in METHODS:
        base = Base(CONFIGS[domain], {"method": method, "lr": 0.002})
        space = read_space(name, base.kind).fitted(base)
        grid = space.grid_of(base)
        assert all(set(values) == {d.name for d in space.dimensions} for values in grid)
        assert all(values["lr"] == 0.002 for values in grid)
        keys = ("beta", *sorted(THRESHOLD))
        tried[method] = [{k: values[k] for k in keys if k in values} for values in grid]
    betas = [1, 2, 10] if domain == "graphs" else [0.1, 0.5, 1, 2, 5]
    hardened = [] if name == "tau-schedule" else [{"beta": b} for b in betas]
    starts_ends = product((-0.5, -0.3, -0.1), (-0.1, 0, 0.1))
    nine = [{"threshold_end": end, "threshold_start": start} for start, end in starts_ends]
    assert tried == {name: [] for name in METHODS} | {
        "ucl": [], "dcl": [], "hucl": hardened, "hcl": hardened, "scl": [], "hscl": hardened,
        "hscl-tau": [] if name == "beta" else nine, "bcl": [],
    }  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_the_command_above_a_file_runs_it(name: str) -> None:
    lines = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    (command,) = (line for line in lines if "python -m" in line)
    mark, python, _, entry, *arguments = shlex.split(command)
    assert (mark, python, entry) == ("#", "python", "gcl_hard.tune")
    options = parse_tune(arguments)
    assert options.space == name
    assert options.search_space == read_space(name, options.base.kind).fitted(options.base)


@pytest.mark.parametrize(
    ("domain", "method"),
    [(domain, method) for domain in CONFIGS for method in EXPERIMENTS[domain]().methods],
)
def test_every_method_has_a_usual_space(domain: str, method: str) -> None:
    config = CONFIGS[domain](method=method)  # type: ignore[call-arg]
    assert default_space(config) == ("tau-schedule" if method == "hscl-tau" else "beta")


# The user's own


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.yaml\b.*\bfile\b"):
        read_space(str(tmp_path / "gone.yaml"), GraphConfig)
    with pytest.raises(InputError, match=r"v1\.0\b.*\bfile\b"):
        read_space(str(tmp_path / "v1.0"), GraphConfig)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ["empty", "{beta:"]),
        ("# nothing\n", ["empty", "{beta:"]),
        ("space:\n", ["empty", "{beta:"]),
        ("- beta\n- lr\n", ["mapping", "['beta', 'lr']"]),
        ("space: {lr: {type: float, low: 1, high: 0}}", ["lr", "low <= high"]),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(
    tmp_path: Path, text: str, facts: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        read_text(tmp_path, text)
    assert says(str(caught.value), str(tmp_path / "mine.yaml"), *facts)
