"""Sets of texts in files: tables, and published sets."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gcl_hard.errors import InputError
from gcl_hard.files import locating
from gcl_hard.files.io import expanded
from gcl_hard.files.locating import Download, Wanted
from gcl_hard.files.tables import is_table, read_table
from gcl_hard.texts import KNOWN, canonical_name, in_folder
from gcl_hard.texts.data import TextSet


def load_texts(
    name: str | os.PathLike[str],
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
) -> TextSet:
    """A set of texts by its name, or from its file.

    Args:
        name: BANKING77, in any case; or the path of a table, or its name in the data folder or the
            cache's ``texts``.
        data_dir: folder with your sets; that of ``GCL_HARD_DATA`` if None.
        cache_dir: root of the cache, as for :func:`gcl_hard.files.io.cache_root`.
        download: whether the network may be used.
        text: column of a table, as of :meth:`TextSet.from_table`, as are label and id.
        label: likewise.
        id: likewise.

    Raises:
        InputError: if there is no such set, its file does not fit, or a known set has other numbers
            than the published one.

    Example:
        >>> load_texts("missing.csv")
        Traceback (most recent call last):
        ...
        gcl_hard.errors.InputError: set of texts 'missing.csv' is not available
        tried:
        ...
    """
    name = canonical_name(os.fspath(name))
    path = locate(name, data_dir=data_dir, cache_dir=cache_dir, download=download)
    known = KNOWN.get(name)
    if known is None:
        return TextSet.from_table(path, text=text, label=label, id=id)
    texts, labels, parts = list[Any](), list[Any](), list[str]()
    for part, (file, *_) in known.files.items():
        table = read_table(path / file, "texts")
        texts += table[known.columns[0]].tolist()
        labels += table[known.columns[1]].tolist()
        parts += [part] * (len(texts) - len(parts))
    loaded = TextSet.from_texts(texts, np.array(labels, object), split=parts, name=name)
    assert loaded.split is not None
    counts = *(int((loaded.split == number).sum()) for number in (0, 2)), loaded.n_classes
    if counts != known.counts:
        kinds = "training texts", "test texts", "classes"
        sizes = [f"{n:,} {kind}" for n, kind in zip(counts, kinds, strict=True)]
        raise InputError(
            f"{path} does not hold the published {name}: it has {', '.join(sizes)} in place of "
            f"{', '.join(f'{n:,}' for n in known.counts)}; give a set of your own another name"
        )
    return loaded


def paths(name: str, *, data_dir: str | Path | None = None) -> list[Path]:
    """The files of a set."""
    path, known = locate(name, data_dir=data_dir), KNOWN.get(canonical_name(name))
    return [path] if known is None else [path / file for file, *_ in known.files.values()]


def locate(
    name: str,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
) -> Path:
    """The table of a set, or the folder of a known one; arguments of :func:`load_texts`.

    Raises:
        InputError: if it cannot be found; lists what was tried, and where to put which file.
    """
    name, path = canonical_name(name), expanded(name)
    if data_dir is None and is_table(name) and path.is_file():
        return path
    places = locating.folders("texts", data_dir=data_dir, cache_dir=cache_dir, files="tables")
    known = KNOWN.get(name)
    put = [("a table with columns text and label", name)]
    site = None
    if known is not None:
        put = [(url, file) for file, url, _ in known.files.values()]
        first = next(iter(known.files.values()))[1]
        site = Download(first, name, by=partial(_download, name))
    wanted = Wanted(
        look=partial(in_folder, name=name),
        lacks=lambda folder: f"no {' and '.join(file for _, file in put)}",
        headline=locating.headline("set of texts", name, KNOWN, "is a table, with its suffix"),
        put=put,
        hint="TextSet.from_texts and from_table make sets of your own",
        download=site,
    )
    return locating.locate(wanted, places, download=download)


def _download(name: str, folder: Path) -> None:
    """Download the tables of a known set into a new folder."""
    folder.mkdir()
    for file, url, sha256 in KNOWN[name].files.values():
        locating.download_file(Download(url, file, f"sha256:{sha256}"), folder)
