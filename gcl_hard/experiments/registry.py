"""The experiment of each domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from gcl_hard.core.extras import check_extra
from gcl_hard.core.setting import declared
from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import CONFIGS, DOMAINS
from gcl_hard.experiments.experiment import Experiment, RunContext
from gcl_hard.experiments.settings import HEAD, Config, RunConfig

if TYPE_CHECKING:
    from gcl_hard.experiments.trials import Inner, Outer


EXPERIMENTS: dict[str, Callable[[], Experiment[Any, Any]]] = {
    domain: cache(lambda package=package: package.module("experiment").EXPERIMENT())
    for domain, package in DOMAINS.items()
}
"""What makes the experiment of each domain."""


def experiment_of(config: RunConfig | type[RunConfig]) -> Experiment[Any, Any]:
    """The experiment of a configuration's domain."""
    return EXPERIMENTS[config.domain]()


def runnable(config: RunConfig | type[RunConfig]) -> Experiment[Any, Any]:
    """The experiment of a configuration's domain, to run it.

    Raises:
        ImportError: without the packages that runs need; says which extra brings them.
    """
    if (package := DOMAINS.get(config.domain)) is not None:
        check_extra(package.extra, f"a run on {package.extra}")
    return experiment_of(config)


def register(config: type[RunConfig], experiment: Callable[[], Experiment[Any, Any]]) -> None:
    """Make a domain known: its flags, runs, searches, tables and pages are those of all domains.

    ``--domain MODULE`` imports a module that calls this. Records name their domain, and are read
    where it is known. Docs: own-domain shows a whole domain.

    Args:
        config: the settings, a frozen dataclass; its ``domain`` is the name.
        experiment: makes the experiment, such as its class.

    Raises:
        InputError: if another domain has the name, or for a class that is not a configuration.
    """
    if "__dataclass_fields__" not in vars(config):
        raise InputError(f"{config.__name__} is no configuration: decorate it with dataclass")
    if lacking := [name for name in HEAD if name not in declared(config)]:
        raise InputError(f"{config.__name__} has no setting {' and no '.join(lacking)}")
    known = CONFIGS.setdefault(config.domain, config)
    if (known.__module__, known.__qualname__) != (config.__module__, config.__qualname__):
        raise InputError(
            f"domain {config.domain!r} is that of {known.__module__}.{known.__qualname__}: give "
            f"{config.__module__}.{config.__qualname__} another name"
        )
    CONFIGS[config.domain], EXPERIMENTS[config.domain] = config, experiment


def outer_parts(
    config: RunConfig, data: Any, context: RunContext, inner: Inner, n_folds: int
) -> Sequence[Outer]:
    """The parts of a search: data to search in, with data to score the best settings on.

    A domain that does not split its data itself has one: the training part, in which trials are
    runs on hold-outs, and the test part.

    Args:
        config: settings that are not searched.
        data: the data, or the user's own.
        context: where and how.
        inner: how trials are scored.
        n_folds: number of parts, a study each.

    Raises:
        InputError: for data that cannot be split like this.
    """
    from gcl_hard.experiments.trials import Outer, Part

    experiment = runnable(config)
    package = DOMAINS.get(config.domain)
    if package is not None and package.trials:
        return package.module("trials").outer_parts(config, data, context, inner, n_folds)
    if config.n_scores > 1 and not experiment.has_validation:
        raise InputError(
            f"a search needs one test part, and {config.domain} are scored on {config.n_scores} "
            f"folds: choose settings by python -m gcl_hard.bench --select true"
        )
    if n_folds > 1:
        raise InputError(
            f"{config.domain} have a test part, which is the one outer part: leave --outer-folds "
            f"out"
        )
    experiment.check(config, data, context, inner=True)
    return (Outer(Part(experiment, data), data, experiment.facts(data).get("n_test")),)


def canonical(config: Config) -> Config:
    """The configuration with the canonical name of its data set.

    Raises:
        InputError: if the name cannot be part of a file name.

    Example:
        >>> canonical(CONFIGS["graphs"]("ptc")).dataset
        'PTC_MR'
    """
    name = experiment_of(config).canonical_dataset(config)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"dataset {name!r} is no UTF-8: give its file or folder a new name"
        ) from error
    return config if name == config.dataset else replace(config, dataset=name)
