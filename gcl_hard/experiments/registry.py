"""The experiment of each domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.custom import named_object
from gcl_hard.runs.experiment import Experiment
from gcl_hard.settings.base import Config, RunConfig
from gcl_hard.settings.domains import CONFIGS


def _ours(name: str) -> Callable[[], Experiment[Any, Any]]:
    """Makes an experiment of this package, whose module is imported only then."""
    module, _, cls = name.partition(":")

    def make() -> Experiment[Any, Any]:
        found: Experiment[Any, Any] = getattr(
            import_module(f"gcl_hard.experiments.{module}"), cls
        )()
        return found

    return make


EXPERIMENTS: dict[str, Callable[[], Experiment[Any, Any]]] = {
    "graphs": _ours("graphs:GraphExperiment"),
    "images": _ours("images:ImageExperiment"),
}
"""Makes the experiment of each domain, by its name."""


def register(config: type[RunConfig], experiment: Callable[[], Experiment[Any, Any]]) -> None:
    """Make a domain known: its flags, runs, searches, tables and pages are those of all domains.

    A module that calls this is what ``--domain MODULE`` imports. Records name their domain, and
    are read where it is known.

    Args:
        config: the settings, a class made by :func:`configuration`; its ``domain`` is the name.
        experiment: makes the experiment, such as its class.

    Raises:
        InputError: if another domain has the name.

    Example: ``tests/experiments/vectors.py`` is a domain of vectors with labels, whole.
    """
    known = CONFIGS.setdefault(config.domain, config)
    if (known.__module__, known.__qualname__) != (config.__module__, config.__qualname__):
        raise InputError(
            f"domain {config.domain!r} is that of {known.__module__}.{known.__qualname__}: give "
            f"{config.__module__}.{config.__qualname__} another name"
        )
    CONFIGS[config.domain] = config
    EXPERIMENTS[config.domain] = experiment


def import_domain(name: str) -> str:
    """The domain of a name, or of a module that registers one, which is imported then.

    Args:
        name: ``graphs``, ``mine`` or ``package.mine``, or ``mine:NAME`` of several; a module of
            the working folder is found as well.

    Raises:
        InputError: if the module cannot be imported, or registers no domain or several.

    Example:
        >>> import_domain("images")
        'images'
    """
    if name in CONFIGS:
        return name
    module, _, chosen = name.partition(":")
    before = {*CONFIGS}
    named_object(module, "domain")
    if module not in _REGISTERED:
        own = [d for d, one in CONFIGS.items() if f"{one.__module__}.".startswith(f"{module}.")]
        _REGISTERED[module] = own or [domain for domain in CONFIGS if domain not in before]
    found = [domain for domain in _REGISTERED[module] if chosen in ("", domain)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"--domain {name}: it registers {' and '.join(found)}: give one of "
            f"{', '.join(f'{module}:{one}' for one in found)}"
        )
    raise InputError(
        f"--domain {name}: neither a domain that is known ({', '.join(CONFIGS)}) nor a module "
        f"that registers {chosen or 'one'} (gcl_hard.experiments.register)"
    )


_REGISTERED: dict[str, list[str]] = {}
"""The domains that modules registered, by the names that these were imported by."""


def experiment_of(config: RunConfig | type[RunConfig]) -> Experiment[Any, Any]:
    """The experiment of a configuration's domain."""
    return EXPERIMENTS[config.domain]()


def canonical(config: Config) -> Config:
    """The configuration with the canonical name of its data set.

    Raises:
        InputError: if the name cannot be that of result files.

    Example:
        >>> from gcl_hard.settings.graphs import GraphConfig
        >>> canonical(GraphConfig("ptc")).dataset
        'PTC_MR'
    """
    name = config.canonical_dataset
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"dataset {name!r} is no UTF-8: give its file or folder a new name"
        ) from error
    return replace(config, dataset=name)
