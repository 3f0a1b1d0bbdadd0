"""Search spaces as YAML files: your own, and those that come with the package."""

from __future__ import annotations

from pathlib import Path

import yaml

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.config import RunConfig
from gcl_hard.methods import METHODS
from gcl_hard.tuning.space import Space

FOLDERS = (Path(__file__).parent / "spaces", Path(__file__).parents[2] / "configs" / "search")
"""Of an installed package, and of a checkout."""
RECIPE = "recipe"
"""Lies beside them, and is for ``python -m gcl_hard.bench --search``."""


def shipped() -> dict[str, Path]:
    """The files that come with the package, by name.

    Example:
        >>> sorted(shipped())
        ['beta', 'full', 'images', 'tau-schedule']
    """
    return {name: path for name, path in _files().items() if name != RECIPE}


def usual(cell: RunConfig) -> str:
    """The space of a command that names none."""
    return "tau-schedule" if METHODS[cell.method].hardening == "threshold" else "beta"


def read(given: str) -> Space:
    """The space of a file.

    Args:
        given: a path, or a name of :func:`shipped`.

    Raises:
        InputError: if there is no such file, or it is no search space.

    Example:
        >>> [dimension.name for dimension in read("beta").dimensions]
        ['beta', 'lr']
    """
    path = _files().get(given, Path(given))
    if not path.is_file():
        if path.suffix:
            raise InputError(f"no search space in {given}: there is no such file")
        raise unknown("search space", given, sorted(shipped()))
    try:
        stated = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if isinstance(stated, dict) and "levers" in stated:
        raise InputError(
            f"{path} is a search for a recipe, not a search space: give it to "
            f"python -m gcl_hard.bench --search"
        )
    try:
        return Space.of(stated if stated is not None else {})
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _files() -> dict[str, Path]:
    return {path.stem: path for folder in reversed(FOLDERS) for path in folder.glob("*.yaml")}
