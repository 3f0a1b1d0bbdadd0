"""Where the files of an image set come from: given folder, cache, package, download."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from gcl_hard.errors import InputError, nearest, unknown
from gcl_hard.places import cache_root, given_folder

TIMEOUT = 20.0  # seconds without an answer

Layout = Literal["npz", "torchvision", "folders"]


class Found(NamedTuple):
    """A file or folder, and how it is read."""

    path: Path
    layout: Layout


class Site(NamedTuple):
    """What a set is called where it is published."""

    folder: str
    url: str
    layout: Layout


SITES: dict[str, Site] = {
    "CIFAR10": Site(
        "cifar-10-batches-py", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "torchvision",
    ),
    "CIFAR100": Site(
        "cifar-100-python", "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "torchvision",
    ),
    "STL10": Site(
        "stl10_binary", "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", "torchvision"
    ),
    "TinyImageNet": Site(
        "tiny-imagenet-200", "http://cs231n.stanford.edu/tiny-imagenet-200.zip", "folders"
    ),
}  # fmt: skip


def cache_folder(cache_dir: str | Path | None = None) -> Path:
    """The folder that image sets are kept in: the cache root's ``images``."""
    return cache_root(cache_dir) / "images"


def npz_of(name: str, data_dir: str | Path | None = None) -> Path | None:
    """A NAME.npz in the folder given or the cache; capitals do not matter."""
    given = data_dir or os.environ.get("GCL_HARD_DATA")
    folders = [Path(given).expanduser()] if given else []
    found = (_npz(folder, name) for folder in (*folders, cache_folder()))
    return next((path for path in found if path is not None), None)


def find(
    name: str,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
    known: Iterable[str] = (),
) -> Found | None:
    """The files of a set, downloaded when nowhere else; None for the digits of scikit-learn.

    Args:
        name: canonical.
        data_dir: a folder with ``NAME.npz`` or a set as its publisher packs it; by default
            ``GCL_HARD_DATA`` says which.
        cache_dir: the cache's root.
        download: whether the network may be asked.
        known: names to offer when this one may be a misspelling.

    Returns:
        What there is and how to read it.

    Raises:
        InputError: if the set cannot be had; lists every place tried, where to put the file, and
            what works offline.
    """
    given = given_folder(data_dir, files="NAME.npz files")
    folders = {"cache": cache_folder(cache_dir)}
    if given:
        folders = {"data folder": given, **folders}
    site = SITES.get(name)
    for folder in folders.values():
        if (npz := _npz(folder, name)) is not None:
            return Found(npz, "npz")
        if site is not None and (folder / site.folder).is_dir():
            return Found(folder / site.folder, site.layout)
    if name == "digits":
        return None
    looked = f"no {name}.npz" + (f", no {site.folder}/" if site else "")
    tried = [f"{where} {folder}: {looked}" for where, folder in folders.items()]
    if site is None:
        head = f"dataset {name!r} cannot be had"
        options = list(known)
        if nearest(name, options):
            head = f"{unknown('dataset', name, options)}; any other set needs its {name}.npz"
        raise InputError(_cannot(head, tried, f"{name}.npz", given or folders["cache"]))
    if download:
        try:
            return Found(_download(name, site, folders["cache"]), site.layout)
        except Exception as error:  # of the network, of archives, of torchvision's checks
            tried.append(f"download {site.url}: {error}")
    else:
        tried.append(f"download {site.url}: switched off")
    raise InputError(
        _cannot(
            f"dataset {name!r} cannot be had", tried,
            f"{name}.npz, or {site.url} unpacked to {site.folder}/,", given or folders["cache"],
        )
    )  # fmt: skip


def _cannot(head: str, tried: list[str], what: str, folder: Path) -> str:
    return (
        f"{head}\ntried:\n  "
        + "\n  ".join(tried)
        + f"\nto use it offline, put {what} into {folder}"
        " (any folder does that --data-dir or GCL_HARD_DATA names)\ndigits are in the package and "
        "work offline"
    )


def _npz(folder: Path, name: str) -> Path | None:
    if not folder.is_dir():
        return None
    wanted = f"{name}.npz".casefold()
    found = [f for f in folder.glob("*.npz") if f.name.casefold() == wanted]
    return min(found, key=lambda f: f.name != f"{name}.npz", default=None)


def _download(name: str, site: Site, folder: Path) -> Path:
    """Fetch and unpack into a temporary folder, then rename: the cache never holds half a set."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / site.folder
    with tempfile.TemporaryDirectory(dir=folder) as temporary, _patience():
        if site.layout == "torchvision":
            from torchvision import datasets

            getattr(datasets, name)(temporary, download=True)
        else:
            archive = Path(temporary) / f"{site.folder}.zip"
            with (
                urllib.request.urlopen(site.url) as answer,
                archive.open("wb") as file,
            ):
                shutil.copyfileobj(answer, file)
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(temporary)  # zipfile keeps members inside the folder
        try:
            (Path(temporary) / site.folder).replace(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    return target


@contextmanager
def _patience() -> Iterator[None]:
    """Connections give up after TIMEOUT: torchvision's downloads have no limit of their own."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
