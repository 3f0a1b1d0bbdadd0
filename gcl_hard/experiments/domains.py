"""The settings of each domain by its name, and stored ones read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.settings import RunConfig, defaults, known
from gcl_hard.graphs.settings import GraphConfig
from gcl_hard.images.settings import ImageConfig
from gcl_hard.links.settings import LinkConfig
from gcl_hard.molecules.settings import MoleculeConfig
from gcl_hard.nodes.settings import NodeConfig

CONFIGS: dict[str, type[RunConfig]] = {
    config.domain: config
    for config in (GraphConfig, NodeConfig, LinkConfig, ImageConfig, MoleculeConfig)
}
"""The class of configurations of each domain; :func:`gcl_hard.experiments.register` adds one."""


def is_baseline(name: str) -> bool:
    """Whether a method is a baseline, on graphs or on images.

    Example:
        >>> is_baseline("pixels"), is_baseline("hscl")
        (True, False)
    """
    return any(name in config.baselines for config in CONFIGS.values())


def from_dict(stored: Mapping[str, Any], domain: str = "", *, recorded: bool = False) -> RunConfig:
    """The configuration of a record.

    Args:
        stored: settings by name, also after JSON; those that are missing have their defaults.
        recorded: whether all were stored that there were, so that those that are missing have the
            defaults of that time.
        domain: its name; where that was not recorded, the one that has all the settings.

    Returns:
        The configuration, made once for the same settings.

    Raises:
        InputError: for a setting or a domain that is not known; names it.

    Example:
        >>> from_dict({"method": "ucl", "lr": 0.1}) == GraphConfig(method="ucl", lr=0.1)
        True
    """
    return _read(json.dumps(stored), domain, tuple(CONFIGS.values()), recorded)


@lru_cache(maxsize=2**16)  # a folder has several seeds of each configuration
def _read(
    text: str, domain: str, configs: tuple[type[RunConfig], ...], recorded: bool
) -> RunConfig:
    stored: dict[str, Any] = json.loads(text)
    if domain and domain not in CONFIGS:
        raise InputError(
            f"unknown domain {domain!r}; known: {', '.join(CONFIGS)}; --domain MODULE names the "
            f"module that registers it"
        )
    kinds = [CONFIGS[domain]] if domain else configs
    surplus = min((set(stored) - set(defaults(kind)) for kind in kinds), key=len)
    if surplus:
        raise InputError(f"unknown settings: {', '.join(sorted(surplus))}")
    kind = next(kind for kind in kinds if set(stored) <= set(defaults(kind)))
    if not domain and stored.get("objective") == "jsd":  # as it was before it was a setting
        stored = {"hardness_scale": "batch-max", **stored}
    if recorded:
        before = {n: one.setting.before[0] for n, one in known(kind).items() if one.setting.before}
        stored = before | stored
    return kind(**stored)
