"""Presets of commands: the paper's tables, from the domains that have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gcl_hard.errors import check_option
from gcl_hard.experiments.domains import DOMAINS
from gcl_hard.experiments.settings import Domain


@dataclass(frozen=True)
class Preset:
    """Default values of a ``--table``, whose settings are chosen inside training data.

    Attributes:
        values: values of flags that are not given; a list if the flag takes several.
        by_dataset: further values for single data sets.
        small: values of the small version of the table, for CPUs, if it has one.
    """

    values: dict[str, Any]
    by_dataset: dict[str, dict[str, Any]] = field(default_factory=dict)
    small: dict[str, Any] = field(default_factory=dict)


def domain_of_table(name: str) -> Domain:
    """The domain of a table's configurations.

    Raises:
        InputError: for an unknown table.
    """
    domains = {table: domain for domain, package in DOMAINS.items() for table in package.tables}
    return domains[check_option("table", name, sorted(domains))]


def preset(name: str) -> Preset:
    """The preset of a table; errors of :func:`domain_of_table`."""
    return DOMAINS[domain_of_table(name)].module("presets").TABLES[name]
