"""Presets of commands: the paper's tables and published accuracies, our recipes, asked of the
domains that have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gcl_hard.experiments.domains import DOMAINS
from gcl_hard.experiments.registry import experiment_of
from gcl_hard.experiments.settings import Domain, RunConfig


@dataclass(frozen=True)
class Preset:
    """Default values of a ``--table``.

    Attributes:
        domain: domain of its configurations.
        shows: description in the help.
        values: values of flags that are not given; a list where the flag takes several.
        by_dataset: the same for single data sets.
    """

    domain: Domain
    shows: str
    values: dict[str, Any]
    by_dataset: dict[str, dict[str, Any]] = field(default_factory=dict)


def presets() -> dict[str, Preset]:
    """Presets by the value of ``--table``; settings are chosen inside training data."""
    found = [package.module("presets").TABLES for package in DOMAINS.values() if package.presets]
    return dict(sorted((name, preset) for tables in found for name, preset in tables.items()))


def published_accuracy(config: RunConfig) -> float | None:
    """Accuracy that the H-SCL paper reports for a configuration.

    Args:
        config: with the canonical name of its data set.

    Returns:
        Percent; None for what the paper does not have: other domains, other protocols, two views
        of a graph, a part of an image set.
    """
    return experiment_of(config).published(config)
