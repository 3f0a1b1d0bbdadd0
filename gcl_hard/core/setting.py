"""A setting, stated once: what flags, checks, YAML, columns and search spaces derive from.

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
    """What type and default of a setting do not say.

    Attributes:
        help: a phrase for the help of a flag.
        part: part of the run that it belongs to.
        name: that users type, if it is not the argument's.
        least: the smallest value; as the others of a number, or of every number of a list.
        most: the largest value.
        above: a bound that is no value.
        below: a bound that is no value.
        symbol: in tables, such as β.
        title: on axes and in tables of a search, if it is not the name.
        follows: settings on which its value in a recipe depends: if one of them is stated, the
            recipe's value does not hold.
        common: whether most people set it; such are first in a help.
        several: whether ``bench`` takes several values, and runs all combinations.
        chosen: whether it can be chosen inside training data.
        own: whether it may name a part of the user's own, ``module:Name`` or a file of an encoder.
        read_by: baselines that read it.
        space: what a search draws it from: ``(low, high)``, ``(low, high, "log")`` or a list of
            choices; empty if it cannot be searched.
        usual: the default, given the settings above; in place of one that is None.
        applies: whether it has a meaning, given the settings above.
        before: earlier defaults, the first one first: results made with them keep their keys.
        otherwise: its value where it has none; the declared default if None.
        canonical: one form of a given value, of several that mean the same.
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
    own: bool = False
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
        name: that users type.
        argument: argument of the class that declares it.
        kind: its type, without ``Annotated``.
        default: its declared default.
        setting: all else.
    """

    name: str
    argument: str
    kind: Any
    default: Any
    setting: Setting

    @cached_property
    def kinds(self) -> tuple[Any, ...]:
        """Types of its values but None."""
        several = get_args(self.kind) if get_origin(self.kind) in (Union, UnionType) else ()
        return tuple(kind for kind in several or (self.kind,) if kind is not NoneType)

    @cached_property
    def optional(self) -> bool:
        """Whether None stands for a default."""
        return NoneType in get_args(self.kind)

    def keyed(self, above: Above) -> Any:
        """The value that a key leaves out: the usual one, or the first that was usual."""
        setting = self.setting
        applies = setting.applies is None or setting.applies(above)
        return setting.before[0] if applies and setting.before else self.usual(above)

    def usual(self, above: Above) -> Any:
        """Its value, if none is given."""
        setting = self.setting
        if setting.applies is not None and not setting.applies(above):
            return self.default if setting.otherwise is None else setting.otherwise(above)
        return self.default if setting.usual is None else setting.usual(above)

    def checked(self, value: Any) -> Any:
        """A value of the setting's type and within its bounds; lists become tuples.

        Raises:
            InputError: for another; names the setting.
        """
        return None if value is None and self.optional else self._checked(value, self.kinds[0])

    def _checked(self, value: Any, kind: Any) -> Any:
        flag, bounds = self.name.replace("_", "-"), self.setting
        if get_origin(kind) is Literal:
            return check_option(flag, value, get_args(kind))
        if get_origin(kind) is tuple:
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise InputError(f"{flag} must be a list, got {value!r}")
            return tuple(self._checked(one, get_args(kind)[0]) for one in value)
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
        TypeError: for one without a default.

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
    found = {}
    hints = _hints(owner)
    for name, parameter in inspect.signature(owner).parameters.items():
        hint = hints.get(name)
        if get_origin(hint) is not Annotated:
            continue
        kind, *notes = get_args(hint)
        for setting in (note for note in notes if isinstance(note, Setting)):
            if parameter.default is parameter.empty:
                raise TypeError(f"{owner.__name__}.{name} is a setting without a default")
            one = Field(setting.name or name, name, kind, parameter.default, setting)
            found[one.name] = one
    return found


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
    """Settings of several classes; one that two declare must be the same.

    Raises:
        TypeError: for one name with two defaults or types.
    """
    found: dict[str, Field] = {}
    for name, one in (item for fields in several for item in fields.items()):
        known = found.setdefault(name, one)
        if (known.kind, known.default) != (one.kind, one.default):
            raise TypeError(
                f"{name} is declared twice: {known.kind} {known.default!r}, {one.kind} "
                f"{one.default!r}"
            )
    return found


def resolve(known: Mapping[str, Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting, in the order of declaration: a default sees what stands above it.

    A setting that does not apply has the value that stands for that, whatever is given.

    Args:
        known: the declared settings.
        given: values by name; what is left out, or None where None is no value, has its default.

    Raises:
        InputError: for a value of a wrong type or out of bounds.
    """
    values: dict[str, Any] = {}
    for name, one in known.items():
        value = one.checked(given.get(name, one.default))
        setting = one.setting
        if value is not None and setting.canonical is not None:
            value = setting.canonical(value, values)
        if value is None or (setting.applies is not None and not setting.applies(values)):
            value = one.usual(values)
        values[name] = value
    return values


def stated(
    known: Mapping[str, Field], values: Mapping[str, Any], *, keyed: bool = False
) -> dict[str, Any]:
    """What differs from the default given the rest, so that ``resolve(stated(v)) == v``.

    Args:
        known: the declared settings.
        values: resolved ones.
        keyed: whether a default that has changed is the first one, as in keys.
    """
    found: dict[str, Any] = {}
    above: dict[str, Any] = {}
    for name, one in known.items():
        if values[name] != (one.keyed(above) if keyed else one.usual(above)):
            found[name] = values[name]
        above[name] = values[name]
    return found


def restricted(one: Field, reads: Callable[[Above], bool]) -> Field:
    """A setting that applies only where ``reads`` is true, too."""
    own = one.setting.applies
    both = reads if own is None else lambda above: reads(above) and own(above)
    return replace(one, setting=replace(one.setting, applies=both))
