"""The experiment of each domain."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gcl_hard.errors import InputError
from gcl_hard.evaluation.metrics import METRICS
from gcl_hard.experiments.custom import named_object
from gcl_hard.experiments.domains import CONFIGS, DOMAINS, Package, namespace
from gcl_hard.experiments.experiment import Experiment, RunContext
from gcl_hard.experiments.settings import Config, RunConfig

if TYPE_CHECKING:
    from gcl_hard.experiments.trials import Inner, Outer

OuterParts = Callable[[Any, Any, RunContext, "Inner", int], Sequence["Outer"]]
"""The parts of a search, as :func:`outer_parts` returns them."""


class Registered(NamedTuple):
    """What is known of a domain.

    Attributes:
        experiment: makes its experiment.
        outer_parts: the parts of a search, if it has a way of its own.
    """

    experiment: Callable[[], Experiment[Any, Any]]
    outer_parts: OuterParts | None = None


def _registered(package: Package) -> Registered:
    """A domain of ours, whose modules are imported when they are asked for."""

    def experiment() -> Experiment[Any, Any]:
        experiment: Experiment[Any, Any] = package.run_module("experiment").EXPERIMENT()
        return experiment

    def parts(*arguments: Any) -> Sequence[Outer]:
        parts: Sequence[Outer] = package.run_module("trials").outer_parts(*arguments)
        return parts

    return Registered(experiment, parts if package.trials else None)


REGISTERED = {name: _registered(package) for name, package in DOMAINS.items()}
"""The domains by name; their settings are in :data:`gcl_hard.experiments.domains.CONFIGS`."""


def register(config: type[RunConfig], experiment: Callable[[], Experiment[Any, Any]]) -> None:
    """Make a domain known: its flags, runs, searches, tables and pages are those of all domains.

    A module that calls this is what ``--domain MODULE`` imports. Records name their domain, and
    are read where it is known. A page (docs: own-domain) shows a domain, whole.

    Args:
        config: the settings, a class made by :func:`configuration`; its ``domain`` is the name.
        experiment: makes the experiment, such as its class.

    Raises:
        InputError: if another domain has the name, or for a class that is no configuration.
    """
    if "__dataclass_fields__" not in vars(config):
        raise InputError(f"{config.__name__} is no configuration: decorate it with configuration")
    known = CONFIGS.setdefault(config.domain, config)
    if (known.__module__, known.__qualname__) != (config.__module__, config.__qualname__):
        raise InputError(
            f"domain {config.domain!r} is that of {known.__module__}.{known.__qualname__}: give "
            f"{config.__module__}.{config.__qualname__} another name"
        )
    CONFIGS[config.domain] = config
    REGISTERED[config.domain] = Registered(experiment)


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
    if not all(part.isidentifier() for part in module.split(".")) or module.endswith(".py"):
        raise InputError(
            f"--domain {name}: give the name of a module, such as {Path(module).stem}, whose file "
            f"is in the working folder or installed"
        )
    before = {*CONFIGS}
    named_object(module, "domain")
    if module not in _REGISTERED:
        defined = [d for d in CONFIGS if f"{namespace(d).__name__}.".startswith(f"{module}.")]
        _REGISTERED[module] = defined or [domain for domain in CONFIGS if domain not in before]
    domains = [domain for domain in _REGISTERED[module] if chosen in ("", domain)]
    if len(domains) == 1:
        return domains[0]
    if domains:
        raise InputError(
            f"--domain {name}: it registers {' and '.join(domains)}: give one of "
            f"{', '.join(f'{module}:{domain}' for domain in domains)}"
        )
    raise InputError(
        f"--domain {name}: neither a domain that is known ({', '.join(CONFIGS)}) nor a module "
        f"that registers {chosen or 'one'} (gcl_hard.experiments.register)"
    )


_REGISTERED: dict[str, list[str]] = {}
"""The domains that modules registered, by the names that these were imported by."""


TABLES: tuple[MutableMapping[str, Any], ...] = CONFIGS, REGISTERED, METRICS, _REGISTERED
"""What the module of a domain adds to."""


def domain_to_import(config: RunConfig) -> str | None:
    """What ``--domain`` makes a configuration's domain known; None for one of this package."""
    modules = (name for name, domains in _REGISTERED.items() if config.domain in domains)
    name = next(modules, None)
    return name if name is None or len(_REGISTERED[name]) == 1 else f"{name}:{config.domain}"


def experiment_of(config: RunConfig | type[RunConfig]) -> Experiment[Any, Any]:
    """The experiment of a configuration's domain."""
    return REGISTERED[config.domain].experiment()


def outer_parts(
    config: RunConfig, data: Any, context: RunContext, inner: Inner, n_folds: int
) -> Sequence[Outer]:
    """The parts of a search: data to search in, with data to score the best settings on.

    A domain without a way of its own has one: the training part, in which trials are runs on
    hold-outs, and the test part.

    Args:
        config: settings that are not searched.
        data: the data, or the user's own.
        context: where and how.
        inner: how trials are scored.
        n_folds: parts that are asked for, a study each.

    Raises:
        InputError: for data that cannot be split so.
    """
    from gcl_hard.experiments.trials import RunOuter

    known = REGISTERED[config.domain]
    if known.outer_parts is not None:
        return known.outer_parts(config, data, context, inner, n_folds)
    if config.n_scores > 1 and not config.has_validation:
        raise InputError(
            f"a search needs one test part, and {config.domain} are scored on {config.n_scores} "
            f"folds: choose settings by python -m gcl_hard.bench --select true"
        )
    if n_folds > 1:
        raise InputError(
            f"{config.domain} have a test part, which is the one outer part: leave --outer-folds "
            f"out"
        )
    experiment = known.experiment()
    experiment.check(config, data, context, inner=True)
    return (RunOuter(experiment, data, inner),)


def canonical(config: Config) -> Config:
    """The configuration with the canonical name of its data set.

    Raises:
        InputError: if the name cannot be that of result files.

    Example:
        >>> canonical(CONFIGS["graphs"]("ptc")).dataset
        'PTC_MR'
    """
    name = config.canonical_dataset
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"dataset {name!r} is no UTF-8: give its file or folder a new name"
        ) from error
    return config if name == config.dataset else replace(config, dataset=name)
