"""One searched setting: what is understood, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from gcl_hard.errors import InputError
from gcl_hard.tuning.dimension import Dimension, as_number


def of(text: str, name: str = "lr") -> Dimension:
    """A dimension as a line of a file states it."""
    return Dimension.of(name, yaml.safe_load(text))


def refusal(text: str, name: str = "lr") -> str:
    with pytest.raises(InputError) as caught:
        of(text, name)
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
    found = of(text)
    assert found.distribution == meant
    assert (found.name, found.methods) == ("lr", ())
    assert found.numeric == (not isinstance(meant, CategoricalDistribution))


def test_numbers_that_yaml_takes_for_words_are_numbers() -> None:
    assert yaml.safe_load("1e-4") == "1e-4"  # YAML 1.1 wants 1.0e-4
    found = of("{type: float, low: 1e-4, high: 1e-1, log: true}")
    assert found.distribution == FloatDistribution(0.0001, 0.1, log=True)
    assert of("{type: int, low: 1e0, high: 1e2}").distribution == IntDistribution(1, 100)
    assert of("{type: float, low: 0, high: 1, step: 1e-1}").distribution.step == 0.1


def test_whole_bounds_of_floats_are_floats_and_of_ints_ints() -> None:
    assert [type(end) for end in of("{type: float, low: 1, high: 2}").ends] == [float, float]
    assert [type(end) for end in of("{type: int, low: 1.0, high: 2.0}").ends] == [int, int]


@pytest.mark.parametrize(
    ("when", "methods"),
    [("[hucl, hscl]", ("hucl", "hscl")), ("hscl", ("hscl",)), ("[hscl-tau]", ("hscl-tau",))],
)
def test_when_names_methods(when: str, methods: tuple[str, ...]) -> None:
    found = of(f"{{type: float, low: 0, high: 1, when: {{method: {when}}}}}")
    assert found.methods == methods


# What is refused


@pytest.mark.parametrize("given", [[1, 2], "0.1 to 10", 3, None])
def test_what_is_no_mapping_is_shown_one(given: Any) -> None:
    with pytest.raises(InputError, match=r"beta: expected a mapping such as \{type: float"):
        Dimension.of("beta", given)


def test_an_unknown_type_gets_the_nearest() -> None:
    said = refusal("{type: flaot, low: 0, high: 1}")
    assert "type of lr 'flaot'; did you mean float?" in said
    assert "categorical" in said
    assert "type of lr 'None'" in refusal("{low: 0, high: 1}")


def test_an_unknown_key_gets_the_nearest_of_its_type() -> None:
    assert "key of lr 'hihg'; did you mean high?" in refusal("{type: float, low: 0, hihg: 1}")
    assert "key of lr 'choice'; did you mean choices?" in refusal("{type: categorical, choice: []}")
    assert "key of lr 'low'" in refusal("{type: categorical, choices: [1], low: 0}")
    assert "key of lr 'choices'" in refusal("{type: int, low: 0, high: 1, choices: [1]}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{type: float, low: 10, high: 0.1}", "low 10 is above high 0.1; exchange them"),
        ("{type: int, low: 5, high: 1}", "low 5 is above high 1"),
        ("{type: float, low: 0, high: 1, log: true}", "log scale begins above 0, got low 0"),
        ("{type: float, low: -1, high: 1, log: true}", "log scale begins above 0, got low -1"),
        ("{type: int, low: 0, high: 8, log: true}", "log scale begins above 0, got low 0"),
        ("{type: float, low: 0, high: 1, log: 10}", "log is true or false, got 10"),
        ("{type: float, low: 0, high: 1, step: 0}", "step is above 0"),
        ("{type: float, low: 0, high: 1, step: -0.1}", "step is above 0"),
        ("{type: float, low: 1, high: 2, step: 0.1, log: true}", "not on a log scale"),
        ("{type: int, low: 1, high: 5, step: 0.5}", "step must be a whole number, got 0.5"),
        ("{type: float, high: 1}", "low must be a finite number, got None"),
        ("{type: float, low: 0}", "high must be a finite number, got None"),
        ("{type: float, low: 0, high: .inf}", "high must be a finite number, got inf"),
        ("{type: float, low: .nan, high: 1}", "low must be a finite number, got nan"),
        ("{type: float, low: small, high: 1}", "low must be a finite number, got 'small'"),
        ("{type: float, low: true, high: 2}", "low must be a finite number, got True"),
        ("{type: float, low: [0], high: 2}", "low must be a finite number"),
        ("{type: int, low: 1.5, high: 2}", "low must be a whole number, got 1.5"),
        ("{type: int, low: 1, high: 1e400}", "high must be a whole number"),
        ("{type: categorical}", "choices must be a list of at least one value, got None"),
        ("{type: categorical, choices: []}", "choices must be a list of at least one value"),
        ("{type: categorical, choices: sum}", "choices must be a list"),
        ("{type: categorical, choices: [[1], [2]]}", "choices are numbers, words"),
        ("{type: float, low: 0, high: 1, when: hscl}", "when is {method: [names]}, got 'hscl'"),
        ("{type: float, low: 0, high: 1, when: {dataset: PTC}}", "when is {method: [names]}"),
        ("{type: float, low: 0, high: 1, when: {}}", "when is {method: [names]}"),
        ("{type: float, low: 0, high: 1, when: {method: []}}", "when names no method; leave it"),
    ],
)
def test_a_refusal_names_the_setting_and_what_is_wrong(text: str, said: str) -> None:
    found = refusal(text)
    assert found.startswith("lr: ")
    assert said in found


# Values of a grid


def test_a_value_inside_is_held_as_it_is_drawn() -> None:
    assert of("{type: float, low: 0, high: 10}").held(10) == 10.0
    assert type(of("{type: float, low: 0, high: 10}").held(10)) is float
    assert type(of("{type: int, low: 0, high: 10}").held(3.0)) is int
    assert of("{type: categorical, choices: [sum, null]}").held(None) is None


@pytest.mark.parametrize("value", [-0.1, 10.5, "sum", None, True, float("nan")])
def test_a_value_outside_is_refused_with_the_bounds(value: Any) -> None:
    with pytest.raises(InputError, match=r"lr .* of the grid is not in .* 0\.0 to 10\.0: widen"):
        of("{type: float, low: 0, high: 10}").held(value)


def test_a_word_that_is_no_choice_is_refused_with_the_choices() -> None:
    with pytest.raises(InputError, match=r"readout max of the grid .* has sum, mean: widen"):
        of("{type: categorical, choices: [sum, mean]}", "readout").held("max")


def test_a_value_that_the_grid_leaves_to_the_command_is_called_so() -> None:
    said = r"lr 20 of the command, which the grid keeps, is not in .* leave the grid out"
    with pytest.raises(InputError, match=said):
        of("{type: float, low: 0, high: 10}").held(20, given=False)


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
    with pytest.raises(InputError, match=rf"lr {value} of the grid is not in the search space"):
        of(text).held(value)


def test_every_step_is_held_whatever_rounding_makes_of_it() -> None:
    found = of("{type: float, low: 0.1, high: 0.7, step: 0.1}")
    for value in (0.1, 0.2, 0.3, 0.1 + 0.2, 0.4, 0.5, 0.6, 0.7):
        assert found.held(value) == value


# Numbers that are written as words


@pytest.mark.parametrize(
    ("word", "number"), [("1e-4", 1e-4), ("-2E3", -2000.0), ("+1.5e0", 1.5), ("3.e1", 30.0)]
)
def test_exponents_are_numbers(word: str, number: float) -> None:
    assert yaml.safe_load(word) in (word, number)
    assert as_number(word) == number


@pytest.mark.parametrize("word", ["e5", "1e", "1e-", "inf", "nan", "1.5", "1e5 ", "x1e5", ""])
def test_other_words_stay_words(word: str) -> None:
    assert as_number(word) == word


def test_numbers_among_choices_that_yaml_takes_for_words_are_numbers() -> None:
    assert of("{type: categorical, choices: [0, 1e-6]}", "weight_decay").ends == (0, 1e-6)


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
    said = refusal(text, "layers")
    assert "layers: step " in said
    assert said.endswith(f"the last one would be at {last}")
