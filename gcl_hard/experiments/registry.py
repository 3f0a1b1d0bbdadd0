"""The experiment of each domain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.runs.experiment import Experiment
from gcl_hard.settings.base import Config, RunConfig


def experiment_of(config: RunConfig | type[RunConfig]) -> Experiment[Any, Any]:
    """The experiment of a configuration's domain."""
    if config.domain == "graphs":
        from gcl_hard.experiments.graphs import GraphExperiment

        return GraphExperiment()
    from gcl_hard.experiments.images import ImageExperiment

    return ImageExperiment()


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
