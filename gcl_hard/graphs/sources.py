"""Where a set's raw files come from: given folder, cache, package, download, in this order."""

from __future__ import annotations

import http.client
import shutil
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable
from pathlib import Path

from gcl_hard.errors import InputError, nearest, unknown
from gcl_hard.places import cache_root, given_folder

SITE = "https://www.chrsmrrs.com/graphkerneldatasets"
TIMEOUT = 20.0  # seconds without an answer
PACKAGED = Path(__file__).parents[1] / "data"


def cache_folder(cache_dir: str | Path | None = None) -> Path:
    """The folder that downloaded graph sets are kept in.

    Args:
        cache_dir: the cache's root; by default the environment's ``GCL_HARD_CACHE``, else
            ``gcl_hard`` under ``XDG_CACHE_HOME``, else ``~/.cache/gcl_hard``.

    Returns:
        The root's subfolder ``tu``; it need not exist.

    Example:
        >>> cache_folder("a/b").as_posix()
        'a/b/tu'
    """
    return cache_root(cache_dir) / "tu"


def find(
    name: str,
    *,
    data_dir: str | Path | None = None,
    cache_dir: str | Path | None = None,
    download: bool = True,
    known: Iterable[str] = (),
) -> Path:
    """The zip, or the folder of raw files, of a graph set; downloaded when nowhere else.

    Args:
        name: the set's name as TUDataset spells it.
        data_dir: a folder with ``NAME/`` or ``NAME.zip``; by default ``GCL_HARD_DATA`` says which.
        cache_dir: the cache's root, see :func:`cache_folder`.
        download: whether the network may be asked.
        known: names to offer when this one may be a misspelling.

    Returns:
        An existing path.

    Raises:
        InputError: the folder given does not exist, or the set cannot be had; the message lists
            every place tried, where to put the file, and what works offline.

    Example:
        >>> find("MUTAG", download=False).stem
        'MUTAG'
    """
    given = given_folder(data_dir, files="NAME.zip files")
    folders = {"cache": cache_folder(cache_dir), "package": PACKAGED}
    if given:
        folders = {"data folder": given, **folders}
    for folder in folders.values():
        found = _in_folder(folder, name)
        if found:
            return found

    tried = [f"{where} {folder}: no {name}/, no {name}.zip" for where, folder in folders.items()]
    url = f"{SITE}/{name}.zip"
    if download:
        try:
            return _download(url, folders["cache"] / f"{name}.zip")
        except (OSError, http.client.HTTPException, zipfile.BadZipFile) as error:
            tried.append(f"download {url}: {error}")
    else:
        tried.append(f"download {url}: switched off")
    options = list(known)
    head = f"dataset {name!r} cannot be had"
    if name not in options and nearest(name, options):
        head = f"{unknown('dataset', name, options)}; any other TUDataset name needs its zip"
    target = (folders["data folder"] if given else folders["cache"]) / f"{name}.zip"
    raise InputError(
        f"{head}\ntried:\n  " + "\n  ".join(tried) + f"\nto use it offline, put {url} at {target}"
        " (any folder does that --data-dir or GCL_HARD_DATA names)\nMUTAG is in the package and"
        " works offline"
    )


def _in_folder(folder: Path, name: str) -> Path | None:
    unpacked, zipped = folder / name, folder / f"{name}.zip"
    if any(unpacked.glob(f"{name}_*.txt")) or any(unpacked.glob(f"raw/{name}_*.txt")):
        return unpacked
    return zipped if zipped.is_file() else None


def _download(url: str, target: Path) -> Path:
    """Fetch into a temporary folder, check, then rename: the cache never holds half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        partial = Path(folder) / target.name
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, partial.open("wb") as file:
            shutil.copyfileobj(answer, file)
        with zipfile.ZipFile(partial) as archive:
            damaged = archive.testzip()
        if damaged:
            raise zipfile.BadZipFile(f"{damaged} arrived damaged")
        partial.replace(target)
    return target
