"""Data sets as a command names them: by name or path, and the domain they belong to."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.experiments.domains import CONFIGS
from gcl_hard.experiments.outside import import_domain
from gcl_hard.experiments.presets import presets
from gcl_hard.experiments.settings import Domain, RunConfig
from gcl_hard.files.io import expanded
from gcl_hard.links.settings import LinkConfig


def named_paths(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Data sets given as paths, ``--dataset some/folder/NAME``: their names and their folder.

    A name alone is the path of a NAME.npz or folder in the working directory, unless a set has it.
    Of a domain that reads its names itself it may be that of a file in the data folder.
    """
    given, names, domain = stated.get("dataset", ()), _names(stated), stated.get("domain")
    if not _takes_paths(names, domain):
        if domain is None or not names:
            return {}
        config, data_dir = CONFIGS[import_domain(domain)], stated.get("data_dir")
        read = tuple(config.name_or_path(name, data_dir) for name in names)
        return {"dataset": read[0] if isinstance(given, str) else read}
    here = stated.get("data_dir") is None
    for name in names:
        if name and "/" not in name and not (here and _is_here(name)):
            _check_namesakes(name, stated.get("data_dir"))
    paths = [expanded(name) for name in names if "/" in name or (here and _is_here(name))]
    if not paths:
        return {}
    folders = {path.parent for path in paths}
    if len(paths) < len(names) or len(folders) > 1 or stated.get("data_dir") is not None:
        raise InputError(
            f"{paths[0]} is a path: other data sets of the command must be in the same folder, and "
            f"--data-dir left out"
        )
    for name, path in zip(names, paths, strict=True):
        if not path.exists():
            raise InputError(f"dataset '{name}': there is no such file or folder")
        _check_folder(path)
    stems = tuple(path.stem if path.suffix.casefold() == ".npz" else path.name for path in paths)
    return {"dataset": stems[0] if isinstance(given, str) else stems, "data_dir": folders.pop()}


def _takes_paths(names: Sequence[str], domain: str | None) -> bool:
    """Whether a command's data sets may be paths: not those of a domain that reads their names."""
    if domain is not None and not CONFIGS[import_domain(domain)].from_paths:
        return False
    others = [one for one in CONFIGS.values() if not one.from_paths]
    return not any(one.has_dataset(name) for one in others for name in names)


def _is_here(name: str) -> bool:
    """Whether a file or folder of the working directory has this name, and no other set."""
    path = Path(name)
    if path.suffix.casefold() == ".npz":
        return path.is_file()
    return path.is_dir() and not _is_available(name)


def _check_namesakes(name: str, data_dir: Path | None) -> None:
    """Warn of a set in the working directory that another of the same name hides.

    Raises:
        InputError: if there is no set of the name, but one with other capitals or as a NAME.npz.
    """
    from gcl_hard.images.files import nearly_named

    if _is_available(name, data_dir):
        for path in _not_read(name) if data_dir is None else ():
            warnings.warn(
                f"dataset {name!r} is not {path.absolute()}, which is not read: give that another "
                f"name, and --dataset this name, to have it read",
                stacklevel=2,
            )
        return
    folders = [data_dir] if data_dir else [os.environ.get("GCL_HARD_DATA"), Path()]
    near = [one for folder in folders if folder for one in nearly_named(Path(folder), name)]
    if near:
        raise InputError(
            f"dataset {name!r}: there is {near[0].absolute()}, which is spelt otherwise: give "
            f"--dataset {near[0].name}"
        )


def _is_available(name: str, data_dir: Path | None = None) -> bool:
    """Whether a known set, or one in the data folder or the cache, has this name."""
    return not name or any(one.is_available(name, data_dir) for one in _of_paths())


def _not_read(name: str) -> list[Path]:
    return [path for one in _of_paths() for path in one.not_read(name)]


def _of_paths() -> list[type[RunConfig]]:
    return [one for one in CONFIGS.values() if one.from_paths]


def _check_folder(path: Path) -> None:
    """Refuse a folder that holds neither images nor graphs, or images under a known set's name."""
    from gcl_hard.images.files import KNOWN, canonical_name
    from gcl_hard.images.folders import SUFFIXES, has_classes

    if not path.is_dir() or LinkConfig.has_dataset(f"{path}/"):
        return
    holds = has_classes(path)
    if holds and canonical_name(path.name) in KNOWN:
        raise InputError(f"{path} has the name of a known set: give your images another one")
    if not holds and not any(path.rglob(f"{glob.escape(path.name)}_A.txt")):
        raise InputError(
            f"{path} holds no images in CLASS/ or train/CLASS/ ({', '.join(SUFFIXES)}), and no "
            f"{path.name}_A.txt of graphs"
        )


def domain_of(stated: Mapping[str, Any]) -> Domain:
    """The domain of a command: the one that is named, else that of its data sets or its table.

    Args:
        stated: values by name: ``domain``, ``dataset``, ``table``, ``data_dir``.

    Returns:
        The domain; graphs by default.

    Raises:
        InputError: for data sets of several domains, a table and data sets of different ones, or
            an unknown table.

    Example:
        >>> domain_of({"dataset": ("CIFAR10",)}), domain_of({"table": "1"}), domain_of({})
        ('images', 'images', 'graphs')
    """
    names, table = _names(stated), stated.get("table")
    asked = import_domain(stated["domain"]) if "domain" in stated else None
    of: dict[Domain, list[str]] = {}
    for name in names:
        of.setdefault(asked or _domain(name, stated.get("data_dir")), []).append(name)
    if len(of) > 1:
        several = " and ".join(f"{domain} ({', '.join(some)})" for domain, some in of.items())
        raise InputError(f"{several} have different settings: give each kind a command of its own")
    found = next(iter(of), asked or "graphs")
    if not table:
        return found
    tables = presets()
    if table not in tables:
        *some, last = tables
        raise InputError(f"--table: expected {', '.join(some)} or {last}, got {table}")
    of_table = tables[table].domain
    if (names or asked) and found != of_table:
        raise InputError(f"--table {table} needs {of_table}, not {found} ({', '.join(names)})")
    return of_table


def _names(stated: Mapping[str, Any]) -> list[str]:
    given = stated.get("dataset", ())
    return [given] if isinstance(given, str) else list(given)


def _domain(name: str, data_dir: Path | None) -> Domain:
    """The domain that has a data set; graphs if none says so."""
    for domain, config in CONFIGS.items():
        if config.has_dataset(name, data_dir):
            return domain
    return "graphs"
