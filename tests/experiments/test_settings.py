"""Settings as text: what flags and YAML mean, and what is said of the rest."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.settings import known
from gcl_hard.experiments.values import as_seeds, reader, settings_from


@pytest.mark.parametrize(
    ("value", "seeds"),
    [
        ("3", (0, 1, 2)), ("0,1,2", (0, 1, 2)), ("7,", (7,)), ("4,2", (4, 2)), ("1", (0,)),
        (2, (0, 1)), ([7], (7,)), ((3, 1), (3, 1)), ("10000", tuple(range(10_000))),
        ("4294967295,", (2**32 - 1,)),
    ],
)  # fmt: skip
def test_seeds_are_a_count_or_a_list(value: Any, seeds: tuple[int, ...]) -> None:
    assert as_seeds(value) == seeds


@pytest.mark.parametrize(
    "value",
    ["0", "-1", "1,1", "-1,2", "x", "2.5", ",", "1,x", "", 0, -1, True, None, [], [1, 1], 2.5,
     "4294967296,", "99999999999999999999,", "10001", "4294967296"],
)  # fmt: skip
def test_seeds_that_are_neither_are_refused(value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"seed|count"):
        as_seeds(value)


def test_settings_are_as_a_config_has_them() -> None:
    stated = {"encodings": "wl", "c_grid": [1], "beta": 2, "epochs": 3, "temperature": None}
    settings = settings_from(CONFIGS["graphs"], stated, "here")
    assert settings == {"encodings": ("wl",), "c_grid": (1.0,), "beta": 2.0, "epochs": 3,
                     "temperature": None}  # fmt: skip
    assert list(settings) == list(stated)
    assert {k: type(v) for k, v in settings.items()} == {
        "encodings": tuple, "c_grid": tuple, "beta": float, "epochs": int,
        "temperature": type(None),
    }  # fmt: skip


def test_every_setting_has_a_help() -> None:
    for config in CONFIGS.values():
        assert all(field.setting.help for field in known(config).values())


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text("abcxyz:-", min_size=1, max_size=5).filter(lambda word: word.strip("-"))
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    float: NUMBERS, int: st.integers(), str: WORDS, bool: st.booleans(),
    Path: WORDS.map(Path),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_values_are_read_back_from_text_and_from_yaml(kind: Any, data: st.DataObject) -> None:
    values = tuple(data.draw(st.lists(VALUES[kind], min_size=1, max_size=4)))
    text = ",".join(map(str, values))
    stored = yaml.safe_load(yaml.safe_dump([str(v) if kind is Path else v for v in values]))
    read = reader(kind)
    assert [read(str(value)) for value in values] == [*values]
    assert [read(value) for value in stored] == [*values]
    for several in (reader(kind, several=True), reader(tuple[kind, ...] | None)):
        assert several(text) == several(f" {text}, ") == several(stored) == values
    assert reader(kind | None)("null") is None is reader(kind | None)(None)
    assert reader(kind | None, several=True)(None) == (None,)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, "1.5"), (int, True), (float, "x"), (bool, "maybe"), (bool, 1), (str, None),
     (str, ["a", "b"]), (float, {"a": 1}), (tuple[int, ...], ","), (tuple[float, ...], "1,x")],
)  # fmt: skip
def test_what_is_no_value_is_refused(kind: Any, value: object) -> None:
    with pytest.raises(InputError, match=r"expected|needed"):
        reader(kind)(value)
