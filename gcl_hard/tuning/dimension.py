"""One setting that is searched: a number in a range, or one of a few words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from gcl_hard.errors import InputError, unknown

Distribution = FloatDistribution | IntDistribution | CategoricalDistribution
TYPES = ("float", "int", "categorical")
RANGE = ("type", "low", "high", "log", "step", "when")
EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
TINY = 1e-8
"""Of a step: what rounding leaves."""
CHOICE = ("type", "choices", "when")


@dataclass(frozen=True)
class Dimension:
    """A setting with where its values come from.

    Attributes:
        name: of a cell's setting, or ``encoder.NAME`` of your own encoder's.
        distribution: Optuna's.
        methods: that have the setting; empty for all.
    """

    name: str
    distribution: Distribution
    methods: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, given: Any) -> Dimension:
        """A dimension as a file or a dictionary states it.

        Args:
            name: of the setting.
            given: ``type`` (float, int or categorical), with ``low``, ``high`` and perhaps
                ``log`` and ``step``, or with ``choices``; perhaps ``when: {method: […]}``.

        Returns:
            The dimension.

        Raises:
            InputError: for an unknown or missing key, reversed bounds, a log scale from 0 or
                below, or no choices.

        Example:
            >>> Dimension.of("beta", {"type": "float", "low": 0.1, "high": 10, "log": True})
            ... # doctest: +ELLIPSIS
            Dimension(name='beta', distribution=FloatDistribution(high=10.0, log=True, ...
        """
        if not isinstance(given, Mapping):
            raise InputError(
                f"{name}: expected a mapping such as {{type: float, low: 0.1, high: 10}}, "
                f"got {given!r}"
            )
        kind = given.get("type")
        if kind not in TYPES:
            raise unknown(f"type of {name}", str(kind), TYPES)
        known = CHOICE if kind == "categorical" else RANGE
        for key in given:
            if key not in known:
                raise unknown(f"key of {name}", str(key), known)
        methods = _methods(name, given.get("when"))
        if kind == "categorical":
            return cls(name, _choices(name, given.get("choices")), methods)
        return cls(name, _range(name, given, whole=kind == "int"), methods)

    def held(self, value: Any, *, given: bool = True) -> Any:
        """A value as it is drawn from here.

        Args:
            value: of a grid.
            given: whether the grid states it; else it is the command's.

        Raises:
            InputError: if it cannot be.
        """
        of = self.distribution
        if isinstance(of, CategoricalDistribution):
            equal = [one for one in of.choices if one == value and _kind(one) == _kind(value)]
            inside, value = bool(equal), equal[0] if equal else value
        else:
            inside = isinstance(value, int | float) and not isinstance(value, bool)
            inside = inside and of.low <= value <= of.high
            if inside and of.step is not None:
                steps = (value - of.low) / of.step
                inside = abs(steps - round(steps)) < TINY
            if inside:
                value = type(of.low)(value)
        if not inside:
            whose = "of the grid" if given else "of the command, which the grid keeps,"
            space = (" to " if self.numeric else ", ").join(map(str, self.ends))
            raise InputError(
                f"{self.name} {value} {whose} is not in the search space, which has {space}: "
                f"widen it, or leave the grid out"
            )
        return value

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers of a range."""
        return not isinstance(self.distribution, CategoricalDistribution)

    @property
    def ends(self) -> tuple[Any, ...]:
        """The values to try whether a cell takes them: both ends, or all choices."""
        if isinstance(self.distribution, CategoricalDistribution):
            return self.distribution.choices
        return self.distribution.low, self.distribution.high


def _kind(value: Any) -> type:
    """2 and 2.0 are one number; true and 1 are not."""
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)


def _methods(name: str, when: Any) -> tuple[str, ...]:
    if when is None:
        return ()
    if not isinstance(when, Mapping) or set(when) != {"method"}:
        raise InputError(f"{name}: when is {{method: [names]}}, got {when!r}")
    given = when["method"]
    listed = given if isinstance(given, list | tuple) else [given]
    if not listed:
        raise InputError(f"{name}: when names no method; leave it out where all have {name}")
    return tuple(str(one) for one in listed)


def _choices(name: str, choices: Any) -> CategoricalDistribution:
    if not isinstance(choices, list | tuple) or not choices:
        raise InputError(f"{name}: choices must be a list of at least one value, got {choices!r}")
    if not all(one is None or isinstance(one, bool | int | float | str) for one in choices):
        raise InputError(f"{name}: choices are numbers, words, true, false or null, got {choices}")
    return CategoricalDistribution(tuple(map(as_number, choices)))


def as_number(value: Any) -> Any:
    """A value; what YAML 1.1 takes for a word though it is a number (1e-4) as a number.

    Example:
        >>> as_number("1e-4"), as_number("sum"), as_number(3)
        (0.0001, 'sum', 3)
    """
    return float(value) if isinstance(value, str) and EXPONENT.fullmatch(value) else value


def _range(
    name: str, given: Mapping[str, Any], *, whole: bool
) -> FloatDistribution | IntDistribution:
    low, high = (_number(name, key, given.get(key), whole=whole) for key in ("low", "high"))
    log = given.get("log", False)
    if not isinstance(log, bool):
        raise InputError(f"{name}: log is true or false, got {log!r}")
    if low > high:
        raise InputError(f"{name}: low {low:g} is above high {high:g}; exchange them")
    if log and low <= 0:
        raise InputError(
            f"{name}: a log scale begins above 0, got low {low:g}; give a small low, or log: false"
        )
    step = given.get("step")
    if step is not None:
        step = _number(name, "step", step, whole=whole)
        if log or step <= 0:
            raise InputError(f"{name}: step is above 0 and not on a log scale, got {step:g}")
        steps = (high - low) / step
        if abs(steps - round(steps)) > TINY:
            raise InputError(
                f"{name}: step {step:g} does not lead from low {low:g} to high {high:g}; the last "
                f"one would be at {low + math.floor(steps) * step:g}"
            )
    if whole:
        return IntDistribution(int(low), int(high), log=log, step=int(step or 1))
    return FloatDistribution(float(low), float(high), log=log, step=step)


def _number(name: str, key: str, value: Any, *, whole: bool) -> float:
    """A number, also where YAML 1.1 takes it for a word (1e-4)."""
    kind = "a whole number" if whole else "a finite number"
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (whole and number != int(number)):
        raise InputError(f"{name}: {key} must be {kind}, got {value!r}")
    return number
