"""What a search for a recipe tries: where it starts from, and its levers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.flags import add_settings
from gcl_hard.experiments.graph_cell import GraphCell
from gcl_hard.experiments.mistakes import explain
from gcl_hard.experiments.values import SEEDS, Seeds, as_seeds
from gcl_hard.graphs.tudataset import canonical_name

KEYS = ("dataset", "method", "seeds", "folds", "start", "levers")
OWN = ("dataset", "method", "protocol", "folds", "train_share")
"""Settings that a command or a search states, not a recipe."""

Settings = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Alternative:
    """One way to set a lever.

    Attributes:
        lever: its name.
        settings: that differ from the start.
    """

    lever: str
    settings: Settings

    @property
    def name(self) -> str:
        """As pages call it."""
        return said(self.settings)


@dataclass(frozen=True, eq=False)
class Search:
    """What is tried, and on what.

    Attributes:
        datasets: canonical names.
        methods: whose mean inner score decides; a floor among them is looked at only.
        seeds: of encoders and folds.
        folds: of each seed; a fifth of each training fold is held out, trained without, and scored.
        start: the settings that levers change one at a time.
        levers: every alternative, in order.
    """

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: Seeds
    folds: int
    start: Settings
    levers: tuple[Alternative, ...]

    @property
    def deciding(self) -> tuple[str, ...]:
        """Methods that are trained."""
        return tuple(m for m in self.methods if not GraphCell(method=m).is_floor)

    @property
    def floors(self) -> tuple[str, ...]:
        """Methods that are not."""
        return tuple(m for m in self.methods if m not in self.deciding)

    def on(self, names: Iterable[str]) -> Search:
        """The same search on some data sets."""
        return replace(self, datasets=_canonical(names))

    def cell(self, dataset: str, method: str, settings: Settings) -> GraphCell:
        """The cell of a method with the start's settings, some of them replaced."""
        return GraphCell(
            dataset=dataset, method=method, protocol="inductive", folds=self.folds,
            **{**self.start, **settings},
        )  # fmt: skip


def said(settings: Settings) -> str:
    """Settings in words.

    Example:
        >>> said({"lr": 0.001, "encodings": ("degree", "cycles"), "virtual_node": True})
        'lr 0.001, encodings degree + cycles, virtual node'
        >>> said({"c_grid": (0.1, 1.0, 10.0), "temperature": None})
        'c grid 0.1 … 10 (3 values), no temperature'
    """
    return ", ".join(_said(name.replace("_", " "), value) for name, value in settings.items())


def _said(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return name if value else f"no {name}"
    if isinstance(value, tuple) and isinstance(value[0], float):
        return f"{name} {value[0]:g} … {value[-1]:g} ({len(value)} values)"
    if isinstance(value, tuple):
        return f"{name} {' + '.join(value)}"
    return f"{name} {value:g}" if isinstance(value, (int, float)) else f"{name} {value}"


def read_search(path: Path) -> Search:
    """A search as a file states it.

    Args:
        path: YAML with ``dataset``, ``method``, ``seeds``, ``folds``, ``start`` (settings) and
            ``levers`` (by name, lists of settings).

    Returns:
        The search; every cell of it can be made.

    Raises:
        InputError: for a file that cannot be read or says something else; names what.
    """
    given = read_yaml(path)
    try:
        return _search(given)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_yaml(path: Path) -> Any:
    """What a file holds.

    Raises:
        InputError: if it cannot be read, or is no YAML.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path} is no YAML: {' '.join(str(error).split())}") from error


def _search(given: Any) -> Search:
    if not isinstance(given, dict) or set(given) != set(KEYS):
        got = ", ".join(map(str, given)) if isinstance(given, dict) else type(given).__name__
        raise InputError(f"a search states {', '.join(KEYS)}, got {got}")
    levers, folds = given["levers"], given["folds"]
    if not isinstance(levers, dict) or not all(isinstance(v, list) for v in levers.values()):
        raise InputError("levers are names with lists of settings")
    try:
        seeds = as_seeds(given["seeds"])
    except (TypeError, ValueError) as error:
        raise InputError(f"seeds: expected {SEEDS}, got {given['seeds']!r}") from error
    if isinstance(folds, bool) or not isinstance(folds, int):
        raise InputError(f"folds: expected a whole number, got {folds!r}")
    search = Search(
        datasets=_canonical(_names("dataset", given["dataset"])),
        methods=tuple(
            dict.fromkeys(GraphCell(method=m).method for m in _names("method", given["method"]))
        ),
        seeds=seeds,
        folds=folds,
        start=checked(given["start"], "start"),
        levers=tuple(
            Alternative(str(name), checked(one, f"levers, {name}"))
            for name, some in levers.items()
            for one in some
        ),
    )
    if not search.deciding:
        raise InputError(f"method must name one that is trained, got {', '.join(search.methods)}")
    _check_cells(search, {}, "start")
    for one in search.levers:
        if not one.settings:
            raise InputError(f"levers, {one.lever}: expected settings, got none")
        _check_cells(search, one.settings, f"levers, {one.lever}")
    return search


def _check_cells(search: Search, settings: Settings, where: str) -> None:
    for method in search.methods:
        try:
            search.cell(search.datasets[0], method, settings)
        except InputError as error:
            raise InputError(f"{where}: {error}") from error


def checked(settings: Any, where: str) -> dict[str, Any]:
    """Settings of a recipe as a cell takes them.

    Args:
        settings: as YAML states them.
        where: they stand, for messages.

    Raises:
        InputError: for what is no setting, or not a recipe's, or has no such value; names it.

    Example:
        >>> checked({"lr": 1, "c_grid": [1, 10]}, "mine.yaml")
        {'lr': 1.0, 'c_grid': (1.0, 10.0)}
    """
    names = [f.name for f in fields(GraphCell) if f.name not in OWN]
    if not isinstance(settings, dict):
        raise InputError(f"{where}: expected settings, got {settings!r}")
    for name in settings:
        if name in OWN:
            raise InputError(f"{where}: {name} is no part of a recipe")
        if name not in names:
            raise InputError(f"{where}: {unknown('setting', str(name), names)}")
    try:
        found = vars(_parser().parse_object(settings, defaults=False))
    except ArgumentError as error:
        said = explain(str(error), _parser()).removeprefix("--")
        raise InputError(f"{where}: {said}") from error
    return {k: tuple(v) if isinstance(v := found[k], tuple) else v for k in settings}


@cache
def _parser() -> ArgumentParser:
    """Reads settings as the command line does."""
    parser = ArgumentParser(exit_on_error=False)
    add_settings(parser, GraphCell, {})
    return parser


def _names(key: str, given: Any) -> tuple[str, ...]:
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{key}: expected names, got {given!r}")
    return tuple(names)


def _canonical(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(canonical_name, names)))
