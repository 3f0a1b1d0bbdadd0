"""Domains from outside the package, registered by modules that a command names."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.evaluation.metrics import METRICS
from gcl_hard.experiments.custom import named_object
from gcl_hard.experiments.domains import CONFIGS, namespace
from gcl_hard.experiments.registry import EXPERIMENTS
from gcl_hard.experiments.settings import RunConfig


def import_domain(name: str) -> str:
    """The domain of a name, or of a module that registers a domain; the module is imported.

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
        inside = [d for d in CONFIGS if f"{namespace(d).__name__}.".startswith(f"{module}.")]
        _REGISTERED[module] = inside or [domain for domain in CONFIGS if domain not in before]
    domains = [domain for domain in _REGISTERED[module] if chosen in ("", domain)]
    if len(domains) == 1:
        return domains[0]
    if domains:
        several = " or ".join(f"{module}:{domain}" for domain in domains)
        raise InputError(f"--domain {name}: it registers several: give {several}")
    raise InputError(f"--domain {name}: it registers no domain {chosen} (gcl_hard.experiments)")


_REGISTERED: dict[str, list[str]] = {}
"""The domains that modules registered, by the names that these were imported by."""


TABLES: tuple[MutableMapping[str, Any], ...] = CONFIGS, EXPERIMENTS, METRICS, _REGISTERED
"""Tables that the module of a domain adds to."""


def domain_to_import(config: RunConfig) -> str | None:
    """The ``--domain`` that registers a configuration's domain; None for one of this package."""
    name = next((n for n, domains in _REGISTERED.items() if config.domain in domains), None)
    return name if name is None or len(_REGISTERED[name]) == 1 else f"{name}:{config.domain}"
