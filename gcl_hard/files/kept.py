"""Sizes and digests of cached files, checked before use.

A folder that the cache makes has a file ``.contents.json``; a download NAME has ``.NAME.json``
beside it. Sizes are checked on every use, digests once per process unless a file is rewritten.
Damaged content is made or downloaded again.
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
"""File that lists the content of its folder."""
_compared: dict[Path, dict[str, Seen | None]] = {}
"""Files whose digests this process has checked, with their identity then."""


class MadeAgain(UserWarning):
    """A note on this machine's cache, unlike notes on the data, which results record."""


def kept_folder(path: Path, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, made if it is missing or damaged.

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
        ...     sorted(path.name for path in folder.iterdir())
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
    """The file with the record of a download: its address, date, digest and files."""
    return path.with_name(f".{path.name}.json")


def record(path: Path, source: Path, url: str, *, pinned: bool) -> None:
    """Record a download, or compare it with an earlier one from the same address.

    Args:
        path: its final path.
        source: its current path.
        url: its address.
        pinned: whether it has been checked against a published checksum.

    Raises:
        OSError: if it differs from the earlier download.
    """
    note, files = record_of(path), _digests(source)
    digest = _content_digest(source, files)
    before = _stated(note)
    if not pinned and before.get("url") == url and before.get("sha256") not in (None, digest):
        raise OSError(
            f"its content (SHA-256 {digest}) differs from that of {before.get('date')} "
            f"({before['sha256']}): if it was published anew, remove {note} and repeat the command"
        )
    date = time.strftime("%Y-%m-%d", time.gmtime())
    write_json({"url": url, "date": date, "sha256": digest, "files": files}, note)


def _content_digest(path: Path, files: dict[str, list[Any]]) -> str:
    """SHA-256 of a file, or of the names and digests of the files in a folder or a zip archive.

    Repacked archives have the same files but other bytes.
    """
    if path.is_dir():
        digests = {name: digest for name, (_, digest) in files.items()}
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if not name.endswith("/"))
            digests = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}
    else:
        return str(files[""][1])
    lines = "\n".join(f"{name} {digest}" for name, digest in digests.items())
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def damage(path: Path, note: Path) -> str | None:
    """How a file or folder differs from its record; None if it does not, or has no record.

    Args:
        path: the file or folder.
        note: :data:`CONTENTS` of a folder, without which it is incomplete, or
            :func:`record_of` a download, which may have been put there by hand.
    """
    files = _stated(note).get("files")
    if not isinstance(files, dict):
        return f"it has no {CONTENTS}" if note.name == CONTENTS else None
    seen = {name: Seen.of(path / name if name else path) for name in files}
    for name, (size, _) in files.items():
        current = seen[name]
        if current is None:
            return f"it lacks {name or path.name}"
        if current.size != size:
            return f"{name or path.name} has {current.size:,} bytes, not {size:,}"
    if _compared.get(note) != seen:
        for name, (_, digest) in files.items():
            if _sha256(path / name if name else path) != digest:
                return f"{name or path.name} is not what was written"
        _compared[note] = seen
    return None


def _stated(note: Path) -> dict[str, Any]:
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _digests(path: Path) -> dict[str, list[Any]]:
    """Size and SHA-256 of a file, under an empty name, or of the files in a folder."""
    files = {"": path} if path.is_file() else {
        file.relative_to(path).as_posix(): file
        for file in sorted(path.rglob("*")) if file.is_file() and file.name != CONTENTS
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
    """Move a file or folder to its path, in place of a damaged one."""
    if path.is_dir():
        _remove(path, "it is replaced")
    new.replace(path)
