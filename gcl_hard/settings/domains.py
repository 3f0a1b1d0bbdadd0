"""The settings of each domain by its name, and stored ones read again."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.settings.base import RunConfig, defaults
from gcl_hard.settings.graphs import GraphConfig
from gcl_hard.settings.images import ImageConfig

CONFIGS: dict[str, type[RunConfig]] = {
    config.domain: config for config in (GraphConfig, ImageConfig)
}
"""The class of configurations of each domain."""


def is_baseline(name: str) -> bool:
    """Whether a method is a baseline, on graphs or on images.

    Example:
        >>> is_baseline("pixels"), is_baseline("hscl")
        (True, False)
    """
    return any(name in config.baselines for config in CONFIGS.values())


def from_dict(stored: dict[str, Any]) -> RunConfig:
    """The configuration stored in a result file.

    Args:
        stored: the output of ``dataclasses.asdict``, also after JSON; settings that are missing
            have their defaults, or what they were before a JSD loss had a setting of its hardness.

    Returns:
        A ``GraphConfig``, or an ``ImageConfig`` if only that has all the settings.

    Raises:
        InputError: for an unknown setting.

    Example:
        >>> import json
        >>> from dataclasses import asdict
        >>> from_dict(json.loads(json.dumps(asdict(GraphConfig())))) == GraphConfig()
        True
    """
    return _read(json.dumps(stored))


@lru_cache(maxsize=4096)  # a folder has many seeds of few configurations
def _read(text: str) -> RunConfig:
    stored: dict[str, Any] = json.loads(text)
    kinds = [config for config in CONFIGS.values() if set(stored) <= set(defaults(config))]
    if not kinds:
        surplus = min((set(stored) - set(defaults(config)) for config in CONFIGS.values()), key=len)
        raise InputError(f"unknown settings: {', '.join(sorted(surplus))}")
    if stored.get("objective") == "jsd":  # as it was before it was a setting
        stored = {"hardness_scale": "batch-max", **stored}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    return kinds[0](**values)
