"""The domains by name, and their configurations; each domain is loaded on first use."""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError
from gcl_hard.experiments.settings import RunConfig, defaults, known


class Package(NamedTuple):
    """Where a domain of this package is.

    Attributes:
        name: the package; its modules ``settings`` and ``experiment`` have ``CONFIG`` and
            ``EXPERIMENT``.
        extra: the extra that its runs need.
        trials: whether its module ``trials`` splits data for searches itself, by ``outer_parts``.
        tables: names of the paper's tables in its module ``presets``.
        encoders: its module of the encoders that it lends to other domains; empty without.
        pretrains: whether its configurations are those of a pre-training.
    """

    name: str
    extra: str
    trials: bool = False
    tables: tuple[str, ...] = ()
    encoders: str = ""
    pretrains: bool = False

    def module(self, name: str) -> Any:
        """A module of the domain, imported."""
        return import_module(f"{self.name}.{name}")


DOMAINS: dict[str, Package] = {
    "graphs": Package("gcl_hard.graphs", "graphs", trials=True, pretrains=True, tables=("2",)),
    "nodes": Package("gcl_hard.nodes", "graphs"),
    "links": Package("gcl_hard.links", "graphs"),
    "images": Package("gcl_hard.images", "images", trials=True, pretrains=True, tables=("1",)),
    "molecules": Package("gcl_hard.molecules", "molecules", encoders="pretraining"),
    "texts": Package("gcl_hard.texts", "evaluation"),
    "vectors": Package("gcl_hard.vectors", "evaluation"),
}  # fmt: skip
"""The domains of this package; :func:`gcl_hard.experiments.register` adds others."""


def namespace(domain: str) -> Any:
    """The module that knows a domain's data sets by name: its package, or that of its settings.

    It may have ``has_dataset(name, data_dir)``, ``from_paths``, and whatever else commands ask
    about names before there is a configuration.
    """
    package = DOMAINS.get(domain)
    return import_module(package.name if package else CONFIGS[domain].__module__)


def groups_of(domain: str) -> Mapping[str, tuple[str, ...]]:
    """Data sets that a domain has under one name, by that name in small letters."""
    return getattr(namespace(domain), "GROUPS", {})


def lent_encoders() -> Any:
    """The module of the encoders that a domain lends to others."""
    check_extra("graphs", "an encoder of molecules")
    return next(p.module(p.encoders) for p in DOMAINS.values() if p.encoders)


class _Configs(UserDict[str, Any]):
    """The class of configurations of each domain; ours are imported on first use."""

    def __getitem__(self, name: str) -> type[RunConfig]:
        if self.data[name] is None:
            self.data[name] = DOMAINS[name].module("settings").CONFIG
        return self.data[name]


CONFIGS: MutableMapping[str, type[RunConfig]] = _Configs(dict.fromkeys(DOMAINS))
"""The class of configurations of each domain; :func:`gcl_hard.experiments.register` adds one."""


def from_dict(stored: Mapping[str, Any], domain: str = "", *, recorded: bool = False) -> RunConfig:
    """The configuration of a record.

    Args:
        stored: settings by name, also after JSON; those that are missing have their defaults.
        recorded: whether all settings of that time were stored, so that missing ones have the
            defaults of that time.
        domain: name of the domain; if not recorded, the one that has all the settings.

    Returns:
        The configuration, made once for the same settings.

    Raises:
        InputError: for an unknown setting or domain; names it.

    Example:
        >>> from_dict({"method": "ucl", "lr": 0.1}) == CONFIGS["graphs"](method="ucl", lr=0.1)
        True
    """
    if domain and domain not in CONFIGS:
        raise InputError(
            f"unknown domain {domain!r}; known: {', '.join(CONFIGS)}; --domain MODULE names the "
            f"module that registers it"
        )
    kinds = (CONFIGS[domain],) if domain else tuple(CONFIGS.values())
    return _read(json.dumps(stored), kinds, recorded)


@lru_cache(maxsize=2**16)  # a folder has several seeds of each configuration
def _read(text: str, kinds: tuple[type[RunConfig], ...], recorded: bool) -> RunConfig:
    stored: dict[str, Any] = json.loads(text)
    surplus = min((set(stored) - set(defaults(kind)) for kind in kinds), key=len)
    if surplus:
        raise InputError(f"unknown settings: {', '.join(sorted(surplus))}")
    kind = next(kind for kind in kinds if set(stored) <= set(defaults(kind)))
    if recorded:
        before = {
            n: declared.setting.before[0]
            for n, declared in known(kind).items()
            if declared.setting.before
        }
        stored = before | stored
    return kind(**stored)
