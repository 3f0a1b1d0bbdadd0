"""Recipes as configs: those that a search chose, and those that come with the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from gcl_hard.errors import InputError
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.recipe.levers import Settings, checked, read_yaml
from gcl_hard.experiments.recipe.search import Chosen

FOLDERS = (
    Path(__file__).parents[2] / "data" / "recipes",
    Path(__file__).parents[3] / "configs" / "graphs" / "best",
)
"""Of an installed package, and of a checkout."""
ALL = "all"
"""Stem of the recipe for all sets."""
HEAD = "# Our recipe for "
"""How a config of a search begins."""


def best(dataset: str) -> dict[str, Any]:
    """Our recipe for a data set: its own where there is one, else the one for all.

    Args:
        dataset: canonical name.

    Returns:
        Settings of a cell.

    Raises:
        InputError: for a file that is no recipe.

    Example:
        >>> best("PTC_MR")["contrast"]
        'two-view'
    """
    for stem in (dataset.lower(), ALL):
        for folder in FOLDERS:
            path = folder / f"{stem}.yaml"
            if path.is_file():
                return checked(read_yaml(path), str(path))
    raise InputError(f"no recipe in {' or '.join(map(str, FOLDERS))}")


def check_folder(folder: Path, datasets: Sequence[str]) -> None:
    """Refuse to put recipes in the place of other configs.

    Args:
        folder: for recipes.
        datasets: that may get one.

    Raises:
        InputError: if there is a config of one of the names that no search wrote.
    """
    for path in (folder / f"{stem}.yaml" for stem in (ALL, *map(str.lower, datasets))):
        if path.exists() and not _ours(path):
            raise InputError(f"{path} is no recipe of a search: give --best another folder")


def write(chosen: Chosen, folder: Path, *, command: str) -> list[Path]:
    """Write what a search chose; older recipes of single sets that it searched go.

    Args:
        chosen: by a search.
        folder: for ``all.yaml``, and ``<set>.yaml`` where a set prefers its own.
        command: that made them.

    Returns:
        What was written.
    """
    recipes = {ALL: ("all sets", chosen.best)}
    recipes |= {name.lower(): (name, one.settings) for name, one in chosen.own.items()}
    for stem in (name.lower() for name in chosen.search.datasets):
        path = folder / f"{stem}.yaml"
        if stem not in recipes and path.exists() and _ours(path):
            path.unlink()
    written = []
    for stem, (name, own) in recipes.items():
        path = folder / f"{stem}.yaml"
        path.write_text(
            f"{HEAD}{name}, chosen by inner scores on {', '.join(chosen.search.datasets)}, "
            f"seeds {_listed(chosen)}:\n"
            f"#   {command}\n"
            f"#   python -m gcl_hard.bench --recipe best --dataset "
            f"{'NAME' if stem == ALL else name} --method hscl\n"
            f"{_yaml({**chosen.search.start, **own})}",
            encoding="utf-8",
            newline="\n",
        )
        written.append(path)
    return written


def _ours(path: Path) -> bool:
    return path.read_bytes().startswith(HEAD.encode())


def _listed(chosen: Chosen) -> str:
    return ", ".join(map(str, chosen.search.seeds))


def _yaml(settings: Settings) -> str:
    names = [f.name for f in fields(GraphCell) if f.name in settings]
    stated = {n: list(v) if isinstance(v := settings[n], tuple) else v for n in names}
    return str(yaml.safe_dump(stated, sort_keys=False, default_flow_style=None))
