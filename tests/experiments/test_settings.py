"""Settings as text: what flags and YAML mean, and what is said of the rest."""

from __future__ import annotations

from argparse import ArgumentTypeError
from dataclasses import fields
from typing import Any

import pytest

from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.flags import all_settings, settings_from
from gcl_hard.experiments.values import as_seeds
from gcl_hard.graphs.settings import GraphConfig


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


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ([1], r"\bsettings\b.* \[1\]$"),
        ({"lrr": 1}, r"'lrr'[^,]*\blr\b"),
        ({"protocol": "inductive"}, r"\bprotocol\b.*\brecipe\b"),
        ({"epochs": "many"}, r"\bepochs\b.*\bwhole\b.* many$"),
        ({"lr": "fast"}, r"\blr\b.*\bnumber\b.* fast$"),
        ({"virtual_node": "maybe"}, r"virtual-node\b.*\btrue\b.*\bfalse\b.* maybe$"),
        ({"readout": "boht"}, r"readout 'boht'[^,]*\bboth\b"),
        ({"c_grid": ["a"]}, r"\bc-grid\b.*\bnumbers\b.*'a'"),
        ({"c_grid": []}, r"\bc-grid\b.*\bvalue\b"),
    ],
)
def test_settings_that_mean_nothing_are_named_with_their_place(stated: Any, message: str) -> None:
    with pytest.raises(InputError, match=rf"^mine\.yaml\b.*{message}"):
        settings_from(CONFIGS["graphs"], stated, "mine.yaml")


def test_settings_that_are_left_out_are_refused() -> None:
    assert settings_from(CONFIGS["graphs"], {"protocol": "inductive"}, "here", without=()) == {
        "protocol": "inductive"
    }
    with pytest.raises(InputError, match=r"^here\b.*\blr\b.*\brecipe\b"):
        settings_from(CONFIGS["graphs"], {"lr": 1}, "here", without=("lr",))


def test_every_setting_has_a_help_and_the_domains_that_have_it() -> None:
    settings = all_settings()
    for domain, config in CONFIGS.items():
        for field in fields(config):
            domains, _, text, default = settings[field.name]
            assert domain in domains
            assert text
            if domains == (domain,):
                assert default == field.default
    assert {name for name in settings if "graphs" in settings[name][0]} == {
        field.name for field in fields(GraphConfig)
    }
