"""Sizes and digests of what the cache keeps, compared before it is used.

A folder that the cache makes has a file ``.contents.json``; a download NAME has ``.NAME.json``
beside it. Sizes are compared whenever it is opened, digests once in a process for as long as a
file is not written anew. What does not fit is made or downloaded again.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gcl_hard.errors import InputError
from gcl_hard.files.io import Seen, atomic_folder, scratch_folder, write_json

CONTENTS = ".contents.json"
"""File of a folder with what is in it."""
_compared: dict[Path, dict[str, Seen | None]] = {}
"""Files whose digests were compared by this process, as they were then."""


class MadeAgain(UserWarning):
    """Said of this machine's cache and not of the data, whose notes stand in results."""


def kept_folder(path: Path, make: Callable[[Path], None]) -> Path:
    """A folder of the cache; it is made where it is not there, or not what was made.

    Args:
        path: the folder.
        make: fills a folder, which then appears under this path.

    Returns:
        The path.

    Raises:
        InputError: if it cannot be written; names it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     folder = kept_folder(Path(root) / "set", lambda new: (new / "a").touch())
        ...     sorted(one.name for one in folder.iterdir())
        ['.contents.json', 'a']
    """
    if path.is_dir():
        why = damage(path, path / CONTENTS)
        if why is None:
            return path
        warnings.warn(f"{path} is made again: {why}", MadeAgain, stacklevel=2)
        _remove(path, why)
    with atomic_folder(path) as new:
        make(new)
        write_json({"files": _digests(new)}, new / CONTENTS)
    return path


def record_of(path: Path) -> Path:
    """The file with what is known of a download: its address, date, digest and files."""
    return path.with_name(f".{path.name}.json")


def record(path: Path, made: Path, url: str, *, pinned: bool) -> None:
    """Note what arrived, or compare it with what arrived from there before.

    Args:
        path: where it will be.
        made: where it is.
        url: where it is from.
        pinned: whether it has been compared with a published checksum.

    Raises:
        OSError: if it is not what arrived before.
    """
    note, files = record_of(path), _digests(made)
    digest = _content_digest(made, files)
    before = _stated(note)
    if not pinned and before.get("url") == url and before.get("sha256") not in (None, digest):
        raise OSError(
            f"its content (SHA-256 {digest}) is not what arrived on {before.get('date')} "
            f"({before['sha256']}): if it was published anew, remove {note} and repeat the command"
        )
    date = time.strftime("%Y-%m-%d", time.gmtime())
    write_json({"url": url, "date": date, "sha256": digest, "files": files}, note)


def _content_digest(path: Path, files: dict[str, list[Any]]) -> str:
    """SHA-256 of a file, or of the names and digests of the files in a folder or a zip archive.

    Archives that are packed anew have the same files and other bytes.
    """
    if path.is_dir():
        found = {name: digest for name, (_, digest) in files.items()}
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = sorted(one for one in archive.namelist() if not one.endswith("/"))
            found = {one: hashlib.sha256(archive.read(one)).hexdigest() for one in names}
    else:
        return str(files[""][1])
    lines = "\n".join(f"{name} {digest}" for name, digest in found.items())
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def damage(path: Path, note: Path) -> str | None:
    """How a file or folder differs from what was noted of it; None if not, or nothing was noted.

    Args:
        path: the file or folder.
        note: :data:`CONTENTS` of a folder, without which it is no whole one, or
            :func:`record_of` a download, which may have been put there by hand.
    """
    files = _stated(note).get("files")
    if not isinstance(files, dict):
        return f"it has no {CONTENTS}" if note.name == CONTENTS else None
    seen = {name: Seen.of(path / name if name else path) for name in files}
    for name, (size, _) in files.items():
        got = seen[name]
        if got is None:
            return f"it lacks {name or path.name}"
        if got.size != size:
            return f"{name or path.name} has {got.size:,} bytes, not {size:,}"
    if _compared.get(note) != seen:
        for name, (_, digest) in files.items():
            if _sha256(path / name if name else path) != digest:
                return f"{name or path.name} is not what was written"
        _compared[note] = seen
    return None


def _stated(note: Path) -> dict[str, Any]:
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _digests(path: Path) -> dict[str, list[Any]]:
    """Size and SHA-256 of a file, under an empty name, or of the files in a folder."""
    files = {"": path} if path.is_file() else {
        one.relative_to(path).as_posix(): one
        for one in sorted(path.rglob("*")) if one.is_file() and one.name != CONTENTS
    }  # fmt: skip
    return {name: [file.stat().st_size, _sha256(file)] for name, file in files.items()}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(path: Path, why: str) -> None:
    try:
        with scratch_folder(path.parent) as scratch:
            path.rename(scratch / path.name)
    except OSError as error:
        raise InputError(
            f"{path} is damaged ({why}) and cannot be removed ({error.strerror}): remove it"
        ) from error


def replace(new: Path, path: Path) -> None:
    """Give a file or folder its name, in place of one that is damaged."""
    if path.is_dir():
        _remove(path, "it is replaced")
    new.replace(path)
