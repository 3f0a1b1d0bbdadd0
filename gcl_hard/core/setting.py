"""A setting, stated once: flags, checks, YAML, columns and search spaces derive from it.

A declared setting is an annotated argument of a class or a field of a dataclass::

    beta: Annotated[float, Setting("β ≥ 0", least=0, symbol="β")] = 1.0
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from gcl_hard.errors import InputError, check_at_least, check_number, check_option

Above = Mapping[str, Any]
"""Resolved values of the settings declared above one."""
Part = Literal["data", "split", "encoder", "gin", "training", "loss", "views", "probe"]
KINDS = {bool: "True or False", int: "a whole number", str: "a word"}


@dataclass(frozen=True)
class Setting:
    """A setting's properties beyond its type and default.

    Attributes:
        help: a phrase for the help of a flag.
        part: part of the run that it belongs to.
        name: the name that users type, if it is not the argument's.
        least: the smallest value; like the other bounds, of a number or of each number in a list.
        most: the largest value.
        above: an exclusive lower bound.
        below: an exclusive upper bound.
        symbol: symbol in tables, such as β.
        title: title on axes and in tables of a search, if it is not the name.
        follows: settings on which its value in a recipe depends: if one of them is stated, the
            recipe's value does not hold.
        common: whether most people set it; these come first in a help.
        several: whether ``bench`` takes several values, and runs all combinations.
        chosen: whether it can be chosen inside training data.
        custom: whether it may name the user's own part, ``module:Name`` or an encoder file.
        read_by: baselines that read it.
        space: search space: ``(low, high)``, ``(low, high, "log")`` or a list of choices; empty if
            it cannot be searched.
        usual: the default, given the settings above; used if the declared one is None.
        applies: whether it has a meaning, given the settings above.
        before: earlier defaults, oldest first: results made with them keep their keys.
        otherwise: its value where it does not apply; the declared default if None.
        canonical: converts a value to a canonical form, where several mean the same.
    """

    help: str
    part: Part = "loss"
    name: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    symbol: str = ""
    title: str = ""
    follows: tuple[str, ...] = ()
    common: bool = False
    several: bool = False
    chosen: bool = False
    custom: bool = False
    read_by: tuple[str, ...] = ()
    space: Sequence[Any] | None = None
    usual: Callable[[Above], Any] | None = None
    applies: Callable[[Above], bool] | None = None
    otherwise: Callable[[Above], Any] | None = None
    before: tuple[Any, ...] = ()
    canonical: Callable[[Any, Above], Any] | None = None


@dataclass(frozen=True)
class Field:
    """A declared setting.

    Attributes:
        name: the name that users type.
        argument: argument of the class that declares it.
        kind: its type, without ``Annotated``.
        default: its declared default.
        setting: its other properties.
    """

    name: str
    argument: str
    kind: Any
    default: Any
    setting: Setting

    @cached_property
    def kinds(self) -> tuple[Any, ...]:
        """Types of its values other than None."""
        several = get_args(self.kind) if get_origin(self.kind) in (Union, UnionType) else ()
        return tuple(kind for kind in several or (self.kind,) if kind is not NoneType)

    @cached_property
    def optional(self) -> bool:
        """Whether None stands for a default."""
        return NoneType in get_args(self.kind)

    def keyed(self, above: Above) -> Any:
        """The value that a key omits: the default, or the oldest one if it has changed."""
        setting = self.setting
        applies = setting.applies is None or setting.applies(above)
        return setting.before[0] if applies and setting.before else self.usual(above)

    def usual(self, above: Above) -> Any:
        """Its default value."""
        setting = self.setting
        if setting.applies is not None and not setting.applies(above):
            return self.default if setting.otherwise is None else setting.otherwise(above)
        return self.default if setting.usual is None else setting.usual(above)

    def checked(self, value: Any) -> Any:
        """A value of the setting's type and within its bounds; lists become tuples.

        Raises:
            InputError: for any other value; names the setting.
        """
        return None if value is None and self.optional else self._checked(value, self.kinds[0])

    def _checked(self, value: Any, kind: Any) -> Any:
        flag, bounds = self.name.replace("_", "-"), self.setting
        if get_origin(kind) is Literal:
            return check_option(flag, value, get_args(kind))
        if get_origin(kind) is tuple:
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise InputError(f"{flag} must be a list, got {value!r}")
            return tuple(self._checked(element, get_args(kind)[0]) for element in value)
        if kind is float:
            check_number(
                flag, value, least=bounds.least, above=bounds.above, most=bounds.most,
                below=bounds.below,
            )  # fmt: skip
            return float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"{flag} must be {KINDS[kind]}, got {value!r}")
        if bounds.least is not None:
            check_at_least(flag, value, int(bounds.least))
        return value


def declared(owner: Callable[..., Any]) -> dict[str, Field]:
    """The settings that a class declares, by name: its annotated arguments.

    Raises:
        TypeError: for a setting without a default.

    Example:
        >>> @dataclass
        ... class Tilt:
        ...     beta: Annotated[float, Setting("β ≥ 0", least=0)] = 1.0
        ...     tolerance: float = 1e-3
        >>> list(declared(Tilt)), declared(Tilt)["beta"].default
        (['beta'], 1.0)
    """
    return _declared(owner)


@cache
def _declared(owner: Any) -> dict[str, Field]:
    fields = {}
    hints = _hints(owner)
    for name, parameter in inspect.signature(owner).parameters.items():
        hint = hints.get(name)
        if get_origin(hint) is not Annotated:
            continue
        kind, *notes = get_args(hint)
        for setting in (note for note in notes if isinstance(note, Setting)):
            if parameter.default is parameter.empty:
                raise TypeError(f"{owner.__name__}.{name} is a setting without a default")
            field = Field(setting.name or name, name, kind, parameter.default, setting)
            fields[field.name] = field
    return fields


def _hints(owner: Any) -> dict[str, Any]:
    """Types of the arguments of a class; of a dataclass those of its fields, inherited ones too,
    each read in the module of the class that declares it.
    """
    if not is_dataclass(owner):
        return get_type_hints(owner.__init__, include_extras=True)
    hints: dict[str, Any] = {}
    for base in reversed(inspect.getmro(owner)):  # type: ignore[arg-type]
        hints |= inspect.get_annotations(base, eval_str=True)
    return hints


def joined(*several: Mapping[str, Field]) -> dict[str, Field]:
    """Settings of several classes; one that is declared twice must agree.

    Raises:
        TypeError: for a name with two defaults or types.
    """
    fields: dict[str, Field] = {}
    for name, field in (item for mapping in several for item in mapping.items()):
        first = fields.setdefault(name, field)
        if (first.kind, first.default) != (field.kind, field.default):
            raise TypeError(
                f"{name} is declared twice: {first.kind} {first.default!r}, {field.kind} "
                f"{field.default!r}"
            )
    return fields


def resolve(known: Mapping[str, Field], explicit: Mapping[str, Any]) -> dict[str, Any]:
    """Values of all settings, in the order of declaration: a default sees those above it.

    A setting that does not apply has the value that stands for that, even if stated otherwise.

    Args:
        known: the declared settings.
        explicit: values by name; the others, and None where None is no value, have their defaults.

    Raises:
        InputError: for a value of the wrong type or out of bounds.
    """
    values: dict[str, Any] = {}
    for name, field in known.items():
        value = field.checked(explicit.get(name, field.default))
        setting = field.setting
        if value is not None and setting.canonical is not None:
            value = setting.canonical(value, values)
        if value is None or (setting.applies is not None and not setting.applies(values)):
            value = field.usual(values)
        values[name] = value
    return values


def stated(
    known: Mapping[str, Field], values: Mapping[str, Any], *, keyed: bool = False
) -> dict[str, Any]:
    """Values that differ from their defaults given the rest, so that ``resolve(stated(v)) == v``.

    Args:
        known: the declared settings.
        values: resolved values.
        keyed: whether to compare with the oldest default if it has changed, as in keys.
    """
    differing: dict[str, Any] = {}
    above: dict[str, Any] = {}
    for name, field in known.items():
        if values[name] != (field.keyed(above) if keyed else field.usual(above)):
            differing[name] = values[name]
        above[name] = values[name]
    return differing


def restricted(field: Field, reads: Callable[[Above], bool]) -> Field:
    """A copy of a setting that applies only if ``reads`` is also true."""
    applies = field.setting.applies
    both = reads if applies is None else lambda above: reads(above) and applies(above)
    return replace(field, setting=replace(field.setting, applies=both))
