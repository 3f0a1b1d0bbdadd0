"""Locating the files of a data set: in a data folder, the cache, the package, or by download."""

from __future__ import annotations

import hashlib
import os
import tarfile
import time
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from gcl_hard.errors import InputError, nearest, unknown
from gcl_hard.files.io import cache_root, expanded, given_folder, refuse_bomb, scratch_folder
from gcl_hard.files.kept import damage, record, record_of, replace

T = TypeVar("T")

TIMEOUT = 20.0
"""Seconds to wait for a server's answer, and for each part of it."""
PATIENCE, LEAST_SPEED = 60.0, 10_000.0
"""Seconds after which a server must have sent at least so many bytes per second."""


NPZ_KINDS = {
    "images": ({"train_images"}, {"test_images"}, {"train_webp"}),
    "nodes": ({"adj_indptr"}, {"node_features"}, {"node_labels"}, {"edges"}),
}
"""Kinds of sets that are a single ``.npz`` file, with alternative sets of arrays that mark them."""


def npz_kind(path: Path) -> str | None:
    """Kind of set that an ``.npz`` file holds, by the names of its arrays: images or nodes.

    Args:
        path: the file; its arrays are not read.

    Returns:
        None if it is missing or damaged, or its arrays have other names.

    Raises:
        InputError: if its arrays have the names of both kinds.
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
            if none is published: then only the checksums inside an archive are checked.
        unpack: whether to unpack it as an archive (.zip, or .tar in any compression).
        by: creates the file or folder at a path, instead of a plain download.
    """

    url: str
    name: str
    checksum: str = ""
    unpack: bool = False
    by: Callable[[Path], object] | None = None


@dataclass(frozen=True)
class Wanted(Generic[T]):
    """A data set to locate.

    Attributes:
        look: returns the set's content in a folder, such as a path; None if there is none.
        lacks: what a folder without it lacks, for the message.
        headline: first line of the message if it is nowhere.
        put: descriptions and paths of the files that make it available offline.
        hint: last line of the message.
        download: None for a set that is not published as a single file.
    """

    look: Callable[[Path], T | None]
    lacks: Callable[[Path], str]
    headline: str
    put: tuple[tuple[str, str], ...]
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


def search(look: Callable[[Path], T | None], places: Mapping[str, Path]) -> T | None:
    """The result in the first folder that has one."""
    return next(
        (result for folder in places.values() if (result := look(folder)) is not None), None
    )


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


def locate(wanted: Wanted[T], places: Mapping[str, Path], *, download: bool) -> T:
    """A set's content in the first folder that holds it, downloaded if necessary.

    Args:
        wanted: the set.
        places: from :func:`folders`, and more after the cache.
        download: whether the network may be used.

    Returns:
        The result of ``wanted.look``.

    Raises:
        InputError: if it is nowhere; lists the attempts, and where to put which file.
    """
    tried, damaged, site = list[str](), "", wanted.download
    for place, folder in places.items():
        cached = folder / site.name if site and place == "cache" else None
        if cached and (why := damage(cached, record_of(cached))) and cached.exists():
            damaged = f"{cached} differs from what was downloaded ({why})"
            tried.append(damaged)
        elif (result := wanted.look(folder)) is not None:
            return result
        else:
            tried.append(f"{place} {folder}: {wanted.lacks(folder)}")
    if site:
        reason = "switched off"
        if download:
            if damaged:
                warnings.warn(f"{damaged}, and is downloaded again", stacklevel=2)
            try:
                fetch(site, places["cache"])
                reason = f"it holds no {site.name}"
            except Exception as error:  # from the network, archives, or the disk
                reason = str(error)
            # Another process may have been faster, so that this one could not rename its folder.
            cached = places["cache"] / site.name
            result = wanted.look(places["cache"])
            if result is not None and damage(cached, record_of(cached)) is None:
                return result
        tried.append(f"download {site.url}: {reason}")
    first = next(iter(places.values()))
    needed = " or ".join(f"{item} at {first / path}" for item, path in wanted.put)
    raise InputError(
        "\n  ".join([f"{wanted.headline}\ntried:", *tried])
        + f"\nto use it offline, put {needed} (or into any folder named by --data-dir or "
        f"GCL_HARD_DATA)\n{wanted.hint}"
    )


def fetch(site: Download, folder: Path) -> None:
    """Download into a temporary folder, check, unpack, rename: no partial set ever appears.

    Args:
        site: the download; an archive without the folder of its name leaves nothing.
        folder: folder that it appears in, created if needed.

    Raises:
        OSError: if it arrives incomplete, or cannot be written.
        InputError: for an archive that would unpack to far more than a data set.
        Exception: other errors of damaged archives.
    """
    with scratch_folder(folder) as scratch:
        whole = scratch / "download"  # a name that no set has
        if site.by is not None:
            site.by(whole)
        else:
            measured = _download(site.url, whole)
            _check(whole, site, measured=measured)
        if site.unpack:
            _unpack(whole, scratch / "unpacked")
            whole = scratch / "unpacked" / site.name
        path = folder / site.name
        faster = path.exists() and damage(path, record_of(path)) is None  # another process
        if whole.exists() and not faster:
            record(path, whole, site.url, pinned=bool(site.checksum))
            replace(whole, path)


class _Encrypted(urllib.request.HTTPRedirectHandler):
    """Refuses redirects from https to http."""

    def redirect_request(self, request: Any, *answer: Any) -> Any:
        target = str(answer[-1])
        if request.type == "https" and urlsplit(target).scheme != "https":
            raise OSError(f"the server redirects to {target}, which is not encrypted")
        return super().redirect_request(request, *answer)


def _download(url: str, file: Path) -> bool:
    """Download a file; returns whether the server stated its length."""
    from tqdm import tqdm

    request = urllib.request.Request(url, headers={"User-Agent": "gcl_hard"})
    opener = urllib.request.build_opener(_Encrypted)
    with opener.open(request, timeout=TIMEOUT) as answer, file.open("wb") as opened:
        size = int(answer.headers.get("Content-Length") or 0) or None
        measured = size is not None or getattr(answer, "chunked", False)
        got, began = 0, time.monotonic()
        with tqdm(total=size, desc=url, disable=None, unit="B", unit_scale=True) as bar:
            while part := answer.read1(2**20):
                got += len(part)
                opened.write(part)
                bar.update(len(part))
                seconds = time.monotonic() - began
                if seconds > PATIENCE and got / seconds < LEAST_SPEED:
                    raise OSError(f"{got:,} bytes arrived in {seconds:.0f} seconds: too slowly")
    if size and got != size:
        raise OSError(f"{got:,} of {size:,} bytes arrived")
    return measured


TEXTS = (".csv", ".txt")


def _check(file: Path, site: Download, *, measured: bool) -> None:
    """Check a file against its checksum, or those in an archive; any other needs its length."""
    with file.open("rb") as opened:
        start = opened.read(512).lstrip().lower()
    if not start:
        raise OSError("an empty file arrived")
    if start.startswith((b"<!doctype html", b"<html")):
        raise OSError("a web page arrived instead of the file: a login or a notice, perhaps")
    if site.name.endswith(TEXTS) and b"\0" in start:
        raise OSError("the file that arrived is not text")
    summed = site.checksum or site.unpack or zipfile.is_zipfile(file)
    if not (measured or summed):
        raise OSError("the server does not state its length: a part would pass for the whole")
    algorithm, _, expected = site.checksum.partition(":")
    if expected:
        with file.open("rb") as opened:
            new_hash = partial(hashlib.new, algorithm, usedforsecurity=False)
            got = hashlib.file_digest(opened, new_hash).hexdigest()
        if got != expected:
            raise OSError(f"it arrived corrupted: its {algorithm} is {got}, not {expected}")
    elif site.name.endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(f"{damaged} arrived damaged")


def _unpack(file: Path, folder: Path) -> None:
    """Unpack an archive, unless it is damaged, huge, or a member would land outside the folder."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as zipped:
            refuse_bomb(zipped, file)
            outside = [
                member
                for member in zipped.namelist()
                if member[0] == "/" or ".." in member.split("/")
            ]
            if outside:
                raise OSError(f"its member {outside[0]} is outside the archive's folder")
            zipped.extractall(folder)
    elif tarfile.is_tarfile(file):
        with tarfile.open(file) as packed:
            refuse_bomb(packed, file)
            while packed.fileobj and packed.fileobj.read(2**20):
                pass  # to the end, where gzip has its checksum
            packed.extractall(folder, filter="data")
    else:
        raise OSError("the file that arrived is neither a zip nor a tar file")
