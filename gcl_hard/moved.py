"""Old import paths and names: they work for one version, with a warning that names the new one.

This table is the only place that knows them. An entry goes in the version that it names.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from gcl_hard.errors import InputError

P = ParamSpec("P")
T = TypeVar("T")
REMOVED_IN = "0.4"
"""The version that has the old paths no more."""
MODULES: dict[str, tuple[str, ...]] = {
    f"gcl_hard.{old}": tuple(f"gcl_hard.{one}" for one in new.split())
    for old, new in {
        "cli": "commands.parser commands.bench commands.tune commands.pretrain commands.transfer "
        "commands.options commands.datasets",
        "experiments.api": "commands.evaluate",
        "experiments.bench": "commands.bench commands.execute",
        "experiments.config": "settings.base settings.graphs settings.images settings.domains",
        "experiments.domains": "runs.datasets experiments.registry",
        "experiments.engine": "runs.engine",
        "experiments.execution": "runs.execution",
        "experiments.experiment": "runs.experiment",
        "experiments.hardware": "runs.hardware",
        "experiments.presets": "settings.presets",
        "experiments.processes": "runs.processes",
        "experiments.progress": "runs.progress",
        "experiments.runner": "runs.runner",
        "experiments.runs": "runs.plan",
        "experiments.settings": "settings.flags settings.values",
        "experiments.store": "runs.record runs.store io",
        "experiments.transfer": "commands.transfer",
        "experiments.transfer_execution": "runs.runner experiments.molecules",
        "experiments.transfer_runs": "settings.molecules",
        "experiments.transfer_scores": "experiments.molecules",
        "experiments.transfer_store": "runs.store",
        "tuning.api": "commands.study commands.tune",
    }.items()
}
"""Old modules, and the modules that have their names now, the first that has one."""
NAMES: dict[tuple[str, str], str] = {
    ("gcl_hard.tuning", "study"): "gcl_hard.study",
    ("gcl_hard.evaluation", "ScaffoldSplit"): "gcl_hard.evaluation.ThreeWaySplit",
}
"""Names of packages that are elsewhere now."""
FLAGS: dict[str, dict[str, str]] = {
    "gcl_hard.pretrain": {"n": "subset"},
    "gcl_hard.tune": {"batch": "ensemble_size"},
}
"""By command, the old names of flags (and of keys in YAML), and their names now."""


def install() -> None:
    """Let Python find the old modules; called once, when the package is imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def moved_name(package: str, name: str) -> Any:
    """What a package had under a name that is elsewhere now.

    Raises:
        AttributeError: if it never had it.
    """
    if (package, name) not in NAMES:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    new = NAMES[package, name]
    _warn(f"{package}.{name}", new, stacklevel=4)
    module, _, attribute = new.rpartition(".")
    return getattr(import_module(module), attribute)


def renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Values by the names that arguments have now.

    Args:
        values: by name, old or new.
        names: old names, and those they have now.

    Raises:
        InputError: for a value under both names.
    """
    found = dict(values)
    for old, new in names.items():
        if old in found:
            if new in found:
                raise InputError(f"{old} is {new} now, and both are given: leave {old} out")
            _warn(old, new, stacklevel=4, kind=FutureWarning)
            found[new] = found.pop(old)
    return found


def renames(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function take arguments by old names."""

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(*args, **renamed(kwargs, names))

        return called

    return decorated


def _warn(old: str, new: str, stacklevel: int, kind: type[Warning] = DeprecationWarning) -> None:
    warnings.warn(
        f"{old} is {new} now; the old name goes with gcl_hard {REMOVED_IN}",
        kind, stacklevel=stacklevel,
    )  # fmt: skip


class _Alias(ModuleType):
    """An old module: its names are those of the new ones."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            for new in MODULES[self.__name__]:
                if hasattr(module := import_module(new), name):
                    _warn(f"{self.__name__}.{name}", f"{new}.{name}", stacklevel=3)
                    return getattr(module, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class _Finder(MetaPathFinder, Loader):
    """Finds the old modules, after all that exist."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in MODULES:
            return None
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Alias(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
