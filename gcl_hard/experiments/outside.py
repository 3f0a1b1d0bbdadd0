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
        name: ``graphs``, ``mine`` or ``package.mine``; a module of the working folder is found as
            well.

    Raises:
        InputError: if the module cannot be imported, or does not register one domain.

    Example:
        >>> import_domain("images")
        'images'
    """
    if name in CONFIGS:
        return name
    before = {*CONFIGS}
    named_object(name, "domain")
    if name not in _REGISTERED:
        inside = [d for d in CONFIGS if f"{namespace(d).__name__}.".startswith(f"{name}.")]
        domains = inside or [domain for domain in CONFIGS if domain not in before]
        if len(domains) != 1:
            raise InputError(
                f"--domain {name}: it registers {' and '.join(domains) or 'no domain'}, not one "
                f"domain (gcl_hard.experiments)"
            )
        (_REGISTERED[name],) = domains
    return _REGISTERED[name]


_REGISTERED: dict[str, str] = {}
"""The domain of each module that was imported for one, by the module's name."""


TABLES: tuple[MutableMapping[str, Any], ...] = CONFIGS, EXPERIMENTS, METRICS, _REGISTERED
"""Tables that the module of a domain adds to."""


def domain_to_import(config: RunConfig) -> str | None:
    """The ``--domain`` that registers a configuration's domain; None for one of this package."""
    return next((name for name, domain in _REGISTERED.items() if domain == config.domain), None)
