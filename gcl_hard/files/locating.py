"""Locating the files of a data set: in a data folder, the cache, the package, or by download."""

from __future__ import annotations

import os
import sys
import tarfile
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gcl_hard.core.extras import check_extra
from gcl_hard.errors import InputError, nearest, unknown
from gcl_hard.files import cached
from gcl_hard.files.io import cache_root, expanded, given_folder, scratch_folder

RETRIES = 3
"""How often a known file is asked for again; one of any name, which may not exist, once."""

NPZ_KINDS = {
    "images": ({"train_images"}, {"test_images"}),
    "nodes": ({"adj_indptr"}, {"node_features"}, {"node_labels"}, {"edges"}),
    "vectors": ({"x", "y"},),
}
"""Kinds of sets that are a single ``.npz`` file, with alternative sets of arrays that mark them."""


def npz_kind(path: Path) -> str | None:
    """Kind of set that an ``.npz`` file holds, by the names of its arrays.

    Args:
        path: the file; its arrays are not read.

    Returns:
        None if it is missing or damaged, or its arrays have other names.

    Raises:
        InputError: if its arrays have the names of several kinds.
    """
    if not path.is_file():  # a pipe might never end
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.removesuffix(".npy") for member in archive.namelist()}
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return None
    kinds = [kind for kind, sets in NPZ_KINDS.items() if any(names <= members for names in sets)]
    if len(kinds) > 1:
        raise InputError(
            f"{path} may hold {' or '.join(kinds)}: its arrays are {', '.join(sorted(members))}; "
            f"save the arrays of a single set"
        )
    return kinds[0] if kinds else None


class Download(NamedTuple):
    """A published file, and its form in the cache.

    Attributes:
        url: its address.
        name: name in the cache, of the file or of the folder inside it.
        checksum: ``ALGORITHM:DIGITS``, an algorithm of :mod:`hashlib` and hexadecimal digits; empty
            if none is published.
        unpack: whether to unpack it as an archive (.zip, or .tar in any compression).
        by: creates the file or folder at a path, instead of a plain download.
    """

    url: str
    name: str
    checksum: str = ""
    unpack: bool = False
    by: Callable[[Path], object] | None = None


class Wanted(NamedTuple):
    """A data set to locate.

    Attributes:
        look: returns the path of the set in a folder; None if there is none.
        lacks: what a folder without it lacks, for the message.
        headline: first line of the message if it is nowhere.
        put: descriptions and paths of the files that make it available offline.
        hint: last line of the message.
        download: None for a set that is not published as a single file.
    """

    look: Callable[[Path], Path | None]
    lacks: Callable[[Path], str]
    headline: str
    put: Sequence[tuple[str, str]]
    hint: str
    download: Download | None = None


def folders(
    kind: str, *, data_dir: str | Path | None, cache_dir: str | Path | None, files: str
) -> dict[str, Path]:
    """The folders to search for a set, in this order: the data folder if any, and the cache.

    Args:
        kind: name of the cache's folder for such sets.
        data_dir: the data folder, as for :func:`gcl_hard.files.io.given_folder`.
        cache_dir: root of the cache, as for :func:`gcl_hard.files.io.cache_root`.
        files: the kind of files expected in the data folder, for the message.

    Returns:
        Paths, which need not exist, by their names in messages.

    Raises:
        InputError: if the data folder does not exist.

    Example:
        >>> folders("tu", data_dir=".", cache_dir="a", files="NAME.zip files").keys()
        dict_keys(['data folder', 'cache'])
    """
    data_folder = given_folder(data_dir, files=files)
    cache = {"cache": cache_root(cache_dir) / kind}
    return {"data folder": data_folder, **cache} if data_folder else cache


def searched(kind: str, data_dir: str | Path | None) -> list[Path]:
    """The data folder, which need not be there, and the cache's folder of such sets."""
    folder = data_dir or os.environ.get("GCL_HARD_DATA")
    return [*map(expanded, [folder] if folder else []), cache_root() / kind]


def own_file(
    kind: str, look: Callable[[Path], Path | None], data_dir: str | Path | None
) -> Path | None:
    """The file of a set in the data folder or the cache; arguments of :func:`folders`."""
    return next((path for folder in searched(kind, data_dir) if (path := look(folder))), None)


def npz_files(folder: Path, name: str, canonical: Callable[[str], str]) -> list[Path]:
    """The npz files in a folder that have the name of a set, in any case and known spelling."""
    files = sorted(folder.glob("*.[nN][pP][zZ]"))
    return [path for path in files if canonical(path.stem).casefold() == name.casefold()]


def members(path: Path, pattern: str = "**/*") -> list[Path]:
    """The files that a set is read from: one, or those of a folder."""
    path = path.resolve()
    return sorted(path.glob(pattern)) if path.is_dir() else [path]


def single(paths: Sequence[Path], name: str) -> Path | None:
    """The only path that may be a set; None if there is none.

    Raises:
        InputError: if there are several.
    """
    if len(paths) > 1:
        raise InputError(
            f"{' and '.join(map(str, sorted(paths)))}: each may be the set {name}; remove or "
            f"rename one"
        )
    return paths[0] if paths else None


def search(look: Callable[[Path], Path | None], places: Mapping[str, Path]) -> Path | None:
    """The result in the first folder that has one."""
    return next((path for folder in places.values() if (path := look(folder)) is not None), None)


def headline(kind: str, name: str, known: Collection[str], needs: str) -> str:
    """First line of the message about a set that is nowhere.

    Args:
        kind: what a set is called.
        name: its name.
        known: the known names, of which the nearest are offered.
        needs: what any other set needs.

    Example:
        >>> headline("graph", "mine", ["Cora"], "needs its mine.npz")
        "graph 'mine' is not available"
    """
    if name in known or not nearest(name, known):
        return f"{kind} {name!r} is not available"
    return f"{unknown(kind, name, known)}; any other {needs}"


def locate(wanted: Wanted, places: Mapping[str, Path], *, download: bool) -> Path:
    """The path of a set in the first folder that holds it, downloaded if necessary.

    Args:
        wanted: the set.
        places: from :func:`folders`, and more after the cache.
        download: whether the network may be used.

    Returns:
        The result of ``wanted.look``.

    Raises:
        InputError: if it is nowhere; lists the attempts, and where to put which file. If its files
            in the cache are not what was downloaded; names the first.
    """
    if (path := search(wanted.look, places)) is not None:
        return _undamaged(path)
    tried = [f"{place} {folder}: {wanted.lacks(folder)}" for place, folder in places.items()]
    if site := wanted.download:
        reason = "switched off"
        if download:
            try:
                fetch(site, places["cache"])
                reason = f"it holds no {site.name}"
            except Exception as error:  # from the network, archives, the disk, or other packages
                reason = str(error)
            if (path := wanted.look(places["cache"])) is not None:
                return path
        tried.append(f"download {site.url}: {reason}")
    first = next(iter(places.values()))
    needed = " or ".join(f"{file} at {first / path}" for file, path in wanted.put)
    raise InputError(
        "\n  ".join([f"{wanted.headline}\ntried:", *tried])
        + f"\nto use it offline, put {needed} (or into any folder named by --data-dir or "
        f"GCL_HARD_DATA)\n{wanted.hint}"
    )


def _undamaged(path: Path) -> Path:
    if (file := cached.first_damaged(path)) is not None:
        raise InputError(f"{file} is not what was downloaded: remove {path} to download it again")
    return path


def fetch(site: Download, folder: Path) -> None:
    """Download into a temporary folder, check, unpack, move: no partial set ever appears.

    Args:
        site: the download; an archive without the folder of its name leaves nothing.
        folder: folder that it appears in, created if needed.

    Raises:
        Exception: from pooch, archives or the disk, if it arrives incomplete or cannot be written.
    """
    with scratch_folder(folder) as scratch:
        path = scratch / site.name
        if site.by is not None:
            site.by(path)
        else:
            archive = download_file(site, scratch)
            if site.unpack:
                _unpack(archive, scratch)
        if path.exists():
            cached.add(path, folder / site.name)


def download_file(site: Download, folder: Path) -> Path:
    """Download a file by pooch, which compares its checksum."""
    check_extra("graphs", f"downloading {site.url}", "pooch")
    import pooch

    name = "download" if site.unpack else site.name
    pooch.get_logger().setLevel("WARNING")
    downloads = pooch.create(
        path=folder, base_url="", urls={name: site.url}, registry={name: site.checksum or None},
        retry_if_failed=RETRIES if site.checksum else min(RETRIES, 1),
    )  # fmt: skip
    progress = sys.stderr.isatty()
    return Path(downloads.fetch(name, downloader=pooch.HTTPDownloader(progress, chunk_size=2**20)))


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive, of which no member lands outside the folder."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(folder)
    else:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")  # pooch has no filter before Python 3.12
