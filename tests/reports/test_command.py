"""The command line of the figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcl_hard.errors import InputError
from gcl_hard.reports.command import FIGURES, OWN_FLAGS, figures_parser, parse_figures

PLAIN = ["fig4", "a", "b.json", "-o", "out"]


def refusal(*arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_figures(arguments)
    return str(caught.value)


def test_what_is_given_is_read() -> None:
    options = parse_figures([*PLAIN, "--only", "method=ucl,scl", "--only=beta=2", "--name", "mine"])
    assert (options.figure, options.output, options.name) == ("fig4", Path("out"), "mine")
    assert options.results == [Path("a"), Path("b.json")]
    assert options.only == {"method": ["ucl", "scl"], "beta": ["2"]}
    assert options.own == {}


def test_flags_may_stand_anywhere() -> None:
    plain = parse_figures(PLAIN)
    assert parse_figures(["-o", "out", "fig4", "a", "b.json"]) == plain
    assert parse_figures(["fig4", "a", "--output=out", "b.json"]) == plain


def test_a_figures_own_flags_are_its_own() -> None:
    given = ["--seed=3", "--anchor", "7", "--projection=tsne", "--setting", "-0.05"]
    options = parse_figures(["fig3", "a", "-o", "b", *given])
    assert options.own == {"seed": 3, "anchor": 7, "projection": "tsne", "setting": -0.05}
    assert refusal(*PLAIN, "--anchor=0") == "--anchor is of fig3, and not of fig4"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "which figure? one of fig1"),
        (["fig44", "a", "-o", "b"], "unknown figure 'fig44'; did you mean fig4"),
        (["fig4", "-o", "b"], "fig4 of which results?"),
        (["fig4", "a"], "where to? give a folder: -o DIR"),
        ([*PLAIN, "--onyl", "x=y"], "unknown flag '--onyl'; did you mean --only"),
        ([*PLAIN, "--onyl=x"], "unknown flag '--onyl'; did you mean --only"),
        ([*PLAIN, "--only"], "--only: expected one argument"),
        ([*PLAIN, "--name", "a/b"], "--name is a file's name without a folder, got 'a/b'"),
        ([*PLAIN, "--name", ""], "--name is a file's name"),
        (["fig3", "a", "-o", "b", "--seed", "x"], "--seed: expected a whole number, got x"),
        (["fig3", "a", "-o", "b", "--setting", "x"], "--setting: expected a number, got x"),
    ],
)
def test_what_cannot_be_read_is_refused(arguments: list[str], said: str) -> None:
    assert said in refusal(*arguments)


def test_help_names_every_figure_and_flag() -> None:
    text = figures_parser().format_help()
    for name, words in FIGURES.items():
        assert f"{name} " in text
        assert words in text
    assert all(f"--{name} " in text for flags in OWN_FLAGS.values() for name in flags)
    assert "python -m gcl_hard.figures fig4 results -o figures" in text
