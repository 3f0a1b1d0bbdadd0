"""Writes the reference page of settings from their declarations: ``python docs/settings.py``."""

from __future__ import annotations

from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from gcl_hard.core.setting import Field
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.settings import flag, known
from gcl_hard.losses.methods import SETTINGS

PAGE = Path(__file__).with_name("settings.md")
PARTS = {
    "data": "Data", "split": "Folds and splits", "encoder": "The encoder", "gin": "The GIN",
    "loss": "Loss and method", "views": "Views", "training": "Training", "probe": "The probe",
}  # fmt: skip
HEAD = (
    "# Settings\n\n"
    "Every setting of `python -m gcl_hard.bench` and `tune`, of `gcl_hard.evaluate` and `study`, "
    "and of the files given as `--config`, where a dash of a flag is an underscore. This page is "
    "written from their declarations by `python docs/settings.py`.\n\n"
    "A setting that does not apply, such as β of a method without one, is ignored; a value out of "
    "range is an error also there. *Several*: `bench` takes a list, `a,b`, and runs all "
    "combinations. *Chosen*: `--select true` chooses between the values inside the training data. "
    "*Search*: what `tune --space NAME` draws it from.\n"
)


def kind_of(one: Field) -> str:
    """Type and range of a setting, in words."""
    kind = one.kinds[0]
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        inside = get_args(kind)[0]
        return "names" if inside is str else "numbers"
    own = one.setting
    words = {bool: "true or false", int: "whole number", float: "number", str: "name"}[kind]
    bounds = (("≥", own.least), (">", own.above), ("≤", own.most), ("<", own.below))
    return " ".join([words, *(f"{sign} {value:g}" for sign, value in bounds if value is not None)])


def default_of(one: Field) -> str:
    """The default, — where it depends on other settings or on the data."""
    default = SETTINGS[one.name].default if one.name in SETTINGS else one.default
    if default is None or default is NoneType:
        return "—"
    if isinstance(default, tuple):
        return ", ".join(map(written, default))
    return written(default)


def written(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def space_of(one: Field) -> str:
    """What a search draws the setting from."""
    space = one.setting.space
    if not space:
        return ""
    if isinstance(space, list):
        return ", ".join(map(str, space))
    return f"{space[0]:g} … {space[1]:g}" + ", log" * ("log" in space)


def row(one: Field) -> str:
    """A line of the table."""
    own = one.setting
    text = own.help.replace("|", r"\|")
    if one.name == "method":
        text = "[methods and baselines](methods.md)"
    uses = ["several"] * own.several + ["chosen"] * own.chosen
    uses += [f"search {space_of(one)}"] if own.space else []
    cells = (
        f"`--{flag(one.name)}`", kind_of(one), default_of(one), text,
        ", ".join(own.read_by), "; ".join(uses),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """The page, as Markdown."""
    lines = [HEAD]
    for domain, config in CONFIGS.items():
        lines.append(f"## {domain.capitalize()}\n")
        for part, title in PARTS.items():
            fields = [one for one in known(config).values() if one.setting.part == part]
            if fields:
                heads = ("flag", "values", "default", "", "baselines", "")
                lines.append(f"### {title}{f' for {domain}' * (domain != 'graphs')}\n")
                lines.append(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
                lines += [*map(row, fields), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
