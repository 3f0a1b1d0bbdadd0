"""Data sets of a command, given by name or path, and the domain they belong to."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from gcl_hard.errors import InputError, nearest
from gcl_hard.experiments.domains import CONFIGS, DOMAINS, groups_of, namespace
from gcl_hard.experiments.outside import import_domain
from gcl_hard.experiments.presets import domain_of_table
from gcl_hard.experiments.settings import Domain
from gcl_hard.files.io import expanded
from gcl_hard.files.tables import header_of, is_table

DEFAULT: Domain = "graphs"
"""The domain where nothing says another."""
SUFFIX = re.compile(r"\.(npz|tar|tar\.gz|tgz)$", re.IGNORECASE)
"""Suffix of a file that is a data set."""


def named_paths(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Names and folder of data sets given as paths, ``--dataset some/folder/NAME``.

    A bare name is the path of a NAME.npz or folder in the working directory, unless a known set has
    it; a domain that reads names itself may have such a file in the data folder.
    """
    names, domain, data_dir = _names(stated), stated.get("domain"), stated.get("data_dir")
    alone = isinstance(stated.get("dataset"), str)
    if not _takes_paths(names, domain):
        if domain is None or not names:
            return {}
        asked = import_domain(domain)
        if hasattr(package := namespace(asked), "name_or_path"):
            groups = groups_of(asked)
            names = [
                name if name.casefold() in groups else package.name_or_path(name, data_dir=data_dir)
                for name in names
            ]
        return {"dataset": names[0] if alone else tuple(names)}
    here = data_dir is None
    for name in names if here else ():
        if name and "/" not in name and not _is_here(name):
            _warn_of_namesakes(name)
    paths = [expanded(name) for name in names if "/" in name or (here and _is_here(name))]
    if not paths:
        return {}
    folders = {path.parent for path in paths}
    if len(paths) < len(names) or len(folders) > 1 or data_dir is not None:
        raise InputError(
            f"{paths[0]} is a path: other data sets of the command must be in the same folder, and "
            f"--data-dir left out"
        )
    for name, path in zip(names, paths, strict=True):
        if not path.exists():
            raise InputError(f"dataset '{name}': there is no such file or folder")
        _check_folder(path)
    beside = {
        name: PurePath(os.path.relpath(expanded(stated[name]), paths[0].parent)).as_posix()
        for name in naming("files_beside")
        if name in stated and expanded(stated[name]).exists()
    }
    stems = tuple(path.name if path.is_dir() else SUFFIX.sub("", path.name) for path in paths)
    return {"dataset": stems[0] if alone else stems, "data_dir": folders.pop(), **beside}


def naming(kind: str) -> dict[str, Domain]:
    """Settings that name data, and their domains.

    Args:
        kind: ``marks``, by which the data of a command belong to that domain, or ``files_beside``,
            which are a second file beside a data set.
    """
    return {name: domain for domain in CONFIGS for name in getattr(namespace(domain), kind, ())}


def with_domain(stated: Mapping[str, Any]) -> dict[str, Any]:
    """What names the data, with the domain if a setting says it: the first, as several have it."""
    marked = [domain for name, domain in naming("marks").items() if name in stated]
    return {"domain": marked[0], **stated} if marked else {**stated}


def _takes_paths(names: Sequence[str], domain: str | None) -> bool:
    """Whether a command's data sets may be paths; a domain may read its names itself."""
    if domain is not None:
        return _from_paths(import_domain(domain))
    return all(_from_paths(owner) for name in names for owner in _owners(name))


def _from_paths(domain: Domain) -> bool:
    return bool(getattr(namespace(domain), "from_paths", False))


def _answers(function: str, *arguments: Any) -> dict[Domain, Any]:
    """Results of a function of the domains' packages, by domain; some lack it."""
    packages = {domain: namespace(domain) for domain in CONFIGS}
    return {
        domain: getattr(package, function)(*arguments)
        for domain, package in packages.items()
        if hasattr(package, function)
    }


def _header(name: str, data_dir: Path | None) -> list[str]:
    """The columns of a table; none of what is no table, or cannot be read."""
    if not is_table(name):
        return []
    path = expanded(name)
    if "/" not in name and not path.is_file():
        path = next(filter(None, _answers("own_file", name, data_dir).values()), path)
    with suppress(InputError):
        return header_of(path)
    return []


def _owners(name: str, data_dir: Path | None = None) -> list[Domain]:
    """The domains that have a data set of a name: by its columns, else by the name alone."""
    header = _header(name, data_dir)
    answers = _answers("has_columns", header) if header else {}
    if not any(answers.values()):
        answers = _answers("has_dataset", name, data_dir)
    return [domain for domain, owns in answers.items() if owns]


def _is_here(name: str) -> bool:
    """Whether a file or folder of the working directory has this name, and no other set."""
    path = Path(name)
    if path.suffix.casefold() == ".npz" or is_table(name):
        return path.is_file()
    return path.is_dir() and not _is_available(name)


def _warn_of_namesakes(name: str) -> None:
    """Warn of a set in the working directory that another of the same name hides."""
    files = _answers("own_file", name) if _is_available(name) else {}
    for domain, paths in _answers("namesakes", Path(), name).items() if files else ():
        for path in paths:
            if files[domain] is None or not path.samefile(files[domain]):
                warnings.warn(
                    f"dataset {name!r} is not {path.absolute()}, which is not read: give that "
                    f"another name, and --dataset this name, to have it read",
                    stacklevel=2,
                )


def _is_available(name: str, data_dir: Path | None = None) -> bool:
    """Whether a known set, or one in the data folder or the cache, has this name."""
    return not name or any(map(_from_paths, _owners(name, data_dir)))


def _check_folder(path: Path) -> None:
    """Refuse a folder that holds no data set, or images under a known set's name."""
    if path not in _answers("own_file", path.name, path.parent).values() and path.is_dir():
        raise InputError(
            f"{path} holds no images in CLASS/ or train/CLASS/ (.png, .jpg and others), no "
            f"{path.name}_A.txt of graphs, and no train.txt, valid.txt and test.txt of links"
        )


def domain_of(stated: Mapping[str, Any]) -> Domain:
    """The domain of a command: as stated, else that of its data sets or its table.

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
    named = import_domain(stated["domain"]) if "domain" in stated else None
    by_domain: dict[Domain, list[str]] = {}
    for name in names:
        by_domain.setdefault(named or _domain(name, stated.get("data_dir")), []).append(name)
    if len(by_domain) > 1:
        several = " and ".join(
            f"{domain} ({', '.join(sets)})" for domain, sets in by_domain.items()
        )
        raise InputError(f"{several} have different settings: give each kind a command of its own")
    domain = next(iter(by_domain), named or DEFAULT)
    if not table:
        return domain
    needed = domain_of_table(table)
    if (names or named) and domain != needed:
        raise InputError(f"--table {table} needs {needed}, not {domain} ({', '.join(names)})")
    return needed


def check_said(stated: Mapping[str, Any]) -> None:
    """Refuse a table that is not there, or of which neither its columns nor the command say
    what it holds.
    """
    for name in [] if "domain" in stated else _names(stated):
        path, folder = expanded(name), stated.get("data_dir")
        absent = is_table(name) and not path.exists()
        if absent and ("/" in name or not any(_answers("own_file", name, folder).values())):
            near = nearest(path.name, [p.name for p in path.parent.glob("*") if is_table(p.name)])
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            raise InputError(f"dataset {name!r}: there is no such file{meant}")
        header = _header(name, folder)
        if header and not any(_answers("has_columns", header).values()):
            flags = " or ".join(f"--{mark} ({domain})" for mark, domain in naming("marks").items())
            raise InputError(
                f"{name} is a table whose columns do not say what it holds: name them by {flags}, "
                f"or say it by --domain"
            )


def domains_of_objects(data: Any) -> list[Domain]:
    """The domains whose packages define the class of some data or its bases; else the default.

    The last one knows most of the class: molecules are graphs, too.
    """
    modules = [base.__module__ for base in type(data).__mro__]
    domains: list[Domain] = [
        domain for domain, package in DOMAINS.items()
        if any(module.startswith(f"{package.name}.") for module in modules)
    ]  # fmt: skip
    return domains or [DEFAULT]


def _names(stated: Mapping[str, Any]) -> list[str]:
    names = stated.get("dataset", ())
    names = [names] if isinstance(names, str) else list(names)
    if any(name and not name.strip("/") for name in names):
        raise InputError("dataset '/' is no data set")  # all of a machine's files
    return names


def _domain(name: str, data_dir: Path | None) -> Domain:
    """The domain that has a data set, or nearly its name; graphs if none has.

    Raises:
        InputError: if several have one of the name.
    """
    domains = _owners(name, data_dir)
    if len(domains) > 1:
        raise InputError(
            f"dataset {name!r} is the name of several, of {' and of '.join(domains)}: say which "
            f"by --domain {' or --domain '.join(domains)}"
        )
    near = [domain for domain, is_near in _answers("is_misspelt", name).items() if is_near]
    return next(iter(domains or near), DEFAULT)
