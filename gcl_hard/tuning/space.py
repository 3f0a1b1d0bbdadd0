"""What is searched: dimensions, and settings that are tried first."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from optuna.distributions import CategoricalDistribution, IntDistribution

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.config import RunConfig, flag
from gcl_hard.methods import METHODS
from gcl_hard.tuning.dimension import Dimension, as_number
from gcl_hard.tuning.part import Candidate

if TYPE_CHECKING:
    from optuna import Trial

ENCODER = "encoder."
"""Before the name of a setting that goes to the user's own encoder."""
FIXED = (
    "dataset", "protocol", "features", "folds", "subset", "pretrain_split", "probe_split", "size",
)  # fmt: skip
"""Settings that decide data and scores: with another value scores could not be compared."""
KEYS = ("space", "grid")

PAPER: dict[str, dict[str, tuple[float, ...]]] = {
    "graphs": {"beta": (1.0, 2.0, 10.0)},
    "images": {"beta": (0.1, 0.5, 1.0, 2.0, 5.0)},
}
THRESHOLDS = {"threshold_start": (-0.5, -0.3, -0.1), "threshold_end": (-0.1, 0.0, 0.1)}
"""The H-SCL paper's grids, sections V-B and V-C; it has thresholds for images only."""


@dataclass(frozen=True)
class Base:
    """The settings that are not searched.

    Attributes:
        kind: of cells.
        settings: by name, as they were given; those left out are their defaults.

    Example:
        >>> from gcl_hard.experiments.config import GraphConfig
        >>> Base(GraphConfig, {"method": "hscl"}).cell({"beta": 2}).beta
        2.0
    """

    kind: type[RunConfig]
    settings: Mapping[str, Any]

    @cached_property
    def alone(self) -> RunConfig:
        """The cell of these settings.

        Raises:
            InputError: if it is none, or a floor.
        """
        cell = self.kind(**self.settings)
        if cell.is_baseline:
            raise InputError(f"{cell.method} has nothing to search: it is a floor")
        return cell

    @property
    def names(self) -> list[str]:
        """Of all settings."""
        return [f.name for f in fields(self.kind)]

    def candidate(self, number: int, values: Mapping[str, Any]) -> Candidate:
        """A trial's settings; errors as of :meth:`cell`."""
        own = {k.removeprefix(ENCODER): v for k, v in values.items() if k.startswith(ENCODER)}
        return Candidate(number, self.cell(values), own)

    def cell(self, values: Mapping[str, Any]) -> RunConfig:
        """The cell with some settings as drawn; those of an own encoder are not its.

        Raises:
            InputError: if it is no cell.
        """
        own = {name: value for name, value in values.items() if not name.startswith(ENCODER)}
        return self.kind(**{**self.settings, **own})


@dataclass(frozen=True)
class Space:
    """A search space.

    Attributes:
        dimensions: in the order in which they are drawn, ``method`` first if it is one.
        grid: values tried before all else, in all combinations, with everything else as the
            command has it; ``"paper"`` for the paper's of data and method.

    Example:
        >>> lr = {"type": "float", "low": 1e-4, "high": 0.1, "log": True}
        >>> [d.name for d in Space.of({"space": {"lr": lr}}).dimensions]
        ['lr']
    """

    dimensions: tuple[Dimension, ...]
    grid: Mapping[str, tuple[Any, ...]] | str | None = None

    @classmethod
    def of(cls, given: Any) -> Space:
        """A space as a file states it.

        Args:
            given: a mapping with ``space``, of names to dimensions (:meth:`Dimension.of`), and
                perhaps ``grid``: ``paper``, or names with lists of values. A mapping of
                dimensions alone is understood too.

        Raises:
            InputError: for anything else, and for an empty space.
        """
        if not isinstance(given, Mapping):
            raise InputError(f"a search space is a mapping of settings, got {given!r}")
        typed = all(isinstance(what, Mapping) and "type" in what for what in given.values())
        if given and typed and "space" not in given:
            given = {"space": given}
        for key in given:
            if key not in KEYS:
                raise unknown("key of a search space", str(key), KEYS)
        stated = given.get("space")
        if not isinstance(stated, Mapping) or not stated:
            raise InputError(
                "the search space is empty; it needs a setting such as "
                "{beta: {type: float, low: 0.1, high: 10, log: true}}"
            )
        found = [Dimension.of(str(name), what) for name, what in stated.items()]
        found.sort(key=lambda dimension: dimension.name != "method")
        return cls(tuple(found), _grid(given.get("grid"), [d.name for d in found]))

    def fitted(self, base: Base, *, encoder: bool = False) -> Space:
        """The part that a method has, checked against what is not searched.

        Args:
            base: the settings that are not searched.
            encoder: whether there is an encoder of the user's own, with settings of its own.

        Returns:
            The space without dimensions of other methods.

        Raises:
            InputError: for a setting that is not one, with the nearest; one that cannot be
                searched; one that the method does not have; a value that no cell may have; or
                if nothing is left.
        """
        for dimension in self.dimensions:
            _check_name(dimension, base, encoder=encoder)
        methods = self.methods(base)
        left = tuple(d for d in self.dimensions if not d.methods or {*d.methods} & {*methods})
        if not left:
            raise InputError(
                f"nothing of this search space is a setting of {', '.join(methods)}: it has "
                f"{', '.join(d.name for d in self.dimensions)}"
            )
        for dimension in left:
            for method in methods:
                if not dimension.methods or method in dimension.methods:
                    _check_ends(dimension, base, method)
        space = replace(self, dimensions=left)
        space.grid_of(base)
        return space

    def methods(self, base: Base) -> tuple[str, ...]:
        """Those that are searched, or the one that is not."""
        for dimension in self.dimensions:
            if dimension.name == "method":
                return tuple(str(one) for one in dimension.ends)
        return (base.alone.method,)

    def of_method(self, method: str) -> list[Dimension]:
        """What is drawn for a method."""
        return [d for d in self.dimensions if not d.methods or method in d.methods]

    def draw(self, trial: Trial, base: Base) -> dict[str, Any]:
        """Values for one trial, of the settings that its method has."""
        values: dict[str, Any] = {}
        for dimension in self.dimensions:
            method = values.get("method", base.alone.method)
            if not dimension.methods or method in dimension.methods:
                values[dimension.name] = _suggest(trial, dimension)
        return values

    def grid_of(self, base: Base) -> list[dict[str, Any]]:
        """The settings that are tried first, whole: what the grid does not name is the base's.

        Raises:
            InputError: for a value outside its dimension.
        """
        if self.grid is None:
            return []
        found = []
        for method in self.methods(base):
            cell = base.cell({"method": method})
            here = [d for d in self.of_method(method) if not d.name.startswith(ENCODER)]
            stated = self._stated(cell)
            if method not in stated.get("method", [method]):
                continue
            grid = {d.name: stated[d.name] for d in here if d.name in stated}
            for combination in itertools.product(*grid.values()) if grid else ():
                values = dict(zip(grid, combination, strict=True)) | {"method": method}
                found.append({
                    d.name: d.held(values.get(d.name, getattr(cell, d.name)), given=d.name in grid)
                    for d in here
                })  # fmt: skip
        return found

    @property
    def of_encoder(self) -> dict[str, Dimension]:
        """Settings of the user's own encoder, by its names."""
        own = [d for d in self.dimensions if d.name.startswith(ENCODER)]
        return {dimension.name.removeprefix(ENCODER): dimension for dimension in own}

    def left_to(self, base: Base) -> set[str]:
        """Settings that are searched and that a grid leaves to the base."""
        cells = [base.cell({"method": method}) for method in self.methods(base)]
        grids = [self._stated(cell) for cell in cells]
        named = {name for grid in grids for name in grid}
        return {d.name for d in self.dimensions} - named - {"method"} if named else set()

    def _stated(self, cell: RunConfig) -> Mapping[str, tuple[Any, ...]]:
        return paper_grid(cell) if isinstance(self.grid, str) else self.grid or {}

    @property
    def numeric(self) -> bool:
        """Whether it is of numbers alone, the same for all trials."""
        return all(dimension.numeric for dimension in self.dimensions)


def paper_grid(cell: RunConfig) -> dict[str, tuple[float, ...]]:
    """The H-SCL paper's values for a cell's data and method.

    Example:
        >>> from gcl_hard.experiments.config import GraphConfig
        >>> paper_grid(GraphConfig(method="hscl"))
        {'beta': (1.0, 2.0, 10.0)}
    """
    hardening = METHODS[cell.method].hardening
    if hardening == "exponential":
        return dict(PAPER[cell.backend])
    return dict(THRESHOLDS) if hardening == "threshold" else {}


def _grid(given: Any, names: list[str]) -> Mapping[str, tuple[Any, ...]] | str | None:
    if given is None or given == "paper":
        return given  # type: ignore[no-any-return]
    if not isinstance(given, Mapping) or not all(
        isinstance(values, list | tuple) and values for values in given.values()
    ):
        raise InputError(f"grid is paper, or names with lists of values, got {given!r}")
    for name in given:
        if name not in names:
            raise unknown("setting of the grid", str(name), names)
    return {str(name): tuple(map(as_number, values)) for name, values in given.items()}


def _check_name(dimension: Dimension, base: Base, *, encoder: bool) -> None:
    name = dimension.name
    if name.startswith(ENCODER):
        if not encoder:
            raise InputError(
                f"{name} is a setting of your own encoder, and none is given; from Python: "
                f"gcl_hard.tuning.study(…, encoder=MyEncoder)"
            )
    elif name not in base.names:
        raise unknown("setting of the search space", name, base.names)
    elif name in FIXED:
        raise InputError(
            f"{name} cannot be searched: scores of different {name} are not comparable"
        )
    else:
        _check_kind(dimension, get_type_hints(base.kind)[name])
    for method in dimension.methods or (dimension.ends if name == "method" else ()):
        if method not in METHODS:
            what = f"method of {name}" if dimension.methods else "method"
            raise unknown(what, str(method), METHODS)


def _check_kind(dimension: Dimension, hint: Any) -> None:
    """A setting is searched as what it is: a number, a whole one, or a choice of its values."""
    name, kinds = dimension.name, get_args(hint) or (hint,)
    if tuple in {get_origin(kind) or kind for kind in (hint, *kinds)}:
        raise InputError(f"{name} is a list, which cannot be searched")
    whole, real = int in kinds, float in kinds
    if dimension.numeric:
        wanted = "int" if whole else "float" if real else "categorical"
        if isinstance(dimension.distribution, IntDistribution) != whole or wanted == "categorical":
            raise InputError(f"{name} is searched with type: {wanted}")
        return
    for value in dimension.ends:
        number_fits = isinstance(value, int | float) and not isinstance(value, bool)
        fits = (
            (value is None and NoneType in kinds)
            or (isinstance(value, bool) and bool in kinds)
            or (number_fits and (real or (whole and isinstance(value, int))))
            or (isinstance(value, str) and not (whole or real or bool in kinds))
        )
        if not fits:
            wanted = "a whole number" if whole else "a number" if real else "true or false"
            raise InputError(
                f"{name}: {value!r} is no value of it, which is "
                f"{'a word' if not (whole or real or bool in kinds) else wanted}"
            )


def _check_ends(dimension: Dimension, base: Base, method: str) -> None:
    """Both ends make a cell, and the cell has the setting."""
    name = dimension.name
    if name.startswith(ENCODER) or name == "method":
        return
    for value in dimension.ends:
        if not _has(base, method, name, value):
            if value is None:
                usual = getattr(base.cell({"method": method}), name)
                raise InputError(f"{name}: null stands for what is usual, {usual} here: name that")
            have = [m for m in METHODS if _has(base, m, name, value, strict=False)]
            only = f"; write when: {{method: [{', '.join(have)}]}}" if have else ""
            raise InputError(f"{method} has no {flag(name)} to be searched{only}")


def _has(base: Base, method: str, name: str, value: Any, *, strict: bool = True) -> bool:
    """Whether a cell of the method keeps the value."""
    try:
        return bool(getattr(base.cell({"method": method, name: value}), name) == value)
    except InputError:
        if strict:
            raise
        return False


def _suggest(trial: Trial, dimension: Dimension) -> Any:
    name, of = dimension.name, dimension.distribution
    if isinstance(of, CategoricalDistribution):
        return trial.suggest_categorical(name, of.choices)
    if isinstance(of, IntDistribution):
        return trial.suggest_int(name, of.low, of.high, step=of.step, log=of.log)
    return trial.suggest_float(name, of.low, of.high, step=of.step, log=of.log)
