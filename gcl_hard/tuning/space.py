"""Search spaces: settings with their distributions and grids, from YAML files."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from gcl_hard.errors import InputError, unknown
from gcl_hard.experiments.custom import EncoderMaker, UserParts, check_maker
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.presets import preset
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.searches import shipped
from gcl_hard.experiments.settings import RunConfig, defaults, flag, known
from gcl_hard.experiments.trials import Candidate
from gcl_hard.files.stored import read_yaml
from gcl_hard.losses.methods import METHODS

if TYPE_CHECKING:
    from optuna import Trial

Distribution = FloatDistribution | IntDistribution | CategoricalDistribution
NUMBERS: dict[str, type[FloatDistribution | IntDistribution]] = {
    "float": FloatDistribution, "int": IntDistribution,
}  # fmt: skip
TYPES = (*NUMBERS, "categorical")
EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
KEYS = ("space", "grid")
ENCODER = "encoder."
"""Prefix of the settings of a user's own encoder."""


@dataclass(frozen=True)
class Dimension:
    """A searched setting and its distribution.

    Attributes:
        name: name of a setting of the configuration, or ``encoder.NAME`` for one of your encoder.
        distribution: Optuna's.
        methods: methods that have the setting; empty for all.
    """

    name: str
    distribution: Distribution
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.numeric and len({*self.ends}) < len(self.ends):
            raise InputError(  # Optuna stores the first of equal choices, whichever was drawn
                f"{self.name}: choices must be different, and 1 equals 1.0 and true, got "
                f"{[*self.ends]}"
            )

    @classmethod
    def of(cls, name: str, description: Any) -> Dimension:
        """A dimension from its description in a file or a dictionary.

        Args:
            name: name of the setting.
            description: ``type`` (float, int or categorical), with ``low``, ``high`` and perhaps
                ``log`` and ``step``, or with ``choices``; perhaps ``when: {method: […]}``. Or a
                distribution of Optuna; or ``(low, high)``; or a list of choices.

        Returns:
            The dimension.

        Raises:
            InputError: for an unknown or missing key, reversed bounds, a log scale from 0 or
                below, or no or equal choices.

        Example:
            >>> Dimension.of("beta", {"type": "float", "low": 0.1, "high": 10, "log": True})
            ... # doctest: +ELLIPSIS
            Dimension(name='beta', distribution=FloatDistribution(high=10.0, log=True, ...
        """
        if isinstance(description, Distribution):
            return cls(name, description)
        if isinstance(description, list):
            description = {"type": "categorical", "choices": description}
        elif isinstance(description, tuple):
            description = _interval(name, description)
        if not isinstance(description, Mapping):
            raise InputError(
                f"{name}: expected a mapping such as {{type: float, low: 0.1, high: 10}}, from "
                f"Python also (0.1, 10), a list of choices or a distribution of Optuna, got "
                f"{description!r}"
            )
        kind, methods = description.get("type"), _methods(name, description.get("when"))
        if kind not in TYPES:
            raise unknown(f"type of {name}", str(kind), TYPES)
        keys = {key: value for key, value in description.items() if key not in ("type", "when")}
        return cls(name, _distribution(name, kind, keys), methods)

    def checked(self, value: Any, *, in_grid: bool = True) -> Any:
        """A value of a grid, converted as if it were drawn from the distribution.

        Args:
            value: the value.
            in_grid: whether the grid states it, and not the command.

        Raises:
            InputError: for a value outside the distribution.
        """
        distribution, internal = self.distribution, None
        if _kind(value) in map(_kind, self.ends):
            with suppress(ValueError):
                internal = distribution.to_internal_repr(value)
        # Optuna has no public test of whether a value is in a range, at a step.
        if internal is None or not distribution._contains(internal):
            whose = "of the grid" if in_grid else "of the command, which the grid keeps,"
            space = (" to " if self.numeric else ", ").join(map(str, self.ends))
            raise InputError(
                f"{self.name} {value} {whose} is not in the search space, which has {space}: "
                f"widen it, or leave the grid out"
            )
        return distribution.to_external_repr(internal)

    def of_method(self, method: str) -> bool:
        """Whether a method has the setting."""
        return not self.methods or method in self.methods

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers in a range."""
        return not isinstance(self.distribution, CategoricalDistribution)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Both bounds, or all choices: values to validate."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.distribution.choices
        return self.distribution.low, self.distribution.high


def _interval(name: str, ends: tuple[Any, ...]) -> dict[str, Any]:
    """The description of ``(low, high)``, whole numbers if the setting is one."""
    if len(ends) != 2:
        raise InputError(f"{name}: a tuple is (low, high), got {ends}; choices are a list")
    hints = {key: field.kind for kind in CONFIGS.values() for key, field in known(kind).items()}
    whole = all(isinstance(end, int) for end in ends)
    if name in hints:
        whole = int in (get_args(hints[name]) or (hints[name],))
    return {"type": "int" if whole else "float", "low": ends[0], "high": ends[1]}


def _kind(value: Any) -> type:
    """Type of a value for comparison: 2 equals 2.0, but True is not 1."""
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _methods(name: str, when: Any) -> tuple[str, ...]:
    if when is None:
        return ()
    if not isinstance(when, Mapping) or set(when) != {"method"}:
        raise InputError(f"{name}: when is {{method: [names]}}, got {when!r}")
    methods = when["method"] if isinstance(when["method"], list | tuple) else [when["method"]]
    if not methods:
        raise InputError(f"{name}: when names no method; leave it out where all have {name}")
    return tuple(map(str, methods))


def as_number(value: Any) -> Any:
    """A value, converted if it is a number that YAML 1.1 reads as text, such as 1e-4.

    Example:
        >>> as_number("1e-4"), as_number("sum"), as_number(3)
        (0.0001, 'sum', 3)
    """
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def _choices(choices: Any) -> tuple[Any, ...]:
    if not isinstance(choices, list | tuple):
        raise TypeError(f"choices must be a list, got {choices!r}")
    return tuple(map(as_number, choices))


def _distribution(name: str, kind: str, keys: Mapping[str, Any]) -> Distribution:
    """Optuna's distribution of a type, where Optuna would take other values than are stated."""
    values = {key: as_number(value) for key, value in keys.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that high is lowered, and of choices of other types
            if kind == "categorical":
                values["choices"] = _choices(**values)
                return CategoricalDistribution(**values)
            odd = [
                key for key, value in values.items()
                if not math.isfinite(value) or (kind == "int" and value != int(value))
            ]  # fmt: skip
            if not odd:
                return NUMBERS[kind](**values)
    except (TypeError, ValueError, UserWarning) as error:
        raise InputError(f"{name}: {error}") from error
    kinds = "whole" if kind == "int" else "finite"
    raise InputError(f"{name}: {odd[0]} must be {kinds}, got {values[odd[0]]!r}")


@dataclass(frozen=True)
class Base:
    """The settings that are not searched.

    Attributes:
        kind: class of the configurations.
        settings: stated settings by name; the others have their defaults.
        make: makes the user's own encoder.

    Example:
        >>> Base(CONFIGS["graphs"], {"method": "hscl"}).config_with({"beta": 2}).beta
        2.0
    """

    kind: type[RunConfig]
    settings: Mapping[str, Any]
    make: EncoderMaker | None = None

    def __post_init__(self) -> None:
        searchable = experiment_of(self.kind).searches_user_parts
        if self.make is not None and searchable and "encoder" not in self.settings:
            check_maker(self.make)
            settings = {**self.settings, "encoder": UserParts().add(self.make)}
            object.__setattr__(self, "settings", settings)

    @cached_property
    def config(self) -> RunConfig:
        """The configuration of these settings, with defaults for searched ones.

        Raises:
            InputError: for settings of no configuration, or of a baseline.
        """
        config = self.kind(**self.settings)
        if config.is_baseline:
            raise InputError(f"{config.method} has nothing to search: it is a baseline")
        return config

    def candidate(self, number: int, values: Mapping[str, Any]) -> Candidate:
        """The candidate of a trial; errors as of :meth:`config_with`."""
        drawn = {k.removeprefix(ENCODER): v for k, v in values.items() if k.startswith(ENCODER)}
        make = None if self.make is None else partial(self.make, **drawn)
        return Candidate(number, self.config_with(values), make)

    def config_with(self, values: Mapping[str, Any]) -> RunConfig:
        """The configuration with drawn values, except those of the user's own encoder.

        Raises:
            InputError: for settings of no configuration.
        """
        drawn = {name: value for name, value in values.items() if not name.startswith(ENCODER)}
        return self.kind(**{**self.settings, **drawn})


@dataclass(frozen=True)
class Space:
    """A search space.

    Attributes:
        dimensions: in the order in which they are drawn, ``method`` first if it is searched.
        grid: values tried first, in all combinations, with everything else as in the command;
            ``"paper"`` for the paper's grid of data and method.

    Example:
        >>> lr = {"type": "float", "low": 1e-4, "high": 0.1, "log": True}
        >>> [d.name for d in Space.of({"space": {"lr": lr}}).dimensions]
        ['lr']
    """

    dimensions: tuple[Dimension, ...]
    grid: Mapping[str, tuple[Any, ...]] | str | None = None

    @classmethod
    def of(cls, description: Any) -> Space:
        """A space from its description in a file or a dictionary.

        Args:
            description: a mapping with ``space``, of names to dimensions (:meth:`Dimension.of`),
                and perhaps ``grid``: ``paper``, or names with lists of values. Or a mapping of
                dimensions alone.

        Raises:
            InputError: for anything else, and for an empty space.
        """
        if not isinstance(description, Mapping):
            raise InputError(f"a search space is a mapping of settings, got {description!r}")
        if not {*map(str, description)} & {*KEYS}:
            description = {"space": description}
        for key in description:
            if key not in KEYS:
                raise unknown("key of a search space", str(key), KEYS)
        space = description.get("space")
        if not isinstance(space, Mapping) or not space:
            raise InputError(
                "the search space is empty; it needs a setting such as "
                "{beta: {type: float, low: 0.1, high: 10, log: true}}"
            )
        dimensions = [Dimension.of(str(name), searched) for name, searched in space.items()]
        dimensions.sort(key=lambda dimension: dimension.name != "method")
        names = [dimension.name for dimension in dimensions]
        return cls(tuple(dimensions), _grid(description.get("grid"), names))

    def fitted(self, base: Base) -> Space:
        """The space restricted to a method and checked against the fixed settings.

        Args:
            base: the settings that are not searched.

        Returns:
            The space without dimensions of other methods.

        Raises:
            InputError: for an unknown setting, with the nearest; one that cannot be searched; one
                that the method does not have; an invalid value; or if no dimension is left.
        """
        for dimension in self.dimensions:
            _check_name(dimension, base)
        methods = self.methods(base)
        left = tuple(d for d in self.dimensions if any(map(d.of_method, methods)))
        if not left:
            raise InputError(
                f"nothing of this search space is a setting of {', '.join(methods)}: it has "
                f"{', '.join(d.name for d in self.dimensions)}"
            )
        for dimension in left:
            for method in filter(dimension.of_method, methods):
                _check_ends(dimension, base, method)
        space = replace(self, dimensions=left)
        space.grid_of(base)
        return space

    def methods(self, base: Base) -> tuple[str, ...]:
        """The searched methods, or that of the base."""
        for dimension in self.dimensions:
            if dimension.name == "method":
                return tuple(map(str, dimension.ends))
        return (base.config.method,)

    def draw(self, trial: Trial, base: Base) -> dict[str, Any]:
        """Values for a trial, of the settings that its method has."""
        values: dict[str, Any] = {}
        for dimension in self.dimensions:
            if dimension.of_method(values.get("method", base.config.method)):
                values[dimension.name] = _suggest(trial, dimension)
        return values

    def grid_of(self, base: Base) -> list[dict[str, Any]]:
        """Settings to try first, completed by those of the base.

        Raises:
            InputError: for a value outside its dimension.
        """
        if self.grid is None:
            return []
        combinations = []
        for method in self.methods(base):
            config = base.config_with({"method": method})
            dimensions = [
                d for d in self.dimensions if d.of_method(method) and not d.name.startswith(ENCODER)
            ]
            stated = self._stated(config)
            if method not in stated.get("method", [method]):
                continue
            grid = {d.name: stated[d.name] for d in dimensions if d.name in stated}
            for combination in itertools.product(*grid.values()) if grid else ():
                values = dict(zip(grid, combination, strict=True)) | {"method": method}
                combinations.append({
                    d.name: d.checked(
                        values.get(d.name, getattr(config, d.name)), in_grid=d.name in grid
                    )
                    for d in dimensions
                })  # fmt: skip
        return combinations

    @property
    def of_encoder(self) -> dict[str, Dimension]:
        """Dimensions of the user's own encoder, by the names of its arguments."""
        return {
            dimension.name.removeprefix(ENCODER): dimension
            for dimension in self.dimensions if dimension.name.startswith(ENCODER)
        }  # fmt: skip

    def left_to(self, base: Base) -> set[str]:
        """Searched settings that the grid does not name."""
        grids = [
            self._stated(base.config_with({"method": method})) for method in self.methods(base)
        ]
        named = {name for grid in grids for name in grid}
        return {d.name for d in self.dimensions} - named - {"method"} if named else set()

    def _stated(self, config: RunConfig) -> Mapping[str, tuple[Any, ...]]:
        return paper_grid(config) if isinstance(self.grid, str) else self.grid or {}

    @property
    def numeric(self) -> bool:
        """Whether all dimensions are ranges of numbers."""
        return all(dimension.numeric for dimension in self.dimensions)


def paper_grid(config: RunConfig) -> dict[str, tuple[float, ...]]:
    """The H-SCL paper's values for the domain and the method of a configuration.

    Source:
        H-SCL paper, sections V-B and V-C, as in its tables.

    Example:
        >>> paper_grid(CONFIGS["graphs"](method="hscl"))
        {'beta': (1.0, 2.0, 10.0)}
    """
    values = {**preset("1").values, **experiment_of(config).paper_values}
    return {
        name: values[name]
        for name, field in known(type(config)).items()
        if field.setting.chosen and name in values and getattr(config, name) is not None
    }


def _grid(description: Any, names: list[str]) -> Mapping[str, tuple[Any, ...]] | str | None:
    if description is None or description == "paper":
        return description
    if not isinstance(description, Mapping) or not all(
        isinstance(values, list | tuple) and values for values in description.values()
    ):
        raise InputError(f"grid is paper, or names with lists of values, got {description!r}")
    for name in description:
        if name not in names:
            raise unknown("setting of the grid", str(name), names)
    return {str(name): tuple(map(as_number, values)) for name, values in description.items()}


def _check_name(dimension: Dimension, base: Base) -> None:
    name = dimension.name
    if name.startswith(ENCODER):
        if base.make is None:
            raise InputError(
                f"{name} is a setting of your own encoder, and none is given; from Python: "
                f"gcl_hard.study(…, encoder=MyEncoder)"
            )
    elif name not in defaults(base.kind):
        raise unknown("setting of the search space", name, defaults(base.kind))
    elif (setting := known(base.kind)[name].setting).part in ("data", "split") or (
        setting.space == ()
    ):
        raise InputError(
            f"{name} cannot be searched: scores of different {name} are not comparable"
        )
    for method in dimension.methods or (dimension.ends if name == "method" else ()):
        if method not in METHODS:
            kind = f"method of {name}" if dimension.methods else "method"
            raise unknown(kind, str(method), METHODS)


def _check_ends(dimension: Dimension, base: Base, method: str) -> None:
    """Check that both bounds are valid, and that the method has the setting."""
    name = dimension.name
    if name.startswith(ENCODER) or name == "method":
        return
    for value in dimension.ends:
        kept = getattr(base.config_with({"method": method, name: value}), name)
        if kept != value:
            raise InputError(
                f"{method} has {flag(name)} {kept} where {value} is searched; a setting of some "
                f"methods has when: {{method: [names]}}"
            )


def _suggest(trial: Trial, dimension: Dimension) -> Any:
    name, drawn = dimension.name, dimension.distribution
    if isinstance(drawn, CategoricalDistribution):
        return trial.suggest_categorical(name, drawn.choices)
    if isinstance(drawn, IntDistribution):
        return trial.suggest_int(name, drawn.low, drawn.high, step=drawn.step, log=drawn.log)
    return trial.suggest_float(name, drawn.low, drawn.high, step=drawn.step, log=drawn.log)


def default_space(config: RunConfig) -> str:
    """Name of the space of a command without ``--space``."""
    return "tau-schedule" if METHODS[config.method].hardening == "threshold" else "beta"


def read_space(name: str, kind: type[RunConfig]) -> Space:
    """Read a space by its name.

    Args:
        name: a path; a name of :func:`shipped`; or names of settings, separated by commas, which
            are drawn from the spaces that they declare.
        kind: class of the configurations, which declares these.

    Raises:
        InputError: if there is no such file, or it is not a search space.

    Example:
        >>> [dimension.name for dimension in read_space("beta", CONFIGS["graphs"]).dimensions]
        ['beta', 'lr']
        >>> [dimension.name for dimension in read_space("epsilon,lr", CONFIGS["graphs"]).dimensions]
        ['epsilon', 'lr']
    """
    path = shipped().get(name, Path(name))
    if not path.is_file():
        if path.suffix:
            raise InputError(f"no search space in {name}: there is no such file")
        settings = [part.strip().replace("-", "_") for part in name.split(",")]
        spaces = declared_spaces(kind)
        for setting in settings:
            if setting not in spaces:
                raise unknown("search space", setting, sorted({*shipped(), *spaces}))
        return Space(tuple(spaces[setting] for setting in settings))
    description = read_yaml(path)
    try:
        return Space.of(description if description is not None else {})
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def declared_spaces(kind: type[RunConfig]) -> dict[str, Dimension]:
    """The dimensions of the settings of a domain that declare one.

    Args:
        kind: class of its configurations.

    Example:
        >>> declared_spaces(CONFIGS["graphs"])["auc"].ends
        (0.5, 0.95)
    """
    dimensions = {}
    for name, field in known(kind).items():
        space = field.setting.space
        if isinstance(space, list) and space:
            dimensions[name] = Dimension.of(name, space)
        elif space:
            numbers = "int" if field.kinds[0] is int else "float"
            ends = {"type": numbers, "low": space[0], "high": space[1], "log": "log" in space}
            dimensions[name] = Dimension.of(name, ends)
    return dimensions
