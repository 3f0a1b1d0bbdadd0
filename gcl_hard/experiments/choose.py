"""Whether a command line is about graphs or images, before its flags can be read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml

from gcl_hard.errors import InputError
from gcl_hard.experiments.table import TABLES


def backend_for(arguments: Sequence[str]) -> Literal["graphs", "images"]:
    """What a command line is about: its data sets say so, else its table; else graphs.

    Args:
        arguments: of ``python -m gcl_hard.bench``.

    Returns:
        The backend.

    Raises:
        InputError: for data sets of both kinds, for a table and data sets of different kinds, or
            an unknown table.

    Example:
        >>> backend_for(["--dataset=CIFAR10"]), backend_for(["--table", "1"]), backend_for([])
        ('images', 'images', 'graphs')
    """
    from gcl_hard.images.datasets import KNOWN, is_image_set

    given = {"dataset": "", "table": "", "data-dir": ""}
    for path in _values(arguments, "config"):
        given |= _config(Path(path), given)
    for name in given:
        given[name] = ([given[name], *_values(arguments, name)])[-1]
    names = [name.strip() for name in given["dataset"].split(",") if name.strip()]
    folder = given["data-dir"] or None
    of_images = [n for n in names if is_image_set(n, folder) or _nearly(n, KNOWN)]
    if of_images and len(of_images) < len(names):
        of_graphs = [name for name in names if name not in of_images]
        raise InputError(
            f"images ({', '.join(of_images)}) and graphs ({', '.join(of_graphs)}) have different "
            f"settings: give each kind a command of its own"
        )
    found: Literal["graphs", "images"] = "images" if of_images else "graphs"
    if not given["table"]:
        return found
    if given["table"] not in TABLES:
        *some, last = TABLES
        expected = f"{', '.join(some)} or {last}"
        raise InputError(f"--table: expected {expected}, got {given['table']}")
    table = TABLES[given["table"]].backend
    if names and found != table:
        raise InputError(
            f"--table {given['table']} is of {table}, and {', '.join(names)} of {found}"
        )
    return table


def _nearly(name: str, known: Iterable[str]) -> bool:
    """Whether an image set is misspelt: its flags are those of images, and its message too."""
    folded = [one.casefold() for one in known]
    return bool(difflib.get_close_matches(name.casefold(), folded, cutoff=0.75))


def _values(arguments: Iterable[str], name: str) -> Iterator[str]:
    """What a flag was given, in order."""
    items = iter(arguments)
    for item in items:
        flag, given, value = item.partition("=")
        if flag == f"--{name}":
            yield value if given else next(items, "")


def _config(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Those of a YAML file; what is wrong with it is the parser's to say."""
    try:
        stored: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    if not isinstance(stored, dict):
        return {}
    found = {name: stored.get(name.replace("-", "_")) for name in names}
    return {
        name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in found.items()
        if value is not None
    }
